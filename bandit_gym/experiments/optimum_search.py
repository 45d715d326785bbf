"""Finding the least regret that is possible in the worlds of an experiment, while it runs.

It is known where rewards are Bernoulli and means are drawn from a prior that is independent across
arms. Elsewhere nothing is said, unless somebody asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from bandit_gym.checks import check_real, find_problem
from bandit_gym.experiments.catalogue import load_optimal_line
from bandit_gym.experiments.experiment import Experiment, Run
from bandit_gym.experiments.optimum import Optimum, read_optimum
from bandit_gym.experiments.simulation import headline, make_world
from bandit_gym.experiments.storage import Store

DEFAULT_BUDGET = 5.0
"""Seconds that it may take in each world, by estimate, where nobody has said."""

FEW_DECISIONS = 5_000
"""Of an experiment that is a trial, of which nobody wants to know, where nobody has said."""

Call = tuple[Any, ...]


def check_budget(budget: float | None) -> None:
    """Refuse what is no time."""
    if budget is not None:
        check_real("optimal_budget", budget, minimum=0.0)


def find_optima(
    store: Store,
    experiment: Experiment,
    budget: float | None,
    call: Callable[..., Iterator[tuple[Call, Any]]],
) -> None:
    """Store the least regret in each world of an experiment, unless it is there.

    Args:
        store: the experiment's folder.
        experiment: the worlds.
        budget: seconds that each may take by estimate; None for the default, 0 for nothing.
        call: does calls and yields their arguments and results; see `crew.Crew`.
    """
    num_decisions = len(experiment.runs) * experiment.replications * experiment.horizon
    default = DEFAULT_BUDGET if num_decisions > FEW_DECISIONS else 0.0
    seconds = default if budget is None else budget
    worlds = {run.environment: run for run in reversed(experiment.runs)}.values()
    calls = [(run, seconds, budget is not None) for run in worlds] if seconds > 0 else []
    for (run, *_), found in call(find_optimum, _due(store, calls)):
        if isinstance(found, Optimum):  # and not what became of a process that died
            store.write_optimum(run, found._replace(budget=seconds)._asdict())


def _due(store: Store, calls: Iterable[Call]) -> list[Call]:
    """Return the calls that may find more than is stored."""
    due = []
    for run, seconds, is_asked in calls:
        stored = read_optimum(store, run) or Optimum("none")
        is_more = (seconds, is_asked) > (stored.budget, stored.is_asked)
        if stored.kind != "exact" and is_more:
            due.append((run, seconds, is_asked))
    return due


def find_optimum(run: Run, seconds: float, is_asked: bool) -> Optimum:
    """Find the least regret in a run's world, or say why not; what goes wrong stops no run."""
    try:
        run.renew()
        env = make_world(run)
        if env is not env.unwrapped or not getattr(env, "draws_means", False):
            reason = "it is known for worlds of this package that draw their means from a prior."
            return Optimum("none", reason=reason, is_asked=is_asked)
        line = load_optimal_line()(find_problem(env), run.horizon, seconds)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # of others' code, SystemExit among them
        reason = headline(error).removeprefix("ValueError: ")
        return Optimum("none", reason=reason, is_asked=is_asked)
    return Optimum(line.kind, line.steps, line.lower, line.upper, line.seconds, "", is_asked)
