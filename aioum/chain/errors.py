"""The one place where errors of web3 and its transport become aioum's; reverts are decoded by our ABIs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

from aioum.chain.abi import Revert, decode_revert
from aioum.core.errors import AioumError, ChainError, ContractReverted, InvalidInput
from aioum.core.hextext import from_hex

ANSWERED_BY: Final = "endpoint"
"""The member of a JSON-RPC answer in which a pool notes whose it is."""

_UNREACHABLE_HINT: Final = "is the endpoint up, and its address right?"
# Elsewhere in the project these words mean something else.
_OTHER_CODES: Final = {"AnswerTooLate": "answer-time-over", "ChannelNotFound": "channel-unknown"}
_WORD_ENDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
HINTS: Final = {
    "AddressEmptyCode": "there is no contract at this address of this chain",
    "AlreadyDisputed": "read the session's case: a session is disputed once",
    "AlreadyRated": "a session is rated once",
    "AmountExceedsDeposit": "top the session up, or use an earlier voucher",
    "AmountNotIncreasing": "this voucher, or a higher one, was settled before",
    "AnswerStillDue": "wait until the operator's time to answer is over",
    "AnswerTooLate": "the challenge can only be claimed as unanswered now",
    "AnswersAnotherWord": "answer the word that is challenged, as the case has it",
    "AuthorizationNotValidNow": "have the payer sign a new authorization; the chain's clock judges it",
    "AuthorizationSignatureInvalid": "the payer must sign for this token, receiver, amount and nonce",
    "AuthorizationUsedAlready": "read the session: the authorization did its work before",
    "AwardAboveHeld": "award at most what is held",
    "AwardExceedsHeld": "read the session: less than that is held for it",
    "CaptureBelowSettled": "read the session again: more than this is settled already",
    "CaptureExceedsVoucher": "use the client's highest voucher",
    "ChallengePending": "wait for its answer, or claim it unanswered when the time is over",
    "ChannelAlreadyExists": "open with a fresh nonce",
    "ChannelFinalized": "read the session: it is over",
    "ChannelNotFound": "is the channel of this chain and this PaymentManager? a devnet may have been reset",
    "CloseNotReady": "request the close first, then wait for the grace period to end",
    "ClosePending": "let the payer top up by itself: only that takes its request to close back",
    "CoverageInvalid": "give a statement and one receipt for each later anchored call, in order, at most 32",
    "DecisionPending": "a dispute or a challenge has to end first",
    "DepositOverflow": "a deposit is at most 2^128-1 base units",
    "DescriptorURITooLong": "publish the card at a shorter address",
    "DetailURITooLong": "publish the details at a shorter address",
    "DisputeWindowNeedsBond": "give the terms a dispute bond above 0",
    "DisputeWindowNeedsCommit": "a service with a dispute window must require commits",
    "DisputeWindowOutOfRange": "a dispute window is 0, or 1 hour to 30 days",
    "ERC20InsufficientAllowance": "approve the contract that pulls the tokens for the amount",
    "ERC20InsufficientBalance": "fund the account with the token",
    "ERC20InvalidApprover": "name an owner of the tokens",
    "ERC20InvalidReceiver": "name a receiver that is not the zero address",
    "ERC20InvalidSender": "name a sender that is not the zero address",
    "ERC20InvalidSpender": "name a spender that is not the zero address",
    "EvidenceHashMissing": "give the keccak256 of the published bytes",
    "FailedCall": "the called contract failed without a reason; the same call on its own may show one",
    "FirstAnchorTakesNoProof": "anchor the first checkpoint without a proof",
    "GracePeriodOutOfRange": "a grace period is 15 minutes to 30 days",
    "InconsistentLog": "an anchored log only grows: anchor a checkpoint of the same log",
    "InsufficientBalance": "fund the contract that sends",
    "InsufficientGas": "send it with more gas",
    "InvalidAnchor": "an anchor has a size above 0 and a root",
    "InvalidCommitment": "a commitment has a root and a call count, both nonzero",
    "InvalidRecipient": "name another address to send the tokens to",
    "InvalidShortString": "use the contracts of this release; this one was built with other names",
    "InvalidSignature": "the voucher must be signed by the session's authorized signer, or its payer",
    "NoArbitrator": "the terms name no arbitrator; only provable lies can be shown",
    "NoChallengePending": "read the session's case: no challenge is pending",
    "NoCredit": "nothing waits for this account in this token",
    "NoDisputePending": "read the session's case: no dispute is pending",
    "NoMoneyHeld": "read the session: nothing is held for it, or it has left",
    "NotArbitrator": "use the key of the arbitrator that the session's terms name",
    "NotChallengeable": "challenge words about anchored calls; a word about a later one proves an omission",
    "NotDisputeManager": "let the DisputeManager decide; nobody else may",
    "NotOperator": "use the key of the service's operator",
    "NotOperatorsWord": "only what the terms' receipt signer signed for this session counts",
    "NotOvercharged": "the charges cover what was captured",
    "NotPayee": "use the key of the channel's payee",
    "NotPayeeOrOperator": "use the key of the session's payee or operator",
    "NotPayer": "use the key of the session's payer",
    "NotReceiver": "have the receiver of the authorization send it",
    "NotSessionOperator": "use the key of the operator of the session's terms",
    "NotSessionPayer": "use the key of the session's payer",
    "NothingCaptured": "only a session that cost something is rated",
    "NothingHeld": "read the session: nothing is held for it, or it has left",
    "NothingOmitted": "the word is about an anchored call; challenge it instead",
    "PaymentManagerWithoutCode": "name the PaymentManager of this chain",
    "ProofInvalid": "build the proof for the anchored root and count",
    "ReentrancyGuardReentrantCall": "do not call the contract from within a call of it",
    "RegistryWithoutCode": "name the ServiceRegistry of this chain",
    "RootAlreadyCommitted": "read the session: its history is anchored, and cannot change",
    "RootRequired": "commit the root first, or settle with settleSession",
    "RulingPeriodOutOfRange": "a ruling period is 1 to 30 days where there is an arbitrator",
    "RulingStillDue": "wait until the arbitrator's time to rule is over",
    "RulingTooLate": "the dispute can only lapse now",
    "SafeERC20FailedOperation": "the token refuses the transfer: check its balances, allowances and blocks",
    "ScoreOutOfRange": "a score is 0 to 100",
    "SelfRating": "a payee or operator does not rate itself",
    "ServiceNotActive": "the service is unknown or retired",
    "SessionNotFinalized": "rate the session when it is over",
    "SessionNotFound": "is the session of this chain? plain channels are not rated",
    "SizeNotGrowing": "an anchored log only grows: anchor a larger checkpoint",
    "StillHeld": "wait until the dispute window is over",
    "StringTooLong": "use the contracts of this release; this one was built with other names",
    "TermsNotCurrent": "read the service again: its terms have changed",
    "TokenWithoutCode": "there is no token at this address of this chain",
    "TransferAmountMismatch": "the token moves another amount than it is told to, and cannot be used here",
    "URILengthInvalid": "a URI has 1 to 8,192 bytes: publish elsewhere",
    "WindowClosed": "the dispute window is over; what is held can only be released",
    "WindowNotOpen": "close the session first: the dispute window opens then",
    "WordsDoNotConflict": "give two words about the same calls that say different things",
    "ZeroAddress": "give every address of the terms but the arbitrator's",
    "ZeroDeposit": "deposit at least one base unit",
    "ZeroPayee": "name a payee",
}
"""What a person can do about each custom error of our contracts and of the libraries in them."""


@contextmanager
def translated(rpc_url: str) -> Iterator[None]:
    """Turn what web3 and aiohttp raise inside into ChainError.

    Raises:
        ChainError: `rpc-timeout`, `rpc-unreachable` (also an HTTP error status: nothing is known of the
            request), `rpc-error` (the endpoint's JSON-RPC error), `rpc-response-invalid`, `contract-missing`.
        ContractReverted: as `reverted`.
    """
    try:
        yield
    except AioumError:
        raise
    except Exception as error:
        replacement = _translate(error, shown_url(rpc_url), _secrets(rpc_url))
        if replacement is None:
            raise
        raise replacement from error


def reverted(
    data: bytes, *, code: str | None = None, details: dict[str, Any] | None = None
) -> ContractReverted:
    """The error for a call or transaction that reverted with `data`.

    Args:
        data: what it reverted with.
        code: another reason code than that of the custom error.
        details: facts beside those below.

    Returns:
        an error under the code of the custom error, or `contract-reverted` where it is none of ours. Its
        details hold `reason` (that code, or None), `error` (the custom error's name, `Error`, `Panic`, or
        None where it is unknown), `args` and, where it is unknown, `data`.
    """
    revert = decode_revert(data)
    facts = dict(details or {})
    if revert is None:
        facts |= {"reason": None, "error": None, "args": {}, "data": "0x" + data.hex()}
        return ContractReverted(
            "the contract refused without a reason that we know", code=code, details=facts
        )
    hint = HINTS.get(revert.error)
    reason = None if hint is None else reason_code(revert.error)
    facts |= {"reason": reason, "error": revert.error, "args": dict(revert.args)}
    return ContractReverted(
        f"the contract refused: {_described(revert)}", code=code or reason, hint=hint, details=facts
    )


def reason_code(custom_error: str) -> str:
    """The reason code of a custom error: `NotArbitrator` is `not-arbitrator`."""
    return _OTHER_CODES.get(custom_error) or _WORD_ENDS.sub("-", custom_error).lower()


def shown_url(rpc_url: str) -> str:
    """An endpoint without what may be a secret: user, password, path and query."""
    parts = urlsplit(rpc_url)
    host = parts.hostname or "?"
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}" + (
        f":{parts.port}" if parts.port else ""
    )


def _described(revert: Revert) -> str:
    if revert.error == "Error":
        return str(revert.args["reason"])
    return f"{revert.error}({', '.join(f'{name}={value}' for name, value in revert.args.items())})"


def _secrets(rpc_url: str) -> list[str]:
    """What `shown_url` leaves out: all of it may be a key."""
    parts = urlsplit(rpc_url)
    path = parts.path.strip("/")
    return [text for text in (parts.username, parts.password, path, parts.query) if text]


def _words(error: Exception, secrets: list[str]) -> str:
    """What a foreign error says, unless it repeats the address that it is about."""
    text = str(error)
    return type(error).__name__ if any(secret in text for secret in secrets) else text


def _translate(error: Exception, url: str, secrets: list[str]) -> ChainError | None:
    import aiohttp
    from web3 import exceptions

    if isinstance(error, exceptions.ContractLogicError):
        return reverted(_revert_data(error.data))
    if isinstance(error, TimeoutError):
        return ChainError(f"{url} did not answer in time", code="rpc-timeout", hint=_UNREACHABLE_HINT)
    if isinstance(error, aiohttp.ClientResponseError):
        return ChainError(
            f"{url} answered with HTTP status {error.status}",
            code="rpc-unreachable",
            hint=_UNREACHABLE_HINT,
            details={"status": error.status},
        )
    if isinstance(error, (aiohttp.ClientError, OSError)):
        return ChainError(
            f"{url} cannot be reached: {_words(error, secrets)}",
            code="rpc-unreachable",
            hint=_UNREACHABLE_HINT,
        )
    if isinstance(error, exceptions.Web3RPCError):
        response: Any = error.rpc_response or {}
        answer: Any = response.get("error")
        url = response.get(ANSWERED_BY, url)
        facts = answer if isinstance(answer, dict) else {}
        return ChainError(
            f"{url} refused the request: {facts.get('message', error.message)}",
            code="rpc-error",
            details={"rpc_code": facts.get("code"), "rpc_message": facts.get("message", error.message)},
        )
    if isinstance(error, exceptions.BadFunctionCallOutput):
        return ChainError(
            "no contract of ours answers at this address",
            code="contract-missing",
            hint="check the address and the chain; a devnet may have been reset",
        )
    # The plain ones are what web3 stumbles into on an answer that is not JSON, or not the JSON it expects.
    if isinstance(error, exceptions.Web3Exception | ValueError | LookupError | TypeError | AttributeError):
        return ChainError(
            f"{url} gave no valid answer: {_words(error, secrets)}", code="rpc-response-invalid"
        )
    return None


def _revert_data(data: object) -> bytes:
    if isinstance(data, dict):
        data = data.get("data")
    try:
        return from_hex(data)
    except InvalidInput:
        return b""
