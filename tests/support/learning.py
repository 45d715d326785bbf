"""What posteriors of coefficients learn from rows of features, without an agent."""

import numpy as np

from agents.base.rows import Rows


def add_rows(posterior, features, rewards, num_lanes=1, step=1, is_asked=False):
    """Give all lanes the same rewards, in parts of so many, and return the rows.

    Args:
        posterior: which learns.
        features: (t, d) of the rewards.
        rewards: (t,) of these.
        num_lanes: that learn.
        step: number of rewards between two updates.
        is_asked: whether the posterior predicts after each update, as what it keeps depends on it.
    """
    rows, rng, lanes = Rows(features.shape[1]), np.random.default_rng(0), np.arange(num_lanes)
    rows.start(num_lanes)
    posterior.start(rng, num_lanes)
    posterior.update(rng, rows)
    for start in range(0, len(rewards), step):
        for x, reward in zip(features[start:][:step], rewards[start:][:step], strict=True):
            rows.add(lanes, np.tile(x, (num_lanes, 1)), np.full(num_lanes, reward))
        posterior.update(rng, rows)
        if is_asked:
            posterior.predict(np.zeros((num_lanes, 2, features.shape[1])))
    return rows


def learn(posterior, *data, **options):
    """Return the posterior, after what `add_rows` gives it."""
    add_rows(posterior, *data, **options)
    return posterior
