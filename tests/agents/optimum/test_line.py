import numpy as np
import pytest

from agents.bayes_optimal import optimal_bracket, optimal_regret
from agents.optimum import line
from agents.optimum.line import estimate_bracket, estimate_exact, optimal_line
from bandit_gym.likelihoods import Bernoulli, Poisson
from bandit_gym.priors import Beta, Gamma, TruncatedNormal
from bandit_gym.problem import BanditProblem


def arms(num_arms, prior=None):
    return BanditProblem(Bernoulli(), prior or Beta(1.0, 1.0), num_arms)


@pytest.mark.parametrize(
    "problem", [arms(2), arms(3, Beta([1.0, 1.0, 2.0], 1.0)), arms(2, TruncatedNormal(0.4, 0.3))]
)
def test_line_has_the_optimal_regret_of_each_horizon(problem):
    found = optimal_line(problem, 20, 10.0)
    assert (found.kind, found.steps[0], found.steps[-1]) == ("exact", 1, 20)
    expected = [optimal_regret(problem, t) for t in found.steps]
    assert found.lower == found.upper == pytest.approx(expected, abs=1e-9)
    assert (np.diff(found.lower) > 0).all()


def test_line_of_many_arms_is_between_bounds():
    found = optimal_line(arms(6), 40, 10.0)
    bracket = optimal_bracket(arms(6), 40, num_samples=line.NUM_SAMPLES)
    assert found.kind == "bracket"
    assert (found.steps[-1], len(found.steps)) == (40, line.NUM_BRACKETS)
    assert found.lower[-1] == pytest.approx(bracket.best - bracket.upper)
    assert found.upper[-1] == pytest.approx(bracket.best - bracket.lower)


def test_bounds_stand_in_where_there_is_no_time_for_the_recursion(monkeypatch):
    monkeypatch.setattr(line, "estimate_exact", lambda problem, horizon: 11.0)
    assert optimal_line(arms(2), 20, 10.0).kind == "bracket"
    assert optimal_line(arms(2), 20, 11.0).kind == "exact"


def test_nothing_is_begun_without_time():
    found = optimal_line(arms(10), 2000, 5.0)
    assert (found.kind, found.steps) == ("none", [])
    assert found.seconds == estimate_bracket(arms(10), 2000) > 5.0


def test_recursion_without_room_takes_for_ever():
    assert estimate_exact(arms(6), 2) == estimate_exact(arms(2), 10**6) == np.inf


def test_tables_without_room_are_refused_before_they_are_made():
    with pytest.raises(ValueError, match=r"at most 7 GB for bounds, not 8e\+04 GB, got 1000000"):
        optimal_line(arms(10), 10**6, 1e300)


def test_like_arms_take_half_as_long_where_there_are_two():
    like, unlike = (arms(2, Beta(1.0, beta)) for beta in (1.0, [1.0, 2.0]))
    times = [estimate_exact(problem, 1000) - line.LOADING for problem in (like, unlike)]
    assert times[1] == pytest.approx(2 * times[0])


def test_other_rewards_are_refused():
    with pytest.raises(ValueError, match="likelihood must be Bernoulli"):
        optimal_line(BanditProblem(Poisson(), Gamma(1.0, 1.0), 2), 10, 5.0)
