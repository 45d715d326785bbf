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
    found = run_suite(AGENTS, workers=options.workers, **chosen)
    found.write(options.out)
    write_page(options.out / "fidelity-suite.md", TITLE, describe(found, options), tell(found))
    for failure in found.failures:
        print(failure)
    print(f"leaderboard: {options.out / 'fidelity-suite.md'}")
    return 0


def describe(found: FidelityResults, options: argparse.Namespace) -> str:
    """Say what was measured, and with which command."""
    made = found.distances[found.distances["status"] == MEASURED]
    suite, games = load_suite(found.suite), found.regrets.groupby(["agent", "world"]).ngroups
    decisions = f"{made['decisions'].min():,} to {made['decisions'].max():,} decisions a case"
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
        "interval over runs."
    )


def tell(found: FidelityResults) -> list[Section]:
    """Return the page's sections."""
    board = found.leaderboard()
    return [
        Section(
            "Leaderboard",
            body=[markdown_table(leaderboard_cells(board))],
            pictures={"leaderboard": draw_leaderboard(board)},
            verdicts=[_verdict(board)],
        ),
        Section(
            "By kind of prior",
            "TV over noise, averaged over cases.",
            body=[_by_kind(found.distances, board)],
        ),
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
