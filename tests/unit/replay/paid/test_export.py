"""A paid session is written as an artifact that anybody's tools can read, from either side's package."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from aioum.core.errors import AioumError
from aioum.core.evidence import disclose
from aioum.core.hashing import keccak256
from aioum.core.hextext import to_hex
from aioum.core.transcript import Entry, canonical_request, entry_leaf
from aioum.replay.paid.export import export_replay
from aioum.replay.reading import read_artifact
from aioum.replay.writing import write_artifact
from tests.unit.replay.paid.artifacts import HONEST, exported
from tests.unit.verify.honest import SEATS, Honest, read


def lines_of(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.decode().splitlines()]


def refusal(package: Any) -> str:
    with pytest.raises(AioumError) as refused:
        export_replay(read(package))
    return refused.value.code


def test_the_header_maps_the_session_as_specified() -> None:
    header = lines_of(exported())[0]

    assert header["formatVersion"] == "1.3"
    assert header["sessionId"] == "aioum:" + to_hex(HONEST.channel_id)
    assert header["game"] == {
        "id": "1",
        "version": to_hex(HONEST.service.terms.descriptor_hash),
        "adapter": {"id": "aioum.paid-session", "version": "1"},
    }
    assert header["perm"] == [0, 1, 2]
    [level] = header["levels"]
    assert level["result"] == {
        "status": "ended",
        "stars": None,
        "actionsUsed": 6,
        "extensions": {"root": to_hex(HONEST.root), "spent": "5000"},
    }
    assert header["totals"] == {"totalStars": 0, "totalActionsUsed": 6}
    assert [seat["id"] for seat in header["seatKeys"]] == list(SEATS)


def test_a_call_is_a_resolution_and_its_result_right_behind_it() -> None:
    _, *lines = lines_of(exported())

    assert [line["kind"] for line in lines] == ["resolution", "extension"] * 6
    call, result = lines[4], lines[5]
    assert (call["tick"], call["cause"]) == (2, "complete")
    [given] = call["inputs"]
    assert (given["canonicalId"], given["wireId"]) == ("Action 2", "Action 2")
    assert given["canonicalCommand"] == HONEST.calls[2].request
    assert given["payload"] == json.loads(HONEST.calls[2].request)
    assert (given["seat"], given["cursor"], given["submissionId"]) == ("client", 2, "client-2")
    assert result["lane"] == "aioum.result.v1"
    assert result["record"] == {
        "index": 2,
        "responseHash": to_hex(keccak256(HONEST.calls[2].response.encode())),
        "leaf": to_hex(entry_leaf(HONEST.calls[2])),
        "charge": "1000",
        "signature": HONEST.package()["receipts"][2]["signature"],
    }


def test_answers_stay_out_of_the_artifact() -> None:
    assert HONEST.calls[4].response not in exported().decode()


def test_the_artifact_is_canonical_and_either_side_writes_the_same_bytes() -> None:
    data = exported()

    assert write_artifact(read_artifact(data)) == data
    assert exported() == data


def test_the_artifact_follows_the_public_schema(shared_vectors_dir: Path) -> None:
    schema = (shared_vectors_dir / "gaos" / "schemas" / "gaos.replay-v1.schema.json").read_text("utf-8")

    for honest in (HONEST, Honest()):
        jsonschema_rs.validate(json.loads(schema), read_artifact(exported(honest)).decoded())


def test_an_unsigned_session_has_no_roster_and_its_steps_no_seat() -> None:
    header, call, *_ = lines_of(exported(Honest()))

    assert not {"seatKeys", "signaturePolicy"} & header.keys()
    assert call["inputs"][0].keys() == {"wireId", "canonicalId", "payload"}


def test_a_signed_call_without_answer_is_kept_beside_the_steps() -> None:
    pending = canonical_request("uppercase", {"text": "anybody there?"})

    header, *lines = lines_of(exported(submissions=HONEST.submissions(pending)))

    assert header["totals"]["totalActionsUsed"] == 6
    assert lines[-1]["lane"] == "aioum.submission.v1"
    assert lines[-1]["record"]["request"] == pending


def test_a_call_without_a_receipt_claims_no_charge_and_the_session_no_sum() -> None:
    receipts = [HONEST.receipt(index) for index in range(5)]

    header, *lines = lines_of(exported(receipts=receipts))

    assert lines[11]["record"].keys() == {"index", "responseHash", "leaf"}
    assert "spent" not in header["levels"][0]["result"]["extensions"]


def test_a_reference_to_a_verifier_kit_goes_into_the_header() -> None:
    reference = {"schema": "gaos.verifier-reference.v1"}

    data = export_replay(read(HONEST.package()), verifier=reference)

    assert lines_of(data)[0]["extensions"]["gaos.verifier"] == reference


def test_what_an_artifact_cannot_hold_is_refused() -> None:
    assert refusal(disclose(HONEST.package(), [1])) == "package-not-whole"
    for member in ("channel", "terms", "card"):
        package = HONEST.package()
        del package[member]
        assert refusal(package) == "session-facts-missing"
    package = HONEST.package()
    package["receipts"][0]["charge"] = "a lot"
    assert refusal(package) == "receipt-malformed"
    package["receipts"][0] = []
    assert refusal(package) == "receipt-malformed"


def test_a_request_nested_too_deep_for_a_record_is_refused() -> None:
    nested: Any = []
    for _ in range(60):
        nested = [nested]
    deep = Entry(0, "uppercase", canonical_request("uppercase", {"text": nested}), "")

    assert refusal(replace(HONEST, calls=(deep,)).package(receipts=(), statement=None)) == "json-too-deep"
