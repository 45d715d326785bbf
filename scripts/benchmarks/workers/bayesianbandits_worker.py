"""bayesianbandits: its logistic regression by Laplace, a decision and an update of one row."""

import copy

import bayesianbandits as bb
from protocol import serve
from visitors import NUM_ARMS, NUM_DECISIONS, Visitors

visitors = Visitors(5)
shown = bb.FunctionArmFeaturizer(lambda x, _: x.reshape(len(x), NUM_ARMS, -1).swapaxes(1, 2))
agent = bb.LipschitzContextualAgent(
    [bb.Arm(arm) for arm in range(NUM_ARMS)], bb.ThompsonSampling(), shown, bb.BayesianGLM(1.0)
)
agent.learner.partial_fit(*visitors.rows(1000))


def play():
    player = copy.deepcopy(agent)
    for _ in range(NUM_DECISIONS):
        features = visitors.features()[0]
        chosen = features[player.pull(features.reshape(1, -1))]
        player.learner.partial_fit(chosen, visitors.rewards(chosen))


serve(play, NUM_DECISIONS, "bayesianbandits", "numpy", "scipy")
