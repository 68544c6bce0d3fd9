"""Buying tool calls: open a session, call, keep the record, close, prove."""

from aioum.client.closing import Closed
from aioum.client.marketplace import Marketplace, SessionHandle, SessionInfo, default_data_dir
from aioum.client.payer import Wallet
from aioum.client.policy import Policy
from aioum.client.records import Evidence, SessionPhase
from aioum.client.service import Offer
from aioum.client.session import CallResult, PaidSession
from aioum.client.settings import ClientSettings
from aioum.client.sqlite_writer import JournalError

__all__ = [
    "CallResult",
    "ClientSettings",
    "Closed",
    "Evidence",
    "JournalError",
    "Marketplace",
    "Offer",
    "PaidSession",
    "Policy",
    "SessionHandle",
    "SessionInfo",
    "SessionPhase",
    "Wallet",
    "default_data_dir",
]
