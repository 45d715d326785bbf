"""Bayesian bandits for Gymnasium: importing this package registers its environments.

The import stays light: environments, the harness and their heavy dependencies load on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bandit_gym.files import VERSION as __version__
from bandit_gym.registration import ENV_IDS

if TYPE_CHECKING:
    from bandit_gym.empirical_bayes import fit_prior
    from bandit_gym.experiments import Experiment, Workers, load_experiment
    from bandit_gym.films import film, play
    from bandit_gym.in_context import in_context_dataset
    from bandit_gym.problem import BanditProblem, ContextualProblem
    from bandit_gym.results import load_results
    from bandit_gym.session import compare, make, make_vec, run_experiment

LAZY_NAMES = {
    "BanditProblem": "bandit_gym.problem",
    "ContextualProblem": "bandit_gym.problem",
    "Experiment": "bandit_gym.experiments",
    "Workers": "bandit_gym.experiments",
    "action_probabilities": "agents.oracle",
    "best_arm_probabilities": "agents.numerics.best_arm",
    "compare": "bandit_gym.session",
    "film": "bandit_gym.films",
    "fit_prior": "bandit_gym.empirical_bayes",
    "in_context_dataset": "bandit_gym.in_context",
    "load_experiment": "bandit_gym.experiments",
    "load_results": "bandit_gym.results",
    "make": "bandit_gym.session",
    "make_vec": "bandit_gym.session",
    "optimal_regret": "agents.bayes_optimal",
    "play": "bandit_gym.films",
    "run_experiment": "bandit_gym.session",
}
"""Names that load on first use, and the modules that they are in."""

LAZY_MODULES = "contexts", "likelihoods", "logs", "off_policy", "priors", "wrappers"
"""Modules of this package that load on first use."""

__all__ = ["ENV_IDS", "__version__", *LAZY_NAMES, *LAZY_MODULES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in LAZY_MODULES:
        return import_module(f"{__name__}.{name}")
    if name in LAZY_NAMES:
        return getattr(import_module(LAZY_NAMES[name]), name)
    raise AttributeError(f"{__name__} has no {name!r}.")


def __dir__() -> list[str]:
    return sorted(__all__)
