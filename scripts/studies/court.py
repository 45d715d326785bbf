"""Which approximate Thompson sampling is Thompson sampling? Distance, regret and worth of a log.

Each sampler is measured on the same decisions of the suite `contextual-v1`, and plays the same
instances. Its *policy* is its action probabilities given the data: shares of many draws of its
coefficients, or what the rule or the models of an ensemble give.

Notation: N lanes, K arms, V visitors, S draws, d coefficients, L logs.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from time import process_time
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.random import Generator, SeedSequence
from scipy import special

from agents import RacingThompson
from agents.numerics.choices import raise_to_floor
from agents.regression.posterior import CoefficientRace
from agents.rules.thompson import Thompson
from bandit_gym.contexts import DEVIATION, make_contexts
from bandit_gym.experiments.entries import Entry, read_entries
from bandit_gym.fidelity import load_suite
from bandit_gym.fidelity.distance import noise_floor, total_variation
from bandit_gym.fidelity.trial import make_suite_agent
from bandit_gym.numerics.compiled import kernel
from bandit_gym.numerics.streams import make_generator
from scripts.studies.court_page import (
    HALF_WIDTH,
    PROPENSITIES,
    draw,
    is_logistic,
    name_longer,
    write_tables,
)
from scripts.studies.samplers import FeelGood
from scripts.studies.study import StudyTask, play_agents

__all__ = ["draw", "parts", "write_tables"]  # what a study has

NUM_LANES_THAT_KEEP = 10
"""Of an ensemble in the suite, whose distance is that of single runs."""

DRAWS_AT_ONCE, VISITORS_AT_ONCE = 4000, 100

MIN_AIM_DRAWS = 400
"""Effective, of weighted exact draws, below which what feel-good sampling aims at is not known."""


def draw_with_intercept(rng: Generator, num_arms: int, num_features: int) -> np.ndarray:
    """Return (K, d) features: 1, and normal ones that move predictors as much as usual."""
    features = rng.standard_normal((num_arms, num_features)) * DEVIATION / (num_features - 1) ** 0.5
    features[:, 0] = 1.0
    return features


def parts(task: StudyTask) -> dict[str, Callable[[], Any]]:
    """Return a part for each sampler in the suite and in each environment."""
    settings, found = task.settings, dict[str, Callable[[], Any]]()
    absent = [package for package in settings["needs"] if find_spec(package) is None]
    left_out = {label for package in absent for label in settings["needs"][package]}
    for label in [label for label in settings["agents"] if label not in left_out]:
        if label not in settings["unsuited"]:
            found[f"suite: {label}"] = partial(_measure_suite, task, label)
        for title in settings["environments"]:
            found[f"{title}: {label}"] = partial(_measure_in_environment, task, title, label)
    for horizon, labels in settings["longer"].items():
        for title in settings["environments"]:
            for label in [label for label in labels if label not in left_out]:
                name = f"{name_longer(settings, title, horizon)}: {label}"
                found[name] = partial(_measure_longer, task, title, horizon, label)
    return found


def _read_agent(task: StudyTask, label: str) -> Entry:
    (entry,) = read_entries("agents", "agent", [task.settings["agents"][label] | {"label": label}])
    return entry


def _count_draws(task: StudyTask, label: str, name: str = "draws") -> int:
    share = task.settings["fewer"].get(label, {}).get(name, 1)
    return max(100, round(share * task.size(name)))


# -- Policies --------------------------------------------------------------------------------------


def draw_coefficients(
    agent: Any, rng: Generator, size: int, *, is_reference: bool = False
) -> np.ndarray | None:
    """Return (N, S, d) draws that an agent's policy is made of; None of a rule that has none.

    An ensemble has its models, whatever the size.
    """
    if hasattr(agent, "models"):
        return np.asarray(agent.models)
    if not isinstance(agent, Thompson):
        return None
    # Draws of a race from one pool are worth fewer independent ones, which a reference need not be.
    is_pooled = isinstance(agent._posterior, CoefficientRace) and not is_reference
    at_once = 100 if is_pooled else DRAWS_AT_ONCE
    sizes = [at_once] * (size // at_once) + [size % at_once]
    drawn = [agent._posterior.sample_many(rng, each) for each in sizes if each]
    return np.concatenate(drawn).swapaxes(0, 1)


def find_policy(agent: Any, draws: np.ndarray | None, features: np.ndarray) -> np.ndarray:
    """Return (N, V, K) action probabilities at (N, V, K, d) features, by draws if there are any."""
    if draws is None:
        answers = [agent.action_probabilities(features[:, v]) for v in range(features.shape[1])]
        return np.stack(answers, axis=1)
    return share_draws(draws, features)


def share_draws(
    draws: np.ndarray, features: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """Return the (N, V, K) weights of the draws under which an arm is best.

    Args:
        draws: (N, S, d), of coefficients.
        features: (N, V, K, d).
        weights: (N, S), which sum to 1; None is equal ones.
    """
    shares = np.zeros(features.shape[:3])
    if weights is None:
        weights = np.full(draws.shape[:2], 1 / draws.shape[1])
    for theta, own, visitors, out in zip(draws, weights, features, shares, strict=True):
        for v in range(0, len(visitors), VISITORS_AT_ONCE):
            x = visitors[v : v + VISITORS_AT_ONCE]
            values = theta @ x.reshape(-1, x.shape[-1]).T
            _add_best(values.reshape(len(theta), *x.shape[:2]), own, out[v : v + len(x)])
    return shares


@kernel
def _add_best(values: np.ndarray, weights: np.ndarray, shares: np.ndarray) -> None:
    """Add the (S,) weights of draws to the (V, K) arms of the largest (S, V, K) values."""
    for s in range(values.shape[0]):
        for v in range(values.shape[1]):
            best = 0
            for k in range(1, values.shape[2]):
                if values[s, v, k] > values[s, v, best]:
                    best = k
            shares[v, best] += weights[s]


# -- The suite -------------------------------------------------------------------------------------


def _measure_suite(task: StudyTask, label: str) -> list[dict[str, Any]]:
    """Return a sampler's row in each case of contextual-v1 that it takes."""
    entry, rows = _read_agent(task, label), []
    for case in load_suite("contextual-v1").cases:
        problem: Any = case.problem
        is_small = problem.num_features <= task.settings["max_features"]
        if is_small and (is_logistic(case) or not _keeps_models(label)):
            try:
                agent = make_suite_agent(entry, problem, 1)
            except ValueError:  # it is not for this likelihood or prior
                continue
            rows.append(_measure_case(task, label, agent, case))
    return rows


def _keeps_models(label: str) -> bool:
    return label.startswith("ensemble")


def _measure_case(task: StudyTask, label: str, agent: Any, case: Any) -> dict[str, Any]:
    """Return the distance of a policy in a case, beyond what as many exact draws would have."""
    is_kept, size = _keeps_models(label), _count_draws(task, label, "suite_draws")
    num_lanes = NUM_LANES_THAT_KEEP if is_kept else 1
    seed = SeedSequence(task.settings["seed"], spawn_key=(zlib.crc32(case.name.encode()),))
    agent.reset(num_lanes, seed)
    rng, lanes = np.random.default_rng(seed.spawn(1)[0]), np.zeros(num_lanes, dtype=np.int64)
    if is_kept:  # it reads the features of the last decision
        for row, reward in zip(case.rows, case.rewards, strict=True):
            agent.act(np.tile(row, (num_lanes, 2, 1)))
            agent.observe(lanes, lanes + reward)
    else:
        agent.warm_start(np.ones(len(case.rows)), case.rewards, observation=case.rows)
    features = np.tile(case.features, (num_lanes, 1, 1))
    agent.act(features)
    draws = draw_coefficients(agent, rng, size)
    policy = find_policy(agent, draws, features[:, None])[:, 0]
    truth, distances = case.probabilities, total_variation(policy, case.probabilities)
    noise, std = 0.0, float(distances.std() / len(distances) ** 0.5)
    if draws is not None and not is_kept:
        noise = noise_floor(truth, size)[0]
        resampled = rng.multinomial(size, policy[0] / policy[0].sum(), 400) / size
        std = float(total_variation(resampled, truth).std())
    lean = policy[:, truth.argmax()].mean() - truth.max()
    distance = float(distances.mean() - noise)
    return {"case": case.name, "distance": distance, "std": std, "lean": float(lean)}


# -- Environments ----------------------------------------------------------------------------------


def _play(task: StudyTask, title: str, label: str, horizon: str = "horizon") -> list[float]:
    """Return a sampler's regret in each replication; all samplers have the same instances."""
    environment = task.settings["environments"][title] | {"label": title}
    sizes = {"replications": task.size("replications"), "horizon": task.size(horizon)}
    sizes |= {"seed": task.settings["seed"], "block_size": 100}
    runs = play_agents(task, [environment], [_read_agent(task, label)], **sizes)
    regret: np.ndarray = runs[title][label].final("cumulative_regret")
    return regret.round(3).tolist()


def _measure_in_environment(task: StudyTask, title: str, label: str) -> dict[str, Any]:
    """Return the regret of a sampler, distances along runs of its own, and the worth of a log."""
    found, end = _measure_along_runs(task, title, label, task.settings["steps"])
    return {"regret": _play(task, title, label)} | found | _measure_logs(task, title, end)


def _measure_longer(task: StudyTask, title: str, horizon: str, label: str) -> dict[str, Any]:
    """Return the regret of a sampler after more decisions, and distances along runs of its own."""
    found, steps = {"regret": _play(task, title, label, horizon)}, task.settings["steps_long"]
    if horizon == "horizon_long":
        found |= _measure_along_runs(task, title, label, steps)[0]
    return found


class RunsAtEnd(NamedTuple):
    """Runs of a sampler at their last decision: what its log is judged by.

    Attributes:
        env: that they were played in.
        agent: that played.
        draws: (N, S, d) that its policy is made of, or None.
        exact: (N, S, d) draws of the exact answer.
        rng: source of randomness.
    """

    env: Any
    agent: Any
    draws: np.ndarray | None
    exact: np.ndarray
    rng: Generator


def _measure_along_runs(
    task: StudyTask, title: str, label: str, decisions: Sequence[int]
) -> tuple[dict[str, Any], RunsAtEnd]:
    """Play some runs beside a race that is given the same rewards; compare policies on the way."""
    settings, num_lanes = task.settings, task.size("lanes")
    options = {k: v for k, v in settings["environments"][title].items() if k != "env"}
    env: Any = gym.make_vec("ContextualBandit-v0", num_envs=num_lanes, **options)
    problem, seed = env.unwrapped.problem, SeedSequence(settings["seed"])
    race, agent = RacingThompson(problem), make_suite_agent(_read_agent(task, label), problem, 1)
    rng, seconds = np.random.default_rng(seed.spawn(1)[0]), 0.0
    found: dict[str, Any] = {"distances": [], "leans": [], "own": []}
    observation, _ = env.reset(seed=settings["seed"])
    for each in (race, agent):
        each.reset(num_lanes, seed.spawn(1)[0])
    part, size = task.size("horizon") / settings["sizes"]["horizon"], _count_draws(task, label)
    steps = [max(1, int(part * step)) for step in decisions]
    for step in range(1, steps[-1] + 1):
        start = process_time()
        actions = agent.act(observation)
        seconds += process_time() - start
        if step in steps:
            race.act(observation)
            exact: list[Any] = [
                draw_coefficients(race, rng, settings["references"], is_reference=True),
                draw_coefficients(race, rng, size),
            ]
            draws = draw_coefficients(agent, rng, size)
            _compare(found, agent, draws, exact, observation[:, None])
        if step < steps[-1]:
            observed = observation
            observation, rewards, *_ = env.step(actions)
            race.observe(actions, rewards, observation=observed)
            agent.observe(actions, rewards)
    found["microseconds"] = 1e6 * seconds / (num_lanes * steps[-1])
    return found, RunsAtEnd(env, agent, draws, exact[0], rng)


def _measure_logs(task: StudyTask, title: str, end: RunsAtEnd) -> dict[str, Any]:
    """Return what a policy's logs are worth, by inverse propensities and doubly robust."""
    options, (env, agent, draws, exact, rng) = task.settings["environments"][title], end
    problem, num_lanes = env.unwrapped.problem, len(exact)
    visit = make_contexts(options.get("contexts", "normal"), *_sizes(problem), problem.link.name)
    rngs = [make_generator("visitors of a log")] * task.size("visitors")
    visitors = np.broadcast_to(
        visit(rngs, *_sizes(problem)), (num_lanes, len(rngs), *_sizes(problem))
    )
    policies = {
        "own": find_policy(agent, draws, visitors),
        "exact": share_draws(exact[:, :DRAWS_AT_ONCE], visitors),
    }
    policies["few"] = policies["own"]
    if draws is not None:
        chosen = rng.integers(draws.shape[1], size=task.size("few"))
        policies["few"] = share_draws(draws[:, chosen], visitors)
    means = problem.means(env.unwrapped.parameters[:, None], visitors)
    judged = _judge_log(task, policies, means, np.zeros_like(means))
    guesses = _guess_means(problem, exact[:, : task.settings["guesses"]], visitors)
    return judged | {"doubly robust": _judge_log(task, policies, means, guesses)}


def _guess_means(problem: Any, draws: np.ndarray, features: np.ndarray) -> np.ndarray:
    """Return the (N, V, K) averages of the mean rewards over (N, S, d) draws."""
    guesses = np.zeros(features.shape[:3])
    for theta in draws.swapaxes(0, 1):
        guesses += problem.link.mean(np.einsum("nvkd,nd->nvk", features, theta))
    return guesses / draws.shape[1]


def _sizes(problem: Any) -> tuple[int, int]:
    return problem.num_arms, problem.num_features


def _compare(found: dict[str, Any], agent: Any, draws: Any, exact: Any, features: Any) -> None:
    """Add how far a policy is from exact, beyond the noise of draws, and what the favourite gets.

    Of feel-good Thompson sampling also how far it is from what it aims at: exact draws, of the
    weights that it gives them; None where few draws carry the weight.

    Args:
        found: what is added to.
        agent: whose policy it is.
        draws: (N, S, d) that it is made of, or None.
        exact: two arrays of exact draws, for the truth, and as many as the agent's for the noise.
        features: (N, 1, K, d).
    """
    policy, (truth, again) = (
        find_policy(agent, draws, features),
        (share_draws(each, features) for each in exact),
    )
    is_drawn = draws is not None and not hasattr(agent, "models")
    noise = total_variation(again, truth).mean() if is_drawn else 0.0
    excess = np.take_along_axis(policy - truth, truth.argmax(axis=2)[..., None], axis=2)
    found["distances"].append(float(total_variation(policy, truth).mean() - noise))
    found["leans"].append(float(excess.mean()))
    posterior = getattr(agent, "_posterior", None)
    if isinstance(posterior, FeelGood):
        batches = np.array_split(exact[0], exact[0].shape[1] // 500, axis=1)
        tilts = np.concatenate([posterior.tilts(each)[0] for each in batches], axis=1)
        weights = special.softmax(tilts, axis=1)
        aim = share_draws(exact[0], features, weights)
        is_known = 1 / np.square(weights).sum(axis=1).max() >= MIN_AIM_DRAWS
        distance = float(total_variation(policy, aim).mean() - noise)
        found["own"].append(distance if is_known else None)


def _judge_log(
    task: StudyTask, policies: Mapping[str, np.ndarray], means: np.ndarray, guesses: np.ndarray
) -> dict[str, Any]:
    """Return what an estimate makes of logs, by each kind of propensities.

    A log has V visitors, played by the policy "own". With propensities q and guesses m, the doubly
    robust estimate of the mean reward of uniform choices is the mean of sum_k m_k / K + (r - m_a) /
    (K q_a); with m = 0 it is by inverse propensity scores. Its expectation needs no log.

    Args:
        task: sizes and the least probability of an arm.
        policies: (N, V, K) by name.
        means: (N, V, K) of rewards.
        guesses: (N, V, K) at these.

    Returns:
        by name the root mean square over runs of the bias, and the coverage of 95 % intervals.
    """
    floor, num_arms = task.settings["floor"], means.shape[-1]
    raised = {k: raise_to_floor(p.reshape(-1, num_arms), floor) for k, p in policies.items()}
    raised = {name: p.reshape(means.shape) for name, p in raised.items()}
    raised["1 / K"] = np.full(means.shape, 1 / num_arms)
    value, guessed = means.mean(axis=(1, 2)), guesses.mean(axis=2)
    rng, shape = make_generator("logs"), (task.size("logs"), means.shape[1])
    covered: dict[str, list[float]] = {name: [] for name in PROPENSITIES}
    for lane, own in enumerate(raised["own"]):
        arms = (rng.random((*shape, 1)) > own.cumsum(axis=1)[:, :-1]).sum(axis=-1)
        places = np.arange(shape[1]), arms
        rewards = rng.random(shape) < means[lane][places]
        for name in PROPENSITIES:
            weights = 1 / (num_arms * raised[name][lane][places])
            scores = guessed[lane] + weights * (rewards - guesses[lane][places])
            half = HALF_WIDTH * scores.std(axis=1) / shape[1] ** 0.5
            covered[name].append(float((abs(scores.mean(axis=1) - value[lane]) <= half).mean()))
    off = guessed.mean(axis=1) - value
    bias = {
        name: (off + (raised["own"] * (means - guesses) / raised[name]).mean(axis=(1, 2))) / value
        for name in PROPENSITIES
    }
    return {
        "bias": {name: float(np.sqrt(np.square(each).mean())) for name, each in bias.items()},
        "covered": {name: float(np.mean(each)) for name, each in covered.items()},
    }
