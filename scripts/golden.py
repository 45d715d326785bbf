"""Digests of tiny runs of most agents in most environments: what a results version promises.

    python scripts/golden.py            says which numbers differ from the stored ones
    python scripts/golden.py --add      stores those of new cases, and plays no others
    python scripts/golden.py --renew    stores the present ones, once RESULTS_VERSION was raised

A digest covers actions, and rewards to six digits, so that another processor's last bit does not
matter; other versions of NumPy and its like may draw other numbers, so that the stored digests hold
on those of `constraints.txt`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import warnings
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from agents import AGENTS, make_agent
from bandit_gym import ENV_IDS
from bandit_gym.files import RESULTS_VERSION
from bandit_gym.registration import FEATURE_ENV_IDS
from bandit_gym.rollout import rollout

REPOSITORY = Path(__file__).parent.parent
DIGESTS_FILE = REPOSITORY / "tests" / "golden.json"
NUM_ENVS, HORIZON, NUM_ARMS = 3, 40, 4

CaseSettings = dict[str, Any]

TRUNCATED_PRIOR = {"name": "truncated_normal", "mean": 0.4, "std": 0.2}
SPARED_IDS = "CustomBandit-v0", *FEATURE_ENV_IDS
"""One is one of the others; the rest have golden digests of their own agents only."""

ENVIRONMENTS: list[tuple[str, CaseSettings]] = [
    *((env_id, {}) for env_id in ENV_IDS if env_id not in SPARED_IDS),
    ("BernoulliBandit-v0", {"prior": TRUNCATED_PRIOR}),
    ("PoissonBandit-v0", {"prior": TRUNCATED_PRIOR | {"high": 9.0}}),
]
ENVIRONMENTS_WITH_FEATURES: list[tuple[str, CaseSettings]] = [
    ("ContextualBandit-v0", {"num_features": 3}),
    ("ContextualBandit-v0", {"num_features": 2, "contexts": "disjoint", "likelihood": "gaussian"}),
    ("ContextualBandit-v0", {"num_features": 3, "prior": {"name": "laplace", "scale": 1.0}}),
]
AGENTS_WITH_FEATURES: list[tuple[str, CaseSettings]] = [
    (name, {}) for name in ("racing", "laplace", "lin_ucb", "exact", "smc", "greedy")
]
OMITTED_AGENTS = "optimal", "thompson", "laplace", "lin_ucb", "discounted_gittins"
"""The first draws nothing, the second what `exact` does, the next two decide on features, and the
last has an option that saves time."""

AGENTS_WITH_OPTIONS: list[tuple[str, CaseSettings]] = [
    *((name, {}) for name in AGENTS if name not in OMITTED_AGENTS),
    ("discounted_gittins", {"discount": 0.9}),
    ("exact", {"prior": "reference"}),
    ("racing", {"proposal": "reference"}),
    ("racing", {"stopping": 200}),
    ("racing_paper", {"scale": "weight", "threshold": "shortened"}),
    ("smc", {"num_particles": 100}),
]
CASES = [
    (*environment, *learner)
    for environment, learner in (
        *product(ENVIRONMENTS, AGENTS_WITH_OPTIONS),
        *product(ENVIRONMENTS_WITH_FEATURES, AGENTS_WITH_FEATURES),
    )
]
"""Environment id and options, agent name and options."""


def digest(env_id: str, env_options: CaseSettings, agent: str, agent_options: CaseSettings) -> str:
    """Play N lanes for T steps, and return 16 hexadecimal digits of what happened.

    Of an agent that refuses the environment it is "refused", which is a promise too.
    """
    env = gym.make_vec(f"bandit_gym:{env_id}", NUM_ENVS, num_arms=NUM_ARMS, **env_options)
    try:
        learner = make_agent(agent, env.unwrapped.problem, **agent_options)  # type: ignore[attr-defined]
    except ValueError:
        return "refused"
    found = rollout(learner, env, seed=7, horizon=HORIZON)
    rewards = np.round(found.rewards, 6) + 0.0  # no negative zeros
    content = found.actions.astype("<i8").tobytes() + rewards.astype("<f8").tobytes()
    return hashlib.sha256(content).hexdigest()[:16]


def name_case(
    env_id: str, env_options: CaseSettings, agent: str, agent_options: CaseSettings
) -> str:
    """Name a case as its entry in the file does."""
    return f"{env_id} {json.dumps(env_options)} {agent} {json.dumps(agent_options)}"


def compute_digests(known: Mapping[str, str]) -> dict[str, str]:
    """Return name -> digest of every case; those that are known are taken from there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of unfit settings; what they do is the point here
        names = {name_case(*case): case for case in CASES}
        return {name: known.get(name) or digest(*case) for name, case in names.items()}


def load_digests() -> dict[str, Any]:
    """Read the stored version and digests."""
    return dict(json.loads(DIGESTS_FILE.read_text()))


def find_differences(found: Mapping[str, str], stored: Mapping[str, Any]) -> list[str]:
    """Return the names of the cases whose digest is not the stored one."""
    return [name for name, value in found.items() if stored["digests"].get(name) != value]


def renew(found: Mapping[str, str], stored: Mapping[str, Any]) -> str:
    """Return the file's new content.

    Raises:
        ValueError: if a number has changed and RESULTS_VERSION has not been raised since.
    """
    changed = [name for name in find_differences(found, stored) if name in stored["digests"]]
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
    parser.add_argument("--add", action="store_true", help="store the digests of new cases alone")
    parser.add_argument("--renew", action="store_true", help="store the present digests")
    options = parser.parse_args(arguments)
    stored = load_digests()
    found = compute_digests(stored["digests"] if options.add else {})
    differing = find_differences(found, stored)
    for name in differing:
        print(f"{'differs' if name in stored['digests'] else 'new'}: {name}")
    if options.add:
        DIGESTS_FILE.write_text(json.dumps(stored | {"digests": found}, indent=2) + "\n")
    elif options.renew:
        DIGESTS_FILE.write_text(renew(found, stored))
    return int(bool(differing) and not (options.add or options.renew))


if __name__ == "__main__":
    sys.exit(main())
