"""What strangers and clients may use of a node: connections, rates, openings, and who is asking."""
