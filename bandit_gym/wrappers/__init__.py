"""Environments people meet, as Gymnasium wrappers of this package's environments.

Each function with a capital letter wraps a single environment, and a vector environment as well.
Lanes are those of single environments with their seeds, to the last bit. All arguments are
JSON-able, so that `env.spec` and experiments can record them; `wrap` reads them from a list of
dicts.
"""

from bandit_gym.wrappers.built_in import (
    BatchedFeedback,
    BinaryReward,
    DelayedReward,
    Drift,
    EndsAtHorizon,
    check_wrappers,
    deliver,
    wrap,
)
