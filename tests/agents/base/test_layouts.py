"""Problems that lay a visitor's numbers out in blocks of coefficients, also where arms come."""

import numpy as np
import pytest
from gymnasium.error import InvalidAction
from refusals import check_refusals
from surface import started

import agents
from bandit_gym import contexts
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.logs import Log
from bandit_gym.off_policy import evaluate, replay
from bandit_gym.priors import MultivariateNormal, Normal, StudentT
from bandit_gym.problem import ContextualProblem

LAYOUTS = ("disjoint", "hierarchical")
NUM_ARMS = 3
RNG = np.random.default_rng(0)
VISITORS = RNG.standard_normal((40, 2))
ACTIONS = RNG.integers(NUM_ARMS, size=40)
CLICKS = RNG.integers(2, size=40).astype(float)
LOG = Log(ACTIONS, CLICKS, (*"abc",), np.full(40, 1 / 3), VISITORS)


def make_problem(blocks, likelihood=None, prior=None, **changes):
    """Return a problem of three arms and visitors of two numbers."""
    size = contexts.count_coefficients(blocks, NUM_ARMS, 3)
    options = {"num_arms": NUM_ARMS, "num_features": size, "layout": blocks, **changes}
    return ContextualProblem(likelihood or Gaussian(1.0), prior or Normal(0.5, 2.0), **options)


def start(blocks, **changes):
    """Return an agent of such a problem that is ready."""
    return started("exact", make_problem(blocks, **changes))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_numbers_of_visitors_are_taken_for_their_features(layout):
    place = contexts.BLOCKS[layout]
    ways = (start(layout), VISITORS), (start(layout, layout=None), place(VISITORS, NUM_ARMS))
    values = []
    for agent, shown in ways:
        law = agent.action_probabilities(shown[0]).tolist()
        before = evaluate(agent, LOG, observation=shown)
        agent.observe_log(LOG, observation=shown)
        agent.observe(agent.act(shown[0]), 1.0)
        agent.observe(2, 0.0, observation=shown[1])
        many = agent.act(shown, size=len(shown), available=[True, False, True]).tolist()
        belief = agent.posterior(shown[3])
        values.append([law, before, many, belief.mean().tolist(), agent.lane_sums.tolist()])
    assert values[0] == values[1]
    assert replay(lambda: start(layout), LOG).num_rows >= 1


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_numbers_of_a_log_are_those_of_its_visitors(layout):
    given, found = (start(layout) for _ in range(2))
    assert evaluate(given, LOG, observation=VISITORS) == evaluate(found, LOG)
    given.observe_log(LOG, observation=VISITORS)
    found.observe_log(LOG)
    assert given.lane_sums.tolist() == found.lane_sums.tolist()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_lanes_have_a_visitor_each(layout):
    agent, twin = (started("exact", make_problem(layout), 2) for _ in range(2))
    features, mask = contexts.BLOCKS[layout](VISITORS[:2], NUM_ARMS), np.array([True, False])
    assert agent.act(VISITORS[:2]).tolist() == twin.act(features).tolist()
    agent.observe([1, 0], [1.0, np.nan], mask, observation=[VISITORS[0], [np.nan, np.nan]])
    twin.observe([1, 0], [1.0, np.nan], mask, observation=features)
    assert (agent.posterior(features).mean() == twin.posterior(features).mean()).all()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("is_correlated", [False, True])
def test_arms_that_come_leave_the_posteriors_of_the_others_as_they_were(layout, is_correlated):
    size, more = (contexts.count_coefficients(layout, num_arms, 3) for num_arms in (3, 5))
    root = np.random.default_rng(1).standard_normal((more, more)) / more**0.5
    joint = MultivariateNormal(0.5, root @ root.T + np.eye(more))
    first = MultivariateNormal(0.5, np.array(joint.covariance)[:size, :size])
    agent = start(layout, prior=first if is_correlated else None)
    agent.observe_log(LOG)
    before = agent.posterior(VISITORS[0])
    wider = agent.with_arms(5, **({"prior": joint} if is_correlated else {}))
    after = wider.posterior(VISITORS[0])
    always = start(layout, prior=wider.problem.prior, num_arms=5, num_features=more)
    always.observe_log(Log(ACTIONS, CLICKS, (*"abcde",), None, VISITORS))
    for name in ("mean", "std"):
        now, expected = (getattr(each, name)() for each in (after, always.posterior(VISITORS[0])))
        np.testing.assert_allclose(now, expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(now[:NUM_ARMS], getattr(before, name)(), rtol=1e-12, atol=1e-12)
    assert agent.problem.num_arms == NUM_ARMS and wider.act(VISITORS[0]) in range(5)


@pytest.mark.parametrize("name", ["racing", "smc", "laplace", "lin_ucb", "greedy", "bayes_ucb"])
def test_every_rule_with_features_goes_on_with_more_arms(name, tmp_path):
    likelihood = Gaussian(1.0) if name in ("greedy", "bayes_ucb") else Bernoulli()
    agent = started(name, make_problem("hierarchical", likelihood))
    agent.observe_log(LOG)
    shown = agent.act(VISITORS[0])
    wider = agent.with_arms(4)
    wider.observe(shown, 1.0)  # for the features that the narrower one was shown
    only_new = wider.act(VISITORS[0], available=[False] * 3 + [True])
    wider.observe(only_new, 1.0)
    wider.save(tmp_path / "agent")
    loaded = agents.load(tmp_path / "agent")
    assert only_new == 3 and wider.evidence.counts.sum() == 42
    assert loaded.problem == wider.problem and loaded.problem.layout == "hierarchical"
    assert loaded.act(VISITORS[1]) == wider.act(VISITORS[1])


def test_draws_of_the_race_do_not_depend_on_when_an_arm_came():
    """Probabilities of two samplers that are worth 4,096 draws each at least: 5 deviations."""
    came = started("racing", make_problem("disjoint", Bernoulli()))
    came.observe_log(LOG)
    came = came.with_arms(4)
    problem = make_problem("disjoint", Bernoulli(), num_arms=4, num_features=12)
    always = started("racing", problem)
    always.observe_log(Log(ACTIONS, CLICKS, (*"abcd",), None, VISITORS))
    played = (each.act([VISITORS[0]] * 4000, size=4000) for each in (came, always))
    counts = [np.bincount(arms, minlength=4) for arms in played]
    assert abs(counts[0] - counts[1]).max() / 4000 < 5 * (2 * 0.25 / 4000) ** 0.5


def test_new_blocks_take_the_prior_that_is_given_for_them():
    problem = make_problem("disjoint", prior=Normal(np.arange(9.0), 1.0))
    each = problem.with_arms(5, Normal([7.0, 8.0, 9.0], 2.0)).prior
    assert each.mean == (*np.arange(9.0), *[7.0, 8.0, 9.0] * 2)
    assert each.std == (1.0,) * 9 + (2.0,) * 6
    both = problem.with_arms(5, {"name": "normal", "mean": [1, 2, 3, 4, 5, 6], "std": 1.0}).prior
    assert both.mean[9:] == (1, 2, 3, 4, 5, 6)
    assert make_problem("disjoint").with_arms(5).prior == Normal(0.5, 2.0)
    assert make_problem("disjoint").with_arms(3) == make_problem("disjoint")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_blocks_without_a_layout_take_no_more_arms(layout):
    agent = start(layout, layout=None)
    agent.act(contexts.BLOCKS[layout](VISITORS[0], NUM_ARMS))
    text = f"problem must have a layout for with_arms where features are {layout}, got None; build"
    with pytest.raises(ValueError, match=text):
        agent.with_arms(4)
    agent.act(RNG.standard_normal((NUM_ARMS, agent.problem.num_features)))  # of arms, shared
    assert agent.with_arms(4).problem.num_arms == 4


CORRELATED = MultivariateNormal(0.0, np.eye(9) + 0.1)


EACH, JOINT = "prior must be for the new arms, 3 coefficients or 3 of", "prior must be a Multiv"
NEW_BLOCKS = [
    (Normal([0.0] * 9, 1.0), None, "prior must be given for the new arms beside Normal(mean="),
    (None, Normal([1.0, 2.0], 1.0), EACH),
    (None, StudentT(3.0, 0.0, 1.0), EACH),
    (CORRELATED, None, "prior must be given for the new arms beside MultivariateNormal(mean="),
    (CORRELATED, Normal(0.0, 1.0), JOINT, "of all 12 coefficients"),
    (CORRELATED, MultivariateNormal(0.0, np.eye(12)), JOINT),
]


def test_priors_of_new_blocks_layouts_and_visitors_that_do_not_fit_are_refused():
    def add_block(prior, new):
        start("disjoint", prior=prior).with_arms(4, new)

    check_refusals(add_block, NEW_BLOCKS)
    layouts = [
        ({"num_features": 10}, "num_features must be a multiple of 3, a block for each,"),
        ({"layout": "joint"}, "layout must be one of 'disjoint', 'hierarchical', got "),
    ]
    check_refusals(lambda changes: make_problem("disjoint", **changes), layouts)
    agent, lanes = start("disjoint"), started("exact", make_problem("disjoint"), 3)
    log, many = Log([0, 1, 2], [1.0, 0.0, 1.0], (*"abc",)), np.ones((3, 2))
    shape = "visitors' numbers of shape {}, or 9 of each arm, got {}".format
    visitors = [
        (lambda: agent.act(np.ones(3)), shape("(2,)", "shape (3,).")),
        (lambda: agent.posterior(np.ones(3)), shape("(2,)", "shape (3,).")),
        (lambda: agent.act(many, size=4), shape("(4, 2)", "shape (3, 2).")),
        (lambda: agent.observe(0, 1.0, observation=many), shape("(2,)", "shape (3, 2).")),
        (lambda: agent.observe_log(log, observation=[1.0, 2.0]), shape("(3, 2)", "shape (2,).")),
        (lambda: lanes.observe([0, 1, 2], [1.0, 0.0, 1.0], observation=[1.0, 2.0]), "shape (3, 2)"),
        (lambda: agent.act([1.0, np.nan]), "must have finite features, of at most 1e+100, got nan"),
        (agent.act, TypeError, shape("(2,)", "None")),
        (
            lambda: agent.observe(7, 1.0, observation=np.ones(9)),
            InvalidAction,
            "action must be an integer from 0 to 2, got 7",
        ),
    ]
    check_refusals(lambda call: call(), visitors)
    agent.warm_start([], [], observation=np.ones((0, 2)))  # of no rows
    assert not agent.lane_counts.any()
