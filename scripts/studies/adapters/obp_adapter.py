"""Open Bandit Pipeline: BernoulliTS, LogisticTS and LinTS, the last two with a model for each arm.

Its networks, which no bandit uses, need PyTorch; an empty module takes its place. `random_state`
is None because arms that are given the same number draw the same noise.
"""

import sys
from unittest.mock import MagicMock

import numpy as np
from protocol import serve

torch = MagicMock(Module=object)
torch.nn, torch.utils.data.Dataset = torch, object
sys.modules |= dict.fromkeys(("torch", "torch.nn", "torch.nn.functional", "torch.optim"), torch)
from obp import policy  # noqa: E402


def learn(case):
    """Add one row after the other."""
    np.random.seed(case.seed)
    if case.sampler == "bernoulli":
        prior = {name: np.full(case.num_arms, case.prior[name]) for name in ("alpha", "beta")}
        bandit, context = policy.BernoulliTS(case.num_arms, **prior), []
    else:
        options = {} if case.sampler == "LinTS" else {"lambda_": float(case.prior["std"]) ** -2}
        bandit = getattr(policy, case.sampler)(len(case.visitor), case.num_arms, **options)
        context = [case.visitor[None]]
    for i, (arm, reward) in enumerate(zip(case.arms.tolist(), case.rewards.tolist(), strict=True)):
        bandit.update_params(arm, reward, *(case.visitors[i : i + 1][None] if context else ()))
    return lambda: bandit.select_action(*context)[0]


serve(learn)
