"""The one tool of the soak: it writes down each time it runs, so that nothing can run twice unseen."""

import os
from typing import Annotated

from pydantic import Field

from aioum_node.tools import ToolError, tool


@tool(price="0.001", timeout_seconds=10)
def note(text: Annotated[str, Field(max_length=200)]) -> dict[str, str]:
    """Notes a text; fails where it says so."""
    # One write of a short line to a file opened for appending is never mixed with another's.
    file = os.open(os.environ["SOAK_RUNS"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(file, text.encode() + b"\n")
    finally:
        os.close(file)
    if text.endswith("fail"):
        raise ToolError("as asked for")
    return {"noted": text}
