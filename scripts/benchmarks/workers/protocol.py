"""What a worker says and hears; runs in a peer's environment, so it uses the standard library."""

import json
import platform
import sys
from importlib.metadata import version
from time import perf_counter, process_time
from timeit import timeit

CLOCKS = {"wall": perf_counter, "processor": process_time}
"""What a user waits for, and what is left of it when the machine is busy with other things."""


def time_rounds(do_round, work, num_rounds, clock):
    """Do some rounds, and return the seconds and the units of work that they took.

    Garbage is not collected meanwhile.

    Args:
        do_round: does one round, and returns its units of work unless they are given.
        work: units of work of every round; None if they differ.
        num_rounds: how many.
        clock: key of `CLOCKS`.
    """
    done = []
    play = do_round if work is not None else lambda: done.append(do_round())
    seconds = timeit(play, timer=CLOCKS[clock], number=num_rounds)
    return seconds, sum(done) if work is None else work * num_rounds


def serve(do_round, work, *packages):
    """Do as many rounds as each line of the input asks for, and say what they took.

    Args:
        do_round: does one round.
        work: its units of work.
        packages: distributions whose versions are reported.
    """
    versions = {"python": platform.python_version()}
    versions |= {package: version(package) for package in packages}
    print("ready", json.dumps(versions), flush=True)
    for line in sys.stdin:
        num_rounds, clock = line.split()
        print("done", *time_rounds(do_round, work, int(num_rounds), clock), flush=True)
