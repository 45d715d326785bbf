"""Bayesian bandits for Gymnasium: importing this package registers its environments.

The import stays light: environments, the harness and their heavy dependencies load on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bandit_gym.files import VERSION as __version__
from bandit_gym.registration import ENV_IDS

if TYPE_CHECKING:
    from bandit_gym.experiments import Experiment, Workers, load_experiment, run_experiment
    from bandit_gym.problem import BanditProblem
    from bandit_gym.results import load_results
    from bandit_gym.session import compare, make, make_vec

HOMES = {
    "BanditProblem": "problem",
    "Experiment": "experiments",
    "Workers": "experiments",
    "compare": "session",
    "load_experiment": "experiments",
    "load_results": "results",
    "make": "session",
    "make_vec": "session",
    "run_experiment": "experiments",
}
"""Names that load on first use, and the modules of this package that they are in."""

__all__ = ["ENV_IDS", "__version__", *HOMES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in HOMES:
        return getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
