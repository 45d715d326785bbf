"""The inner loops of the recursion: one stage of values from the stage after it.

Blocks are worked on by strips, of as many rows along the last axis but one as stay in the fastest
memory while one arm after the other is looked at.

Places are flat and unsigned, and no array is cut: a row is often shorter than what a view costs.
Records have the fields of `Solved` and `Successors`; see `agents.optimum.recursion` and `states`.
"""

import numpy as np

from bandit_gym.numerics.compiled import inner, kernel

STRIP = 1 << 10
"""States that are worked on at once, about."""


@inner
def _raise_to_arm(worth, values, means, later, places):  # type: ignore[no-untyped-def]
    """Raise a strip's values to what an arm is worth whose successes do not change along a row.

    Args:
        worth: flat array that is told what the arm is worth.
        values: flat array of values, raised to that.
        means: flat table, where in it the first row's mean is, and the step from row to row.
        later: values of the stage after, where the first row's begin after a failure and after a
            success, and the steps from row to row and along a row.
        places: where the strip begins in `values`, its number of rows and their length.
    """
    table, mean_at, mean_step = means
    after, failed, paid, row_step, step = later
    begin, num_rows, length = places
    for row in range(num_rows):
        mean, own = table[mean_at + row * mean_step], row * length
        fail, pay, place = failed + row * row_step, paid + row * row_step, begin + own
        for s in range(length):
            at_fail = after[np.uintp(fail + s * step)]
            found = at_fail + mean * (1.0 + (after[np.uintp(pay + s * step)] - at_fail))
            worth[np.uintp(own + s)] = found
            best = values[np.uintp(place + s)]
            values[np.uintp(place + s)] = found if found > best else best


@inner
def _raise_to_last_arm(worth, values, means, later, places):  # type: ignore[no-untyped-def]
    """Raise a strip's values to what the arm is worth whose successes the rows run over.

    Args are those of `_raise_to_arm`; the means of a row begin where the first one's is.
    """
    table, mean_at, _ = means
    after, failed, paid, row_step, _ = later
    begin, num_rows, length = places
    for row in range(num_rows):
        own = row * length
        fail, pay, place = failed + row * row_step, paid + row * row_step, begin + own
        for s in range(length):
            at_fail = after[np.uintp(fail + s)]
            mean = table[np.uintp(mean_at + s)]
            found = at_fail + mean * (1.0 + (after[np.uintp(pay + s)] - at_fail))
            worth[np.uintp(own + s)] = found
            best = values[np.uintp(place + s)]
            values[np.uintp(place + s)] = found if found > best else best


@inner
def _raise_strip(arm, block, s, places, record):  # type: ignore[no-untyped-def]
    """Raise a strip of a block, whose first row has successes `s`, to what an arm is worth."""
    solved, successors, means, later, worth = record
    num_arms, most = solved.stage.counts.shape[1], means.shape[1]
    failed, strides = successors.origins[block, arm], successors.strides
    for axis in range(num_arms - 1):
        failed += s[axis] * strides[block, arm, axis]
    paid = failed + strides[block, arm, arm]
    row_step, step = strides[block, arm, num_arms - 2], strides[block, arm, num_arms - 1]
    mean_at = ((arm % len(means)) * most + solved.stage.counts[block, arm]) * most
    table, own = means.reshape(means.size), worth[arm]
    if arm == num_arms - 1:
        after = (later, failed, paid, row_step, 1)
        _raise_to_last_arm(own, solved.values, (table, mean_at, 0), after, places)
        return
    of_row = (table, mean_at + s[arm], 1 if arm == num_arms - 2 else 0)
    if step == 1:
        after = (later, failed, paid, row_step, 1)
        _raise_to_arm(own, solved.values, of_row, after, places)
    else:  # the arm has moved behind the last one
        _raise_to_arm(own, solved.values, of_row, (later, failed, paid, row_step, step), places)


@inner
def _mark(solved, worth, least, places):  # type: ignore[no-untyped-def]
    """Mark the arms of a strip that are worth as much as the best, but for `least`."""
    begin, num_rows, length = places
    for arm in range(len(worth)):
        for place in range(num_rows * length):
            is_best = worth[arm, place] >= solved.values[np.uintp(begin + place)] - least
            bit = np.uint8(is_best) << np.uint8(arm)
            before = solved.choices[np.uintp(begin + place)] if arm else np.uint8(0)
            solved.choices[np.uintp(begin + place)] = before | bit


@inner
def _go_on(s, num_rows, counts):  # type: ignore[no-untyped-def]
    """Move successes of all arms but the last to the first row of the next strip."""
    axis = len(s) - 1
    s[axis] += num_rows
    while axis > 0 and s[axis] > counts[axis]:
        s[axis] = 0
        axis -= 1
        s[axis] += 1
    if s[0] > counts[0]:
        s[0] = 0


@kernel
def fill_stage(solved, successors, means, later, least):  # type: ignore[no-untyped-def]
    """Fill a stage with values and, where there is room, choices."""
    stage, num_arms = solved.stage, solved.stage.counts.shape[1]
    worth = np.empty((num_arms, STRIP + means.shape[1]))
    record = (solved, successors, means, later, worth)
    s = np.zeros(num_arms - 1, dtype=np.int64)
    for block in range(len(stage.counts)):
        counts = stage.counts[block]
        length, begin = counts[num_arms - 1] + 1, stage.offsets[block]
        while begin < stage.offsets[block + 1]:
            num_rows = min(1 + STRIP // length, counts[num_arms - 2] + 1 - s[num_arms - 2])
            for place in range(begin, begin + num_rows * length):
                solved.values[np.uintp(place)] = 0.0
            places = (begin, num_rows, length)
            for arm in range(num_arms):
                _raise_strip(arm, block, s, places, record)
            if len(solved.choices):
                _mark(solved, worth, least, places)
            begin += num_rows * length
            _go_on(s, num_rows, counts)
