import tomllib

import pytest

from bandit_gym.experiments.experiment import Experiment
from bandit_gym.experiments.toml import to_toml

INFINITE = float("inf")
HARD = 'a "b" \\ # é ] אב 𝄞'


def test_an_experiment_reads_the_same_again():
    prior = {"name": "beta", "alpha": 2, "beta": 3.5}
    experiment = Experiment(
        [{"env": "BernoulliBandit-v0", "prior": prior, "label": HARD}],
        ["exact", {"agent": "smc", "num_particles": 20}],
        propensities=True,
    )
    assert Experiment.from_dict(tomllib.loads(to_toml(experiment.to_dict()))) == experiment


@pytest.mark.parametrize(
    "value",
    [True, -3, 1e-300, 0.1, INFINITE, -INFINITE, HARD, "\x7f\t", [], [1, [2.5]], {"a b": {"": 1}}],
)
def test_every_value_reads_the_same_again(value):
    assert tomllib.loads(to_toml({HARD: value})) == {HARD: value}


def test_nothing_is_left_out_and_said():
    assert to_toml({"a": None, "b": 1}) == "# a is None, which TOML cannot say\nb = 1\n"
    assert tomllib.loads(to_toml({"b": {"c": None}})) == {"b": {}}
