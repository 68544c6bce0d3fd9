"""Check 4, vouchers: each authorized by the session's client, strictly increasing, within the deposit."""

from __future__ import annotations

from dataclasses import dataclass, replace

from aioum.core.amounts import parse_amount
from aioum.core.canonical import JsonValue
from aioum.core.errors import InvalidInput
from aioum.core.evidence_reading import EvidencePackage
from aioum.core.hextext import address_text
from aioum.core.payment import Voucher
from aioum.core.types import Address, ChannelId
from aioum.verify.grounds import Grounds
from aioum.verify.ports import ChainView
from aioum.verify.report import Check, Finding, Findings, failed, not_applicable, passed
from aioum.verify.signed import members, signature_of, signer_finding

NAME = "vouchers"


@dataclass(frozen=True, slots=True)
class _Signed:
    position: int
    voucher: Voucher
    signature: bytes


async def check_vouchers(package: EvidencePackage, grounds: Grounds, chain: ChainView | None) -> Check:
    """Judge every voucher; contracts are asked about signatures only where the session is proven."""
    signer, channel_id = grounds.voucher_signer, grounds.channel_id
    if not package.vouchers:
        return not_applicable(NAME, "vouchers-absent", "The package carries no vouchers.")
    if signer is None or channel_id is None:
        _, reason = grounds.missing_session
        return not_applicable(
            NAME, "voucher-signer-unknown", f"Nothing fixes who authorizes vouchers: {reason}."
        )
    findings = Findings()
    highest = -1
    wallet = await _wallet(signer, grounds, chain)
    for position, value in enumerate(package.vouchers):
        try:
            signed = _read(value, channel_id, position)
        except InvalidInput as error:
            findings.append(Finding("voucher-malformed", f"Voucher {position}: {error}.", position))
            continue
        amount = signed.voucher.cumulative_amount
        if amount <= highest:
            findings.append(
                Finding(
                    "vouchers-not-increasing",
                    f"Voucher {position} is over {amount} after one over {highest}.",
                    position,
                )
            )
        highest = max(highest, amount)
        if grounds.deposit is not None and amount > grounds.deposit:
            findings.append(
                Finding(
                    "voucher-above-deposit",
                    f"Voucher {position} is over {amount}, the deposit is {grounds.deposit}.",
                    position,
                )
            )
        finding = await _signature_finding(signed, grounds, signer, wallet)
        if finding is not None:
            findings.append(replace(finding, index=position))
    details: dict[str, JsonValue] = {"vouchers": len(package.vouchers), "signer": address_text(signer)}
    if highest >= 0:
        details["highest"] = str(highest)
    if findings:
        return failed(NAME, findings, details=details)
    proven = (
        f"All {len(package.vouchers)} vouchers are authorized by the client's signer {address_text(signer)} "
        f"and increase to {highest}"
    )
    if grounds.deposit is None:
        return passed(
            NAME,
            f"{proven}; whether the deposit covers that was not checked.",
            "deposit-unknown",
            details=details,
        )
    return passed(NAME, f"{proven}, within the deposit of {grounds.deposit}.", details=details)


def _read(value: JsonValue, channel_id: ChannelId, position: int) -> _Signed:
    voucher = members(value, "cumulativeAmount", "signature")
    return _Signed(
        position, Voucher(channel_id, parse_amount(voucher["cumulativeAmount"])), signature_of(voucher)
    )


async def _wallet(signer: Address, grounds: Grounds, chain: ChainView | None) -> ChainView | None:
    """The chain, where the session is proven to be on it and its signer is a contract to be asked."""
    if chain is None or grounds.session is None or not await chain.has_code(signer):
        return None
    return chain


async def _signature_finding(
    signed: _Signed, grounds: Grounds, signer: Address, wallet: ChainView | None
) -> Finding | None:
    what = f"Voucher {signed.position} over {signed.voucher.cumulative_amount}"
    finding = signer_finding("voucher", signed.voucher, grounds.domain, signed.signature, signer, what)
    # ECDSA first, as the contract does: an account that has code may still sign with its own key.
    if finding is None:
        return None
    if grounds.session is None:
        return replace(
            finding, text=f"{finding.text} If that account is a contract, only an online check can ask it."
        )
    if wallet is None:
        return finding
    if await wallet.is_valid_signature(signer, signed.voucher.digest(grounds.domain), signed.signature):
        return None
    return Finding(
        "voucher-signature-rejected",
        f"{what} is refused by the client's contract {address_text(signer)} (ERC-1271).",
    )
