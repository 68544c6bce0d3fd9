"""Recorded sessions as `gaos.replay` artifacts: reading, judging, writing."""
