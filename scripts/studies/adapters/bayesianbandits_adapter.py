"""bayesianbandits: a conjugate learner for each arm, or a regression that all arms share."""

import bayesianbandits as bb
import numpy as np
from protocol import serve


def learn(case):
    """Add all rows at once, or one after the other."""
    policy, arms, prior = bb.ThompsonSampling(), [*range(case.num_arms)], case.prior
    make = {
        "dirichlet": lambda: bb.DirichletClassifier({0: prior["beta"], 1: prior["alpha"]}),
        "gamma": lambda: bb.GammaRegressor(prior["shape"], prior["rate"]),
        "normal": lambda: bb.NormalRegressor(prior["std"] ** -2, case.likelihood["std"] ** -2),
        "laplace": lambda: bb.BayesianGLM(prior["std"] ** -2, link=case.link),
        "rvga": lambda: bb.BayesianGLM(
            prior["std"] ** -2, link=case.link, approximator=bb.RVGAApproximator()
        ),
    }[case.sampler.removesuffix(", online")]
    if not case.arrays.count("rows"):
        mean = (lambda shares: shares[..., 1]) if case.sampler == "dirichlet" else None
        agent = bb.Agent([bb.Arm(arm, mean, learner=make()) for arm in arms], policy, case.seed)
        for arm in np.unique(case.arms).tolist():
            agent.select_for_update(arm).update(case.rewards[case.arms == arm])
        return lambda: agent.pull()[0]
    learner, shown = make(), bb.FunctionArmFeaturizer(lambda x, _: case.features.T[None])
    shared = [bb.Arm(arm) for arm in arms]
    agent = bb.LipschitzContextualAgent(shared, policy, shown, learner, random_seed=case.seed)
    num_parts = len(case.rows) if "online" in case.sampler else 1
    for part in np.array_split(np.arange(len(case.rows)), num_parts):
        learner.partial_fit(case.rows[part], case.rewards[part])
    return lambda: agent.pull(np.zeros((1, 1)))[0]


serve(learn)
