"""What a decision costs: microseconds, samples and distance from the truth, for every agent.

For each problem exact Thompson sampling plays PULLS_PER_ARM * K pulls in one world. Every agent is
given what is known then, and its decisions are timed, each with the learning from its reward, in
one lane and in many. The frequencies of its arms before that are compared with the exact action
probabilities of `agents.oracle`.

python scripts/cost.py                                   # makes docs/cost.md and docs/cost.png
python scripts/cost.py --scale 0.01 --out results/cost   # in a minute
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from time import process_time
from typing import Any, NamedTuple

if __name__ == "__main__":  # numba refuses another number once threads run, in a test for instance
    for library in "OMP", "OPENBLAS", "NUMBA":
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")  # read when they are imported

import numpy as np  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from pages.command import add_scale, new_parser, scaled  # noqa: E402
from pages.page import Section, markdown_table, short, write_page  # noqa: E402

from agents import ExactThompson, RacingThompson, SMCThompson  # noqa: E402
from agents.base import Agent  # noqa: E402
from agents.oracle import action_probabilities  # noqa: E402
from bandit_gym.envs.families import dependent_prior  # noqa: E402
from bandit_gym.fidelity.distance import noise_floor, total_variation  # noqa: E402
from bandit_gym.files import RESULTS_VERSION  # noqa: E402
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson  # noqa: E402
from bandit_gym.priors import (  # noqa: E402
    Beta,
    Gamma,
    InverseGamma,
    Normal,
    TruncatedNormal,
)
from bandit_gym.problem import BanditProblem  # noqa: E402
from bandit_gym.results.styles import COLOURS  # noqa: E402

SIZES = {"decisions": 10_000, "milliseconds": 100}
MOST_LANES = 1000
NUMS_OF_ARMS = 2, 10, 100
SHOWN = "Bernoulli, normal cut to [0, 1]", 10
"""The problem of the picture."""
PULLS_PER_ARM = 10
MOST_NUMBERS = 10**6
"""Particles times arms times lanes, 8 MB of them, beyond which lanes only take their time."""
NUM_PARTICLES = 1000
SEED = 0
ONE = np.ones(1)

SETTINGS: Mapping[str, tuple[Callable[..., Agent], dict[str, Any]]] = {
    "exact": (ExactThompson, {}),
    "racing, matched": (RacingThompson, {"proposal": "matched", "stopping": "self-normalised"}),
    "racing, sigma 0.1": (RacingThompson.paper, {}),
    "racing, sigma 0.5": (RacingThompson.paper, {"sigma": 0.5}),
    "particles, 1000": (SMCThompson, {}),
    "particles, moved": (SMCThompson, {"resampling": "systematic", "move": "random-walk"}),
}

INDEPENDENT = {
    "Bernoulli, Beta(2, 2)": (Bernoulli(), Beta(2.0, 2.0)),
    SHOWN[0]: (Bernoulli(), TruncatedNormal(0.5, 0.2)),
    "exponential, inverse gamma(3, 2)": (Exponential(), InverseGamma(3.0, 2.0)),
    "Gaussian, normal(0, 1)": (Gaussian(), Normal(0.0, 1.0)),
    "Poisson, gamma(2, 1)": (Poisson(), Gamma(2.0, 1.0)),
}
DEPENDENT = "Bernoulli, dependent"
"""Of 2 and 10 arms: the truth of 100 dependent ones is not known."""


class Cost(NamedTuple):
    """What a setting's decisions take and how far off they are.

    Attributes:
        single: microseconds in one lane.
        many: microseconds in many lanes.
        num_samples: draws of all means in a decision.
        distance: total variation from the truth; for particles that of a single run, on average.
        floor: what as many draws from the truth itself would show on average.
    """

    single: float
    many: float
    num_samples: float
    distance: float
    floor: float


def main(arguments: Sequence[str] | None = None) -> int:
    parser = new_parser(__doc__, "docs", 1)
    add_scale(parser)
    options = parser.parse_args(arguments)
    sizes, found = scaled(SIZES, options.scale), {}
    for title, num_arms, problem in problems():
        counts, sums = play(problem)
        truth = action_probabilities(problem, counts, sums)
        for name in SETTINGS:
            print(f"{title}, {num_arms} arms: {name} ...", file=sys.stderr)
            case = Case(problem, counts, sums, truth)
            found[title, num_arms, name] = find_cost(name, case, sizes)
    command = f"`python scripts/cost.py --scale {options.scale:g}`"
    note = f"Made by {command}, results version {RESULTS_VERSION}."
    write_page(options.out / "cost.md", "What a decision costs", f"{note} {TEXT}", sections(found))
    return 0


def problems() -> list[tuple[str, int, BanditProblem]]:
    """Return title, number of arms and problem."""
    independent = [
        (title, num_arms, BanditProblem(likelihood, prior, num_arms))
        for title, (likelihood, prior) in INDEPENDENT.items()
        for num_arms in NUMS_OF_ARMS
    ]
    dependent = [
        (DEPENDENT, num_arms, dependent_prior.problem(num_arms)) for num_arms in NUMS_OF_ARMS[:2]
    ]
    return independent + dependent


def play(problem: BanditProblem) -> tuple[np.ndarray, np.ndarray]:
    """Return (K,) counts and sums of a game of exact Thompson sampling."""
    rng = np.random.default_rng(SEED)
    means = problem.prior.sample(rng, (problem.num_arms,))
    agent = ExactThompson(problem)
    agent.reset(seed=SEED)
    for _ in range(PULLS_PER_ARM * problem.num_arms):
        arm = agent.act()
        agent.observe(arm, float(problem.likelihood.sample(means[arm], rng.random())))
    return agent.counts[0], agent.sums[0]


class Case(NamedTuple):
    """A problem, (K,) statistics, and the exact action probabilities."""

    problem: BanditProblem
    counts: np.ndarray
    sums: np.ndarray
    truth: np.ndarray


def find_cost(name: str, case: Case, sizes: Mapping[str, int]) -> Cost:
    """Measure one setting on one problem."""
    num_lanes, budget = lanes_for(name, case, sizes["decisions"]), sizes["milliseconds"] / 1000
    single, many = (informed(name, case, lanes) for lanes in (1, num_lanes))
    if isinstance(many, SMCThompson):
        distance = float(total_variation(many.action_probabilities(), case.truth).mean())
        floor, _ = noise_floor(case.truth, NUM_PARTICLES)
    else:
        distance, floor = distance_of_decisions(many, case.truth, sizes["decisions"])
    times = time(single, budget), time(many, budget)
    return Cost(*times, float(many.diagnostics().get("num_samples", ONE).mean()), distance, floor)


def distance_of_decisions(
    agent: Agent, truth: np.ndarray, num_decisions: int
) -> tuple[float, float]:
    """Return the distance of the frequencies of arms from the truth, and that of exact draws."""
    wins = np.zeros(len(truth))
    while wins.sum() < num_decisions:
        wins += np.bincount(agent.act(), minlength=len(truth))
    floor, _ = noise_floor(truth, int(wins.sum()))
    return float(total_variation(wins / wins.sum(), truth)), floor


def lanes_for(name: str, case: Case, num_decisions: int) -> int:
    """Return how many lanes are needed, fewer where particles take much room and time."""
    room = MOST_NUMBERS // (NUM_PARTICLES * case.problem.num_arms)
    return min(num_decisions, MOST_LANES, *[room] * name.startswith("particles"))


def informed(name: str, case: Case, num_lanes: int, seed: int = SEED) -> Agent:
    """Return an agent that knows the statistics, in every lane."""
    make, options = SETTINGS[name]
    agent: Agent = make(case.problem, **options)
    agent.reset(num_lanes, seed=seed)
    agent.warm_start(case.counts, case.sums)
    return agent


def time(agent: Agent, budget: float) -> float:
    """Return microseconds of a decision and the learning of a reward, the median of steps.

    The reward is possible and near the average of the arm pulled, so that little else changes.
    """
    averages = agent.sums / np.maximum(agent.counts, 1)
    if agent.problem.likelihood.has_whole_rewards:
        averages = np.rint(averages)
    lanes, taken = np.arange(agent.num_lanes), []
    agent.act()
    while sum(taken) < budget or len(taken) < 3:
        start = process_time()
        actions = agent.act()
        agent.observe(actions, averages[lanes, actions])
        taken.append(process_time() - start)
    return 1e6 * median(taken) / agent.num_lanes


TEXT = f"""A decision and the learning from its reward, after {PULLS_PER_ARM} pulls an arm by exact
Thompson sampling. *One lane* is a single run, *many* {MOST_LANES:,} runs in lockstep (100 and 10 of
particles with 10 and 100 arms), in microseconds of processor time of one thread for each run.
*Samples* are draws of all means. *TV* is the total variation distance of the frequencies of arms
from the exact action probabilities; *noise* is what as many exact draws would show, so that a TV up
to about twice that says nothing. Particles are kept: theirs is the TV of the law of a single run,
averaged over runs, and the noise that of as many draws as particles. Racing's *sigma* is the slack
of the paper's races; *matched* draws from each arm's own posterior. Times are of one machine, and
good for comparisons only."""


def sections(found: Mapping[tuple[str, int, str], Cost]) -> list[Section]:
    """Return the picture, then a table for each problem."""
    shown = {name: cost for (*place, name), cost in found.items() if tuple(place) == SHOWN}
    caption = f"{SHOWN[0]}, {SHOWN[1]} arms, many lanes. Below the dotted line all is noise."
    titles = dict.fromkeys(title for title, _, _ in found)
    return [
        Section("At a glance", pictures={"cost": draw(shown)}, caption=caption),
        *(Section(title, body=[table(title, found)]) for title in titles),
    ]


def table(title: str, found: Mapping[tuple[str, int, str], Cost]) -> str:
    """Return the rows of one problem."""
    return markdown_table(
        [
            {
                "arms": str(num_arms),
                "agent": name,
                "one lane, µs": short(cost.single),
                "many, µs": short(cost.many),
                "samples": short(cost.num_samples),
                "TV": f"{cost.distance:.4f}",
                "noise": f"{cost.floor:.4f}",
            }
            for (which, num_arms, name), cost in found.items()
            if which == title
        ]
    )


def draw(costs: Mapping[str, Cost]) -> Figure:
    """Draw microseconds against total variation, a mark for each setting."""
    figure = Figure(figsize=(5.5, 3.6), layout="constrained")
    axes = figure.subplots()
    for (name, cost), colour in zip(costs.items(), COLOURS, strict=False):
        place = cost.many, max(cost.distance, 1e-4)
        axes.plot(*place, "o", color=colour)
        axes.annotate(
            name, place, xytext=(0, 7), textcoords="offset points", ha="center", color=colour,
            fontsize="small",
        )  # fmt: skip
    axes.axhline(2 * max(cost.floor for cost in costs.values()), linestyle=":", color="grey")
    axes.set(xscale="log", yscale="log")
    axes.set(xlabel="microseconds of a decision", ylabel="total variation from the truth")
    axes.margins(x=0.15, y=0.15)
    for axis in axes.xaxis, axes.yaxis:
        axis.set_major_formatter("{x:g}")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    sys.exit(main())
