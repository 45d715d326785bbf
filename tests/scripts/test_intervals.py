"""The table of coverage and level at a small fraction of its size."""

import intervals
import numpy as np
import pytest
from studies import run_study


def test_page_has_a_table_of_each_kind(shared):
    done = run_study("python scripts/intervals.py --out docs --scale 0.001", shared)
    page = (done.folder / "docs/statistics.md").read_text(encoding="utf-8")
    assert page.count("\n## ") == 5
    assert page.count("\n| greedy less exact Thompson | 100 |") == 2


@pytest.mark.parametrize("name", intervals.LAWS)
def test_laws_have_mean_zero(name):
    """Of Pareto draws the variance is 2.5 / (1.5^2 * 0.5), the others' are below 5."""
    draws = intervals.LAWS[name](np.random.default_rng(0), (200_000,))
    assert abs(draws.mean()) < 4 * np.sqrt(5 / 200_000)


def test_worlds_of_the_same_luck_are_covered_by_clusters_only():
    """All variance in common, 5 worlds: naive intervals have 1 / sqrt(5) of the length they need.

    They cover a normal mean with probability P(|z| < 1.96 / sqrt(5)) = 0.62. Interquartile means
    have a quarter of the data sets.
    """
    row = intervals.cover_worlds(1.0, 20, 200)
    assert abs(float(row["mean: ours"]) - 0.95) < 4 * np.sqrt(0.05 * 0.95 / 200)
    assert abs(float(row["mean: naive"]) - 0.62) < 4 * np.sqrt(0.62 * 0.38 / 200)
    assert float(row["interquartile mean: ours"]) > 0.95 - 4 * np.sqrt(0.05 * 0.95 / 50)


@pytest.mark.slow
def test_holms_correction_keeps_the_level_that_single_tests_lose():
    row = intervals.reject_any(("normal", intervals.LAWS["normal"]), 20, 4 * 400)
    tolerance = 4 * np.sqrt(0.05 * 0.95 / 400)
    assert float(row["with Holm's correction"]) < 0.05 + tolerance
    assert float(row["without"]) > 0.05 + tolerance
