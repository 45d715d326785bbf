"""Digests of a tiny run of every agent in every world: what a results version promises.

    python scripts/golden.py            says which numbers differ from the stored ones
    python scripts/golden.py --renew    stores the present ones, once RESULTS_VERSION was raised

A digest covers actions, and rewards to six digits, so that another processor's last bit does not
matter; other versions of NumPy and its like may draw other numbers, so that the stored digests hold
on those of `constraints.txt`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from agents import AGENTS, make_agent
from bandit_gym import ENV_IDS
from bandit_gym.files import RESULTS_VERSION
from bandit_gym.rollout import rollout

ROOT = Path(__file__).parent.parent
STORED = ROOT / "tests" / "golden.json"
NUM_ENVS, HORIZON, NUM_ARMS = 3, 40, 4
PACKAGES = ("numpy", "scipy", "numba", "gymnasium")
"""Those whose versions decide what numbers come out."""

Settings = dict[str, Any]

CUT = {"name": "truncated_normal", "mean": 0.4, "std": 0.2}
WORLDS: Mapping[str, tuple[str, Settings]] = {
    **{name.removesuffix("Bandit-v0"): (name, {}) for name in ENV_IDS},
    "Bernoulli, cut normal": ("BernoulliBandit-v0", {"prior": CUT}),
    "Poisson, cut normal": ("PoissonBandit-v0", {"prior": CUT | {"high": 9.0}}),
}
VARIANTS: Mapping[str, tuple[str, Settings]] = {
    "exact, reference": ("exact", {"prior": "reference"}),
    "racing, matched": ("racing", {"proposal": "matched", "stopping": "self-normalised"}),
    "racing, weight, shortened": ("racing", {"scale": "weight", "threshold": "shortened"}),
    "racing, 200 samples": ("racing", {"stopping": 200}),
    "smc, moved": (
        "smc",
        {"num_particles": 100, "resampling": "systematic", "move": "random-walk"},
    ),
}


def cases() -> Iterator[tuple[str, Settings, str, Settings]]:
    """Yield environment id and options, agent name and options: the worlds times the agents."""
    agents = {name: (name, {}) for name in AGENTS} | dict(VARIANTS)
    for env_id, env_options in WORLDS.values():
        for name, options in agents.values():
            yield env_id, env_options, name, options


def digest(env_id: str, env_options: Settings, agent: str, agent_options: Settings) -> str:
    """Play N lanes for T steps, and return 16 hexadecimal digits of what happened."""
    env = gym.make_vec(f"bandit_gym:{env_id}", NUM_ENVS, num_arms=NUM_ARMS, **env_options)
    learner = make_agent(agent, env.unwrapped.problem, **agent_options)  # type: ignore[attr-defined]
    found = rollout(learner, env, seed=7, horizon=HORIZON)
    rewards = np.round(found.rewards, 6) + 0.0  # no negative zeros
    content = found.actions.astype("<i8").tobytes() + rewards.astype("<f8").tobytes()
    return hashlib.sha256(content).hexdigest()[:16]


def name_case(env_id: str, env_options: Settings, agent: str, agent_options: Settings) -> str:
    """Name a case as its entry in the file does."""
    parts = [json.dumps(options) for options in (env_options, agent_options)]
    return f"{env_id} {parts[0]} {agent} {parts[1]}"


def compute() -> dict[str, str]:
    """Return name -> digest of every case."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of unfit settings; what they do is the point here
        return {name_case(*case): digest(*case) for case in cases()}


def load() -> dict[str, Any]:
    """Read the stored version and digests."""
    return dict(json.loads(STORED.read_text()))


def is_reference_machine() -> bool:
    """Say whether the packages that decide the numbers are those of `constraints.txt`."""
    pinned = dict(re.findall(r"^([\w-]+)==(\S+)", (ROOT / "constraints.txt").read_text(), re.M))
    try:
        return all(version(name) == pinned[name] for name in PACKAGES)
    except PackageNotFoundError:
        return False


def differences(found: Mapping[str, str], stored: Mapping[str, Any]) -> list[str]:
    """Return the names of the cases whose digest is not the stored one."""
    return [name for name, value in found.items() if stored["digests"].get(name) != value]


def renew(found: Mapping[str, str], stored: Mapping[str, Any]) -> str:
    """Return the file's new content.

    Raises:
        ValueError: if a number has changed and RESULTS_VERSION has not been raised since.
    """
    changed = [name for name in differences(found, stored) if name in stored["digests"]]
    if changed and RESULTS_VERSION <= stored["results_version"]:
        raise ValueError(
            f"RESULTS_VERSION must be above {stored['results_version']}, where {len(changed)} "
            f"digests have changed, got {RESULTS_VERSION}; the first is {changed[0]}."
        )
    content = {"results_version": RESULTS_VERSION, "digests": dict(found)}
    return json.dumps(content, indent=2) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, or store; return 1 if something differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--renew", action="store_true", help="store the present digests")
    options = parser.parse_args(arguments)
    stored = load() if STORED.exists() else {"results_version": RESULTS_VERSION, "digests": {}}
    found = compute()
    for name in differences(found, stored):
        print(f"differs: {name}")
    if options.renew:
        STORED.write_text(renew(found, stored))
        return 0
    return 1 if differences(found, stored) else 0


if __name__ == "__main__":
    sys.exit(main())
