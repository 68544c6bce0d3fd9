"""The verification of an evidence package: seven numbered checks and what lies beyond (PROTOCOL 7)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from aioum.core.evidence_reading import EvidencePackage
from aioum.core.types import Address, Bytes32
from aioum.log.monitor import LogIdentity
from aioum.verify.checks.anchored_root import check_anchored_root
from aioum.verify.checks.attestations import check_attestations
from aioum.verify.checks.log import check_log
from aioum.verify.checks.quality import check_quality
from aioum.verify.checks.re_execution import check_re_execution
from aioum.verify.checks.receipts import check_receipts
from aioum.verify.checks.session import check_session
from aioum.verify.checks.statement import check_statement
from aioum.verify.checks.submissions import check_submissions
from aioum.verify.checks.transcript import check_claimed_root, check_transcript
from aioum.verify.checks.vouchers import check_vouchers
from aioum.verify.hooks import VerifyHooks
from aioum.verify.ports import ChainView, ReExecutor
from aioum.verify.report import Report


async def verify_package(
    package: EvidencePackage,
    *,
    chain: ChainView | None,
    hooks: VerifyHooks | None = None,
    re_executor: ReExecutor | None = None,
    trusted_payment_managers: Collection[Address] = (),
    retained_heads: Mapping[str, Collection[Bytes32]] | None = None,
    known_log: LogIdentity | None = None,
) -> Report:
    """Prove what can be proven from a package, trusting neither side of the session.

    Args:
        package: from `parse_package`.
        chain: the PaymentManager that the package names, at one block; None offline.
        hooks: attestation verifiers; none where absent.
        re_executor: runs deterministic calls again; that check does not apply without it.
        trusted_payment_managers: contracts on `chain` that the verifier knows. Offline, an empty collection
            means no opinion.
        retained_heads: heads of signed calls by seat, 32 bytes each, that the client kept when it signed;
            they show a tail that was cut off.
        known_log: the transparency log that the session has to be in; None: the one that its card names.

    Raises:
        ChainError: the chain could not be read; nothing was judged.
        ConfigError: `re-execution-not-started`.
    """
    session, grounds = await check_session(package, chain, trusted_payment_managers)
    transcript_row, transcript = check_transcript(package)
    receipts_row, receipts = check_receipts(package, transcript, grounds)
    rows = [
        session,
        transcript_row,
        check_claimed_root(package, transcript),
        check_anchored_root(package, transcript, grounds),
        await check_vouchers(package, grounds, chain),
        await check_re_execution(package, transcript, grounds, re_executor),
        await check_attestations(package, transcript, grounds, hooks or VerifyHooks()),
        check_quality(package),
        receipts_row,
        check_statement(package, transcript, grounds, receipts),
        check_submissions(package, transcript, grounds, retained_heads or {}),
        check_log(package, grounds, known_log),
    ]
    return Report(
        package, None if chain is None else chain.block, tuple(row for row in rows if row is not None)
    )
