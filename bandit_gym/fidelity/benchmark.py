"""The open benchmark: agents and samplers put to a suite, and what is found of them.

Everything but the cost depends on suite, agents, labels, scale and seed alone.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bandit_gym.checks import (
    check_callback,
    check_folder,
    check_integer,
    check_real,
    make_folder,
)
from bandit_gym.experiments.entries import Entry, read_entries
from bandit_gym.experiments.executor import Call, Died, Executor, Workers
from bandit_gym.experiments.simulation import headline
from bandit_gym.fidelity.leaderboard import draw_leaderboard, make_leaderboard
from bandit_gym.fidelity.suite import DEFAULT_SUITE, Suite, load_suite
from bandit_gym.fidelity.trial import (
    FAILED,
    Game,
    describe_case,
    describe_failure,
    is_refusal,
    make_agent,
    measure_distance,
    play_game,
)
from bandit_gym.files import RESULTS_VERSION, replacing
from bandit_gym.results.plots import save
from bandit_gym.results.statistics import MIN_REPLICATIONS

NUM_DECISIONS, NUM_REPLICATIONS, HORIZON = 10_000, 50, 1000
"""Sizes at scale 1."""

REFERENCE = "exact, the reference"
MOST_SCALE = 1000.0
FEWEST_DECISIONS, FEWEST_STEPS = 1000, 20
"""Of a case and of a run, at any scale."""


@dataclass(frozen=True)
class FidelityResults:
    """What a suite has shown.

    Attributes:
        suite: its name.
        distances: a row per agent and case; see `docs/exact.md` for the columns.
        regrets: a row per agent, problem and replication, the reference's regret beside it.
        horizon: steps of a run.
    """

    suite: str
    distances: pd.DataFrame
    regrets: pd.DataFrame
    horizon: int

    @property
    def failures(self) -> list[str]:
        """One line for each agent and case, or game, that failed."""
        rows = [self.distances[self.distances["status"] == FAILED]]
        rows.append(self.regrets[self.regrets["words"] != ""])
        return [
            f"{agent} failed in {place}: {words}"
            for table, column in zip(rows, ("case", "world"), strict=True)
            for agent, place, words in table[["agent", column, "words"]].itertuples(index=False)
        ]

    def leaderboard(self) -> pd.DataFrame:
        """Return a row per agent, those that decided most often and most truly first."""
        return make_leaderboard(self.distances, self.regrets)

    def write(self, folder: str | Path) -> list[Path]:
        """Write both tables as Parquet, the leaderboard as CSV, and the picture; return the files.

        Args:
            folder: made if it is not there.
        """
        folder = check_folder("out", folder)
        make_folder("out", folder)
        tables = {"distances": self.distances, "regrets": self.regrets}
        files = [folder / f"{name}.parquet" for name in tables] + [folder / "leaderboard.csv"]
        for file, table in zip(files, tables.values(), strict=False):
            with replacing(file) as opened:
                opened.write(_to_parquet(table))
        with replacing(files[-1]) as opened:
            opened.write(self.leaderboard().to_csv(index=False).encode())
        return files + save(draw_leaderboard(self.leaderboard()), folder / "leaderboard", ["png"])


def run_suite(
    agents: Any,
    *,
    suite: str = DEFAULT_SUITE,
    only: str = "",
    scale: float = 1.0,
    seed: int = 0,
    workers: Workers | int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> FidelityResults:
    """Put agents and samplers to a suite.

    Args:
        agents: label -> agent, or a list of agents. Each is a short name, `module:name`, a class, a
            function that makes an agent of a problem, a sampler `(problem, counts, sums, rng,
            size) -> (size, K)`, or a dict with one of these as "agent" and options.
        suite: its name.
        only: cases whose name contains this text.
        scale: 1 is 10,000 decisions a case, and 50 runs of 1,000 steps a game. There are 1,000
            decisions and 10 runs at least; below a tenth of the scale runs have fewer steps.
        seed: of agents, worlds and noise.
        workers: who computes, or how many processes; default one per core.
        on_progress: told how many of all trials are done.

    Raises:
        TypeError, ValueError: if an argument has a wrong value. What agents raise is in the tables.
    """
    listed = [agents] if isinstance(agents, str) or callable(agents) else agents
    entries = read_entries("agents", "agent", listed)
    chosen = load_suite(suite).only(only)
    scale = check_real("scale", scale, above=0.0, maximum=MOST_SCALE)
    seed = check_integer("seed", seed, minimum=0)
    if on_progress is not None:
        check_callback("on_progress", on_progress)
    chosen_workers = workers if isinstance(workers, Workers) else Workers(num_workers=workers)
    calls = list(_calls(entries, chosen, scale, seed))
    found: list[Any] = [None] * len(calls)
    with Executor(chosen_workers) as executor:
        for (entry, _), words in executor.call(_refusal, [(entry, chosen) for entry in entries]):
            if isinstance(words, str):
                raise ValueError(f"agent {entry.label} must fit a case of the suite, got {words}")
        numbered = ((number, *call) for number, call in enumerate(calls))
        for done, (call, result) in enumerate(executor.call(_carry_out, numbered), start=1):
            found[call[0]] = _lost(call, result) if isinstance(result, Died) else result
            if on_progress is not None:
                on_progress(done, len(calls))
    return _tabulate(chosen, found, _horizon(scale))


def _refusal(entry: Entry, suite: Suite) -> str | None:
    """Say why an agent declines all cases, as one with a wrong option does; None if it does not."""
    for case in suite.cases:
        try:
            make_agent(entry, case.problem, HORIZON, case.name)
        except (TypeError, ValueError) as error:
            if is_refusal(error, entry):  # which its rows will tell
                return None
            words = headline(error)
        except (Exception, SystemExit):  # of an agent's own making, which its rows will tell
            return None
        else:
            return None
    return words


def _calls(entries: Sequence[Entry], suite: Suite, scale: float, seed: int) -> Iterator[Call]:
    """Yield the trials, games before cases, because they take longest."""
    (reference,) = read_entries("agents", "agent", [{"agent": "exact", "label": REFERENCE}])
    sizes = max(MIN_REPLICATIONS, round(scale * NUM_REPLICATIONS)), _horizon(scale)
    for entry in (*entries, reference):
        for game in suite.games():
            yield play_game, entry, game, sizes, seed
    num_decisions = max(FEWEST_DECISIONS, round(scale * NUM_DECISIONS))
    for entry in entries:
        for case in suite.cases:
            yield measure_distance, entry, case, num_decisions, seed


def _horizon(scale: float) -> int:
    """Return the steps of a run: runs are shortened below a tenth of the full scale only."""
    return max(FEWEST_STEPS, min(HORIZON, round(10 * scale * HORIZON)))


def _carry_out(number: int, function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def _lost(call: Call, died: Died) -> Any:
    """Return what stands for a trial that has taken its process down."""
    _, function, entry, case, *_ = call
    words = f"WorkerDied: {died.reason}"
    if function is play_game:
        return Game(entry.label, case.world, np.empty(0), words)
    return describe_case(entry, case) | describe_failure(words)


COLUMNS = (
    *("agent", "case", "kind", "arms", "pulls", "status", "verdict", "words", "decisions"),
    *("tv", "floor", "excess", "std", "low", "high", "run_excess"),
    *("flagged", "doubts", "num_samples", "microseconds"),
)
"""Of the table of distances; `docs/exact.md` says what they are."""


def _tabulate(suite: Suite, found: Sequence[Any], horizon: int) -> FidelityResults:
    games = [each for each in found if isinstance(each, Game)]
    rows = [each for each in found if not isinstance(each, Game)]
    distances = pd.DataFrame(rows, columns=COLUMNS)
    references = {game.world: game for game in games if game.agent == REFERENCE}
    played = [game for game in games if game.agent != REFERENCE]
    parts = [_paired(game, references[game.world]) for game in played]
    empty = _paired(Game("", "", np.empty(0)), Game("", "", np.empty(0)))
    regrets = pd.concat(parts, ignore_index=True) if parts else empty[:0]
    told = {"suite": suite.name, "results_version": RESULTS_VERSION}
    regrets = regrets.assign(horizon=horizon)
    return FidelityResults(suite.name, distances.assign(**told), regrets.assign(**told), horizon)


def _paired(game: Game, reference: Game) -> pd.DataFrame:
    """Return a row per replication; one without numbers if the runs failed."""
    words = game.words or (f"{REFERENCE}: {reference.words}" if reference.words else "")
    blank = np.full(1, np.nan)
    own, exact = (blank, blank) if words else (game.regrets, reference.regrets)
    return pd.DataFrame(
        {
            "agent": game.agent,
            "world": game.world,
            "replication": np.arange(len(own)),
            "regret": own,
            "exact_regret": exact,
            "words": words,
        }
    )


def _to_parquet(table: pd.DataFrame) -> bytes:
    file = io.BytesIO()
    table.to_parquet(file, index=False)
    return file.getvalue()
