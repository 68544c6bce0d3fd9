"""Re-execution straight from the card: a `wasm` service runs from its pinned module (PROTOCOL 6 and 7).

Nobody's command line is trusted: the card under the session's terms says which bytes run, their digest is
checked, and the sandbox is the one that every verifier uses.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from aioum.core.card import Deterministic
from aioum.core.errors import AioumError, InvalidInput
from aioum.kits.wasm import (
    DEFAULT_ENTRY,
    MAX_MODULE_BYTES,
    ModuleStopped,
    WasmLimits,
    WasmUnavailable,
    require_wasm,
    run_module_async,
)
from aioum.verify.ports import NoResponse, ReExecutionFailed

FetchModule = Callable[[str], Awaitable[bytes]]
"""Reads the file at a URI, at most MAX_MODULE_BYTES + 1 bytes of it. Raises AioumError where it cannot."""


@dataclass(frozen=True, slots=True)
class PinnedReExecutor:
    """Runs the module that a card pins.

    Attributes:
        modules: modules at hand; which one runs is decided by digest alone.
        fetch: reads the card's `uri` where no module at hand has the digest; None fetches nothing.
        timeout_seconds: longest run of one call by the clock.
    """

    modules: Mapping[str, bytes] = field(default_factory=dict)
    fetch: FetchModule | None = None
    timeout_seconds: float = WasmLimits().wall_seconds

    @staticmethod
    def by_digest(*modules: bytes) -> dict[str, bytes]:
        """Modules by lower-case hex SHA-256, as `modules` takes them."""
        return {sha256(module).hexdigest(): module for module in modules}

    async def program(self, declared: Deterministic) -> PinnedModule:
        """See `ReExecutor.program`.

        Raises:
            ReExecutionFailed: `re-execution-kind-unsupported`, `wasm-unavailable`, `wasm-module-missing`,
                `wasm-module-unreachable` or `wasm-module-mismatched`.
        """
        if declared.kind != "wasm" or declared.module is None:
            raise ReExecutionFailed(
                f"its card declares the kind {declared.kind}, and only pinned wasm modules run by themselves",
                code="re-execution-kind-unsupported",
            )
        try:
            require_wasm()
        except WasmUnavailable as error:
            raise ReExecutionFailed(f"{error}; {error.hint}", code=error.code) from error
        module = self.modules.get(declared.module)
        if module is None:
            module = await self._fetched(declared.module, declared.uri)
        limits = WasmLimits(wall_seconds=self.timeout_seconds)
        return PinnedModule(declared.module, module, declared.entry or DEFAULT_ENTRY, limits)

    async def _fetched(self, digest: str, uri: str | None) -> bytes:
        if uri is None or self.fetch is None:
            raise ReExecutionFailed(
                f"the module with SHA-256 {digest} is not at hand, and "
                + ("its card names no place" if uri is None else "nothing is fetched"),
                code="wasm-module-missing",
            )
        try:
            module = await self.fetch(uri)
        except AioumError as error:
            raise ReExecutionFailed(
                f"the module could not be read: {error}", code="wasm-module-unreachable"
            ) from error
        if len(module) > MAX_MODULE_BYTES or sha256(module).hexdigest() != digest:
            raise ReExecutionFailed(
                f"what lies at {uri!r:.200} is not the module with SHA-256 {digest}",
                code="wasm-module-mismatched",
            )
        return module


@dataclass(frozen=True, slots=True)
class PinnedModule:
    """A module, its digest checked. A `Program`."""

    digest: str
    module: bytes = field(repr=False)
    entry: str
    limits: WasmLimits

    async def run(self, request: bytes, *, max_output_bytes: int) -> bytes:
        """See `Program.run`."""
        try:
            result = await run_module_async(self.module, request, self.limits, entry=self.entry)
        except ModuleStopped as error:
            if error.reproducible:
                raise NoResponse(f"{error} [{error.code}]") from error
            raise ReExecutionFailed(str(error), code=error.code) from error
        except (WasmUnavailable, InvalidInput) as error:
            raise ReExecutionFailed(str(error), code=error.code) from error
        if result.exit_code != 0:
            raise NoResponse(f"the module ends with status {result.exit_code}")
        return result.stdout[: max_output_bytes + 1]
