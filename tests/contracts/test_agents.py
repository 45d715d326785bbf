"""What every agent keeps, whatever it knows and however it chooses."""

import pickle
import re
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from functools import cache
from itertools import product
from threading import Barrier

import gymnasium as gym
import numpy as np
import pytest
from families import ALL_AGENTS, ALL_ENV_IDS, FACTORIES, PROBLEMS, QUICKER, DensityOnly, names_with
from gymnasium.error import InvalidAction, ResetNeeded
from last_paid import Stubborn
from pairwise import pairwise
from surface import assert_played, assert_same, play, problem_of, shown, started

import agents
from agents import UniformRandom, make_agent
from agents.base import Agent
from agents.posteriors.agent import PosteriorAgent
from bandit_gym.likelihoods import Bernoulli, Exponential
from bandit_gym.priors import Beta, HierarchicalBeta, TruncatedNormal
from bandit_gym.problem import BanditProblem
from bandit_gym.rollout import rollout

CONJUGATE, NORMAL = PROBLEMS["conjugate"], PROBLEMS["normal"]
FOR_LIKE_ARMS = "discounted_gittins", "information_relaxation"
"""Rules that refuse dependent arms, and take seconds where arms are not conjugate."""
WITHOUT_POSTERIOR = "random", "ucb1", "kl_ucb", "ucb_tuned", "moss", "lin_ucb"
WITHOUT_TIES = "greedy", "information_directed", "lin_ucb", "bayes_ucb"
"""Rules that leave nothing to chance where no two arms are alike."""
FEATURED = "linear", "logistic"
FOR_BERNOULLI = "discounted_gittins", "ucb_tuned"
SAMPLERS = "exact", "racing", "racing_paper", "smc", "smc_paper"
TAKERS = {name for name in FACTORIES if getattr(FACTORIES[name], "takes_features", False)}
WITH_FEATURES = sorted(TAKERS - {"sliding_window"})
"""Agents that take features."""
BY_A_RACE = [name for name in WITH_FEATURES if name in names_with("posterior")]
PARTICLES = {"name": "smc", "num_particles": 100}
OF_THEIR_OWN = "finite_horizon_gittins", "optimistic_gittins"
"""Rules that `test_beliefs.py` does not put on every posterior."""
SETTINGS = {
    **{f"{name}, conjugate": (name, "conjugate", QUICKER.get(name, {})) for name in ALL_AGENTS},
    **{f"{name}, {kind}": (name, kind, {}) for name in SAMPLERS for kind in ("grid", "chains")},
    **{f"{name}, {kind}": (name, kind, {}) for name in OF_THEIR_OWN for kind in ("grid", "chains")},
    **{f"{name}, mixture": (name, "mixture", {}) for name in ("exact", "racing", *OF_THEIR_OWN)},
    "exact, mixture, fading": ("exact", "mixture", {"discount": 0.9}),
    "racing, mixture, fixed": ("racing", "mixture", {"stopping": 20}),
    "exact, reference": ("exact", "normal", {"prior": "reference"}),
    "exact, fading": ("exact", "grid", {"discount": 0.9}),
    "greedy, posterior, chains": ("greedy", "chains", {"estimate": "posterior"}),
    "racing, reference": ("racing", "grid", {"proposal": "reference"}),
    "racing, fixed": ("racing", "grid", {"proposal": "reference", "stopping": 20}),
    "racing_paper, pull": ("racing_paper", "normal", {"unpulled_arms": "pull"}),
    **{f"{name}, linear": (name, "linear", {}) for name in WITH_FEATURES},
    **{f"{name}, logistic": (name, "logistic", {}) for name in ("racing", "laplace", "greedy")},
    "laplace, diagonal": ("laplace", "logistic", {"covariance": "diagonal"}),
    **{f"{name}, race": (name, "logistic", {"posterior": "racing"}) for name in BY_A_RACE},
    **{f"{name}, smc": (name, "logistic", {"posterior": PARTICLES}) for name in BY_A_RACE},
}


few_chain_draws = pytest.mark.usefixtures("few_chain_draws")


def run_in(settings, test):
    """Run a test in all these settings; a failure names its own."""
    for setting in settings:
        try:
            test(setting)
        except AssertionError as error:
            error.add_note(f"in the setting {setting!r}")
            raise


def in_settings(settings):
    """Run a test in all these settings, those of an agent as one case."""
    names = dict.fromkeys(SETTINGS[setting][0] for setting in settings)

    def decorate(test):
        @pytest.mark.parametrize("name", names)
        def run(name):
            run_in([each for each in settings if SETTINGS[each][0] == name], test)

        return run

    return decorate


EVERYWHERE = []
"""Names of the tests that go through all settings together."""


def in_every_setting(test):
    """Run a test in few settings: it meets each agent, each problem and each option.

    Each agent meets each problem and each option in one of these tests.
    """
    EVERYWHERE.append(test.__name__)

    @few_chain_draws
    @pytest.mark.parametrize("name", ALL_AGENTS)
    def run(name):
        settings = choose_settings()[test.__name__]
        run_in([each for each in settings if SETTINGS[each][0] == name], test)

    return run


@cache
def choose_settings():
    """Return the settings of each test: pairwise in agents, problems, options and tests."""
    factors = {
        (name, kind, repr(options), test): setting
        for test in EVERYWHERE
        for setting, (name, kind, options) in SETTINGS.items()
    }
    chosen = {test: [] for test in EVERYWHERE}
    for case in pairwise(factors):
        chosen[case[-1]].append(factors[case])
    return chosen


COSTLY = "gittins", "knowledge", "information", "racing_paper", "bayes_ucb", "chains", "fixed"


def is_costly(setting):
    """Say whether a decision takes milliseconds."""
    return any(name in setting for name in COSTLY) or setting.endswith("race")


def make(setting, num_envs, num_steps=0):
    """Return an agent that has played some steps."""
    name, kind, options = SETTINGS[setting]
    agent = started(name, PROBLEMS[kind], num_envs, **options)
    play(agent, num_steps)
    return agent


@in_every_setting
def test_a_single_run_has_plain_ints_and_one_policy_and_plays_as_a_lane_does(setting):
    alone, lane = make(setting, None), make(setting, 1)
    probabilities = alone.action_probabilities(shown(alone))
    assert probabilities.shape == (4,) and (probabilities >= 0).all()
    assert probabilities.sum() == pytest.approx(1.0)
    assert type(alone.act(shown(alone))) is int
    actions = lane.act(shown(lane))
    assert actions.shape == (1,) and actions.dtype == np.int64
    assert_same(play(alone, 8), play(lane, 8)[:, 0])


EXPLORE_AT_RANDOM = "random", "top_two", "epsilon_greedy"
"""Rules that do not begin with each arm once, under an improper prior."""
DRAW_FROM_THE_PRIOR = "smc", "smc_paper", "information_relaxation", "information_directed"


def test_an_improper_reference_prior_is_followed_from_the_first_pull_of_each_arm_on():
    for name in sorted({*ALL_AGENTS} - {*FOR_BERNOULLI, *DRAW_FROM_THE_PRIOR}):
        agent = started(name, NORMAL, 20, prior="reference")
        pulled = play(agent, 4)
        if name not in EXPLORE_AT_RANDOM:
            each_once = (np.sort(pulled, axis=0) == np.arange(4)[:, None]).all()
            assert each_once, f"{name} must pull each arm once first, or be in EXPLORE_AT_RANDOM"
            assert (pulled[0] != pulled[0, 0]).any(), name  # in random order
        told = agent.action_probabilities()
        assert told.shape == (20, 4) and np.allclose(told.sum(axis=1), 1.0), name


def test_an_improper_reference_prior_is_refused_by_agents_that_draw_from_it():
    for name in DRAW_FROM_THE_PRIOR:
        with pytest.raises(ValueError, match="prior must integrate, for an agent that draws from"):
            make_agent(name, NORMAL, prior="reference")


@in_every_setting
def test_same_seed_same_play_and_another_seed_another(setting):
    plays, num_lanes = [], 8 if is_costly(setting) else 20
    for seed in (3, 3, 4):
        agent = make(setting, num_lanes)
        agent.reset(num_lanes, seed=seed)
        plays.append(np.array([agent.act(shown(agent, seed)) for seed in range(4)]))
    assert_same(plays[0], plays[1])
    name, kind, _ = SETTINGS[setting]
    if kind not in FEATURED or name not in WITHOUT_TIES:
        assert (plays[0] != plays[2]).any()


def test_agents_of_two_kinds_share_no_stream():
    agents_of = {type(agent): agent for agent in (make_agent(n, CONJUGATE) for n in ALL_AGENTS)}
    for agent in agents_of.values():
        agent.reset(seed=0)
    assert len({agent.rng.random() for agent in agents_of.values()}) == len(agents_of) > 10


@in_every_setting
def test_asking_moves_nothing(setting):
    """`act` moves the generator alone; propensities and posteriors do not even that."""
    asked, unasked = (make(setting, 3, 3) for _ in range(2))
    counts, sums = asked.lane_counts.copy(), asked.lane_sums.copy()
    asked.action_probabilities(shown(asked))
    if setting.split(",")[0] not in WITHOUT_POSTERIOR or "posterior" in setting:
        snapshot = asked.posterior(shown(asked))
        snapshot.mean(), snapshot.quantile(0.3), snapshot.best_arm_probabilities()
        snapshot.sample(3, seed=0)
    assert_same(asked.act(shown(asked)), unasked.act(shown(asked)))
    asked.action_probabilities(shown(asked, 7))
    assert_same([asked.lane_counts, asked.lane_sums], [counts, sums])
    assert_same(play(asked, 4), play(unasked, 4))
    assert asked.rng.random() == unasked.rng.random()


ALONE = [f"{name}, {kind}" for name in SAMPLERS for kind in ("conjugate", "grid")]
ALONE += [f"{name}, linear" for name in ("exact", "racing", "laplace", "lin_ucb", "smc")]


@few_chain_draws
@pytest.mark.parametrize(("num_envs", "settings"), [(3, SETTINGS), (None, ALONE)], ids=["3", "1"])
def test_copies_and_files_go_on_bit_for_bit(num_envs, settings, tmp_path):
    for setting in settings:
        agent = make(setting, num_envs, 7)
        if num_envs is None:
            agent.act(shown(agent))  # between an act and what is observed of it, too
        agent.save(tmp_path / "agent")
        copies = pickle.loads(pickle.dumps(agent)), agents.load(tmp_path / "agent", agent.problem)
        for copy in (deepcopy(agent), *copies):  # also of how the last act went
            assert_same(copy.diagnostics().values(), agent.diagnostics().values(), setting)
        expected, told = play(agent, 5, seed=3), agent.diagnostics()
        for copy in copies:
            assert type(copy) is type(agent) and copy.diagnostics().keys() == told.keys(), setting
            assert_same(play(copy, 5, seed=3), expected, setting)
            assert_same(copy.diagnostics().values(), told.values(), setting)


@in_every_setting
def test_a_snapshot_taken_before_a_reward_does_not_change_with_it(setting):
    """Also where it is asked for the first time afterwards."""
    if setting.split(",")[0] in WITHOUT_POSTERIOR and "posterior" not in setting:
        return
    agent = make(setting, 3, 4)
    twin = pickle.loads(pickle.dumps(agent))
    asked = shown(agent)
    snapshot, expected = agent.posterior(asked), twin.posterior(asked)
    play(agent, 4)
    for ask in ("mean", "std", "best_arm_probabilities"):
        assert_same(getattr(snapshot, ask)(), getattr(expected, ask)())
    assert_same(snapshot.sample(2, seed=0), expected.sample(2, seed=0))


def test_masked_lanes_learn_nothing_and_are_not_read():
    """So that two masked rewards are one of both lanes, and one that masks all lanes is none."""
    for name in ALL_AGENTS:
        once, twice = (started(name, CONJUGATE, 3, **QUICKER.get(name, {})) for _ in range(2))
        for actions, rewards in [([0, 1, 2], [1.0, 0.0, 1.0]), ([3, 1, 2], [0.0, 1.0, 1.0])]:
            once.observe(actions, rewards)
            for mask in np.array([[1, 0, 1], [0, 1, 0], [0, 0, 0]], dtype=bool):
                twice.observe(np.where(mask, actions, 99), np.where(mask, rewards, np.nan), mask)
        assert_same([once.lane_counts, once.lane_sums], [twice.lane_counts, twice.lane_sums], name)
        assert_same(play(once, 4), play(twice, 4), name)


@in_every_setting
def test_lanes_that_begin_again_know_nothing_and_the_others_what_they_knew(setting):
    agent = make(setting, 3, 6)
    counts = agent.lane_counts.copy()
    agent.reset_lanes(np.array([True, False, False]))
    assert not agent.lane_counts[0].any() and not agent.lane_sums[0].any()
    assert_same(agent.lane_counts[1:], counts[1:])
    is_drawn = any(kind in setting for kind in ("chains", "smc", "race"))
    if agent.has_exact_probabilities and not is_drawn:
        fresh = make(setting, 3).action_probabilities(shown(agent))
        assert agent.action_probabilities(shown(agent))[0] == pytest.approx(fresh[0], abs=1e-12)


def test_a_warm_start_equals_the_same_rewards_one_by_one():
    for name in ALL_AGENTS:
        agent, twin = (started(name, CONJUGATE, 2, **QUICKER.get(name, {})) for _ in range(2))
        for action, reward in [(0, 1.0), (0, 0.0), (1, 1.0), (2, 0.0), (3, 1.0)]:
            agent.observe([action, action], [reward, reward])
        twin.warm_start([2, 1, 1, 1], [1.0, 1.0, 0.0, 1.0])
        assert_same(agent.act(), twin.act(), name)


def test_a_weight_is_as_many_equal_rewards_or_is_refused_in_words():
    """Fractions of 0.25 and 2.75 sum to 3 exactly, and counts of each are real numbers."""
    refused = []
    for name in ALL_AGENTS:
        agent, whole, parts = (started(name, CONJUGATE, 2) for _ in range(3))
        if not agent.takes_weights:
            with pytest.raises(TypeError, match="weight must be left out for .* no weights, got 2"):
                agent.observe([0, 1], [1.0, 0.0], weight=2)
            refused.append(name)
            continue
        for arm, reward in [(0, 1.0), (1, 0.0), (0, 0.0), (3, 1.0)]:
            for _ in range(3):
                agent.observe([arm, 0], [reward, 1.0])
            whole.observe([arm, 0], [reward, 1.0], weight=3)
            for weight in ([0.25, 2.75], [2.75, 0.25]):
                parts.observe([arm, 0], [reward, 1.0], weight=weight)
        assert_same(agent.act(), whole.act(), name)
        assert_same(agent.lane_counts, parts.lane_counts, name)
        assert_same(agent.lane_sums, parts.lane_sums, name)
        if agent.has_exact_probabilities and not name.startswith("smc"):
            expected = agent.action_probabilities()
            np.testing.assert_allclose(parts.action_probabilities(), expected, atol=1e-12)
    assert refused == ["discounted_gittins"]


TOTALS = "sums must be possible totals of so many bernoulli rewards, got "
BAD_CALLS = [
    ("observe", ([0, 4], [1.0, 0.0]), InvalidAction, "from 0 to 3, got 4"),
    ("observe", ([0], [1.0, 0.0]), InvalidAction, "shape"),
    ("observe", ([0, 1], [1.0, 0.5]), ValueError, "0 or 1"),
    ("warm_start", ([1, 0, 0, 0], [2.0, 0, 0, 0]), ValueError, TOTALS + "2.0 for arm 0"),
    ("warm_start", ([0, 0, 0, 0], [0, 0, 1.0, 0]), ValueError, TOTALS + "1.0 for arm 2"),
    ("warm_start", ([2**62, 2**60, 0, 0], [0] * 4), ValueError, r"from 0 to 2\*\*53"),
    ("reset_lanes", ([True],), ValueError, "mask must have shape .2,., one per lane, got"),
    ("reset_lanes", ([[True], [True, False]],), TypeError, "mask must be an array of booleans"),
]


def test_bad_calls_are_refused_and_change_nothing():
    for name in ("exact", "racing", "smc", "top_two"):
        agent, twin = (started(name, CONJUGATE, 2) for _ in range(2))
        for method, arguments, error, text in BAD_CALLS:
            with pytest.raises(error, match=text):
                getattr(agent, method)(*arguments)
        assert_same([agent.lane_counts, agent.lane_sums], [twin.lane_counts, twin.lane_sums], name)
        assert_same(play(agent, 5), play(twin, 5), name)


def test_nothing_goes_before_a_reset():
    for agent in (make_agent(name, CONJUGATE) for name in ALL_AGENTS):
        for method, arguments in [("act", ()), ("observe", (0, 1.0)), ("action_probabilities", ())]:
            with pytest.raises(ResetNeeded, match="reset"):
                getattr(agent, method)(*arguments)
        with pytest.raises(ResetNeeded):
            print(agent.counts)


WITH_PROBABILITIES = [each for each in SETTINGS if not each.startswith("racing")]
MASKS = np.array(list(np.ndindex(2, 2, 2, 2))[1:], dtype=bool)
"""All that leave an arm to pull: one, two, three or four arms are available."""


@in_every_setting
def test_arms_are_played_as_often_as_the_probabilities_say_all_or_those_available(setting):
    """The features of the other arms are not read, and a mask of all arms is none."""
    num_rounds, masks = (4, MASKS) if is_costly(setting) else (10, np.tile(MASKS, (14, 1)))
    agent = make(setting, len(masks), 2 if "chains" in setting else 6)
    assert_shares(agent, num_rounds)
    if setting.startswith("information_relaxation"):  # which takes no mask
        return
    unmasked = agent.action_probabilities(shown(agent), available=[True] * 4)
    assert_same(unmasked, agent.action_probabilities(shown(agent)))
    assert_shares(agent, num_rounds, masks)
    if "conjugate" in setting:
        assert_shares(make(setting, len(masks)), num_rounds, masks)


def assert_shares(agent, num_rounds, masks=None):
    """Each lane has a law of its own, so shares are summed over lanes: four deviations."""
    features = shown(agent)
    if features is not None and masks is not None:
        features[~masks] = np.nan
    probabilities = agent.action_probabilities(features, available=masks)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=1e-12)
    acts = np.array([agent.act(features, available=masks) for _ in range(num_rounds)])
    if masks is not None:
        assert np.take_along_axis(masks, acts.T, axis=1).all() and not probabilities[~masks].any()
    variance = (probabilities * (1 - probabilities)).sum(axis=0)
    allowed = 4 * np.sqrt(variance / num_rounds) + 1e-9
    if not agent.has_exact_probabilities:
        # Draws of a chain, worth 300 or more here, answer for each lane.
        allowed = 4 * np.sqrt(variance * (1 / num_rounds + 1 / 300))
    shares = (acts[..., None] == np.arange(4)).mean(axis=0)
    assert (abs((shares - probabilities).sum(axis=0)) <= allowed).all()


OF_MASKS = np.array([3, 1, 4, 2]), np.array([1, 1, 3, 0])


@cache
def weigh_masks(kind):
    """Return (M, K) probabilities to be the best available arm, and what the draws are worth."""
    counts, sums = OF_MASKS
    means = PROBLEMS[kind].prior.sample(np.random.default_rng(1), (100_000, 4))
    weights = (means**sums * (1 - means) ** (counts - sums)).prod(axis=1)
    best = np.array([np.where(mask, means, -1.0).argmax(axis=1) for mask in MASKS])
    expected = np.array([np.bincount(each, weights, 4) for each in best]) / weights.sum()
    return expected, weights.sum() ** 2 / (weights**2).sum()


BY_POSTERIOR = [f"{name}, {kind}" for name in SAMPLERS for kind in ("conjugate", "grid", "chains")]


@in_settings([*BY_POSTERIOR, "exact, mixture", "racing, mixture"])
def test_thompson_sampling_plays_the_best_of_the_available_arms_of_a_draw(setting):
    """Not renormalised probabilities: draws of the prior, weighted by the likelihood, tell."""
    agent, (expected, size) = make(setting, len(MASKS)), weigh_masks(SETTINGS[setting][1])
    agent.warm_start(*OF_MASKS)
    sizes = size, agent.posterior().effective_sample_size().min()
    allowed = sum(4 * np.sqrt(0.25 / size) for size in sizes)
    assert abs(agent.action_probabilities(available=MASKS) - expected).max() <= allowed


OTHERS = "smc", "racing_paper", *FOR_LIKE_ARMS
AS_IF = [name for name in ALL_AGENTS if not name.startswith(OTHERS)]


@pytest.mark.parametrize("kind", ["conjugate", "grid", "mixture"])
def test_rules_decide_as_if_there_were_no_other_arms(kind, rng):
    """An arm without pulls adds nothing to clocks: the agent of three arms is the measure."""
    problem, mask = PROBLEMS[kind], np.array([True, False, True, True])
    three = BanditProblem(problem.likelihood, problem.prior, 3)
    counts = rng.integers(0, 15, (60, 4)) * mask
    sums = rng.binomial(counts, 0.3)  # below what the other arm promises
    for name in AS_IF:
        agent = started(name, problem, 60, counts, sums)
        fewer = started(name, three, 60, counts[:, mask], sums[:, mask]).action_probabilities()
        found = agent.action_probabilities(available=mask)
        np.testing.assert_allclose(found[:, mask], fewer, atol=1e-9, err_msg=name)


TOLD = {
    "nothing": ([0, 0, 0, 0], [0, 0, 0, 0]),
    "no ties": ([12, 7, 5, 9], [6, 5, 2, 4]),
    "a leader": ([60, 5, 5, 5], [54, 1, 1, 1]),
    "two leaders": ([20, 20, 3, 3], [18, 18, 0, 0]),
}
"""Counts and sums with ties in various places."""
EXPENSIVE = {"smc": 100, "smc_paper": 100}
"""Lanes of agents that hold much."""
EXACT = {
    each: options
    for each, (name, kind, options) in SETTINGS.items()
    if kind == "conjugate" and make_agent(name, PROBLEMS[kind], **options).has_exact_probabilities
}


@in_settings(EXACT)
def test_ties_are_shared_by_the_probabilities_as_by_the_acts(setting):
    """One lane gives the law whatever its generator; 2,000 lanes follow it to 4 deviations."""
    name, kind, options = SETTINGS[setting]
    num_lanes = EXPENSIVE.get(name, 2000)
    for told in TOLD.values():
        lanes = started(name, PROBLEMS[kind], num_lanes, *told, **options)
        if name.startswith("smc"):  # each lane has particles of its own
            probabilities = lanes.action_probabilities()
        else:
            alone = started(name, PROBLEMS[kind], 1, *told, **options)
            probabilities = alone.action_probabilities()
            alone.reset(1, seed=5)
            alone.warm_start(*told)
            assert_same(probabilities, alone.action_probabilities())
        shares = np.bincount(lanes.act(), minlength=4) / num_lanes
        variance = (probabilities * (1 - probabilities)).mean(axis=0)
        allowed = 4 * np.sqrt(variance / num_lanes) + 1e-5  # of the tables
        assert (np.abs(shares - probabilities.mean(axis=0)) <= allowed).all(), told


@pytest.mark.parametrize(
    "prior", [Beta(0.01, 0.01), HierarchicalBeta([0.01, 5.0], [0.01, 5.0], [0.9, 0.1])], ids=repr
)
def test_ties_between_particles_are_shared(prior):
    """Most means are so near to 1 that several arms have one and the same, even three or four."""
    agent = started("smc_paper", BanditProblem(Bernoulli(), prior, 4), 100)
    probabilities = agent.action_probabilities()
    acts = np.array([agent.act() for _ in range(100)])
    shares = np.bincount(acts.ravel(), minlength=4) / acts.size
    allowed = 4 * np.sqrt((probabilities * (1 - probabilities)).mean(axis=0) / acts.size)
    assert (np.abs(shares - probabilities.mean(axis=0)) <= allowed).all()


def decide(agent, size):
    """Make many decisions about features in other orders; return their arms in the first order."""
    features = shown(agent)
    if features is None:
        return agent.act(size=size)
    orders = np.random.default_rng(4).permuted(np.tile(np.arange(4), (size, 1)), axis=1)
    arms = agent.act(features[orders], size=size)
    return np.where(arms >= 0, orders[np.arange(size), arms], arms)


@in_every_setting
def test_many_decisions_follow_the_probabilities_of_one_and_are_the_same_for_a_seed(setting):
    """Four deviations of the shares, of a pool worth 4,096 draws, and of what answers are worth."""
    size = 40 if is_costly(setting) else 900
    agent, twin = (make(setting, None, 3) for _ in range(2))
    probabilities, counts = agent.action_probabilities(shown(agent)), agent.lane_counts.copy()
    arms, told = decide(agent, size), twin.diagnostics()
    assert arms.shape == (size,) and arms.dtype == np.int64
    worth = np.inf if agent.has_exact_probabilities else 100 if "chains" in setting else 1000
    variance = probabilities * (1 - probabilities) + 1 / worth  # no draw is not impossible
    variance *= 1 / size + 1 / 4096 + 1 / worth
    if setting in (*WITH_PROBABILITIES, "racing, linear", "racing, logistic"):
        allowed = 4 * np.sqrt(variance) + 1e-5  # of the tables
        assert (abs(np.bincount(arms, minlength=4) / size - probabilities) <= allowed).all()
    found = agent.diagnostics()
    assert found.keys() == told.keys()
    assert all(values.shape == (size,) for values in found.values())
    assert_same([arms, agent.lane_counts], [decide(twin, size), counts])
    assert type(agent.act(shown(agent))) is int
    assert all(np.ndim(value) == 0 for value in agent.diagnostics().values())


def test_first_pulls_that_many_decisions_owe_are_spread_over_the_arms():
    for name in ("ucb1", "exact", "greedy", "racing_paper", "moss"):
        assert_played(started(name, NORMAL, None, prior="reference").act(size=400), [1 / 4] * 4)


def test_many_decisions_know_the_available_arms():
    mask = np.array([True, False, True, True])
    for name, size in product(("exact", "racing", "epsilon_greedy", "ucb1"), (8, 400)):
        agent = make(f"{name}, conjugate", None, 3)
        law, arms = agent.action_probabilities(available=mask), agent.act(available=mask, size=size)
        assert_played(arms, law, 1e-5)  # of the tables
        assert not (arms == 1).any(), (name, size)


@in_settings([setting for setting, (_, kind, _) in SETTINGS.items() if kind in FEATURED])
def test_many_decisions_with_features_know_the_arms_available_at_each(setting):
    """Every other decision has another mask; features of hidden arms are not read."""
    agent, size = make(setting, None, 3), 200
    masks = np.array([[True, False, True, True], [True, True, False, False]])
    masks, features = np.tile(masks, (size // 2, 1)), np.tile(shown(agent), (size, 1, 1))
    features[~masks] = np.nan
    arms = agent.act(features, available=masks, size=size)
    for first in 0, 1:
        p = agent.action_probabilities(shown(agent), available=masks[first])
        shares = np.bincount(arms[first::2], minlength=4) / (size // 2)
        # Answers and the pool are worth 1,000 and 4,096 draws.
        variance = (p * (1 - p) + 1 / 1000) * (2 / size + 1 / 1000 + 1 / 4096)
        assert (abs(shares - p) <= 4 * np.sqrt(variance) * masks[first]).all()
    equal = np.tile(shown(agent)[:2], (3, 1, 1))
    assert agent.act(equal, available=[True, False], size=3).tolist() == [0, 0, 0]


def test_many_decisions_are_those_of_a_choice_of_ones_own():
    class Second(agents.ExactThompson):
        def _choose(self):
            return (super()._choose() + 1) % 4

    agent = started(Second, CONJUGATE, None, [90, 1, 1, 1], [90, 0, 0, 0])
    assert np.mean(agent.act(size=100) == 1) > 0.9


def test_many_decisions_are_counted_and_no_more_than_are_left():
    for ask in ("act", "decide"):
        agent = started("moss", CONJUGATE, None, horizon=10)
        getattr(agent, ask)(size=7)
        assert agent.lane_decisions.tolist() == [7]
        with pytest.raises(ValueError, match="size must be at most 3, got 4"):
            getattr(agent, ask)(size=4)
        getattr(agent, ask)(size=3)
        with pytest.raises(ValueError, match="horizon must be more than the 10 decisions"):
            getattr(agent, ask)(size=1)


@in_every_setting
def test_what_is_decided_has_the_shapes_of_act_and_the_propensities_of_its_actions(setting):
    alone, lanes, features = make(setting, None, 3), make(setting, 3, 3), None
    action, propensity, probabilities = alone.decide(shown(alone))
    assert type(action) is int and probabilities.shape == (4,)
    assert propensity == probabilities[action] > 0
    if shown(alone) is not None:
        features = np.tile(shown(alone), (5, 1, 1))
    for agent, asked, options in (
        (lanes, shown(lanes), {}),
        (alone, features, {"size": 5}),
        (alone, features, {"floor": 0.01, "size": 5}),
    ):
        actions, propensities, probabilities = agent.decide(asked, **options)
        assert probabilities.shape == (options.get("size", 3), 4)
        assert actions.dtype == np.int64 and actions.shape == propensities.shape
        assert_same(propensities, probabilities[np.arange(len(actions)), actions])
        assert (propensities > 0).all() and probabilities.min() >= options.get("floor", 0)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=1e-12)
    assert all(values.shape == (5,) for values in alone.diagnostics().values())
    assert len(play(lanes, 2)) == 2


@in_every_setting
def test_arms_are_decided_as_often_as_probabilities_say_and_a_seed_decides_them(setting):
    """Four deviations of shares of one uniform number a decision, of a generator that is known."""
    size, (agent, twin) = 40 if is_costly(setting) else 900, (make(setting, None, 3) for _ in "ab")
    features = None if shown(agent) is None else np.tile(shown(agent), (size, 1, 1))
    decided, again = agent.decide(features, size=size), twin.decide(features, size=size)
    assert_same(decided, again)
    variance = (decided.probabilities * (1 - decided.probabilities)).mean(axis=0) / size
    shares = np.bincount(decided.actions, minlength=4) / size
    assert (abs(shares - decided.probabilities.mean(axis=0)) <= 4 * np.sqrt(variance) + 1e-12).all()
    assert agent.rng.random() == twin.rng.random()


@in_every_setting
def test_arms_that_are_not_available_have_no_share_and_no_floor(setting):
    if setting.startswith("information_relaxation"):  # which takes no mask
        return
    agent, mask = make(setting, 3, 3), np.array([[1, 1, 0, 1], [0, 0, 1, 0], [1, 0, 1, 0]]) > 0
    _, propensities, probabilities = agent.decide(shown(agent), available=mask, floor=0.2)
    assert not probabilities[~mask].any() and (probabilities[mask] >= 0.2 - 1e-12).all()
    assert propensities[1] == 1.0


def test_saved_and_copied_agents_decide_the_same_from_pools_that_are_not_saved(tmp_path):
    for setting in [each for each, (_, kind, _) in SETTINGS.items() if kind in FEATURED]:
        agent = make(setting, None, 6)
        agent.decide(shown(agent))
        agent.save(tmp_path / "agent")
        copies = pickle.loads(pickle.dumps(agent)), agents.load(tmp_path / "agent", agent.problem)
        visitors = np.random.default_rng(5).normal(size=(7, *shown(agent).shape))
        expected = agent.decide(visitors)
        for copy in copies:
            assert not getattr(getattr(copy, "_posterior", None), "_pools", None), setting
            assert_same(copy.decide(visitors), expected, setting)


WRONG_SIZES = [
    ("exact, conjugate", 3, 2, None, "size must be None where there are lanes, here 3, got 2"),
    ("exact, conjugate", None, 0, None, "size must be a positive integer, got 0"),
    ("exact, conjugate", None, 2.0, None, "size must be a positive integer, got 2.0"),
    ("racing, logistic", None, 2, (4, 3), r"shape \(2, K, 3\), got shape \(4, 3\)"),
    ("racing, logistic", None, 2, (3, 4, 3), r"shape \(2, K, 3\), got shape \(3, 4, 3\)"),
]


def test_many_decisions_of_a_wrong_kind_are_refused_and_change_nothing():
    for setting, num_envs, size, shape, text in WRONG_SIZES:
        agent, twin = (make(setting, num_envs, 3) for _ in range(2))
        for ask in (agent.act, agent.decide):
            with pytest.raises((TypeError, ValueError), match=text):
                ask(None if shape is None else np.ones(shape), size=size)
        assert_same(play(agent, 5), play(twin, 5), text)


@in_settings(["racing, logistic", "exact, linear", "lin_ucb, linear"])
def test_rewards_of_many_decisions_need_the_features_that_they_are_for(setting):
    agent = make(setting, None, 3)
    agent.act(shown(agent))
    features = np.random.default_rng(0).normal(size=(5, 4, 3))
    arms = agent.act(features, size=5)
    with pytest.raises(TypeError, match="observation must be given where no act"):
        agent.observe(arms[0], 1.0)
    for shown_arms, arm in zip(features, arms, strict=True):
        agent.observe(arm, 1.0, observation=shown_arms)
    assert agent.evidence.counts.sum() == 8


def test_many_decisions_with_features_rest_on_a_pool_that_says_what_it_is_worth():
    agent = make("racing, logistic", None, 3)
    decide(agent, 5000)
    assert (agent.diagnostics()["effective_sample_size"] >= 4096).all()
    decide(agent, 1)
    assert agent.diagnostics()["num_samples"] < 100


def test_a_race_with_another_proposal_says_that_its_probabilities_are_not_exact():
    assert not make("racing, reference", 1).has_exact_probabilities


def test_a_race_that_pulls_missing_arms_first_says_so():
    agent = make("racing_paper, pull", 1)
    agent.warm_start([[1, 0, 1, 0]], [[3.0, 0.0, 1.0, 0.0]])
    assert agent.action_probabilities().tolist() == [[0.0, 0.5, 0.0, 0.5]]


class Imagining(Stubborn):
    """It finds its propensities by learning from a reward that it imagines."""

    def _action_probabilities(self):
        self.observe([0] * self.num_lanes, [1.0] * self.num_lanes)
        return np.eye(self.problem.num_arms)[self._choose()]


def test_a_copy_for_propensities_shares_no_evidence():
    for options in ({}, {"discount": 0.5}, {"window": 2}):
        agent = started(Imagining, CONJUGATE, 2, **options)
        agent.observe([1, 2], [1.0, 1.0])
        agent.action_probabilities()
        known = [[0, 1, 0, 0], [0, 0, 1, 0]]
        assert agent.lane_counts.tolist() == agent.lane_sums.tolist() == known, options


class NormalThompson(Agent):
    """It draws its scores, of which probabilities cannot be read."""

    def _scores(self):
        return self.rng.normal(self.lane_sums, 1.0)


class OptimisticThompson(PosteriorAgent):
    """The same with draws of a posterior."""

    def _scores(self):
        return np.maximum(self.belief().sample(self.rng), self.belief().mean())


def test_random_scores_have_no_probabilities():
    for kind in (NormalThompson, OptimisticThompson):
        agent = kind(CONJUGATE)
        agent.reset(seed=0)
        text = f"{kind.__name__} must define _action_probabilities for propensities, as its _scores"
        for call in (agent.action_probabilities, agent.decide):
            with pytest.raises(TypeError, match=text):
                call()
        assert 0 <= agent.act() < 4


class RoundRobin(Agent):
    """It counts its turns in an array of its own."""

    state_names = ("turns",)

    def _restart(self, mask):
        self.turns = np.zeros(len(mask), dtype=np.int64)

    def _scores(self):
        scores = np.eye(self.problem.num_arms)[self.turns % self.problem.num_arms]
        self.turns += 1
        return scores


def test_probabilities_move_nothing_that_an_agent_remembers():
    agent = RoundRobin(CONJUGATE)
    agent.reset(seed=0)
    for arm in (0, 1, 2, 3, 0):
        assert agent.action_probabilities()[arm] == 1
        assert agent.act() == arm


def test_options_that_change_later_are_those_that_an_agent_was_built_with():
    given = {"name": "racing", "effective_samples": 50}
    agent = make_agent("thompson", PROBLEMS["grid"], posterior=given)
    given["effective_samples"] = 1
    agent.options()["posterior"]["name"] = "smc"
    assert agent.options() == {"posterior": {"name": "racing", "effective_samples": 50}}


def test_counts_that_were_asked_for_stay_as_they_were():
    for num_envs in (None, 2):
        agent = UniformRandom(CONJUGATE)
        agent.reset(num_envs, seed=0)
        before, totals = agent.counts, agent.sums
        agent.observe(agent.act(), 1.0 if num_envs is None else [1.0, 1.0])
        assert before.sum() == totals.sum() == 0
        assert agent.counts.sum() == agent.sums.sum() == (num_envs or 1)


class Classic(Agent):
    """It plays the arm of the largest average, 0 / 0 before an arm's first pull."""

    def _scores(self):
        with np.errstate(invalid="ignore"):
            return self.lane_sums / self.lane_counts


@pytest.mark.parametrize("sums", [[0, 0, 0, 1], [1, 0, 0, 0]], ids=["last", "first"])
@pytest.mark.parametrize(("num_envs", "place"), [(None, ""), (3, " of lane 0")])
def test_scores_that_are_nan_are_refused_and_infinite_ones_are_scores(num_envs, place, sums):
    agent = started(Classic, CONJUGATE, num_envs, [1, 1, 0, 1], sums)
    told = f"scores of Classic must have no NaN, got nan for arm 2{place}; perhaps it has no pulls."
    for call in (agent.act, agent.action_probabilities):
        with pytest.raises(ValueError, match=f"^{re.escape(told)}$"):
            call()
    agent._scores = lambda: np.broadcast_to([-np.inf, np.inf, 0.0, np.inf], (agent.num_lanes, 4))
    assert np.isin(agent.act(), [1, 3]).all()
    assert np.atleast_2d(agent.action_probabilities())[0].tolist() == [0.0, 0.5, 0.0, 0.5]


RETURNED = [
    (None, "_choose", np.array([4]), "arms from 0 to 3, got 4."),
    (3, "_choose", np.array([0, -1, 2]), "arms from 0 to 3, got -1 in lane 1."),
    (3, "_choose", [0.5] * 3, "arms from 0 to 3, got 0.5 in lane 0."),
    (2, "_scores", np.zeros((2, 5)), "numbers of shape (2, 4), got shape (2, 5)."),
    (2, "_action_probabilities", np.ones((2, 4)), "probabilities that sum to 1, got 4.0 in lane 0"),
    (None, "_action_probabilities", [[1.5, -0.5, 0, 0]], "no negative probabilities, got -0.5."),
]


@pytest.mark.parametrize(("num_envs", "method", "found", "told"), RETURNED)
def test_what_a_rule_returns_is_refused_by_its_name(num_envs, method, found, told):
    agent = started(Classic, CONJUGATE, num_envs)
    setattr(agent, method, lambda: found)
    with pytest.raises(ValueError, match=re.escape(f"Classic.{method} must return {told}")):
        agent.action_probabilities() if method == "_action_probabilities" else agent.act()


class Careless(Stubborn):
    """Says that it takes a mask, and does not look at it."""

    takes_available = True

    def _action_probabilities(self):
        return np.eye(4)[self._choose()]


def test_a_choice_that_does_not_keep_to_the_mask_is_refused_by_its_name():
    agent = started(Careless, CONJUGATE, 2)
    mask = [False, True, True, True]
    with pytest.raises(ValueError, match="Careless._choose must return available arms, got arr"):
        agent.act(available=mask)
    with pytest.raises(ValueError, match="Careless._action_probabilities must return 0 for arms"):
        agent.action_probabilities(available=mask)


NARROW = BanditProblem(Bernoulli(), DensityOnly(TruncatedNormal(0.5, 0.1, 0.4, 0.6)), 4)
BOUNDED = BanditProblem(Exponential(), TruncatedNormal(0.5, 0.1, 0.2, 0.8), 4)
OF_ONE_RUN = [
    ("exact", CONJUGATE, "observe", (0, 0.7), "reward must be 0 or 1 under bernoulli"),
    ("exact", CONJUGATE, "observe", (0, 1.0, [True, True]), "mask must have shape (1,), got"),
    ("exact", CONJUGATE, "reset_lanes", ([],), "mask must be an array of booleans, got []."),
    ("exact", CONJUGATE, "warm_start", ([1, 0, 0, 0], [2, 0, 0, 0]), "got 2.0 for arm 0."),
    ("exact", CONJUGATE, "warm_start", ([1, 0, -1, 0], [0] * 4), "got -1.0 for arm 2."),
    ("exact", BOUNDED, "act", (), "the rewards must be possible under problem.prior, got"),
    ("racing_paper", NARROW, "act", (), "at all 200 samples of the race, whose counts"),
    ("racing_paper", NARROW, "posterior", (), "at all 160000 draws, whose counts"),
]


def test_messages_of_a_single_run_speak_of_no_lane():
    for name, problem, method, arguments, told in OF_ONE_RUN:
        options = {"max_samples": 200} if name == "racing_paper" else {}
        agent = started(name, problem, None, **options)
        if problem is not CONJUGATE:
            agent.warm_start([500, 500, 0, 0], [500, 0 if problem is NARROW else 1e200, 0, 0])
        with pytest.raises((ValueError, TypeError, InvalidAction)) as caught:
            found = getattr(agent, method)(*arguments)
            if method == "posterior":
                found.mean()
        assert told in str(caught.value) and "lane" not in str(caught.value)


REFUSED_IN = {
    "DependentPriorBandit-v0": {*FOR_LIKE_ARMS, "sliding_window"},
    "GaussianBandit-v0": {*FOR_BERNOULLI},
    "ExponentialBandit-v0": {*FOR_BERNOULLI, "knowledge_gradient", "information_relaxation"},
    "PoissonBandit-v0": {*FOR_BERNOULLI, "knowledge_gradient", "information_relaxation"},
}


@few_chain_draws
@pytest.mark.parametrize("env_id", ALL_ENV_IDS)
def test_no_agent_warns_in_any_environment_up_to_the_last_pull(env_id):
    env, with_horizon = gym.make_vec(f"bandit_gym:{env_id}", 3, num_arms=3), names_with("horizon")
    for name in ALL_AGENTS:
        options = {"horizon": 6} if name in with_horizon else {}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                agent = make_agent(name, problem_of(env), **options)
            except ValueError:
                assert name in REFUSED_IN.get(env_id, ())
                continue
            rollout(agent, env, seed=0, horizon=6)


def test_an_agent_of_ones_own_without_probabilities_is_told_what_to_define():
    agent = started(Stubborn, CONJUGATE)
    assert agent.act() == 0
    told = "Stubborn must define _scores, or _choose with _action_prob"
    for ask in (agent.action_probabilities, agent.decide):
        with pytest.raises(TypeError, match=told):
            ask()


@pytest.mark.parametrize("num_envs", [None, 3])
@pytest.mark.parametrize("name", ["counts", "sums", "lane_counts", "lane_sums"])
def test_counts_and_sums_are_read_only(name, num_envs):
    """Also those of a posterior, as its answers rest on them."""
    agent = make("exact, conjugate", num_envs, 5)
    told, mean = getattr(agent, name), agent.posterior().mean()
    with pytest.raises(ValueError, match="read-only"):
        told += 50
    told = agent.posterior()
    for values in (told.counts, told.sums):
        with pytest.raises(ValueError, match="read-only"):
            values[..., 0] += 50
    assert_same([told.mean()], [mean])


NUM_THREADS = 8


def run_in_threads(serve):
    """Let eight threads, which take turns at almost every instruction, serve as 0, 1, ..., 7."""
    interval, together = sys.getswitchinterval(), Barrier(NUM_THREADS)

    def begin(thread):
        together.wait()
        return serve(thread)

    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(NUM_THREADS) as pool:
            return list(pool.map(begin, range(NUM_THREADS)))
    finally:
        sys.setswitchinterval(interval)


def assert_threads_may_share(agent, num_requests):
    """Serve visitors, each of whom can be shown one arm, and ask between; the agent has no data."""

    def serve(thread):
        available = np.arange(agent.problem.num_arms) == thread % agent.problem.num_arms
        features, total = shown(agent, thread), 0.0
        for request in range(num_requests):
            arm = agent.act(features, available=available if agent.takes_available else None)
            assert available[arm] or not agent.takes_available
            reward = float((thread + request) % 3 == 0)
            agent.observe(arm, reward, observation=features)
            total += reward
            agent.diagnostics()
        assert agent.action_probabilities(features).sum() == pytest.approx(1.0)
        assert 0 < deepcopy(agent).lane_counts.sum() <= num_rewards
        return total

    num_rewards = NUM_THREADS * num_requests  # fewer than a window has
    totals, discount = run_in_threads(serve), getattr(agent.evidence, "discount", 1.0)
    assert agent.lane_counts.sum() == pytest.approx((discount ** np.arange(num_rewards)).sum())
    assert agent.lane_sums.sum() == sum(totals) or discount < 1


@in_every_setting
def test_threads_may_share_an_agent(setting):
    num_requests = 2 if is_costly(setting) else 5 if "racing" in setting else 10
    assert_threads_may_share(make(setting, None), num_requests)


def test_threads_may_share_the_optimal_agent():
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)
    agent = started("optimal", problem, None, horizon=NUM_THREADS * 3 + 1)
    assert_threads_may_share(agent, 3)


def test_copies_pickles_and_files_have_locks_of_their_own(tmp_path):
    """While one thread is in a step of the agent, another may use its copies."""
    agent = make("exact, conjugate", None, 5)
    agent.save(tmp_path / "agent")
    posterior = agent.posterior()
    copies = [deepcopy(agent), pickle.loads(pickle.dumps(agent)), agents.load(tmp_path / "agent")]
    snapshots = [deepcopy(posterior), pickle.loads(pickle.dumps(posterior))]
    with ThreadPoolExecutor(1) as pool, agent._lock, posterior._lock:
        for copied in copies:
            assert pool.submit(copied.act).result(timeout=60) in range(4)
        for copied in snapshots:
            assert pool.submit(copied.mean).result(timeout=60).shape == (4,)


@few_chain_draws
@in_settings([each for each in SETTINGS if SETTINGS[each][0] not in WITHOUT_POSTERIOR])
def test_threads_may_share_a_posterior(setting):
    agent = make(setting, None, 5)

    def ask(_):
        answers = [shared.mean(), shared.std(), shared.quantile(0.9)]
        if shared.features is not None:
            answers.append(shared.coefficients.mean())
        return [*answers, shared.best_arm_probabilities(), shared.sample(3, seed=0)]

    shared = agent.posterior(shown(agent))
    alone = ask(0)
    shared = agent.posterior(shown(agent))
    for answers in run_in_threads(ask):
        assert_same(answers, alone)
