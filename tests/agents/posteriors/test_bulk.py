"""Where mass is looked for, by hand."""

import numpy as np
import pytest

from agents.posteriors.bulk import (
    GAIN,
    bound_step,
    cut_step,
    largest_of,
    may_stand_out,
    stands_out,
    trim,
)


@pytest.mark.parametrize("prior", [[0.0, 3.0], [3.0, 0.0]])
@pytest.mark.parametrize("gain", [[2.0, -1.0], [-1.0, 2.0]])
def test_a_step_is_bounded_by_the_largest_prior_and_the_largest_likelihood(prior, gain):
    places = np.array([[0.0, 1.0], [0.0, 1.0], prior, gain])
    assert bound_step(places, 0) == 5.0


def test_places_are_left_out_on_either_side_up_to_the_steps_that_have_mass():
    """Of steps with bounds 0, 5, 9, 9, 7, 1 those above 4 stay, with the places at their ends."""
    places = np.zeros((4, 7))
    places[0] = places[1] = np.arange(7.0)
    places[2] = [0.0, 0.0, 5.0, 9.0, 7.0, 1.0, 1.0]
    num, lost = trim(places, 7, 4.0)
    assert num == 5
    assert lost == pytest.approx(np.exp(-4.0) + np.exp(-3.0))  # of steps of length 1
    assert places[0, :5].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert places[2, :5].tolist() == [0.0, 5.0, 9.0, 7.0, 1.0]
    assert trim(places, 5, 10.0)[0] == 0


@pytest.mark.parametrize(
    ("prior", "gain"),
    [
        ([0.0, 0.0], [-5.0, -3.0]),
        ([0.0, 0.0], [-3.0, -5.0]),
        ([0.0, 2.0], [0.0, -5.0]),
        ([2.0, 0.0], [-5.0, 0.0]),
    ],
)
def test_a_peak_stands_out_by_six_above_the_lower_of_the_places_beside_it(prior, gain):
    places, peak = np.array([[0.0, 1.0], [0.0, 1.0], prior, gain]), np.zeros(4)
    for height, is_out in ((0.9, False), (1.1, True)):
        peak[GAIN] = height
        assert stands_out(places, peak, 0) == is_out
    assert not stands_out(places, peak, 1)


@pytest.mark.parametrize(
    ("gain", "may"),
    [
        ([-3.0, -1.0, -1.0, -3.0], False),
        ([-10.0, -1.0, -1.0, -1.5], True),
        ([-1.5, -1.0, -1.0, -10.0], True),
    ],
)
def test_a_peak_may_stand_out_where_the_likelihood_is_steep_on_either_side(gain, may):
    for first in range(3):  # places further left do not matter
        steps = np.arange(4.0 + first)
        places = np.array([steps, steps, 0.0 * steps, [*[-20.0] * first, *gain]])
        assert may_stand_out(places, first + 1) == may
        assert may_stand_out(places, 0) and may_stand_out(places, first + 2)


@pytest.mark.parametrize(
    ("part", "shares"),
    [(0.5, [0.5]), (0.4, [0.5]), (0.3, [0.3, 0.45, 0.6, 0.75]), (0.2, [0.2, 0.3, 0.4, 0.5])],
)
def test_cuts_are_closer_to_the_higher_end(part, shares):
    """The first is where the parabola has changed by what is allowed, the next half of that on."""
    cuts = np.full(9, np.nan)
    num = cut_step(2.0, 4.0, part, True, cuts, 1)
    assert cuts[1:num] == pytest.approx(2.0 + 2.0 * np.array(shares))
    num = cut_step(2.0, 4.0, part, False, cuts, 1)
    assert cuts[1:num] == pytest.approx(4.0 - 2.0 * np.array(shares[::-1]))
    assert np.isnan(cuts[[0, *range(num, 9)]]).all()


@pytest.mark.parametrize("size", range(1, 10))
def test_the_largest_is_found_wherever_it_is(size):
    for place in range(size):
        x = np.full(size, -np.inf)
        x[place] = -3.0
        assert largest_of(x) == -3.0
