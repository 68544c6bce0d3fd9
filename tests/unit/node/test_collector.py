import subprocess
import sys

PROGRAM = """
import gc
from aioum_node.collector import relax_collector

before = gc.get_threshold()
relax_collector()
print(gc.get_freeze_count() > 0, gc.get_threshold() > before, gc.isenabled())
"""


def test_relaxed_collector_leaves_what_exists_alone_and_still_collects() -> None:
    # In a process of its own: the collector is the whole process's.
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "True"]
