"""When a node takes calls."""

from aioum_node.readiness import Readiness


def test_node_is_ready_when_every_named_condition_holds() -> None:
    readiness = Readiness(lambda: 100.0)
    assert readiness.missing() == []

    readiness.require("store")
    readiness.require("chain")
    readiness.met("store")
    assert readiness.missing() == ["chain"]

    readiness.met("chain")
    assert readiness.missing() == []


def test_condition_that_holds_for_a_time_is_missing_after_it() -> None:
    now = [100.0]
    readiness = Readiness(lambda: now[0])
    readiness.met("chain", for_seconds=60)

    now[0] = 159.9
    assert readiness.missing() == []
    now[0] = 160.0
    assert readiness.missing() == ["chain"]
    readiness.met("chain", for_seconds=60)
    assert readiness.missing() == []


def test_condition_that_fails_is_missing_at_once() -> None:
    readiness = Readiness(lambda: 0.0)
    readiness.met("running")

    readiness.unmet("running")

    assert readiness.missing() == ["running"]


def test_a_condition_that_is_looked_at_counts_beside_what_was_said_of_it() -> None:
    writable = [True]
    readiness = Readiness(lambda: 0.0)
    readiness.require_while("store", lambda: writable[0])
    assert readiness.missing() == []

    writable[0] = False
    readiness.met("store")
    assert readiness.missing() == ["store"]

    writable[0] = True
    readiness.unmet("store")
    assert readiness.missing() == ["store"]
