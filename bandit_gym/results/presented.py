"""Results as people hold them: with a table, a figure, and a face for notebooks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from bandit_gym.checks import check_choice
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.results import results as stored
from bandit_gym.results.page import write_part
from bandit_gym.results.report import contents, describe
from bandit_gym.results.statistics import mean_interval
from bandit_gym.results.summary import summarise

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CURVES = "environment", "agent", "step", "mean", "low", "high"
"""The columns of `Results.curves`."""


@dataclass(frozen=True, repr=False)
class Results(stored.Results):
    """What is known of an experiment.

    Attributes:
        origin: the call that these results come from, and from which they can be had again.
    """

    origin: str = ""

    def __repr__(self) -> str:
        return self.origin

    def __str__(self) -> str:
        return describe(self)

    def _repr_html_(self) -> str:
        """Return the tables as a notebook shows them."""
        return "".join(map(write_part, contents(self)))

    def table(self) -> pd.DataFrame:
        """Return the state at the horizon, one row per run; see `summarise` for the columns."""
        return summarise(self)

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


def load_results(
    directory: str | Path, experiment: Experiment | None = None, *, origin: str | None = None
) -> Results:
    """Read what a folder holds, also while an experiment is at work in it.

    Args:
        directory: the folder.
        experiment: what to read of it, such as fewer replications; None for all.
        origin: the call that made the folder; None if this one is as good.

    Raises:
        FileNotFoundError: if there is no such folder.
        FileExistsError: if the folder holds no experiment.
        ValueError: if it was written in another format.
    """
    found = stored.load_results(directory, experiment)
    if origin is None:
        part = "" if experiment is None else f", Experiment.from_dict({experiment.to_dict()!r})"
        origin = f"load_results({str(directory)!r}{part})"
    return Results(**vars(found), origin=origin)
