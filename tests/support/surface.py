"""The public names that the contracts use, spelled as they are today.

A name that is about to change stands here once, so that a rename edits this file and no contract.
"""

import json
from collections.abc import Iterable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from numpy.random import Generator, Philox
from numpy.typing import ArrayLike

import bandit_gym
from agents import make_agent
from agents.base.agent import Agent
from bandit_gym.experiments import Experiment, Workers
from bandit_gym.priors import CAPABILITIES, Prior
from bandit_gym.priors.base import offers
from bandit_gym.problem import BanditProblem, ContextualProblem
from bandit_gym.results import Results

OBSERVATIONS = ("constant", "counts", "history")
"""What environments may show to agents."""


def problem_of(env) -> BanditProblem:
    """Return the problem of an environment, single or vector, wrapped or not."""
    return env.unwrapped.problem


def lane_stream(seed: int, *, episode: int, purpose: str) -> Generator:
    """Return the numbers of which a lane makes the "means" or the "noise" of an episode."""
    number = {"means": 0, "noise": 1}[purpose]
    return Generator(Philox(key=seed, counter=[0, 0, episode, number]))


def make_env(problem: BanditProblem | str, num_envs: int | None = None, **options):
    """Make an environment of a problem or an id; given `num_envs`, a vector one."""
    if num_envs is None:
        return bandit_gym.make(problem, **options)
    return bandit_gym.make_vec(problem, num_envs, **options)


def list_capabilities(prior: Prior) -> set[str]:
    """Return what a prior offers beside `sample`, by the names of the methods or rules."""
    return {name for name in CAPABILITIES if offers(prior, name)}


def curves_of(results: Results, agent: str) -> np.ndarray:
    """Return the (N, T) regret of an agent, by its label, summed over time."""
    (run,) = (run for run in results.runs if run.run.agent.label == agent)
    return run.curves("cumulative_regret")


SERIAL = Workers("serial")
"""This process does the work."""

CUMULATIVE_REGRET = "cumulative_regret"
"""The column of the regret summed over time."""


class Watched(NamedTuple):
    """What a run tells as it goes on.

    Attributes:
        stored: number of blocks that were there before.
        done: agent and number of each block simulated since, in the order of being finished.
        damaged: names of the blocks that are computed again because their files are damaged.
    """

    stored: int
    done: list[tuple[str, int]]
    damaged: tuple[str, ...]


def simulate(
    folder: Path, environments: Any, agents: Any, replications: int, horizon: Any, **settings: Any
) -> Results:
    """Run an experiment in a folder, in this process, and return its results."""
    experiment = Experiment(environments, agents, replications, horizon, **settings)
    return bandit_gym.run_experiment(experiment, folder, workers=SERIAL)


def run_and_watch(experiment: Experiment, folder: Path, workers: Workers = SERIAL) -> Watched:
    """Run an experiment in a folder and return what it tells."""
    told: list[Any] = []
    bandit_gym.run_experiment(experiment, folder, workers=workers, on_progress=told.append)
    outcomes = [each.outcome for each in told if each.outcome is not None]
    done = [(outcome.run.agent.label, outcome.block) for outcome in outcomes]
    return Watched(told[0].num_stored, done, told[0].damaged)


def failures_of(results: Results) -> dict[str, dict[int, str]]:
    """Return agent -> block -> what was raised, of the blocks that failed."""
    return {run.run.agent.label: run.failures for run in results.failed}


def files_of(folder: Path, kind: str = "blocks") -> dict[str, bytes]:
    """Return name -> bytes of the stored blocks of a folder, or files of another kind."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted((folder / kind).rglob("*.*"))
        if path.is_file() and not path.name.startswith(".")
    }


def timings_of(folder: Path) -> list[dict[str, Any]]:
    """Return what is stored of how each block came about, in the order of being finished."""
    lines = b"\n".join(files_of(folder, "timings").values()).splitlines()
    return [json.loads(line) for line in lines if line]


def metadata_of(path: Path) -> dict[str, Any]:
    """Return what a stored block says that it was drawn from."""
    return dict(json.loads(pq.read_schema(path).metadata[b"bandit_gym"]))


def rewrite_block(path: Path, changes: Mapping[str, Any]) -> None:
    """Change what a stored block says that it was drawn from."""
    table = pq.read_table(path)
    content = json.dumps(metadata_of(path) | changes).encode()
    table = table.replace_schema_metadata({b"bandit_gym": content})
    pq.write_table(table, path, write_page_checksum=True)


def tables_of(results: Results) -> dict[str, pd.DataFrame]:
    """Return the tables whose numbers a report shows: one by run, one over all environments."""
    from bandit_gym.results import aggregate

    return {"summary": results.table(), "aggregate": aggregate(results)}


def charts_in(page: str) -> int:
    """Return the number of charts in the text of a report's page."""
    return page.count("<figure>")


@cache
def cases_of(suite: str) -> dict[str, Any]:
    """Return name -> case of a suite, read once, which takes longer than many decisions."""
    from bandit_gym.fidelity import load_suite

    return {case.name: case for case in load_suite(suite).cases}


def adversarial_verdict(agent: str, name: str, **options: Any) -> str:
    """Return what becomes of a hundred decisions in a hard case: right, flagged, refused or WRONG.

    Args:
        agent: short name.
        name: of the case.
        options: of the agent.
    """
    from bandit_gym.experiments.entries import read_entries
    from bandit_gym.fidelity.trial import measure_distance

    (entry,) = read_entries("agents", "agent", [{"agent": agent, **options}])
    return measure_distance(entry, cases_of("adversarial")[name], 100, 0)["verdict"]


def verdict_of(
    arms: np.ndarray,
    is_flagged: np.ndarray,
    probabilities: np.ndarray,
    lane_distances: np.ndarray | None = None,
) -> str:
    """Return the verdict on decisions.

    Args:
        arms: (D,) that were chosen.
        is_flagged: (D,) whether their agent calls them unreliable.
        probabilities: (K,) that they should have.
        lane_distances: (D,) distances of the laws of single lanes, each of a thousand draws.
    """
    from bandit_gym.fidelity.trial import Decisions, judge_decisions

    none = np.zeros(len(arms), dtype=int)
    kept = (none, 0.0, 0) if lane_distances is None else (lane_distances, 0.0, 1000)
    return judge_decisions(Decisions(arms, is_flagged, none, none, *kept), probabilities)


def started(kind: Any, problem: Any, num_envs: int | None = None, *data, **options) -> Agent:
    """Make an agent, by its name or class, of seed 1 and warm it up with data, if given."""
    make = partial(make_agent, kind) if isinstance(kind, str) else kind
    agent = make(problem, **options)
    agent.reset(num_envs, seed=1)
    if data:
        agent.warm_start(*data)
    return agent


def shown(agent: Agent, seed: int = 1) -> np.ndarray | None:
    """Return the features that an agent is shown, if its problem has any."""
    if not isinstance(agent.problem, ContextualProblem):
        return None
    lanes = () if agent.num_envs is None else (agent.num_envs,)
    shape = agent.problem.num_arms, agent.problem.num_features
    return np.random.default_rng(seed).normal(size=shape) * np.ones((*lanes, 1, 1))


def play(agent: Agent, num_steps: int, seed: int = 2) -> np.ndarray:
    """Let an agent play for rewards that are the same whatever it does; return its actions."""
    rng, history = np.random.default_rng(seed), []
    for step in range(num_steps):
        history.append(agent.act(shown(agent, step % 5)))
        agent.observe(history[-1], rng.integers(2, size=agent.num_envs).astype(float))
    return np.array(history)


def in_states(name: str, problem: BanditProblem, counts, sums, **options) -> Agent:
    """Make an agent that knows its horizon, in lanes whose pulls were decisions of its own."""
    agent = started(name, problem, len(counts), counts, sums, **options)
    agent.lane_decisions = np.sum(counts, axis=1)
    return agent


def assert_played(arms: ArrayLike, law: ArrayLike, error: float = 0.0) -> None:
    """Compare how often arms were played with their probabilities.

    Args:
        arms: that were played, of any shape.
        law: (K,) probabilities.
        error: what is allowed beside four standard errors of a frequency.
    """
    expected = np.asarray(law)
    shares = np.bincount(np.ravel(arms), minlength=len(expected)) / np.size(arms)
    allowed = 4 * np.sqrt(expected * (1 - expected) / np.size(arms)) + error
    assert (abs(shares - expected) <= allowed).all(), (shares, law)


def assert_same(first: Iterable[Any], second: Iterable[Any], name: str = "") -> None:
    """Compare plays, answers or diagnostics bit for bit; a name tells what they are of."""
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other, name)
