"""The open benchmark: agents and samplers put to a suite, and what is found of them.

Everything but the cost depends on suite, agents, labels, scale and seed alone.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from bandit_gym.checks import (
    check_callback,
    check_folder,
    check_integer,
    check_real,
)
from bandit_gym.checks.files import RESULTS_VERSION, write_atomically
from bandit_gym.experiments.entries import Entry, read_entries
from bandit_gym.experiments.executor import Call, Died, Executor, Workers
from bandit_gym.fidelity.leaderboard import draw_leaderboard, make_leaderboard
from bandit_gym.fidelity.suite import DEFAULT_SUITE, Suite, load_suite
from bandit_gym.fidelity.trial import (
    FAILED,
    describe_case,
    describe_failure,
    measure_distance,
)
from bandit_gym.results.plots import save

NUM_DECISIONS, FEWEST_DECISIONS = 10_000, 1000
"""Of a case, at scale 1 and at any scale."""

MOST_SCALE = 1000.0


@dataclass(frozen=True)
class FidelityResults:
    """What a suite has shown.

    Attributes:
        suite: its name.
        distances: a row per agent and case; see `docs/exact.md` for the columns.
    """

    suite: str
    distances: pd.DataFrame

    @property
    def failures(self) -> list[str]:
        """One line for each agent and case that failed."""
        failed = self.distances[self.distances["status"] == FAILED]
        return [f"{row.agent} failed in {row.case}: {row.words}" for row in failed.itertuples()]

    def leaderboard(self) -> pd.DataFrame:
        """Return a row per agent, those that decided most often and most truly first."""
        return make_leaderboard(self.distances)

    def write(self, folder: str | Path) -> list[Path]:
        """Write the distances as Parquet, the leaderboard as CSV, and the picture; return files.

        Args:
            folder: made if it is not there.
        """
        folder = check_folder("out", folder)
        folder.mkdir(parents=True, exist_ok=True)
        files = [folder / "distances.parquet", folder / "leaderboard.csv"]
        buffer = io.BytesIO()
        self.distances.to_parquet(buffer, index=False)
        write_atomically(files[0], buffer.getvalue())
        write_atomically(files[1], self.leaderboard().to_csv(index=False).encode())
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
        scale: 1 is 10,000 decisions a case. There are 1,000 at least.
        seed: of agents and noise.
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
        numbered = ((number, *call) for number, call in enumerate(calls))
        for done, (call, result) in enumerate(executor.call(_carry_out, numbered), start=1):
            found[call[0]] = _lost(call, result) if isinstance(result, Died) else result
            if on_progress is not None:
                on_progress(done, len(calls))
    told = {"suite": chosen.name, "results_version": RESULTS_VERSION}
    return FidelityResults(chosen.name, pd.DataFrame(found, columns=COLUMNS).assign(**told))


def _calls(entries: Sequence[Entry], suite: Suite, scale: float, seed: int) -> Iterator[Call]:
    """Yield the trials."""
    num_decisions = max(FEWEST_DECISIONS, round(scale * NUM_DECISIONS))
    for entry in entries:
        for case in suite.cases:
            yield entry, case, num_decisions, seed


def _carry_out(number: int, *arguments: Any) -> Any:
    return measure_distance(*arguments)


def _lost(call: Call, died: Died) -> Any:
    """Return what stands for a trial that has taken its process down."""
    _, entry, case, *_ = call
    return describe_case(entry, case) | describe_failure(f"WorkerDied: {died.reason}")


COLUMNS = (
    *("agent", "case", "kind", "arms", "pulls", "status", "verdict", "words", "decisions"),
    *("tv", "floor", "excess", "std", "low", "high", "run_excess"),
    *("flagged", "doubts", "num_samples", "microseconds"),
)
"""Of the table of distances; `docs/exact.md` says what they are."""
