"""Philox4x64-10, the numbers of `numpy.random.Philox`, for many streams in one compiled loop.

NumPy's own generators cost 3 µs each before the first number, to be put where a stream begins.

References:
    Salmon, Moraes, Dror and Shaw (2011), "Parallel random numbers: as easy as 1, 2, 3".
"""

from __future__ import annotations

import numpy as np

from bandit_gym.numerics.compiled import inner, kernel

_FACTORS = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
_KEY_STEPS = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)
_NUM_ROUNDS = 10
_LOW, _HALF_BITS = np.uint64(0xFFFFFFFF), np.uint64(32)
_ZERO, _ONE, _TWO, _THREE = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3)
_EXCESS_BITS, _UNIFORM_STEP = np.uint64(11), 2.0**-53  # of 64; and what each of 53 is worth


@kernel
def fill_uniforms(
    keys: np.ndarray, episodes: np.ndarray, purpose: int, first: np.ndarray, out: np.ndarray
) -> None:
    """Fill each column with what follows in its stream.

    Column i is `Generator(Philox(key=keys[i], counter=[0, 0, episodes[i], purpose])).random(n)`
    without the first `first[i]` numbers.

    Args:
        keys: (M,) uint64.
        episodes: (M,) uint64.
        purpose: the same in all columns.
        first: (M,) uint64 how many numbers of its stream a column leaves out.
        out: (W, M) receives the numbers.
    """
    for i in range(out.shape[1]):
        numbers = _ONE, _ONE, _ONE, _ONE  # replaced at once, by the block that holds the first
        for row in range(out.shape[0]):
            place = first[i] + np.uint64(row)
            if row == 0 or place & _THREE == 0:
                block_number = (place >> _TWO) + _ONE  # NumPy adds 1 before it uses a counter
                numbers = scramble_counter(keys[i], block_number, episodes[i], np.uint64(purpose))
            out[row, i] = (numbers[place & _THREE] >> _EXCESS_BITS) * _UNIFORM_STEP


@inner
def scramble_counter(
    key: np.uint64, block_number: np.uint64, episode: np.uint64, purpose: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    """Return the four numbers of the counter (place, 0, episode, purpose) under a key."""
    a, b, c, d = block_number, _ZERO, episode, purpose
    left, right = key, _ZERO
    for _ in range(_NUM_ROUNDS):
        a, b, c, d = (
            high_word(_FACTORS[1], c) ^ b ^ left,
            _FACTORS[1] * c,
            high_word(_FACTORS[0], a) ^ d ^ right,
            _FACTORS[0] * a,
        )
        left, right = left + _KEY_STEPS[0], right + _KEY_STEPS[1]
    return a, b, c, d


@inner
def high_word(x: np.uint64, y: np.uint64) -> np.uint64:
    """Return the upper half of a product of 128 bits, for which LLVM finds the one instruction."""
    x_low, x_high, y_low, y_high = x & _LOW, x >> _HALF_BITS, y & _LOW, y >> _HALF_BITS
    middle = x_high * y_low + ((x_low * y_low) >> _HALF_BITS)
    carry = x_low * y_high + (middle & _LOW)
    return x_high * y_high + (middle >> _HALF_BITS) + (carry >> _HALF_BITS)
