"""What an agent is built from and remembers, and the file that has both.

The file is what `numpy.savez` writes: `agent`, JSON in bytes, and the arrays that it names by
`{"<array>": number}`. Nothing in it is code, and nothing of it is run. Classes name what they
remember beside what they are built from in `state_names`; what their ancestors name is remembered
too. All else follows from the arguments of the object and from this, and is made anew.
`agents.load` reads it.
"""

from __future__ import annotations

import copy
import json
import zipfile
from abc import ABC
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from agents.base.conjugacy import REFERENCE, reference_prior
from bandit_gym.checks import is_project_class, message
from bandit_gym.contexts import find_layout
from bandit_gym.files import has_text_keys, replacing
from bandit_gym.likelihoods import likelihood_from_dict
from bandit_gym.problem import BanditProblem, problem_from_dict

AGENT_FILE_FORMAT, MIN_AGENT_FILE_FORMAT = 6, 5
"""Of the files that are written, and of the oldest that are read."""

NAMES_ADDED_TO_FORMAT_6 = (
    *("pool_seed", "seeded_at", "num_discounts", "num_removals"),
    *("_weights", "_window_weights", "_totals", "summary"),
    *("squares", "_total_squares", "acceptance"),
)
"""Which files of its first version lack."""

FORMER_NAMES = {
    "_ahead": "buffer",
    "_place": "_num_used",
    "_places": "_next_slots",
    "offered": "decision_features",
    "is_unused": "awaits_reward",
    "inner": "_posterior",
    "shares": "efficiencies",
    "due": "next_renewal",
}
"""What objects remembered under another name, which has kept its meaning."""

CONTENT_KEY, ARRAY_KEY = "agent", "<array>"


def describe_agent(agent: Any) -> dict[str, Any]:
    """Return what a file of an agent has."""
    agent._find_diagnostics()  # which may rest on what the file leaves out
    generator, options = agent.rng.bit_generator.state, agent.options()
    module = "agents" if is_project_class(type(agent)) else type(agent).__module__
    is_custom = is_custom_posterior(options.get("posterior"))
    if is_custom:
        del options["posterior"]
    return {
        "class": f"{module}:{type(agent).__qualname__}",
        "options": options,
        "posterior": type(agent._posterior).__name__ if is_custom else None,
        "problem": describe_problem(agent.problem),
        "prior": type(agent.problem.prior).__name__,
        "num_envs": agent.num_envs,
        "generator": generator,
        "state": get_state(agent),
        "available": agent._available,
    }


def is_custom_posterior(posterior: Any) -> bool:
    """Say whether an option is a user's posterior, or names its code as `module:name`."""
    name = posterior["name"] if isinstance(posterior, Mapping) else posterior
    return name is not None and not (isinstance(name, str) and ":" not in name)


def write_agent_file(path: Path, content: dict[str, Any]) -> None:
    """Write a file, whole or not at all.

    Args:
        path: where it is to be.
        content: JSON-able but for arrays of numbers, and what has a method `to_dict`.

    Raises:
        TypeError: if there is anything else in it, or a dict has keys that are no texts.
    """
    arrays: dict[str, np.ndarray] = {}

    def encode_value(value: Any) -> Any:
        if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
            arrays[str(len(arrays))] = value
            return {ARRAY_KEY: str(len(arrays) - 1)}
        if hasattr(value, "to_dict"):
            return value.to_dict()
        if isinstance(value, range | Mapping):
            return list(value) if isinstance(value, range) else dict(value)
        condition = "be made of numbers, strings, lists and arrays to be saved"
        raise TypeError(message("state", condition, value))

    if not has_text_keys(content):
        condition = "have texts for keys of its dicts to be saved"
        raise TypeError(message("state", condition, content["state"]))
    text = json.dumps({"format": AGENT_FILE_FORMAT, **content}, default=encode_value)
    with replacing(path, allows_devices=True) as file:
        np.savez(file, **{CONTENT_KEY: np.frombuffer(text.encode(), np.uint8)}, **arrays)  # type: ignore[arg-type]


def read_agent_file(path: Path) -> dict[str, Any]:
    """Read what `write_agent_file` was given.

    Raises:
        OSError: if there is no such file, or it cannot be read.
        ValueError: if it is another one, of another format, or damaged.
    """
    with open(path, "rb") as file:
        try:
            if not zipfile.is_zipfile(file):  # NumPy would advise to unpickle it
                raise ValueError("it is no zip archive")
            file.seek(0)
            with np.load(file) as parts:

                def decode_array(value: dict[str, Any]) -> Any:
                    return parts[value[ARRAY_KEY]] if value.keys() == {ARRAY_KEY} else value

                content = json.loads(parts[CONTENT_KEY].tobytes(), object_hook=decode_array)
                if content["format"] not in (MIN_AGENT_FILE_FORMAT, AGENT_FILE_FORMAT):
                    known = f"{MIN_AGENT_FILE_FORMAT} and {AGENT_FILE_FORMAT} are read"
                    raise ValueError(f"its format is {content['format']!r} where {known}")
                return content
        except Exception as error:  # zipfile alone raises ten kinds
            condition = "lead to a whole file that Agent.save has written"
            reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
            raise ValueError(message("path", condition, str(path), reason)) from error


def get_state(obj: Any) -> Any:
    """Return copies of what an object remembers, by name; other values as they are.

    Raises:
        TypeError: if a class of a user's own does not say what its objects remember.
    """
    if hasattr(obj, "state_names"):
        return {name: get_state(getattr(obj, name)) for name in list_state_names(obj)}
    return obj.item() if isinstance(obj, np.generic) else copy.deepcopy(obj)


def set_state(obj: Any, state: Any, file_format: int = AGENT_FILE_FORMAT) -> None:
    """Let an object that has just been started remember what `get_state` returned.

    What follows from it is made by the method `_resume`, where there is one. What was not
    remembered yet is as in a fresh object; of an older format, what no longer is is left out.

    Raises:
        ValueError: if names are missing or too many, or the format is older than the object reads.
    """
    names = list_state_names(obj)
    is_ours, is_old = is_project_class(type(obj)), file_format < AGENT_FILE_FORMAT
    renamed = {name: FORMER_NAMES.get(name, name) for name in state if name not in names}
    state = {renamed.get(name, name): value for name, value in state.items()}
    if is_ours and not is_old:
        names = [name for name in names if name in state or name not in NAMES_ADDED_TO_FORMAT_6]
    elif is_ours:
        state = {name: state[name] for name in names if name in state}
        names = [*state]
        if file_format < (oldest := getattr(obj, "min_file_format", file_format)):
            condition = f"lead to a file of format {oldest} or later for {type(obj).__name__}"
            remedy = "build the agent again, and give it its data by warm_start"
            raise ValueError(message("path", condition, file_format, remedy))
    if state.keys() != {*names}:
        raise ValueError(f"the state of {type(obj).__name__} must name {names}")
    for name in names:
        if hasattr(present := getattr(obj, name, None), "state_names"):
            set_state(present, state[name], file_format)
        else:
            setattr(obj, name, state[name])
    if hasattr(obj, "_resume"):
        obj._resume()


def list_state_names(obj: Any) -> list[str]:
    """Return the names of what an object remembers, its ancestors' first."""
    names: list[str] = []
    for kind in reversed(type(obj).__mro__):
        names += vars(kind).get("state_names", ())
        is_ours = kind in (ABC, object) or is_project_class(kind)
        if not is_ours and "state_names" not in vars(kind):
            remedy = "list what changes beside counts, sums and its parents' own, () if none"
            raise TypeError(message(kind.__name__, "have state_names to be saved", kind, remedy))
    return names


def copy_with_arms(agent: Any, num_arms: int, prior: Any) -> Any:
    """Return an agent for more arms that remembers what another does; see `Agent.with_arms`."""
    if agent._has_features and agent.problem.layout is None:
        layout = find_layout(agent.evidence.decision_features)
        if layout is not None:
            condition = f"have a layout for with_arms where features are {layout}"
            remedy = f"build the agent with ContextualProblem(..., layout={layout!r})"
            raise ValueError(message("problem", condition, None, remedy))
    problem = agent.problem.with_arms(num_arms, prior)
    twin = type(agent)(problem, **agent.options())
    twin._rng = copy.deepcopy(agent.rng)
    twin.reset(agent.num_envs)
    for name in {*list_state_names(agent)} - {"_posterior", "_diagnostics"}:
        setattr(twin, name, copy.deepcopy(getattr(agent, name)))
    if agent._has_features:  # rows know nothing of arms
        twin.evidence.add_features(problem.num_features - agent.problem.num_features)
    else:
        twin.evidence.add_arms(problem.num_arms - agent.problem.num_arms)
    if hasattr(twin, "_resume"):
        twin._resume()
    twin._available = copy.deepcopy(agent._available)
    return twin


def describe_problem(problem: BanditProblem) -> dict[str, Any] | None:
    """Return a JSON-able dict from which an equal problem is made; None if there is none.

    What names code of a user's own, as `module:MyPrior`, is not taken for one.
    """
    try:
        settings = problem.to_dict()
        return settings if restore_problem(settings) == problem else None
    except (AttributeError, TypeError, ValueError):  # a prior or a likelihood without a name
        return None


def restore_problem(settings: Any) -> BanditProblem:
    """Make the problem that `describe_problem` described, with a prior that is improper too."""
    if settings["prior"] != {"name": REFERENCE}:
        return problem_from_dict(settings)
    likelihood = likelihood_from_dict(settings["likelihood"])
    return BanditProblem(likelihood, reference_prior(likelihood), settings["num_arms"])
