"""Bayesian bandits for Gymnasium: importing this package registers its environments.

The import stays light: environments, the harness and their heavy dependencies load on first use.
"""

from typing import TYPE_CHECKING

from bandit_gym.lending import lend
from bandit_gym.registration import ENV_IDS, register_envs

if TYPE_CHECKING:
    from bandit_gym.experiments import Experiment, Workers, load_experiment, run_experiment
    from bandit_gym.problem import BanditProblem
    from bandit_gym.results import load_results

__version__ = "0.1.0"
__getattr__, __dir__ = lend(
    __name__,
    {
        "BanditProblem": "problem",
        "Experiment": "experiments",
        "Workers": "experiments",
        "load_experiment": "experiments",
        "load_results": "results",
        "run_experiment": "experiments",
    },
    *("ENV_IDS", "__version__", "register_envs"),
)
__all__ = __dir__()

register_envs()
