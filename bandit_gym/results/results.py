"""What an experiment has shown: one object with rows, tables, curves, figures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from bandit_gym.checks import check_choice, check_folder, check_object, check_path
from bandit_gym.experiments.blocks import OWN, columns_of
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.experiments.store import Store, read_manifest
from bandit_gym.results.page import write_part
from bandit_gym.results.report import contents, describe
from bandit_gym.results.statistics import mean_interval
from bandit_gym.results.stored import Stored, check_origin, open_run
from bandit_gym.results.tables import summarise

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CURVES = "environment", "agent", "step", "mean", "low", "high"
"""The columns of `Results.curves`."""


class Results(Stored):
    """What is stored of an experiment; blocks that are missing or damaged are left out.

    Attributes:
        experiment: what was asked for.
        version: of the engine that drew the numbers; see `files.RESULTS_VERSION`.
        runs: what there is of each of its runs, in its order.
        damaged: names of the blocks that are torn, altered, or just being written.
    """

    def frames(self) -> Iterator[pd.DataFrame]:
        """Yield the tidy rows of block after block, all with the same columns."""
        blocks = [block for found in self.runs for block in found.blocks]
        found = {name for block in blocks for name in block.names}
        names = [name for name in columns_of(found) if name != OWN]
        names += sorted({name for block in blocks for name in block.own})
        for block in blocks:
            yield block.frame().reindex(columns=names)

    def frame(self) -> pd.DataFrame:
        """Return all tidy rows; where an agent does not tell another one's diagnostic, NaN."""
        frames = list(self.frames())
        return (
            pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=columns_of(()))
        )

    def __repr__(self) -> str:
        return describe(self)

    def _repr_html_(self) -> str:
        """Return the tables as a notebook shows them."""
        return "".join(map(write_part, contents(self)))

    def table(self) -> pd.DataFrame:
        """Return the state at the horizon, one row per run; see `summarise` for the columns."""
        return summarise(self)

    def save(self, directory: str | Path) -> None:
        """Store all blocks in a folder, from which `load_results` reads them again.

        Args:
            directory: a new or empty folder, or one of the same experiment.

        Raises:
            FileExistsError: if the folder holds something else.
        """
        with Store.claimed(check_folder("directory", directory), self.experiment) as (store, _):
            for found in self.runs:
                for block in found.blocks:
                    number = block.replications.start // found.run.block_size
                    data = block.data.to_pybytes()
                    store.write_block(found.run, number, data, found.timings.get(number, {}))
                for number, text in found.failures.items():
                    store.write_failure(found.run, number, text)

    def curves(self, column: str = "cumulative_regret") -> pd.DataFrame:
        """Return the mean of a column after each recorded step, with its 95 % interval.

        Returns:
            A row per environment, agent and step: environment, agent, step, mean, low, high. Below
            10 replications the ends of the interval are NaN.
        """
        rows = [
            (found.run.environment.label, found.run.agent.label, step, *mean_interval(values))
            for found in self.runs
            if found.is_usable
            for step, values in zip(found.steps, found.curves(column).T, strict=True)
        ]
        return pd.DataFrame(rows, columns=CURVES)

    def plot(self, env: str | None = None, kind: str = "regret") -> Figure:
        """Draw a figure.

        Args:
            env: label of the world to draw; None is the first that there are results of.
            kind: "regret", "differences", "best-arm", "samples" or "flagged".

        Raises:
            ValueError: if the world or the kind is unknown, or there is nothing to draw.
        """
        from bandit_gym.results import plots  # brings matplotlib

        check_choice("kind", kind, plots.FIGURES)
        environments = self.experiment.environments
        labels = [each.label for each in environments if self.usable(each)]
        if env is not None or not labels:
            check_choice("env", env, labels)
        chosen = next(each for each in environments if each.label == (env or labels[0]))
        figure = plots.draw_one(self, chosen, kind)
        if figure is None:
            raise ValueError(f"kind must be one that these results allow, got {kind!r}.")
        return figure


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
    stored = read_manifest(folder)
    experiment = stored if experiment is None else experiment
    opened = [open_run(Store(folder), experiment, run) for run in experiment.runs]
    runs, damaged = tuple(run for run, _ in opened), [name for _, names in opened for name in names]
    version = check_origin(folder, [block for run in runs for block in run.blocks])
    return Results(experiment, version, runs, tuple(damaged))
