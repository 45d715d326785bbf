"""Arms by their scores."""

import numpy as np

from agents.numerics.choices import random_argmax


def test_random_argmax_breaks_ties_uniformly(rng):
    scores = np.tile([1.0, 3.0, 3.0, 3.0], (30_000, 1))
    share = np.bincount(random_argmax(rng, scores), minlength=4) / len(scores)
    assert share[0] == 0
    assert np.abs(share[1:] - 1 / 3).max() < 4 * np.sqrt(2 / 9 / len(scores))


def test_random_argmax_needs_no_draw_without_ties(rng):
    state = rng.bit_generator.state
    assert random_argmax(rng, np.array([[1.0, 2.0], [4.0, 3.0]])).tolist() == [1, 0]
    assert rng.bit_generator.state == state
