"""Settling sessions on the chain: when, with which voucher, in which transaction, and what if it fails."""
