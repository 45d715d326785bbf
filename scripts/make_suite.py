"""Compare the answers that a suite stores with the oracle's, or find those that it lacks.

A suite is a file of problems and histories; see `bandit_gym/fidelity/suites/`. The oracle treats
arms that are independent, also where a case is `density_only`, and correlated normal arms, whose
answers by chains are good to 0.002. Other cases it leaves alone, and says so. A case with features
has a `recipe` of its data; its answer stays out where chains differ from it by more than 0.005.

    python scripts/make_suite.py bandit_gym/fidelity/suites/fidelity-v1.json
    python scripts/make_suite.py my-suite.json    # writes `law` and `error` where a case
    has none
    python scripts/make_suite.py my-suite.json --finer    # and where `error` is more than 1e-4

The problems and histories of a suite never change: others make a suite of another name. An answer
may become finer, within the errors that it and the one before state. Those of `fidelity-v1` and
`adversarial` are finer than the oracle's: a quadrature that was given where the mass lies found
them, and `error` has their distance from those of another way.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agents.oracle import ToleranceError, action_probabilities_with_error
from agents.oracle.contextual import probabilities_by_chains
from bandit_gym.checks.typing import FloatArray
from bandit_gym.fidelity.distance import total_variation
from bandit_gym.fidelity.suite import Recipe
from bandit_gym.files import to_json, write_atomically
from bandit_gym.problem import ContextualProblem, problem_from_dict

ANSWER_TOLERANCE = 1e-9
"""Difference of two answers that are the same but for the rounding of other processors."""

TOLERANCE = 1e-4
"""Total variation error of a new answer with features, see `agents.oracle`."""

MAX_CHAINS_DISTANCE, CHAINS_TOLERANCE = 5e-3, 2e-3
"""Total variation distance of an answer with features from that of chains, and their error."""

NUM_ERRORS = 2
"""Times its error by which an answer may be off: that of chains is two standard errors."""

FOUND, AGREES, OTHERWISE = "found", "agrees", "the oracle says OTHERWISE"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("suite", type=Path, help="its file")
    parser.add_argument("--finer", action="store_true", help="find answers again that are coarse")
    options = parser.parse_args(arguments)
    suite = json.loads(options.suite.read_text(encoding="utf-8"))
    words = []
    for case in suite["cases"]:
        words.append(check_answer(case, options.finer))
        if words[-1] != AGREES:
            print(f"{case['name']}: {words[-1]}", flush=True)
        if words[-1] == FOUND:
            write_atomically(options.suite, to_json(suite))
    print(f"{words.count(AGREES)} of {len(words)} answers are the oracle's")
    return int(OTHERWISE in words or any("law" not in case for case in suite["cases"]))


def check_answer(case: dict[str, Any], finer: bool = False) -> str:
    """Say how a case's answer compares with the oracle's; give it one if it has none.

    If `finer`, also one in place of an answer with features that is not good to `TOLERANCE`.
    """
    is_coarse = finer and "recipe" in case and case.get("error", 0.0) > TOLERANCE
    asked = {key: value for key, value in case.items() if key != "law"} if is_coarse else case
    try:
        probabilities, error = find_answer(asked)
    except (ToleranceError, TypeError, ValueError) as refusal:
        return f"left alone, {refusal}"
    if "law" in case:
        distance = np.abs(probabilities - case["law"]).max()
        is_near = distance <= ANSWER_TOLERANCE + NUM_ERRORS * error + case["error"]
        if not (is_near and is_coarse):
            return AGREES if is_near else OTHERWISE
    case |= asked | {"law": probabilities.tolist(), "error": error}
    return FOUND


def find_answer(case: dict[str, Any]) -> tuple[FloatArray, float]:
    """Return the (K,) best-arm probabilities by the oracle, and its largest error.

    A new case with features must have the chains' answer too.
    """
    problem = problem_from_dict(case["problem"])
    if not isinstance(problem, ContextualProblem):
        found, error = action_probabilities_with_error(problem, case["counts"], case["sums"])
        return found, float(error)
    made = Recipe(**case["recipe"]).make_data(problem)
    data = (made["rows"], made["rewards"]), made["features"]
    tolerance = None if "law" in case else TOLERANCE
    found, error = action_probabilities_with_error(problem, *data, tolerance=tolerance)
    if "law" not in case:
        by_chains = probabilities_by_chains(problem, *data, CHAINS_TOLERANCE)
        distance = float(total_variation(by_chains, found))
        if distance > MAX_CHAINS_DISTANCE:
            raise ToleranceError(f"chains are {distance:.4f} off", distance)
        case["chains_distance"] = distance
    return found, float(error)


if __name__ == "__main__":
    sys.exit(main())
