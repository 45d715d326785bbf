"""Code and objects become settings that a file can hold."""

import json

import numpy as np

from bandit_gym.experiments.objects import describe_agents, describe_environments
from bandit_gym.priors import Beta

ENV = "BernoulliBandit-v0"


def test_options_of_environments_become_lists_dicts_and_numbers():
    options = {"means": (0.2, 0.8), "prior": Beta(1.0, (2.0, 3.0)), "nested": [{"a": (1,)}]}
    (found,) = describe_environments({"env": ENV, **options})
    prior = {"name": "beta", "alpha": 1.0, "beta": [2.0, 3.0]}
    expected = {"env": ENV, "means": [0.2, 0.8], "prior": prior, "nested": [{"a": [1]}]}
    assert json.loads(json.dumps(found)) == expected
    assert type(found["means"]) is list


def test_options_of_agents_become_lists_dicts_and_numbers():
    (found,) = describe_agents([{"agent": "smc", "num_particles": np.arange(5, 8)}])
    assert found == {"agent": "smc", "num_particles": [5, 6, 7]}
