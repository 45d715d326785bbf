"""What the agents of the paper's figures did, and whether its claims hold there.

Notation: C clusters (replications, or problems where each has a prior of its own), S steps at which
curves are stored, L lanes in all environments.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache, partial
from itertools import product
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import stats

from bandit_gym.checks.typing import FloatArray
from bandit_gym.results.data import RunResults
from bandit_gym.results.statistics import bootstrap_interval
from scripts.studies.claims import ClaimMeasure, share_interval
from scripts.studies.study import play_agents
from scripts.studies.variants import RACING, VariantTask, finite

EXACT, THOMPSON, SMC = "exact Thompson", "Thompson, Beta(1,1)", "SMC"
MAIN_AGENTS = RACING, EXACT, THOMPSON, SMC
EXACT_AGENT = {"agent": "exact", "label": EXACT}
THOMPSON_AGENT = {"agent": "exact", "prior": "reference", "label": THOMPSON}
BLOCK_SIZE, REPLICATIONS_PER_PROBLEM = 50, 5
QUANTILES = (0.05, 0.5, 0.95)


class Regrets(Protocol):
    """What is asked of runs to judge a claim about regret."""

    def regrets(self, label: str, step: int | None = None) -> FloatArray:
        """Return an agent's (C,) pseudo-regrets at a step, or else at the horizon."""


class PlayedRuns(NamedTuple):
    """Runs of agents in one environment, or in several of which each is a cluster.

    Attributes:
        environments: label of the agent -> its run, for each environment.
    """

    environments: Sequence[Mapping[str, RunResults]]

    @property
    def steps(self) -> np.ndarray:
        """The (S,) steps at which curves are stored."""
        return self.environments[0][RACING].steps

    def regrets(self, label: str, step: int | None = None) -> FloatArray:
        """Return an agent's (C,) pseudo-regrets at a step, or else at the horizon."""
        steps = self.environments[0][label].steps
        at = -1 if step is None else min(int(np.searchsorted(steps, step)), len(steps) - 1)
        return self.clusters(label)[:, at]

    def clusters(self, label: str, column: str = "cumulative_regret") -> FloatArray:
        """Return an agent's (C, S) curves, averaged over the replications of a cluster."""
        curves = [runs[label].curves(column) for runs in self.environments]
        return curves[0] if len(curves) == 1 else np.array([each.mean(axis=0) for each in curves])

    def samples(self, label: str = RACING) -> FloatArray:
        """Return an agent's (C,) samples of a decision, on average."""
        horizon = self.environments[0][label].run.horizon
        return self.clusters(label, "num_samples")[:, -1] / horizon

    def curves(self, label: str, column: str = "cumulative_regret") -> FloatArray:
        """Return an agent's (L, S) curves in all environments."""
        return np.concatenate([runs[label].curves(column) for runs in self.environments])

    def schedule(self) -> list[int]:
        """Return how many samples a decision of Racing took at each step, on average."""
        lengths = np.diff(self.steps, prepend=0)
        sums = self.curves(RACING, "num_samples").mean(axis=0)
        rates = np.diff(sums, prepend=0.0) / lengths
        return [max(1, round(rate)) for rate in np.repeat(rates, lengths).tolist()]

    def is_locked(self, label: str) -> np.ndarray:
        """Return whether each replication pulled the best arm in under half of the last tenth."""
        before = int(np.searchsorted(self.steps, 0.9 * self.steps[-1]))
        pulls = self.curves(label, "optimal_pulls")
        length = self.steps[-1] - self.steps[before]
        return np.asarray(pulls[:, -1] - pulls[:, before] < length / 2)


def step_of_parting(played: PlayedRuns, margin: float) -> list[float | None] | None:
    """Return the step from which SMC stays behind Racing by more than the margin, and its interval.

    The interval is the bootstrap's over clusters; a resample without such a step counts as
    infinite.

    Returns:
        step and both ends, or None if SMC is not behind by the margin at the horizon.
    """
    behind = played.clusters(SMC) - played.clusters(RACING) - margin * played.clusters(EXACT)

    def first_steps(batch: FloatArray) -> FloatArray:
        is_near = np.flip(batch.mean(axis=1) <= 0, axis=1)  # the last step first
        num_behind = np.where(is_near.any(axis=1), is_near.argmax(axis=1), len(played.steps))
        return np.append(played.steps, math.inf)[len(played.steps) - num_behind]

    with np.errstate(invalid="ignore"):  # between infinite steps
        found = bootstrap_interval(behind, first_steps)
    return finite(found) if math.isfinite(found.estimate) else None


def _play_environments(
    own: VariantTask, name: str, agents: Sequence[Mapping[str, Any]], look: float
) -> list[dict[str, RunResults]]:
    """Play agents in the environments of a figure up to a look, unless they were played before."""
    figure = own.settings["figures"][name]
    sizes = {"horizon": own.size(f"horizon_{figure['of']}"), "seed": own.settings["seed"]}
    if figure["of"] == "1b":
        environment = make_problem(name, figure, 0)
        sizes |= {"replications": own.size("replications", look), "block_size": BLOCK_SIZE}
        return list(play_agents(own.task, [environment], agents, **sizes).values())
    sizes["replications"] = sizes["block_size"] = REPLICATIONS_PER_PROBLEM
    count = math.ceil(own.size("replications", look) / REPLICATIONS_PER_PROBLEM)
    found: list[dict[str, RunResults]] = []
    for number in range(count):  # with streams of its own, as clusters are to be independent
        state = np.random.SeedSequence(own.settings["seed"], spawn_key=(number,)).generate_state(1)
        sizes["seed"], problem = int(state[0]), make_problem(name, figure, number)
        found += play_agents(own.task, [problem], agents, **sizes).values()
    return found


def make_problem(name: str, figure: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return an environment of a figure; only Figure 1b has the same prior in each.

    That of Figure 1a is ten Beta(a, b), a and b uniform on (1, 10); in Figure 2 the u_i are uniform
    on the sphere in 10 dimensions.
    """
    if figure["of"] == "1b":
        return {"env": "BernoulliBandit-v0", "prior": figure["prior"], "label": name}
    if figure["of"] == "2":
        label = f"topics {number}"
        return {"env": "DependentPriorBandit-v0", "arm_seed": number, "label": label}
    rng = np.random.default_rng(2017)
    alpha, beta = rng.uniform(1.0, 10.0, size=(number + 1, 2, 10))[-1].round(4).tolist()
    prior = {"name": "beta", "alpha": alpha, "beta": beta}
    return {"env": "BernoulliBandit-v0", "prior": prior, "label": f"prior {number}"}


def judge_figure(own: VariantTask, name: str) -> dict[str, Any]:
    """Decide the claims of a figure under a variant; keep the main variant's curves."""
    settings, racing = own.settings, own.make_entry()

    @cache
    def look(share: float) -> PlayedRuns:
        raced = _play_environments(own, name, [racing], share)
        others = _play_environments(own, name, [EXACT_AGENT, THOMPSON_AGENT], share)
        first = PlayedRuns(raced) if share == own.looks[0] else look(own.looks[0])
        particles = {"agent": "smc_paper", "num_particles": first.schedule(), "label": SMC}
        smc = _play_environments(own, name, [particles], share)
        return PlayedRuns([a | b | c for a, b, c in zip(raced, others, smc, strict=True)])

    def measure(share: float, claim: str) -> ClaimMeasure:
        if claim == "samples":
            return ClaimMeasure(look(share).samples(), 300.0, 500.0)
        return measure_claim(settings, claim, look(share))

    try:
        claims = settings["figures"][name]["claims"]
        cells = {claim: own.decide(partial(measure, claim=claim)) for claim in claims}
    except ValueError:
        if "RacingBySupremum" not in settings["variants"][own.variant]["agent"]:
            raise
        return {"claims": {}}  # the supremum of w is unknown for this prior and proposal
    last = look(max(cell["look"] for cell in cells.values()))
    ratio = last.regrets(RACING).mean() / last.regrets(EXACT).mean()
    found = {"claims": cells, "samples": float(last.samples().mean()), "ratio": float(ratio)}
    return found | _describe_runs(last, settings["margin"]) if own.is_main else found


def play_exact_again(own: VariantTask, name: str, look: float) -> dict[str, float]:
    """Return the regret of exact Thompson sampling alone, in the replications of a figure's look.

    For a version that changed its draws and no other agent's.
    """
    played = PlayedRuns(_play_environments(own, name, [EXACT_AGENT], look))
    regrets = played.regrets(EXACT)
    replications = len(played.curves(EXACT))
    return {
        "mean": float(regrets.mean()),
        "error": float(stats.sem(regrets)),
        "replications": replications,
        "level": own.cell_level,
    }


def _describe_runs(played: PlayedRuns, margin: float) -> dict[str, Any]:
    """Return mean curves of each agent, its distribution of final regrets and its locked runs."""
    agents = {}
    for label in MAIN_AGENTS:
        curves, clusters = played.curves(label), played.clusters(label)
        last, is_locked = curves[:, -1], played.is_locked(label)
        errors = clusters.std(axis=0, ddof=1) / math.sqrt(len(clusters))
        agents[label] = {
            "means": curves.mean(axis=0).tolist(),
            "errors": errors.tolist(),
            "quantiles": np.quantile(last, QUANTILES).tolist(),
            "locked": list(share_interval(is_locked, 0.05)),
            "locked_regret": float(last[is_locked].sum() / last.sum()),
        }
    found = {"steps": played.steps.tolist(), "agents": agents, "replications": len(curves)}
    return found | {"parting": step_of_parting(played, margin)}


def measure_claim(settings: Mapping[str, Any], claim: str, look: Regrets) -> ClaimMeasure:
    """Return the quantity of a claim about regret, and its limits."""
    step = settings["early"] if claim == "early" else None
    racing, exact = look.regrets(RACING, step), look.regrets(EXACT, step)
    margin = settings["margin"] * exact
    if claim == "competitive":
        return ClaimMeasure(racing - exact, high=margin)
    more = look.regrets(THOMPSON if claim == "thompson" else SMC, step) - racing
    if claim == "early":
        return ClaimMeasure(more, -margin, margin)
    return ClaimMeasure(more, low=0.0, same=margin)


def judge_table_2(own: VariantTask) -> dict[str, Any]:
    """Return both numbers of each cell of Table 2 at K = 10, and what is read from them."""
    settings, environment = own.settings, {"env": "BernoulliBandit-v0", "num_arms": 10}
    environment |= {"prior": {"name": "beta", "alpha": 5.0, "beta": 5.0}, "label": "Beta(5, 5)"}
    deltas, sigmas = settings["deltas"], settings["sigmas"]
    agents = [
        own.make_entry(delta, sigma) | {"label": f"{delta}, {sigma}"}
        for delta, sigma in product(deltas, sigmas)
    ]

    @cache
    def look(share: float) -> PlayedRuns:
        sizes = {"horizon": own.size("horizon_table2"), "seed": settings["seed"]}
        sizes |= {"replications": own.size("replications_table2", share), "block_size": BLOCK_SIZE}
        played = play_agents(own.task, [environment], [*agents, EXACT_AGENT], **sizes)
        return PlayedRuns([*played.values()])

    def table(share: float, which: str) -> FloatArray:
        """Return the (deltas, sigmas, C) samples or regrets."""
        read = getattr(look(share), which)
        return np.array([[read(f"{delta}, {sigma}") for sigma in sigmas] for delta in deltas])

    def measure_cell(share: float, which: str, i: int, j: int) -> ClaimMeasure:
        paper = settings[which][i][j]
        around = 0.1 * paper if which == "samples" else settings["ten_runs"]
        return ClaimMeasure(table(share, which)[i, j], paper - around, paper + around)

    def measure_rise(share: float, which: str, axis: int) -> ClaimMeasure:
        """Return how much larger a number is at the largest delta or sigma than at the smallest."""
        averages = table(share, which).mean(axis=1 - axis)
        rise = averages[-1] - averages[0]
        if which == "samples":
            return ClaimMeasure(-rise, low=0.0)
        paper = np.mean(settings["regrets"], axis=1 - axis)
        effect = float((paper[-1] - paper[0]) / np.mean(settings["regrets"])) / 2
        return ClaimMeasure(rise, low=effect * look(share).regrets(EXACT))

    cells, claims = {}, {"samples": "more samples", "regrets": "smaller the regret"}
    for (i, delta), (j, sigma), which in product(enumerate(deltas), enumerate(sigmas), claims):
        cell = own.decide(partial(measure_cell, which=which, i=i, j=j))
        cells[f"{which} at {delta}, {sigma}"] = cell | {"paper": settings[which][i][j]}
    for (axis, name), which in product(enumerate("δσ"), claims):
        measure = partial(measure_rise, which=which, axis=axis)
        cells[f"the smaller {name}, the {claims[which]}"] = own.decide(measure)
    return {"claims": cells}
