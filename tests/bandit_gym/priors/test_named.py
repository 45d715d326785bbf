"""Every prior has a name, which stands for it in dicts, alone or inside others, and back again."""

import sys
from typing import NamedTuple

import numpy as np
import pytest
from families import BETA, CUT, MIXTURE

from bandit_gym.priors import Beta, PerArm, describe_prior, make_prior, prior_from_dict
from bandit_gym.problem import problem_from_dict

OWN = """
from bandit_gym.priors import Beta

class Steep:
    def __init__(self, power, *, low=0.0):
        self.inner = Beta(power, 1.0)
    def sample(self, rng, shape):
        return self.inner.sample(rng, shape)
    def log_density(self, means):
        return self.inner.log_density(means)

def make(power=2.0):
    return Beta(power, power)

READY = Beta(3.0, 3.0)
HALF = 0.5
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A module of one's own, with priors."""
    (tmp_path / "own_priors.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("own_priors", None)


def test_a_prior_of_ones_own_that_is_a_tuple_is_no_list_of_distributions():
    class Uniform(NamedTuple):
        low: float

        def sample(self, rng, shape):
            return rng.uniform(self.low, 1.0, shape)

        def log_density(self, means):
            return np.where(((means >= self.low) & (means <= 1)).all(axis=-1), 0.0, -np.inf)

    assert make_prior(Uniform(0.2)) == (0.2,)


def test_ones_own_is_made_of_a_class_a_function_or_an_object(own):
    steep = make_prior({"name": "own_priors:Steep", "power": 3.0, "low": 0.1})
    assert steep.inner == Beta(3.0, 1.0)
    assert make_prior("own_priors:make") == Beta(2.0, 2.0)
    assert make_prior({"name": "own_priors:make", "power": 4.0}) == Beta(4.0, 4.0)
    assert make_prior("own_priors:READY") == Beta(3.0, 3.0)
    assert make_prior(["own_priors:READY", BETA]) == PerArm([Beta(3, 3), Beta(1, 2)])


def test_reading_data_imports_nothing(own):
    for settings in ({"name": "own_priors:make"}, "own_priors:make", [{"name": "own_priors:make"}]):
        with pytest.raises((TypeError, ValueError), match="prior"):
            prior_from_dict(settings)
        with pytest.raises((TypeError, ValueError), match="prior"):
            problem_from_dict({"likelihood": {"name": "poisson"}, "prior": settings, "num_arms": 2})
    assert "own_priors" not in sys.modules


def test_settings_of_a_prior_are_written_as_a_call():
    for settings, text in [
        (BETA, "beta(1, 2)"),
        ({"beta": 2, "name": "beta", "alpha": 1}, "beta(1, 2)"),
        (CUT | {"high": 0.9}, "truncated_normal(mean=0.4, std=0.1, high=0.9)"),
        (MIXTURE, "mixture([beta(1, 2), truncated_normal(0.4, 0.1)], [0.1, 0.3])"),
        ([BETA, "my:READY"], "[beta(1, 2), READY]"),
        ({"name": "my.own:Steep", "power": 3}, "Steep(power=3)"),
        ({"name": "no_such", "x": None}, "no_such(x=None)"),
        (5, "5"),
    ]:
        assert describe_prior(settings) == text


def test_settings_of_one_distribution_an_arm_are_read_by_their_old_name_too():
    for key in ("arms", "laws"):
        settings = {"name": "per_arm", key: [BETA, BETA]}
        assert prior_from_dict(settings) == make_prior(settings) == PerArm([Beta(1, 2)] * 2)
    assert prior_from_dict(settings).to_dict().keys() == {"name", "arms"}
