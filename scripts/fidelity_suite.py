"""Put this project's agents and other people's approximations to `fidelity-v1`, and tell of it.

The outsiders are in `outsiders/`, each with the setting that its authors recommend. What is
measured, and how, is `bandit_gym.fidelity.run_suite`, as `bandit-gym fidelity` has it.

    python scripts/fidelity_suite.py --scale 0.03
    python scripts/fidelity_suite.py --scale 0.03 --only Gaussian    # cases of that name
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import pandas as pd
from outsiders.ensemble import EnsembleSampling
from outsiders.langevin import langevin
from outsiders.laplace import laplace
from outsiders.mean_field import mean_field
from outsiders.moments import moment_matched
from pages.command import add_scale, new_parser
from pages.page import Section, Verdict, graded, markdown_table, write_page

from bandit_gym.experiments.executor import Workers
from bandit_gym.fidelity import FidelityResults, load_suite, run_suite
from bandit_gym.fidelity.leaderboard import draw_leaderboard, leaderboard_cells
from bandit_gym.fidelity.trial import MEASURED
from bandit_gym.files import RESULTS_VERSION

TITLE = "fidelity-v1: how near samplers come to the posterior's best arm"
AGENTS = {
    "exact": "exact",
    "racing": "racing",
    "unadjusted Langevin": langevin,
    "mean-field variational": mean_field,
    "Laplace": laplace,
    "moment-matched normal": moment_matched,
    "ensemble of 30": EnsembleSampling,
}
OWN = """A *sampler* draws `size` rows of K means, each independent of the others, from what it
takes the posterior to be:

```python
# my_sampler.py
import numpy as np

def normal(problem, counts, sums, rng, size):  # for Bernoulli arms and a uniform prior
    mean = (1 + sums) / (2 + counts)
    std = np.sqrt(mean * (1 - mean) / (3 + counts))
    return np.clip(rng.normal(mean, std, (size, len(counts))), 0, 1)
```

Name it, or an agent of yours, as `module:name`, with options behind another colon:

```bash
bandit-gym fidelity --agents exact racing my_sampler:normal --only "Beta(1, 1)"
```

Classes and functions will do as well, as in a notebook:

```python
from bandit_gym.fidelity import run_suite

found = run_suite({"exact": "exact", "mine": normal}, only="Beta(1, 1), 20 pulls", scale=0.1)
found.leaderboard()[["agent", "excess", "excess_low", "excess_high"]]
```

A sampler that can treat many histories in one call says so by `normal.is_batched = True`. In whole
runs it is then handed those of all lanes, `counts` and `sums` of shape (size, K), and draws a row
of means from each.

An agent needs `reset`, `act` and `observe`; without `warm_start` it is shown the rewards one by
one, and histories of over 10,000 pulls are *not applicable*. What raises in a case, or returns what
is no sample of the means (another shape, NaN, a mean outside the support), is *failed* there with
its message; the rest goes on, and the command ends with exit code 1. Exit code 2 is bad input.

`--out` gets `distances.parquet` (a row per agent and case: `tv`, its `floor` and `excess`, the ends
`low` and `high` of the interval, `verdict`, `flagged`, `doubts`, `num_samples`, `microseconds`,
`status` and `words`),
`regrets.parquet` (a row per agent, problem and replication, with the `exact_regret` in the same
world), `leaderboard.csv` and `leaderboard.png`. Scale 1 is 10,000 decisions a case and 50 runs of
1,000 steps; there are 1,000 decisions and 10 runs at least, and below scale 0.1 runs are shorter.

Cases, histories and answers of `fidelity-v1` are data (`bandit_gym/fidelity/suites/`) and never
change. Each answer has a bound of its error, at most 1e-9. `scripts/make_suite.py` compares
them with the oracle's, and finds those of a suite of your own. `--suite adversarial` has
[hard cases](adversarial.md) and tells a verdict on each."""

OUTSIDERS = """Each is some thirty lines of `scripts/outsiders/`, with its source named there.

- Unadjusted Langevin: 50 steps of a tenth of the inverse curvature at the mode, a chain a draw.
- Mean-field variational: independent normal laws of log-odds, logarithms or means, 60 fixed points.
- Laplace: a normal law at the mode, of log-odds, logarithms or means.
- Moment-matched normal: means and variances of prior and data, draws beyond an end moved to it.
- Ensemble of 30: models kept for a run, that see every reward with noise of their own. In cases
  each decision has an ensemble of its own; what a single ensemble costs shows in regret alone."""

OURS = ("exact", "racing")
CLOSEST = 0.02
"""TV over noise up to which an agent is called right, as in the adversarial set."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = new_parser(__doc__, "results/fidelity-suite", None)
    add_scale(parser)
    parser.add_argument("--only", default="", help="cases whose name contains this text")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    chosen = {"only": options.only, "scale": options.scale, "seed": options.seed}
    workers = Workers("serial") if options.workers == 1 else options.workers
    found = run_suite(AGENTS, workers=workers, **chosen)
    found.write(options.out)
    page = options.out / "fidelity-suite.md"
    write_page(page, TITLE, describe(found, options), tell(found))
    for failure in found.failures:
        print(failure)
    print(f"leaderboard: {page}")
    return 0


def describe(found: FidelityResults, options: argparse.Namespace) -> str:
    """Say what was measured, and with which command."""
    made = found.distances[found.distances["status"] == MEASURED]
    suite, games = load_suite(found.suite), found.regrets.groupby(["agent", "world"]).ngroups
    decisions = f"{made['decisions'].min():,} decisions a case at least"
    runs = found.regrets["replication"].max() + 1
    return (
        f"Made by `python scripts/fidelity_suite.py --scale {options.scale:g}`, results version "
        f"{RESULTS_VERSION}. {found.distances['case'].nunique()} of the {len(suite.cases)} cases "
        f"of {found.suite} (digest {suite.digest[:12]}), {decisions}; {games} pairs of agent and "
        f"problem played, {runs} runs of {found.horizon:,} steps each.\n\n"
        "*TV over noise* is the total variation distance between the frequencies of an agent's "
        "arms and the stored exact law, less what as many exact decisions would show on average; "
        "in brackets a 95 % interval for the distance of the law itself. Cost is processor time: "
        "of one lane among many for agents, of one draw alone for samplers, who are called anew "
        "for each. *Regret lost* is pseudo-regret less that of exact Thompson sampling in the "
        "same worlds with the same noise, per 1,000 steps, averaged over problems, with a 95 % "
        "interval over runs: where it holds 0, so few runs decide nothing."
    )


def tell(found: FidelityResults) -> list[Section]:
    """Return the page's sections."""
    board = found.leaderboard()
    return [
        Section(
            "Leaderboard",
            body=[markdown_table(leaderboard_cells(board))],
            pictures={"fidelity-suite": draw_leaderboard(board)},
            verdicts=[_verdict(board)],
        ),
        Section(
            "By kind of prior",
            "TV over noise, averaged over cases.",
            body=[_by_kind(found.distances, board)],
        ),
        Section("The outsiders", body=[OUTSIDERS]),
        Section("Your own", body=[OWN]),
        Section(
            "What failed", body=["\n".join(f"- {line}" for line in found.failures) or "Nothing."]
        ),
    ]


def _verdict(board: pd.DataFrame) -> Verdict:
    """Say whether the agents that claim the posterior are near it."""
    ours = board[board["agent"].isin(OURS)]
    columns = ours[["agent", "excess", "worst"]].to_numpy()
    is_surely_far = (ours["excess_low"] > CLOSEST).any()
    near = graded(*(ours["excess_high"] <= CLOSEST), otherwise="undecided")
    return Verdict(
        f"Exact and racing Thompson sampling are within {CLOSEST} of the truth on average",
        "does not hold" if is_surely_far else near,
        "; ".join(f"{name}: {mean:.4f}, at most {most:.3f}" for name, mean, most in columns),
    )


def _by_kind(distances: pd.DataFrame, board: pd.DataFrame) -> str:
    means = distances.pivot_table("excess", "agent", "kind", sort=False).loc[board["agent"]]
    cells = means.map("{:.3f}".format).where(means.notna(), "")
    return markdown_table(cells.reset_index().to_dict("records"))


if __name__ == "__main__":
    sys.exit(main())
