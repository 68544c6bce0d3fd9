"""Whether signatures cover a seat's submissions in time: on each, or on the chain's head within N ticks."""

from __future__ import annotations

from aioum.replay.problems import Problem


class SeatCoverage:
    """What of one seat's submissions still waits for a signature, in the order of the artifact.

    A signature covers everything that its seat submitted before it, for the head in it does. Each submission
    is looked at once, so the time is linear in their number.
    """

    __slots__ = ("_failure", "_seat", "_tier", "_waiting")

    def __init__(self, seat: str, tier: int) -> None:
        """Args: seat: its name. tier: N, the most ticks that a submission may wait for a signature."""
        self._seat = seat
        self._tier = tier
        self._waiting: list[tuple[int, int]] = []
        self._failure: Problem | None = None

    def submitted(self, level_index: int, tick: int) -> None:
        """A submission was made; its own signature, if there is one, follows as `signed`."""
        self._waiting.append((level_index, tick))

    def signed(self, level_index: int, tick: int) -> None:
        """A valid signature over the seat's current head was given."""
        if self._failure is None:
            self._judge(level_index, tick)
        self._waiting.clear()

    def failure(self) -> Problem | None:
        """The first submission that is not covered, or None. To be asked at the end."""
        if self._failure is None and self._waiting:
            level_index, tick = self._waiting[0]
            self._fail("uncovered-submission", f"{_place(level_index, tick)} has no signature over its head")
        return self._failure

    def _judge(self, signed_level: int, signed_tick: int) -> None:
        for level_index, tick in self._waiting:
            if level_index != signed_level:
                self._fail("level-boundary-unsigned", f"level {level_index} ends with an unsigned head")
                return
            if signed_tick - tick > self._tier:
                self._fail(
                    "tier-exceeded",
                    f"{_place(level_index, tick)} is signed at tick {signed_tick}, "
                    f"more than {self._tier} ticks later",
                )
                return

    def _fail(self, code: str, message: str) -> None:
        self._failure = Problem(code, message, f"seat {self._seat}")


def _place(level_index: int, tick: int) -> str:
    return f"the submission at level {level_index}, tick {tick},"
