"""The node's keys: where they lie, which of them signs for which session, and what they signed."""
