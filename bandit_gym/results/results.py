"""What an experiment has shown: one object with rows, tables, curves, figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bandit_gym.checks import check_choice, check_folder, check_object, check_path, message
from bandit_gym.checks.files import RESULTS_VERSION
from bandit_gym.checks.typing import FloatArray, IntArray
from bandit_gym.experiments.blocks import OWN_DIAGNOSTICS, Outcome, columns_of
from bandit_gym.experiments.entries import Entry
from bandit_gym.experiments.experiment import Experiment, Run
from bandit_gym.experiments.store import Block, Store, open_store
from bandit_gym.results.page import write_part
from bandit_gym.results.report import describe, make_report_parts
from bandit_gym.results.statistics import estimate_column, summarise

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CURVES = "environment", "agent", "step", "mean", "low", "high"
"""The columns of `Results.curves`."""


@dataclass(frozen=True)
class RunResults:
    """What is stored of one run, restricted to the replications that the experiment asks for.

    Attributes:
        run: the run.
        blocks: the stored blocks that are whole, in their order.
        failures: block -> traceback of the blocks that raised.
        timings: block -> the `agent_seconds` that its `decisions` took, where that is known.
    """

    run: Run
    blocks: tuple[Block, ...]
    failures: dict[int, str]
    timings: dict[int, dict[str, Any]]

    @property
    def replications(self) -> IntArray:
        """(R,) indices of the stored replications, sorted."""
        return np.array([r for block in self.blocks for r in block.replications], dtype=np.int64)

    @cached_property
    def steps(self) -> IntArray:
        """(S,) recorded steps, up to the end of the longest episode, such as a table's last row."""
        lengths = self._read("decisions")[:, -1]
        longest = int(np.nan_to_num(lengths, nan=self.run.horizon).max())
        return np.unique(np.minimum(self.run.steps, longest))

    @property
    def is_usable(self) -> bool:
        """Whether there is anything to report: some blocks, and no failed ones."""
        return bool(self.blocks) and not self.failures

    def curves(self, column: str) -> FloatArray:
        """Return a column as (R, S), one row per replication; see `blocks.COLUMNS`."""
        return self._read(column)[:, : len(self.steps)]

    def final(self, column: str) -> FloatArray:
        """Return the (R,) values of a column at the horizon."""
        return self.curves(column)[:, -1]

    def seconds_per_decision(self) -> float:
        """Return the agent's own time for one `act` and `observe` of one lane; NaN if unknown."""
        seconds = sum(facts["agent_seconds"] for facts in self.timings.values())
        decisions = sum(facts["decisions"] for facts in self.timings.values())
        return float(seconds / decisions) if decisions else float("nan")

    def _read(self, column: str) -> FloatArray:
        return np.concatenate([block.column(column) for block in self.blocks])


@dataclass(frozen=True, repr=False)
class Results:
    """What is stored of an experiment; blocks that are missing or damaged are left out.

    Attributes:
        experiment: what was asked for.
        version: of the engine that drew the numbers; see `files.RESULTS_VERSION`.
        runs: what there is of each of its runs, in its order.
        damaged: names of the blocks that are torn, altered, or just being written.
        num_kept: blocks of other code that are in the folder too, and do not count.
    """

    experiment: Experiment
    version: int
    runs: tuple[RunResults, ...]
    damaged: tuple[str, ...] = ()
    num_kept: int = 0

    @property
    def num_missing(self) -> int:
        """Blocks that are still to come."""
        return sum(self.experiment.num_blocks - len(found.blocks) for found in self.runs)

    @property
    def failed(self) -> list[RunResults]:
        """Runs in which a block raised."""
        return [found for found in self.runs if found.failures]

    def usable(self, environment: Entry) -> list[RunResults]:
        """Return the runs in an environment that can be reported."""
        return [r for r in self.runs if r.run.environment == environment and r.is_usable]

    def reference(self, environment: Entry) -> RunResults | None:
        """Return the first agent's run in an environment; None if it cannot be reported."""
        first = self.experiment.agents[0]
        return next((r for r in self.usable(environment) if r.run.agent == first), None)

    def frames(self) -> Iterator[pd.DataFrame]:
        """Yield the tidy rows of block after block, all with the same columns."""
        blocks = [block for found in self.runs for block in found.blocks]
        found = {name for block in blocks for name in block.names}
        names = [name for name in columns_of(found) if name != OWN_DIAGNOSTICS]
        names += sorted({name for block in blocks for name in block.own})
        for block in blocks:
            yield block.frame().reindex(columns=names)

    def frame(self) -> pd.DataFrame:
        """Return all tidy rows; where an agent does not report another one's diagnostic, NaN."""
        nothing = pd.DataFrame(columns=columns_of(()))
        return pd.concat([*self.frames()] or [nothing], ignore_index=True)

    def __repr__(self) -> str:
        return describe(self)

    def _repr_html_(self) -> str:
        """Return the tables as a notebook shows them."""
        return "".join(map(write_part, make_report_parts(self)))

    def table(self) -> pd.DataFrame:
        """Return the state at the horizon, one row per run; see `summarise` for the columns."""
        return summarise(self)

    @cached_property
    def rows(self) -> list[dict[Any, Any]]:
        """Those of `table`, found once: to resample takes most of a report's time."""
        return self.table().to_dict("records")

    def save(self, directory: str | Path) -> None:
        """Store all blocks in a folder, from which `load_results` reads them again.

        Args:
            directory: a new or empty folder, or one of the same experiment.

        Raises:
            FileExistsError: if the folder holds something else.
        """
        codes = {each.run.name: each.blocks[0].code for each in self.runs if each.blocks}
        store = Store(check_folder("directory", directory), codes)
        with store.locked(self.experiment):
            for found in self.runs:
                for block in found.blocks:
                    number = block.replications.start // found.run.block_size
                    facts = found.timings.get(number, {})
                    store.write(Outcome(found.run, number, block.data.to_pybytes(), facts))
                for number, text in found.failures.items():
                    store.write(Outcome(found.run, number, None, {}, text))

    def curves(self, column: str = "cumulative_regret") -> pd.DataFrame:
        """Return the mean of a column after each recorded step, with its 95 % interval.

        Returns:
            A row per environment, agent and step: environment, agent, step, mean, low, high. Below
            10 replications the ends of the interval are NaN.
        """
        rows = [
            (found.run.environment.label, found.run.agent.label, *estimates)
            for found in self.runs
            if found.is_usable
            for estimates in zip(
                found.steps, *estimate_column(column, found.curves(column)), strict=True
            )
        ]
        return pd.DataFrame(rows, columns=CURVES)

    def plot(self, env: str | None = None, kind: str = "regret") -> Figure:
        """Draw a figure.

        Args:
            env: label of the environment to draw; None is the first that there are results of.
            kind: one of `plots.list_figures`, such as "regret", "distribution" or "parameter-delta"
                where `delta` has a grid.

        Raises:
            ValueError: if the environment or the kind is unknown, or there is nothing to draw.
        """
        from bandit_gym.results import plots  # brings matplotlib

        makers = plots.list_figures(self)
        check_choice("kind", kind, makers)
        usable = {each.label: each for each in self.experiment.environments if self.usable(each)}
        if not usable:
            raise ValueError(message("results", "hold a run that can be drawn", "none"))
        label = next(iter(usable)) if env is None else env
        chart = makers[kind](self, usable[check_choice("env", label, usable)])
        if chart is None:
            raise ValueError(f"kind must be one that these results allow, got {kind!r}.")
        return plots.draw_figure(chart)


def load_results(directory: str | Path, experiment: Experiment | None = None) -> Results:
    """Read what a folder holds, also while an experiment is at work in it.

    Args:
        directory: the folder.
        experiment: what to read of it, such as fewer replications; None for all.

    Raises:
        FileNotFoundError: if there is no such folder.
        FileExistsError: if the folder holds no experiment.
        ValueError: if it was written in another format.
    """
    if experiment is not None:
        check_object("experiment", experiment, Experiment)
    folder = check_path("directory", directory)
    stored, store = open_store(folder)
    return read_results(store, stored if experiment is None else experiment)


def read_results(store: Store, experiment: Experiment) -> Results:
    """Return what a folder holds of an experiment."""
    damaged: list[str] = []
    runs = tuple(_open_run(store, experiment, run, damaged) for run in experiment.runs)
    version = _check_code(f"the folder {str(store.directory)!r}", runs)
    num_kept = store.count_blocks_of_other_code(experiment)
    return Results(experiment, version, runs, tuple(damaged), num_kept)


def join_results(parts: Sequence[Results]) -> Results:
    """Return the results of several experiments as those of one, whose first agent is the first's.

    A replication has the same instance in all of them, so differences stay paired; Holm's method
    corrects for all comparisons.

    Args:
        parts: at least one; they have no run in common, and differ in environments and agents only.

    Raises:
        ValueError: if they share a run, or differ in another setting or in their code.
    """
    lists: dict[str, Any] = {}
    for name in (field.name for field in fields(Experiment)):
        values = [getattr(part.experiment, name) for part in parts]
        if name in ("environments", "agents"):
            lists[name] = list(dict.fromkeys(entry for entries in values for entry in entries))
        elif values != values[:1] * len(values):
            raise ValueError(message(name, "be the same in all folders of a report", values))
    experiment, found = replace(parts[0].experiment, **lists), dict[Run, RunResults]()
    for each in (run for part in parts for run in part.runs):
        if each.run in found:
            label = f"{each.run.agent.label} in {each.run.environment.label}"
            raise ValueError(message("a run", "be in one folder of a report only", label))
        found[each.run] = each
    runs = tuple(found[run] for run in experiment.runs if run in found)
    damaged = tuple(name for part in parts for name in part.damaged)
    num_kept = sum(part.num_kept for part in parts)
    return Results(experiment, _check_code("a report", runs), runs, damaged, num_kept)


def _open_run(store: Store, experiment: Experiment, run: Run, damaged: list[str]) -> RunResults:
    """Return what is stored of a run; names of blocks that are not what they claim are added."""
    blocks, failed = dict[int, Block](), store.read_failures(run)
    for number, block in store.read_blocks(run, experiment.replications):
        if block is None:
            damaged.append(store.name_block(run, number))
        elif number not in failed:  # else, in format 5, it is of older code
            blocks[number] = block
    failures = {number: text for number, text in failed.items() if number < experiment.num_blocks}
    timings = {n: facts for n, facts in store.read_timings(run).items() if n in blocks}
    return RunResults(run, tuple(blocks.values()), failures, timings)


def _check_code(place: str, runs: Sequence[RunResults]) -> int:
    """Return the results version of all blocks; refuse those of two versions, or of two codes."""
    seen: dict[str, Any] = {}
    for block in (block for run in runs for block in run.blocks):
        parts = {"the engine": block.metadata["results_version"]}
        for part, entry in (("environment", block.run.environment), ("agent", block.run.agent)):
            parts[f"{part} {entry.label}"] = files = block.metadata["sources"].get(part) or {}
            parts |= files  # which several agents may have in common
        for name, code in parts.items():
            if seen.setdefault(name, code) != code:
                raise ValueError(
                    f"{place} must hold blocks of one code, got two of {name}; run the older "
                    "experiment again with the code of the newer."
                )
    return int(seen.get("the engine", RESULTS_VERSION))
