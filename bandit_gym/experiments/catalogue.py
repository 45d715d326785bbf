"""What the names in settings stand for: environments, agents, their options, and objects.

Agents are found by name at run time, since this package imports none: a short name is looked up in
`agents.AGENTS`, and `module:Class` names a class of anybody's with the methods of `BanditAgent`, or
of agents for `PlainAgents`, or `module:Class.method` a class method that makes an agent.

What has no importable name, such as a class of a notebook, is *packed*. Settings hold a name such
as `<own>:MyAgent.0123456789abcdef`: its own and a digest. This process keeps the object. Entries
that are sent to workers take it along, pickled by value as joblib's loky does with functions.
Folders of results store the name alone. The digest in the name is of the object's source text and
plain values. Another digest, of the whole pickle, decides whether stored blocks still count. The
pickle also has what the code calls, so the same cell of another session is other code.
"""

from __future__ import annotations

import hashlib
import inspect
import pickle
import re
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from bandit_gym.checks import (
    NAME_PATTERN,
    check_choice,
    check_fit,
    check_keys,
    find_problem,
    load_named,
    message,
)
from bandit_gym.envs.contextual import find_env_classes
from bandit_gym.experiments.provenance import find_module, find_sources, find_texts
from bandit_gym.likelihoods import LIKELIHOODS
from bandit_gym.priors import PRIORS, make_prior
from bandit_gym.registration import ENV_IDS
from bandit_gym.rollout import BanditAgent, make_rollout_agent
from bandit_gym.wrappers.wrapping import WRAPPERS, check_wrappers, wrap

if TYPE_CHECKING:
    from bandit_gym.experiments.experiment import Entry, Experiment, Run

PRIOR_OPTION = "prior"
"""The option of an agent that gives it another prior than its environment's."""

ENTRY_KEYS = ("label", "grid")
"""What an entry of an experiment may have beside the options of its environment or agent."""

SB3_LOADER = "agents.sb3:saved_model"
NUM_SAMPLER_ARGUMENTS = 5
GIVEN_ARGUMENTS = ("env", "problem")
"""Arguments that every wrapper or agent is given, and that are therefore no options."""

CATALOGUE_GROUPS = ("environments", "wrappers", "agents", "priors", "likelihoods")

# -- Names and their options ----------------------------------------------------------------------


def resolve_environment(name: str, options: Mapping[str, Any]) -> str:
    """Return an id that any process can make, `module:Id-v0` unless it is Gymnasium's own.

    Raises:
        ValueError: if the environment is unknown or has no such option; names the nearest.
    """
    target = f"bandit_gym:{name}" if name in ENV_IDS else name
    find_sources(target, options)  # which refuses modules that were edited since their import
    try:
        make = _find_environment(target)
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


def agent_names() -> Mapping[str, str]:
    """Return the short names of the agents that come with the project, and their targets.

    Raises:
        ImportError: if Python finds another `agents` first; nothing of it is run.
    """
    found, ours = find_module("agents"), Path(__file__).parents[2] / "agents"
    if found and found.parent.resolve() != ours.resolve():
        condition = "be the package that comes with bandit_gym"
        remedy = "give that folder or file, which Python finds first, another name"
        raise ImportError(message("agents", condition, str(found), remedy))
    return import_module("agents").AGENTS  # type: ignore[no-any-return]


def short_name(target: str) -> str:
    """Return what people call a target: an agent's short name, or what follows the module."""
    names = {known: name for name, known in agent_names().items()}
    return names.get(target, display_name(target).rpartition(":")[2])


def is_sampler(code: Any) -> bool:
    """Say whether a function takes what a sampler takes, `(problem, counts, sums, rng, size)`."""
    parameters = inspect.signature(code).parameters.values()
    required = [p for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    return not inspect.isclass(code) and len(required) == NUM_SAMPLER_ARGUMENTS


def load_agent(target: str) -> Callable[..., BanditAgent]:
    """Import an agent's class, or a function that makes one; `check_fit` checks its methods.

    Raises:
        TypeError: if it is neither.
        ValueError: if there is no such module or class.
    """
    found = unpack_object(target) if is_packed(target) else load_named("agent", target)
    if not callable(found):
        raise TypeError(message("agent", "be a class, or a function that makes an agent", target))
    return found  # type: ignore[no-any-return]


def _find_environment(target: str) -> Any:
    """Return an environment's factory."""
    if is_packed(target):  # a problem of a session
        return find_env_classes(unpack_object(target))[0]
    module, _, env_id = target.rpartition(":")
    if module:
        import_module(module)  # which registers the id
    entry_point = gym.spec(env_id).entry_point
    return load_named("entry point", entry_point) if isinstance(entry_point, str) else entry_point


def find_code(experiment: Experiment) -> list[str]:
    """List what an experiment runs that does not come with this project; nothing is imported.

    That is an agent or an environment, all that options name as `module:name`, and a saved model,
    which is unpickled. Who types a name, or a file of names, agrees to run it. Who resumes a folder
    types neither, and the folder may come from anybody.
    """
    known = {f"bandit_gym:{env_id}" for env_id in ENV_IDS} | {*agent_names().values()}
    found = []
    for entry in (*experiment.environments, *experiment.agents):
        names = [text for text in find_texts(entry.options) if NAME_PATTERN.fullmatch(text)]
        for name in names if entry.target in known else [entry.target, *names]:
            found.append(f"{name} ({find_module(name.rpartition(':')[0])})")
        if entry.target == SB3_LOADER:
            found.append(f"saved model {entry.options.get('path')}")
    return list(dict.fromkeys(found))


def split_prior(options: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the prior that an agent is given, None if it is given none, and its other options."""
    others = dict(options)
    if isinstance(prior := others.pop(PRIOR_OPTION, None), str) and ":" not in prior:
        return None, dict(options)  # a word, which is an option of the agent's own
    return prior, others


def _list_parameters(make: Any) -> dict[str, inspect.Parameter]:
    """Return what people may choose of the arguments of a constructor."""
    found = inspect.signature(make).parameters
    given = [*found][:NUM_SAMPLER_ARGUMENTS] if is_sampler(make) else GIVEN_ARGUMENTS
    return {name: each for name, each in found.items() if name not in given}


def describe_catalogue(*kinds: str) -> str:
    """List what the project has by name, with options and defaults, as text.

    Args:
        kinds: of `CATALOGUE_GROUPS`; none are all.
    """
    chosen = [check_choice("what", kind, CATALOGUE_GROUPS) for kind in kinds] or CATALOGUE_GROUPS
    makers: dict[str, Mapping[str, Any]] = {
        "environments": {name: _find_environment(f"bandit_gym:{name}") for name in ENV_IDS},
        "wrappers": WRAPPERS,
        "agents": {name: load_agent(target) for name, target in agent_names().items()},
        "priors": PRIORS,
        "likelihoods": LIKELIHOODS,
    }
    parts = []
    for kind in chosen:
        parts.append(kind.upper())
        groups = import_module("agents").GROUPS if kind == "agents" else {"": makers[kind]}
        for group, names in groups.items():
            parts += [f"-- {group} --"] if group else []
            parts += [_describe_factory(name, makers[kind][name]) for name in names]
    return "\n\n".join(parts)


def _describe_factory(name: str, make: Any) -> str:
    """Write a name and what its docstring says first, and on a line of their own its options."""
    summary = " ".join((inspect.getdoc(make) or "").partition("\n\n")[0].split())
    shown = (str(each.replace(annotation=each.empty)) for each in _list_parameters(make).values())
    return f"{name}: {summary}\n    {', '.join(shown) or 'no options'}"


def _check_options(target: str, make: Any, options: Mapping[str, Any]) -> None:
    """Refuse unknown options; what any entry may have is left to the constructor."""
    parameters = _list_parameters(make)
    if not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        known = [*parameters, *ENTRY_KEYS, PRIOR_OPTION, "wrappers"]
        check_keys(f"options of {short_name(target)}", options, optional=known)


def summarise_error(error: BaseException) -> str:
    """Say in one line, fit for a terminal, what was raised."""
    line = f"{type(error).__name__}: {str(error).strip()}".partition("\n")[0]
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


# -- An environment and an agent from a run -------------------------------------------------------


def make_agent_and_environment(run: Run) -> tuple[BanditAgent, gym.vector.VectorEnv]:
    """Make the agent and the native vector environment of a run.

    An agent whose constructor takes a `horizon` is given that of the run, if its entry has none.

    Raises:
        ValueError: if the environment is no Bayesian bandit, an option has a wrong value, or the
            agent cannot give the propensities that are asked for.
    """
    env = make_environment(run)
    problem = find_problem(env)
    if problem is None:
        target = run.environment.target
        raise ValueError(f"env must have a `problem` for agents, got {target!r}.")
    agent = make_entry_agent(run.agent, problem, [*run.earlier_horizons, run.horizon])
    if run.propensities and not hasattr(agent, "action_probabilities"):
        condition = "have the method action_probabilities where propensities are recorded"
        raise ValueError(message("agent", condition, run.agent.target))
    return agent, env


def make_environment(run: Run) -> gym.vector.VectorEnv:
    """Make the native vector environment of a run, in its wrappers."""
    target, options = run.environment.target, unpack_options(run.environment.options)
    options = {"max_episode_steps": run.horizon} | options
    wrappers = options.pop("wrappers", ())
    if is_packed(target):
        problem = unpack_object(target)
        env: Any = find_env_classes(problem)[1](run.block_size, problem, **options)
    else:
        env = gym.make_vec(target, num_envs=run.block_size, **options)
    return wrap(env, wrappers) if wrappers else env


def make_entry_agent(entry: Entry, problem: Any, horizons: Sequence[int]) -> BanditAgent:
    """Make an agent that is given the problem, or another prior, and the horizon if it asks."""
    make, options = load_agent(entry.target), unpack_options(entry.options)
    takes = inspect.signature(make).parameters
    takes_prior = PRIOR_OPTION in takes and not entry.target.startswith("agents:")
    if split_prior(entry.options)[0] is not None and not takes_prior:
        problem = replace(problem, prior=make_prior(options.pop(PRIOR_OPTION)))
    if "horizon" in takes and "horizon" not in options and len(horizons) > 1:
        remedy = "run an experiment for each, or give the agent a horizon"
        condition = "be one number for an agent that is given it"
        raise ValueError(message("horizon", condition, horizons, remedy))
    return make_rollout_agent(make, problem, horizons[-1], options)


def check_run(run: Run) -> tuple[BanditAgent, gym.vector.VectorEnv]:
    """Make the agent and the environment; refuse those that do not fit each other or a block."""
    try:
        agent, env = make_agent_and_environment(run)
        check_fit(agent, env, warns=PRIOR_OPTION not in run.agent.options)
        max_lanes = getattr(agent, "max_lanes", run.block_size)
        if run.block_size > max_lanes:
            condition = f"be at most {max_lanes}, for all that this agent keeps of each lane"
            raise ValueError(message("block_size", condition, run.block_size))
        return agent, env
    except (Exception, SystemExit) as error:
        who = f"agent {run.agent.label} must be able to play {run.environment.label}"
        raise ValueError(f"{who}, got {summarise_error(error)}") from error


# -- Objects without an importable name -----------------------------------------------------------

PACKED_PREFIX = "<own>:"
"""What no module can be called."""

PACKED_PATTERN = re.compile(r"<own>:[\w.]+\.[0-9a-f]{16}")

TRACKER_PATTERN = re.compile(rb"[0-9a-f]{32}")
"""The random name that cloudpickle gives each class; a cell that is run again has another."""

_objects: dict[str, Any] = {}
_pickles: dict[str, bytes] = {}


def name_of(code: Any) -> str:
    """Return a target of a class or a function, by which any process finds it."""
    module, name = str(getattr(code, "__module__", "")), getattr(code, "__qualname__", "")
    if module.partition(".")[0] == "agents" and f"agents:{name}" in agent_names().values():
        return f"agents:{name}"  # as its short name has it, so that it draws the same numbers
    found = sys.modules.get(module)
    has_home = module in sys.builtin_module_names or getattr(found, "__file__", None) is not None
    is_importable = module != "__main__" and has_home and getattr(found, name, None) is code
    return f"{module}:{name}" if is_importable else pack_object(code)


def pack_object(value: Any) -> str:
    """Keep an object, and return the name that stands for it.

    Raises:
        TypeError: if it cannot be sent to other processes.
    """
    import cloudpickle  # slow to start, and seldom needed

    label = getattr(value, "__name__", type(value).__name__)
    try:
        pickled = cloudpickle.dumps(value)
    except Exception as error:  # of any kind, as what an object holds may be anything
        reason = f"{type(error).__name__}: {error}".rstrip(".")
        raise TypeError(message(label, "be picklable", value, reason)) from error
    plain = re.sub(r"\W", "_", label)  # without the brackets of <lambda>
    name = f"{PACKED_PREFIX}{plain}.{_digest_of(value)[:16]}"
    _pickles[name], _objects[name] = pickled, value
    return name


def is_packed(value: Any) -> bool:
    """Say whether a value is a name that stands for an object."""
    return isinstance(value, str) and PACKED_PATTERN.fullmatch(value) is not None


def display_name(name: str) -> str:
    """Return what people call what a packed name stands for; any other name as it is."""
    return name.removeprefix(PACKED_PREFIX).rpartition(".")[0] if is_packed(name) else name


def unpack_object(name: str) -> Any:
    """Return the object that a name stands for.

    Raises:
        ValueError: if this process does not have it; says how it would.
    """
    if name not in _objects and name in _pickles:
        _objects[name] = pickle.loads(_pickles[name])
    if name not in _objects:
        label = display_name(name)
        condition = "be importable to be run from a folder, which has its digest only"
        remedy = f"put it into a module and name it 'module:{label}'"
        raise ValueError(message(label, condition, name, remedy))
    return _objects[name]


def unpack_options(value: Any) -> Any:
    """Return options in which objects are what stood for them, as `{"name": packed name}`."""
    if isinstance(value, Mapping):
        if is_packed(value.get("name")):
            return unpack_object(value["name"])
        return {key: unpack_options(item) for key, item in value.items()}
    return [unpack_options(item) for item in value] if isinstance(value, list) else value


def pickles_of(value: Any) -> dict[str, bytes]:
    """Return the pickles of what nested settings name, for another process."""
    return {text: _pickles[text] for text in find_texts(value) if text in _pickles}


def load_pickles(pickles: Mapping[str, bytes]) -> None:
    """Keep what another process has sent; it is unpickled when it is first used."""
    _pickles.update(pickles)


def sources_of(entry: Entry) -> dict[str, str]:
    """Return what results depend on beside settings: file, or name of an object -> digest."""
    return find_sources(entry.target, entry.options) | {
        name: hashlib.sha256(TRACKER_PATTERN.sub(b"", data)).hexdigest()
        for name, data in pickles_of(entry.settings).items()
    }


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
        if value.__name__ == "<lambda>":  # of which a line may hold several
            indent = len(source) - len(source.lstrip())
            source += str([end - indent for *_, end in value.__code__.co_positions() if end])
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
