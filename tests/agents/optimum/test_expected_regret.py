import numpy as np
import pytest

from agents import make_agent
from agents.bayes_optimal import optimal_regret
from agents.optimum.action_laws import RULES
from agents.optimum.expected_regret import expected_regret, expected_reward
from agents.optimum.predictive import expected_best_mean
from agents.optimum.thompson_law import ThompsonLaw
from agents.oracle import action_probabilities
from bandit_gym.envs import BanditVectorEnv
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta, TruncatedNormal
from bandit_gym.problem import BanditProblem
from bandit_gym.rollout import rollout

UNIFORM = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)
PROBLEMS = {
    "two uniform arms": (UNIFORM, 40),
    "three unlike arms": (
        BanditProblem(Bernoulli(), Beta([1.0, 1.0, 3.0], [1.0, 2.0, 2.0]), 3),
        12,
    ),
    "two truncated normal arms": (BanditProblem(Bernoulli(), TruncatedNormal(0.4, 0.3), 2), 25),
}
AGENTS = {name: "exact" if name == "thompson" else name for name in RULES if name != "optimal"}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BANDIT_GYM_CACHE", str(tmp_path))


@pytest.mark.parametrize("rule", AGENTS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_harness_agrees_with_the_exact_regret(rule, name):
    problem, horizon = PROBLEMS[name]
    agent = make_agent(AGENTS[rule], problem)
    regrets = rollout(agent, BanditVectorEnv(2000, problem=problem), seed=0, horizon=horizon)
    played = regrets.pseudo_regret.cumsum(axis=1)[:, [horizon // 2, horizon - 1]]
    exact = expected_regret(problem, rule, horizon)[[horizon // 2, horizon - 1]]
    assert (np.abs(played.mean(axis=0) - exact) < 4 * played.std(axis=0) / np.sqrt(2000)).all()


def test_regret_of_thompson_sampling_is_the_known_one():
    found = expected_regret(UNIFORM, "thompson", 50)[[19, 49]]
    assert found == pytest.approx([1.4015, 2.1258], abs=5e-5)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("num_arms", [2, 3])
def test_forwards_and_backwards_agree(rule, num_arms):
    problem = BanditProblem(Bernoulli(), Beta(1.0, np.arange(1.0, num_arms + 1).tolist()), num_arms)
    regret = expected_regret(problem, rule, 10)[-1]
    reward = expected_reward(problem, rule, 10)
    assert regret == pytest.approx(10 * expected_best_mean(problem) - reward, abs=1e-12)


def test_the_policy_loses_what_the_recursion_says_and_no_rule_less():
    best = optimal_regret(UNIFORM, 30)
    assert expected_regret(UNIFORM, "optimal", 30)[-1] == pytest.approx(best, abs=1e-9)
    for rule in set(RULES) - {"optimal"}:
        assert expected_regret(UNIFORM, rule, 30)[-1] > best + 0.01


def test_thompsons_law_is_the_oracles_under_unlike_priors():
    problem = BanditProblem(Bernoulli(), TruncatedNormal([0.3, 0.6, 0.5], [0.1, 0.2, 2.0]), 3)
    counts = (4, 2, 3)
    law = ThompsonLaw(problem, 10)(counts)
    for sums in [(0, 0, 0), (4, 2, 3), (1, 2, 0), (3, 0, 2)]:
        expected = action_probabilities(problem, counts, np.array(sums, dtype=float))
        np.testing.assert_allclose(law[(slice(None), *sums)], expected, atol=1e-9)


def test_a_function_is_a_rule():
    def alternate(counts, sums):
        return np.eye(2)[counts.sum(axis=1) % 2]

    # Half of the pulls go to either arm: as much regret as by chance.
    expected = expected_regret(UNIFORM, "random", 10)
    assert expected_regret(UNIFORM, alternate, 10) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("rule", "options", "words"),
    [
        ("thomson", {}, "nearest known one is 'thompson'"),
        ("epsilon_greedy", {"epsilom": 0.2}, "nearest known one is 'epsilon'"),
        ("epsilon_greedy", {"epsilon": 2.0}, "epsilon must be"),
        (lambda counts, sums: counts * 0.0, {}, "rule must return probabilities that sum to 1"),
        (lambda counts, sums: sums[:, 0], {}, r"rule must return probabilities \(1, 2\)"),
    ],
)
def test_what_is_no_rule_is_refused_in_one_sentence(rule, options, words):
    with pytest.raises(ValueError, match=words):
        expected_regret(UNIFORM, rule, 5, **options)


def test_too_many_states_are_refused_before_any_work():
    with pytest.raises(ValueError, match="horizon must give at most 1e.09 states"):
        expected_regret(UNIFORM, "random", 10**6)
