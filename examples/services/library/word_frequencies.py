"""A command as a paid tool: the canonical request on stdin, the response on stdout, the same bytes for ever.

Whoever holds a transcript can run this file again and compare:
`verify-evidence evidence.json --exec "python3 word_frequencies.py"`.
"""

import json
import re
import sys
from collections import Counter


def frequencies(text: str, top: int) -> dict[str, int]:
    """The most frequent words of a text in lower case, the more frequent first, equal ones by name."""
    counts = Counter(word.lower() for word in re.findall(r"[A-Za-z]+", text))
    chosen = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:top]
    return dict(sorted(chosen))


def main() -> None:
    arguments = json.load(sys.stdin)["arguments"]
    answer = frequencies(arguments["text"], int(arguments.get("top", 10)))
    sys.stdout.write(json.dumps(answer, separators=(",", ":")))


if __name__ == "__main__":
    main()
