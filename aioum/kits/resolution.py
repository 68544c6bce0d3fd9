"""From a reference to a judgment, every fact on its own (SUBMISSIONS 3.3).

That a kit was found says nothing about whether its bytes are right, that says nothing about whether the
caller wants it run, and none of it makes a verdict: only a kit that the caller named and a sandbox ran does.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, field, replace
from typing import Literal

from aioum.core.canonical import JsonValue
from aioum.core.errors import InvalidInput
from aioum.kits.cache import CacheMismatch, KitCache
from aioum.kits.execution import Execution, RunLimits, Runner, Verdict, run_kit
from aioum.kits.fetch import KitFetcher, fetch_kit
from aioum.kits.kit import Kit
from aioum.kits.reference import ArtifactSubject, KitReference

Presence = Literal["absent", "present"]
Retrieval = Literal["not_attempted", "cached", "fetched", "unavailable"]
Integrity = Literal["unchecked", "matched", "mismatched"]
Authorization = Literal["unknown", "accepted", "rejected"]


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A remark with its reason code."""

    code: str
    message: str

    def to_json(self) -> dict[str, JsonValue]:
        """Both members."""
        return {"code": self.code, "message": self.message}


@dataclass(frozen=True, slots=True)
class Resolution:
    """What is known about an artifact's verifier. The defaults are those of an artifact that names none.

    Attributes:
        authorization: by the caller's own list; `unknown` where the caller gave none.
        source: the mirror or file that the kit came from.
        kit: the kit, where its bytes matched.
        verdict: the kit's own where it ran, else `unverifiable`.
        remarks: what the kit said, text of a foreign program.
    """

    reference: Presence = "absent"
    retrieval: Retrieval = "not_attempted"
    integrity: Integrity = "unchecked"
    authorization: Authorization = "unknown"
    execution: Execution = "not_run"
    digest: str | None = None
    source: str | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    kit: Kit | None = field(default=None, repr=False)
    verdict: Verdict = "unverifiable"
    remarks: tuple[str, ...] = ()

    def with_diagnostic(self, code: str, message: str) -> Resolution:
        """The same with one remark more."""
        return replace(self, diagnostics=(*self.diagnostics, Diagnostic(code, message)))

    def to_json(self) -> dict[str, JsonValue]:
        """The facts, without the kit's bytes."""
        return {
            "reference": self.reference,
            "retrieval": self.retrieval,
            "integrity": self.integrity,
            "authorization": self.authorization,
            "execution": self.execution,
            "digest": self.digest,
            "source": self.source,
            "diagnostics": [diagnostic.to_json() for diagnostic in self.diagnostics],
            "verdict": self.verdict,
            "remarks": list(self.remarks),
        }


def authorization_of(digest: str, authorized: Set[str] | None) -> Authorization:
    """What the caller's list says of a digest; nothing in an artifact or a kit can change it."""
    if authorized is None:
        return "unknown"
    return "accepted" if digest in authorized else "rejected"


async def resolve_kit(
    reference: KitReference | None,
    *,
    cache: KitCache | None,
    fetcher: KitFetcher | None,
    authorized: Set[str] | None,
) -> Resolution:
    """Find the kit of a reference: first in the cache, then at its mirrors.

    Args:
        reference: of the artifact.
        cache: kits in hand; what is fetched is kept there.
        fetcher: None: nothing is fetched. A kit that the caller's list refuses is not fetched either.
        authorized: digests that the caller wants run, or None where it did not say.

    Raises:
        ConfigError: `kit-cache-unusable`.
    """
    if reference is None:
        return Resolution()
    found = Resolution(
        reference="present",
        digest=reference.digest,
        authorization=authorization_of(reference.digest, authorized),
    )
    try:
        kit = None if cache is None else cache.load(reference.digest)
        if kit is not None:
            return _sized(replace(found, retrieval="cached", source="cache"), kit, reference)
        if fetcher is None or found.authorization == "rejected":
            return found
        fetched = await fetch_kit(reference, fetcher)
        for failure in fetched.failures:
            found = found.with_diagnostic(failure.code, f"{failure.url}: {failure.message}")
        if fetched.kit is None:
            return replace(found, retrieval="unavailable")
        found = replace(found, retrieval="fetched", source=fetched.source)
        if cache is not None:
            cache.store(fetched.kit)
    except CacheMismatch as error:
        # Not fetched anew: that would hide that somebody changed the cache.
        return replace(found, retrieval="cached", source="cache", integrity="mismatched").with_diagnostic(
            error.code, str(error)
        )
    return _sized(found, fetched.kit, reference)


def _sized(found: Resolution, kit: Kit, reference: KitReference) -> Resolution:
    if len(kit.archive) != reference.size_bytes:
        return replace(found, integrity="mismatched").with_diagnostic(
            "kit-size-mismatch",
            f"the reference says {reference.size_bytes} bytes, the kit has {len(kit.archive)}",
        )
    return replace(found, integrity="matched", kit=kit)


def kit_in_hand(
    kit: Kit, *, source: str, reference: KitReference | None, authorized: Set[str] | None
) -> Resolution:
    """The facts of a kit that the caller brought, in place of the one that the artifact may name."""
    found = Resolution(
        reference="absent" if reference is None else "present",
        integrity="matched",
        authorization=authorization_of(kit.digest, authorized),
        digest=kit.digest,
        source=source,
        kit=kit,
    )
    if reference is not None and reference.digest != kit.digest:
        return found.with_diagnostic("kit-not-the-referenced-one", f"the artifact names {reference.digest}")
    return found


def judge(
    found: Resolution,
    artifact: bytes,
    subject: ArtifactSubject | None,
    runners: Iterable[Runner],
    limits: RunLimits | None = None,
) -> Resolution:
    """Have the kit judge the artifact, where the caller authorized its digest.

    Args:
        found: a kit and what is known of it.
        artifact: the bytes to judge.
        subject: what the artifact says it is; a kit made for something else is not run. None: the artifact
            is not a `gaos.replay`.
        runners: sandboxes in order of preference.
        limits: of the run.

    Raises:
        InvalidInput: `artifact-too-large`.
    """
    if found.kit is None:
        return found
    if found.authorization != "accepted":
        return found.with_diagnostic(
            "kit-not-authorized", f"{found.kit.digest} is not among the digests that the caller named"
        )
    if subject is not None:
        try:
            subject.require_kit(found.kit.manifest)
        except InvalidInput as error:
            return found.with_diagnostic(error.code, str(error))
    run = run_kit(found.kit, artifact, runners, limits)
    judged = replace(found, execution=run.execution, verdict=run.verdict, remarks=run.diagnostics)
    return judged if run.code is None else judged.with_diagnostic(run.code, run.message)
