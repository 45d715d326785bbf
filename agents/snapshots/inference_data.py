"""A posterior as ArviZ has it: draws of the means and of rewards, and the data they follow from."""

from __future__ import annotations

from inspect import signature
from typing import Any


def make_inference_data(snapshot: Any, size: int, seed: int) -> Any:
    """Return an xarray `DataTree`, or `InferenceData` where ArviZ is older than its version 1.

    Groups are `posterior` (`mean`), `posterior_predictive` (`reward`), each of one chain of `size`
    draws, and `constant_data` (`pulls` and `total_reward`); dimensions are named lane and arm.

    Args:
        snapshot: the posterior.
        size: how many draws.
        seed: of the draws.
    """
    import arviz

    def shaped(statistics: Any) -> Any:
        return statistics[0] if snapshot.num_envs is None else statistics

    own = ["arm"] if snapshot.num_envs is None else ["lane", "arm"]
    groups: dict[str, Any] = {
        "posterior": {"mean": snapshot.sample(size, seed=seed)[None]},
        "posterior_predictive": {"reward": snapshot.predictive(size, seed=seed)[None]},
        "constant_data": {
            "pulls": shaped(snapshot.counts),
            "total_reward": shaped(snapshot.sums),
        },
    }
    names = {name: own for group in groups.values() for name in group}
    if "posterior" in signature(arviz.from_dict).parameters:  # before version 1
        return arviz.from_dict(**groups, dims=names)
    return arviz.from_dict(groups, dims=names)
