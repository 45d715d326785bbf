"""Collecting these tests imports no torch; without the extra sb3, they are skipped."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def sb3():
    """The package `agents.sb3`."""
    pytest.importorskip("sb3_contrib")
    from agents import sb3

    return sb3
