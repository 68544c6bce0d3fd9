"""Auditing and monitoring operators' transparency logs: a log held against the chain, its anchors, its former
states and what others saw (PROTOCOL 9).
"""
