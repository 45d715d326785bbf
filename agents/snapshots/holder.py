"""What holds a posterior and lets it be looked at: the part of an agent that is about snapshots."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any
from weakref import WeakSet

import numpy as np
from numpy.random import Generator

from agents.snapshots.snapshot import PosteriorSnapshot
from bandit_gym.problem import BanditProblem


class Holder:
    """Takes snapshots of its posterior; a class that has one returns it from `_held`.

    One that keeps state is lent to its snapshots until its lanes move on: before that, `_take_back`
    is to be called, unless `_borrowers` is None.
    """

    problem: BanditProblem
    num_envs: int | None
    lane_counts: np.ndarray
    lane_sums: np.ndarray
    _borrowers: WeakSet[PosteriorSnapshot] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the snapshots that look on, which go their own ways."""
        return self.__dict__ | {"_borrowers": None}

    def posterior(self) -> PosteriorSnapshot:
        """Return what is known of the means now; what is observed later does not change it.

        Asking moves neither the agent nor its generator. A snapshot costs next to nothing until it
        is asked; see `agents.snapshots.snapshot.PosteriorSnapshot`.

        Raises:
            TypeError: if the agent has no prior.
        """
        self._require_reset()
        held = self._held()
        if held is None:
            name = type(self).__name__
            raise TypeError(f"posterior must be asked of an agent with a prior, got {name}.")
        snapshot = PosteriorSnapshot(self, held)
        if held.keeps_state:
            self._borrowers = self._borrowers or WeakSet()
            self._borrowers.add(snapshot)
        return snapshot

    @property
    @abstractmethod
    def rng(self) -> Generator:
        """The agent's own generator; without lanes there is none yet."""

    @abstractmethod
    def _require_reset(self) -> None:
        """Refuse what needs lanes before there are any."""

    def _held(self) -> Any:
        """Return the `agents.posteriors.base.Posterior`, None if there is none."""
        return None

    def _take_back(self) -> None:
        """Before the state of the lanes moves on, let the snapshots of it have copies."""
        borrowers, self._borrowers = self._borrowers, None
        for snapshot in borrowers or ():
            snapshot.settle()
