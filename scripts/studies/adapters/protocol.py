"""What an adapter is asked and what it answers; runs in a library's environment, on NumPy alone."""

import json
import random
import sys
from time import perf_counter, process_time
from timeit import timeit
from types import SimpleNamespace

import numpy as np

CLOCKS = {"wall": perf_counter, "processor": process_time}
"""What a user waits for, and what is left of it when the machine is busy with other things."""

NUM_ARMS, NUM_STEPS = 10, 1000
"""Of the game that every learner plays in one lane, in whichever process."""


def serve(learn, play=None):
    """Answer each line of the input: the arms chosen in a case, or the seconds of some rounds.

    Args:
        learn: given a case, whose fields `scripts.studies.libraries.encode_case` lists, returns a
            function that makes a decision.
        play: does a round of what the benchmark times, if it times this library.
    """
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer = time_game(play, **asked) if "num_rounds" in asked else choose(learn, asked)
        except Exception as error:  # of a library, which is reported beside its other cases
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        print("answer", json.dumps(answer), flush=True)


def choose(learn, fields):
    """Count the arms that are chosen in a case."""
    case = SimpleNamespace(**fields | {name: np.array(fields[name]) for name in fields["arrays"]})
    decide = learn(case)
    start = process_time()
    arms = [int(decide()) for _ in range(case.num_decisions)]
    seconds = (process_time() - start) / len(arms)
    counts = np.bincount(arms, minlength=case.num_arms).tolist()
    return {"counts": counts, "microseconds": 1e6 * seconds}


def time_game(play, num_rounds, clock):
    """Warm up, and tell the seconds that some rounds take by one of `CLOCKS`.

    The second round is not timed either: JAX compiles once more where what the first returned is
    its input.
    """
    for _ in range(2):
        play()
    return {"seconds": timeit(play, timer=CLOCKS[clock], number=num_rounds)}


def new_game(start):
    """Return a function that plays NUM_STEPS steps with a learner that knows nothing.

    Every game has the same table of rewards, 0 or 1; means are spread over 0.3 to 0.7.

    Args:
        start: makes a learner, and returns how it chooses an arm and how it learns a reward.
    """
    rng = random.Random(0)
    means = [0.3 + 0.4 * arm / (NUM_ARMS - 1) for arm in range(NUM_ARMS)]
    rewards = [[int(rng.random() < mean) for mean in means] for _ in range(NUM_STEPS)]

    def play():
        choose, learn = start()
        for row in rewards:
            arm = choose()
            learn(arm, row[arm])

    return play
