"""A run in reading order, whatever its recorder wrote."""

from dataclasses import replace

from aioum.run.event import Event
from aioum.run.timeline import MAX_BRANCHES, timeline
from tests.unit.run.samples import events


def with_parents(*parents: int | None) -> list[Event]:
    return [
        replace(event, parent=parent) for event, parent in zip(events(len(parents)), parents, strict=True)
    ]


def drawn(*parents: int | None) -> list[tuple[int, tuple[bool, ...]]]:
    return [(line.event.index, line.lasts) for line in timeline(with_parents(*parents))]


def test_events_stand_below_their_span_by_index() -> None:
    assert drawn(None, 0, 1, 0, None) == [
        (0, ()),
        (1, (False,)),
        (2, (False, True)),
        (3, (True,)),
        (4, ()),
    ]


def test_a_span_that_was_recorded_after_its_events_stands_above_them() -> None:
    assert drawn(2, 2, None) == [(2, ()), (0, (False,)), (1, (True,))]


def test_an_event_whose_parent_is_not_there_stands_alone() -> None:
    assert drawn(None, 99) == [(0, ()), (1, ())]


def test_events_in_a_circle_are_all_shown_once() -> None:
    assert sorted(index for index, _ in drawn(1, 0, 3, 2, None)) == [0, 1, 2, 3, 4]


def test_a_run_can_be_as_deep_as_it_is_long() -> None:
    event = events(1)[0]
    deep = [event, *(replace(event, index=index, parent=index - 1) for index in range(1, 20_000))]
    lines = timeline(deep)
    assert (lines[-1].event.index, lines[-1].depth) == (19_999, 19_999)
    assert max(len(line.lasts) for line in lines) == MAX_BRANCHES
