"""The edges of environments, problems, priors and likelihoods."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np

from bandit_gym.envs import BanditEnv, BanditVectorEnv
from bandit_gym.likelihoods import Bernoulli, Gaussian, likelihood_from_dict
from bandit_gym.priors import (
    Beta,
    Gamma,
    InverseGamma,
    Normal,
    TruncatedMultivariateNormal,
    TruncatedNormal,
    prior_from_dict,
)
from bandit_gym.priors.mixtures import HierarchicalBeta, LogitNormal, Mixture, spike_and_slab
from bandit_gym.problem import BanditProblem, problem_from_dict
from calls.edges import Edge

PROBLEM = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 3)
WORLD = {
    "num_arms": "integer",
    "prior": "mapping",
    "means": "parameter",
    "observation": "name",
    "horizon": "integer",
    "render_mode": "name",
}
LANES = {"num_envs": "integer", "max_episode_steps": "integer", "autoreset_mode": "name"}
LIKELIHOOD_WORDS = {"prior": ("prior", "prior name", "capability")}


def edges() -> list[Edge]:
    return [*_environments(), *_problems(), *_priors()]


def _environments() -> list[Edge]:
    add = partial(Edge, "environments")
    ids = {"BernoulliBandit-v0": {}, "GaussianBandit-v0": {"std": "real"}}
    ids["DependentPriorBandit-v0"] = {"dimension": "integer", "arm_seed": "integer"}
    ids["CustomBandit-v0"] = {"likelihood": "mapping"}
    own = {name: kind for name, kind in WORLD.items() if name not in ("num_arms", "prior")}
    seen = {name: kind for name, kind in WORLD.items() if name != "render_mode"}
    return [
        # the render mode is left out: gymnasium.make itself takes it to pieces before we see it
        *(add(f"gym.make({name})", partial(_make, name), {**seen, **o}) for name, o in ids.items()),
        add("gym.make_vec(BernoulliBandit-v0)", _make_vec, {**WORLD, **LANES}),
        add("BanditEnv", _bandit_env, {"problem": "object", **own}),
        add("BanditVectorEnv", _bandit_vector_env, {"problem": "object", **LANES, **own}),
        add("BanditEnv.reset", _reset, {"seed": "seed", "options": "mapping"}),
        add("BanditVectorEnv.reset", _reset_lanes, {"seed": "seed", "options": "mapping"}),
        add("BanditEnv.reset(options)", _reset_to, {"means": "parameter"}),
        add(
            "BanditVectorEnv.reset(options)",
            _reset_lanes_to,
            {"means": "parameter", "reset_mask": "mask"},
        ),
        add(
            "BanditEnv.step",
            lambda action: _env(_reset_first=True).step(action),
            {"action": "lanes"},
        ),
        add("BanditVectorEnv.step", _step_lanes, {"actions": "lanes"}),
    ]


def _problems() -> list[Edge]:
    add = partial(Edge, "problems and priors")
    problem = {"likelihood": "object", "prior": "object", "num_arms": "integer"}
    words = {"settings": ("problem", "likelihood", "prior", "likelihood name", "prior name")}
    as_dict = {"likelihood": "mapping", "prior": "mapping", "num_arms": "integer"}
    return [
        add("BanditProblem", _problem, problem),
        add("BanditProblem.offers", PROBLEM.offers, {"capability": "name"}),
        add("problem_from_dict", problem_from_dict, {"settings": "mapping"}, words),
        add("problem_from_dict(settings)", _problem_from_dict, as_dict),
        add("prior_from_dict", prior_from_dict, {"settings": "mapping"}, words),
        add("likelihood_from_dict", likelihood_from_dict, {"settings": "mapping"}, words),
        add("Gaussian", Gaussian, {"std": "real"}),
    ]


def _priors() -> list[Edge]:
    two = ((Beta, "alpha", "beta"), (Gamma, "shape", "rate"), (InverseGamma, "shape", "scale"))
    laws: list[tuple[Callable[..., Any], dict[str, Any], dict[str, str]]] = [
        *((law, {a: 1.0, b: 1.0}, {a: "parameter", b: "parameter"}) for law, a, b in two),
        *((law, {"mean": 0.5, "std": 1.0}, _named("mean", "std")) for law in (Normal, LogitNormal)),
        (TruncatedNormal, {"mean": 0.5, "std": 0.1}, _named("mean", "std", "low", "high")),
        (
            TruncatedMultivariateNormal,
            {"mean": 0.5, "covariance": [[1, 0], [0, 1]]},
            _named("mean", "covariance", "low", "high"),
        ),
        (
            Mixture,
            {"components": [Beta(1, 1), Beta(2, 1)], "weights": [1, 1]},
            {"components": "object", "weights": "parameter"},
        ),
        (
            HierarchicalBeta,
            {"alphas": [1, 2], "betas": [2, 1]},
            _named("alphas", "betas", "weights"),
        ),
        (
            spike_and_slab,
            {"spike": 0.5, "width": 0.1, "slab": Beta(1, 1), "share": 0.5},
            {"spike": "real", "width": "real", "slab": "object", "share": "real"},
        ),
    ]
    return [
        Edge("problems and priors", law.__name__, partial(_prior, law, good), types, PRIOR_WORDS)
        for law, good, types in laws
    ]


PRIOR_WORDS = {
    "spike": ("mean",),  # a spike is a normal law of small width
    "width": ("std",),
    "slab": ("components",),
    "mean": ("mean and std",),
    "alphas": ("betas",),  # of which there must be as many
}


def _named(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "parameter")


def _prior(law: Callable[..., Any], good: dict[str, Any], **bad: Any) -> None:
    """Build a prior, and ask it for what it is there for."""
    prior: Any = law(**{**good, **bad})
    lengths = {len(v) for v in vars(prior).values() if isinstance(v, tuple)}
    shape = (4, max(lengths | {2}) if law not in (Mixture, HierarchicalBeta) else 2)
    prior.log_density(prior.sample(np.random.default_rng(0), shape))


def _problem(**bad: Any) -> None:
    BanditProblem(**{"likelihood": Bernoulli(), "prior": Beta(1, 1), "num_arms": 3, **bad})


def _problem_from_dict(**bad: Any) -> None:
    problem_from_dict(PROBLEM.to_dict() | bad)


def _make(env_id: str, **bad: Any) -> None:
    _play(gym.make(env_id, **bad))


def _make_vec(**bad: Any) -> None:
    kwargs = {key: bad.pop(key) for key in ("num_envs", "max_episode_steps") if key in bad}
    _play_lanes(gym.make_vec("BernoulliBandit-v0", **({"num_envs": 2} | kwargs | bad)))


def _bandit_env(**bad: Any) -> None:
    _play(BanditEnv(**{"problem": PROBLEM, **bad}))


def _bandit_vector_env(**bad: Any) -> None:
    _play_lanes(BanditVectorEnv(**{"num_envs": 2, "problem": PROBLEM, **bad}))


def _play(env: gym.Env) -> None:
    env.reset(seed=0)
    for _ in range(3):
        env.step(0)
    if env.render_mode is not None:
        env.render()


def _play_lanes(env: gym.vector.VectorEnv) -> None:
    env.reset(seed=0)
    if env.num_envs < 10**6:
        env.step(np.zeros(env.num_envs, dtype=int))


def _env(*, _reset_first: bool = False) -> BanditEnv:
    env = BanditEnv(PROBLEM)
    if _reset_first:
        env.reset(seed=0)
    return env


def _lanes() -> BanditVectorEnv:
    env = BanditVectorEnv(2, PROBLEM)
    env.reset(seed=0)
    return env


def _reset(**bad: Any) -> None:
    env = _env()
    env.reset(**bad)
    _play(env)


def _reset_to(means: Any) -> None:
    _reset(options={"means": means})


def _reset_lanes(**bad: Any) -> None:
    env = _lanes()
    env.reset(**bad)
    env.step([0, 0])


def _reset_lanes_to(**bad: Any) -> None:
    _reset_lanes(options=bad)


def _step_lanes(actions: Any) -> None:
    _lanes().step(actions)
