"""Names of earlier versions that users may have typed or overridden, and the names of today."""

from typing import TYPE_CHECKING, Any

RENAMED = {
    "agents.HOMES": "AGENT_MODULES",
    "bandit_gym.HOMES": "LAZY_NAMES",
    "bandit_gym.ROOMS": "LAZY_MODULES",
    "bandit_gym.priors.Camps": "SharedMixture",
    "_law": "_action_probabilities",
    "doubts_proposal_blind": "doubts_low_coverage",
    "has_exact_law": "has_exact_probabilities",
    "most_lanes": "max_lanes",
}
"""Old name -> new name, after its module where it is a module's; the changelog lists all."""


def missing_attribute(owner: str, name: str) -> AttributeError:
    """Return the error of a module or class that has no such name; it has an old name's new one."""
    new = RENAMED.get(f"{owner}.{name}", RENAMED.get(name))
    return AttributeError(f"{owner} has no {name!r}" + (f": it is {new!r} now." if new else "."))


class CurrentNames:
    """A class whose subclasses may not define an old name; reading one names the new one.

    Raises:
        TypeError: at the definition of a subclass that overrides an old name.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in RENAMED.keys() & vars(cls).keys():
            raise TypeError(
                f"{cls.__name__} must not define {name!r}: it is {RENAMED[name]!r} now."
            )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in RENAMED:
                raise missing_attribute(type(self).__name__, name)
            return object.__getattribute__(self, name)  # raises, a property's own error too
