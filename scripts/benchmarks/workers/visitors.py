"""Visitors with features and logistic rewards, on which ours and all peers with features play."""

import numpy as np

NUM_ARMS, NUM_DECISIONS = 10, 200
"""Of a round, which begins with a copy of the agent that has learned the rows."""


class Visitors:
    """Draws features and rewards: linear predictors have deviation 2.

    Args:
        num_features: of an arm; of a visitor, if arms are disjoint.
        num_lanes: N.
        is_disjoint: whether each arm has coefficients of its own for the features of one visitor.
    """

    def __init__(self, num_features, num_lanes=1, is_disjoint=False):
        self.rng, self.num_features, self.num_lanes = (
            np.random.default_rng(0),
            num_features,
            num_lanes,
        )
        self.is_disjoint = is_disjoint
        self.theta = self.rng.normal(size=num_features * (NUM_ARMS if is_disjoint else 1))

    def features(self):
        """Return (N, K, d)."""
        size = self.num_lanes, 1 if self.is_disjoint else NUM_ARMS, self.num_features
        drawn = self.rng.normal(0.0, 2 / np.sqrt(self.num_features), size)
        return np.kron(np.eye(NUM_ARMS), drawn) if self.is_disjoint else drawn

    def rewards(self, features):
        """Return (N,) rewards of (N, d) features."""
        chances = 1 / (1 + np.exp(-features @ self.theta))
        return (self.rng.random(len(features)) < chances).astype(float)

    def rows(self, num_rows):
        """Return (t, d) features of arms in turn, and their (t,) rewards."""
        shown = [self.features()[0, i % NUM_ARMS] for i in range(num_rows)]
        return np.array(shown), self.rewards(np.array(shown))
