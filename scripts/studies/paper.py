"""Does the paper hold? Its tables, figures and Theorem 1, each claim under one main variant.

Until a claim is decided (see `claims`), more is played, up to the last look. All cells and looks of
a variant share one level (Bonferroni), so that no verdict is wrong with the probability that the
level leaves. A margin of exact Thompson sampling's regret in the same replications is no
difference: "outperforms" holds above 0 and fails below the margin, "competitive" is behind by no
more than it, and "similar" is within it on both sides.

Notation: C clusters (replications, or problems where each has a prior of its own), R races, K
arms, S steps at which curves are stored.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.random import SeedSequence
from scipy import integrate, special

from agents import RacingThompson
from agents.base.evidence import CountsAndSums
from agents.oracle import action_probabilities
from agents.posteriors.conjugate import reference_posterior
from agents.racing.proposals import ConjugateProposal, Proposal, add_statistics
from agents.racing.stopping import Paper, threshold_function
from bandit_gym.checks.typing import FloatArray
from bandit_gym.experiments.entries import read_entries
from bandit_gym.fidelity.trial import make_suite_agent
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Likelihood, Poisson
from bandit_gym.priors import Beta, Gamma, InverseGamma, Normal, Prior
from bandit_gym.problem import BanditProblem
from bandit_gym.results.data import RunResults
from bandit_gym.results.report import markdown_rows
from bandit_gym.results.statistics import bootstrap_interval
from bandit_gym.styles import line_style as find_style
from scripts.studies.claims import ClaimMeasure, share_interval
from scripts.studies.study import FAILS, HOLDS, UNDECIDED, Found, StudyTask, parts_of, play_agents

VERDICTS = [HOLDS, FAILS, UNDECIDED]
COLUMNS = "claim", "where", "verdict", "measured", "holds if", "after"
MAIN_AGENTS = ("Racing", "exact Thompson", "Thompson, Beta(1,1)", "SMC")
RACING, EXACT, THOMPSON, SMC = MAIN_AGENTS
EXACT_AGENT = {"agent": "exact", "label": EXACT}
THOMPSON_AGENT = {"agent": "exact", "prior": "reference", "label": THOMPSON}
BLOCK_SIZE, REPLICATIONS_PER_PROBLEM, PROBLEMS_AT_ONCE = 50, 5, 50
QUANTILES = (0.05, 0.5, 0.95)


class RacingByDraws(RacingThompson):
    """The race whose m is the number of its draws, in the averages and in the threshold."""

    def __init__(self, problem: BanditProblem, **options: Any) -> None:
        super().__init__(problem, **options)
        stop = self._posterior.stopping
        assert isinstance(stop, Paper)
        m = np.arange(1.0, stop.max_samples + 1)  # line 12 for averages over m draws, not m + 1
        gaps = 2 * threshold_function(stop.threshold, m, stop.delta) - stop.sigma
        gaps = np.append(np.inf, gaps * m / (m + 1))
        self._posterior.thresholds = self._posterior.thresholds._replace(gaps=gaps)


class RacingBySupremum(RacingThompson):
    """The race whose values f_i are divided by the largest that any mu can have.

    Theorem 1 then holds to the letter, at a cost that makes this an instrument and no agent.
    """

    def __init__(self, problem: BanditProblem, **options: Any) -> None:
        super().__init__(problem, **options)
        has_fallback = not self._posterior.pulls_first
        self._posterior.log_weight_bound = find_log_supremum(
            self._posterior.proposal, has_fallback=has_fallback
        )


def find_log_supremum(proposal: Proposal, *, has_fallback: bool) -> float:
    """Return the log of the supremum of a proposal's weights.

    Args:
        proposal: q.
        has_fallback: whether arms that are missing are raced too, by what stands in for them.

    Raises:
        ValueError: if it is unknown or infinite.
    """
    if proposal.posterior is not None:
        return 0.0
    if not isinstance(proposal, ConjugateProposal) or proposal.natural_parameters is None:
        raise ValueError(
            "problem.prior must offer natural_parameters, for the supremum of its weights, got "
            f"{proposal.problem.prior!r}."
        )
    kinds = proposal.coefficients if has_fallback else proposal.coefficients[:1]
    return sum(
        max(
            _log_supremum_of_arm(proposal.natural_parameters[0][0][arm] - kind[arm], *ends)
            for kind in kinds
        )
        for arm, ends in enumerate(proposal.centre(proposal.problem.arm_support()))
    )


def _log_supremum_of_arm(coefficients: np.ndarray, low: float, high: float) -> float:
    """Return the maximum of c_0 log x + c_1 log(1 - x) + c_2 x + c_3 x^2 + c_4 / x on (low, high).

    The stationary points are roots of a polynomial: the derivative times x^2 (1 - x).
    """
    if _is_unbounded(coefficients, low, high):
        raise ValueError(
            "problem.prior must be such that the weight pi / q_0 is bounded, for its supremum, got "
            f"coefficients {coefficients.tolist()}."
        )
    c0, c1, c2, c3, c4 = coefficients
    x, one_minus_x = np.polynomial.Polynomial([0, 1]), np.polynomial.Polynomial([1, -1])
    slope = (c0 * x + c2 * x**2 + 2 * c3 * x**3 - c4) * one_minus_x - c1 * x**2
    roots = slope.trim().roots() if any(coefficients) else np.array([])
    stationary = roots.real[(abs(roots.imag) < 1e-9) & (roots.real > low) & (roots.real < high)]
    margin = 1e-12 * min(high - low, 1e9)
    points = np.array([*stationary, max(low, -1e9) + margin, min(high, 1e9) - margin])
    return float(add_statistics(coefficients[None, None], points[None, None]).max())


def _is_unbounded(coefficients: np.ndarray, low: float, high: float) -> bool:
    """Say whether that function has no maximum, by the term that grows fastest at each end."""
    c0, c1, c2, c3, c4 = np.round(coefficients, 9)  # differences of parameters that may be equal
    fastest_at_end = (low == 0.0, c4, -c0), (high == 1.0, -c1), (high == np.inf, c3, c2, c0)
    return any(is_open and next(filter(None, terms), 0.0) > 0 for is_open, *terms in fastest_at_end)


# -- When a claim is decided --------------------------------------------------------------------


class VariantTask(NamedTuple):
    """A variant at its scale; the main one has larger sizes and several looks."""

    task: StudyTask
    variant: str

    @property
    def settings(self) -> Mapping[str, Any]:
        """What the study's file says."""
        return self.task.settings

    @property
    def is_main(self) -> bool:
        """Whether the page's answers are of this variant."""
        return self.variant == str(self.settings["main"])

    @property
    def has_levels(self) -> bool:
        """Whether the agent is given delta and sigma, which Table 2 and Theorem 1 vary."""
        return "threshold" in self.settings["variants"][self.variant]

    def make_entry(self, delta: float = 0.1, sigma: float = 0.1) -> dict[str, Any]:
        """Return the agent as an experiment names it."""
        levels = {"delta": delta, "sigma": sigma} if self.has_levels else {}
        return {"label": RACING} | levels | self.settings["variants"][self.variant]

    @property
    def num_cells(self) -> int:
        """How many cells chance may lead astray, which share the level."""
        settings = self.settings
        in_figures = sum(len(figure["claims"]) for figure in settings["figures"].values())
        in_table_2 = 2 * len(settings["deltas"]) * len(settings["sigmas"]) + 4
        return in_figures + self.has_levels * (in_table_2 + self.task.size("problems"))

    @property
    def looks(self) -> Sequence[float]:
        """The shares of the sizes after which claims are judged, the last of which is 1."""
        return self.settings["looks"] if self.is_main else [1.0]  # type: ignore[no-any-return]

    def size(self, name: str, look: float = 1.0) -> int:
        """Return a size of this variant at a look."""
        full = self.task.size(name if self.is_main else f"{name}_others")
        return max(4, round(look * full))

    def decide(self, measure: Callable[[float], ClaimMeasure]) -> dict[str, Any]:
        """Play more and more until a claim is decided, or to the last look."""
        level = self.settings["level"] / (self.num_cells * len(self.looks))
        for look in self.looks:
            found = measure(look)
            word = found.verdict(level)
            if word != UNDECIDED:
                break
        estimate, *ends = found.interval(level)
        limits = (float(np.mean(each)) for each in (found.low, found.high))
        cell = {"verdict": word, "estimate": estimate, "ends": _finite(ends)}
        cell |= {"count": len(found.values), "look": look, "limits": _finite(limits)}
        if word == UNDECIDED:
            (cell["needed"],) = _finite([np.ceil(found.num_clusters_needed(level))])
        return cell


def _finite(numbers: Iterable[float]) -> list[float | None]:
    """Return numbers as JSON can hold them: None for what is infinite."""
    return [each if math.isfinite(each) else None for each in numbers]


# -- What agents did ----------------------------------------------------------------------------


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
    return _finite(found) if math.isfinite(found.estimate) else None


def _play_environments(
    own: VariantTask, name: str, agents: Sequence[Mapping[str, Any]], look: float
) -> list[dict[str, RunResults]]:
    """Play agents in the environments of a figure up to a look, unless they were played before."""
    figure = own.settings["figures"][name]
    sizes = {"horizon": own.size(f"horizon_{figure['of']}"), "seed": own.settings["seed"]}
    if figure["of"] == "1b":
        environment = {"env": "BernoulliBandit-v0", "prior": figure["prior"], "label": name}
        sizes |= {"replications": own.size("replications", look), "block_size": BLOCK_SIZE}
        return list(play_agents(own.task, [environment], agents, **sizes).values())
    make = make_drawn_beta_problem if figure["of"] == "1a" else make_topics_problem
    sizes["replications"] = sizes["block_size"] = REPLICATIONS_PER_PROBLEM
    count = math.ceil(own.size("replications", look) / REPLICATIONS_PER_PROBLEM)
    found: list[dict[str, RunResults]] = []
    for first in range(0, count, PROBLEMS_AT_ONCE):  # a later look goes on with those before
        problems = [make(n) for n in range(first, min(first + PROBLEMS_AT_ONCE, count))]
        found += play_agents(own.task, problems, agents, **sizes).values()
    return found


def make_drawn_beta_problem(number: int) -> dict[str, Any]:
    """Return an environment of Figure 1a: ten Beta(a, b), a and b uniform on (1, 10)."""
    rng = np.random.default_rng(2017)
    alpha, beta = rng.uniform(1.0, 10.0, size=(number + 1, 2, 10))[-1].round(4).tolist()
    prior = {"name": "beta", "alpha": alpha, "beta": beta}
    return {"env": "BernoulliBandit-v0", "prior": prior, "label": f"prior {number}"}


def make_topics_problem(number: int) -> dict[str, Any]:
    """Return an environment of Figure 2, the u_i uniform on the sphere in 10 dimensions."""
    return {"env": "DependentPriorBandit-v0", "arm_seed": number, "label": f"topics {number}"}


def _judge_figure(own: VariantTask, name: str) -> dict[str, Any]:
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
        return _measure_claim(settings, claim, look(share))

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


def _measure_claim(settings: Mapping[str, Any], claim: str, look: PlayedRuns) -> ClaimMeasure:
    """Return the quantity of a claim and its limits."""
    if claim == "samples":
        return ClaimMeasure(look.samples(), 300.0, 500.0)
    step = settings["early"] if claim == "early" else None
    racing, exact = look.regrets(RACING, step), look.regrets(EXACT, step)
    margin = settings["margin"] * exact
    if claim == "competitive":
        return ClaimMeasure(racing - exact, high=margin)
    more = look.regrets(THOMPSON if claim == "thompson" else SMC, step) - racing
    if claim == "early":
        return ClaimMeasure(more, -margin, margin)
    return ClaimMeasure(more, low=0.0, same=margin)


def _table_2(own: VariantTask) -> dict[str, Any]:
    """Return both numbers of each cell of Table 2, and what is read from them."""
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


# -- Table 1 ------------------------------------------------------------------------------------

TABLE_1_ROWS: tuple[tuple[Likelihood, Prior, str], ...] = (
    (Bernoulli(), Beta(1.0, 1.0), "Beta(1+s, 1+n-s)"),
    (Exponential(), InverseGamma(1.0, 1.0), "λ ~ Γ(1+n, 1+s), so μ ~ InverseGamma(1+n, 1+s)"),
    (Gaussian(), Normal(0.0, 1.0), "Normal(s/n, 1/n)"),
    (Poisson(), Gamma(1.0, 1.0), "Γ(1/2+s, n)"),
)
"""Rewards, a prior that makes their problem proper, and the posterior as the paper has it."""

NUM_REWARDS = 12
PROBABILITIES = (0.05, 0.25, 0.5, 0.75, 0.95)


def _table_1() -> list[dict[str, Any]]:
    return [
        {
            "rewards": row[0].name,
            "posterior": row[2],
            "error": quantile_error(*row[:2]),
            "from Jeffreys": distance_from_jeffreys(row[0]),
        }
        for row in TABLE_1_ROWS
    ]


def quantile_error(likelihood: Likelihood, prior: Prior) -> float:
    """Return the largest |F(q_p) - p| of a row, F by quadrature of prior times likelihood."""
    posterior = reference_posterior(BanditProblem(likelihood, prior, 2))
    uniforms = (np.arange(NUM_REWARDS) + 0.5) / NUM_REWARDS
    total = likelihood.sample(np.full(NUM_REWARDS, 0.4), uniforms).sum()
    counts, sums = np.full((1, 2), NUM_REWARDS), np.full((1, 2), total)
    posterior.update(np.random.default_rng(0), CountsAndSums.from_totals(counts, sums))
    quantiles = [float(posterior.quantile(p)[0, 0]) for p in PROBABILITIES]

    def log_density(x: float) -> float:
        value = likelihood.log_likelihood(x, NUM_REWARDS, total)
        return float(value + log_reference(likelihood, np.float64(x)))

    top = log_density(quantiles[2])
    low, high = likelihood.support
    edges = [low, *quantiles, high]
    parts = [
        integrate.quad(lambda x: np.exp(log_density(x) - top), a, b, epsabs=0, epsrel=1e-10)[0]
        for a, b in zip(edges, edges[1:], strict=False)
    ]
    return float(np.abs(np.cumsum(parts)[:-1] / np.sum(parts) - PROBABILITIES).max())


def distance_from_jeffreys(likelihood: Likelihood) -> float:
    """Return how much the log-ratio of a row's prior and Jeffreys' varies over means in 0.1 to 0.9.

    The Fisher information of a mean is one over the variance of a reward, in all four families.
    """
    means = np.linspace(0.1, 0.9, 81)
    log_jeffreys = -np.log(likelihood.reward_std(means) * np.ones_like(means))
    return float(np.ptp(log_reference(likelihood, means) - log_jeffreys))


def log_reference(likelihood: Likelihood, means: Any) -> Any:
    """Return the log-density of Table 1's reference prior over each mean, up to a constant."""
    if isinstance(likelihood, Exponential):
        return -1 / means - 2 * np.log(means)  # of the mean; the table has its reciprocal
    if isinstance(likelihood, Bernoulli | Gaussian):
        return np.zeros_like(means)
    return -0.5 * np.log(means)


# -- Theorem 1 ----------------------------------------------------------------------------------

DELTA, SIGMA, NUM_ARMS = 0.01, 0.1, 4
MAX_ERROR_PROBABILITY = NUM_ARMS * DELTA
MAX_SAMPLES = 50_000


RandomCase = tuple[BanditProblem, np.ndarray, np.ndarray]
"""A random problem, Bernoulli arms with a Beta prior, and (K,) counts and sums."""


def random_case(number: int) -> RandomCase:
    """Return one of the random problems with data, always the same."""
    rng = np.random.default_rng([1, number])
    alpha, beta = rng.uniform(1.0, 10.0, size=(2, NUM_ARMS)).tolist()
    problem = BanditProblem(Bernoulli(), Beta(alpha, beta), NUM_ARMS)
    counts = rng.integers(0, 31, size=NUM_ARMS)
    sums = rng.binomial(counts, problem.prior.sample(rng, (NUM_ARMS,))).astype(float)
    return problem, counts, sums


def log_mean_weight(prior: Any, counts: np.ndarray, sums: np.ndarray) -> float:
    """Return log E_q[w], w = prod x^(alpha-1) (1-x)^(beta-1), q the Beta(1, 1) posterior."""
    failures = counts - sums
    above = special.betaln(np.array(prior.alpha) + sums, np.array(prior.beta) + failures)
    return float(np.sum(above - special.betaln(1 + sums, 1 + failures)))


def _theorem_1(own: VariantTask) -> dict[str, Any]:
    """Judge the promise in each of some random problems, by itself."""

    @cache
    def run_races(number: int, count: int) -> np.ndarray:
        """Return what the races of a look add to those of the looks before."""
        before = own.size("races", own.looks[count - 1]) if count else 0
        num_races = own.size("races", own.looks[count]) - before
        seed = SeedSequence(own.settings["seed"], spawn_key=(count,))
        return race(random_case(number), own, num_races, seed)

    def measure(look: float, number: int) -> ClaimMeasure:
        counts = range(own.looks.index(look) + 1)
        outcomes = np.concatenate([run_races(number, count)[0] for count in counts])
        return ClaimMeasure(outcomes, high=MAX_ERROR_PROBABILITY, are_outcomes=True)

    numbers = range(own.task.size("problems"))
    cells = {f"problem {n + 1}": own.decide(partial(measure, number=n)) for n in numbers}
    samples = [float(run_races(number, 0)[1].mean()) for number in numbers]
    return {"claims": cells, "samples": float(np.mean(samples))}


def race(case: RandomCase, own: VariantTask, num_races: int, seed: SeedSequence) -> np.ndarray:
    """Race by the paper's stop, and compare each winner's expectation with the best.

    Returns:
        (2, R): whether each race returned an arm with E[v] < max E[v] - sigma, in units of v after
        scaling, and its samples.
    """
    options = own.make_entry(DELTA, SIGMA) | {"max_samples": MAX_SAMPLES}
    (entry,) = read_entries("agents", "agent", [options])
    problem, counts, sums = case
    agent = make_suite_agent(entry, problem, horizon=1)
    agent.reset(num_races, seed=seed)
    agent.warm_start(counts, sums)
    found = agent.race()
    truth = action_probabilities(problem, counts, sums, tolerance=1e-8)
    log_values = found.gumbels + np.log(truth)
    if "proposal" not in options:  # a matched one is the posterior, whose weights are 1
        log_values += log_mean_weight(problem.prior, counts, sums)
    expectations = np.exp(log_values - found.log_scale[:, None])
    winners = expectations[np.arange(num_races), found.totals.argmax(axis=1)]
    return np.array([winners < expectations.max(axis=1) - SIGMA, found.num_samples], dtype=float)


# -- The page -----------------------------------------------------------------------------------


def parts(task: StudyTask) -> dict[str, Callable[[], Any]]:
    """Return a part for Table 1, and for each table, figure and theorem under each variant."""
    found: dict[str, Callable[[], Any]] = {"Table 1": _table_1}
    for variant in task.settings["variants"]:
        own = VariantTask(task, variant)
        judged = {name: partial(_judge_figure, own, name) for name in task.settings["figures"]}
        if own.has_levels:
            judged |= {"Table 2": partial(_table_2, own), "Theorem 1": partial(_theorem_1, own)}
        found |= {f"{variant}: {where}": part for where, part in judged.items()}
    return found


def write_tables(found: Found) -> dict[str, str]:
    """Return the tables of the page."""
    settings = found["settings"]
    main = parts_of(found, settings["main"])
    verdicts = _verdict_rows(settings, main)
    figures = {name: main[name] for name in settings["figures"]}
    variants = {each: parts_of(found, each) for each in settings["variants"]}
    jeffreys = [
        {
            "rewards": row["rewards"],
            "posterior of the mean": row["posterior"],
            "largest error of five quantiles": f"{row['error']:.1e}",
            "is the prior Jeffreys'": "no" if row["from Jeffreys"] > 1e-6 else "yes",
        }
        for row in found["numbers"]["Table 1"]
    ]
    return {
        "verdicts": markdown_rows([dict(zip(COLUMNS, row, strict=True)) for row in verdicts]),
        "figures": markdown_rows([_figure_row(*each) for each in figures.items()]),
        "runs": markdown_rows([row for each in figures.items() for row in _run_rows(*each)]),
        "variants": markdown_rows([_variant_row(*each) for each in variants.items()]),
        "table1": markdown_rows(jeffreys),
        "table2": _table_of_cells(settings, main["Table 2"]["claims"]),
    }


def _verdict_rows(settings: Mapping[str, Any], main: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    """Yield the cells of `COLUMNS` for each claim of the paper, under the main variant."""
    sizes, cells = settings["sizes"], main["Table 2"]["claims"]
    for where in settings["figures"]:
        for claim, cell in main[where]["claims"].items():
            yield _verdict_row(settings["claims"][claim], where, cell, sizes["replications"])
    for claim in (each for each in cells if each.startswith("the smaller")):
        yield _verdict_row(claim, "Table 2", cells[claim], sizes["replications_table2"])
    for which, margin in (("samples", "10 %"), ("regrets", f"{settings['ten_runs']:g}")):
        own = [cell for claim, cell in cells.items() if claim.startswith(f"{which} at")]
        ratio = np.median([cell["estimate"] / cell["paper"] for cell in own])
        claim = f"{which} as in the paper, within {margin}"
        yield _many_cells(claim, "Table 2", own, f"{ratio:.2f} times (median)")
    own = list(main["Theorem 1"]["claims"].values())
    worst = max(cell["estimate"] for cell in own)
    claim = f"a race errs with probability at most {MAX_ERROR_PROBABILITY:g}"
    yield _many_cells(claim, "Theorem 1", own, f"{worst:.4f} (worst problem)")


def _verdict_row(claim: str, where: str, cell: Mapping[str, Any], size: int) -> Sequence[str]:
    ends = " to ".join("?" if each is None else f"{each:.1f}" for each in cell["ends"])
    low, high = (None if each is None else f"{each:.1f}" for each in cell["limits"])
    limits = f"{low} to {high}" if low and high else f"above {low}" if low else f"below {high}"
    needed = cell.get("needed")
    more = f" (needs about {needed * cell['look'] * size / cell['count']:,.0f})" if needed else ""
    measured, after = f"{cell['estimate']:.1f} [{ends}]", f"{cell['look'] * size:,.0f}"
    return claim, where, f"**{cell['verdict']}**{more}", measured, limits, after


def _many_cells(
    claim: str, where: str, own: Sequence[Mapping[str, Any]], measured: str
) -> Sequence[str]:
    """Return the row of a claim that holds if it holds in all its cells."""
    counts = Counter(cell["verdict"] for cell in own)
    word = HOLDS if counts[HOLDS] == len(own) else FAILS if counts[FAILS] else UNDECIDED
    details = ", ".join(f"{each} in {counts[each]}" for each in VERDICTS if counts[each])
    return claim, where, f"**{word}**", measured, f"in all {len(own)}: {details}", ""


def _variant_row(name: str, numbers: Mapping[str, Any]) -> dict[str, str]:
    """Return a row of what a variant changes."""
    figures = [each for where, each in numbers.items() if where.startswith("Figure")]
    first, theorem = numbers["Figure 1a"], numbers.get("Theorem 1", {"claims": {}})
    return {
        "variant": name,
        "samples, Figure 1a": f"{first['samples']:.0f}",
        "regret over exact's": f"{first['ratio']:.2f}",
        "Theorem 1": _count_verdicts(theorem),
        "claims of the figures": _count_verdicts(*figures),
    }


def _count_verdicts(*parts: Mapping[str, Any]) -> str:
    counts = Counter(cell["verdict"] for part in parts for cell in part["claims"].values())
    return " / ".join(str(counts[each]) for each in VERDICTS) if counts else ""


def _table_of_cells(settings: Mapping[str, Any], cells: Mapping[str, Any]) -> str:
    """Return Table 2 under the main variant, with the paper's numbers."""
    rows = []
    for i, delta in enumerate(settings["deltas"]):
        row = {"samples / regret (paper)": f"δ = {delta}"}
        for j, sigma in enumerate(settings["sigmas"]):
            ours = (cells[f"{each} at {delta}, {sigma}"] for each in ("samples", "regrets"))
            details = " / ".join(f"{each['estimate']:.1f}" for each in ours)
            paper = f"{settings['samples'][i][j]} / {settings['regrets'][i][j]}"
            row[f"σ = {sigma}"] = f"{details} ({paper})"
        rows.append(row)
    return markdown_rows(rows)


def _figure_row(name: str, details: Mapping[str, Any]) -> dict[str, str]:
    regrets = {
        label: f"{agent['means'][-1]:.1f} ± {1.96 * agent['errors'][-1]:.1f}"
        for label, agent in details["agents"].items()
    }
    parting = details["parting"]
    ends = "" if not parting else " to ".join(f"{x:,.0f}" if x else "never" for x in parting[1:])
    return {
        "figure": name.removeprefix("Figure "),
        "replications": f"{details['replications']:,}",
        **regrets,
        "samples": f"{details['samples']:.0f}",
        "SMC parts at step": f"{parting[0]:,.0f} [{ends}]" if parting else "not at all",
    }


def _run_rows(name: str, details: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield a row per agent: its distribution of final regrets, and its locked runs."""
    for label, agent in details["agents"].items():
        share, low, high = (100 * each for each in agent["locked"])
        yield {
            "figure": name.removeprefix("Figure "),
            "agent": label,
            "mean": f"{agent['means'][-1]:.1f}",
            "5 %": f"{agent['quantiles'][0]:.1f}",
            "median": f"{agent['quantiles'][1]:.1f}",
            "95 %": f"{agent['quantiles'][2]:.1f}",
            "locked, % of runs": f"{share:.1f} [{low:.1f}, {high:.1f}]",
            "their % of the regret": f"{100 * agent['locked_regret']:.0f}",
        }


def draw(found: Found) -> dict[str, Figure]:
    """Draw regret over time for each figure, and our Table 2 over the paper's."""
    settings = found["settings"]
    main, figures = parts_of(found, settings["main"]), {}
    for of in ("1a", "1b", "2"):
        names = [n for n in settings["figures"] if n.startswith(f"Figure {of}")]
        figure = Figure(figsize=(max(6.0, 4.2 * len(names)), 3.2), layout="constrained")
        for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
            _draw_regret(axes, main[name])
            axes.set_title(name, fontsize=9)
        figures[f"paper-{of}"] = figure
    return figures | {"paper-table2": _draw_table_2(found)}


def _draw_regret(axes: Axes, details: Mapping[str, Any]) -> None:
    """Draw the mean regrets with their 95 % bands."""
    for number, (label, agent) in enumerate(details["agents"].items()):
        mean, half = np.array(agent["means"]), 1.96 * np.array(agent["errors"])
        (line,) = axes.plot(details["steps"], mean, label=label, **find_style(number).line)
        ends = mean - half, mean + half
        axes.fill_between(details["steps"], *ends, color=line.get_color(), alpha=0.2, linewidth=0)
    axes.set(xlabel="step", ylabel="Bayesian pseudo-regret so far", ylim=(0, None))
    axes.legend(frameon=False, fontsize="x-small")


def _draw_table_2(found: Found) -> Figure:
    """Draw samples and regrets of each variant over the paper's, a dot for each of 16 cells."""
    figure, settings = Figure(figsize=(7.0, 6.0), layout="constrained"), found["settings"]
    tables = {name: parts_of(found, name).get("Table 2") for name in settings["variants"]}
    cells = {name: table["claims"] for name, table in tables.items() if table}
    for axes, which in zip(figure.subplots(2, 1), ("samples", "regrets"), strict=True):
        for position, claims in enumerate(cells.values()):
            own = [cell for claim, cell in claims.items() if f"{which} at" in claim]
            ratios = [cell["estimate"] / cell["paper"] for cell in own]
            axes.plot(ratios, np.full(len(ratios), position), "o", alpha=0.4, markeredgewidth=0)
        axes.axvline(1, color="0.6", linewidth=0.8)
        axes.set_yticks(range(len(cells)), [*cells], fontsize=8)
        axes.set(xscale="log", xlabel=f"{which}: ours over the paper's")
    return figure
