"""What stands behind a tool: a Python function, a command, an HTTP service."""

from aioum_node.upstream.port import Upstream

__all__ = ["Upstream"]
