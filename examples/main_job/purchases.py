"""What the demo's client buys: it reads the repository's own documents and sources through a paid service."""

from __future__ import annotations

from collections.abc import AsyncIterator

from aioum.client import CallResult, PaidSession

READ = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
SOURCES = ("aioum/core/ledger.py", "aioum/core/purse.py", "contracts/src/PaymentManager.sol")
QUESTIONS = ("anchored root", "voucher deposit", "never charged", "kill -9")


async def purchases(session: PaidSession) -> AsyncIterator[CallResult]:
    """Buy 26 calls or more, each as it is needed; one of them fails and is not charged."""

    async def buy(tool: str, **arguments: str | int) -> CallResult:
        return await session.call(tool, dict(arguments))

    for path in (*READ, *SOURCES):
        yield await buy("outline", path=path)
        opening = await buy("excerpt", path=path, first=1, count=20)
        yield opening
        yield await buy("wordcount", text=opening.text)
    for words in QUESTIONS:
        yield await buy("search", words=words, limit=3)
    yield await buy("excerpt", path="no/such/document.md", first=1)
    yield await buy("digest", text=" ".join(entry.response for entry in session.calls)[:2_000])
