"""Draws from tables that are made by hand."""

import numpy as np
import pytest

from agents.posteriors.tabulation import PosteriorTables, draw_best_of_tables

NUM_LANES = 4000


def _tables(*places):
    """Return tables of arms whose means are all but known: two points, nothing apart."""
    shape = (NUM_LANES, len(places))
    points = np.zeros((*shape, 2, 3))
    points[..., 0] = 0.0, 1.0  # the distribution function
    points[..., 1] = np.array(places)[:, None]
    points[..., 2] = 1.0
    return PosteriorTables(
        keys=np.zeros((*shape, 2)),
        points=points,
        guides=np.zeros((*shape, 1), dtype=np.uint16),
        errors=np.zeros(shape),
        recent=np.zeros((1, 4), dtype=np.int64),
    )


@pytest.mark.parametrize(
    ("places", "shares"),
    [((0.0, 1.0, 0.5), (0, 1, 0)), ((1.0, 0.0, 1.0), (0.5, 0, 0.5)), ((1.0,) * 4, (0.25,) * 4)],
)
def test_ties_between_arms_are_broken_at_random(places, shares, rng):
    actions = np.empty(NUM_LANES, dtype=np.int64)
    draw_best_of_tables(rng, _tables(*places), actions)
    found = np.bincount(actions, minlength=len(places)) / NUM_LANES
    assert found == pytest.approx(np.array(shares), abs=4 * 0.5 / np.sqrt(NUM_LANES))
