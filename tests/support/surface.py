"""The public names that the contracts use, spelled as they are today.

A name that is about to change stands here once, so that a rename edits this file and no contract.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from agents import make_agent
from agents.base.agent import Agent
from bandit_gym.experiments import Experiment, Workers, run_experiment
from bandit_gym.problem import BanditProblem
from bandit_gym.results import Results, load_results
from bandit_gym.rollout import Rollout

PAPERS_SMC = "smc"
"""The paper's SMC: particles that are weighed and never resampled."""

MOVED_SMC = "smc", {"resampling": "systematic", "move": "random-walk"}
"""Name and options of the SMC whose particles are resampled and moved."""


def problem_of(env) -> BanditProblem:
    """Return the problem of an environment, single or vector, wrapped or not."""
    return env.unwrapped.problem


def agent_for(env, name: str, **options) -> Agent:
    """Make an agent for an environment."""
    return make_agent(name, problem_of(env), **options)


def lane_counts(agent: Agent) -> np.ndarray:
    """Return the (N, K) pulls of an agent's arms, N = 1 for a single run."""
    return agent.counts


def lane_sums(agent: Agent) -> np.ndarray:
    """Return the (N, K) total rewards of an agent's arms, N = 1 for a single run."""
    return agent.sums


def regret_of(found: Rollout) -> np.ndarray:
    """Return the (N, T) regret of each pull."""
    return found.pseudo_regret


def run_and_load(experiment: Experiment, folder: Path, **options) -> Results:
    """Run an experiment in a folder and return its results."""
    run_experiment(experiment, folder, **options)
    return load_results(folder)


SERIAL = Workers("serial")
"""This process does the work."""

CUMULATIVE_REGRET = "pseudo_regret"
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


def run_and_watch(
    experiment: Experiment, folder: Path, workers: Workers = SERIAL, *, recompute: bool = False
) -> Watched:
    """Run an experiment in a folder and return what it tells.

    Args:
        experiment: what to run.
        folder: of its results.
        workers: who does the work.
        recompute: whether to draw again what changed code had drawn.
    """
    told: list[Any] = []
    options: dict[str, Any] = {"changed": "recompute"} if recompute else {}
    run_experiment(experiment, folder, workers=workers, on_progress=told.append, **options)
    outcomes = [each.outcome for each in told if each.outcome is not None]
    done = [(outcome.run.agent.label, outcome.block) for outcome in outcomes]
    return Watched(told[0].num_stored, done, told[0].damaged)


def run_with_optimum(experiment: Experiment, folder: Path) -> Results:
    """Run an experiment, find the least possible regret of its worlds, and return the results."""
    return run_and_load(experiment, folder, workers=SERIAL, optimal_budget=5.0)


def failures_of(results: Results) -> dict[str, dict[int, str]]:
    """Return agent -> block -> what was raised, of the blocks that failed."""
    return {found.run.agent.label: found.failures for found in results.runs if found.failures}


def files_of(folder: Path, kind: str = "blocks") -> dict[str, bytes]:
    """Return name -> bytes of the stored blocks of a folder, or of their receipts."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted((folder / kind).rglob("*.*"))
        if path.is_file() and not path.name.startswith(".")
    }


def receipts_of(folder: Path) -> list[dict[str, Any]]:
    """Return what is stored about each block beside its rows."""
    return [json.loads(data) for data in files_of(folder, "receipts").values()]


def rewrite_receipt(path: Path, changes: Mapping[str, Any]) -> None:
    """Change a receipt as its writer would have, its checksum included."""
    receipt = json.loads(path.read_bytes()) | changes
    del receipt["checksum"]
    text = json.dumps(receipt, indent=2).removesuffix("\n}")
    checksum = hashlib.sha256(text.encode()).hexdigest()
    path.write_text(f'{text},\n  "checksum": "{checksum}"\n}}\n')


def pretend(folder: Path, *, version: int, of_worlds: Mapping[str, str] | None = None) -> None:
    """Make a folder look as if another engine, or other code of its worlds, had drawn it.

    Args:
        folder: of results.
        version: of the engine.
        of_worlds: file -> digest of the user's own files that the worlds depend on.
    """
    path = folder / "experiment.json"
    content = json.loads(path.read_text()) | {"results_version": version}
    files = dict(of_worlds or {})
    for environment in load_results(folder).experiment.environments:
        content["sources"][environment.digest] = files
    path.write_text(json.dumps(content))
    for receipt in (folder / "receipts").rglob("*.json"):
        sources = json.loads(receipt.read_bytes())["sources"] | {"environment": files}
        rewrite_receipt(receipt, {"results_version": version, "sources": sources})


def tables_of(results: Results) -> dict[str, pd.DataFrame]:
    """Return the tables whose numbers a report shows: one by run, one over all environments."""
    from bandit_gym.results import aggregate

    return {"summary": results.table(), "aggregate": aggregate(results)}


def charts_in(page: str) -> int:
    """Return the number of charts in the text of a report's page."""
    return len(re.findall(r'<figure data-chart="', page))


def adversarial_worlds() -> Sequence[Any]:
    """Return the hard cases, each with `name`, `problem`, `counts`, `sums` and `law`."""
    from bandit_gym.fidelity.adversarial import CASES

    return CASES


def adversarial_verdict(agent: str, case: str, **options: Any) -> str:
    """Return what becomes of an agent in a hard case: right, flagged, refused or WRONG.

    Args:
        agent: short name, or "smc, moved".
        case: name of the case.
        options: of the agent, in place of its usual ones.
    """
    from bandit_gym.fidelity.judge import judge
    from bandit_gym.fidelity.settings import SETTINGS

    labels = {"smc, moved": "SMC, moved", "smc": "SMC, paper"}
    setting = next(s for s in SETTINGS if labels.get(agent, agent) in (s.label, s.agent))
    if options:
        setting = replace(setting, options=options)
    (found,) = (each for each in adversarial_worlds() if each.name == case)
    return judge(setting, found, scale=0.01).verdict


def verdict_of(
    laws: np.ndarray, is_flagged: np.ndarray, truth: np.ndarray, num_draws: int | None = None
) -> str:
    """Return the verdict on decisions.

    Args:
        laws: (D, K) of each decision, certain of its arm unless known.
        is_flagged: (D,) whether its agent calls it unreliable.
        truth: (K,) exact law.
        num_draws: that each law is made of, where it is that of a run.
    """
    from bandit_gym.fidelity.judge import _verdict, gap_of

    gap, silent = (gap_of(laws[chosen], truth, num_draws) for chosen in (slice(None), ~is_flagged))
    return _verdict(gap, float(is_flagged.mean()), silent)
