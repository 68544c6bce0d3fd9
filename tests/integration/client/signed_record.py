"""What the tests of signed sessions compare: the operator's side of heads and envelopes."""

from typing import Any

import pytest

from aioum.core.errors import (
    AioumError,
)
from aioum.core.submission.chain import genesis, paid_session_id
from aioum.core.submission.framing import encode_base64
from aioum.core.types import ChannelId
from tests.integration.client.scripted_operator import ScriptedOperator

RESEARCHER = "researcher"


def code_of(caught: pytest.ExceptionInfo[Any]) -> str:
    assert isinstance(caught.value, AioumError)
    return caught.value.code


def heads_at(operator: ScriptedOperator, channel: ChannelId) -> dict[str, str]:
    """Each seat's head, from what reached the operator and from nothing else."""
    roster = operator.rosters[channel]
    heads = {seat: genesis(paid_session_id(channel), seat, roster.hash) for seat in roster.seats}
    for index, call in enumerate(operator.calls[channel]):
        envelope = call.envelope
        assert envelope is not None
        assert (envelope.cursor, envelope.prev_head) == (index, heads[envelope.seat])
        heads[envelope.seat] = envelope.submission(channel, call.request).head()
    return {seat: encode_base64(head) for seat, head in heads.items()}


def lone_envelopes(operator: ScriptedOperator, channel: ChannelId) -> int:
    """How many heads were signed on, each of them once."""
    found = operator.envelopes_of(channel)
    assert all(len(envelopes) == 1 for envelopes in found)
    return len(found)
