"""Computes an answer of a deterministic tool again, for `verify-evidence --exec`.

Canonical request on standard input, the exact response on standard output.
"""

from __future__ import annotations

import hashlib
import json
import sys

from examples.services.reading_room.service import wordcount


def main() -> None:
    """Answer one request. Exit code 1 where its tool is not deterministic."""
    request = json.load(sys.stdin)
    arguments = request["arguments"]
    if request["tool"] == "wordcount":
        sys.stdout.write(json.dumps(wordcount(**arguments), separators=(",", ":"), sort_keys=True))
    elif request["tool"] == "digest":
        sys.stdout.write(hashlib.sha256(arguments["text"].encode()).hexdigest())
    else:
        sys.exit(f"{request['tool']} is not deterministic")


if __name__ == "__main__":
    main()
