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
from importlib.util import find_spec

import pandas as pd
from outsiders.ensemble import EnsembleSampling
from outsiders.langevin import langevin
from outsiders.laplace import laplace
from outsiders.mean_field import mean_field
from outsiders.moments import moment_matched
from pages.command import add_scale, new_parser
from pages.page import Section, Verdict, graded, markdown_table, write_page

from bandit_gym.experiments.entries import read_entries
from bandit_gym.experiments.executor import Workers
from bandit_gym.fidelity import FidelityResults, load_suite, run_suite
from bandit_gym.fidelity.benchmark import FEWEST_DECISIONS
from bandit_gym.fidelity.leaderboard import draw_leaderboard, leaderboard_cells
from bandit_gym.fidelity.trial import MEASURED, measure_distance
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
`low` and `high` of the interval, `flagged`, `num_samples`, `microseconds`, `status` and `words`),
`regrets.parquet` (a row per agent, problem and replication, with the `exact_regret` in the same
world), `leaderboard.csv` and `leaderboard.png`. Scale 1 is 10,000 decisions a case and 50 runs of
1,000 steps; there are 1,000 decisions and 10 runs at least, and below scale 0.1 runs are shorter.

Cases, histories and answers of `fidelity-v1` are data (`bandit_gym/fidelity/suites/`) and never
change. `python scripts/make_suite.py` makes them again and says whether they are the same. Each
answer has a bound of its error, at most 1e-9: its distance from the oracle's, which shares no
code with it, and what the oracle claims for itself; where arms share a common factor, its distance
from the answer by three times as many values of the factor."""

OUTSIDERS = """Each is some thirty lines of `scripts/outsiders/`, with its source named there.

- Unadjusted Langevin: 50 steps of a tenth of the inverse curvature at the mode, a chain a draw.
- Mean-field variational: independent normal laws of log-odds, logarithms or means, 60 fixed points.
- Laplace: a normal law at the mode, of log-odds, logarithms or means.
- Moment-matched normal: means and variances of prior and data, draws beyond an end moved to it.
- Ensemble of 30: models kept for a run, that see every reward with noise of their own. In cases
  each decision has an ensemble of its own; what a single ensemble costs shows in regret alone.
- NUTS, below: a chain of the library nutpie, whose draws are thinned to some 50 slopes a draw, as
  many as Langevin has. It comes with `pip install "bayesian-bandit-gym[outsiders]"`."""

NUTS = """One case of each kind of prior, 1,000 decisions from one chain. A draw alone takes a
warm-up of its own, so that whole runs, with a decision at every step, are out of reach."""

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
    sections = tell(found, measure_nuts(options.only, options.seed))
    write_page(page, TITLE, describe(found, options), sections)
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


def tell(found: FidelityResults, nuts_rows: Sequence[dict[str, str]]) -> list[Section]:
    """Return the page's sections; rows of NUTS are left out where there are none."""
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
        Section("NUTS", NUTS, [markdown_table(nuts_rows)] if nuts_rows else []),
        Section("Your own", body=[OWN]),
        Section(
            "What failed", body=["\n".join(f"- {line}" for line in found.failures) or "Nothing."]
        ),
    ]


def measure_nuts(only: str, seed: int) -> list[dict[str, str]]:
    """Return a row for a case of each kind of prior, the first; none without the library."""
    if find_spec("nutpie") is None:
        return []
    cases = {case.kind: case for case in reversed(load_suite().only(only).cases)}
    (entry,) = read_entries("agents", "agent", [{"agent": "outsiders.nuts:nuts", "label": "NUTS"}])
    rows = []
    for case in reversed(cases.values()):
        row = measure_distance(entry, case, FEWEST_DECISIONS, seed)
        cells = {"case": case.name, "TV over noise": "failed", "ms of a draw alone": ""}
        if row["status"] == MEASURED:
            distance = f"{row['excess']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"
            cells |= {"TV over noise": distance}
            cells |= {"ms of a draw alone": f"{row['microseconds'] / 1000:.0f}"}
        rows.append(cells)
    return rows


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
