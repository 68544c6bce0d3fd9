"""Held money: challenges are answered, disputes followed, and what is due is released (PROTOCOL 4.3)."""
