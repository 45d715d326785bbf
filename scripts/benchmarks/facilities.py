"""What hand-written numerics buy: each against what NumPy, SciPy or Numba offer for the same work.

Compiled loops take the blocks that agents give them, 100 times in a call, so that the call costs
nothing. Gamma variates have the shapes of Beta posteriors spread over an episode.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numba import njit
from numpy.random import Generator
from scipy import special, stats

from agents import ExactThompson
from agents.numerics.kernels import BLOCK_SIZE
from agents.numerics.laws import draw_gammas
from agents.numerics.vector_math import exp_all, log_all
from bandit_gym.envs.families import unit_vector_covariance
from bandit_gym.numerics import truncated_normal
from bandit_gym.numerics.truncated_normal import tilt_box
from bandit_gym.numerics.variates import poisson_quantile
from benchmarks.games import conjugate_problem
from benchmarks.session import Contestants, Measurement, Session
from benchmarks.timing import Contestant, rounds_of

NUM_REPEATS = 100
NUM_QUANTILES = 2000
NUM_BOXED = 100
EXP, LOG = (exp_all, math.exp, np.exp), (log_all, math.log, np.log)

compiled = njit(error_model="numpy")


def measurements(session: Session) -> Iterator[Measurement]:
    """Tell of variates, vector code and draws ahead; of quantiles and boxes of worlds."""
    matches: dict[str, tuple[str, tuple[str, ...], Callable[[], Contestants]]] = {
        "gammas": (f"{BLOCK_SIZE} gamma variates", ("numba", "numpy"), _gammas),
        "exp": (f"exp of {BLOCK_SIZE}", ("numba", "numpy"), partial(_vectors, *EXP)),
        "log": (f"log of {BLOCK_SIZE}", ("numba", "numpy"), partial(_vectors, *LOG)),
        "ahead": ("exact TS, draws ahead", ("kernel",), _ahead),
        "truncated": ("truncated normal quantiles", ("scipy",), _truncated),
        "poisson-2": ("Poisson quantiles, mean 2", ("scipy", "pdtrik"), partial(_poisson, 2.0)),
        "poisson-30": ("Poisson quantiles, mean 30", ("scipy", "pdtrik"), partial(_poisson, 30.0)),
        "box-2": ("normal draws in a box, K = 2", ("rejection",), partial(_box, 2)),
        "box-10": ("normal draws in a box, K = 10", ("rejection",), partial(_box, 10)),
    }
    for key, (title, others, contestants) in matches.items():
        ratios = {f"facilities.{key}.{other}": (other, "ours") for other in others}
        yield session.match(
            f"{title}: ", ratios, "decision" if key == "ahead" else "number", contestants
        )


def numba_gammas(rng: Generator, shapes: np.ndarray, out: np.ndarray) -> None:
    """Draw with the method that Numba gives a generator."""
    for j in range(out.size):
        out[j] = rng.standard_gamma(shapes[j])


def copying(function: Callable) -> Callable:
    """Copy first what a function replaces."""

    def apply(x: np.ndarray, out: np.ndarray, spare: np.ndarray) -> None:
        for j in range(out.size):
            out[j] = x[j]
        function(out, spare)

    return apply


def looping(function: Callable) -> Callable:
    """Call the C library for one number after the other."""

    def apply(x: np.ndarray, out: np.ndarray) -> None:
        for j in range(out.size):
            out[j] = function(x[j])

    return apply


def _loops(num: int, function: Callable, *arguments: Any) -> Contestant:
    """Make a contestant of a function for kernels, which does `num` numbers."""
    once = compiled(function)

    @compiled
    def repeat(*arguments: Any) -> None:
        for _ in range(NUM_REPEATS):
            once(*arguments)

    return rounds_of(partial(repeat, *arguments), num * NUM_REPEATS)


def _calls(num: int, function: Callable, *arguments: Any) -> Contestant:
    """Make a contestant of a function for Python, which does `num` numbers."""
    return rounds_of(partial(function, *arguments), num)


def _gammas() -> Contestants:
    rng, out = np.random.default_rng(0), np.empty(BLOCK_SIZE)
    shapes = np.exp(rng.uniform(0, math.log(200), BLOCK_SIZE))
    return {
        "ours": _loops(BLOCK_SIZE, draw_gammas, rng, shapes, out),
        "numba": _loops(BLOCK_SIZE, numba_gammas, rng, shapes, out),
        "numpy": _calls(BLOCK_SIZE, rng.standard_gamma, shapes),
    }


def _vectors(ours: Callable, numba: Callable, numpy: Callable) -> Contestants:
    x = np.random.default_rng(0).uniform(1e-9, 1, BLOCK_SIZE)
    out, spare = np.empty((2, BLOCK_SIZE))
    return {
        "ours": _loops(BLOCK_SIZE, copying(ours), x, out, spare),
        "numba": _loops(BLOCK_SIZE, looping(numba), x, out),
        "numpy": _calls(BLOCK_SIZE, numpy, x, out),
    }


def _ahead() -> Contestants:
    """Take two lanes for the kernel, which one lane alone does not call and which cost the same."""

    def play(num_lanes: int) -> Contestant:
        agent = ExactThompson(conjugate_problem(1.0))
        rewards = np.random.default_rng(0).integers(2, size=(500, num_lanes)).astype(float)

        def episode() -> None:
            agent.reset(num_lanes, seed=0)
            for row in rewards:
                agent.observe(agent.act(), row)

        return rounds_of(episode, len(rewards))

    return {"ours": play(1), "kernel": play(2)}


def _truncated() -> Contestants:
    rng = np.random.default_rng(0)
    low, uniforms = rng.normal(0, 3, NUM_QUANTILES), rng.random(NUM_QUANTILES)
    high = low + rng.exponential(3, NUM_QUANTILES)
    return {
        "ours": _calls(NUM_QUANTILES, truncated_normal.quantile, low, high, uniforms),
        "scipy": _calls(NUM_QUANTILES, stats.truncnorm.ppf, uniforms, low, high),
    }


def _poisson(mean: float) -> Contestants:
    uniforms = np.random.default_rng(0).random(NUM_QUANTILES)
    return {
        "ours": _calls(NUM_QUANTILES, poisson_quantile, np.float64(mean), uniforms),
        "scipy": _calls(NUM_QUANTILES, stats.poisson.ppf, uniforms, mean),
        "pdtrik": _calls(NUM_QUANTILES, special.pdtrik, uniforms, mean),
    }


def _box(num_arms: int) -> Contestants:
    """Take the paper's dependent prior: unit vectors' covariance, mean 0.5, the unit box."""
    rng = np.random.default_rng(0)
    mean, covariance = np.full(num_arms, 0.5), unit_vector_covariance(num_arms, None, 0)
    box = tilt_box(mean, covariance, np.zeros(num_arms), np.ones(num_arms))

    def reject() -> None:
        num_found = 0
        while num_found < NUM_BOXED:
            x = rng.multivariate_normal(mean, covariance, 10_000, method="cholesky")
            num_found += int(((x > 0) & (x < 1)).all(axis=1).sum())

    return {
        "ours": _calls(NUM_BOXED, box.sample, rng, NUM_BOXED),
        "rejection": _calls(NUM_BOXED, reject),
    }
