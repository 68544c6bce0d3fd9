"""One change to an honest signed session for each way to tamper with it.

The operator here is careful: it holds the receipt signer's key and writes the chain, so receipts, statement,
claimed root and anchor all agree with its story. Only the client's signatures do not.
"""

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from aioum.core.evidence import disclose
from aioum.core.submission.chain import Periodic, paid_session_id
from aioum.core.submission.framing import MAX_COMMAND_BYTES
from aioum.core.submission.keys import SubmissionKey
from aioum.core.submission.roster import Roster, RosterEntry
from aioum.core.transcript import Entry, canonical_request
from aioum.core.types import Bytes32
from tests.unit.verify.honest import Honest, edited, seat_envelopes, seat_key

GROUP_ORDER = 2**252 + 27742317777372353535851937790883648493
IDENTITY_KEY = bytes((1,)) + bytes(31)
ORDER_EIGHT_KEY = bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa")

Entries = list[dict[str, Any]]
Edit = Callable[[dict[str, Any]], object]


@dataclass(frozen=True)
class TamperedSession:
    """What a verifier is given.

    Attributes:
        told: the session as the operator tells and anchors it.
        package: of that session.
        retained: heads that the client kept, by seat.
    """

    told: Honest
    package: dict[str, Any]
    retained: Mapping[str, list[Bytes32]] = field(default_factory=dict)


Case = Callable[[Honest], TamperedSession]


def story(
    calls: Callable[[list[Entry]], list[Entry]], submissions: Callable[[Entries], Entries] = list
) -> Case:
    """The operator tells other calls, numbered anew, and arranges the client's envelopes as it can."""

    def tell(honest: Honest) -> TamperedSession:
        told = [replace(entry, index=index) for index, entry in enumerate(calls(list(honest.calls)))]
        session = replace(honest, calls=tuple(told), settled=0)
        signed = honest.package()["submissions"]
        arranged = submissions([dict(entry) for entry in signed["entries"]])
        package = {
            **session.package(vouchers=(), submissions=None),
            "submissions": {**signed, "entries": arranged},
        }
        return TamperedSession(session, package)

    return tell


def envelopes(edit: Callable[[Entries], object]) -> Case:
    """The calls are as they were; the entries of the submissions are edited."""
    return package(lambda package: edit(package["submissions"]["entries"]))


def package(edit: Edit) -> Case:
    return lambda honest: TamperedSession(honest, edited(honest.package(), edit))


def disclosed(edit: Edit, indexes: tuple[int, ...] = (0, 1, 2, 5)) -> Case:
    return lambda honest: TamperedSession(honest, edited(disclose(honest.package(), indexes), edit))


def untouched(_: dict[str, Any]) -> None:
    """The honest package as it is."""


def set_member(*path: Any, value: Any) -> Callable[[Any], None]:
    def edit(target: Any) -> None:
        for step in path[:-1]:
            target = target[step]
        target[path[-1]] = value

    return edit


def without(index: int) -> Callable[[list[Any]], list[Any]]:
    return lambda items: items[:index] + items[index + 1 :]


def numbered(entries: Entries) -> Entries:
    return [{**entry, "index": index} for index, entry in enumerate(entries)]


def moved(edit: Callable[[list[Any]], list[Any]]) -> Case:
    """Calls and envelopes are moved alike, and all are numbered anew."""
    return story(edit, lambda entries: numbered(edit(entries)))


def swapped(items: list[Any]) -> list[Any]:
    items[0], items[2] = items[2], items[0]
    return items


def another(text: str) -> Entry:
    return Entry(0, "uppercase", canonical_request("uppercase", {"text": text}), text.upper())


def with_altered_request(calls: list[Entry]) -> list[Entry]:
    calls[1] = another("something else")
    return calls


def with_other_tool(calls: list[Entry]) -> list[Entry]:
    calls[5] = Entry(0, "gold", canonical_request("gold", {"text": "word five"}), "WORD FIVE")
    return calls


def last_dropped_from_a_client_that_kept_its_heads(honest: Honest) -> TamperedSession:
    last = honest.submissions().entries[-1]  # type: ignore[union-attr]
    head = last.envelope.submission(honest.channel_id, honest.calls[-1].request.encode()).head()
    return replace(moved(without(5))(honest), retained={last.envelope.seat: [head]})


def signed_by_the_operator(honest: Honest) -> tuple[Roster, Entries]:
    key = SubmissionKey(b"\x77" * 32)
    roster = Roster.of(*(RosterEntry(seat, key.public_key) for seat in honest.seats))
    turns = [(honest.seats[call.index % 2], call.request) for call in honest.calls]
    forged = seat_envelopes(honest.channel_id, roster, turns, lambda seat: key)
    entries = []
    for index, envelope in enumerate(forged):
        value: dict[str, Any] = envelope.to_json()
        del value["cursor"]
        entries.append({**value, "index": index})
    return roster, entries


def roster_swapped(honest: Honest) -> TamperedSession:
    roster, entries = signed_by_the_operator(honest)
    forged = {"roster": roster.to_json(), "entries": entries}
    return package(set_member("submissions", value=forged))(honest)


def roster_swapped_in_the_channel_too(honest: Honest) -> TamperedSession:
    roster, _ = signed_by_the_operator(honest)
    tampered = roster_swapped(honest)
    edit = set_member("channel", "rosterHash", value="0x" + roster.hash.hex())
    return replace(tampered, package=edited(tampered.package, edit))


def replayed_from_another_session(honest: Honest) -> TamperedSession:
    other = replace(honest, nonce=Bytes32(b"\xce" * 32))
    return package(set_member("submissions", value=other.package()["submissions"]))(honest)


def periodic_as_submission(honest: Honest) -> TamperedSession:
    signed = honest.submissions()
    assert signed is not None
    entry = signed.entries[2]
    attested = Periodic(
        paid_session_id(honest.channel_id), entry.envelope.seat, 2, entry.envelope.client_time,
        entry.envelope.prev_head,
    )  # fmt: skip
    signature = seat_key(entry.envelope.seat).sign(attested.preimage())
    return envelopes(set_member(2, "sig", value=base64.b64encode(signature).decode()))(honest)


def with_s_plus_l(entries: Entries) -> None:
    signature = base64.b64decode(entries[5]["sig"])
    high = int.from_bytes(signature[32:], "little") + GROUP_ORDER
    entries[5]["sig"] = base64.b64encode(signature[:32] + high.to_bytes(32, "little")).decode()


def with_trailing_bits(entries: Entries) -> None:
    # 32 bytes leave two spare bits in the last character before the padding.
    head: str = entries[5]["prevHead"]
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    entries[5]["prevHead"] = head[:-2] + alphabet[alphabet.index(head[-2]) | 1] + "="


def with_weak_key(key: bytes) -> Case:
    def opened(honest: Honest) -> TamperedSession:
        """The client itself opened the session with such a key, to disown its calls later."""
        roster = Roster.of(RosterEntry("client", key))

        @dataclass(frozen=True)
        class Weak(Honest):
            @property
            def roster(self) -> Roster:
                return roster

        session = Weak(seats=("client",))
        signed = session.package()["submissions"]
        # R = identity and S = 0 fits every message under a key of small order.
        forged = base64.b64encode(IDENTITY_KEY + bytes(32)).decode()
        entries = [{**entry, "sig": forged} for entry in signed["entries"]]
        return TamperedSession(session, {**session.package(), "submissions": {**signed, "entries": entries}})

    return opened


def asked(text: str) -> Callable[[list[Entry]], list[Entry]]:
    def replace_last(calls: list[Entry]) -> list[Entry]:
        calls[5] = Entry(0, "uppercase", text, "x")
        return calls

    return replace_last


SIZE_WITHOUT_TEXT = len(canonical_request("uppercase", {"text": ""}))
TOO_LARGE = canonical_request("uppercase", {"text": "x" * (MAX_COMMAND_BYTES + 1 - SIZE_WITHOUT_TEXT)})
TOO_DEEP = '{"arguments":' + "[" * 500 + "]" * 500 + ',"tool":"uppercase"}'
OTHER_KEY_ORDER = '{"arguments":{"\U0001f600":1,"\uff5e":2},"tool":"uppercase"}'

CASES: dict[str, Case] = {
    "nothing altered": package(untouched),
    "request altered": story(with_altered_request),
    "call inserted at the end": story(lambda calls: [*calls, another("gift")]),
    "call inserted in the middle": story(
        lambda calls: [*calls[:2], another("gift"), *calls[2:]],
        lambda entries: [{**entry, "index": entry["index"] + (entry["index"] >= 2)} for entry in entries],
    ),
    "first call dropped": moved(without(0)),
    "middle call dropped": moved(without(2)),
    "last call dropped": moved(without(5)),
    "last call dropped from a client that kept its heads": last_dropped_from_a_client_that_kept_its_heads,
    "call duplicated": moved(lambda items: [*items[:2], items[1], *items[2:]]),
    "calls reordered": moved(swapped),
    "call re-attributed to another seat": envelopes(set_member(3, "seat", value="client")),
    "call re-attributed to a seat that is not there": envelopes(set_member(3, "seat", value="mallory")),
    "roster swapped": roster_swapped,
    "roster swapped in the channel too": roster_swapped_in_the_channel_too,
    "roster entry's tier altered": package(
        set_member("submissions", "roster", 0, "signingTier", "N", value=100)
    ),
    "replayed from another session": replayed_from_another_session,
    "periodic signature as a submission": periodic_as_submission,
    "submission stripped from a call": envelopes(lambda entries: entries.pop(4)),
    "all submissions stripped": package(lambda package: package.pop("submissions")),
    "client time altered": envelopes(set_member(1, "clientTime", value=0)),
    "submission id altered": envelopes(set_member(1, "submissionId", value="researcher-other")),
    "submission id used twice": envelopes(set_member(2, "submissionId", value="client-0")),
    "head altered": envelopes(set_member(2, "prevHead", value=base64.b64encode(bytes(32)).decode())),
    "tool that the card does not have": story(with_other_tool),
    "signature with S + L": envelopes(with_s_plus_l),
    "seat key is the identity": with_weak_key(IDENTITY_KEY),
    "seat key of order eight": with_weak_key(ORDER_EIGHT_KEY),
    "base64 with trailing bits": envelopes(with_trailing_bits),
    "entry with a member too many": envelopes(set_member(1, "tick", value=1)),
    "entries out of order": envelopes(lambda entries: entries.reverse()),
    "entry of a call that is not there": envelopes(set_member(5, "index", value=9)),
    "roster with a seat twice": package(
        lambda package: package["submissions"]["roster"].append(package["submissions"]["roster"][0])
    ),
    "request of 64 KiB and one byte": story(asked(TOO_LARGE)),
    "request nested 500 deep": story(asked(TOO_DEEP)),
    "request in another key order": story(asked(OTHER_KEY_ORDER)),
    "disclosed, nothing altered": disclosed(untouched),
    "disclosed, all calls": disclosed(untouched, tuple(range(6))),
    "disclosed, signature altered": disclosed(set_member("submissions", "entries", 3, "clientTime", value=0)),
    "disclosed, link between neighbors altered": disclosed(
        set_member("submissions", "entries", 0, "prevHead", value=base64.b64encode(bytes(32)).decode())
    ),
}
