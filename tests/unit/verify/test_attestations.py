import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from aioum.core.errors import ConfigError
from aioum.core.evidence import disclose
from aioum.core.transcript import Entry
from aioum.verify.grounds import Grounds
from aioum.verify.hooks import Attestation, AttestationRejected, VerifyHooks, installed_hooks
from aioum.verify.report import Check, Status
from tests.unit.verify.honest import Honest, edited, judge

HONEST = Honest()


class LengthVerifier:
    """Accepts a payload with as many bytes as there are covered calls."""

    def __init__(self) -> None:
        self.seen: list[tuple[Attestation, list[int]]] = []

    async def verify(self, attestation: Attestation, calls: Sequence[Entry], grounds: Grounds) -> str:
        self.seen.append((attestation, [call.index for call in calls]))
        if attestation.format == "broken":
            raise ZeroDivisionError("a fault of the verifier")
        if len(attestation.payload) != len(calls):
            raise AttestationRejected(f"{len(attestation.payload)} bytes for {len(calls)} calls")
        return f"{len(calls)} calls ran in the enclave."


def attestation(**members: Any) -> dict[str, Any]:
    return {"type": "length", "format": "v1", "payload": "AAEC", "coverage": [4, 0, 1], **members}


async def attestations(*values: Any, verifier: LengthVerifier | None = None, whole: bool = True) -> Check:
    package = HONEST.package() if whole else disclose(HONEST.package(), [1, 4])
    hooks = VerifyHooks({"length": verifier or LengthVerifier()})
    report = await judge(
        edited(package, lambda package: package.update(attestations=list(values))),
        HONEST.chain(),
        hooks=hooks,
    )
    return next(check for check in report.checks if check.name == "attestations")


async def test_a_registered_verifier_gets_the_decoded_payload_and_the_covered_calls() -> None:
    verifier = LengthVerifier()

    check = await attestations(attestation(note="n"), verifier=verifier)

    assert check.status is Status.PASS
    assert check.summary == "3 calls ran in the enclave."
    assert verifier.seen == [(Attestation("length", "v1", b"\x00\x01\x02", (0, 1, 4), "n"), [0, 1, 4])]


async def test_absent_coverage_means_every_call_of_the_package() -> None:
    everything = attestation(payload="AAECAwQF")
    del everything["coverage"]
    shown = {**everything, "payload": "AAE="}

    assert (await attestations(everything)).status is Status.PASS
    assert (await attestations(shown, whole=False)).status is Status.PASS


async def test_a_rejected_attestation_fails() -> None:
    check = await attestations(attestation(), attestation(payload="AA=="))

    assert (check.status, check.codes) == (Status.FAIL, ("attestation-rejected",))


async def test_one_that_nobody_verifies_keeps_the_row_open_whatever_the_others_prove() -> None:
    check = await attestations(attestation(), attestation(type="tee-nitro"))

    assert (check.status, check.codes) == (Status.NOT_APPLICABLE, ("attestation-unverified",))
    assert check.summary.startswith("UNVERIFIED")
    assert check.details["proven"] == ["3 calls ran in the enclave."]


async def test_a_verifier_that_breaks_proves_nothing_and_hides_nothing() -> None:
    check = await attestations(attestation(format="broken"))

    assert (check.status, check.codes) == (Status.NOT_APPLICABLE, ("attestation-verifier-failed",))


async def test_calls_that_are_not_well_formed_are_not_handed_to_a_verifier() -> None:
    verifier = LengthVerifier()
    package = edited(
        HONEST.package(attestations=[attestation()]), lambda package: package["calls"][0].update(index=3)
    )

    report = await judge(package, HONEST.chain(), hooks=VerifyHooks({"length": verifier}))

    check = next(check for check in report.checks if check.name == "attestations")
    assert check.codes == ("transcript-invalid",)
    assert verifier.seen == []


@pytest.mark.parametrize(
    "value",
    [
        "quote", {}, attestation(type=""), attestation(type=1), attestation(format=None),
        attestation(payload="not base64!"), attestation(payload="é"), attestation(payload=None),
        attestation(note=1),
        attestation(coverage="all"), attestation(coverage=["0"]), attestation(coverage=[True]),
    ],
)  # fmt: skip
async def test_a_malformed_attestation_fails(value: Any) -> None:
    check = await attestations(value)

    assert (check.status, check.codes) == (Status.FAIL, ("attestation-malformed",))


@pytest.mark.parametrize("coverage, whole", [([6], True), ([-1], True), ([0], False)])
async def test_coverage_outside_the_calls_fails(coverage: list[int], whole: bool) -> None:
    check = await attestations(attestation(coverage=coverage), whole=whole)

    assert (check.status, check.codes) == (Status.FAIL, ("attestation-coverage-outside",))


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that Python sees as an installed distribution with entry points."""
    info = tmp_path / "enclave_proofs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: enclave-proofs\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield info
    sys.modules.pop("enclave_proofs", None)


def register(info: Path, *lines: str) -> None:
    text = "[aioum.attestation_verifiers]\n" + "\n".join(lines) + "\n"
    (info / "entry_points.txt").write_text(text)


async def test_a_verifier_registered_by_an_entry_point_is_found(distribution: Path) -> None:
    (distribution.parent / "enclave_proofs.py").write_text(
        "class Verifier:\n"
        "    async def verify(self, attestation, calls, grounds):\n"
        "        return f'{len(calls)} calls of {grounds.session.session_id} proven'\n"
        "ready = Verifier()\n"
    )
    register(distribution, "length = enclave_proofs:Verifier", "instance = enclave_proofs:ready")

    hooks = installed_hooks()
    report = await judge(
        HONEST.package(attestations=[attestation(), attestation(type="instance")]),
        HONEST.chain(),
        hooks=hooks,
    )

    check = next(check for check in report.checks if check.name == "attestations")
    assert check.status is Status.PASS
    assert check.details["proven"] == ["3 calls of 42 proven"] * 2


def test_an_entry_point_that_does_not_load_is_an_error_of_the_installation(distribution: Path) -> None:
    register(distribution, "length = enclave_proofs:Absent")

    with pytest.raises(ConfigError) as refusal:
        installed_hooks()

    assert refusal.value.code == "attestation-verifier-unusable"


def test_aioum_itself_registers_no_verifier() -> None:
    assert installed_hooks().attestation_verifiers == {}
