"""aioum: purchases of tool calls that both sides, and any third person, can prove."""

__version__ = "0.1.0"

__all__ = ["__version__"]
