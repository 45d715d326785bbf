"""Weights, resampling and comparisons of particles, by hand."""

import math

import numpy as np
import pytest

from agents.posteriors.resampling import (
    RESAMPLING,
    accumulate,
    compare_populations,
    effective_sample_size,
    normalise,
    particles_at,
    resample,
)

WEIGHTS = np.array([[0.1, 0.0, 0.4, 0.5], [0.25, 0.25, 0.25, 0.25]])


def test_weights_are_normalised_whatever_their_scale():
    log_weights = np.log([[1.0, 3.0], [2.0, 2.0]]) + [[-1e4], [1e4]]
    weights, log_sums = normalise(log_weights.copy())
    assert weights == pytest.approx(np.array([[0.25, 0.75], [0.5, 0.5]]))
    assert log_sums == pytest.approx([math.log(4) - 1e4, math.log(4) + 1e4])


def test_weights_far_below_the_largest_are_nothing():
    weights, _ = normalise(np.array([0.0, -699.0, -701.0, -np.inf]))
    assert (weights > 0).tolist() == [True, True, False, False]
    assert weights[1] == pytest.approx(math.exp(-699.0))


def test_particles_that_all_rule_out_the_data_are_equal_and_said_so():
    weights, log_sums = normalise(np.array([[-np.inf] * 4, [0.0, -np.inf, 0.0, -np.inf]]))
    assert weights.tolist() == [[0.25] * 4, [0.5, 0.0, 0.5, 0.0]]
    assert log_sums == pytest.approx([-np.inf, math.log(2)])


def test_effective_size_is_one_over_the_sum_of_squares():
    assert effective_sample_size(WEIGHTS) == pytest.approx([1 / 0.42, 4.0])


def test_accumulated_weights_end_at_one():
    cumulative = accumulate(np.array([[1.0, 2.0, 5.0]]))
    assert cumulative.tolist() == [[0.125, 0.375, 1.0]]


@pytest.mark.parametrize("scheme", RESAMPLING)
def test_every_scheme_makes_p_w_copies_on_average_and_none_of_weight_zero(scheme):
    rng, rows = np.random.default_rng(0), 20_000
    chosen = resample(rng, np.tile(WEIGHTS[0], (rows, 1)), scheme)
    assert chosen.shape == (rows, 4)
    copies = (chosen[:, :, None] == np.arange(4)).sum(axis=1)
    # the number of copies of a particle has variance at most P w, here at most 2
    assert abs(copies.mean(axis=0) - 4 * WEIGHTS[0]).max() < 4 * math.sqrt(2 / rows)
    assert (copies[:, 1] == 0).all()


@pytest.mark.parametrize(("scheme", "spread"), [("systematic", 1), ("residual", 3)])
def test_whole_shares_are_kept_for_certain(scheme, spread):
    """P w = 0.4, 0, 1.6, 2: of the last, two copies at least."""
    chosen = resample(np.random.default_rng(0), np.tile(WEIGHTS[0], (500, 1)), scheme)
    copies = (chosen == 3).sum(axis=1)
    assert copies.min() == 2
    assert copies.max() <= 1 + spread


@pytest.mark.parametrize("scheme", ["systematic", "stratified", "residual"])
def test_equal_weights_keep_every_particle(scheme):
    chosen = resample(np.random.default_rng(0), np.full((50, 4), 0.25), scheme)
    if scheme == "stratified":
        assert (np.sort(chosen, axis=1) == np.arange(4)).all()
    assert (chosen == np.arange(4)).all()


def test_systematic_places_are_one_and_the_same_in_each_part():
    """A place u in each quarter of 0.4, 0.4, 0.2 takes 2, 1, 1 or 1, 2, 1 or 2, 2, 0, by u."""
    chosen = resample(
        np.random.default_rng(0), np.tile([0.4, 0.4, 0.2, 0.0], (2000, 1)), "systematic"
    )
    kinds = {tuple(np.bincount(row, minlength=4)) for row in chosen}
    assert kinds == {(2, 1, 1, 0), (1, 2, 1, 0), (2, 2, 0, 0)}


@pytest.mark.parametrize("place", [0.0, 0.05, 0.1, 0.3, 0.5, 0.7, 0.999, 1.0])
def test_a_place_belongs_to_the_first_particle_that_passes_it(place):
    expected = next((i for i, top in enumerate((0.1, 0.1, 0.5, 1.0)) if top > place), 3)
    found = particles_at(WEIGHTS, np.full((2, 1), place))
    assert found[0, 0] == expected


def test_populations_are_compared_by_all_their_pairs():
    rng = np.random.default_rng(0)
    means = rng.integers(4, size=(3, 5)).astype(float)
    weights = rng.random((3, 5))
    weights /= weights.sum(axis=1, keepdims=True)
    expected = np.zeros(3)
    for i in range(3):
        for k in range(5):
            chance = weights[i, k]
            for j in {0, 1, 2} - {i}:
                below = weights[j][means[j] < means[i, k]].sum()
                tied = weights[j][means[j] == means[i, k]].sum()
                chance *= below + tied / 2
            expected[i] += chance
    assert compare_populations(means, weights) == pytest.approx(expected)
