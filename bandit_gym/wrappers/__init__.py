"""Worlds people meet, as Gymnasium wrappers of this package's environments.

Each name here wraps a single environment, and a vector environment as well: of that it makes the
class of the same name in `bandit_gym.wrappers.vector`. Lanes are those of single environments with
their seeds, to the last bit. All arguments are JSON-able, so that `env.spec` and experiments can
tell them; `wrap` reads them from a list of dicts.
"""

from bandit_gym.wrappers.feedback import deliver
from bandit_gym.wrappers.naming import check_wrappers, wrap
from bandit_gym.wrappers.single import AvailableArms, BatchedFeedback, DelayedReward, Drift

__all__ = [
    "AvailableArms",
    "BatchedFeedback",
    "DelayedReward",
    "Drift",
    "check_wrappers",
    "deliver",
    "wrap",
]
