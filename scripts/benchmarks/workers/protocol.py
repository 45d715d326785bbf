"""What a worker says and hears; runs in a peer's environment, so it uses the standard library."""

import json
import platform
import sys
from importlib.metadata import version
from time import perf_counter, process_time

CLOCKS = {"wall": perf_counter, "processor": process_time}


def serve(do_round, *packages):
    """Do as many rounds as each line of the input asks for, and say what they took.

    Args:
        do_round: does one round and returns its units of work.
        packages: distributions whose versions are reported.
    """
    versions = {"python": platform.python_version()}
    versions |= {package: version(package) for package in packages}
    print("ready", json.dumps(versions), flush=True)
    for line in sys.stdin:
        num_rounds, clock = line.split()
        read = CLOCKS[clock]
        work = 0.0
        start = read()
        for _ in range(int(num_rounds)):
            work += do_round()
        print("done", read() - start, work, flush=True)
