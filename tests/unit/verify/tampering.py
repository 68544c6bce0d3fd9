"""One change to an honest package, or to what the chain says of its session, for each way to tamper."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from aioum.core.evidence import disclose
from aioum.core.hextext import address_text, to_hex
from aioum.core.transcript import entry_to_json, transcript_root
from aioum.core.types import ZERO_BYTES32, Address, Bytes32
from aioum.verify.command import CommandReExecutor
from aioum.verify.ports import ReExecutor
from tests.unit.verify.honest import COMMAND, STRANGER, Honest, edited, entries

OTHER_ADDRESS = Address(b"\x99" * 20)

Edit = Callable[[dict[str, Any]], object]


@dataclass(frozen=True)
class Tampered:
    """What a verifier is given.

    Attributes:
        on_chain: members of the session that the chain has otherwise than the honest session.
        trusted: the PaymentManagers that the verifier knows; None: the session's.
    """

    package: dict[str, Any]
    on_chain: dict[str, Any] = field(default_factory=dict)
    trusted: frozenset[Address] | None = None
    re_executor: ReExecutor | None = None


Case = Callable[[Honest], Tampered]


def other_session(honest: Honest) -> Honest:
    return replace(
        honest, calls=tuple(entries("other")), nonce=Bytes32(b"\xce" * 32), session_id=honest.session_id + 1
    )


def whole(edit: Edit) -> Case:
    return lambda honest: Tampered(edited(honest.package(), edit))


def disclosed(edit: Edit) -> Case:
    return lambda honest: Tampered(edited(disclose(honest.package(), [1, 4]), edit))


def on_chain(**changed: Any) -> Case:
    return lambda honest: Tampered(honest.package(), changed)


def untouched(package: dict[str, Any]) -> None:
    """The honest package as it is."""


def set_member(*path: Any, value: Any) -> Edit:
    def edit(package: dict[str, Any]) -> None:
        target: Any = package
        for step in path[:-1]:
            target = target[step]
        target[path[-1]] = value

    return edit


def renumber(package: dict[str, Any]) -> None:
    for position, call in enumerate(package["calls"]):
        call["index"] = position


def with_own_root(package: dict[str, Any]) -> None:
    """Bring the claimed root in line with altered calls, as a careful forger does."""
    calls = [
        replace(
            entries()[0],
            index=index,
            tool_id=call["toolId"],
            request=call["request"],
            response=call["response"],
        )
        for index, call in enumerate(package["calls"])
    ]
    package["resultsRoot"] = to_hex(transcript_root(calls))


def drop_from_middle(package: dict[str, Any]) -> None:
    del package["calls"][2]


def alter_response(package: dict[str, Any]) -> None:
    package["calls"][1]["response"] = "WORD TWO"


def alter_request(package: dict[str, Any]) -> None:
    call = package["calls"][0]
    call["request"] = call["request"].replace('{"arguments"', '{ "arguments"')


def reorder(package: dict[str, Any]) -> None:
    calls = package["calls"]
    calls[0], calls[1] = calls[1], calls[0]


def carefully(edit: Edit) -> Edit:
    def edit_and_cover_up(package: dict[str, Any]) -> None:
        edit(package)
        renumber(package)
        with_own_root(package)

    return edit_and_cover_up


def swap_vouchers(package: dict[str, Any]) -> None:
    vouchers = package["vouchers"]
    vouchers[0], vouchers[1] = vouchers[1], vouchers[0]


def repeat_voucher(package: dict[str, Any]) -> None:
    package["vouchers"].append(package["vouchers"][-1])


def voucher_of_stranger(honest: Honest) -> Tampered:
    amount, signature = honest.voucher(2_000, STRANGER)
    forged = {"cumulativeAmount": str(amount), "signature": to_hex(signature)}
    return whole(set_member("vouchers", 1, value=forged))(honest)


def voucher_above_deposit(honest: Honest) -> Tampered:
    amount, signature = honest.voucher(honest.deposit + 1)
    above = {"cumulativeAmount": str(amount), "signature": to_hex(signature)}
    return whole(lambda package: package["vouchers"].append(above))(honest)


def calls_of_another_session(honest: Honest) -> Tampered:
    other = other_session(honest)

    def take(package: dict[str, Any]) -> None:
        package["calls"] = [entry_to_json(entry) for entry in other.calls]
        package["resultsRoot"] = to_hex(other.root)

    return whole(take)(honest)


def attest(**members: Any) -> Case:
    attestation = {"type": "tee-nitro", "format": "v1", "payload": "AAEC", **members}
    return whole(set_member("attestations", value=[attestation]))


CASES: dict[str, Case] = {
    "nothing altered": whole(untouched),
    "response altered": whole(alter_response),
    "response altered, claimed root brought in line": whole(carefully(alter_response)),
    "request altered to non-canonical text": whole(alter_request),
    "call dropped from the middle": whole(drop_from_middle),
    "call dropped from the middle, renumbered, root brought in line": whole(carefully(drop_from_middle)),
    "call dropped from the end": whole(lambda package: package["calls"].pop()),
    "calls reordered": whole(reorder),
    "calls reordered, renumbered, root brought in line": whole(carefully(reorder)),
    "index gap": whole(set_member("calls", 3, "index", value=7)),
    "toolId swapped": whole(set_member("calls", 0, "toolId", value="clock")),
    "extra member in an entry": whole(set_member("calls", 0, "price", value="0")),
    "response missing": whole(lambda package: package["calls"][5].pop("response")),
    "claimed root altered": whole(set_member("resultsRoot", value="0x" + "77" * 32)),
    "voucher forged": voucher_of_stranger,
    "voucher amount raised": whole(set_member("vouchers", 4, "cumulativeAmount", value="9000")),
    "voucher above deposit": voucher_above_deposit,
    "vouchers not increasing": whole(swap_vouchers),
    "voucher repeated": whole(repeat_voucher),
    "another session's root": lambda honest: Tampered(honest.package(), {"root": other_session(honest).root}),
    "another session's calls and root": calls_of_another_session,
    "committed callCount different": on_chain(call_count=7),
    "commit-required session without root": on_chain(root=ZERO_BYTES32, call_count=0),
    "wrong chain id": whole(set_member("chainId", value=1)),
    "a PaymentManager that the verifier does not know": lambda honest: Tampered(
        honest.package(), trusted=frozenset({OTHER_ADDRESS})
    ),
    "PaymentManager swapped for another": whole(
        set_member("paymentManager", value=address_text(OTHER_ADDRESS))
    ),
    "session label of another session": lambda honest: whole(
        set_member("sessionId", value=str(honest.session_id + 1))
    )(honest),
    "channel id of no session": whole(set_member("channelId", value="0x" + "12" * 32)),
    "payer altered": whole(set_member("channel", "payer", value=address_text(STRANGER.address))),
    "receipt signer altered in the terms": whole(
        set_member("terms", "receiptSigner", value=address_text(STRANGER.address))
    ),
    "price altered in the card": whole(set_member("card", "tools", 0, "price", value="1")),
    "charge altered in a receipt": whole(set_member("receipts", 3, "charge", value="1000")),
    "spent altered in the statement": whole(set_member("statement", "spent", value="1")),
    "unknown attestation type": attest(),
    "attestation covers a call that is not there": attest(coverage=[0, 6]),
    "quality claim": whole(set_member("claim", value="quality")),
    "diverging re-execution": lambda honest: Tampered(
        honest.package(), re_executor=CommandReExecutor(("cat",))
    ),
    "response altered, then re-executed": lambda honest: replace(
        whole(alter_response)(honest), re_executor=CommandReExecutor(COMMAND)
    ),
    "disclosed, nothing altered": disclosed(untouched),
    "disclosed, response altered": disclosed(set_member("calls", 0, "response", value="x")),
    "disclosed, index altered": disclosed(set_member("calls", 0, "index", value=2)),
    "disclosed, proof hash altered": disclosed(set_member("calls", 0, "proof", 0, value="0x" + "00" * 32)),
    "disclosed, proof too short": disclosed(lambda package: package["calls"][0]["proof"].pop()),
    "disclosed, callCount altered": disclosed(set_member("callCount", value=7)),
    "disclosed, root of another tree": disclosed(set_member("resultsRoot", value="0x" + "77" * 32)),
    "disclosed, calls reordered": disclosed(lambda package: package["calls"].reverse()),
}
