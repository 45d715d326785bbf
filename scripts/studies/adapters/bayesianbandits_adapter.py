"""bayesianbandits: a conjugate learner for each arm, or a regression that all arms share."""

import bayesianbandits as bb
import numpy as np
from protocol import serve
from visitors import NUM_ARMS, new_visits


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


def start(rows, rewards):
    """Return a learner of the benchmark's visitors: logistic regression by Laplace."""
    shown = bb.FunctionArmFeaturizer(lambda x, _: x.reshape(len(x), NUM_ARMS, -1).swapaxes(1, 2))
    arms, learner = [bb.Arm(arm) for arm in range(NUM_ARMS)], bb.BayesianGLM(1.0)
    agent = bb.LipschitzContextualAgent(arms, bb.ThompsonSampling(), shown, learner)
    agent.learner.partial_fit(rows, rewards)
    return (
        agent,
        lambda agent, features: agent.pull(features.reshape(1, -1))[0],
        lambda agent, chosen, reward: agent.learner.partial_fit(chosen, reward),
    )


serve(learn, visits=new_visits(start))
