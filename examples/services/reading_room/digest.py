"""A command tool: canonical request on standard input, SHA-256 of its text on standard output."""

from __future__ import annotations

import hashlib
import json
import sys


def main() -> None:
    """Print the digest. Exit code 1 where the request is not what the tool takes."""
    text = json.load(sys.stdin)["arguments"]["text"]
    if not isinstance(text, str):
        sys.exit("text must be a string")
    sys.stdout.write(hashlib.sha256(text.encode()).hexdigest())


if __name__ == "__main__":
    main()
