"""A posterior as a user would write it: an ensemble of models, each of its own bootstrap sample."""

import numpy as np

from agents.posteriors.base import Posterior


class Ensemble(Posterior):
    """Each of M models counts a reward once, twice, ... or not at all, as Poisson(1) says.

    References:
        Osband and Van Roy (2015), "Bootstrapped Thompson sampling and deep exploration".
    """

    state_names = ("pulls", "paid")

    def __init__(self, problem, size=20):
        self.problem, self.size = problem, size

    def start(self, rng, num_lanes):
        self.pulls, self.paid = np.zeros((2, num_lanes, self.size, self.problem.num_arms))
        super().start(rng, num_lanes)

    def restart(self, rng, mask):
        draws = self.problem.prior.sample(rng, (mask.sum(), self.size, self.problem.num_arms))
        self.pulls[mask], self.paid[mask] = 3.0, 3.0 * draws

    def learn(self, rng, lanes, arms, rewards):
        weights = rng.poisson(1.0, (len(lanes), self.size))
        self.pulls[lanes, :, arms] += weights
        self.paid[lanes, :, arms] += weights * rewards[:, None]

    def update(self, rng, evidence):
        pass  # `learn` has seen all rewards

    def sample(self, rng):
        lanes, chosen = np.arange(len(self.paid)), rng.integers(self.size, size=len(self.paid))
        return self.paid[lanes, chosen] / self.pulls[lanes, chosen]
