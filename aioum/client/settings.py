"""Limits of a client: times, sizes and counts, each with its unit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How long a client waits, how much it reads and how often it tries.

    Attributes:
        connect_timeout_seconds: for a connection to a node.
        answer_margin_seconds: on top of a tool's own timeout, for the answer of a paid call.
        read_timeout_seconds: for a card, a statement, or a page of calls.
        max_answer_bytes: most that is read of one call's answer, whatever the card allows; larger answers
            are never accepted.
        max_read_bytes: most that a node may answer to a read.
        retry_attempts: how often one paid call is sent before its outcome counts as unknown.
        retry_timeout_seconds: after this long no further attempt is made.
        retry_wait_initial_seconds, retry_wait_max_seconds: first and longest pause between attempts; it
            doubles.
        contradictions_before_stop: how often a call is repeated while the node answers with a signed receipt
            that does not fit the answer. A proxy can alter one answer; an operator that means it says it
            again.
        max_calls_in_flight: calls of one signed session that are under way at the same time, where the
            service takes so many. What an operator never answers is at most as many calls.
        close_timeout_seconds: how long `close` waits for the operator's settlement.
        poll_seconds: pause between two looks at the node or the chain while waiting.
        chain_check_seconds: a call is preceded by a look at the chain if the last is older.
        read_access_seconds: validity of a signed read permission, at most 86,400.
        confirmations: blocks after which a transaction of ours counts, 1 is the block that holds it.
        transaction_timeout_seconds: how long a transaction may stay unmined.
        rpc_timeout_seconds: for one request to the chain.
        exit_silence_seconds: how long, while an exit waits, the chain may give no answer at all.
        stale_view_seconds: how old the state may be that an endpoint answers with, before a step of an exit
            that contradicts it counts as failed.
    """

    connect_timeout_seconds: float = 10.0
    answer_margin_seconds: float = 15.0
    read_timeout_seconds: float = 30.0
    max_answer_bytes: int = 64 * 1024 * 1024
    max_read_bytes: int = 16 * 1024 * 1024
    retry_attempts: int = 6
    retry_timeout_seconds: float = 120.0
    retry_wait_initial_seconds: float = 0.2
    retry_wait_max_seconds: float = 10.0
    contradictions_before_stop: int = 3
    max_calls_in_flight: int = 16
    close_timeout_seconds: float = 180.0
    poll_seconds: float = 0.5
    chain_check_seconds: float = 30.0
    read_access_seconds: int = 600
    confirmations: int = 1
    transaction_timeout_seconds: float = 120.0
    rpc_timeout_seconds: float = 20.0
    exit_silence_seconds: float = 3600.0
    stale_view_seconds: float = 60.0
