"""A program that records until it is killed. It prints the number of events that it was promised to keep."""

import sys
from pathlib import Path

from aioum.run.recorder import Run


def main(folder: str, durability: str, how_many: int) -> None:
    with Run.start(Path(folder), agent="agent://crashing", durability=durability, keep_contents=True) as run:
        run.record("llm-call", "before the span", input="q", output="a")
        with run.span("sub-agent", "never ends", input="task"):
            for number in range(how_many):
                run.record("tool-call", f"step {number}", input=f"in {number}", output=f"out {number}")
            if durability == "buffered":
                run.sync()
                run.record("tool-call", "not promised")
            print(run.event_count, flush=True)
            sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
