"""Showing chosen events and contents of a sealed run, and nothing else."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aioum.core.canonical import canonical_bytes
from aioum.core.errors import AioumError, InvalidInput
from aioum.run.capsule import Capsule
from aioum.run.disclosure import Disclosure, Opening, disclose, read_disclosure
from aioum.run.disclosure_verification import DisclosureVerdict, verify_disclosure
from aioum.run.event import Kind
from aioum.run.opening import openings
from aioum.run.recorder import Run
from aioum.run.salts import Side
from tests.unit.run.samples import OWNER, STRANGER, sealed, trusting


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a run that kept its contents."""
    return record(tmp_path_factory.mktemp("runs") / "kept", keep_contents=True)


@pytest.fixture(scope="module")
def capsule(folder: Path) -> Capsule:
    return seal(folder)


def record(folder: Path, **options: Any) -> Path:
    with Run.start(folder, agent="agent://secretive", **options) as run:
        for number in range(7):
            run.record(
                Kind.TOOL_CALL, f"tool {number}", input=f"question {number}", output=f"answer {number}"
            )
    return folder


def seal(folder: Path) -> Capsule:
    with Run.resume(folder) as run:
        return run.seal(OWNER)


def judged(disclosure: Disclosure | bytes, **options: Any) -> DisclosureVerdict:
    data = disclosure if isinstance(disclosure, bytes) else disclosure.to_bytes()
    return verify_disclosure(data, trusting(OWNER), **options)


def altered(disclosure: Disclosure, change: Callable[[Any], None]) -> bytes:
    file = json.loads(disclosure.to_bytes())
    change(file)
    return canonical_bytes(file)


def test_every_choice_of_events_verifies(capsule: Capsule) -> None:
    for chosen in range(1, 1 << 7):
        indexes = [index for index in range(7) if chosen >> index & 1]
        verdict = judged(disclose(capsule, indexes))
        assert verdict.reason is None
        assert [shown.event.index for shown in verdict.disclosure.events] == indexes


def test_chosen_contents_are_opened_and_all_others_stay_hidden(folder: Path, capsule: Capsule) -> None:
    opened = openings(folder, capsule, {(2, Side.INPUT): None, (4, Side.OUTPUT): None})
    disclosure = disclose(capsule, [5], opened)
    verdict = judged(disclosure)
    assert verdict.reason is None
    shown = {
        (each.event.index, side): opening.content
        for each in verdict.disclosure.events
        for side, opening in each.openings.items()
    }
    assert shown == {(2, Side.INPUT): b"question 2", (4, Side.OUTPUT): b"answer 4"}
    assert [each.event.index for each in verdict.disclosure.events] == [2, 4, 5]
    data = disclosure.to_bytes()
    hidden = openings(folder, capsule, {(index, side): None for index in range(7) for side in Side})
    for key, opening in hidden.items():
        assert (opening.salt.hex().encode() in data) is (key in opened)
    for index in (0, 1, 3, 6):
        event = capsule.events[index].event
        for private in (event.name, event.input.hex(), event.output.hex()):
            assert private.encode() not in data


def test_contents_that_were_not_kept_are_handed_in_and_have_to_be_the_same(tmp_path: Path) -> None:
    folder = record(tmp_path / "run")
    capsule = seal(folder)
    opened = openings(folder, capsule, {(1, Side.OUTPUT): b"answer 1"})
    assert judged(disclose(capsule, (), opened)).reason is None
    for given, expected in ((None, "content-not-kept"), (b"answer 2", "content-mismatch")):
        with pytest.raises(InvalidInput) as error:
            openings(folder, capsule, {(1, Side.OUTPUT): given})
        assert error.value.code == expected


def test_a_content_of_a_span_is_opened_like_any_other(tmp_path: Path) -> None:
    with Run.start(tmp_path / "run", agent="a", keep_contents=True) as run:
        with run.span(Kind.SUB_AGENT, "agent", input={"task": 1}) as span:
            span.output([True, None])
        capsule = run.seal(OWNER)
    opened = openings(tmp_path / "run", capsule, {(0, side): None for side in Side})
    assert [opened[0, side].content for side in Side] == [b'{"task":1}', b"[true,null]"]


def test_a_capsule_of_another_run_is_not_opened_with_this_ones_secrets(
    folder: Path, capsule: Capsule, tmp_path: Path
) -> None:
    other = seal(record(tmp_path / "other"))
    with pytest.raises(InvalidInput) as error:
        openings(folder, other, {(0, Side.INPUT): None})
    assert error.value.code == "disclosure-run-differs"
    with pytest.raises(InvalidInput) as error:
        openings(folder, capsule, {(7, Side.INPUT): None})
    assert error.value.code == "disclosure-event-unknown"


def _event(file: Any) -> Any:
    return file["events"][0]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda file: _event(file)["event"].update(name="tool X"), ["inclusion-invalid"]),
        (lambda file: _event(file)["event"].update(index=3), ["inclusion-invalid"]),
        (lambda file: _event(file)["event"].update(index=99), ["inclusion-invalid"]),
        (lambda file: _event(file)["proof"].pop(), ["inclusion-invalid"]),
        (lambda file: _event(file)["proof"].append("0x" + "00" * 32), ["inclusion-invalid"]),
        (lambda file: _event(file)["proof"].reverse(), ["inclusion-invalid"]),
        (lambda file: _event(file)["input"].update(content="bm8="), ["commitment-mismatch"]),
        (lambda file: _event(file)["input"].update(salt="0x" + "00" * 16), ["commitment-mismatch"]),
        (lambda file: _event(file).update(output=_event(file)["input"]), ["commitment-mismatch"]),
        (lambda file: file["seal"].update(signatures=[]), ["signature-missing", "key-untrusted"]),
        (lambda file: file["seal"].update(payloadType="text/plain"),
         ["payload-type-unexpected", "signature-invalid"]),
    ],
)  # fmt: skip
def test_what_is_altered_in_a_disclosure_is_named(
    folder: Path, capsule: Capsule, change: Callable[[Any], None], expected: list[str]
) -> None:
    disclosure = disclose(capsule, (), openings(folder, capsule, {(2, Side.INPUT): None}))
    found = judged(altered(disclosure, change)).reasons
    assert found[0] == expected[0]
    assert set(found) <= set(expected)


def test_a_disclosure_under_another_runs_seal_is_not_included(capsule: Capsule) -> None:
    other = sealed(7)
    forged = Disclosure(other.envelope, disclose(capsule, [1]).events)
    assert judged(forged).reasons == ("inclusion-invalid",)


def test_the_size_comes_from_the_seal_so_that_no_inner_node_passes_for_an_event(capsule: Capsule) -> None:
    # The proof of event 6, alone on its level, is shorter than those of the others.
    lengths = [len(disclose(capsule, [index]).events[0].proof) for index in range(7)]
    assert lengths == [3, 3, 3, 3, 3, 3, 2]


def test_a_pin_and_the_policy_hold_for_disclosures_too(capsule: Capsule) -> None:
    disclosure = disclose(capsule, [0])
    root = judged(disclosure).seal
    assert root is not None
    assert judged(disclosure, pinned_root=root.root).pinned
    assert judged(disclosure, pinned_root=bytes(32)).reasons == ("pinned-root-mismatch",)
    verdict = verify_disclosure(disclosure.to_bytes(), trusting(STRANGER))
    assert verdict.reason == "key-untrusted"


@pytest.mark.parametrize(
    ("indexes", "expected"),
    [([], "disclosure-empty"), ([7], "disclosure-event-unknown"), ([-1], "disclosure-event-unknown"),
     (range(1_001), "disclosure-too-large")],
)  # fmt: skip
def test_what_cannot_be_disclosed_is_refused(capsule: Capsule, indexes: Any, expected: str) -> None:
    with pytest.raises(InvalidInput) as error:
        disclose(capsule, indexes)
    assert error.value.code == expected


def test_a_disclosure_of_a_broken_capsule_or_with_a_wrong_opening_is_not_made(capsule: Capsule) -> None:
    cut = Capsule(capsule.envelope, capsule.events[:-1])
    with pytest.raises(InvalidInput) as error:
        disclose(cut, [0])
    assert error.value.code == "disclosure-capsule-invalid"
    with pytest.raises(InvalidInput) as error:
        disclose(capsule, (), {(0, Side.INPUT): Opening(bytes(16), b"guess")})
    assert error.value.code == "content-mismatch"


@pytest.mark.parametrize(
    "change",
    [
        lambda file: file.update(more=1),
        lambda file: file.update(type="aioum.disclosure.v2"),
        lambda file: file.update(events=[]),
        lambda file: file["events"].append(file["events"][0]),
        lambda file: file["events"].reverse(),
        lambda file: _event(file).update(leaf="0x" + "00" * 32),
        lambda file: _event(file).pop("proof"),
        lambda file: _event(file).update(proof=["0x" + "00" * 32] * 65),
        lambda file: _event(file).update(proof=["0x00"]),
        lambda file: _event(file)["input"].update(salt="0x" + "AB" * 16),
        lambda file: _event(file)["input"].update(salt="0x" + "ab" * 15),
        lambda file: _event(file)["input"].update(salt=None),
        lambda file: _event(file)["input"].update(content="cXVlc3Rpb24gMh=="),
        lambda file: _event(file)["input"].pop("salt"),
    ],
)
def test_a_disclosure_has_one_spelling(folder: Path, capsule: Capsule, change: Callable[[Any], None]) -> None:
    disclosure = disclose(capsule, [3], openings(folder, capsule, {(2, Side.INPUT): None}))
    assert read_disclosure(disclosure.to_bytes()) == disclosure
    with pytest.raises(AioumError) as error:
        read_disclosure(altered(disclosure, change))
    assert error.value.code == "disclosure-malformed"


def test_a_suite_that_is_not_known_is_refused_in_disclosures_too(capsule: Capsule) -> None:
    unknown = altered(disclose(capsule, [0]), lambda file: file["seal"].update(payload=_unknown_suite(file)))
    assert judged(unknown).reasons == ("suite-unknown", "signature-invalid")


def _unknown_suite(file: Any) -> str:
    payload = json.loads(base64.b64decode(file["seal"]["payload"]))
    payload["header"]["suite"]["leafHash"] = "md5"
    return base64.b64encode(canonical_bytes(payload)).decode()
