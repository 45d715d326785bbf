"""Experiments in Weights & Biases: an experiment is one of its runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bandit_gym.callbacks.metrics import MetricsCallback, Values
from bandit_gym.experiments.experiment import Experiment, Run


class WeightsAndBiases(MetricsCallback):
    """Logs an experiment to Weights & Biases; see `MetricsCallback`.

    Charts are "curves/ENVIRONMENT/AGENT/QUANTITY", against `step`, and "so far/...", against
    `replications`; the values at the horizon are in the run's summary, and the experiment is its
    configuration.

    Args:
        project: as in `wandb.init`.
        mode: "offline" writes to the folder `wandb`, for `wandb sync` to upload; "online" uploads.
        settings: more arguments of `wandb.init`.

    Raises:
        ImportError: if the package `wandb` is not installed.
    """

    def __init__(
        self, project: str = "bandit-gym", *, mode: str = "offline", **settings: Any
    ) -> None:
        try:
            import wandb
        except ModuleNotFoundError as error:
            raise ImportError("WeightsAndBiases needs its package: pip install wandb.") from error
        self._init = wandb.init
        self._settings = {"project": project, "mode": mode, **settings}
        self._log: Any = None

    def open(self, experiment: Experiment, directory: Path) -> None:
        """Start a run."""
        self._log = None
        self._log = self._init(**{"config": experiment.to_dict(), **self._settings})
        self._log.define_metric("curves/*", step_metric="step")
        self._log.define_metric("so far/*", step_metric="replications")

    def write_so_far(self, run: Run, replications: int, values: Values) -> None:
        """Log a row."""
        self._log.log({"replications": replications, **_named("so far", run, values)})

    def write_curves(self, run: Run, curves: Mapping[int, Values]) -> None:
        """Log a row per step."""
        for step, values in curves.items():
            self._log.log({"step": step, **_named("curves", run, values)})

    def close(self) -> None:
        """End the run, if it was started."""
        if self._log is not None:
            self._log.finish()


def _named(group: str, run: Run, values: Values) -> Values:
    path = f"{group}/{run.environment.label}/{run.agent.label}"
    return {f"{path}/{name}": value for name, value in values.items()}
