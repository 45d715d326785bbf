"""What the registered environments share: a problem built from JSON-able keyword arguments.

A family is one declaration of its problem, from which both its single and its vector environment
are made, so that an id means one problem in both.
"""

from collections.abc import Mapping, Sequence
from inspect import Signature, signature
from typing import Any

from bandit_gym.envs.bandit import BanditEnv
from bandit_gym.envs.vector import BanditVectorEnv
from bandit_gym.likelihoods import Likelihood
from bandit_gym.priors import Prior, make_prior
from bandit_gym.problem import BanditProblem

PriorLike = Prior | Mapping[str, Any] | Sequence[Any] | str | None


class FamilyEnv(BanditEnv):
    """A registered environment; a subclass gives `make_problem`, and a manual as its docstring.

    Args:
        num_arms: K, at least 2.
        prior: law of the means; None is the family's default.
        **options: of `BanditEnv`, and the keyword-only ones of `make_problem`.
    """

    def __init__(self, num_arms: int = 10, prior: PriorLike = None, **options: Any) -> None:
        problem, others = self._read(num_arms=num_arms, prior=prior, **options)
        super().__init__(problem, **others)

    def __init_subclass__(cls) -> None:
        """Tell the arguments one by one, for checks of options, `bandit-gym list` and help."""
        super().__init_subclass__()
        common = [*signature(BanditEnv).parameters.values()][1:]  # all but the problem
        own = signature(cls.make_problem).parameters.values()
        parameters = sorted([*common, *own], key=lambda parameter: parameter.kind)
        cls.__signature__ = Signature(parameters)  # type: ignore[attr-defined]

    @staticmethod
    def make_problem(num_arms: int = 10, prior: PriorLike = None) -> BanditProblem:
        """Build the problem; a subclass may add keyword-only arguments."""
        raise NotImplementedError

    @classmethod
    def make_vec(cls, num_envs: int = 1, **options: Any) -> BanditVectorEnv:
        """Make N lanes of this environment, which is the manual; see `BanditVectorEnv`."""
        problem, others = cls._read(**options)
        return BanditVectorEnv(num_envs, problem, **others)

    @classmethod
    def _read(cls, **options: Any) -> tuple[BanditProblem, dict[str, Any]]:
        """Return the problem that some of the options tell, and the other options."""
        known = signature(cls.make_problem).parameters
        own = {name: options.pop(name) for name in known if name in options}
        return cls.make_problem(**own), options


def build_problem(
    likelihood: Likelihood, num_arms: int, prior: PriorLike, *, default: PriorLike
) -> BanditProblem:
    """Build a problem whose prior is what `make_prior` takes, or None for the default."""
    chosen = make_prior(default if prior is None else prior)
    return BanditProblem(likelihood, chosen, num_arms)
