"""The node's transparency log: every final session of its operator is in it (PROTOCOL 9)."""
