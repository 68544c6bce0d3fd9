"""Re-execution from the module that a card pins."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from aioum.cli.pinned_modules import ModuleUnreadable
from aioum.core.transcript import Entry, canonical_request
from aioum.kits.wasm import MAX_MODULE_BYTES
from aioum.verify.pinned import FetchModule, PinnedReExecutor
from aioum.verify.report import Check, Status
from tests.unit.kits.wat import ECHO, EXIT_3, LOOP, TRAP, binary, module
from tests.unit.verify.honest import Honest, card_json, entries, judge


def service(wasm: bytes, calls: Sequence[Entry] | None = None, **declared: str) -> Honest:
    """A session with a service that pins `wasm`; by default its calls are those of an echo."""
    card = card_json()
    card["deterministic"] = {"kind": "wasm", "module": sha256(wasm).hexdigest(), **declared}
    return Honest(calls=tuple(echoes() if calls is None else calls), card=card)


def echoes() -> list[Entry]:
    """As the calls of an honest session, but the deterministic tool gives its request back."""
    return [
        replace(call, response=call.request) if call.tool_id == "uppercase" and call.index != 3 else call
        for call in entries()
    ]


async def judged(honest: Honest, *modules: bytes, fetch: FetchModule | None = None) -> Check:
    re_executor = PinnedReExecutor(PinnedReExecutor.by_digest(*modules), fetch)
    report = await judge(honest.package(), honest.chain(), re_executor=re_executor)
    return next(check for check in report.checks if check.name == "re-execution")


def outcome(check: Check) -> tuple[Status, tuple[str, ...]]:
    return check.status, check.codes


async def test_calls_are_reproduced_from_the_pinned_module_and_skipped_ones_counted() -> None:
    check = await judged(service(ECHO), EXIT_3, ECHO)

    assert check.status is Status.PASS
    assert check.details == {
        "toRun": 4, "reproduced": 4, "skippedFailed": 1, "skippedExempted": 1,
        "module": sha256(ECHO).hexdigest(),
    }  # fmt: skip


async def test_an_altered_response_is_named_by_its_index() -> None:
    calls = echoes()
    calls[4] = replace(calls[4], response=calls[4].response + " ")

    check = await judged(service(ECHO, calls), ECHO)

    assert outcome(check) == (Status.FAIL, ("re-execution-diverged",))
    findings: Any = check.details["findings"]
    assert findings[0]["index"] == 4


@pytest.mark.parametrize("wasm", [EXIT_3, TRAP, LOOP, b"no module"], ids=["exit", "trap", "loop", "nonsense"])
async def test_a_response_that_the_module_cannot_give_is_a_divergence(wasm: bytes) -> None:
    honest = service(wasm, echoes()[:1])

    assert outcome(await judged(honest, wasm)) == (Status.FAIL, ("re-execution-diverged",))


async def test_what_depends_on_the_machine_proves_nothing() -> None:
    deep = module("(call $down)", more="(func $down (call $down) (call $down))")
    honest = service(deep, echoes()[:1])

    assert outcome(await judged(honest, deep)) == (Status.NOT_APPLICABLE, ("wasm-stack-exhausted",))


async def test_a_run_longer_than_the_time_allowed_proves_nothing() -> None:
    honest = service(LOOP, echoes()[:1])
    re_executor = PinnedReExecutor(PinnedReExecutor.by_digest(LOOP), None, timeout_seconds=0.01)

    report = await judge(honest.package(), honest.chain(), re_executor=re_executor)

    (check,) = (check for check in report.checks if check.name == "re-execution")
    assert outcome(check) == (Status.NOT_APPLICABLE, ("wasm-timeout",))


async def test_only_the_digest_decides_which_module_runs() -> None:
    check = await judged(service(ECHO), EXIT_3)

    assert outcome(check) == (Status.NOT_APPLICABLE, ("wasm-module-missing",))


async def test_the_module_is_read_from_where_the_card_says() -> None:
    asked = []

    async def fetch(uri: str) -> bytes:
        asked.append(uri)
        return ECHO

    check = await judged(service(ECHO, uri="https://shop.example/echo.wasm"), fetch=fetch)

    assert (check.status, asked) == (Status.PASS, ["https://shop.example/echo.wasm"])


@pytest.mark.parametrize("served", [EXIT_3, ECHO + b"\0", b"", bytes(MAX_MODULE_BYTES + 1)])
async def test_other_bytes_than_the_pinned_ones_are_not_run(served: bytes) -> None:
    async def fetch(uri: str) -> bytes:
        return served

    check = await judged(service(ECHO, uri="https://shop.example/echo.wasm"), fetch=fetch)

    assert outcome(check) == (Status.NOT_APPLICABLE, ("wasm-module-mismatched",))


async def test_a_place_that_cannot_be_read_leaves_the_calls_unverified() -> None:
    async def fetch(uri: str) -> bytes:
        raise ModuleUnreadable("no such host")

    check = await judged(service(ECHO, uri="https://shop.example/echo.wasm"), fetch=fetch)

    assert outcome(check) == (Status.NOT_APPLICABLE, ("wasm-module-unreachable",))


async def test_the_entry_that_the_card_names_is_called() -> None:
    wasm = binary(
        '(module (memory (export "memory") 1) (func (export "_start") unreachable) (func (export "judge")))'
    )
    calls = [Entry(0, "uppercase", canonical_request("uppercase", {}), "")]

    assert (await judged(service(wasm, calls, entry="judge"), wasm)).status is Status.PASS
    assert (await judged(service(wasm, calls), wasm)).status is Status.FAIL


async def test_a_service_of_another_kind_is_not_run() -> None:
    check = await judged(Honest(), ECHO)

    assert outcome(check) == (Status.NOT_APPLICABLE, ("re-execution-kind-unsupported",))


async def test_a_card_that_is_not_under_the_terms_runs_nothing() -> None:
    honest = service(ECHO)
    package = honest.package()
    package["card"] = {**package["card"], "name": "Other"}
    report = await judge(
        package, honest.chain(), re_executor=PinnedReExecutor(PinnedReExecutor.by_digest(ECHO))
    )

    (check,) = (check for check in report.checks if check.name == "re-execution")
    assert outcome(check) == (Status.NOT_APPLICABLE, ("card-hash-mismatch",))


async def test_without_wasmtime_the_calls_stay_unverified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wasmtime", None)

    check = await judged(service(ECHO), ECHO)

    assert outcome(check) == (Status.NOT_APPLICABLE, ("wasm-unavailable",))
    assert "aioum[wasm]" in check.summary


@pytest.mark.parametrize("digest", [None, "", "ab" * 31, "AB" * 32, "0x" + "ab" * 32, "sha256:" + "ab" * 32])
async def test_a_wasm_service_without_a_digest_pins_nothing(digest: str | None) -> None:
    card = card_json()
    card["deterministic"] = {"kind": "wasm", "uri": "https://shop.example/echo.wasm"}
    if digest is not None:
        card["deterministic"]["module"] = digest

    assert (await judged(Honest(card=card), ECHO)).codes == ("card-invalid",)
