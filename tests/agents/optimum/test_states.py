from itertools import product

import numpy as np
import pytest

from agents.optimum.states import bytes_needed, make_stage, make_successors


def states_of(stage):
    """Every state of a stage, in its place: (counts, successes) of the arms."""
    return [
        list(zip(counts.tolist(), successes, strict=True))
        for counts in stage.counts
        for successes in product(*(range(n + 1) for n in counts))
    ]


@pytest.mark.parametrize("num_arms", [2, 3, 4])
@pytest.mark.parametrize("is_symmetric", [True, False])
def test_every_pull_leads_to_the_state_that_it_makes(num_arms, is_symmetric):
    stage, later = (make_stage(t, num_arms, is_symmetric) for t in (4, 5))
    successors, reached = make_successors(stage, later, is_symmetric), states_of(later)
    for block, counts in enumerate(stage.counts):
        for s in product(*(range(n + 1) for n in counts)):
            for arm, reward in product(range(num_arms), (0, 1)):
                stride = successors.strides[block, arm]
                place = successors.origins[block, arm] + s @ stride + reward * stride[arm]
                expected = list(zip(counts.tolist(), s, strict=True))
                expected[arm] = (expected[arm][0] + 1, expected[arm][1] + reward)
                if is_symmetric:
                    assert sorted(reached[place]) == sorted(expected)
                else:
                    assert reached[place] == expected


def test_like_arms_are_kept_in_one_order_of_their_pulls():
    stage = make_stage(7, 3, True)
    expected = [n for n in product(range(8), repeat=3) if sum(n) == 7 and n == tuple(sorted(n))]
    assert stage.counts.tolist() == [list(n) for n in expected]


def test_memory_is_counted_in_states_of_the_last_stage():
    for is_symmetric in (True, False):
        states = make_stage(29, 3, is_symmetric).num_states
        assert bytes_needed(30, 3, is_symmetric) == 19 * states
    assert np.isfinite(bytes_needed(10**9, 5, True))
