"""Settle each claim of the Racing Thompson paper under each reading of it.

    python scripts/readings.py --out results/readings
    python scripts/readings.py --only fig1a --scale 0.1

Two versions of the paper exist: arXiv 1708.04781v1 (2017), whose text is judged here, and ICML
2018, PMLR 80:6000-6008. Results land in the folder as data (resumable: the same command goes on
where it was stopped), one picture and one page, `readings.md`. `--scale` is the share of the full
number of replications.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np
from pages.command import Part, Study, Task, run_study
from paper import claims, measures, races, theorem1
from paper.claims import Claim
from paper.matrix import LOOKS, Judged, judge, summarise
from paper.readings import READINGS
from paper.trials import DEAR_SAMPLES, PILOT_STEPS

from agents.racing.stopping import Paper

ROWS: dict[str, tuple[str, Callable[[], Iterable[Claim]], dict[str, int]]] = {
    "table1": ("Table 1: reference posteriors", claims.table_1_claims, {}),
    "theorem1": ("Theorem 1: the promise of a race", claims.theorem_1_claims, {"batches": 40}),
    "fig1a": (
        "Figure 1a: conjugate prior",
        claims.figure_1a_claims,
        {"batches": 48, "horizon": 500},
    ),
    "table2": (
        "Table 2: sensitivity to δ and σ",
        claims.table_2_claims,
        {"batches": 4, "horizon": 1000},
    ),
    "fig1b": (
        "Figure 1b: non-conjugate prior",
        claims.figure_1b_claims,
        {"batches": 16, "horizon": 1000},
    ),
    "fig2": (
        "Figure 2: dependent prior",
        claims.figure_2_claims,
        {"batches": 24, "horizon": 500},
    ),
}
NUM_DRAWN = sum(
    not claim.refusal(reading)
    for name, (_, rows, _) in ROWS.items()
    if name != "table1"  # whose cells are worked out
    for claim in rows()
    for reading in READINGS
)
"""Cells that chance may lead astray, which share the level."""

NOTES = {
    "table1": "Worked out, not drawn: quadrature, and the Fisher information of a mean. Gaussian "
    "and Poisson priors are improper.",
    "theorem1": f"Random Bernoulli problems with K = {theorem1.NUM_ARMS}, Beta priors with "
    f"parameters uniform on (1, 10), up to 30 pulls an arm; δ = {theorem1.DELTA}, σ = "
    f"{races.SIGMA}, so that Kδ = {theorem1.PROMISE:g}. An error is a winner with E[v] < max E[v] "
    "- σ, in units of v after scaling; expectations are exact. Each problem is judged by itself, "
    "by Clopper and Pearson's interval.",
    "fig1a": "Each batch has a prior of its own, K = 10 pairs (a, b) uniform on (1, 10), and is "
    "one cluster of 4 replications.",
    "table2": "Beta(5, 5), and K = 10, which the paper has elsewhere. Its regrets are averages of "
    f"ten runs, which is why {measures.TEN_RUNS:g} is allowed. σ and δ are averaged out in the "
    "last four rows.",
    "fig1b": "The paper gives no parameters of its truncated normals: three sets are tried. SMC "
    "has as many particles at each step as Racing drew samples there at the first look. The last "
    "row of each set is the truth that the paper lacked.",
    "fig2": "Each batch has topics of its own, u_i uniform on the sphere in 10 dimensions, and is "
    "one cluster of 2 replications. SMC as in Figure 1b.",
}


def _longest_race(threshold: str) -> int:
    """Return after how many samples the paper's slack ends any race whose values are at most 1."""
    stop = Paper(threshold=threshold, max_samples=DEAR_SAMPLES)
    return int(np.argmax(stop.bars().gaps < 0))


def _reproduce(name: str, task: Task) -> Judged:
    title, rows, _ = ROWS[name]
    horizon = task.sizes.get("horizon")
    text = f"{NOTES[name]} T = {horizon}." if horizon else NOTES[name]
    return judge(task, title, text, list(rows()), NUM_DRAWN)


STUDY = Study(
    title="Readings: what the paper claims, settled under each of them",
    text=f"""The paper exists in two versions: arXiv 1708.04781v1 (2017), whose text is judged \
here, and ICML 2018, PMLR 80:6000-6008, whose abstract differs: it speaks of online posterior \
inference and of a proposal distribution, and adds that the algorithm works well in practice.

What the paper leaves open gives {len(READINGS)} readings. The bound of line 12 of Algorithm 2 is \
as printed, or *shortened* by `3 log log(1/δ)`, which comes closer to the paper's own counts. v is \
divided by the largest *value* `e^ε w` or the largest *weight* `w` seen so far, or by its true \
*supremum*. m is 1 before the first draw and rises with each, so that Algorithm 2 divides by one \
more than the draws; *by draws*, m is their number, in the averages and in the bound (judged with \
the paper's own proposal alone). A race draws from the *reference* posterior of Table 1, or from \
one that is *matched* to the prior. The self-normalised stop, ours, reads the proposal alone.

**How a cell is settled.** A claim is a sentence that can fail: a quantity between limits. \
"No difference" is a margin of {measures.MARGIN:.0%} of exact Thompson sampling's regret in the \
same replications, stated before anything was run: "outperforms" is by more than it, \
"competitive" is behind by no more than it, "similar" is within it on both sides. Agents are \
paired by seed; n counts clusters (a replication, or a batch with a world of its own). A cell \
*holds* once the interval lies within the limits, and *does not* once it lies beyond one. It looks \
at its data up to {len(LOOKS)} times, at {", ".join(map(str, LOOKS))} times the first number of \
clusters, and stops when decided (group sequential, an equal share of the level for each look). \
All {NUM_DRAWN} cells that apply and are drawn have together a level of 5 % (Bonferroni over cells \
and looks), so that intervals are as wide as they are. Intervals of means are Student's, widened \
where the values are skewed (Hall, 1992); of 64 values with a skewness of 2, one of level 2 in \
100,000 is wrong 7 times in 100,000. No interval knows of losses that are rarer than its values \
are many: of 64 values that are normal but for 2 %, which are a hundred deviations off, 28 % of \
such intervals miss the mean, so that the level is that of quantities without such losses. How \
many values there are was chosen by looking at other batches, none of which counts here. A limit \
that depends on exact Thompson sampling stands behind the interval. \
*Too dear* is a race of {DEAR_SAMPLES:,} samples or more in the first {PILOT_STEPS} steps. The \
supremum is not, at δ = σ = 0.1: line 12 ends any race once 2β(m, δ) < σ, after \
{_longest_race("printed"):,} samples as printed and {_longest_race("shortened"):,} \
shortened.""",
    parts={name: Part(partial(_reproduce, name), sizes) for name, (_, _, sizes) in ROWS.items()},
    folder="results/readings",
    page="readings",
    lead=summarise,
    is_parallel=True,
)


def main(arguments: Sequence[str] | None = None) -> int:
    return run_study(STUDY, __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
