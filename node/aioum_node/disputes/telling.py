"""What the log and the metrics are told of disputes and challenges, as they are seen to come and go."""

from __future__ import annotations

from typing import Final

import structlog

from aioum.chain.decisions import Case, DisputeState
from aioum.core.hextext import to_hex
from aioum.core.types import ChannelId
from aioum_node.disputes.observer import DisputeObserver
from aioum_node.disputes.rules import HoldView

LATE: Final = "challenge-unanswered"
"""Alert: half, a quarter, a tenth of the time to answer is left."""

_PENDING: Final = "challenge-pending"
_RAISED: Final = "dispute-raised"
_RULED: Final = "dispute-ruled"
_LIE_PROVEN: Final = "lie-proven"

_log = structlog.get_logger(__name__)


def tell_changes(channel_id: ChannelId, before: Case, view: HoldView, observer: DisputeObserver) -> None:
    """Say what is new since an earlier look.

    Args:
        channel_id: of the session.
        before: its case as it was seen then; that of a session to which nothing happened at first.
        view: the look now.
        observer: told the alerts.
    """
    now = view.case
    channel = to_hex(channel_id)
    held = 0 if view.newest is None else view.newest.held
    if now.is_challenged and (now.challenged_word, now.answer_by) != (
        before.challenged_word,
        before.answer_by,
    ):
        seconds_left = now.answer_by - view.head.timestamp
        _log.warning(
            _PENDING,
            channel=channel,
            word=to_hex(now.challenged_word),
            answer_by=now.answer_by,
            seconds_left=seconds_left,
            held=held,
        )
        observer.dispute_alert(_PENDING)
    if before.is_challenged and not now.is_challenged and held:
        _log.info("challenge-over", channel=channel)
    if now.dispute is not before.dispute:
        _tell_dispute(channel, view, held, observer)
    if now.awarded and not before.awarded and now.dispute is not DisputeState.RULED:
        # Nothing but a ruling or a proven lie gives anything back.
        _log.error(_LIE_PROVEN, channel=channel, awarded=now.awarded)
        observer.dispute_alert(_LIE_PROVEN)


def _tell_dispute(channel: str, view: HoldView, held: int, observer: DisputeObserver) -> None:
    case = view.case
    match case.dispute:
        case DisputeState.PENDING:
            _log.warning(
                _RAISED,
                channel=channel,
                rule_by=case.rule_by,
                held=held,
                hint="answer it: aioum-node disputes respond",
            )
            observer.dispute_alert(_RAISED)
        case DisputeState.RULED:
            _log.warning(_RULED, channel=channel, awarded=case.awarded)
            observer.dispute_alert(_RULED)
        case DisputeState.LAPSED:
            _log.info("dispute-lapsed", channel=channel)
        case _:
            return
