"""How near agents come to exact Thompson sampling: cases, their truth, and a verdict on each.

`run_suite` puts agents and samplers, also one's own, to the cases of a suite, whose exact answers
are stored: `fidelity-v1` is the open benchmark, `adversarial` has priors and histories chosen to be
hard, and in `contextual-v1` arms have features. Agents are reached by name, through the catalogue.
"""

from bandit_gym.fidelity.benchmark import (
    FidelityResults,
    describe_leaderboard,
    describe_verdicts,
    run_suite,
)
from bandit_gym.fidelity.suite import load_suite

__all__ = [
    "FidelityResults",
    "describe_leaderboard",
    "describe_verdicts",
    "load_suite",
    "run_suite",
]
