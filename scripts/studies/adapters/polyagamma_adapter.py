"""PG-TS of one sweep (Dumitrascu et al. 2018): a Polya-Gamma draw a row, then coefficients."""

from types import SimpleNamespace

import numpy as np
from polyagamma import random_polyagamma
from protocol import serve
from visitors import new_visits


def start(rows, rewards):
    """Return a learner of the benchmark's visitors."""
    learner = SimpleNamespace(rows=rows, rewards=rewards, theta=np.zeros(rows.shape[1]))
    return learner, choose, learn


rng = np.random.default_rng(1)


def choose(learner, features):
    """Draw coefficients given those drawn before."""
    weights = random_polyagamma(1.0, learner.rows @ learner.theta, random_state=rng)
    covariance = np.linalg.inv(
        np.eye(len(learner.theta)) + (learner.rows.T * weights) @ learner.rows
    )
    mean = covariance @ (learner.rows.T @ (learner.rewards - 0.5))
    learner.theta = rng.multivariate_normal(mean, covariance)
    return (features @ learner.theta).argmax()


def learn(learner, chosen, reward):
    """Add a row."""
    learner.rows = np.vstack([learner.rows, chosen])
    learner.rewards = np.append(learner.rewards, reward)


serve(None, visits=new_visits(start))
