"""NUTS, the no-U-turn sampler: one chain, of which every so many draws are kept.

Hoffman and Gelman (2014), "The No-U-Turn Sampler", by the library nutpie with its own warm-up and
settings. The budget is matched to that of `langevin.py`: some 50 slopes a draw that is kept; the
warm-up, once a call, comes on top. So a decision alone takes a warm-up of its own, and whole runs
are out of reach.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from bandit_gym.problem import BanditProblem
from outsiders.target import Target, find_mode

THINNING = 10
"""Draws of the chain for one that is kept; at 3 to 7 slopes each."""


def nuts(
    problem: BanditProblem, counts: np.ndarray, sums: np.ndarray, rng: Generator, size: int
) -> np.ndarray:
    """Draw (size, K) means, of one chain. Needs the library nutpie."""
    import nutpie
    from nutpie.compiled_pyfunc import from_pyfunc

    target, shape = Target(problem, counts, sums), (problem.num_arms,)
    mode, curvature = (each[0] for each in find_mode(target))
    start = mode + rng.standard_normal(shape) / np.sqrt(-curvature)  # slopes are none at the mode
    model = from_pyfunc(
        shape[0], lambda: partial(_log_density, target), lambda *_: lambda line: {"line": line},
        [np.dtype(np.float64)], [shape], ["line"], make_initial_point_fn=lambda seed: start,
    )  # fmt: skip
    settings: dict[str, Any] = {"chains": 1, "cores": 1, "progress_bar": False}
    seed = int(rng.integers(2**32))
    trace = nutpie.sample(model, draws=THINNING * size, seed=seed, save_warmup=False, **settings)
    return target.means(trace.posterior["line"].to_numpy()[0, THINNING - 1 :: THINNING])


def _log_density(target: Target, line: np.ndarray) -> tuple[float, np.ndarray]:
    return float(target.log_density(line[None])[0]), target.slope(line[None])[0]
