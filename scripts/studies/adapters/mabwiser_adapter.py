"""MABWiser: Thompson sampling of Beta-Bernoulli arms, and LinTS, with a regression for each arm."""

from mabwiser.mab import MAB, LearningPolicy
from protocol import NUM_ARMS, new_game, serve


def learn(case):
    """Fit all rewards at once, or one after the other with a decision between any two."""
    arms = list(range(case.num_arms))
    if case.sampler == "thompson":
        bandit = MAB(arms, LearningPolicy.ThompsonSampling(), seed=case.seed)
        bandit.fit(case.arms, case.rewards)
        return bandit.predict
    policy = LearningPolicy.LinTS(alpha=1.0, l2_lambda=case.prior["std"] ** -2)
    bandit = MAB(arms, policy, seed=case.seed)
    size = 1 if case.sampler == "lin_ts_online" else len(case.arms)
    bandit.fit(case.arms[:size], case.rewards[:size], case.visitors[:size])
    for i in range(size, len(case.arms)):
        bandit.predict(case.visitors[i : i + 1])
        bandit.partial_fit(case.arms[i : i + 1], case.rewards[i : i + 1], case.visitors[i : i + 1])
    return lambda: bandit.predict(case.visitor[None])


def start():
    """Make a learner of the benchmark's game."""
    bandit = MAB(list(range(NUM_ARMS)), LearningPolicy.ThompsonSampling(), seed=0)
    bandit.fit([0], [0])  # it does not predict before it has been fitted
    return bandit.predict, lambda arm, reward: bandit.partial_fit([arm], [reward])


serve(learn, new_game(start))
