"""The columns of stored blocks, each declared once, and how they are filled.

Recording asks this table what to keep, files have its columns in its order, and tables and figures
take their words from it. A new column is one entry. Of an episode, sums over all its steps so far
are kept, at some of its steps: memory is O(N S) for N lanes and S recorded steps, for any
horizon T.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from bandit_gym.checks import as_numbers, message
from bandit_gym.checks.doubts import Doubt
from bandit_gym.checks.typing import BoolArray, FloatArray, IntArray
from bandit_gym.experiments.experiment import Run
from bandit_gym.rollout import BanditAgent, Environment, Step, play_steps


@dataclass(frozen=True)
class Outcome:
    """What became of one block.

    Attributes:
        run: the run it belongs to.
        block: its index.
        data: its results as the bytes of a Parquet file, None if it failed.
        facts: what may differ from time to time: `seconds` in all, `process`, `host`, and
            `agent_seconds` spent in `act` and `observe` for so many `decisions`, without those of
            the first steps.
        failure: one line and then the traceback, None if all went well.
    """

    run: Run
    block: int
    data: bytes | None
    facts: dict[str, Any]
    failure: str | None = None


@dataclass(frozen=True)
class State:
    """Where N lanes stand after D of their steps; columns are computed from it.

    Attributes:
        steps: the D steps.
        sums: name -> (D, N) sums of what columns add (`adds`) and of diagnostics.
        last_switch: (D, N) the last step at which the arm changed; 0 if it never has.
        lengths: (D, N) steps of each lane's episode.
        counts: (D, K, N) pulls of each arm; where the environment reports no true means, K is 0.
    """

    steps: Sequence[Step]
    sums: Mapping[str, FloatArray]
    last_switch: IntArray
    lengths: FloatArray
    counts: FloatArray

    def column(self, name: str, blank: float) -> np.ndarray | None:
        """Return (D, N) entries of the steps, blank where an episode had ended; None if unknown."""
        if getattr(self.steps[0], name) is None:
            return None
        values = [np.where(step.is_alive, getattr(step, name), blank) for step in self.steps]
        return np.array(values)

    @cached_property
    def means(self) -> FloatArray:
        """(N, K) true means."""
        return np.asarray(self.steps[0].means)

    @cached_property
    def best(self) -> FloatArray:
        """(N,) largest mean."""
        return np.asarray(self.means.max(axis=1))

    @cached_property
    def gaps(self) -> FloatArray:
        """(K, N) largest mean minus the mean of each arm; sums over arms then add rows of lanes."""
        return np.ascontiguousarray((self.best[:, None] - self.means).T)

    @cached_property
    def is_favourite(self) -> BoolArray:
        """(D, K, N) whether an arm is the most pulled one, or one of several."""
        return np.equal(self.counts, self.counts.max(axis=1, keepdims=True))

    def average_favourites(self, values: np.ndarray) -> FloatArray:
        """Return (D, N) averages of (K, N) values over the most pulled arms."""
        totals = np.einsum("kn,dkn->dn", values, self.is_favourite, dtype=np.float64)
        return np.asarray(totals / self.is_favourite.sum(axis=1, dtype=np.int32))


class Column(NamedTuple):
    """A column of the results, filled by `adds` or `shows`, or else by the agent.

    Values that agents report as diagnostics are added up over steps. The first five are keys, which
    `store.to_parquet` fills.

    Attributes:
        meaning: what its values are; written into the files.
        type: of its values: float with NaN, or int with -1, where nothing is known; str; or dict.
        adds: (N,) values of a step that are added up, None where the environment reports none.
        shows: (D, N) values after D steps, from where the lanes stand then; None if not known.
        is_optional: whether only files of runs that ask for it have it.
        unit: of its values; a "share" with a title is 0 or 1 in each replication: a proportion.
        title: what tables of estimates and figures call it; those without one are not in them.
        digits: decimals that the printed table shows; shares are shown in per cent.
    """

    meaning: str
    type: type = float
    adds: Callable[[Step], np.ndarray | None] | None = None
    shows: Callable[[State], np.ndarray | None] | None = None
    is_optional: bool = False
    unit: str = ""
    title: str = ""
    digits: int = 1

    @property
    def is_diagnostic(self) -> bool:
        """Whether agents fill it."""
        return self.type is float and not (self.adds or self.shows)


def _of_means(shows: Callable[[State], np.ndarray]) -> Callable[[State], np.ndarray | None]:
    """Return the function, but that it returns None where the true means are not reported."""
    return lambda now: shows(now) if now.counts.size else None


def _optimal_pulls(step: Step) -> np.ndarray | None:
    return None if step.regrets is None else step.regrets == 0


OWN_DIAGNOSTICS = "diagnostics"
DOUBT_DIAGNOSTIC = "doubts"
"""The diagnostic that holds one `Doubt` per lane; each kind has a column that counts it."""

DOUBT_COLUMNS = {f"{DOUBT_DIAGNOSTIC}_{str(doubt.name).lower()}": doubt for doubt in Doubt}
"""The columns that count them."""

COLUMNS = {
    "experiment": Column(
        "content name of the run: environment, agent, horizon, seed, recording, blocks", str
    ),
    "env": Column("the environment's settings; tables put its label here", str),
    "agent": Column("the agent's settings; tables put its label here", str),
    "replication": Column(
        "index of the episode; the same means and reward noise for every agent", int
    ),
    "step": Column("t, number of steps played; everything below is after t steps", int),
    "action": Column(
        "arm played in step t; -1 if the episode had ended",
        int,
        shows=lambda now: now.column("actions", -1),
    ),
    "propensity": Column(
        "probability with which the agent played the arm of step t; NaN if the episode had ended",
        shows=lambda now: now.column("propensities", np.nan),
        is_optional=True,
        unit="share",
    ),
    "propensity_is_exact": Column(
        "1 if that is the distribution of the action itself, 0 if one that the agent approximates",
        int,
        shows=lambda now: now.column("has_exact_probabilities", -1),
        is_optional=True,
    ),
    "cumulative_regret": Column(
        "sum over steps of max(means) - means[action]",
        adds=lambda step: step.regrets,
        unit="reward",
        title="pseudo-regret",
    ),
    "realised_regret": Column(
        "sum over steps of max(means) - reward",
        shows=_of_means(lambda now: now.best * now.lengths - now.sums["reward"]),
        unit="reward",
        title="realised regret",
    ),
    "uniform_regret": Column(
        "sum over steps of max(means) - average mean: what uniform play would lose",
        shows=_of_means(lambda now: (now.best[:, None] - now.means).mean(axis=1) * now.lengths),
        unit="reward",
    ),
    "reward": Column("sum of the rewards", adds=lambda step: step.rewards, unit="reward"),
    "decisions": Column("number of steps played", shows=lambda now: now.lengths),
    "optimal_pulls": Column("number of pulls of a best arm", adds=_optimal_pulls, unit="pulls"),
    "last_switch": Column(
        "the last step at which the agent changed its arm; 0 if it never has",
        int,
        shows=lambda now: now.last_switch,
        unit="step",
        title="last switch",
    ),
    "simple_regret": Column(
        "max(means) minus the mean of the most pulled arm (average over ties)",
        shows=_of_means(lambda now: now.average_favourites(now.gaps)),
        unit="reward",
        title="simple regret",
        digits=4,
    ),
    "best_arm_found": Column(
        "1 if the most pulled arm is a best one (average over ties)",
        shows=_of_means(lambda now: now.average_favourites(now.gaps == 0)),
        unit="share",
        title="best arm found",
    ),
    "num_samples": Column("sum over steps of the samples drawn to decide", unit="samples"),
    "effective_sample_size": Column("sum over steps of the effective sample sizes", unit="samples"),
    "is_unreliable": Column(
        "number of decisions whose agent doubted its posterior", unit="decisions"
    ),
    **{
        name: Column(f"number of decisions that the agent doubts: {doubt.words}", unit="decisions")
        for name, doubt in DOUBT_COLUMNS.items()
    },
    OWN_DIAGNOSTICS: Column("by name, sums over steps of the other diagnostics of the agent", dict),
}
"""Every column of a table of results, in order."""


def columns_of(found: Container[str]) -> list[str]:
    """Return the columns of a table, in order: all, but of the optional only those found."""
    return [name for name, column in COLUMNS.items() if not column.is_optional or name in found]


# -- What is kept of an episode -------------------------------------------------------------------

STEPS_PER_CHUNK = 32
"""Adding up so many steps in one go is some four times as fast as one by one."""

UNTIMED_STEPS = 30
"""The first steps of a block, half of them at most, do not count as the agent's own time: they may
load what is compiled."""


def record_block(
    agent: BanditAgent, env: Environment, run: Run, block: int
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Play a block; return name -> (N, S) values, and the agent's own time (`Outcome.facts`)."""
    recorder, num_untimed = Recorder(run.steps), min(UNTIMED_STEPS, run.horizon // 2)
    seconds, num_decisions = 0.0, 0
    seeds, agent_seed = run.environment_seeds(block), run.agent_seed(block)
    episodes = play_steps(
        agent, env, env_seed=seeds, agent_seed=agent_seed, propensities=run.propensities
    )
    numbered = enumerate(islice(episodes, run.horizon))
    while chunk := list(islice(numbered, STEPS_PER_CHUNK)):
        recorder.add([step for _, step in chunk])
        timed = [step for number, step in chunk if number >= num_untimed]
        seconds += sum(step.agent_seconds for step in timed)
        num_decisions += sum(int(np.count_nonzero(step.is_alive)) for step in timed)
    return recorder.finish(), {"agent_seconds": seconds, "decisions": num_decisions}


class Recorder:
    """Adds up the steps of N lanes and keeps the sums at the recorded steps.

    Sums of a lane stay as they are once its episode has ended.

    Args:
        steps: (S,) recorded steps, sorted.
    """

    def __init__(self, steps: IntArray) -> None:
        self._steps = steps.tolist()
        self._rows: dict[str, np.ndarray] = {}  # (N, S)
        self._last: Step | None = None
        self._last_switch: Any = 0
        self._totals: Any = 0.0
        self._num_steps = self._num_kept = 0

    def finish(self) -> dict[str, np.ndarray]:
        """Return name -> (N, S) value after each recorded step, as `COLUMNS` reports.

        Where all episodes ended before the horizon the last sums are repeated.
        """
        if (kept := self._num_kept) < len(self._steps) and self._last is not None:
            self._num_steps = self._steps[kept] - 1
            self.add([self._last._replace(is_alive=np.zeros_like(self._last.is_alive))])
            for values in self._rows.values():
                values[:, kept + 1 :] = values[:, [kept]]
        return self._rows

    def add(self, steps: list[Step]) -> None:
        """Add C steps of every lane, and keep the values after the D recorded ones of them."""
        first, kept = self._num_steps + 1, self._num_kept
        self._num_steps += len(steps)
        self._num_kept = bisect_right(self._steps, self._num_steps)
        due = [step - first for step in self._steps[kept : self._num_kept]]
        is_alive = np.array([step.is_alive for step in steps])
        actions = np.array([step.actions for step in steps])
        before = actions[0] if self._last is None else self._last.actions
        has_switched = (actions != np.vstack([before, actions[:-1]])) & is_alive
        switches = has_switched * np.arange(first, self._num_steps + 1)[:, None]
        switches[0] = np.maximum(switches[0], self._last_switch)
        switches = np.maximum.accumulate(switches)
        reference = self._last or steps[0]  # which says what is reported
        addends = _compute_addends(steps, reference)
        num_arms = 0 if reference.means is None else reference.means.shape[1]
        pulls = actions == np.arange(num_arms)[:, None, None]
        added = np.stack([*addends.values(), is_alive, *pulls], axis=1)  # (C, M, N)
        if not is_alive.all():
            added.swapaxes(1, 2)[~is_alive] = 0.0
        ends = sorted({*due, len(steps) - 1})
        starts = [0, *(end + 1 for end in ends[:-1])]
        totals = added if len(ends) == len(steps) else np.add.reduceat(added, starts)
        for total in totals:  # cumsum would take twice as long
            total += self._totals
            self._totals = total
        self._last, self._last_switch = steps[-1], switches[-1]
        if due:
            summed, kept_steps = totals[: len(due)], [steps[end] for end in due]
            sums = dict(zip(addends, summed.swapaxes(0, 1), strict=False))
            lengths, counts = summed[:, len(sums)], summed[:, len(sums) + 1 :]
            self._keep(kept, State(kept_steps, sums, switches[due], lengths, counts))

    def _keep(self, start: int, state: State) -> None:
        """Keep the values of the next recorded steps."""
        shown = {name: column.shows(state) for name, column in COLUMNS.items() if column.shows}
        found = {name: each for name, each in {**state.sums, **shown}.items() if each is not None}
        if not self._rows:  # one large array, whose memory comes in larger pages than that of many
            table = np.empty((len(found), state.lengths.shape[1], len(self._steps)))
            pairs = zip(found.items(), table, strict=True)
            self._rows = {name: rows.view(values.dtype) for (name, values), rows in pairs}
        for name, values in found.items():
            self._rows[name][:, start : start + len(values)] = values.T


def _compute_addends(steps: list[Step], reference: Step) -> dict[str, np.ndarray]:
    """Return (C, N) values that C steps add, by name; nothing that the environment hides."""
    for step in steps:
        if step.diagnostics.keys() != reference.diagnostics.keys():
            names = sorted(step.diagnostics.keys() ^ reference.diagnostics.keys(), key=str)
            raise ValueError(message("diagnostics()", "have the same names at every step", names))
    addends = {name: _diagnostic_values(steps, name) for name in reference.diagnostics}
    if DOUBT_DIAGNOSTIC in addends:
        doubts = addends.pop(DOUBT_DIAGNOSTIC).astype(np.int64)
        addends["is_unreliable"] = doubts != 0
        addends |= {name: doubts & doubt != 0 for name, doubt in DOUBT_COLUMNS.items()}
    for name, column in COLUMNS.items():
        if column.adds and column.adds(reference) is not None:
            addends[name] = np.array([column.adds(step) for step in steps], dtype=np.float64)
    return addends


def _diagnostic_values(steps: list[Step], name: Any) -> np.ndarray:
    """Return the (C, N) values of an agent's diagnostic; refuse what no column can hold."""
    if not isinstance(name, str) or (name in COLUMNS and not COLUMNS[name].is_diagnostic):
        condition = "have no names of recorded columns"
        raise ValueError(message("diagnostics()", condition, name, "choose another name"))
    shape = steps[0].is_alive.shape
    values = as_numbers([step.diagnostics[name] for step in steps], "biuf")
    if values is None or values.shape != (len(steps), *shape):
        condition = f"have real numbers of shape {shape} as its {name!r} at every step"
        raise ValueError(message("diagnostics()", condition, steps[0].diagnostics[name]))
    return values
