"""Data with features, made of a seed and a few settings, so that a suite need not store them.

Only uniform numbers are drawn, which every version of NumPy makes alike; all else is computed.

Notation: K arms, d coefficients, t rewards, p features of a visitor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy
from numpy.random import Generator, Philox

from bandit_gym.checks.typing import FloatArray, IntArray
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian
from bandit_gym.problem import ContextualProblem


class ContextualData(NamedTuple):
    """What an agent is given.

    Attributes:
        features: (K, d) of the arms at the decision.
        rows: (t, d) features of the arms that paid.
        rewards: (t,) in reward units.
    """

    features: FloatArray
    rows: FloatArray
    rewards: FloatArray


@dataclass(frozen=True)
class Recipe:
    """How the data of a case are made.

    Attributes:
        seed: of all that is random.
        num_rows: t.
        design: "shared", where each arm has d features of its own; "disjoint", where each arm has
            a block of coefficients for the features of one visitor; or "hierarchical", with a block
            for all arms beside them.
        num_distinct: visitors that come again and again; 0 where each is a new one.
        spread: standard deviation of a linear predictor, for coefficients of size 1.
        scale: standard deviation of the true coefficients.
        intercept: is added to the true coefficient of a constant feature; 0 for none of these.
        correlation: of a visitor's features.
        is_separated: whether a reward is 1 exactly where its predictor is positive.
        closeness: share of their true differences that the arms at the decision have lost.
    """

    seed: int
    num_rows: int
    design: str = "shared"
    num_distinct: int = 0
    spread: float = 2.0
    scale: float = 1.0
    intercept: float = 0.0
    correlation: float = 0.0
    is_separated: bool = False
    closeness: float = 0.0

    def make_data(self, problem: ContextualProblem) -> ContextualData:
        """Return the data of a problem."""
        rng = Generator(Philox(self.seed))
        num_arms = problem.num_arms
        num_blocks = {"shared": 1, "disjoint": num_arms, "hierarchical": num_arms + 1}[self.design]
        size = problem.num_features // num_blocks
        theta = self.scale * _normal(rng, (problem.num_features,))
        visitors = self._draw_visitors(rng, self.num_distinct or self.num_rows, size)
        if self.num_distinct:
            visitors = visitors[_integers(rng, self.num_distinct, self.num_rows)]
        rows = self._arrange(visitors, _integers(rng, num_arms, self.num_rows), num_blocks)
        guests = self._draw_visitors(rng, num_arms if self.design == "shared" else 1, size)
        guests = np.broadcast_to(guests, (num_arms, size))
        features = self._arrange(guests, np.arange(num_arms), num_blocks)
        used = theta * (features != 0)
        differences = (features @ theta) / np.square(used).sum(axis=1)
        features = features - self.closeness * differences[:, None] * used
        predictors = rows @ theta + self.intercept
        uniforms = rng.random(self.num_rows)
        if self.is_separated:
            rewards = (predictors > 0).astype(np.float64)
        else:
            rewards = _rewards(problem, problem.link.mean(predictors), uniforms)
        return ContextualData(features, rows, rewards)

    def _draw_visitors(self, rng: Generator, number: int, size: int) -> FloatArray:
        own, common = _normal(rng, (number, size)), _normal(rng, (number, 1))
        mixed = np.sqrt(1 - self.correlation) * own + np.sqrt(self.correlation) * common
        visitors = self.spread / np.sqrt(size) * mixed
        if self.intercept:
            visitors[:, 0] = 1.0
        return visitors

    def _arrange(self, visitors: FloatArray, arms: IntArray, num_blocks: int) -> FloatArray:
        """Return (n, d) features of (n,) arms for (n, p) visitors."""
        if self.design == "shared":
            return visitors
        blocks = np.zeros((len(arms), num_blocks, visitors.shape[1]))
        blocks[np.arange(len(arms)), arms] = visitors
        if self.design == "hierarchical":
            blocks[:, -1] = visitors
        return blocks.reshape(len(arms), -1)


def _normal(rng: Generator, shape: tuple[int, ...]) -> FloatArray:
    return np.asarray(scipy.special.ndtri(rng.random(shape)))


def _integers(rng: Generator, high: int, size: int) -> IntArray:
    return (high * rng.random(size)).astype(np.int64)


def _rewards(problem: ContextualProblem, means: FloatArray, uniforms: FloatArray) -> FloatArray:
    """Return (t,) rewards with (t,) means, by inversion of (t,) uniform numbers."""
    likelihood = problem.likelihood
    if isinstance(likelihood, Bernoulli):
        return (uniforms < means).astype(np.float64)
    if isinstance(likelihood, Gaussian):
        return np.asarray(means + likelihood.std * scipy.special.ndtri(uniforms))
    if isinstance(likelihood, Exponential):
        return np.asarray(-means * np.log1p(-uniforms))
    return np.asarray(scipy.stats.poisson.ppf(uniforms, means))
