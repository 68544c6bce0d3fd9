"""The transparency log: entries, tree, checkpoints, tiles and the log folder (PROTOCOL 9)."""
