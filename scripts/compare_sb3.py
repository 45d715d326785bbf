"""Compare Stable-Baselines3 with Bayesian bandit algorithms, on problems whose answer is known.

    python scripts/compare_sb3.py --quick         # about five minutes on two cores
    python scripts/compare_sb3.py                 # the setting of docs/stable-baselines3.md

How much training PPO needs comes first, and what it must be told of the end of an episode. Then
PPO and DQN are trained on counts and RecurrentPPO on the history, across instances of a random
world, and frozen; A2C learns inside each episode of one instance, as exact Thompson sampling,
Racing Thompson sampling and UCB1 do. All play the same episodes. What is trained or played already
is not done again: the same command goes on where it was stopped.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from pages.command import new_parser
from pages.page import write_page
from sb3_comparison import learning
from sb3_comparison.evaluation import evaluate
from sb3_comparison.learning import Curve
from sb3_comparison.learning_report import tell_learning
from sb3_comparison.report import NOTES, tabulate, tell
from sb3_comparison.settings import FULL, QUICK, World, worlds
from sb3_comparison.training import train_once

from bandit_gym.experiments.execution import Workers


def main(arguments: Sequence[str] | None = None) -> int:
    parser = new_parser(__doc__, "results/compare-sb3", None)
    parser.add_argument("--quick", action="store_true", help="less training, fewer episodes")
    parser.add_argument("--seed", type=int, default=0, help="of the trainings (default: 0)")
    options = parser.parse_args(arguments)
    size, name = (QUICK, "quick") if options.quick else (FULL, "full")
    title = f"Stable-Baselines3 and Bayesian bandit algorithms, {name} setting"
    start, workers = perf_counter(), Workers(num_workers=options.workers)
    variants = learning.variants(size.learning_steps)
    seeds, models = range(size.learning_seeds), options.out / "models"
    curves = [learning.learn(label, one, seeds, models) for label, one in variants.items()]
    compared = worlds(size, seed=options.seed)
    page = compare(compared, curves, options.out, title=title, workers=workers)
    print(page.read_text(encoding="utf-8"))
    print(f"{page}, after {perf_counter() - start:.0f} s")
    return 0


def compare(
    compared: Sequence[World], curves: Sequence[Curve], out: Path, *, title: str, workers: Workers
) -> Path:
    """Train, play and report everything; return the page.

    Args:
        compared: the worlds, each with its agents.
        curves: how returns grew with training.
        out: folder of models, evaluations and the page.
        title: of the page.
        workers: who plays the evaluation episodes; training is done here, one after the other.
    """
    panels = []
    for world in compared:
        models = [train_once(world, training, out / "models") for training in world.trainings]
        panels.append(evaluate(world, models, out, workers))
    table = tabulate(panels)
    table.to_csv(out / "table.csv", index=False)
    page = out / "report.md"
    write_page(page, title, NOTES.rstrip(), [tell_learning(curves), *tell(panels, table)])
    return page


if __name__ == "__main__":
    sys.exit(main())
