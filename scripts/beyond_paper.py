"""Measure what goes beyond the paper: its guarantee, its thrift, SMC as done today, and regret.

    python scripts/beyond_paper.py --out results/beyond
    python scripts/beyond_paper.py --only guarantee --scale 0.02

Parts: `guarantee` (error frequency of the self-normalised stop against its promise), `stopping`
(when a race has enough), `thrift` (samples and distance beside the paper's stop), `particles` (SMC
over time) and `regret`. The folder receives one PNG a part that has one, the simulations' data (the
same command goes on where it was stopped) and one page, `README.md`, with a verdict on each claim.
`--scale` is the share of the full number of races, decisions, runs and replications.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from beyond import guarantee, particles, regret, stopping, thrift
from pages.command import Part, Study, run_study

PARTS = {
    "guarantee": Part(
        guarantee.reproduce, {"races": 4000, "problems": 40, "races_per_problem": 500}
    ),
    "stopping": Part(stopping.reproduce, {"races": 4000}),
    "thrift": Part(thrift.reproduce, {"decisions": 1000, "horizon": 3000}),
    "particles": Part(particles.reproduce, {"runs": 10, "horizon": 10_000}),
    "regret": Part(regret.reproduce, {"replications": 400, "horizon": 10_000}),
}
STUDY = Study(
    title="Beyond the paper",
    text="± is the half width of a 95 % interval unless said otherwise.",
    parts=PARTS,
    folder="results/beyond",
    num_workers=1,
)


def main(arguments: Sequence[str] | None = None) -> int:
    return run_study(STUDY, __doc__, arguments)


if __name__ == "__main__":
    sys.exit(main())
