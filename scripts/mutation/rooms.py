"""The rooms whose lines are broken, and the tests that may notice."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {  # sources -> tests that may notice
    "racing": (
        "agents/racing",
        "tests/agents/racing tests/agents/test_racing.py tests/agents/test_racing_thompson.py",
    ),
    "posteriors": (
        "agents/posteriors",
        "tests/agents/posteriors tests/agents/test_posteriors.py",
    ),
    "experiments": (
        "bandit_gym/experiments",
        "tests/bandit_gym/experiments tests/bandit_gym/test_cli.py",
    ),
    "results": ("bandit_gym/results", "tests/bandit_gym/results"),
    "rest": (
        "",
        "tests/agents/base tests/agents/test_exact_thompson.py tests/agents/test_oracle.py"
        " tests/agents/test_smc_thompson.py tests/agents/numerics tests/agents/oracle"
        " tests/agents/rules tests/agents/sb3 tests/bandit_gym/envs tests/bandit_gym/fidelity"
        " tests/bandit_gym/likelihoods tests/bandit_gym/numerics"
        " tests/bandit_gym/priors tests/bandit_gym/test_checks.py"
        " tests/bandit_gym/test_cli.py"
        " tests/bandit_gym/test_likelihoods.py tests/bandit_gym/test_problem.py"
        " tests/bandit_gym/test_registration.py tests/bandit_gym/test_rollout.py"
        " tests/bandit_gym/watching",
    ),
}


def sources_of(room: str) -> list[Path]:
    """Return the files of a room; those of the rest are in no other room."""
    folders = {name: ROOT / sources for name, (sources, _) in ROOMS.items() if sources}
    if room in folders:
        return sorted(folders[room].rglob("*.py"))
    both = [*(ROOT / "agents").rglob("*.py"), *(ROOT / "bandit_gym").rglob("*.py")]
    return sorted(path for path in both if not set(folders.values()) & set(path.parents))
