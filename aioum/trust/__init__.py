"""External trust: statements by people outside of a session, and what of them a caller's own pins prove.

Nothing here does IO or reads a clock. Pins, roots, revocation lists and the time are handed in; what lies
inside a judged artifact, keys and certificates included, is never an anchor (SUBMISSIONS 3.1).
"""
