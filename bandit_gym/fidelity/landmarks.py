"""Where the mass of a posterior may lie: told by the prior's parameters and the data.

Letters: K arms, L landmarks, each a centre and a scale.
"""

import numpy as np

from bandit_gym.likelihoods import Likelihood
from bandit_gym.priors import Beta, Gamma, InverseGamma, Normal, TruncatedNormal
from bandit_gym.priors.independent import IndependentPrior
from bandit_gym.priors.mixtures import Mixture
from bandit_gym.typing import FloatArray

SMALL = 2.0**-50
"""Scale of an end, in units of the support or of 1."""


def prior_landmarks(law: IndependentPrior | Mixture, num_arms: int) -> FloatArray:
    """Return (L, 2) centres and scales of all bulks that a prior has."""
    parts = law.components if isinstance(law, Mixture) else (law,)
    return np.concatenate([_bulk(part, num_arms) for part in parts])


def data_landmarks(likelihood: Likelihood, counts: FloatArray, sums: FloatArray) -> FloatArray:
    """Return (L, 2) most likely means of the arms with data, and their standard errors."""
    pulled = counts > 0
    n, centre = counts[pulled], sums[pulled] / counts[pulled]
    with np.errstate(all="ignore"):
        error = likelihood.reward_std(np.clip(centre, *likelihood.support)) / np.sqrt(n)
    return np.column_stack([centre, np.where(error > 0, error, 1 / n)])


def end_landmarks(support: FloatArray) -> FloatArray:
    """Return the finite ones of (K, 2) ends, with scales."""
    finite = np.unique(support[np.isfinite(support)])
    width = np.ptp(finite) if len(finite) > 1 else 1.0
    return np.column_stack([finite, np.full(len(finite), SMALL * width)])


def balances(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the centres and scales of products of normal laws, one of each list."""
    a, b = first[:, None], second[None]
    both = np.hypot(a[..., 1], b[..., 1])
    share = (b[..., 1] / both) ** 2
    centre = share * a[..., 0] + (1 - share) * b[..., 0]
    return np.stack([centre, a[..., 1] / both * b[..., 1]], axis=-1).reshape(-1, 2)


def _bulk(law: IndependentPrior, num_arms: int) -> FloatArray:
    """Return (K, 2) centres and scales of a law with one bulk."""
    with np.errstate(divide="ignore"):
        centre, scale = _location(law)
    return np.column_stack([np.broadcast_to(part, num_arms) for part in (centre, scale)])


def _location(law: IndependentPrior) -> tuple[FloatArray, FloatArray]:
    if isinstance(law, Normal | TruncatedNormal):
        return np.asarray(law.mean), np.asarray(law.std)
    if isinstance(law, Beta):
        a, b = np.asarray(law.alpha), np.asarray(law.beta)
        return a / (a + b), np.sqrt(a * b / (a + b + 1)) / (a + b)
    if isinstance(law, Gamma):
        return np.asarray(law.shape) / law.rate, np.sqrt(law.shape) / law.rate
    if isinstance(law, InverseGamma):
        mode = np.asarray(law.scale) / (np.asarray(law.shape) + 1)
        return mode, mode / np.sqrt(np.asarray(law.shape) + 1)
    raise TypeError(f"law must be one whose bulk is known, got {law!r}.")
