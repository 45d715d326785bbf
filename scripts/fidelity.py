"""Measure how far agents are from exact Thompson sampling, and what a decision costs them.

For each problem a history is played by exact Thompson sampling with a declared seed. At each of
several steps every agent is given the sufficient statistics reached there and decides many times;
the frequencies of its arms are compared with the exact action probabilities of `agents.oracle`.
Problems, steps and settings are the tables of `distances.settings`.

    python scripts/fidelity.py --out results/fidelity              # everything
    python scripts/fidelity.py --out /tmp/fidelity --quick         # few problems and steps

Columns of `fidelity.csv`, beside the settings:
    tv                      total variation distance of the frequencies from the truth
    floor, floor_high       what as many decisions by exact Thompson sampling would show: the mean
                            and the 97.5 % quantile, simulated
    excess                  tv - floor
    single_run_excess       the distance of the law of a single run, averaged over runs, for agents
                            that keep what they drew (SMC): averaging over runs hides a collapse
    resampling_tv           for races of fixed length, the distance from the law they have in theory
    resampling_floor_high   97.5 % quantile of that distance where the law holds
    num_samples, effective_sample_size, is_capped    means over decisions
    microseconds            processor time per step, many lanes at once: a decision and the
                            learning from its reward
    truth_error             estimated largest error of the exact probabilities
    failure                 why the agent did not decide, where it refused to
"""

from __future__ import annotations

import argparse
import zlib
from pathlib import Path

import joblib
import pandas as pd
from distances.measure import measure, play
from distances.report import draw_figure, write_report
from distances.settings import PROBLEMS, QUICK_PROBLEMS, QUICK_STEPS, SETTINGS, STEPS
from numpy.random import SeedSequence

from agents.oracle import GIBBS_TOLERANCE
from bandit_gym.priors import TruncatedMultivariateNormal

COLUMNS = (
    "setting",
    "family",
    "step",
    "decisions",
    "tv",
    "floor",
    "floor_high",
    "excess",
    "single_run_excess",
    "resampling_tv",
    "resampling_floor_high",
    "num_samples",
    "effective_sample_size",
    "is_capped",
    "microseconds",
    "truth_error",
    "failure",
)


def run(name: str, steps: tuple[int, ...], scale: float, seed: int) -> pd.DataFrame:
    """Measure every setting on one problem."""
    problem = PROBLEMS[name]
    root = SeedSequence(seed, spawn_key=(zlib.crc32(name.encode()),))
    history_seed, *seeds = root.spawn(1 + len(SETTINGS))
    tolerance = None  # a truth by Gibbs sampling need not be finer than what is compared with it
    if isinstance(problem.prior, TruncatedMultivariateNormal):
        tolerance = min(0.05, GIBBS_TOLERANCE / min(1.0, 4 * scale) ** 0.5)
    histories = play(problem, steps, history_seed, tolerance=tolerance)
    rows = []
    for setting, setting_seed in zip(SETTINGS, seeds, strict=True):
        rows += measure(problem, setting, histories, scale, setting_seed)
    return pd.DataFrame(rows).reindex(columns=COLUMNS).assign(problem=name, seed=seed)


def main(arguments: list[str] | None = None) -> None:
    options = _parse(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    names = QUICK_PROBLEMS if options.quick else tuple(PROBLEMS)
    names = [name for name in names if options.only in name]
    steps = QUICK_STEPS if options.quick else STEPS
    jobs = (joblib.delayed(run)(name, steps, options.scale, options.seed) for name in names)
    tables: list[pd.DataFrame] = []
    for table in joblib.Parallel(options.jobs, return_as="generator")(jobs):
        tables.append(table)
        print(f"{len(tables)}/{len(names)}  {table['problem'].iloc[0]}", flush=True)
        results = pd.concat(tables, ignore_index=True)
        results.to_csv(options.out / "fidelity.csv", index=False)
    write_report(results, options.out / "fidelity.md")
    draw_figure(results, options.out / "fidelity.png")


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the decisions to make")
    parser.add_argument("--quick", action="store_true", help="few problems and steps")
    parser.add_argument("--only", default="", help="problems whose name contains this text")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="problems to measure at a time")
    options = parser.parse_args(arguments)
    if not 0 < options.scale <= 1000:
        parser.error(f"--scale must be above 0 and at most 1000, got {options.scale!r}.")
    if not any(options.only in name for name in PROBLEMS):
        parser.error(f"--only must be part of a problem's name, got {options.only!r}.")
    return options


if __name__ == "__main__":
    main()
