"""What an adapter is given and what it answers; runs in a library's environment, on NumPy alone."""

import json
import sys
from time import process_time
from types import SimpleNamespace

import numpy as np


def serve(learn):
    """Answer each case, a line of the input, with the counts of the arms that were chosen.

    Args:
        learn: given a case, whose fields `scripts.studies.libraries.encode_case` lists, returns a
            function that makes a decision.
    """
    for line in sys.stdin:
        fields = json.loads(line)
        arrays = {name: np.array(fields[name]) for name in fields["arrays"]}
        case = SimpleNamespace(**fields | arrays)
        try:
            decide = learn(case)
            start = process_time()
            arms = [int(decide()) for _ in range(case.num_decisions)]
            seconds = (process_time() - start) / len(arms)
            counts = np.bincount(arms, minlength=case.num_arms).tolist()
            answer = {"counts": counts, "microseconds": 1e6 * seconds}
        except Exception as error:  # of a library, which is reported beside its other cases
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        print("answer", json.dumps(answer), flush=True)
