"""What an experiment has shown: one object with rows, tables, curves, figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bandit_gym.checks import check_choice, check_object, check_path, message
from bandit_gym.experiments.experiment import Experiment, Run
from bandit_gym.experiments.store import Block, Store, open_store
from bandit_gym.files import RESULTS_VERSION
from bandit_gym.results.data import RunResults, StoredResults, read_rows
from bandit_gym.results.report import describe, make_report_parts, write_part

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Results(StoredResults):
    """What is stored of an experiment, as tables and figures; see `StoredResults`."""

    def __repr__(self) -> str:
        return describe(self)

    def _repr_html_(self) -> str:
        """Return the tables as a notebook shows them."""
        return "".join(map(write_part, make_report_parts(self)))

    def plot(
        self, env: str | None = None, kind: str = "regret", *, ax: Axes | None = None
    ) -> Figure:
        """Draw a figure.

        Args:
            env: label of the environment to draw; None is the first that there are results of.
            kind: one of `plots.list_figures`, such as "regret", "distribution" or "parameter-delta"
                where `delta` has a grid.
            ax: axes of matplotlib's to draw on, with a legend in them; None makes a figure.

        Raises:
            ValueError: if the environment or the kind is unknown, or there is nothing to draw.
        """
        from matplotlib import axes

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
        if ax is None:
            return plots.draw_figure(chart)
        check_object("ax", ax, axes.Axes, "leave it out for a figure of its own")
        plots.draw_chart(ax, chart)
        ax.set_title(f"{chart.environment}\n{chart.subtitle}", fontsize="small", parse_math=False)
        plots.add_legend(ax, chart)
        return ax.figure  # type: ignore[return-value]


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
    failures = {run: store.read_failures(run) for run in experiment.runs}
    blocks: dict[Run, list[Block]] = {run: [] for run in experiment.runs}
    for run, own in blocks.items():
        for number, block in store.read_blocks(run, experiment.replications):
            if block is None:
                damaged.append(store.name_block(run, number))
            elif number not in failures[run]:  # else, in format 5, it is of older code
                own.append(block)
    every = [block for own in blocks.values() for block in own]
    version = _check_code(f"the folder {str(store.directory)!r}", every)
    rows, runs, start = read_rows(every), [], 0
    for run, own in blocks.items():
        stop = start + sum(len(block.replications) for block in own) * len(run.steps)
        failed = {n: text for n, text in failures[run].items() if n < experiment.num_blocks}
        numbers = {block.replications.start // run.block_size for block in own}
        timings = {n: facts for n, facts in store.read_timings(run).items() if n in numbers}
        runs.append(RunResults(run, rows.iloc[start:stop], tuple(own), failed, timings))
        start = stop
    num_kept = store.count_blocks_of_other_code(experiment)
    return Results(experiment, version, rows, tuple(runs), tuple(damaged), num_kept)


def join_results(parts: Sequence[Results]) -> Results:
    """Return the results of several experiments as those of one, whose first agent is the first's.

    A replication has the same instance in all of them, so differences stay paired; Holm's method
    corrects for all comparisons.

    Args:
        parts: at least one; they have no run in common, and differ in environments and agents only.

    Raises:
        ValueError: if they share a run, or differ in another setting or in their code.
    """
    if not parts:
        raise ValueError(message("parts", "be at least one", parts))
    for part in parts:
        check_object("parts", part, Results)
    lists: dict[str, Any] = {}
    for name in (field.name for field in fields(Experiment)):
        values = [getattr(part.experiment, name) for part in parts]
        if name in ("environments", "agents"):
            lists[name] = list(dict.fromkeys(entry for entries in values for entry in entries))
        elif values != values[:1] * len(values):
            raise ValueError(message(name, "be the same in all folders of a report", values))
    experiment, joined = replace(parts[0].experiment, **lists), dict[Run, RunResults]()
    for each in (run for part in parts for run in part.runs):
        if each.run in joined:
            label = f"{each.run.agent.label} in {each.run.environment.label}"
            raise ValueError(message("a run", "be in one folder of a report only", label))
        joined[each.run] = each
    runs = tuple(joined[run] for run in experiment.runs if run in joined)
    blocks = [block for each in runs for block in each.blocks]
    version, rows = _check_code("a report", blocks), read_rows(blocks)
    damaged = tuple(name for part in parts for name in part.damaged)
    num_kept = sum(part.num_kept for part in parts)
    return Results(experiment, version, rows, runs, damaged, num_kept)


def _check_code(place: str, blocks: Sequence[Block]) -> int:
    """Return the results version of all blocks; refuse those of two versions, or of two codes."""
    seen: dict[str, Any] = {}
    for block in blocks:
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
