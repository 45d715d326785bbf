"""What a decision costs, beside what you might use instead: `act`, and `observe` of its reward.

Unless stated otherwise K = 10, rewards are Bernoulli, and every round starts from nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
from scipy.special import expit

from agents import ExactThompson, RacingThompson, SMCThompson
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta, Normal, Prior, TruncatedNormal
from bandit_gym.problem import BanditProblem, ContextualProblem
from benchmarks import timing
from benchmarks.timing import BLOCK_SIZE, HORIZON, Effort
from scripts.studies.adapters.protocol import NUM_ARMS, NUM_STEPS, new_game

UNIFORM, INFORMED = (BanditProblem(Bernoulli(), Beta(a, a), NUM_ARMS) for a in (1.0, 5.0))
TRUNCATED = BanditProblem(Bernoulli(), TruncatedNormal(0.5, 0.1), NUM_ARMS)
"""The prior of the last is not conjugate to its rewards."""

NUM_PARTICLES = 1000
NUM_VISITS = 200
VISITOR_SIZES = {
    "features.one": (5, 1000, 1),
    "features.many": (5, 1000, 50),
    "features.large": (20, 5000, 1),
}
"""Decisions of a round; key of a row -> features, rows and lanes."""


def measurements(effort: Effort) -> Iterator[timing.Measurement]:
    """Yield the measurements of all rows about decisions."""
    yield from _measure_exact(effort)
    yield from _measure_races(effort)
    yield _measure_particles(effort)
    yield from _measure_propensities(effort)
    for key, (num_features, num_rows, num_lanes) in VISITOR_SIZES.items():
        rows = effort.length(num_rows, minimum=NUM_ARMS)
        title = f"racing, d = {num_features}, {rows:,} rows, {num_lanes} lanes"
        yield timing.time_decision(key, title, partial(_play_visits, num_features, rows, num_lanes))


def _play_from_start(make: Callable[[], Any], num_steps: int, num_lanes: int) -> timing.Contestant:
    """Make a contestant of many lanes; means are spread over 0.3 to 0.7 in every round."""
    agent, means = make(), np.linspace(0.3, 0.7, NUM_ARMS)
    uniforms = np.random.default_rng(0).random((num_steps, num_lanes))

    def play() -> None:
        agent.reset(num_lanes, seed=0)
        for row in uniforms:
            actions = agent.act()
            agent.observe(actions, (row < means[actions]).astype(float))

    return timing.make_contestant(play, uniforms.size)


def _play_alone(agent: Any) -> timing.Contestant:
    """Make a contestant of one lane, in the game that peers play."""

    def start() -> tuple[Callable, Callable]:
        agent.reset(seed=0)
        return agent.act, agent.observe

    return timing.make_contestant(new_game(start), NUM_STEPS)


# -- Exact Thompson sampling -----------------------------------------------------------------------


def _measure_exact(effort: Effort) -> Iterator[timing.Measurement]:
    """Yield many lanes against NumPy, tables, and one lane against peers.

    Tables are copied between lanes with equal data, which become fewer as they grow old.
    """
    num_lanes, num_steps = effort.width(2000), effort.length(500, minimum=50)
    yield timing.match(
        f"exact TS, {num_lanes} lanes: ",
        {"exact.many.numpy": ("plain NumPy", "ours")},
        lambda: {
            "ours": _play_from_start(lambda: ExactThompson(UNIFORM), 100, num_lanes),
            "plain NumPy": _play_from_start(PlainThompson, 100, num_lanes),
        },
    )
    methods = {
        name: partial(ExactThompson, INFORMED, method=name) for name in ("grid", "conjugate")
    }
    yield timing.match(
        f"exact TS, {num_lanes} lanes x {num_steps} steps: ",
        {"exact.many.grid": ("grid", "conjugate")},
        lambda: {
            name: _play_from_start(make, num_steps, num_lanes) for name, make in methods.items()
        },
    )
    peers = "mabwiser", "river"
    yield timing.match(
        "exact TS, one lane: ",
        {f"exact.one.{name}": (name, "ours") for name in peers},
        lambda: {
            "ours": _play_alone(ExactThompson(UNIFORM)),
            **{name: timing.make_peer(effort, name, NUM_STEPS) for name in peers},
        },
    )


class PlainThompson:
    """What a careful user would write for Beta(1, 1) priors: no checks, masks or seeds per lane."""

    def reset(self, num_lanes: int, *, seed: int) -> None:
        """Forget everything."""
        self.rng, self.lanes = np.random.default_rng(seed), np.arange(num_lanes)
        self.successes, self.failures = np.ones((2, num_lanes, NUM_ARMS))

    def act(self) -> np.ndarray:
        """Return (N,) arms."""
        return self.rng.beta(self.successes, self.failures).argmax(axis=1)

    def observe(self, actions: np.ndarray, rewards: np.ndarray) -> None:
        """Learn (N,) rewards of 0 or 1."""
        self.successes[self.lanes, actions] += rewards
        self.failures[self.lanes, actions] += 1 - rewards


# -- Racing Thompson -------------------------------------------------------------------------------


def _measure_races(effort: Effort) -> Iterator[timing.Measurement]:
    """Yield the paper's race against its draws alone, and matched races against exact sampling.

    Contestants decide on the same histories. Races are of random length, and of the same
    distribution for all; so costs are divided by samples used, which leaves samples drawn in vain,
    and all else that a decision takes, in them.
    """
    num_lanes, num_steps = effort.width(BLOCK_SIZE), effort.length(200, minimum=3)
    yield timing.match(
        f"Racing, bernoulli, {num_lanes} lanes: ",
        {"racing.bernoulli.bulk": ("ours", "bulk draws")},
        partial(_race_against_draws, num_lanes),
        "sample",
    )
    agents = {"matched": RacingThompson, "exact": ExactThompson}
    yield timing.match(
        f"Racing, {num_lanes} lanes x {num_steps} steps: ",
        {"racing.matched": ("matched", "exact")},
        lambda: {
            name: _play_from_start(partial(make, TRUNCATED), num_steps, num_lanes)
            for name, make in agents.items()
        },
    )


def _race_against_draws(num_lanes: int) -> dict[str, timing.Contestant]:
    """Race, or draw as many samples of K variates as the races did in one call, and no more."""
    counts, sums = play_histories(num_lanes)
    agent = RacingThompson.paper(TRUNCATED, delta=0.1, sigma=0.1)
    agent.reset(num_lanes, seed=0)
    agent.warm_start(counts, sums)

    def decide() -> float:
        agent.act()
        return float(agent.diagnostics()["num_samples"].sum())

    decide()
    num_samples, rng = agent.diagnostics()["num_samples"], np.random.default_rng(0)
    first, second = (np.repeat(each, num_samples, axis=0) for each in (1 + sums, 1 + counts - sums))
    draws = timing.make_contestant(partial(rng.beta, first, second), len(first))
    return {"ours": timing.make_contestant(decide), "bulk draws": draws}


def play_histories(num_lanes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (N, K) pulls and total rewards at N moments of Thompson sampling, one per lane.

    What a decision costs depends on what is known. So the lanes are stopped at moments that are
    spread evenly over an episode of HORIZON steps, and together stand for all of it.
    """
    rng, lanes = np.random.default_rng(0), np.arange(num_lanes)
    means = TRUNCATED.prior.sample(rng, (num_lanes, NUM_ARMS))
    ends = HORIZON * (lanes + 1) // num_lanes
    agent = ExactThompson(TRUNCATED, prior="reference")
    agent.reset(num_lanes, seed=0)
    for step in range(HORIZON):
        actions = agent.act()
        rewards = (rng.random(num_lanes) < means[lanes, actions]).astype(float)
        agent.observe(actions, rewards, mask=step < ends)
    return agent.counts, agent.sums


# -- Particles -------------------------------------------------------------------------------------


class FixedDraws:
    """A prior that hands out the same draws again, so that steps are all that is compared.

    Arguments:
        prior: what they are drawn from.
    """

    def __init__(self, prior: Prior) -> None:
        self.log_density = prior.log_density
        self._draw = cache(lambda shape: prior.sample(np.random.default_rng(0), shape))

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Return means of the given shape, as few as they take to copy."""
        return self._draw(shape).copy()


def _measure_particles(effort: Effort) -> timing.Measurement:
    """Return SMC in one lane, against the library `particles` and plain NumPy."""
    drawn = replace(TRUNCATED, prior=FixedDraws(TRUNCATED.prior))
    make = partial(SMCThompson.paper, drawn, num_particles=NUM_PARTICLES)
    start_plain = partial(_start_plain_particles, drawn)
    return timing.match(
        f"SMC, {NUM_PARTICLES} particles: ",
        {
            "smc.one.particles": ("particles", "ours, one lane"),
            "smc.one.numpy": ("ours, one lane", "plain NumPy"),
        },
        lambda: {
            "ours, one lane": _play_alone(make()),
            "plain NumPy": timing.make_contestant(new_game(start_plain), NUM_STEPS),
            "particles": timing.make_peer(effort, "particles", NUM_STEPS),
        },
    )


def _start_plain_particles(problem: BanditProblem) -> tuple[Callable, Callable]:
    """Return how ten lines of NumPy choose and learn in one lane, of no use in another."""
    rng = np.random.default_rng(0)
    means = problem.prior.sample(rng, (NUM_PARTICLES, NUM_ARMS))
    best_arms, log_weights = means.argmax(axis=1), np.zeros(NUM_PARTICLES)
    log_likelihoods = np.log1p(-means.T), np.log(means.T)

    def choose() -> int:
        below = np.exp(log_weights - log_weights.max()).cumsum()
        return int(best_arms[below.searchsorted(rng.random() * below[-1], side="right")])

    def learn(arm: int, reward: int) -> None:
        np.add(log_weights, log_likelihoods[reward][arm], out=log_weights)

    return choose, learn


# -- Propensities ---------------------------------------------------------------------------------


NUM_DRAWS, MIN_COUNTED = 1024, 0.001
"""Draws by which propensities are counted, and the least whose relative error is noted."""

COUNTED = f"{NUM_DRAWS:,} draws"


def _measure_propensities(effort: Effort) -> Iterator[timing.Measurement]:
    """Yield `action_probabilities` against counts of the best arm in draws, and note their error.

    One lane is asked at moments of an episode in turn: the same one would be foreseen by a core.
    """
    wide = effort.width(1000)
    for key, title, problem, num_lanes in (
        ("propensities.one", "ten Beta arms, one lane", UNIFORM, 1),
        ("propensities.many", f"ten Beta arms, {wide:,} lanes", UNIFORM, wide),
        ("propensities.tables", "ten tables, one lane", TRUNCATED, 1),
    ):
        make = partial(_make_propensities, problem, num_lanes)
        compared = timing.match(f"propensities, {title}: ", {key: (COUNTED, "ours")}, make)
        yield timing.Measurement((key,), partial(_take_and_note, compared, problem))


def _take_and_note(
    compared: timing.Measurement, problem: BanditProblem, effort: Effort
) -> Iterator[timing.ResultRow]:
    error = find_error_of_draws(problem)
    for row in compared.take(effort):
        yield replace(row, note=f"draws up to {error:.0%} off where p > {MIN_COUNTED}")


def _make_propensities(problem: BanditProblem, num_lanes: int) -> dict[str, timing.Contestant]:
    """Return both ways to propensities, in one lane after the other or in all at once."""
    counts, sums = play_histories(max(num_lanes, BLOCK_SIZE))
    if num_lanes == 1:
        agents = [start_after(problem, None, *each) for each in zip(counts, sums, strict=True)]
    else:
        agents = [start_after(problem, num_lanes, counts[:num_lanes], sums[:num_lanes])]
    drawn = np.linspace(0, len(counts) - 1, BLOCK_SIZE).astype(int)  # a moment costs as another
    draws = make_draws(problem, counts[drawn], sums[drawn])
    return {
        "ours": timing.make_contestant(
            lambda: [agent.action_probabilities() for agent in agents], len(agents) * num_lanes
        ),
        COUNTED: timing.make_contestant(
            lambda: [count_best_arms(draw()) for draw in draws], len(draws)
        ),
    }


def start_after(
    problem: BanditProblem, num_lanes: int | None, counts: np.ndarray, sums: np.ndarray
) -> ExactThompson:
    """Return an agent that knows these pulls and total rewards."""
    agent = ExactThompson(problem)
    agent.reset(num_lanes, seed=0)
    agent.warm_start(counts, sums)
    return agent


def make_draws(
    problem: BanditProblem, counts: np.ndarray, sums: np.ndarray
) -> list[Callable[[], np.ndarray]]:
    """Return what draws (NUM_DRAWS, K) means, for each of N posteriors; tables by their quantiles.

    A user's own tables would be as long as these.
    """
    rng = np.random.default_rng(0)
    if problem is UNIFORM:
        pairs = zip(1 + sums, 1 + counts - sums, strict=True)
        return [partial(rng.beta, *pair, (NUM_DRAWS, NUM_ARMS)) for pair in pairs]
    levels = np.linspace(0.0005, 0.9995, 500)
    tables = start_after(problem, len(counts), counts, sums).posterior().quantile(levels)

    def draw(lane: int) -> np.ndarray:
        uniforms = rng.random((NUM_ARMS, NUM_DRAWS))
        arms = zip(uniforms, tables[:, lane].T, strict=True)
        return np.array([np.interp(u, levels, table) for u, table in arms]).T

    return [partial(draw, lane) for lane in range(len(counts))]


def count_best_arms(draws: np.ndarray) -> np.ndarray:
    """Return (K,) shares of (M, K) draws in which each arm has the largest mean."""
    return np.bincount(draws.argmax(axis=1), minlength=draws.shape[1]) / len(draws)


def find_error_of_draws(problem: BanditProblem) -> float:
    """Return the largest relative error of shares of draws, at moments of an episode."""
    counts, sums = play_histories(BLOCK_SIZE)
    exact = start_after(problem, BLOCK_SIZE, counts, sums).action_probabilities()
    shares = np.array([count_best_arms(draw()) for draw in make_draws(problem, counts, sums)])
    is_counted = exact > MIN_COUNTED
    return float(np.abs(shares[is_counted] / exact[is_counted] - 1).max())


# -- Features --------------------------------------------------------------------------------------


def _play_visits(num_features: int, num_rows: int, num_lanes: int) -> timing.Contestant:
    """Make a contestant of logistic rewards that has seen rows of arms in turn."""
    rng, lanes = np.random.default_rng(0), np.arange(num_lanes)
    shape = num_rows + NUM_VISITS, num_lanes, NUM_ARMS, num_features
    features = rng.normal(0.0, 2 / np.sqrt(num_features), shape)
    chances = expit(features @ rng.normal(size=num_features))
    rewards = (rng.random(chances.shape) < chances).astype(float)
    prior = Normal(0.0, 1.0)
    agent = RacingThompson(ContextualProblem(Bernoulli(), prior, NUM_ARMS, num_features))
    agent.reset(num_lanes, seed=0)
    for i in range(num_rows):
        arm = i % NUM_ARMS
        agent.observe(np.full(num_lanes, arm), rewards[i, :, arm], observation=features[i, :, arm])
    agent.act(features[-1])

    def play() -> None:
        player: Any = copy.deepcopy(agent)
        for shown, paid in zip(features[num_rows:], rewards[num_rows:], strict=True):
            chosen = player.act(shown)
            player.observe(chosen, paid[lanes, chosen])

    return timing.make_contestant(play, NUM_VISITS * num_lanes)
