"""Compiled loops over lanes on several threads, with results that do not depend on their number.

Lanes are cut into pieces, always the same ones where anything is drawn: the first piece draws from
the caller's generator, each other from a generator that is seeded by it. How many threads there
are is what Numba was told (NUMBA_NUM_THREADS, else all cores); a block of an experiment, one of
which runs in each worker, has one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

import numpy as np
from numpy.random import PCG64, Generator

LANES_PER_STREAM = 1000
"""Lanes that share a stream of random numbers; a generator costs as much as 40 of their draws."""

MOST_PIECES = 64
"""That are cut for threads."""

_told: ContextVar[int | None] = ContextVar("number of threads", default=None)


def count_threads() -> int:
    """Return how many threads loops may use."""
    told = _told.get()
    if told is not None:
        return told
    import numba  # which takes a second to load

    settings: Any = numba.config
    return int(settings.NUMBA_NUM_THREADS)  # get_num_threads starts what no fork survives


@contextmanager
def limited_to(num_threads: int) -> Iterator[None]:
    """Let loops use so many threads, whatever Numba was told."""
    token = _told.set(num_threads)
    try:
        yield
    finally:
        _told.reset(token)


def draw_in_pieces(
    draw: Callable[[Generator, slice], None], rng: Generator, num_lanes: int
) -> None:
    """Call `draw` for all lanes, each piece of them with a stream of its own.

    Args:
        draw: is handed a generator, and the lanes to draw for.
        rng: of the first piece, and what makes those of the others.
        num_lanes: N.
    """
    if num_lanes <= LANES_PER_STREAM:
        return draw(rng, slice(0, num_lanes))
    starts = range(0, num_lanes, LANES_PER_STREAM)
    seeds = rng.integers(2**64, size=(len(starts) - 1, 2), dtype=np.uint64)
    streams = [rng, *(Generator(PCG64(seed)) for seed in seeds)]
    pieces = [slice(start, start + LANES_PER_STREAM) for start in starts]
    side_by_side(draw, streams, pieces)
    return None


def cut(size: int, least: int) -> list[slice]:
    """Cut so many items into a piece for each thread, none of fewer than `least` items."""
    if size < 2 * least:
        return [slice(0, size)]
    num_pieces = max(1, min(count_threads(), MOST_PIECES, size // least))
    edges = [size * piece // num_pieces for piece in range(num_pieces + 1)]
    return [slice(*pair) for pair in zip(edges[:-1], edges[1:], strict=True)]


def side_by_side(function: Callable, *arguments: list) -> list:
    """Return what a function gives for each set of arguments, as `map` does."""
    if len(arguments[0]) == 1 or count_threads() == 1:
        return list(map(function, *arguments))
    return list(_pool(os.getpid(), count_threads()).map(function, *arguments))


@cache
def _pool(process: int, num_threads: int) -> ThreadPoolExecutor:
    """Return threads that stay; a process that was forked has none of its parent's."""
    return ThreadPoolExecutor(num_threads, thread_name_prefix=f"bandit_gym-{process}")
