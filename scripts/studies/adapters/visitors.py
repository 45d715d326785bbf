"""Visitors with features and logistic rewards, on whom ours and all peers play; NumPy alone."""

import copy
from functools import cache

import numpy as np

NUM_ARMS, NUM_VISITS = 10, 200
"""Arms, and decisions of a round, which begins with a copy of a learner that has seen rows."""


class Visitors:
    """Draws features and logistic rewards; predictors have the deviation 2.

    Args:
        num_features: d, of an arm; of a visitor, if arms are disjoint.
        num_lanes: N.
        is_disjoint: whether each arm has coefficients of its own for the features of one visitor.
    """

    def __init__(self, num_features, num_lanes=1, is_disjoint=False):
        self.rng, self.is_disjoint = np.random.default_rng(0), is_disjoint
        self.shape = num_lanes, 1 if is_disjoint else NUM_ARMS, num_features
        self.theta = self.rng.normal(size=num_features * (NUM_ARMS if is_disjoint else 1))

    def draw_features(self):
        """Return (N, K, d)."""
        drawn = self.rng.normal(0.0, 2 / np.sqrt(self.shape[2]), self.shape)
        return np.kron(np.eye(NUM_ARMS), drawn) if self.is_disjoint else drawn

    def draw_rewards(self, features):
        """Return (N,) rewards of (N, d) features."""
        chances = 1 / (1 + np.exp(-features @ self.theta))
        return (self.rng.random(len(features)) < chances).astype(float)

    def draw_rows(self, num_rows):
        """Return (t, d) features of arms in turn, and their (t,) rewards."""
        rows = np.array([self.draw_features()[0, i % NUM_ARMS] for i in range(num_rows)])
        return rows, self.draw_rewards(rows)


def new_visits(start, is_disjoint=False):
    """Return a function that plays a round with a learner of 1,000 rows.

    Args:
        start: given (t, d) rows and their (t,) rewards, returns a learner, how it chooses an arm
            for (K, d) features, and how it learns the (1, d) features and the reward of one.
        is_disjoint: as for `Visitors`.
    """

    @cache
    def prepare():
        visitors = Visitors(5, is_disjoint=is_disjoint)
        return visitors, *start(*visitors.draw_rows(1000))

    def play():
        visitors, known, choose, learn = prepare()
        learner = copy.deepcopy(known)
        for _ in range(NUM_VISITS):
            features = visitors.draw_features()[0]
            chosen = features[[choose(learner, features)]]
            learn(learner, chosen, visitors.draw_rewards(chosen))

    return play
