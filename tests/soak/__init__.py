"""A market whose nodes are killed again and again; `scripts/soak` runs it and prints the account."""
