"""Rules for arms with features alone: LinUCB, and one draw of the Laplace approximation.

Notation: K arms, N lanes, d features.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.base import Agent
from agents.regression.gaussian import GaussianCoefficients
from agents.rules.thompson import Thompson
from bandit_gym.checks import check_real, message
from bandit_gym.likelihoods import Gaussian
from bandit_gym.priors import Normal
from bandit_gym.problem import ContextualProblem, check_problem


class LaplaceThompson(Thompson):
    """Draw the coefficients from the Laplace approximation and pull the arm that is best under it.

    The approximation is normal: its mean is the posterior's mode, its precision the curvature
    there. This is what is deployed for clicks. `RacingThompson` takes its error away.

    Arguments:
        problem: likelihood, prior and the number of features.
        covariance: "full"; or "diagonal", for the diagonal of the precision alone, as in the paper:
            coefficients are drawn independently of each other.
        discount: see `Thompson`.
        window: see `Thompson`.

    References:
        Chapelle and Li (2011), "An empirical evaluation of Thompson sampling", Algorithm 3.
    """

    def __init__(
        self,
        problem: ContextualProblem,
        *,
        covariance: str = "full",
        discount: float = 1.0,
        window: int | None = None,
    ) -> None:
        _check_features(type(self), problem)
        posterior = {"name": "laplace", "covariance": covariance}
        super().__init__(problem, posterior=posterior, discount=discount, window=window)


class LinUCB(Agent):
    """Pull the arm with the largest x . theta + alpha sqrt(x' A^-1 x), a bound on a linear mean.

    A = ridge I + sum_i x_i x_i' and theta = A^-1 sum_i y_i x_i are those of a ridge regression of
    rewards on features, under any likelihood; the prior is not asked. Where each arm has a block of
    features of its own, so it has a regression of its own: Algorithm 1 of the paper.

    Arguments:
        problem: likelihood, prior and the number of features.
        alpha: width of the bounds, in standard errors of rewards of deviation 1, at least 0.
        ridge: weight of the penalty on squared coefficients, > 0; 1 in the paper.
        discount: see `Agent`.
        window: see `Agent`.

    References:
        Li, Chu, Langford and Schapire (2010), "A contextual-bandit approach to personalized news
        article recommendation".
    """

    takes_features = True
    takes_available = True

    def __init__(
        self,
        problem: ContextualProblem,
        *,
        alpha: float = 1.0,
        ridge: float = 1.0,
        discount: float = 1.0,
        window: int | None = None,
    ) -> None:
        _check_features(type(self), problem)
        super().__init__(problem, discount=discount, window=window)
        self.alpha = check_real("alpha", alpha, minimum=0.0)
        prior = Normal(0.0, check_real("ridge", ridge, above=0.0) ** -0.5)
        sizes = problem.num_arms, problem.num_features
        self._regression = GaussianCoefficients(ContextualProblem(Gaussian(1.0), prior, *sizes))

    def _scores(self) -> np.ndarray:
        self._regression.update(self.rng, self.evidence)
        belief = self._regression.predict(self.evidence.decision_features)
        return belief.mean() + self.alpha * belief.std()


def _check_features(kind: type[Agent], problem: Any) -> None:
    """Refuse problems without features."""
    if not isinstance(check_problem(problem), ContextualProblem):
        condition = f"be a ContextualProblem for {kind.__name__}, which decides on features"
        raise ValueError(message("problem", condition, problem))
