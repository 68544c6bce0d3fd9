"""The HTTP edge of a node (PROTOCOL 6)."""
