"""Arms that are not available at a step, and arms that come: what is refused, and what is kept."""

from itertools import product

import numpy as np
import pytest
from families import ALL_AGENTS, QUICKER
from last_paid import Stubborn
from refusals import check_refusals
from surface import started

import agents
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta, Normal, PerArm, TruncatedMultivariateNormal, TruncatedNormal
from bandit_gym.problem import BanditProblem, ContextualProblem

THREE = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 3)
BY_ARM = BanditProblem(Bernoulli(), Beta([1.0, 2.0, 3.0], 4.0), 3)
FIVE = BanditProblem(Bernoulli(), Beta([1, 2, 3, 6, 6], [4, 4, 4, 7, 8]), 5)
DEPENDENT = BanditProblem(Bernoulli(), TruncatedMultivariateNormal(0.5, np.eye(3).tolist()), 3)
FEATURES = ContextualProblem(Bernoulli(), Normal(0.0, 1.0), 3, 2)


LEAVES_NONE = "available must have an arm, got [False, False, False] in lane 1."


@pytest.mark.parametrize("problem", [THREE, FEATURES], ids=["plain", "features"])
def test_a_mask_that_is_none_is_refused_and_changes_nothing(problem):
    agent, twin = (started("racing", problem, 2) for _ in range(2))
    features = np.ones((2, 3, 2)) if problem is FEATURES else None
    for mask, error, text in [
        ([1, 0, 1], TypeError, "available must be an array of booleans, got [1, 0, 1]."),
        ([True, False], ValueError, "available must have shape (3,) or (2, 3), got (2,)."),
        ([[True] * 3, [False] * 3], ValueError, LEAVES_NONE),
    ]:
        for call in (agent.act, agent.action_probabilities):
            with pytest.raises(error) as caught:
                call(features, available=mask)
            assert str(caught.value) == text
    played = [[each.act(features).tolist() for _ in range(5)] for each in (agent, twin)]
    assert played[0] == played[1]


@pytest.mark.parametrize("name", ["information_relaxation", "optimal", "Stubborn"])
def test_rules_that_do_not_ask_for_the_mask_refuse_it(name):
    agent = started(Stubborn, THREE) if name == "Stubborn" else started(name, THREE, horizon=5)
    text = f"available must be left out for {type(agent).__name__}, which decides among all arms"
    for call in (agent.act, agent.action_probabilities):
        with pytest.raises(TypeError, match=text):
            call(available=[True, True, False])


def test_the_features_of_an_arm_that_is_not_available_serve_no_reward(tmp_path):
    agent = started("racing", FEATURES, None)
    agent.act([[1.0, 0.0], [np.nan, np.inf], [0.0, 1.0]], available=[True, False, True])
    agent.save(tmp_path / "agent.npz")
    for each in (agent, agents.load(tmp_path / "agent.npz"), agent.with_arms(3)):
        with pytest.raises(ValueError, match="action must be an arm that was available at the"):
            each.observe(1, 1.0)
    agent.observe(1, 1.0, observation=[0.5, 0.5])
    more = agent.with_arms(4)
    assert more.evidence.counts.sum() == 1 and more.act(np.eye(4, 2)) in range(4)


@pytest.mark.parametrize("options", [{}, {"discount": 0.9}, {"window": 3}])
def test_an_agent_with_more_arms_is_the_one_that_always_had_them(options):
    agent, always = (started("exact", each, 2, **options) for each in (BY_ARM, FIVE))

    def observe(*learners):
        for learner, step in product(learners, range(6)):
            learner.observe([step % 3, 0], [1.0, step % 2])

    observe(agent, always)
    more, known = agent.with_arms(5, prior=Beta(6.0, [7.0, 8.0])), agent.lane_counts.tolist()
    assert more.problem == FIVE
    for _ in range(2):
        assert more.lane_counts.tolist() == always.lane_counts.tolist()
        assert more.lane_sums.tolist() == always.lane_sums.tolist()
        assert agent.lane_counts.tolist() == known
        observe(more, always)


@pytest.mark.parametrize("name", ALL_AGENTS)
def test_every_agent_goes_on_with_more_arms(name, tmp_path):
    options = QUICKER.get(name, {})
    agent = started(name, THREE, 2, **options)
    for _ in range(4):
        agent.observe(agent.act(), [1.0, 0.0])
    more = agent.with_arms(4)
    same = started(name, more.problem, 2, more.lane_counts, more.lane_sums, **options)
    if hasattr(agent, "lane_decisions"):
        assert more.lane_decisions.tolist() == [4, 4]
        same.lane_decisions = more.lane_decisions
    if more.has_exact_probabilities and "smc" not in name:
        assert (more.action_probabilities() == same.action_probabilities()).all()
    more.observe(more.act(), [1.0, 1.0])
    assert more.counts.shape == (2, 4) and more.counts.sum() == 10
    more.save(tmp_path / "agent")


NEW = "prior must be for the new arms, 1, and of the same"
NOT_KNOWN = [
    (THREE, (2,), "num_arms must be an integer of at least 3, got 2."),
    (BY_ARM, (4,), "prior must be given for the new arms beside Beta(alpha=(1.0, 2.0, 3.0)"),
    (BY_ARM, (4, Normal(0.0, 1.0)), NEW),
    (BY_ARM, (4, Beta([1.0, 2.0], 1.0)), NEW),
    (DEPENDENT, (4, Beta(1.0, 1.0)), NEW),
    (FEATURES, (4, Normal(0.0, 1.0)), "prior must be left out where arms have features"),
]


def test_arms_whose_prior_is_not_known_are_refused():
    check_refusals(lambda of, new: started("racing", of, None).with_arms(*new), NOT_KNOWN)


def test_arms_of_their_own_distributions_take_another():
    laws = [Beta(1.0, 2.0), TruncatedNormal(0.5, 0.2), Beta(3.0, 1.0)]
    more = BanditProblem(Bernoulli(), PerArm(laws), 3).with_arms(4, Beta(2.0, 2.0))
    assert more.prior == PerArm([*laws, Beta(2.0, 2.0)])
