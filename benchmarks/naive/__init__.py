"""The parts of a paid call as one writes them first: libraries as documented, one commit per call."""
