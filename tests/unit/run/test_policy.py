from collections.abc import Callable

import pytest

from aioum.core.errors import AioumError
from aioum.run.keys import ED25519, ML_DSA_65
from aioum.run.policy import SealPolicy, TrustedKey
from aioum.run.verification import Reason, verify_read_capsule
from tests.unit.run.samples import OWNER, OWNER_ML_DSA, STRANGER, sealed, trusting

KEY = TrustedKey(ED25519, OWNER.public_key)


def reasons(policy: SealPolicy, *keys: object, log_index: int | None = None) -> tuple[Reason, ...]:
    return verify_read_capsule(sealed(2, *keys), policy, log_index=log_index).reasons  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [
        lambda: TrustedKey("RSA", b"key"),
        lambda: TrustedKey(ED25519, b"key", first_index=-1),
        lambda: TrustedKey(ED25519, b"key", first_index=5, last_index=4),
        lambda: SealPolicy((KEY,), threshold=0),
        lambda: SealPolicy((KEY,), threshold=2),
        lambda: SealPolicy((KEY, KEY), threshold=2),
        lambda: SealPolicy((KEY, TrustedKey(ML_DSA_65, OWNER.public_key))),
        lambda: SealPolicy(()),
        lambda: SealPolicy((KEY,), require=frozenset((ML_DSA_65,))),
        lambda: SealPolicy(require=frozenset(("none",))),
    ],
)
def test_a_policy_that_could_not_be_meant_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(AioumError) as caught:
        make()
    assert caught.value.code == "run-policy-invalid"


def test_a_quorum_is_met_by_so_many_different_trusted_keys() -> None:
    policy = trusting(OWNER, OWNER_ML_DSA, STRANGER, threshold=2)
    assert reasons(policy, OWNER, STRANGER) == ()
    assert reasons(policy, OWNER, OWNER_ML_DSA, STRANGER) == ()
    assert reasons(policy, OWNER) == ("signature-missing",)


def test_a_key_that_is_not_trusted_does_not_count_and_does_not_harm() -> None:
    assert reasons(trusting(OWNER), OWNER, STRANGER) == ()
    assert reasons(trusting(OWNER, OWNER_ML_DSA, threshold=2), OWNER, STRANGER) == ("key-untrusted",)
    assert reasons(trusting(OWNER), STRANGER) == ("key-untrusted",)


def test_without_trusted_keys_any_key_is_taken_and_none_is_called_trusted() -> None:
    verdict = verify_read_capsule(sealed(2, STRANGER), SealPolicy())
    assert verdict.reason is None
    assert [(fact.signed, fact.trusted) for fact in verdict.signers] == [(True, False)]
    assert reasons(SealPolicy(threshold=2), STRANGER) == ("signature-missing",)


def test_both_algorithms_can_be_required() -> None:
    both = trusting(OWNER, OWNER_ML_DSA, require=["Ed25519", "ML-DSA-44"])
    assert reasons(both, OWNER, OWNER_ML_DSA) == ()
    assert reasons(both, OWNER) == ("signature-missing",)
    assert reasons(both, OWNER_ML_DSA) == ("signature-missing",)
    assert reasons(both, STRANGER, OWNER_ML_DSA) == ("key-untrusted",)
    assert reasons(SealPolicy(require=frozenset(("ML-DSA-65",))), OWNER, OWNER_ML_DSA) == (
        "signature-missing",
    )


@pytest.mark.parametrize(
    ("log_index", "expected"),
    [(None, ("key-untrusted",)), (9, ("key-untrusted",)), (10, ()), (20, ()), (21, ("key-untrusted",))],
)
def test_a_bounded_key_is_trusted_inside_its_stretch_of_the_log_only(
    log_index: int | None, expected: tuple[str, ...]
) -> None:
    policy = SealPolicy((TrustedKey(ED25519, OWNER.public_key, first_index=10, last_index=20),))
    assert reasons(policy, OWNER, log_index=log_index) == expected


def test_a_bound_on_one_side_leaves_the_other_open() -> None:
    retired = SealPolicy((TrustedKey(ED25519, OWNER.public_key, last_index=20),))
    new = SealPolicy((TrustedKey(ED25519, OWNER.public_key, first_index=21),))
    assert reasons(retired, OWNER, log_index=0) == ()
    assert reasons(retired, OWNER, log_index=21) == ("key-untrusted",)
    assert reasons(new, OWNER, log_index=20) == ("key-untrusted",)
    assert reasons(new, OWNER, log_index=2**40) == ()


def test_a_key_is_trusted_for_the_algorithm_that_was_said() -> None:
    policy = SealPolicy((TrustedKey(ML_DSA_65, OWNER.public_key),))
    assert reasons(policy, OWNER) == ("key-untrusted",)
