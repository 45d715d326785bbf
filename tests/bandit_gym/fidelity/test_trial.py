"""What a decision costs, by a clock that only the one who decides moves."""

import numpy as np
import pytest
from numpy.random import SeedSequence

from bandit_gym.fidelity import load_suite
from bandit_gym.fidelity.judge import FIRST_LANES
from bandit_gym.fidelity.trial import _decide_by_agent, _decide_by_sampler

CASE = load_suite().only("Bernoulli, Beta(5, 5)").cases[0]
SECONDS = 0.25  # a call


class Slow:
    """Plays the first arm, and takes its time."""

    def __init__(self, clock):
        self.clock = clock

    def reset(self, num_envs=None, seed=None):
        self.num_lanes = num_envs

    def warm_start(self, counts, sums):
        self.clock[0] += 100 * SECONDS

    def act(self, observation=None):
        self.clock[0] += SECONDS
        return np.zeros(self.num_lanes, dtype=int)


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("bandit_gym.fidelity.trial.process_time", lambda: now[0])
    return now


@pytest.mark.parametrize("num_decisions", [FIRST_LANES, FIRST_LANES + 7])
def test_an_agents_decision_is_one_of_the_last_lanes_in_microseconds(num_decisions, clock):
    made = _decide_by_agent(Slow(clock), CASE, num_decisions, SeedSequence(0))
    num_lanes = 7 if num_decisions > FIRST_LANES else FIRST_LANES
    assert made.microseconds == pytest.approx(1e6 * SECONDS / num_lanes)


def test_a_samplers_decision_is_a_single_draw_in_microseconds(clock):
    def draw(problem, counts, sums, rng, size):
        clock[0] += SECONDS * size
        return rng.random((size, problem.num_arms))

    made = _decide_by_sampler(draw, CASE, 20, SeedSequence(0))
    assert made.microseconds == pytest.approx(1e6 * SECONDS)
