"""pybandits: Thompson sampling of Beta-Bernoulli arms."""

from protocol import serve
from pybandits.model import Beta
from pybandits.smab import SmabBernoulli


def learn(case):
    """Add all rewards at once."""
    names = [str(arm) for arm in range(case.num_arms)]
    prior = {"n_successes": case.prior["alpha"], "n_failures": case.prior["beta"]}
    bandit = SmabBernoulli(actions={name: Beta(**prior) for name in names}, random_seed=case.seed)
    bandit.update([names[arm] for arm in case.arms], case.rewards.astype(int).tolist())
    return lambda: bandit.predict()[0][0]


serve(learn)
