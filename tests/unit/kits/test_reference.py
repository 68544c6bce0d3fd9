"""What an artifact says about its verifier."""

from typing import Any

import pytest

from aioum.core.errors import InvalidInput
from aioum.kits.manifest import KitManifest
from aioum.kits.reference import KitReference, artifact_subject
from tests.unit.kits.samples import description, make_artifact, make_kit, reference_to

KIT = make_kit()
REFERENCE = reference_to(KIT, "https://a.example/kit", "https://b.example/kit")


def test_a_reference_survives_the_header_of_an_artifact() -> None:
    subject = artifact_subject(make_artifact(REFERENCE))
    assert subject.reference == REFERENCE
    assert (subject.game.id, subject.adapter.version, subject.replay_format) == (
        "creator/demo",
        "1.0.0",
        "gaos.replay@1.3",
    )


def test_an_artifact_may_name_no_kit() -> None:
    assert artifact_subject(make_artifact()).reference is None
    assert artifact_subject(make_artifact(extensions={"other": 1})).reference is None


@pytest.mark.parametrize(
    "changes",
    [
        {"schema": "gaos.verifier-reference.v2"},
        {"mediaType": "application/x-tar"},
        {"digest": KIT.digest.upper()},
        {"digest": KIT.digest[7:]},
        {"size": -1},
        {"size": True},
        {"size": 1.0},
        {"size": 67_108_865},
        {"mirrors": "https://a.example"},
        {"mirrors": [1]},
        {"mirrors": [""]},
        {"mirrors": ["https://" + "a" * 2_048]},
        {"mirrors": ["https://a.example"] * 17},
        {"authorized": True},
    ],
)
def test_malformed_references_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        KitReference.from_json({**REFERENCE.to_json(), **changes})
    assert caught.value.code == "kit-reference-invalid"


def test_a_malformed_reference_is_not_taken_for_none() -> None:
    with pytest.raises(InvalidInput) as caught:
        artifact_subject(make_artifact(extensions={"gaos.verifier": None}))
    assert caught.value.code == "kit-reference-invalid"


@pytest.mark.parametrize(
    "artifact",
    [
        b"",
        b"\xff",
        b"[]\n",
        b'{"kind":"action"}\n',
        make_artifact(formatVersion=1),
        make_artifact(game=None),
        make_artifact(game={"id": "a", "version": "1"}),
        make_artifact(game={"id": "a", "version": "1", "adapter": {"id": "a"}}),
        b"[" * 500,
    ],
)
def test_what_has_no_header_has_no_subject(artifact: bytes) -> None:
    with pytest.raises(InvalidInput) as caught:
        artifact_subject(artifact)
    assert caught.value.code == "artifact-header-invalid"


@pytest.mark.parametrize(
    "changes, code",
    [
        ({"game": {"id": "creator/demo", "version": "1.0.1"}}, "kit-for-another-game"),
        (
            {"adapter": {"id": "other", "version": "1.0.0", "entrypoint": "verifier.wasm"}},
            "kit-for-another-adapter",
        ),
        ({"replayFormats": ["gaos.replay@1.2"]}, "kit-format-unsupported"),
    ],
)
def test_a_kit_that_was_made_for_something_else_is_refused(changes: dict[str, Any], code: str) -> None:
    subject = artifact_subject(make_artifact())
    subject.require_kit(KIT.manifest)
    with pytest.raises(InvalidInput) as caught:
        subject.require_kit(KitManifest.from_description(description(**changes)))
    assert caught.value.code == code
