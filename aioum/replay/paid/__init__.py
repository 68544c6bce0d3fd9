"""Paid sessions as replay artifacts: written from an evidence package, rechecked by an adapter."""

from aioum.replay.paid.adapter import recheck_replay

__all__ = ["recheck_replay"]
