"""Learners for Bayesian bandits, all with one `act`/`observe` interface; see `agents.base.Agent`.

Agents load on first use: `import agents` itself brings neither numba nor SciPy.
"""

from __future__ import annotations

from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any

from bandit_gym.checks import check_choice, check_keys, check_path, load_named, message

if TYPE_CHECKING:
    from pathlib import Path

    from agents.base import Agent as Agent
    from agents.bayes_optimal import BayesOptimal as BayesOptimal
    from agents.racing_thompson import RacingThompson as RacingThompson
    from agents.rules.gittins import DiscountedGittins as DiscountedGittins
    from agents.rules.gittins import FiniteHorizonGittins as FiniteHorizonGittins
    from agents.rules.gittins import OptimisticGittins as OptimisticGittins
    from agents.rules.greedy import EpsilonGreedy as EpsilonGreedy
    from agents.rules.greedy import Greedy as Greedy
    from agents.rules.greedy import UniformRandom as UniformRandom
    from agents.rules.lookahead import InformationDirected as InformationDirected
    from agents.rules.lookahead import InformationRelaxation as InformationRelaxation
    from agents.rules.lookahead import KnowledgeGradient as KnowledgeGradient
    from agents.rules.thompson import ExactThompson as ExactThompson
    from agents.rules.thompson import LaplaceThompson as LaplaceThompson
    from agents.rules.thompson import SlidingWindow as SlidingWindow
    from agents.rules.thompson import SMCThompson as SMCThompson
    from agents.rules.thompson import Thompson as Thompson
    from agents.rules.thompson import TopTwoThompson as TopTwoThompson
    from agents.rules.ucb import KLUCB as KLUCB
    from agents.rules.ucb import MOSS as MOSS
    from agents.rules.ucb import UCB1 as UCB1
    from agents.rules.ucb import BayesUCB as BayesUCB
    from agents.rules.ucb import LinUCB as LinUCB
    from agents.rules.ucb import UCBTuned as UCBTuned
    from bandit_gym.problem import BanditProblem

_TARGETS = {
    "Thompson sampling": {
        "racing": "racing_thompson:RacingThompson",
        "racing_paper": "racing_thompson:RacingThompson.paper",
        "exact": "rules.thompson:ExactThompson",
        "smc": "rules.thompson:SMCThompson",
        "smc_paper": "rules.thompson:SMCThompson.paper",
        "top_two": "rules.thompson:TopTwoThompson",
        "thompson": "rules.thompson:Thompson",
        "sliding_window": "rules.thompson:SlidingWindow",
    },
    "greedy and index rules": {
        "random": "rules.greedy:UniformRandom",
        "greedy": "rules.greedy:Greedy",
        "epsilon_greedy": "rules.greedy:EpsilonGreedy",
        "ucb1": "rules.ucb:UCB1",
        "kl_ucb": "rules.ucb:KLUCB",
        "bayes_ucb": "rules.ucb:BayesUCB",
        "ucb_tuned": "rules.ucb:UCBTuned",
        "moss": "rules.ucb:MOSS",
        "discounted_gittins": "rules.gittins:DiscountedGittins",
        "finite_horizon_gittins": "rules.gittins:FiniteHorizonGittins",
        "optimistic_gittins": "rules.gittins:OptimisticGittins",
    },
    "with features": {"laplace": "rules.thompson:LaplaceThompson", "lin_ucb": "rules.ucb:LinUCB"},
    "looking ahead": {
        "knowledge_gradient": "rules.lookahead:KnowledgeGradient",
        "information_directed": "rules.lookahead:InformationDirected",
        "information_relaxation": "rules.lookahead:InformationRelaxation",
        "optimal": "bayes_optimal:BayesOptimal",
    },
}
"""Short names by kind, and the agents' factories, in modules of this package."""

GROUPS = {
    kind: {name: f"agents:{target.partition(':')[2]}" for name, target in listed.items()}
    for kind, listed in _TARGETS.items()
}
"""Short names by kind, as the command line takes them, and where the agents' factories are."""

AGENTS = {name: target for group in GROUPS.values() for name, target in group.items()}
"""Short names, and where the agents' factories are."""

AGENT_MODULES = {"Agent": "base"} | {
    factory_name.partition(".")[0]: module
    for listed in _TARGETS.values()
    for module, _, factory_name in (target.partition(":") for target in listed.values())
}
"""Classes of agents, and the modules of this package that they are in."""

__all__ = ["AGENTS", "GROUPS", "AGENT_MODULES", "load", "make_agent", *AGENT_MODULES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in AGENT_MODULES:
        return getattr(import_module(f"{__name__}.{AGENT_MODULES[name]}"), name)
    raise AttributeError(f"{__name__} has no {name!r}.")


def __dir__() -> list[str]:
    return sorted([*AGENT_MODULES, "load"])


def make_agent(name: str, problem: Any, **hyperparameters: Any) -> Agent:
    """Build an agent by its short name.

    Args:
        name: a key of `AGENTS`.
        problem: the `BanditProblem` that it is given.
        hyperparameters: keyword arguments of the factory.

    Raises:
        ValueError: if the name or a hyperparameter is unknown, where the nearest known one is
            named, or if one is missing.
    """
    factory = load_named("name", AGENTS[check_choice("name", name, AGENTS)])
    known = [p for p in signature(factory).parameters.values() if p.name != "problem"]
    required = [p.name for p in known if p.default is p.empty]
    optional = ["prior", *(p.name for p in known if p.default is not p.empty)]
    check_keys(f"{name} options", hyperparameters, required=required, optional=optional)
    return factory(problem, **hyperparameters)  # type: ignore[no-any-return]


def load(
    path: str | Path,
    problem: BanditProblem | None = None,
    *,
    agent_class: type[Agent] | None = None,
    posterior: Any = None,
) -> Agent:
    """Return a saved agent, which goes on bit for bit as the one that was saved.

    Its class is one of `agents`, or is given, and so is its posterior; a file cannot name any other
    code.

    Args:
        path: of the file.
        problem: what the agent was given. It must be given if its prior or its likelihood has no
            name from which it can be made again, and may be left out otherwise.
        agent_class: the agent's class, if it is one of your own.
        posterior: the agent's argument, if it was a posterior of your own.

    Raises:
        OSError: if there is no such file.
        TypeError: if an argument is of the wrong kind.
        ValueError: if the file is damaged, another one, or too old for its posterior, or what must
            be given is not, or is not what the agent was saved with.
    """
    from agents.base import saved

    path = check_path("path", path)
    content, where = saved.read_agent_file(path), f"for the agent in {str(path)!r}"
    module, _, name = content["class"].rpartition(":")
    built_in = getattr(import_module(module), name, None) if module == "agents" else None
    kind: Any = built_in or agent_class
    if agent_class not in (None, kind) or getattr(kind, "__qualname__", "") != name:
        raise ValueError(message("agent_class", f"be {name} in {module} {where}", agent_class))
    known = saved.restore_problem(content["problem"]) if content["problem"] else problem
    if known is None or problem not in (None, known):
        condition = f"be the one with the prior {content['prior']} that was given {where}"
        raise ValueError(message("problem", condition, problem))
    options, users_posterior = content["options"], content["posterior"]
    if (users_posterior is None) != (posterior is None):
        condition = f"be {users_posterior or 'left out'} {where}"
        raise ValueError(message("posterior", condition, posterior))
    taken = [*signature(kind).parameters][1:]
    check_keys("options", options, optional=taken)  # a prior might name code
    if saved.is_custom_posterior(options.get("posterior")):
        raise ValueError(message("options", "name no code", options))
    agent: Agent = kind(known, **options, **({} if posterior is None else {"posterior": posterior}))
    agent.reset(content["num_envs"], seed=0)
    saved.set_state(agent, content["state"], content["format"])
    agent._available = tuple(content.get("available", ()))
    num_arms = agent.lane_counts.shape[1]
    if num_arms != agent.problem.num_arms and not agent._has_features:
        raise ValueError(message("problem", f"have {num_arms} arms {where}", problem))
    agent.rng.bit_generator.state = content["generator"]
    return agent
