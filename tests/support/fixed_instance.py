"""An instance with known means, and two agents whose regret on it is known: 0.7 and 0 a step."""

ENV = "BernoulliBandit-v0"
FIXED = {"env": ENV, "num_arms": 3, "means": [0.2, 0.5, 0.9]}
WORST, BEST = "stub_agents:Constant", {"agent": "stub_agents:Constant", "arm": 2, "label": "best"}
