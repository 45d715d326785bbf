"""The columns of stored blocks, each declared once, and how they are filled.

Files have the columns of `COLUMNS` in its order, and tables and figures take their words from it. A
new column is one entry, and its values in `compute_columns`. Of an episode, sums over all its steps
so far are kept, at some of its steps: memory is O(N S) for N lanes and S recorded steps, for any
horizon T.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from bandit_gym.checks import as_numbers, message
from bandit_gym.checks.typing import FloatArray, IntArray
from bandit_gym.doubts import Doubt
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


class Column(NamedTuple):
    """A column of the results; `compute_columns` fills it, or else the agent's diagnostics.

    The first five are keys, which `store.to_parquet` fills.

    Attributes:
        meaning: what its values are; written into the files.
        type: of its values: float with NaN, or int with -1, where nothing is known; str; or dict.
        is_diagnostic: whether agents report it; it is the sum over steps of what they report.
        is_optional: whether only files of runs that ask for it have it.
        unit: of its values; a "share" with a title is 0 or 1 in each replication: a proportion.
        title: what tables of estimates and figures call it; those without one are not in them.
        digits: decimals that the printed table shows; shares are shown in per cent.
    """

    meaning: str
    type: type = float
    is_diagnostic: bool = False
    is_optional: bool = False
    unit: str = ""
    title: str = ""
    digits: int = 1


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
    "action": Column("arm played in step t; -1 if the episode had ended", int),
    "propensity": Column(
        "probability with which the agent played the arm of step t; NaN if the episode had ended",
        is_optional=True,
        unit="share",
    ),
    "propensity_is_exact": Column(
        "1 if that is the distribution of the action itself, 0 if one that the agent approximates",
        int,
        is_optional=True,
    ),
    "cumulative_regret": Column(
        "sum over steps of max(means) - means[action]", unit="reward", title="pseudo-regret"
    ),
    "realised_regret": Column(
        "sum over steps of max(means) - reward", unit="reward", title="realised regret"
    ),
    "uniform_regret": Column(
        "sum over steps of max(means) - average mean: what uniform play would lose", unit="reward"
    ),
    "reward": Column("sum of the rewards", unit="reward"),
    "decisions": Column("number of steps played"),
    "optimal_pulls": Column("number of pulls of a best arm", unit="pulls"),
    "last_switch": Column(
        "the last step at which the agent changed its arm; 0 if it never has",
        int,
        unit="step",
        title="last switch",
    ),
    "simple_regret": Column(
        "max(means) minus the mean of the most pulled arm (average over ties)",
        unit="reward",
        title="simple regret",
        digits=4,
    ),
    "best_arm_found": Column(
        "1 if the most pulled arm is a best one (average over ties)",
        unit="share",
        title="best arm found",
    ),
    "num_samples": Column(
        "sum over steps of the samples drawn to decide", is_diagnostic=True, unit="samples"
    ),
    "effective_sample_size": Column(
        "sum over steps of the effective sample sizes", is_diagnostic=True, unit="samples"
    ),
    "is_unreliable": Column(
        "number of decisions whose agent doubted its posterior",
        is_diagnostic=True,
        unit="decisions",
    ),
    **{
        name: Column(
            f"number of decisions that the agent doubts: {doubt.words}",
            is_diagnostic=True,
            unit="decisions",
        )
        for name, doubt in DOUBT_COLUMNS.items()
    },
    OWN_DIAGNOSTICS: Column("by name, sums over steps of the other diagnostics of the agent", dict),
}
"""Every column of a table of results, in order."""


def columns_of(recorded: Container[str]) -> list[str]:
    """Return the columns of a table, in order: all, but of the optional only those recorded."""
    return [name for name, column in COLUMNS.items() if not column.is_optional or name in recorded]


def compute_columns(
    steps: Sequence[Step],
    sums: Mapping[str, FloatArray],
    lengths: FloatArray,
    pulls: FloatArray,
    last_switch: IntArray,
) -> dict[str, np.ndarray]:
    """Return name -> (D, N) values of D recorded steps, of all that the environment reports.

    Args:
        steps: the D steps.
        sums: name -> (D, N) sums over all steps until then of what a step brings.
        lengths: (D, N) steps of each lane's episode until then.
        pulls: (D, K, N) pulls of each arm; K is 0 where no true means are reported.
        last_switch: (D, N) the last step at which the arm changed; 0 if it never has.
    """
    is_alive = np.array([step.is_alive for step in steps])
    actions = np.where(is_alive, [step.actions for step in steps], -1)
    columns = {**sums, "decisions": lengths, "last_switch": last_switch, "action": actions}
    if steps[0].propensities is not None:
        is_exact = np.array([step.has_exact_probabilities for step in steps])
        propensities = np.array([step.propensities for step in steps])
        columns["propensity"] = np.where(is_alive, propensities, np.nan)
        columns["propensity_is_exact"] = np.where(is_alive, is_exact[:, None], -1)
    if steps[0].means is not None and pulls.size:
        means = steps[0].means
        best = means.max(axis=1)
        gaps = np.ascontiguousarray((best[:, None] - means).T)  # (K, N)
        has_max_pulls = np.equal(pulls, pulls.max(axis=1, keepdims=True))
        num_max_pulls = has_max_pulls.sum(axis=1, dtype=np.int32)

        def average_over_max_pulls(values: np.ndarray) -> FloatArray:
            totals = np.einsum("kn,dkn->dn", values, has_max_pulls, dtype=np.float64)
            return np.asarray(totals / num_max_pulls)

        columns |= {
            "realised_regret": best * lengths - sums["reward"],
            "uniform_regret": (best[:, None] - means).mean(axis=1) * lengths,
            "simple_regret": average_over_max_pulls(gaps),
            "best_arm_found": average_over_max_pulls(gaps == 0),
        }
    return columns


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
        agent,
        env,
        env_seed=seeds,
        agent_seed=agent_seed,
        propensities=run.propensities,
        act_options=run.act_options,
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
        first, start = self._num_steps + 1, self._num_kept
        self._num_steps += len(steps)
        self._num_kept = bisect_right(self._steps, self._num_steps)
        recorded = [step - first for step in self._steps[start : self._num_kept]]
        is_alive = np.array([step.is_alive for step in steps])
        actions = np.array([step.actions for step in steps])
        before = actions[0] if self._last is None else self._last.actions
        has_switched = (actions != np.vstack([before, actions[:-1]])) & is_alive
        switches = has_switched * np.arange(first, self._num_steps + 1)[:, None]
        switches[0] = np.maximum(switches[0], self._last_switch)
        switches = np.maximum.accumulate(switches)
        reference = self._last or steps[0]  # which says what is reported
        addends = _list_addends(steps, reference)
        num_arms = 0 if reference.means is None else reference.means.shape[1]
        pulls = actions == np.arange(num_arms)[:, None, None]
        sums = np.stack([*addends.values(), is_alive, *pulls], axis=1)  # (C, M, N)
        if not is_alive.all():
            sums.swapaxes(1, 2)[~is_alive] = 0.0
        sums[0] += self._totals
        np.cumsum(sums, axis=0, out=sums)
        self._last, self._last_switch, self._totals = steps[-1], switches[-1], sums[-1]
        if recorded:
            kept = sums[recorded].swapaxes(0, 1)  # (M, D, N)
            columns = compute_columns(
                [steps[index] for index in recorded],
                dict(zip(addends, kept, strict=False)),
                kept[len(addends)],
                kept[len(addends) + 1 :].swapaxes(0, 1),
                switches[recorded],
            )
            if not self._rows:  # one array, whose memory comes in larger pages than that of many
                table = np.empty((len(columns), sums.shape[2], len(self._steps)))
                pairs = zip(columns.items(), table, strict=True)
                self._rows = {name: rows.view(values.dtype) for (name, values), rows in pairs}
            for name, values in columns.items():  # each (D, N)
                self._rows[name][:, start : start + len(values)] = values.T


def _list_addends(steps: list[Step], reference: Step) -> dict[str, np.ndarray]:
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
    addends["reward"] = np.array([step.rewards for step in steps], dtype=np.float64)
    if reference.regrets is not None:
        regrets = np.array([step.regrets for step in steps], dtype=np.float64)
        addends |= {"cumulative_regret": regrets, "optimal_pulls": regrets == 0}
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
