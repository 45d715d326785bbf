"""What was played and what is shown of it, in the terms of a compiled loop."""

from typing import NamedTuple

from bandit_gym.typing import FloatArray, IntArray

OBSERVATIONS = ("constant", "counts", "history")


class Plays(NamedTuple):
    """What was played in each lane's episode so far."""

    pulls: IntArray  # (N, K)
    reward_sums: FloatArray  # (N, K)
    lengths: IntArray  # (N,) pulls of all arms
    last_actions: IntArray  # (N,) -1 before the first


class Rule(NamedTuple):
    """What observations show, in the terms of a compiled loop."""

    mode: int  # of OBSERVATIONS
    low: float  # end of the support of the likelihood's mean
    per_unit: float  # one over the width of that, 0 where it is infinite; saves divisions
    horizon: float
