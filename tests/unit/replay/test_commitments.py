import json
from pathlib import Path
from typing import Any

import pytest

from aioum.core.errors import InvalidInput
from aioum.replay.commitments import CommitmentBinding, check_commitments
from tests.unit.replay.recorded import SALT, Run

BINDING = CommitmentBinding("s", "alpha", 0, 0)


def problems(run: Run, *, refuse_repeated: bool = False) -> list[str]:
    found = check_commitments(run.artifact(), refuse_repeated=refuse_repeated)
    return [problem.code for problem in found.problems]


def diagnostics(run: Run) -> list[str]:
    found = check_commitments(run.artifact(), refuse_repeated=False)
    return [problem.code for problem in found.diagnostics]


def test_published_vectors_are_reproduced_byte_by_byte(shared_vectors_dir: Path) -> None:
    vectors = json.loads(
        (shared_vectors_dir / "gaos/commitment/gaos.commit.sha256.v1.vectors.json").read_text("utf-8")
    )
    assert len(vectors) == 4
    for vector in vectors:
        names = vector["binding"]
        binding = CommitmentBinding(
            names["sessionId"], names["seat"], names["commitmentId"], names["windowRef"]
        )
        salt = bytes.fromhex(vector["salt"])
        assert binding.preimage(salt, vector["payload"]).hex() == vector["preimageHex"]
        assert binding.hash(salt, vector["payload"]).hex() == vector["hash"]


@pytest.mark.parametrize(
    "binding",
    [
        CommitmentBinding("s" * 129, "alpha", 0, 0),
        CommitmentBinding("s", "a" * 65, 0, 0),
        CommitmentBinding("s", "alpha", 2**32, 0),
        CommitmentBinding("s", "alpha", -1, 0),
    ],
)
def test_a_binding_outside_of_its_limits_is_refused(binding: CommitmentBinding) -> None:
    with pytest.raises(InvalidInput) as caught:
        binding.hash(bytes(16), None)
    assert caught.value.code == "commitment-invalid"


@pytest.mark.parametrize("salt", [bytes(15), bytes(65)])
def test_a_salt_has_16_to_64_bytes(salt: bytes) -> None:
    with pytest.raises(InvalidInput) as caught:
        BINDING.hash(salt, None)
    assert caught.value.code == "commitment-invalid"


@pytest.mark.parametrize("size, fits", [(65_534, True), (65_535, False)])
def test_a_payload_has_at_most_64_kib_of_canonical_json(size: int, fits: bool) -> None:
    if fits:
        assert len(BINDING.hash(bytes(16), "x" * size)) == 32
        return
    with pytest.raises(InvalidInput) as caught:
        BINDING.hash(bytes(16), "x" * size)
    assert caught.value.code == "commitment-invalid"


def test_a_reveal_opens_the_commitment_of_its_seat() -> None:
    run = Run()
    run.commit(run.commitment({"bid": 7}))
    run.reveal({"bid": 7})
    assert problems(run) == []


def test_a_wrong_reveal_is_a_mismatch() -> None:
    run = Run()
    run.commit(run.commitment({"bid": 7}))
    run.reveal({"bid": 8})
    assert problems(run) == ["commitment-mismatch"]


def test_a_commitment_does_not_move_to_another_window() -> None:
    run = Run(goals=(9,))
    elsewhere = run.commitment(7)
    run.call()
    run.commit(elsewhere)
    run.reveal(7)
    assert problems(run) == ["commitment-mismatch"]


def test_commitments_of_a_seat_are_numbered_from_zero_in_each_level() -> None:
    run = Run(goals=(9, 9))
    run.commit(run.commitment(1, commitment_id=1), commitment_id=1)
    run.next_level()
    run.commit(run.commitment(2))
    run.commit(run.commitment(3, commitment_id=1), commitment_id=1)
    assert problems(run) == ["commitment-order"]


def test_a_reveal_needs_a_commitment() -> None:
    run = Run()
    run.reveal(7)
    assert problems(run) == ["commitment-unknown"]


def test_a_commitment_is_revealed_once() -> None:
    run = Run()
    run.commit(run.commitment(7))
    run.reveal(7)
    run.reveal(7)
    assert problems(run) == ["commitment-reused"]


def test_a_commitment_of_nobody_is_refused() -> None:
    run = Run()
    given = run.commit(run.commitment(7))["inputs"][0]
    del given["seat"]
    assert problems(run) == ["commitment-seat-missing"]


def test_a_session_id_too_long_for_commitments_is_said() -> None:
    run = Run(session_id="s" * 129)
    run.commit("00" * 32)
    run.reveal(7)
    assert problems(run) == ["commitment-invalid"]
    run.lines[1:] = []
    run.mismatch(8, tick=1)
    assert problems(run) == ["commitment-invalid"]


def test_a_refused_reveal_that_does_not_open_the_commitment_is_worth_a_note() -> None:
    run = Run()
    run.commit(run.commitment(7))
    run.mismatch(8)
    run.reveal(7)
    assert problems(run) == []
    assert diagnostics(run) == ["mismatch-verified"]


def test_a_refused_reveal_that_opens_the_commitment_is_a_problem() -> None:
    run = Run()
    run.commit(run.commitment(7))
    run.mismatch(7)
    assert problems(run) == ["mismatch-actually-matches"]


@pytest.mark.parametrize("tick", [0, 2])
def test_a_refused_reveal_stands_at_the_open_tick(tick: int) -> None:
    run = Run()
    run.commit(run.commitment(7))
    run.mismatch(8, tick=tick)
    assert problems(run) == ["mismatch-tick"]


def test_a_refused_reveal_needs_an_open_commitment() -> None:
    run = Run()
    run.mismatch(8)
    assert problems(run) == ["commitment-unknown"]
    run = Run()
    run.commit(run.commitment(7))
    run.reveal(7)
    run.mismatch(7)
    assert problems(run) == ["commitment-reused"]


def test_a_refused_reveal_that_was_left_out_cannot_be_checked_and_is_said() -> None:
    run = Run()
    run.commit(run.commitment(7))
    del run.mismatch(8)["attemptedReveal"]
    found = check_commitments(run.artifact(visibility="seat:beta"), refuse_repeated=False)
    assert [each.code for each in found.diagnostics] == ["mismatch-not-recheckable"]
    assert found.problems == ()


def two_levels_with_one_commitment() -> Run:
    run = Run(goals=(9, 9))
    hash_hex = run.commitment(7)
    run.commit(hash_hex)
    run.reveal(7)
    run.next_level()
    run.commit(hash_hex)
    run.reveal(7)
    return run


def test_a_revealed_commitment_is_not_made_again_in_the_next_level() -> None:
    run = two_levels_with_one_commitment()
    assert problems(run) == []
    assert problems(run, refuse_repeated=True) == ["commitment-repeated"]


def test_a_salt_that_was_used_before_is_worth_a_note() -> None:
    assert diagnostics(two_levels_with_one_commitment()) == ["salt-reused"]


def test_actions_carry_commitments_too() -> None:
    run = Run()
    hash_hex = run.commitment(7)
    commit: dict[str, Any] = {"commitmentId": 0, "hash": hash_hex, "scheme": "gaos.commit.sha256.v1"}
    run.action()
    run.lines[0] |= {"commit": commit}
    run.action()
    run.lines[1] |= {"reveal": {"commitmentId": 0, "salt": SALT, "payload": 8}}
    assert problems(run) == ["commitment-mismatch"]
