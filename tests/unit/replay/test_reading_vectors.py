import json
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from aioum.replay.model import Artifact
from aioum.replay.problems import ArtifactInvalid
from aioum.replay.reading import read_artifact
from aioum.replay.writing import write_artifact

TRANSPORT_CODES = {
    "divergence-command-over-64k": "command-too-large",
    "divergence-cursor-float-spelling": "integer-invalid",
    "invalid-action-projection": "bad-level-index",
    "invalid-base64-noncanonical": "base64-invalid",
    "invalid-base64-unpadded": "base64-invalid",
    "invalid-base64url": "roster-invalid",
    "invalid-blank-line": "blank-line",
    "invalid-canonical-command-spacing": "non-canonical-command",
    "invalid-derived-seed": "derived-seed-mismatch",
    "invalid-duplicate-submission-id": "duplicate-submission-id",
    "invalid-ended-with-stars": "ended-with-stars",
    "invalid-header-property": "unknown-property",
    "invalid-interaction-in-v1.3": "needs-later-version",
    "invalid-interest-declaration-differs": "interest-differs",
    "invalid-interest-unsigned": "interest-unsigned",
    "invalid-not-json": "json-syntax",
    "invalid-policy-extra": "unknown-property",
    "invalid-roster-duplicate-id": "roster-invalid",
    "invalid-roster-without-policy": "roster-without-policy",
    "invalid-sequence-gap": "bad-sequence",
    "invalid-sig-without-chain": "signature-without-chain",
    "invalid-tier-zero": "roster-invalid",
    "invalid-timeout-early": "timeout-tick",
    "invalid-timeout-no-policy-ref": "timeout-policy-ref",
    "invalid-unknown-property": "unknown-property",
}
"""Artifacts that cannot be judged. All others can."""

# The one artifact whose meaning hangs on a repeated key.
DUPLICATE_KEY = "divergence-duplicate-key"


@pytest.fixture(scope="session")
def gaos(shared_vectors_dir: Path) -> Path:
    return shared_vectors_dir / "gaos"


@pytest.fixture(scope="session")
def artifacts(gaos: Path) -> dict[str, bytes]:
    """The 93 generated artifacts and the two published ones, by name."""
    paths = [*(gaos / "generated").glob("*.gaos-replay.jsonl"), *(gaos / "replay").glob("*.jsonl")]
    return {
        path.name.partition(".gaos-replay")[0].removesuffix(".jsonl"): path.read_bytes() for path in paths
    }


@pytest.fixture(scope="session")
def readable(artifacts: dict[str, bytes]) -> dict[str, Artifact]:
    return {name: read_artifact(data) for name, data in artifacts.items() if name not in TRANSPORT_CODES}


def test_exactly_the_artifacts_that_both_tools_cannot_read_are_refused_each_with_its_code(
    artifacts: dict[str, bytes],
) -> None:
    assert len(artifacts) == 95
    codes = {}
    for name, data in artifacts.items():
        try:
            read_artifact(data)
        except ArtifactInvalid as error:
            codes[name] = error.code
    assert codes == TRANSPORT_CODES


def test_the_refused_artifacts_are_those_with_exit_code_2_in_the_reference_results(gaos: Path) -> None:
    expected = json.loads((gaos / "generated" / "expected.json").read_text(encoding="utf-8"))
    exits: dict[str, set[int]] = {
        case["name"]: {case["typescript"]["exit"], case["python"]["exit"]} for case in expected["cases"]
    }
    unreadable = {name for name, codes in exits.items() if codes == {2}}
    one_tool_only = {name for name, codes in exits.items() if 2 in codes and len(codes) == 2}
    # U+2028 inside a line is text; the other's cursor is spelled as a fraction, which nobody could sign.
    assert one_tool_only == {"trusted-unicode-numbers", "divergence-cursor-float-spelling"}
    assert unreadable | {"divergence-cursor-float-spelling"} == TRANSPORT_CODES.keys()
    groups = Counter(case["group"] for case in expected["cases"])
    assert groups["transport-invalid"] == 23


def test_with_duplicate_keys_refused_one_more_artifact_is(artifacts: dict[str, bytes]) -> None:
    refused = {}
    for name, data in artifacts.items():
        try:
            read_artifact(data, refuse_duplicate_keys=True)
        except ArtifactInvalid as error:
            refused[name] = error.code
    assert refused == {**TRANSPORT_CODES, DUPLICATE_KEY: "json-duplicate-key"}


def test_every_readable_artifact_satisfies_the_published_schema(
    gaos: Path, readable: dict[str, Artifact]
) -> None:
    path = gaos / "schemas" / "gaos.replay-v1.schema.json"
    schema = jsonschema_rs.validator_for(json.loads(path.read_text(encoding="utf-8")))
    for name, artifact in readable.items():
        assert [str(error) for error in schema.iter_errors(artifact.decoded())] == [], name


def test_every_readable_artifact_survives_being_written_and_read(readable: dict[str, Artifact]) -> None:
    for name, artifact in readable.items():
        data = write_artifact(artifact)
        assert read_artifact(data, refuse_duplicate_keys=True) == artifact, name
        assert write_artifact(read_artifact(data)) == data, name


def test_artifacts_that_their_tools_wrote_are_written_byte_for_byte(
    artifacts: dict[str, bytes], readable: dict[str, Artifact]
) -> None:
    rewritten = {name for name, each in readable.items() if write_artifact(each) != artifacts[name]}
    assert rewritten == {
        "divergence-crlf",
        "divergence-noncanonical-header-order",
        DUPLICATE_KEY,
    }


def test_the_switch_to_records_needs_a_line_that_is_no_action(readable: dict[str, Artifact]) -> None:
    ungrouped = {name for name, each in readable.items() if not each.is_grouped}
    assert ungrouped == {
        "gaos-replay-v1.golden",
        "gaos-replay-v1.3-ended.golden",
        "hole-action-only-semantics-skipped",
    }


def test_signature_material_is_noticed_where_version_or_policy_hide_it(readable: dict[str, Artifact]) -> None:
    hidden = {
        name for name, each in readable.items() if each.has_signature_material and each.header.roster is None
    }
    assert hidden == {"unverifiable-policy-stripped", "unverifiable-version-downgrade"}


def test_the_meaning_of_a_whole_line_is_parsed(readable: dict[str, Artifact]) -> None:
    artifact: Any = readable["trusted-commit-reveal-fumble"]
    committed, checkpoint, mismatch, _, revealed, *_ = artifact.lines
    assert artifact.header.roster.seats == ("alpha",)
    assert artifact.header.roster.entry("alpha").tier == 10
    assert committed.inputs[0].commit.commitment_id == 0
    assert committed.inputs[0].is_direct
    assert checkpoint.digest == 1267058434
    assert mismatch.attempted_reveal.payload == {"move": 9}
    assert mismatch.integrity.submission_id == "bad-reveal-0"
    assert revealed.inputs[0].reveal.salt == bytes.fromhex("11" * 16)
    assert revealed.inputs[0].integrity.command_value["kind"] == "reveal"
    assert revealed.inputs[0].action() == {
        "id": "Action 1",
        "seat": "alpha",
        "reveal": {"commitmentId": 0, "payload": {"move": 1}, "salt": "11" * 16},
    }
