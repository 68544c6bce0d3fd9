"""Fuzzes one target in this process with libFuzzer, which ends the process with it.

`python -m tests.fuzz.engine TARGET CORPUS -OPTION=VALUE…`; what is found goes where -artifact_prefix says.
"""

from __future__ import annotations

import importlib
import sys
from random import Random
from typing import Any


def main(arguments: list[str]) -> None:
    """Args: name of a target, folder of the corpus, options of libFuzzer."""
    atheris: Any = importlib.import_module("atheris")
    name, corpus, *options = arguments
    with atheris.instrument_imports(include=["aioum", "aioum_node"]):
        module = importlib.import_module(
            "tests.fuzz.planted" if name.startswith("planted-") else "tests.fuzz.targets"
        )
    mutation = importlib.import_module("tests.fuzz.mutation")
    target = module.TARGETS[name]

    def mutate(data: bytes, max_size: int, seed: int) -> bytes:
        random = Random(seed)
        value = mutation.changed(data, random) if target.json and random.random() < 0.5 else None
        if value is None or len(value) > max_size:
            return bytes(atheris.Mutate(data, max_size))
        return bytes(value)

    atheris.Setup([name, *options, corpus], target.check, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
