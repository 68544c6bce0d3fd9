"""Eight attacks are refused for the reason that PROTOCOL 8 names; the ninth is not, offline."""

import pytest

from aioum.run.capsule import Capsule
from aioum.run.event import Header
from aioum.run.forgery import ATTACKS, MIN_EVENTS, Attack, Means, reseal
from aioum.run.seal import read_seal
from aioum.run.verification import verify_capsule
from tests.unit.run.samples import OWNER, STRANGER, sealed, trusting

HONEST = sealed(MIN_EVENTS)
MEANS = Means(
    HONEST, sealed(MIN_EVENTS, header=Header("run-0002", 1_760_000_000_000, "agent://demo")), STRANGER
)

EXPECTED = {
    "rewrite-output": "leaf-hash-mismatch",
    "delete-event": "event-count-mismatch",
    "insert-event": "event-count-mismatch",
    "reorder": "chain-break",
    "truncate": "chain-head-mismatch",
    "downgrade-hash": "leaf-hash-mismatch",
    "other-key": "signature-invalid",
    "other-seal": "chain-break",
}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_an_attack_without_the_owners_key_is_refused_by_name(attack: Attack) -> None:
    verdict = verify_capsule(attack.forge(MEANS), trusting(OWNER))
    assert verdict.reason == attack.reason == EXPECTED[attack.name]


def test_the_eight_attacks_of_the_protocol_are_there_and_the_honest_run_verifies() -> None:
    assert {attack.name for attack in ATTACKS} == EXPECTED.keys()
    assert verify_capsule(HONEST.to_bytes(), trusting(OWNER)).reason is None


def test_a_run_rebuilt_and_sealed_again_by_its_owner_still_verifies_and_only_a_pin_shows_it() -> None:
    rebuilt: Capsule = reseal(HONEST, 1, bytes(32), [OWNER])
    assert rebuilt.events[1].event.output != HONEST.events[1].event.output
    assert verify_capsule(rebuilt.to_bytes(), trusting(OWNER)).reason is None
    root = read_seal(HONEST.envelope.payload).root
    pinned = verify_capsule(rebuilt.to_bytes(), trusting(OWNER), pinned_root=root)
    assert pinned.reasons == ("pinned-root-mismatch",)
