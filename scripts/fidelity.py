"""Measure how far agents are from exact Thompson sampling, and what a decision costs them.

For each problem a history is played by exact Thompson sampling with a declared seed. At each of
several steps every agent is given the sufficient statistics reached there and decides many times;
the frequencies of its arms are compared with the exact action probabilities of `agents.oracle`.
Problems, steps and settings are the tables of `distances.settings`.

    python scripts/fidelity.py --out results/fidelity              # everything
    python scripts/fidelity.py --out results/quick --quick          # few problems and steps

Columns of `fidelity.csv`, beside the settings:
    tv                      total variation distance of the frequencies from the truth
    floor, floor_high       what as many decisions by exact Thompson sampling would show: the mean
                            and the 97.5 % quantile, simulated
    excess                  tv - floor
    single_run_excess       the distance of the law of a single run, averaged over runs, for agents
                            that keep what they drew (SMC): averaging over runs hides a collapse
    resampling_tv           for races of fixed length, the distance from the law they have in theory
    resampling_floor_high   97.5 % quantile of that distance where the law holds
    num_samples, effective_sample_size, is_capped, is_degenerate, is_unreliable
                            means over decisions
    microseconds            processor time per step, many lanes at once: a decision and the
                            learning from its reward
    truth_error             estimated largest error of the exact probabilities
    failure                 why the agent did not decide, where it refused to
    far, far_flagged        1 where the excess is above 0.05, and the share of decisions flagged
                            there; for SMC how many of ten runs, and how many of those are flagged
    near, near_flagged      the same within the noise
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import joblib
import pandas as pd
from distances.measure import Plan, measure_problem
from distances.report import describe, tell
from distances.settings import PROBLEMS, QUICK_PROBLEMS, QUICK_STEPS, SETTINGS, STEPS
from pages.command import add_scale, new_parser
from pages.page import write_page

from agents.oracle import GIBBS_TOLERANCE


def main(arguments: Sequence[str] | None = None) -> int:
    parser = new_parser(__doc__, "results/fidelity", 1)
    add_scale(parser)
    parser.add_argument("--quick", action="store_true", help="few problems and steps")
    parser.add_argument("--only", default="", help="problems whose name contains this text")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    known = QUICK_PROBLEMS if options.quick else PROBLEMS
    names = [name for name in known if options.only in name]
    if not names:
        parser.error(f"--only must be part of a problem's name, got {options.only!r}.")
    options.out.mkdir(parents=True, exist_ok=True)
    measure_problems(names, options)
    return 0


def measure_problems(names: Sequence[str], options: argparse.Namespace) -> None:
    # A truth by Gibbs sampling need not be finer than what is compared with it.
    tolerance = GIBBS_TOLERANCE / min(1.0, 4 * options.scale) ** 0.5
    steps = QUICK_STEPS if options.quick else STEPS
    plan = Plan(SETTINGS, steps, options.scale, options.seed, tolerance)
    jobs = (joblib.delayed(measure_problem)(name, plan) for name in names)
    tables: list[pd.DataFrame] = []
    for table in joblib.Parallel(options.workers, return_as="generator")(jobs):
        tables.append(table)
        print(f"{len(tables)}/{len(names)}  {table['problem'].iloc[0]}", flush=True)
        results = pd.concat(tables, ignore_index=True)
        results.to_csv(options.out / "fidelity.csv", index=False)
    title = "Fidelity: distance from exact Thompson sampling, and its cost"
    text = describe(results, options.scale)
    write_page(options.out / "fidelity.md", title, text, tell(results))


if __name__ == "__main__":
    sys.exit(main())
