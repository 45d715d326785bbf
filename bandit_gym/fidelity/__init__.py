"""How near agents come to exact Thompson sampling: hard cases, their truth, and a verdict on each.

The truth of a case is found by a quadrature that is told where the mass lies, and shares no code
with agents or their oracle. Agents are reached by name, through the catalogue. `run_suite` is the
open benchmark: cases with stored answers, for anybody's agent or sampler.
"""

from typing import TYPE_CHECKING

from bandit_gym.lending import lend

if TYPE_CHECKING:
    from bandit_gym.fidelity.benchmark import FidelityResults, run_suite
    from bandit_gym.fidelity.leaderboard import describe_leaderboard
    from bandit_gym.fidelity.suite import load_suite

__getattr__, __dir__ = lend(
    __name__,
    {
        "FidelityResults": "benchmark",
        "describe_leaderboard": "leaderboard",
        "load_suite": "suite",
        "run_suite": "benchmark",
    },
)
__all__ = __dir__()
