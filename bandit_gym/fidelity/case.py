"""A case: a prior, data that make it hard, and the exact law of Thompson sampling's arm there."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bandit_gym.fidelity.priors import OneFactor
from bandit_gym.fidelity.truth import Data, exact_law
from bandit_gym.likelihoods import Likelihood
from bandit_gym.problem import BanditProblem
from bandit_gym.typing import FloatArray


@dataclass(frozen=True)
class Case:
    """What agents are told, and what they should do.

    Attributes:
        name: in tables.
        why: it is hard, in a few words.
        likelihood: of rewards.
        prior: of the means, or the `OneFactor` that makes it.
        counts: (K,) pulls.
        sums: (K,) total rewards.
        find_law: from prior and data to the law, where not as `exact_law` does.
    """

    name: str
    why: str
    likelihood: Likelihood
    prior: Any
    counts: tuple[int, ...]
    sums: tuple[float, ...]
    find_law: Callable[[Any, Data], FloatArray] | None = None

    @cached_property
    def problem(self) -> BanditProblem:
        """What agents are told."""
        prior = self.prior.prior() if isinstance(self.prior, OneFactor) else self.prior
        return BanditProblem(self.likelihood, prior, len(self.counts))

    @cached_property
    def law(self) -> FloatArray:
        """(K,) probabilities that each arm is the best, given the data."""
        data = np.array(self.counts, dtype=np.float64), np.array(self.sums, dtype=np.float64)
        if self.find_law is not None:
            return self.find_law(self.prior, data)
        return exact_law(self.likelihood, self.prior, data)
