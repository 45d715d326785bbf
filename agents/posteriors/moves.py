"""Metropolis steps that leave a posterior as it is, for populations of particles.

Notation: K arms, R populations of P particles of the means of D arms.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from bandit_gym.problem import BanditProblem

PROPOSAL_SCALE = 2.4
"""Standard deviations of a random-walk proposal in those of the population (Gelman et al. 1996)."""


class PopulationData(NamedTuple):
    """What R populations know; of new data that are added by stages, a share.

    Attributes:
        arms: (R, D) the arms whose means their particles are.
        counts: (R, D) pulls of these.
        sums: (R, D) their total rewards.
    """

    arms: np.ndarray
    counts: np.ndarray
    sums: np.ndarray


def move_particles(
    rng: Generator,
    problem: BanditProblem,
    particles: np.ndarray,
    data: PopulationData,
    *,
    uses_principal_axes: bool,
) -> np.ndarray:
    """Return (R, P, D) particles after a Metropolis step along each of D `step_directions`."""
    directions = step_directions(particles, uses_principal_axes=uses_principal_axes)
    possible = particles[:, :1]
    current = _log_posterior(problem, particles, data, possible)
    for d in range(particles.shape[2]):
        sizes = PROPOSAL_SCALE * rng.standard_normal(particles.shape[:2])
        proposed = particles + sizes[..., None] * directions[:, d, None]
        log_density = _log_posterior(problem, proposed, data, possible)
        chance = -rng.standard_exponential(particles.shape[:2])
        is_accepted = log_density - current > chance
        particles = np.where(is_accepted[..., None], proposed, particles)
        current = np.where(is_accepted, log_density, current)
    return particles


def step_directions(particles: np.ndarray, *, uses_principal_axes: bool) -> np.ndarray:
    """Return (R, D, D) D steps of one standard deviation for each of (R, P, D) populations.

    Along the principal axes, or along each coordinate the deviation given all others.
    """
    centred = particles - particles.mean(axis=1, keepdims=True)
    covariance = centred.transpose(0, 2, 1) @ centred / particles.shape[1]
    variances, axes = np.linalg.eigh(covariance)
    if uses_principal_axes:
        return axes.transpose(0, 2, 1) * np.sqrt(np.maximum(variances, 0.0))[:, :, None]
    floor = np.maximum(1e-12 * variances[:, -1:], 1e-300)
    precisions = np.square(axes) @ (1 / np.maximum(variances, floor))[:, :, None]
    return np.eye(particles.shape[2]) / np.sqrt(precisions)


def _log_posterior(
    problem: BanditProblem, particles: np.ndarray, data: PopulationData, possible: np.ndarray
) -> np.ndarray:
    """Return (R, P) log posterior densities given the data, up to a constant.

    Args:
        problem: likelihood and prior.
        particles: (R, P, D) means.
        data: what they are weighed by.
        possible: (R, 1, D) means at which a user's density may be asked, in place of others.
    """
    low, high = problem.arm_support().T
    arms = data.arms[:, None]
    is_inside = (particles >= low[arms]) & (particles <= high[arms])
    is_possible = np.all(is_inside & problem.likelihood.contains(particles), axis=2)
    inside = np.where(is_possible[..., None], particles, possible)
    log_density = _log_prior(problem, inside, data.arms)
    known = data.counts[:, None], data.sums[:, None]
    log_likelihood = problem.likelihood.log_likelihood(inside, *known).sum(axis=2)
    return np.where(is_possible, log_density + log_likelihood, -np.inf)


def _log_prior(problem: BanditProblem, particles: np.ndarray, arms: np.ndarray) -> np.ndarray:
    """Return (R, P) log prior densities of (R, P, D) means of (R, D) arms, one of them or all."""
    prior: Any = problem.prior
    if arms.shape[1] == problem.num_arms:
        return prior.log_density(particles)
    arm = arms[:, 0]
    order = np.argsort(arm, kind="stable")
    occurrence = np.empty_like(
        arm
    )  # how often a row's arm has come before: rows of one place share one
    occurrence[order] = np.arange(len(arm)) - np.searchsorted(arm, arm, sorter=order)[order]
    shape = occurrence.max() + 1, particles.shape[1], problem.num_arms
    packed = np.broadcast_to(particles[: shape[0]], shape).copy()
    packed[occurrence, :, arm] = particles[..., 0]
    return prior.arm_log_density(packed)[occurrence, :, arm]
