import numpy as np
import pytest

from agents import ExactThompson
from agents.bayes_optimal import BayesOptimal, optimal_value
from agents.optimum.brackets import optimal_bracket, played_regrets, relaxed_regrets
from agents.optimum.expected_regret import expected_regret
from agents.optimum.relaxations import RELAXATIONS
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta, TruncatedNormal
from bandit_gym.problem import BanditProblem

TWO = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)
THREE = BanditProblem(Bernoulli(), Beta([1.0, 1.0, 2.0], [1.0, 2.0, 1.0]), 3)
ROUGH = BanditProblem(Bernoulli(), TruncatedNormal(0.4, 0.2), 2)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BANDIT_GYM_CACHE", str(tmp_path))


@pytest.mark.parametrize("penalty", RELAXATIONS)
@pytest.mark.parametrize(("problem", "horizon"), [(TWO, 30), (THREE, 9), (ROUGH, 15)])
def test_bracket_holds_the_optimum(penalty, problem, horizon):
    # 1 - 1e-4: some 4 standard errors.
    found = optimal_bracket(problem, horizon, penalty=penalty, num_samples=300, confidence=0.9999)
    assert found.lower < optimal_value(problem, horizon) < found.upper


def test_of_the_penalties_those_that_look_further_ahead_bound_closer():
    num_samples = {"ts": 10, "fh": 10_000, "v_zero": 10_000, "v_emax": 500}
    regrets = [relaxed_regrets(TWO, 20, *each, seed=0) for each in num_samples.items()]
    errors = [4 * values.std() / np.sqrt(len(values)) for values in regrets]
    for i in range(3):
        assert regrets[i].mean() + errors[i] < regrets[i + 1].mean() - errors[i + 1]
    assert regrets[3].mean() > 0.8 * 0.9021  # of the optimal regret


def test_charging_for_several_levels_bounds_closer_than_charging_nothing():
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 6)
    regrets = [relaxed_regrets(problem, 40, name, 1000, seed=0) for name in ("v_zero", "v_levels")]
    without, charged = (values.mean() for values in regrets)
    error = np.hypot(*(values.std() / np.sqrt(1000) for values in regrets))
    assert without + 4 * error < charged


def test_who_knows_all_rewards_of_a_sure_arm_gains_nothing():
    # Arms whose means are all but known: no future teaches anything, and every bound is the value.
    sure = BanditProblem(Bernoulli(), Beta([700.0, 300.0], [300.0, 700.0]), 2)
    for penalty in RELAXATIONS:
        upper = optimal_bracket(sure, 10, penalty=penalty, num_samples=50).upper
        assert upper == pytest.approx(7.0, abs=0.05)


@pytest.mark.parametrize("agent", [ExactThompson(TWO), BayesOptimal(TWO, horizon=20)])
def test_regret_of_the_agent_is_its_own(agent):
    rule = "thompson" if isinstance(agent, ExactThompson) else "optimal"
    regrets = played_regrets(agent, 20, 4000, seed=0)
    error = regrets.std() / np.sqrt(len(regrets))
    assert abs(regrets.mean() - expected_regret(TWO, rule, 20)[-1]) < 4 * error


def test_a_seed_gives_one_bracket():
    found = [optimal_bracket(TWO, 20, num_samples=50, seed=seed) for seed in (3, 3, 4)]
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize(
    ("problem", "horizon", "penalty", "words"),
    [
        (TWO, 10, "v_max", "nearest known one is 'v_emax'"),
        (BanditProblem(Bernoulli(), Beta(1.0, 1.0), 4), 10, "v_emax", "more than 3 arms"),
        (TWO, 1000, "v_emax", r"horizon must have T \*\* K of at most"),
        (TWO, 0, "v_zero", "horizon must be a positive integer, got 0"),
    ],
)
def test_what_is_out_of_reach_is_refused_in_one_sentence(problem, horizon, penalty, words):
    with pytest.raises(ValueError, match=words):
        optimal_bracket(problem, horizon, penalty=penalty)


def test_agent_of_another_problem_is_refused():
    with pytest.raises(ValueError, match="agent must be one for"):
        optimal_bracket(TWO, 5, agent=ExactThompson(THREE))


def test_one_pull_is_worth_the_best_predictive_mean():
    problem = BanditProblem(Bernoulli(), Beta([1.0, 3.0], 1.0), 2)
    for penalty in ("fh", "v_zero", "v_levels", "v_emax"):
        assert relaxed_regrets(problem, 1, penalty, 10, 0).mean() < 0.2
        upper = optimal_bracket(problem, 1, penalty=penalty, num_samples=50).upper
        assert upper == pytest.approx(0.75, abs=1e-9)
