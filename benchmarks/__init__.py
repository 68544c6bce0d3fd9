"""Ratios that the design rests on, each measured against its alternatives within one run."""
