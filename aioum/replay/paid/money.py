"""What the operator signed and what the client promised to pay, held against the calls (PROTOCOL 3)."""

from __future__ import annotations

from aioum.core.errors import InvalidInput, SignatureInvalid
from aioum.core.payment import CallReceipt, SignedMessage
from aioum.core.signing import require_signer
from aioum.core.types import Address
from aioum.replay.paid.facts import Fact, FactState
from aioum.replay.paid.session import PaidSession
from aioum.replay.paid.steps import Calls, PaidCall
from aioum.replay.problems import Problem


def check_receipts(calls: Calls, session: PaidSession) -> Fact:
    """Whether the terms' receipt signer signed every call as it stands here, and its statement agrees.

    Codes: `receipt-` or `statement-` before a code of `require_signer`; `receipt-missing`;
    `statement-count-mismatch`, `statement-root-mismatch`, `statement-spent-mismatch`.
    """
    problems = [problem for call in calls.calls if (problem := _receipt_problem(call, session)) is not None]
    problems += _statement_problems(calls, session)
    if problems:
        return Fact(FactState.FAILED, problems)
    signed = sum(call.result.signature is not None for call in calls.calls)
    if signed < calls.steps:
        message = f"{calls.steps - signed} of {calls.steps} calls have no receipt"
        state = FactState.UNVERIFIED if signed else FactState.NOT_CHECKED
        return Fact(state, [Problem("receipt-missing", message, "receipts")])
    return Fact(FactState.VERIFIED if signed else FactState.NOT_APPLICABLE)


def check_payment(calls: Calls, session: PaidSession) -> Fact:
    """Whether the client's highest voucher authorizes what was spent.

    Codes: `voucher-` before a code of `require_signer`; `voucher-missing`, `spent-unknown`,
    `spent-above-voucher`, `voucher-above-deposit`.
    """
    where = "header.extensions"
    if calls.spent is None:
        return Fact(FactState.UNVERIFIED, [Problem("spent-unknown", "not every charge is known", where)])
    if session.voucher is None:
        if not calls.spent:
            return Fact(FactState.NOT_APPLICABLE)
        return Fact(FactState.NOT_CHECKED, [Problem("voucher-missing", "no voucher is here", where)])
    voucher, signature = session.voucher
    refusal = _signer_problem("voucher", voucher, signature, session.channel.voucher_signer, session, where)
    if refusal is not None:
        # A contract wallet's signature can be judged by its chain alone.
        return Fact(FactState.UNVERIFIED, [refusal])
    amount = voucher.cumulative_amount
    if amount < calls.spent:
        message = f"{calls.spent} spent, the voucher is over {amount}"
        return Fact(FactState.FAILED, [Problem("spent-above-voucher", message, where)])
    if session.deposit is not None and amount > session.deposit:
        message = f"the voucher is over {amount}, the deposit is {session.deposit}"
        return Fact(FactState.FAILED, [Problem("voucher-above-deposit", message, where)])
    return Fact(FactState.VERIFIED)


def _receipt_problem(call: PaidCall, session: PaidSession) -> Problem | None:
    result = call.result
    if result.signature is None or result.charge is None:
        return None
    receipt = CallReceipt(session.channel_id, result.index, result.leaf, result.charge)
    signer = session.service.terms.receipt_signer
    return _signer_problem("receipt", receipt, result.signature, signer, session, f"call {call.index}")


def _statement_problems(calls: Calls, session: PaidSession) -> list[Problem]:
    if session.statement is None:
        return []
    statement, signature = session.statement
    where = "statement"
    signer = session.service.terms.receipt_signer
    unsigned = _signer_problem("statement", statement, signature, signer, session, where)
    if unsigned is not None:
        return [unsigned]
    count = statement.call_count
    if count > calls.steps:
        message = f"it speaks of {count} calls, here are {calls.steps}"
        return [Problem("statement-count-mismatch", message, where)]
    if not calls.complete:
        return []
    problems = []
    if statement.root != calls.prefix_root(count):
        message = f"the first {count} calls have another root"
        problems.append(Problem("statement-root-mismatch", message, where))
    charges = [call.result.charge for call in calls.calls[:count]]
    known = [charge for charge in charges if charge is not None]
    if len(known) == count and sum(known) != statement.spent:
        message = f"it says {statement.spent}, the receipts add up to {sum(known)}"
        problems.append(Problem("statement-spent-mismatch", message, where))
    return problems


def _signer_problem(
    prefix: str, message: SignedMessage, signature: bytes, signer: Address, session: PaidSession, where: str
) -> Problem | None:
    try:
        require_signer(message.digest(session.domain), signature, signer)
    except (SignatureInvalid, InvalidInput) as error:
        return Problem(f"{prefix}-{error.code}", str(error), where)
    return None
