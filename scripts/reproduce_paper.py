"""Reproduce the tables and figures of the Racing Thompson paper, with intervals and verdicts.

    python scripts/reproduce_paper.py --figure all --out results/paper
    python scripts/reproduce_paper.py --figure table2 --scale 0.02

Results land in the folder as data (resumable: the same command goes on where it was stopped), one
PNG a figure and one page, `README.md`, with a verdict on each sentence of the paper's Section 5.
`--scale` is the share of the full number of replications.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from pages.command import Part, Study, run_study
from paper import regret_figures, table1, table2, theorem1

FIGURES = {
    "table1": Part(table1.reproduce, {}),
    "table2": Part(
        table2.reproduce, {"replications": 400, "fit_replications": 200, "horizon": 1000}
    ),
    "fig1a": Part(regret_figures.reproduce_1a, {"priors": 20, "replications": 50, "horizon": 1000}),
    "fig1b": Part(regret_figures.reproduce_1b, {"replications": 100, "horizon": 10_000}),
    "fig2": Part(regret_figures.reproduce_2, {"replications": 50, "horizon": 10_000}),
    "theorem1": Part(theorem1.reproduce, {"problems": 40, "races": 500}),
}
STUDY = Study(
    title="Racing Thompson, reproduced",
    text="Regret is Bayesian pseudo-regret, the sum over steps of max(means) - means[action] "
    "averaged over instances drawn from the prior; ± is the half width of a 95 % interval.",
    parts=FIGURES,
    folder="results/paper",
)


def main(arguments: Sequence[str] | None = None) -> int:
    return run_study(STUDY, __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
