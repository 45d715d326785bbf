"""Streams are those of `numpy.random.Philox`, whoever makes the numbers."""

import numpy as np
import pytest
from numpy.random import Generator, Philox

from bandit_gym.numerics import streams
from bandit_gym.numerics.philox import fill_uniforms
from bandit_gym.numerics.streams import LARGEST_SEED, LaneStreams, draw_seeds

SEEDS = [0, 1, 12345, 2**63 + 5, LARGEST_SEED]
LANES = np.arange(len(SEEDS))


def expected(seed: int, episode: int, purpose: int, start: int, count: int) -> list[float]:
    rng = Generator(Philox(key=seed, counter=[0, 0, episode, purpose]))
    return rng.random(start + count)[start:].tolist()


def make_streams(num_episodes: int) -> LaneStreams:
    made = LaneStreams(len(SEEDS))
    made.seed(LANES, SEEDS)
    for _ in range(num_episodes):
        made.advance(LANES)
    return made


@pytest.mark.parametrize("num_reads", [0, 10**9], ids=["compiled", "numpy"])
@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 8, 13])
def test_uniforms_are_those_of_numpy_wherever_a_read_begins(
    num_reads: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "WORTH_COMPILING", num_reads)
    first = np.array([0, 1, 2, 3, 1000])
    drawn = make_streams(3).uniforms(1, LANES, first, count)
    assert drawn.shape == (count, len(SEEDS))
    for lane, seed in enumerate(SEEDS):
        assert drawn[:, lane].tolist() == expected(seed, 2, 1, first[lane], count)


def test_kernel_counts_on_where_one_word_of_the_counter_ends() -> None:
    """The place of the last block below 2^64, beyond which no read gets in a lifetime."""
    key, last = np.array([7], dtype=np.uint64), np.array([2**64 - 8], dtype=np.uint64)
    out = np.empty((4, 1))
    fill_uniforms(key, key, 1, last, out)
    rng = Generator(Philox(key=7, counter=[2**62 - 2, 0, 7, 1]))
    assert out[:, 0].tolist() == rng.random(4).tolist()


def test_generators_begin_at_the_streams_and_are_made_once() -> None:
    made = make_streams(1)
    rngs = made.generators(0, LANES)
    assert [rng.random() for rng in rngs] == [expected(seed, 0, 0, 0, 1)[0] for seed in SEEDS]
    rngs[0].integers(10, dtype=np.int32)  # leaves half a number behind
    made.advance(LANES)
    again = made.generators(0, LANES)
    assert all(one is other for one, other in zip(rngs, again, strict=True))
    assert again[0].integers(10, dtype=np.int32) == Generator(
        Philox(key=SEEDS[0], counter=[0, 0, 1, 0])
    ).integers(10, dtype=np.int32)


def test_new_seed_begins_again_with_the_first_episode() -> None:
    made = make_streams(5)
    made.seed(np.array([1]), [99])
    made.advance(LANES)
    assert made.episodes.tolist() == [5, 0, 5, 5, 5]
    assert made.seeds.tolist() == [0, 99, *SEEDS[2:]]


def test_drawn_seeds_differ() -> None:
    assert len({*draw_seeds(100), *draw_seeds(100)}) == 200


def test_streams_of_neighbours_are_not_correlated() -> None:
    """Of seeds, of episodes and of purposes: correlations of n numbers are about 1 / sqrt(n)."""
    count, made = 20_000, LaneStreams(3)
    lanes = np.arange(3)
    made.seed(lanes, [0, 1, 2])
    rows = []
    for _ in range(2):
        made.advance(lanes)
        rows += [made.uniforms(purpose, lanes, 0 * lanes, count).T for purpose in (0, 1)]
    correlations = np.corrcoef(np.concatenate(rows))[np.triu_indices(12, 1)]
    assert np.abs(correlations).max() <= 4 / count**0.5
