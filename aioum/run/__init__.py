"""Runs: everything an agent did, hash-chained, sealed and private (PROTOCOL 8)."""
