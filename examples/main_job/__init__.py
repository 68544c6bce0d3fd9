"""The main job, end to end, on a local chain: what `scripts/demo` runs."""
