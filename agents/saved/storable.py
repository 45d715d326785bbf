"""What can say what it was built from, and be saved: the part of an agent that is about files."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.random import Generator

from agents.saved.archive import write_archive
from agents.saved.state import get_state, is_ours
from bandit_gym.checks import check_file, message
from bandit_gym.problem import BanditProblem, problem_from_dict


class Storable:
    """Remembers the arguments it was built with, and what its classes name in `state_names`.

    Attributes:
        state_names: attributes that change beside those which its ancestors name; a class of one's
            own names them to be saved, `()` if there are none.
    """

    state_names: ClassVar[tuple[str, ...]] = ()
    problem: BanditProblem
    num_envs: int | None
    _arguments: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *arguments: Any, **options: Any) -> Self:
        """Keep the arguments, which classes check and turn into something else."""
        self = super().__new__(cls)
        self._arguments = arguments, options
        return self

    def __repr__(self) -> str:
        """Write the call that builds another one like it."""
        options = [f"{name}={value!r}" for name, value in self.options().items()]
        problem = getattr(self, "problem", None)  # not there yet while it is built
        return f"{type(self).__name__}({', '.join([repr(problem), *options])})"

    def options(self) -> dict[str, Any]:
        """Return the keyword arguments that it was built with; defaults are left out."""
        arguments, named = self._arguments
        given = inspect.signature(type(self)).bind(*arguments, **named)
        parameters = given.signature.parameters
        found: dict[str, Any] = {}
        for name, value in list(given.arguments.items())[1:]:  # the first is the problem
            is_rest = parameters[name].kind is inspect.Parameter.VAR_KEYWORD
            found |= value if is_rest else {name: value}
        return {name: _plain(value) for name, value in found.items()}

    def save(self, path: str | Path) -> None:
        """Write all that this agent is into a file, from which `agents.load` makes it again.

        The file is a zip of JSON and arrays of numbers; there is no code in it. What is loaded goes
        on bit for bit as this one does, with the same versions of Python and its packages.

        Args:
            path: of the file. One that is there is replaced.

        Raises:
            OSError: if it cannot be written.
            TypeError: if an option or a part of the state cannot be written, or a class of one's
                own does not say in `state_names` what its objects remember.
        """
        generator, state, own = self.rng.bit_generator.state, self._state(), type(self).__module__
        content = {
            "class": f"{'agents' if is_ours(type(self)) else own}:{type(self).__qualname__}",
            "options": {name: _named(value) for name, value in self.options().items()},
            "problem": describe_problem(self.problem),
            "prior": _called(self.problem.prior),
            "num_envs": self.num_envs,
            "generator": generator,
            "state": state,
        }
        write_archive(check_file("path", path), content)

    @property
    @abstractmethod
    def rng(self) -> Generator:
        """The agent's own generator; without lanes there is none yet."""

    def _state(self) -> Any:
        for kind in type(self).__mro__[:-1]:
            if not is_ours(kind) and "state_names" not in vars(kind):
                remedy = "list the attributes that change beside counts and sums, () if none do"
                condition = "have state_names to be saved"
                raise TypeError(message(kind.__name__, condition, kind, remedy))
        return get_state(self)


def describe_problem(problem: BanditProblem) -> dict[str, Any] | None:
    """Return a JSON-able dict from which an equal problem is made; None if there is none.

    What names code of a user's own, as `module:MyPrior`, is not taken for one.
    """
    try:
        settings = problem.to_dict()
        is_equal = not names_code(settings) and problem_from_dict(settings) == problem
        return settings if is_equal else None
    except (TypeError, ValueError):  # a prior or a likelihood without a name
        return None


def names_code(settings: Any) -> bool:
    """Say whether nested settings have a `module:name` anywhere, whatever might come to read it."""
    if isinstance(settings, Mapping | list):
        items = settings.values() if isinstance(settings, Mapping) else settings
        return any(map(names_code, items))
    return isinstance(settings, str) and ":" in settings


def _called(prior: Any) -> str:
    """Return what people call a prior, without an address that means nothing in another process."""
    has_own = any("__repr__" in vars(kind) for kind in type(prior).__mro__[:-1])
    return repr(prior) if has_own else type(prior).__name__


def _plain(value: Any) -> Any:
    """Return arrays and numbers of NumPy's as Python's, which are written the same way anywhere."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _named(value: Any) -> Any:
    """Return an option that is a prior by the dict that stands for it; a sequence as a list."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    return list(value) if isinstance(value, tuple | range) else _as_dict(value)


def _as_dict(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value
