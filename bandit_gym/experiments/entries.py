"""Entries of an experiment: how they are typed, what they stand for, and how that is made.

An `Entry` holds all settings of one environment or one agent; its label is what people call it,
and changes no folder and no number.

Agents are found by name at run time, since this package imports none: a short name is looked up in
`agents.AGENTS`, and `module:Class` names a class of anybody's with the methods of `BanditAgent`, or
of agents for `PlainAgents`, or `module:Class.method` a class method that makes an agent.

What has no importable name, such as a class of a notebook, is kept by this process. Settings hold a
*stand-in* such as `<own>:MyAgent.0123456789abcdef`: its name and a digest. An entry has the pickle
of the object, made by value as joblib's loky does with functions, and takes it along to workers.
Folders of results store the stand-in alone. Its digest is of the object's source text and plain
values. Another digest, of the whole pickle, decides whether stored blocks still count. The
pickle also has what the code calls, so the same cell of another session is other code.
"""

from __future__ import annotations

import hashlib
import inspect
import itertools
import json
import pickle
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from types import FunctionType, MappingProxyType
from typing import Any

import gymnasium as gym
import numpy as np

from bandit_gym.checks import check_choice, check_keys, check_object, load_named, message
from bandit_gym.envs.contextual import find_env_classes
from bandit_gym.envs.families import ENVIRONMENTS, list_options
from bandit_gym.experiments.provenance import find_module, find_sources, find_texts
from bandit_gym.files import has_text_keys
from bandit_gym.likelihoods import LIKELIHOODS
from bandit_gym.priors import describe_prior, make_prior, prior_from_dict
from bandit_gym.problem import BanditProblem
from bandit_gym.registration import ENV_IDS
from bandit_gym.rollout import BanditAgent, make_rollout_agent
from bandit_gym.wrappers.built_in import check_wrappers, wrap

MAX_LABEL_LENGTH = 200
"""Characters of a label, and of what settings read as."""

PRIOR_OPTION = "prior"
"""The option of an agent that gives it another prior than its environment's."""

ENTRY_KEYS = ("label", "grid")
"""What an entry of an experiment may have beside the options of its environment or agent."""

NUM_SAMPLER_ARGUMENTS = 5
GIVEN_ARGUMENTS = ("env", "problem")
"""Arguments that every wrapper or agent is given, and that are therefore no options."""


@dataclass(frozen=True)
class Entry:
    """One environment or one agent of an experiment.

    Attributes:
        target: `module:Id-v0` of an environment, `module:Class` of an agent.
        options: keyword arguments, JSON-able.
        label: what tables and plots call it.
    """

    target: str
    options: dict[str, Any] = field(hash=False)
    label: str

    def __post_init__(self) -> None:
        for name, kind in (("target", str), ("options", dict), ("label", str)):
            check_object(name, getattr(self, name), kind)
        if not 0 < len(self.label) <= MAX_LABEL_LENGTH or not self.label.isprintable():
            condition = f"have 1 to {MAX_LABEL_LENGTH} characters that can be printed"
            raise ValueError(message("label", condition, self.label))
        _ = self.pickles  # as they are now: another object of the same source has the same name

    @cached_property
    def pickles(self) -> dict[str, bytes]:
        """Pickles of the objects that it was made of, by the names that stand for them."""
        named = (name for name in find_texts(self.settings) if name in _objects)
        return {name: _objects[name][0] for name in named}

    @property
    def arguments(self) -> dict[str, Any]:
        """Its options, with objects in place of the names that stand for them."""
        return dict(_insert_objects(self.options, self.pickles))

    @cached_property
    def digest(self) -> str:
        """Content hash of what it is built from, as hexadecimal digits."""
        return content_digest(self.settings)

    @property
    def settings(self) -> dict[str, Any]:
        """What it is built from."""
        return {"target": self.target, "options": self.options}

    @cached_property
    def name(self) -> str:
        """What its settings read as, `racing(stopping=20)`, in whichever order they were given.

        What is too long ends with a hash of all, as others may begin alike.
        """
        options = json.loads(json.dumps(self.options, sort_keys=True))
        text = short_name(self.target) + write_options(options)
        is_short = len(text) <= MAX_LABEL_LENGTH
        return text if is_short else f"{text[: MAX_LABEL_LENGTH - 15]}...{self.digest[:12]}"


def write_options(options: Mapping[str, Any]) -> str:
    """Return what options read as, `(stopping=20)`."""
    if not options:
        return ""
    pairs = (f"{key}={_write_value(value)}" for key, value in options.items())
    return f"({','.join(pairs)})"


def _write_value(value: Any) -> str:
    if isinstance(value, Mapping) and isinstance(value.get("name"), str):  # a prior
        options = {key: option for key, option in value.items() if key != "name"}
        return f"{display_name(value['name'])}{write_options(options)}"
    is_word = isinstance(value, str) and value.isprintable()
    return value if is_word else json.dumps(value, separators=(",", ":"))


def content_digest(content: Any) -> str:
    """Return the content hash of what JSON can hold, as hexadecimal digits."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def agent_names() -> Mapping[str, str]:
    """Return the short names of the agents that come with the project, and their targets.

    Raises:
        ImportError: if Python finds another `agents` first; nothing of it is run.
    """
    first, ours = find_module("agents"), Path(__file__).parents[2] / "agents"
    if first and first.parent.resolve() != ours.resolve():
        condition = "be the package that comes with bandit_gym"
        remedy = "give that folder or file, which Python finds first, another name"
        raise ImportError(message("agents", condition, str(first), remedy))
    return import_module("agents").AGENTS  # type: ignore[no-any-return]


def short_name(target: str) -> str:
    """Return what people call a target: an agent's short name, or what follows the module."""
    names = {known: name for name, known in agent_names().items()}
    return names.get(target, display_name(target).rpartition(":")[2])


# -- Entries as they are typed --------------------------------------------------------------------


def read_entries(name: str, kind: str, entries: Any) -> tuple[Entry, ...]:
    """Read a list of environments or agents, or a dict of labels and agents.

    Args:
        name: what the list is called.
        kind: "env" or "agent", the key that holds the name in an entry that is a dict.
        entries: names, code, problems, dicts with any of these, or `Entry`.

    Raises:
        TypeError: if an entry is anything else, or cannot be sent to workers.
    """
    if isinstance(entries, Mapping) and kind == "agent":
        entries = [_plain_settings(kind, each) | {"label": k} for k, each in entries.items()]
    if isinstance(entries, str) or not isinstance(entries, Sequence):
        raise TypeError(message(name, "be a list, or for agents a dict of labels", entries))
    if not entries:
        raise ValueError(message(name, "have at least one entry", entries))
    expanded = tuple(entry for item in entries for entry in _expand_grid(kind, item))
    for first, second in itertools.combinations(expanded, 2):
        if first.label == second.label or first.digest == second.digest:
            condition, labels = "have different labels and settings", [first.label, second.label]
            raise ValueError(message(name, condition, labels, "remove one, or change it"))
    return expanded


def _expand_grid(kind: str, item: Any) -> Iterator[Entry]:
    """Yield one entry for each point of the item's grid; one in all if it has none."""
    if isinstance(item, Entry):
        yield item
        return
    settings = _plain_settings(kind, item)
    options = {k: v for k, v in settings.items() if k not in (kind, *ENTRY_KEYS)}
    grid, label = settings.get("grid", {}), settings.get("label")
    if not (isinstance(grid, Mapping) and all(isinstance(v, list) and v for v in grid.values())):
        raise TypeError(f"grid of {kind} must be a table of non-empty lists, got {grid!r}.")
    for values in itertools.product(*grid.values()):
        point = dict(zip(grid, values, strict=True))
        own = f"{label}{write_options(point)}" if label and point else label
        yield _make_entry(kind, settings[kind], options | point, own)


def _make_entry(kind: str, name: str, options: dict[str, Any], label: str | None) -> Entry:
    target = (resolve_environment if kind == "env" else resolve_agent)(name, options)
    if label is None:
        prior, own = split_prior(options) if kind == "agent" else (None, options)
        belief = "" if prior is None else f", given {describe_prior(prior)}"
        label = f"{short_name(target)}{write_options(own)}{belief}"
        if len(label) > MAX_LABEL_LENGTH:
            label = f"{label[: MAX_LABEL_LENGTH - 3]}..."
    return Entry(target, options, label)


def _plain_settings(kind: str, item: Any) -> dict[str, Any]:
    """Return an entry as a dict of plain settings, in which names stand for code and objects."""
    settings = dict(item) if isinstance(item, Mapping) else {kind: item}
    given = settings.pop(kind, None)
    if isinstance(given, str):
        named = {kind: given}
    elif kind == "env" and isinstance(given, BanditProblem):
        named = _name_problem(given)
    elif kind == "agent" and callable(given):
        named = {kind: name_of(given)}
    else:
        kinds = "an id, a BanditProblem" if kind == "env" else "a name, a class, a function"
        condition = f"be {kinds}, or a dict with one of these as {kind!r}"
        remedy = ""
        if hasattr(given, "act"):
            remedy = "give what makes it, as each process makes its own"
        elif hasattr(given, "predict"):
            remedy = "save a model, and give {'agent': 'agents.sb3:saved_model', 'path': FILE}"
        raise TypeError(message(kind, condition, item, remedy))
    try:
        if not has_text_keys(settings):
            raise ValueError("JSON has other keys")
        text = json.dumps(named | settings, default=_describe_object, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise TypeError(
            message(f"{kind} options", "be JSON-able, with texts for keys", settings)
        ) from error
    return dict(json.loads(text))


def _name_problem(problem: BanditProblem) -> dict[str, Any]:
    """Return settings of a problem: an id and options, or a stand-in."""
    likelihood = problem.likelihood
    env_id = f"{type(likelihood).__name__}Bandit-v0"
    is_plain = type(problem) is BanditProblem and type(likelihood) in LIKELIHOODS.values()
    if is_plain and env_id in ENV_IDS:
        options = {"num_arms": problem.num_arms, "prior": problem.prior}
        return {"env": env_id} | options | vars(likelihood)
    return {"env": keep_object(problem)}


def _describe_object(value: Any) -> Any:
    """Return what JSON can hold of an object: numbers, a prior's settings, or a stand-in."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Path):
        return str(value)  # which sources are looked for among
    with suppress(AttributeError, TypeError, ValueError):
        settings = value.to_dict()
        if prior_from_dict(settings) == value:
            return settings
    return {"name": keep_object(value)}


# -- Names and their options ----------------------------------------------------------------------


def name_of(code: Any) -> str:
    """Return a target of a class or a function, by which any process finds it."""
    module, name = str(getattr(code, "__module__", "")), getattr(code, "__qualname__", "")
    if module.partition(".")[0] == "agents" and f"agents:{name}" in agent_names().values():
        return f"agents:{name}"  # as its short name has it, so that it draws the same numbers
    home = sys.modules.get(module)
    has_home = module in sys.builtin_module_names or getattr(home, "__file__", None) is not None
    is_importable = module != "__main__" and has_home and getattr(home, name, None) is code
    return f"{module}:{name}" if is_importable else keep_object(code)


def resolve_environment(name: str, options: Mapping[str, Any]) -> str:
    """Return an id that any process can make, `module:Id-v0` unless it is Gymnasium's own.

    Raises:
        ValueError: if the environment is unknown or has no such option; names the nearest.
    """
    target = f"bandit_gym:{name}" if name in ENV_IDS else name
    find_sources(target, options)  # which refuses modules that were edited since their import
    try:
        make = find_environment(target)
    except (gym.error.Error, ImportError, TypeError, ValueError, AttributeError) as error:
        if ":" not in name:
            check_choice("env", name, ENV_IDS)
        reason = summarise_error(error).rstrip(".")
        raise ValueError(message("env", "be an id Gymnasium can make", name, reason)) from error
    _check_options(target, make, options)
    if "wrappers" in options:
        check_wrappers(options["wrappers"])
    return target


def resolve_agent(name: str, options: Mapping[str, Any]) -> str:
    """Return `module:Class` or alike of an agent given by its short name or so already.

    Raises:
        ValueError: if the agent is unknown or has no such option; names the nearest.
    """
    target = name if ":" in name else agent_names()[check_choice("agent", name, agent_names())]
    find_sources(target, options)  # which refuses modules that were edited since their import
    _check_options(target, load_agent(target), options)
    return target


def is_sampler(code: Any) -> bool:
    """Say whether a function takes what a sampler takes, `(problem, counts, sums, rng, size)`."""
    parameters = inspect.signature(code).parameters.values()
    required = [p for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    return not inspect.isclass(code) and len(required) == NUM_SAMPLER_ARGUMENTS


def find_environment(target: str) -> Any:
    """Return an environment's factory."""
    if is_stand_in(target):  # a problem of a session
        return find_env_classes(find_object(target, {}))[0]
    module, _, env_id = target.rpartition(":")
    if module:
        import_module(module)  # which registers the id
    entry_point = gym.spec(env_id).entry_point
    return load_named("entry point", entry_point) if isinstance(entry_point, str) else entry_point


def list_parameters(make: Any) -> dict[str, inspect.Parameter]:
    """Return what people may choose of the arguments of a constructor."""
    if make in ENVIRONMENTS:
        return list_options(make)
    parameters = inspect.signature(make).parameters
    given = [*parameters][:NUM_SAMPLER_ARGUMENTS] if is_sampler(make) else GIVEN_ARGUMENTS
    return {name: each for name, each in parameters.items() if name not in given}


def _check_options(target: str, make: Any, options: Mapping[str, Any]) -> None:
    """Refuse unknown options; what any entry may have is left to the constructor."""
    parameters = list_parameters(make)
    if not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        known = [*dict.fromkeys([*parameters, *ENTRY_KEYS, PRIOR_OPTION, "wrappers"])]
        check_keys(f"options of {short_name(target)}", options, optional=known)


def summarise_error(error: BaseException) -> str:
    """Say in one line, fit for a terminal, what was raised."""
    line = f"{type(error).__name__}: {str(error).strip()}".partition("\n")[0]
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


# -- The environment and the agent of an entry ----------------------------------------------------


def make_environment(entry: Entry, num_envs: int, horizon: int) -> gym.vector.VectorEnv:
    """Make N lanes of an environment, in its wrappers."""
    options = {"max_episode_steps": horizon} | entry.arguments
    wrappers = options.pop("wrappers", ())
    if is_stand_in(entry.target):
        problem = find_object(entry.target, entry.pickles)
        env: Any = find_env_classes(problem)[1](num_envs, problem, **options)
    else:
        env = gym.make_vec(entry.target, num_envs=num_envs, **options)
    return wrap(env, wrappers) if wrappers else env


def load_agent(
    target: str, pickles: Mapping[str, bytes] = MappingProxyType({})
) -> Callable[..., BanditAgent]:
    """Import an agent's class, or a function that makes one; `check_fit` checks its methods.

    Args:
        target: what names it.
        pickles: those of its entry.

    Raises:
        TypeError: if it is neither.
        ValueError: if there is no such module or class.
    """
    make = find_object(target, pickles) if is_stand_in(target) else load_named("agent", target)
    if not callable(make):
        raise TypeError(message("agent", "be a class, or a function that makes an agent", target))
    return make  # type: ignore[no-any-return]


def split_prior(options: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the prior that an agent is given, None if it is given none, and its other options."""
    others = dict(options)
    if isinstance(prior := others.pop(PRIOR_OPTION, None), str) and ":" not in prior:
        return None, dict(options)  # a word, which is an option of the agent's own
    return prior, others


def make_entry_agent(entry: Entry, problem: Any, horizons: Sequence[int]) -> BanditAgent:
    """Make an agent that is given the problem, or another prior, and the horizon if it asks."""
    make, options = load_agent(entry.target, entry.pickles), entry.arguments
    takes = inspect.signature(make).parameters
    prior, others = split_prior(options)
    if prior is not None and (PRIOR_OPTION not in takes or entry.target.startswith("agents:")):
        problem, options = replace(problem, prior=make_prior(prior)), others
    if "horizon" in takes and "horizon" not in options and len(horizons) > 1:
        remedy = "run an experiment for each, or give the agent a horizon"
        condition = "be one number for an agent that is given it"
        raise ValueError(message("horizon", condition, horizons, remedy))
    return make_rollout_agent(make, problem, horizons[-1], options)


# -- Objects without an importable name -----------------------------------------------------------

STAND_IN_PREFIX = "<own>:"
"""What no module can be called."""

STAND_IN_PATTERN = re.compile(r"<own>:[\w.]+\.[0-9a-f]{16}")

_objects: dict[str, tuple[bytes, Any]] = {}
"""What stands for an object -> its pickle and the object, the last that this process had."""


def keep_object(value: Any) -> str:
    """Keep an object, and return the name that stands for it.

    Raises:
        TypeError: if it cannot be sent to other processes.
    """
    import cloudpickle  # slow to start, and seldom needed

    label = getattr(value, "__name__", type(value).__name__)
    if label == "<lambda>":  # of which a line may hold several, with one source text
        raise TypeError(message("a function", "have a name", value, "name a function by def"))
    try:
        pickled = cloudpickle.dumps(value)
    except Exception as error:  # of any kind, as what an object holds may be anything
        reason = f"{type(error).__name__}: {error}".rstrip(".")
        raise TypeError(message(label, "be picklable", value, reason)) from error
    plain = re.sub(r"\W", "_", label)
    name = f"{STAND_IN_PREFIX}{plain}.{_digest_of(value)[:16]}"
    _objects[name] = pickled, value
    return name


def is_stand_in(value: Any) -> bool:
    """Say whether a value is a name that stands for an object."""
    return isinstance(value, str) and STAND_IN_PATTERN.fullmatch(value) is not None


def display_name(name: str) -> str:
    """Return what people call what a stand-in stands for; any other name as it is."""
    return name.removeprefix(STAND_IN_PREFIX).rpartition(".")[0] if is_stand_in(name) else name


def find_object(name: str, pickles: Mapping[str, bytes]) -> Any:
    """Return the object that a name stands for in an entry, or else in this process.

    Raises:
        ValueError: if this process does not have it; says how it would.
    """
    pickled, value = _objects.get(name, (None, None))
    if pickles.get(name, pickled) != pickled:
        pickled, value = _objects[name] = pickles[name], pickle.loads(pickles[name])
    if pickled is None:
        label = display_name(name)
        condition = "be importable to be run from a folder, which has its digest only"
        remedy = f"put it into a module and name it 'module:{label}'"
        raise ValueError(message(label, condition, name, remedy))
    return value


def _insert_objects(value: Any, pickles: Mapping[str, bytes]) -> Any:
    """Return options in which objects are what stood for them, as `{"name": stand-in}`."""
    if isinstance(value, Mapping):
        if is_stand_in(value.get("name")):
            return find_object(value["name"], pickles)
        return {key: _insert_objects(item, pickles) for key, item in value.items()}
    is_list = isinstance(value, list)
    return [_insert_objects(item, pickles) for item in value] if is_list else value


def _digest_of(value: Any) -> str:
    """Return a digest of an object's source text and plain values, as hexadecimal digits.

    It is the same in any process, so that the seeds that it enters are. Code that the object calls
    does not count here; see `find_sources`.
    """
    is_code = isinstance(value, FunctionType | type)
    code = value if is_code else type(value)
    try:
        source = inspect.getsource(code)
    except (OSError, TypeError):  # of a shell, or made by other code
        source = code.__qualname__
    if isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        contents: Any = cells, value.__defaults__, *filter(None, [value.__kwdefaults__])
    elif isinstance(value, partial):
        contents = _digest_of(value.func), value.args, value.keywords
    else:
        contents = None if is_code else getattr(value, "__dict__", repr(value))
        if not is_code and any(vars(each).get("__slots__") for each in type(value).__mro__):
            contents = object.__getstate__(value)
    text = f"{textwrap.dedent(source)}\n{_hash_contents(contents)}"
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def _hash_contents(contents: Any) -> str:
    """Return the hash of plain values; of what joblib cannot hash, such as a lock, the parts'."""
    import joblib  # slow to start, and seldom needed

    try:
        return str(joblib.hash(contents))
    except Exception:  # of anybody's
        parts = [*contents.items()] if isinstance(contents, dict) else contents
        if isinstance(parts, list | tuple) and parts:
            return str([_hash_contents(part) for part in parts])
        return type(contents).__qualname__
