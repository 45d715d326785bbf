"""River: Thompson sampling from a distribution of rewards, Beta or Gaussian."""

from functools import partial

from protocol import NUM_ARMS, new_game, serve
from river import bandit, proba


def learn(case):
    """Add one reward after the other."""
    if case.sampler == "beta":
        rewards = proba.Beta(case.prior["alpha"], case.prior["beta"])
    else:
        rewards = proba.Gaussian()
    policy = bandit.ThompsonSampling(reward_obj=rewards, seed=case.seed)
    for arm, reward in zip(case.arms.tolist(), case.rewards.tolist(), strict=True):
        policy.update(arm, reward)
    arms = range(case.num_arms)
    return lambda: policy.pull(arms)


def start():
    """Make a learner of the benchmark's game."""
    policy = bandit.ThompsonSampling(reward_obj=proba.Beta(), seed=0)
    return partial(policy.pull, range(NUM_ARMS)), policy.update


serve(learn, new_game(start))
