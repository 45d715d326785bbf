"""The rooms whose lines are broken, and the tests that may notice."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {  # sources -> tests that may notice
    "racing": (
        "agents/racing",
        "tests/contracts/test_racing.py tests/contracts/test_laws.py",
    ),
    "posteriors": (
        "agents/posteriors",
        "tests/contracts/test_posteriors.py tests/contracts/test_laws.py "
        "tests/agents/test_exact_thompson.py tests/agents/test_smc_thompson.py",
    ),
    "experiments": (
        "bandit_gym/experiments",
        "tests/bandit_gym/experiments tests/contracts/test_executors.py "
        "tests/contracts/test_experiments.py tests/contracts/test_commands.py",
    ),
    "results": (
        "bandit_gym/results",
        "tests/bandit_gym/results tests/contracts/test_results.py",
    ),
    "rest": ("", "tests/agents tests/bandit_gym tests/contracts"),
    "both": ("", "tests/agents tests/bandit_gym tests/contracts"),
}
CONTRACTS = {  # what each is about, where that is one room
    **dict.fromkeys(("agents", "laws", "recomputed"), "agents"),
    **{name: f"agents/{name}" for name in ("posteriors", "racing", "rules")},
    "optimum": "agents/bayes_optimal",
    "commands": "bandit_gym/cli",
    "refusals": "bandit_gym/checks",
    "users_laws": "bandit_gym/priors",
    **dict.fromkeys(("executors", "experiments"), "bandit_gym/experiments"),
    **dict.fromkeys(("environments", "vector_environments"), "bandit_gym/envs"),
    **{
        name: f"bandit_gym/{name}"
        for name in ("fidelity", "likelihoods", "priors", "results", "wrappers")
    },
}


def sources_of(room: str) -> list[Path]:
    """Return the files of a room; those of the rest are in no other room, both have all."""
    folders = {name: ROOT / sources for name, (sources, _) in ROOMS.items() if sources}
    if room in folders:
        return sorted(folders[room].rglob("*.py"))
    both = [*(ROOT / "agents").rglob("*.py"), *(ROOT / "bandit_gym").rglob("*.py")]
    if room == "both":
        return sorted(both)
    return sorted(path for path in both if not set(folders.values()) & set(path.parents))
