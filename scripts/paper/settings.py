"""What is run for each table and figure: the paper's settings, and our choice where it has none.

Everything the paper leaves open is a row here and is printed beside the result.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

DELTAS = (0.1, 0.3, 0.5, 0.7)
SIGMAS = (0.1, 0.3, 0.5, 0.7)

TABLE_2 = np.array([
    ((353.4, 19.3), (36.4, 21.6), (13.4, 23.2), (6.3, 27.8)),
    ((251.6, 19.8), (26.7, 21.4), (8.9, 24.8), (4.8, 28.0)),
    ((213.0, 20.1), (20.3, 21.8), (7.2, 24.5), (2.9, 29.2)),
    ((184.9, 20.2), (17.9, 22.8), (5.5, 25.2), (2.0, 29.4)),
])  # fmt: skip
"""(4, 4, 2): samples per decision and regret at each delta and sigma, as the paper prints them."""

READINGS = tuple(product(("shortened", "printed"), ("weight", "value")))
"""Pairs of `threshold` and `scale`, the closest to the paper's sample counts first."""

PAPER_RACING = {
    "agent": "racing_paper",
    "threshold": "shortened",
    "scale": "weight",
    "label": "Racing",
}
"""Racing at the paper's delta = sigma = 0.1, as read to fit the sample counts of Table 2 best."""

REFERENCE_TS = {"agent": "exact", "prior": "reference", "label": "Thompson, Beta(1,1)"}
TRUTH = {"agent": "exact", "label": "exact Thompson"}

FIT_ARMS = (2, 3, 4, 5, 7, 10)
"""Numbers of arms tried for Table 2, which does not say how many it has."""


def beta_world(num_arms: int) -> dict[str, Any]:
    """Return Table 2's environment with the given number of arms."""
    world = {"env": "BernoulliBandit-v0", "num_arms": num_arms, "label": f"K={num_arms}"}
    return world | {"prior": {"name": "beta", "alpha": 5.0, "beta": 5.0}}


def truncated_normal_world(label: str, mean: Any, std: float) -> dict[str, Any]:
    """Return an environment of Figure 1b: independent normals cut to [0, 1]."""
    prior = {"name": "truncated_normal", "mean": mean, "std": std}
    return {"env": "BernoulliBandit-v0", "prior": prior, "label": label}


FIGURE_1B = (
    truncated_normal_world("N(0.5, 0.1²)", 0.5, 0.1),
    truncated_normal_world("N(0.5, 0.3²)", 0.5, 0.3),
    truncated_normal_world("N(0.2, 0.1²)", 0.2, 0.1),
    truncated_normal_world("N(0.8, 0.1²)", 0.8, 0.1),
    truncated_normal_world(
        "N(0.3…0.7, 0.1²)", [round(0.3 + 0.4 * i / 9, 4) for i in range(10)], 0.1
    ),
)
"""The paper gives no parameters: spread, location and locations of their own are varied."""

PRIOR_SEED = 2017


def drawn_beta_world(number: int) -> dict[str, Any]:
    """Return an environment of Figure 1a: ten Beta(a, b), a and b uniform on (1, 10)."""
    rng = np.random.default_rng(PRIOR_SEED)
    alpha, beta = rng.uniform(1.0, 10.0, size=(number + 1, 2, 10))[-1].round(4).tolist()
    prior = {"name": "beta", "alpha": alpha, "beta": beta}
    return {"env": "BernoulliBandit-v0", "prior": prior, "label": f"prior {number}"}


def topics_world(number: int) -> dict[str, Any]:
    """Return an environment of Figure 2, the u_i uniform on the sphere in 10 dimensions.

    The paper gives neither dimension nor law of u.
    """
    return {"env": "DependentPriorBandit-v0", "arm_seed": number, "label": f"topics {number}"}


FIGURE_2 = tuple(map(topics_world, range(4)))
