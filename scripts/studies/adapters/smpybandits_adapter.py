"""SMPyBandits: Thompson sampling from a posterior for each arm, Beta, Gauss or Gamma."""

import numpy as np
from protocol import serve
from SMPyBandits import Policies
from SMPyBandits.Policies import Posterior


def learn(case):
    """Add one reward after the other."""
    np.random.seed(case.seed)
    prior = {}
    if case.sampler == "Beta":  # it counts failures before successes
        prior = {"a": case.prior["beta"], "b": case.prior["alpha"]}
    elif case.sampler == "Gamma":
        prior = {"k": case.prior["shape"], "lmbda": case.prior["rate"]}
    posterior = getattr(Posterior, case.sampler)
    bandit = Policies.Thompson(case.num_arms, posterior=posterior, **prior)
    bandit.startGame()
    for arm, reward in zip(case.arms.tolist(), case.rewards.tolist(), strict=True):
        bandit.getReward(arm, reward)
    return bandit.choice


serve(learn)
