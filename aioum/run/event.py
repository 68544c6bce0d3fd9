"""Events of a run and its header (PROTOCOL 8). What an event holds is public: contents are commitments."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from aioum.core.canonical import JsonValue
from aioum.core.types import Bytes32, ChannelId
from aioum.run.fields import integer, malformed, read_hash, require_hash, require_integer, require_name

HEADER_TYPE: Final = "aioum.run.v1"

_REQUIRED: Final = frozenset(("index", "kind", "at", "name", "input", "output"))
_ALLOWED: Final = _REQUIRED | {"parent", "call"}
_CALL_MEMBERS: Final = frozenset(("channelId", "index", "leaf"))
_HEADER_MEMBERS: Final = frozenset(("type", "suite", "runId", "startedAt", "agent"))
_SUITE_MEMBERS: Final = frozenset(("canonicalization", "leafHash", "nodeHash"))


class Kind(StrEnum):
    """What happened."""

    LLM_CALL = "llm-call"
    TOOL_CALL = "tool-call"
    RETRIEVAL = "retrieval"
    SUB_AGENT = "sub-agent"
    APPROVAL = "approval"
    GUARDRAIL = "guardrail"


_KINDS: Final = {kind.value: kind for kind in Kind}


@dataclass(frozen=True, slots=True)
class PaidCall:
    """The paid call that a tool call was: a link into a session's transcript (PROTOCOL 2).

    Attributes:
        channel_id: 32 bytes.
        index: of the call in its session, 0 to 2^53-1.
        leaf: of the call, 32 bytes.

    Raises:
        EventMalformed: `event-malformed`.
    """

    channel_id: ChannelId
    index: int
    leaf: Bytes32

    def __post_init__(self) -> None:
        require_integer("call.index", self.index)
        require_hash("call.channelId", self.channel_id)
        require_hash("call.leaf", self.leaf)

    def to_json(self) -> dict[str, JsonValue]:
        """The JSON object."""
        return {
            "channelId": "0x" + self.channel_id.hex(),
            "index": self.index,
            "leaf": "0x" + self.leaf.hex(),
        }

    @classmethod
    def from_json(cls, value: JsonValue) -> PaidCall:
        """Read what `to_json` gives, in that spelling only. Raises EventMalformed."""
        if type(value) is not dict or value.keys() != _CALL_MEMBERS:
            raise malformed("call must have exactly the members channelId, index and leaf")
        return cls(
            ChannelId(read_hash("call.channelId", value["channelId"])),
            integer("call.index", value["index"]),
            Bytes32(read_hash("call.leaf", value["leaf"])),
        )


@dataclass(frozen=True, slots=True)
class Event:
    """One step of a run.

    Attributes:
        index: position in the run, 0 to 2^53-1.
        kind: what happened.
        at: when, unix milliseconds, 0 to 2^53-1; the recorder's own clock.
        name: of the tool, model or whatever it was, 1 to MAX_NAME_BYTES of UTF-8.
        input: commitment, 32 bytes.
        output: commitment, 32 bytes.
        parent: index of the event that this one belongs to, such as a sub-agent's; or None. `Run` numbers
            events as they begin, so it comes first; a recorder that numbers them as they end puts it last.
        call: the paid call that a tool call was, or None.

    Raises:
        EventMalformed: `event-malformed`.
    """

    index: int
    kind: Kind
    at: int
    name: str
    input: bytes
    output: bytes
    parent: int | None = None
    call: PaidCall | None = None

    def __post_init__(self) -> None:
        require_integer("index", self.index)
        require_integer("at", self.at)
        if type(self.kind) is not Kind:
            raise malformed(f"the kind {self.kind!r:.40} is none of {', '.join(Kind)}")
        require_name("name", self.name)
        require_hash("input", self.input)
        require_hash("output", self.output)
        if self.parent is not None:
            require_integer("parent", self.parent)
            if self.parent == self.index:
                raise malformed("it is its own parent")
        if self.call is not None and self.kind is not Kind.TOOL_CALL:
            raise malformed(f"a {self.kind.value} has no paid call")

    def to_json(self) -> dict[str, JsonValue]:
        """The JSON object; absent members are left out."""
        value: dict[str, JsonValue] = {
            "index": self.index,
            "kind": self.kind.value,
            "at": self.at,
            "name": self.name,
            "input": "0x" + self.input.hex(),
            "output": "0x" + self.output.hex(),
        }
        if self.parent is not None:
            value["parent"] = self.parent
        if self.call is not None:
            value["call"] = self.call.to_json()
        return value

    @classmethod
    def from_json(cls, value: JsonValue) -> Event:
        """Read what `to_json` gives: no other members, hex in lower case.

        Raises:
            EventMalformed: `event-malformed`.
        """
        if type(value) is not dict or not _REQUIRED <= value.keys() <= _ALLOWED:
            raise malformed(f"an event has the members {', '.join(sorted(_REQUIRED))}, and parent or call")
        kind, name = value["kind"], value["name"]
        if type(kind) is not str or kind not in _KINDS:
            raise malformed(f"the kind {kind!r:.40} is none of {', '.join(Kind)}")
        if type(name) is not str:
            raise malformed("name must be text")
        return cls(
            index=integer("index", value["index"]),
            kind=_KINDS[kind],
            at=integer("at", value["at"]),
            name=name,
            input=read_hash("input", value["input"]),
            output=read_hash("output", value["output"]),
            parent=integer("parent", value["parent"]) if "parent" in value else None,
            call=PaidCall.from_json(value["call"]) if "call" in value else None,
        )


@dataclass(frozen=True, slots=True)
class SuiteNames:
    """How a run is hashed, by name. Whether this program can do it is for aioum.run.suite to say.

    Attributes:
        canonicalization: how JSON becomes bytes.
        leaf_hash: of headers, events and the chain.
        node_hash: of the Merkle tree over the leaves.

    Raises:
        EventMalformed: `header-malformed`.
    """

    canonicalization: str = "jcs"
    leaf_hash: str = "blake3"
    node_hash: str = "keccak256"

    def __post_init__(self) -> None:
        require_name("canonicalization", self.canonicalization, code="header-malformed")
        require_name("leafHash", self.leaf_hash, code="header-malformed")
        require_name("nodeHash", self.node_hash, code="header-malformed")


@dataclass(frozen=True, slots=True)
class Header:
    """What a run is, before its first event.

    Attributes:
        run_id: 1 to MAX_NAME_BYTES of UTF-8, chosen by the owner.
        started_at: unix milliseconds, 0 to 2^53-1.
        agent: who ran, 1 to MAX_NAME_BYTES of UTF-8.
        suite: names of the hashes.

    Raises:
        EventMalformed: `header-malformed`.
    """

    run_id: str
    started_at: int
    agent: str
    suite: SuiteNames = SuiteNames()

    def __post_init__(self) -> None:
        require_name("runId", self.run_id, code="header-malformed")
        require_name("agent", self.agent, code="header-malformed")
        require_integer("startedAt", self.started_at, code="header-malformed")

    def to_json(self) -> dict[str, JsonValue]:
        """The JSON object."""
        return {
            "type": HEADER_TYPE,
            "suite": {
                "canonicalization": self.suite.canonicalization,
                "leafHash": self.suite.leaf_hash,
                "nodeHash": self.suite.node_hash,
            },
            "runId": self.run_id,
            "startedAt": self.started_at,
            "agent": self.agent,
        }

    @classmethod
    def from_json(cls, value: JsonValue) -> Header:
        """Read what `to_json` gives. Raises EventMalformed `header-malformed`."""
        if type(value) is not dict or value.keys() != _HEADER_MEMBERS or value["type"] != HEADER_TYPE:
            raise malformed(
                f"a header has the members {', '.join(sorted(_HEADER_MEMBERS))} and type {HEADER_TYPE}",
                "header-malformed",
            )
        suite: Any = value["suite"]
        if type(suite) is not dict or suite.keys() != _SUITE_MEMBERS:
            raise malformed(
                "a suite has exactly the members canonicalization, leafHash and nodeHash", "header-malformed"
            )
        header: Any = value
        return cls(
            run_id=header["runId"],
            started_at=header["startedAt"],
            agent=header["agent"],
            suite=SuiteNames(suite["canonicalization"], suite["leafHash"], suite["nodeHash"]),
        )
