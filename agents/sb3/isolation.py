"""Running PyTorch and SB3 code without touching, or being touched by, global random state."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.random import Generator


@contextmanager
def isolated(rng: Generator) -> Iterator[None]:
    """Run a block on random streams made from `rng`, and on one thread; restore both afterwards.

    SB3 draws from the global generators of Python, NumPy and PyTorch. Inside, these are seeded from
    the caller's own generator, so what the block does depends on that alone. One thread is the
    fastest for networks of this size, and results then do not depend on the number of cores.

    Args:
        rng: the caller's generator, from which one integer is drawn.
    """
    seed = int(rng.integers(2**32))
    python_state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002
    # torch.manual_seed would do, but formats the call stack each time: 3 ms against 20 us.
    generators = (torch.default_generator, *torch.cuda.default_generators)
    torch_states = [generator.get_state() for generator in generators]
    num_threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002  # the stream that SB3 itself draws from
        for generator in generators:
            generator.manual_seed(seed)
        yield
    finally:
        torch.set_num_threads(num_threads)
        random.setstate(python_state)
        np.random.set_state(numpy_state)  # noqa: NPY002
        for generator, state in zip(generators, torch_states, strict=True):
            generator.set_state(state)
