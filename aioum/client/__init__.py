"""Buying tool calls: open a session, call, keep the record, close, prove."""

from aioum.client.closing import Closed
from aioum.client.dispute import Decision, Dispute
from aioum.client.gasless import Relayer
from aioum.client.held_money import HeldMoney
from aioum.client.lanes import Lanes
from aioum.client.marketplace import Marketplace, SessionHandle, SessionInfo, default_data_dir
from aioum.client.payer import Wallet
from aioum.client.policy import Policy
from aioum.client.records import Evidence, SessionPhase
from aioum.client.recourse import Challenged, Proven
from aioum.client.results import CallResult
from aioum.client.seats import CLIENT_SEAT, Seat
from aioum.client.service import Offer
from aioum.client.session import PaidSession
from aioum.client.settings import ClientSettings
from aioum.client.sqlite_writer import JournalError
from aioum.core.submission.keys import SubmissionKey

__all__ = [
    "CLIENT_SEAT",
    "CallResult",
    "Challenged",
    "ClientSettings",
    "Closed",
    "Decision",
    "Dispute",
    "Evidence",
    "HeldMoney",
    "JournalError",
    "Lanes",
    "Marketplace",
    "Offer",
    "PaidSession",
    "Policy",
    "Proven",
    "Relayer",
    "Seat",
    "SessionHandle",
    "SessionInfo",
    "SessionPhase",
    "SubmissionKey",
    "Wallet",
    "default_data_dir",
]
