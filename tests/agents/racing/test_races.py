"""Races in rounds, with a proposal that says what was asked of it."""

import numpy as np

from agents.numerics.kernels import make_draws
from agents.racing.races import Races
from agents.racing.stopping import fixed_rule, self_normalised_rule

NUM_LANES, NUM_ARMS = 60, 3


class Recorder:
    """A proposal of equal weights that counts what it draws."""

    draw_cost, expected_samples = 20.0, 16.0
    num_drawn = 0

    def weighed_laws(self):
        return None

    def run_races(self, rng, races, lanes, chunk_size):
        return False

    def draw(self, rng, lanes, num_samples):
        self.num_drawn += len(lanes) * num_samples
        draws = make_draws(len(lanes), NUM_ARMS, num_samples)
        draws.winners[:] = rng.integers(NUM_ARMS, size=draws.winners.shape)
        return draws


def _run(rule, shares, rng):
    gumbels, proposal = rng.gumbel(size=(NUM_LANES, NUM_ARMS)), Recorder()
    races = Races.start(rule, gumbels, rule.lengths(shares))
    races.run(rng, proposal, np.arange(NUM_LANES))
    return races, proposal.num_drawn


def test_races_of_fixed_length_draw_that_many_samples_and_no_more(rng):
    races, num_drawn = _run(fixed_rule(7), np.ones(NUM_LANES), rng)
    assert (races.num_samples == 7).all()
    assert num_drawn == 7 * NUM_LANES


def test_races_of_one_known_length_draw_no_more(rng):
    races, num_drawn = _run(self_normalised_rule(1e-9, 12.0, 100), np.full(NUM_LANES, 0.5), rng)
    assert (races.num_samples == 24).all()
    assert num_drawn == 24 * NUM_LANES


def test_the_cap_bounds_what_is_drawn(rng):
    races, num_drawn = _run(self_normalised_rule(1e-9, 12.0, 20), np.full(NUM_LANES, 0.1), rng)
    assert (races.num_samples == 20).all() and races.is_capped().all()
    assert num_drawn == 20 * NUM_LANES


def test_lanes_of_like_lengths_are_drawn_for_together(rng):
    shares = rng.permutation(np.repeat([0.9, 0.3], NUM_LANES // 2))
    races, num_drawn = _run(self_normalised_rule(1e-9, 12.0, 100), shares, rng)
    assert num_drawn < 1.3 * races.num_samples.sum()


def test_few_effective_samples_are_poor_and_short_races_of_equal_weights_are_not(rng):
    """Below 3, or below nine tenths of the samples."""
    races = Races.start(fixed_rule(2), rng.gumbel(size=(4, 2)), np.full(4, 2))
    races.num_samples[:] = 2, 2, 100, 100
    assert races.is_poor(np.array([1.7, 1.9, 2.9, 3.1])).tolist() == [True, False, True, False]
