"""The columns of stored blocks, each declared once, and how they are filled.

Recording asks this table what to keep, files have its columns in its order, and tables and figures
take their words from it. A new column is one entry. Of an episode, sums over all its steps so far
are kept, at some of its steps: memory is O(N S) for N lanes and S recorded steps, for any
horizon T.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from bandit_gym.checks import message
from bandit_gym.checks.doubts import Doubt
from bandit_gym.checks.typing import BoolArray, FloatArray, IntArray
from bandit_gym.experiments.experiment import Run
from bandit_gym.rollout import BanditAgent, Environment, Step, play


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


class State:
    """Where N lanes stand after a step; columns are computed from it.

    Attributes:
        step: the step.
        lengths: (N,) steps of each lane's episode.
        sums: name -> (N,) sums of what columns add (`adds`) and of diagnostics.
        last_switch: (N,) the last step at which the arm changed; 0 if it never has.
        knows_means: whether the environment reports the true means; what follows needs them.
        best: (N,) largest mean.
        gaps: (N, K) largest mean minus the mean of each arm.
        mean_gaps: (N,) average gap over the arms.
        is_best: (N, K) whether an arm is a best one.
        counts: (N, K) pulls of each arm.
        is_favourite: (N, K) whether an arm is the most pulled one, or one of several.
        num_favourites: (N,) how many these are.
    """

    best: FloatArray
    gaps: FloatArray
    mean_gaps: FloatArray
    is_best: BoolArray
    counts: IntArray
    is_favourite: BoolArray
    num_favourites: IntArray

    def __init__(self, step: Step) -> None:
        self.step = step
        self.lengths = np.zeros(len(step.actions), dtype=np.int64)
        self.last_switch = np.zeros(len(step.actions), dtype=np.int64)
        self.sums: dict[str, FloatArray] = {}
        self.num_steps = 0
        self.knows_means = step.means is not None
        self._before = step.actions
        if step.means is not None:
            self.best = step.means.max(axis=1)
            gaps = self.best[:, None] - step.means
            self.mean_gaps = gaps.mean(axis=1)
            # An arm's lanes lie side by side, so that sums over arms take a third of the time.
            self.gaps = np.asfortranarray(gaps)
            self.is_best = self.gaps == 0
            self.counts = np.zeros(step.means.shape, dtype=np.int64, order="F")

    def update(
        self, steps: list[Step], addends: dict[str, FloatArray], due: Sequence[int]
    ) -> Iterator[None]:
        """Add C consecutive steps, and stop to be recorded after those that are due.

        Args:
            steps: C of them.
            addends: name -> (C, N) values to add up; they become the sums after the steps that are
                due, and after the last one.
            due: which of the steps, sorted.
        """
        ends = [*due, *({len(steps) - 1} - {*due})]
        starts = [0, *(end + 1 for end in ends[:-1])]
        is_alive = np.array([step.is_alive for step in steps])
        actions = np.array([step.actions for step in steps])
        for name, values in addends.items():
            if not is_alive.all():
                values[~is_alive] = 0.0
            is_due = len(ends) == len(steps)  # each of them
            sums = values if is_due else np.add.reduceat(values, starts, axis=0)
            sums[0] += self.sums.get(name, 0.0)
            addends[name] = np.cumsum(sums, axis=0, out=sums)
        lengths = np.cumsum(np.add.reduceat(is_alive, starts, axis=0, dtype=np.int64), axis=0)
        lengths += self.lengths
        has_switched = (actions != np.vstack([self._before, actions[:-1]])) & is_alive
        latest = has_switched * (self.num_steps + 1 + np.arange(len(steps)))[:, None]
        latest = np.maximum.accumulate(np.maximum.reduceat(latest, starts, axis=0))
        latest = np.maximum(latest, self.last_switch)
        self.num_steps += len(steps)
        self._before = actions[-1]
        for row, (start, end) in enumerate(zip(starts, ends, strict=True)):
            self.step, self.lengths, self.last_switch = steps[end], lengths[row], latest[row]
            self.sums = {name: values[row] for name, values in addends.items()}
            if self.knows_means:
                new = is_alive[start : end + 1]
                np.add.at(self.counts, (np.nonzero(new)[1], actions[start : end + 1][new]), 1)
                self.is_favourite = self.counts == self.counts.max(axis=1, keepdims=True)
                self.num_favourites = self.is_favourite.sum(axis=1)
            if row < len(due):
                yield


class Column(NamedTuple):
    """A column of the results, filled by `of_block`, `adds` or `shows`, or else by the agent.

    Values that agents report as diagnostics are added up over steps.

    Attributes:
        meaning: what its values are; written into the files.
        type: of its values: float with NaN, or int with -1, where nothing is known; str; or dict.
        of_block: from the run and the block's number, one value or what broadcasts to (N, S).
        adds: (N,) values of a step that are added up, None where the environment reports none.
        shows: (N,) values that follow from where the lanes stand, None where that is not known.
        needs_means: whether `shows` is asked only where the true means are reported.
        is_optional: whether only files of runs that ask for it have it.
        unit: of its values; means of shares are estimated as such.
        title: what tables of estimates and figures call it; those without one are not in them.
        definition: of `title`, in their words, per step if it is a sum.
        table: "estimates" if the printed table has it unasked, else "".
        digits: decimals that the printed table shows; shares are shown in per cent.
    """

    meaning: str
    type: type = float
    of_block: Callable[[Run, int], Any] | None = None
    adds: Callable[[Step], np.ndarray | None] | None = None
    shows: Callable[[State], np.ndarray | None] | None = None
    needs_means: bool = False
    is_optional: bool = False
    unit: str = ""
    title: str = ""
    definition: str = ""
    table: str = ""
    digits: int = 1

    @property
    def is_diagnostic(self) -> bool:
        """Whether agents fill it."""
        return self.type is float and not any((self.of_block, self.adds, self.shows))


def _optimal_pulls(step: Step) -> np.ndarray | None:
    return None if step.regrets is None else step.regrets == 0


def _action_rank(now: State) -> np.ndarray:
    actions = now.step.actions
    pulled = now.gaps[np.arange(len(actions)), actions][:, None]
    return np.where(now.step.is_alive, (now.gaps < pulled).sum(axis=1), -1)


def _propensity(now: State) -> np.ndarray | None:
    propensities = now.step.propensities
    return None if propensities is None else np.where(now.step.is_alive, propensities, np.nan)


def _is_exact(now: State) -> np.ndarray | None:
    if now.step.propensities is None:
        return None
    return np.where(now.step.is_alive, int(now.step.has_exact_probabilities), -1)


OWN_DIAGNOSTICS = "diagnostics"
DOUBT_DIAGNOSTIC = "doubts"
"""The diagnostic that holds one `Doubt` per lane; each kind has a column that counts it."""

DOUBT_COLUMNS = {f"{DOUBT_DIAGNOSTIC}_{str(doubt.name).lower()}": doubt for doubt in Doubt}
"""The columns that count them."""

COLUMNS = {
    "experiment": Column(
        "content name of the run: environment, agent, horizon, seed, recording, blocks",
        str,
        of_block=lambda run, block: run.digest,
    ),
    "env": Column(
        "the environment's settings; tables put its label here",
        str,
        of_block=lambda run, block: run.environment.name,
    ),
    "agent": Column(
        "the agent's settings; tables put its label here",
        str,
        of_block=lambda run, block: run.agent.name,
    ),
    "replication": Column(
        "index of the episode; the same means and reward noise for every agent",
        int,
        of_block=lambda run, block: np.array(run.replications(block))[:, None],
    ),
    "step": Column(
        "t, number of steps played; everything below is after t steps",
        int,
        of_block=lambda run, block: run.steps,
    ),
    "action": Column(
        "arm played in step t; -1 if the episode had ended",
        int,
        shows=lambda now: np.where(now.step.is_alive, now.step.actions, -1),
    ),
    "propensity": Column(
        "probability with which the agent played the arm of step t; NaN if the episode had ended",
        shows=_propensity,
        is_optional=True,
        unit="share",
    ),
    "propensity_is_exact": Column(
        "1 if that is the distribution of the action itself, 0 if one that the agent approximates",
        int,
        shows=_is_exact,
        is_optional=True,
    ),
    "action_rank": Column(
        "number of arms with a larger mean than the one played in step t; -1 if unknown",
        int,
        shows=_action_rank,
        needs_means=True,
    ),
    "cumulative_regret": Column(
        "sum over steps of max(means) - means[action]",
        adds=lambda step: step.regrets,
        unit="reward",
        title="pseudo-regret",
        definition="best mean - pulled mean",
        table="estimates",
    ),
    "realised_regret": Column(
        "sum over steps of max(means) - reward",
        shows=lambda now: now.best * now.lengths - now.sums["reward"],
        needs_means=True,
        unit="reward",
        title="realised regret",
    ),
    "uniform_regret": Column(
        "sum over steps of max(means) - average mean: what uniform play would lose",
        shows=lambda now: now.mean_gaps * now.lengths,
        needs_means=True,
        unit="reward",
    ),
    "reward": Column("sum of the rewards", adds=lambda step: step.rewards, unit="reward"),
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
        shows=lambda now: (now.gaps * now.is_favourite).sum(axis=1) / now.num_favourites,
        needs_means=True,
        unit="reward",
        title="simple regret",
        digits=4,
    ),
    "best_arm_found": Column(
        "1 if the most pulled arm is a best one (average over ties)",
        shows=lambda now: (now.is_best & now.is_favourite).sum(axis=1) / now.num_favourites,
        needs_means=True,
        unit="share",
        title="best arm found",
        table="estimates",
    ),
    "num_samples": Column("sum over steps of the samples drawn to decide", unit="samples"),
    "effective_sample_size": Column("sum over steps of the effective sample sizes", unit="samples"),
    "is_capped": Column(
        "number of decisions that were stopped by the cap on samples", unit="decisions"
    ),
    "is_degenerate": Column(
        "number of decisions made although no sample could explain the data", unit="decisions"
    ),
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

DIAGNOSTICS = tuple(name for name, column in COLUMNS.items() if column.is_diagnostic)
"""The columns that agents fill."""


def columns_of(found: Container[str]) -> list[str]:
    """Return the columns of a table, in order: all, but of the optional only those found."""
    return [name for name, column in COLUMNS.items() if not column.is_optional or name in found]


# -- What is kept of an episode -------------------------------------------------------------------

STEPS_PER_CHUNK = 32
UNTIMED_STEPS = 30
"""The first steps of a block, half of them at most, do not count as the agent's own time: they may
load what is compiled."""

_ADDED_COLUMNS = {name: column.adds for name, column in COLUMNS.items() if column.adds}
_STATE_COLUMNS = {name: column for name, column in COLUMNS.items() if column.shows}


def record_block(
    agent: BanditAgent, env: Environment, run: Run, block: int
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Play a block; return name -> (N, S) values, and the agent's own time (`Outcome.facts`)."""
    recorder, num_untimed = Recorder(run.steps), min(UNTIMED_STEPS, run.horizon // 2)
    seconds, num_decisions = 0.0, 0
    seeds, agent_seed = run.environment_seeds(block), run.agent_seed(block)
    episodes = play(
        agent, env, env_seed=seeds, agent_seed=agent_seed, propensities=run.propensities
    )
    for number, step in enumerate(islice(episodes, run.horizon)):
        recorder.add(step)
        if number >= num_untimed:
            seconds += step.agent_seconds
            num_decisions += int(np.count_nonzero(step.is_alive))
    return recorder.finish(), {"agent_seconds": seconds, "decisions": num_decisions}


class Recorder:
    """Adds up the steps of N lanes and keeps the sums at the recorded steps.

    Sums of a lane stay as they are once its episode has ended. A step is only put aside at first:
    adding up `STEPS_PER_CHUNK` of them in one go is some four times as fast.

    Args:
        steps: (S,) recorded steps, sorted.
    """

    def __init__(self, steps: IntArray) -> None:
        self._steps = steps.tolist()
        self._rows: dict[str, np.ndarray] = {}  # (N, S)
        self._state: State | None = None
        self._pending: list[Step] = []
        self._num_kept = 0

    def add(self, step: Step) -> None:
        """Update with one step of every lane."""
        self._pending.append(step)
        if len(self._pending) == STEPS_PER_CHUNK:
            self._add_up()

    def finish(self) -> dict[str, np.ndarray]:
        """Return name -> (N, S) value after each recorded step, as `COLUMNS` reports.

        Where all episodes ended before the horizon the last sums are repeated.
        """
        if self._pending:
            self._add_up()
        state = self._state
        if self._num_kept < len(self._steps) and state is not None:
            state.step = state.step._replace(is_alive=np.zeros_like(state.step.is_alive))
            last = state.sums | _compute_state_values(state)
            self._store_values({name: values[None] for name, values in last.items()})
            for values in self._rows.values():
                values[:, self._num_kept + 1 :] = values[:, [self._num_kept]]
        return self._rows

    def _add_up(self) -> None:
        """Take the pending steps in."""
        steps, self._pending = self._pending, []
        self._state = state = self._state or State(steps[0])
        first = state.num_steps + 1
        end = bisect_right(self._steps, state.num_steps + len(steps))
        due = [step - first for step in self._steps[self._num_kept : end]]
        sums = _compute_addends(steps)
        shown = [_compute_state_values(state) for _ in state.update(steps, sums, due)]
        if due:
            kept = {name: values[: len(due)] for name, values in sums.items()}
            kept |= {name: np.array([each[name] for each in shown]) for name in shown[0]}
            self._store_values(kept)
            self._num_kept = end

    def _store_values(self, values: Mapping[str, np.ndarray]) -> None:
        """Keep (R, N) values of the next recorded steps."""
        for name, each in values.items():
            if name not in self._rows:
                self._rows[name] = np.zeros((each.shape[1], len(self._steps)), dtype=each.dtype)
            if each.any():  # most doubts never are
                self._rows[name][:, self._num_kept : self._num_kept + len(each)] = each.T


def _compute_state_values(state: State) -> dict[str, np.ndarray]:
    """Return name -> (N,) values that follow from where the lanes stand, where they are known."""
    found = {
        name: column.shows(state)
        for name, column in _STATE_COLUMNS.items()
        if column.shows and (state.knows_means or not column.needs_means)
    }
    return {name: values for name, values in found.items() if values is not None}


def _compute_addends(steps: list[Step]) -> dict[str, np.ndarray]:
    """Return (C, N) values that C steps add, by name; nothing of what the environment hides."""
    addends = {name: _diagnostic_values(steps, name) for name in steps[0].diagnostics}
    if DOUBT_DIAGNOSTIC in addends:
        addends |= _count_doubts(steps, addends.pop(DOUBT_DIAGNOSTIC))
    for name, adds in _ADDED_COLUMNS.items():
        values = [adds(step) for step in steps]
        if values[0] is not None:
            addends[name] = np.array(values, dtype=np.float64)
    return addends


def _diagnostic_values(steps: list[Step], name: Any) -> np.ndarray:
    """Return the (C, N) values of an agent's diagnostic; refuse what no column can hold."""
    if not isinstance(name, str) or (name in COLUMNS and name not in DIAGNOSTICS):
        condition = "have no names of recorded columns"
        raise ValueError(message("diagnostics()", condition, name, "choose another name"))
    shape = steps[0].is_alive.shape
    try:
        values = np.array([step.diagnostics[name] for step in steps])
    except (KeyError, ValueError):  # not in every step, or of several shapes
        values = np.array(None)
    if values.shape != (len(steps), *shape) or values.dtype.kind not in "biuf":
        condition = f"have real numbers of shape {shape} as its {name!r} at every step"
        raise ValueError(message("diagnostics()", condition, steps[0].diagnostics[name]))
    return values.astype(np.float64)


def _count_doubts(steps: list[Step], doubts: np.ndarray) -> dict[str, np.ndarray]:
    """Return whether each decision was flagged, and for each doubt whether that was a reason."""
    is_alive = np.array([step.is_alive for step in steps])
    numbers = np.where(is_alive, doubts, 0).astype(np.int64)
    masks = {"is_unreliable": -1} | {name: int(doubt) for name, doubt in DOUBT_COLUMNS.items()}
    if not numbers.any():  # as nearly always
        return {name: np.zeros(numbers.shape) for name in masks}
    return {name: (numbers & mask != 0).astype(np.float64) for name, mask in masks.items()}
