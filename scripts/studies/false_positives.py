"""How often the rules of the paper's page err where there is nothing to find.

Two nulls: stored paired differences whose signs are flipped, so that their mean is 0; and racing
(the default) against itself under other seeds, on whole pages at a small scale.

Notation: C clusters, T steps.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from agents import RacingThompson
from bandit_gym.checks.typing import FloatArray
from bandit_gym.results.report import markdown_rows
from bandit_gym.rollout import rollout
from scripts.studies.claims import ClaimMeasure
from scripts.studies.figures import (
    MAIN_AGENTS,
    make_problem,
    measure_claim,
)
from scripts.studies.study import DOCS, FAILS, HOLDS, UNDECIDED, StudyTask, parts_of
from scripts.studies.variants import VariantTask

PREFIX = "False positives"


class Rule(NamedTuple):
    """A claim about how much more regret another agent has, and what is no difference.

    Attributes:
        make: gains and margin -> the measure.
        wrong_if_equal: the verdict that is wrong where both have the same regret.
        wrong_at_margin: those that are wrong where they differ by just the margin.
    """

    make: Callable[[FloatArray, float], ClaimMeasure]
    wrong_if_equal: str
    wrong_at_margin: tuple[str, ...]


RULES = {
    "outperforms": Rule(lambda x, margin: ClaimMeasure(x, low=0.0, same=margin), HOLDS, (FAILS,)),
    "outperforms, by the first rule": Rule(
        lambda x, margin: ClaimMeasure(x, low=margin), HOLDS, (HOLDS, FAILS)
    ),
    "competitive": Rule(lambda x, margin: ClaimMeasure(-x, high=margin), FAILS, (HOLDS, FAILS)),
    "similar": Rule(lambda x, margin: ClaimMeasure(x, -margin, margin), FAILS, (HOLDS, FAILS)),
}
NULLS = "equal", "equal, skewed", "margin"


def parts(task: StudyTask) -> dict[str, Callable[[], Any]]:
    """Return a part for flipped signs, and one for whole pages."""
    return {
        f"{PREFIX}: signs": partial(flip_signs, task),
        f"{PREFIX}: pages": partial(play_pages, task),
    }


def flip_signs(task: StudyTask) -> dict[str, dict[str, float]]:
    """Return rule -> the share of wrong verdicts under each of `NULLS`.

    Differences are those that the page on distances stores: shares of exact's regret that another
    agent loses, in 180 replications. Agents are made equal by flipped signs or, as these lose what
    is skewed, by resampling the differences from their mean; or they differ by just the margin.
    """
    settings, margin = task.settings, task.settings["margin"]
    stored = json.loads((DOCS / "distance.json").read_text(encoding="utf-8"))
    rows = [row for each in parts_of(stored, "agent").values() for row in each]
    series = [np.array(row["lost"]) for row in rows if np.ptp(row["lost"])]
    rng, found = np.random.default_rng(settings["seed"]), {}
    count = max(4, round(task.scale * settings["false_positives"]["flips"]))
    for name, rule in RULES.items():
        wrong: Counter[str] = Counter()
        shift = -margin if name == "competitive" else margin
        for _ in range(count):
            lost = rng.permutation(series[rng.integers(len(series))])
            flipped = lost * rng.choice([-1.0, 1.0], len(lost))
            skewed = rng.choice(lost - lost.mean(), len(lost))
            wrong["equal"] += _decide(rule, flipped, settings) == rule.wrong_if_equal
            wrong["equal, skewed"] += _decide(rule, skewed, settings) == rule.wrong_if_equal
            wrong["margin"] += _decide(rule, flipped + shift, settings) in rule.wrong_at_margin
        found[name] = {null: wrong[null] / count for null in NULLS}
    return found


def _decide(rule: Rule, gains: FloatArray, settings: Mapping[str, Any]) -> str:
    """Look as often as the page does, at the level that a single claim would have."""
    for look in settings["looks"]:
        measure = rule.make(gains[: round(look * len(gains))], settings["margin"])
        word = measure.verdict(settings["level"] / len(settings["looks"]))
        if word != UNDECIDED:
            break
    return word


class NullRuns(NamedTuple):
    """Curves of racing under several seeds, each of which stands for an agent of the page."""

    curves: Mapping[str, FloatArray]

    def regrets(self, label: str, step: int | None = None) -> FloatArray:
        """Return the (C,) pseudo-regrets of a seed at a step, or else at the horizon."""
        return self.curves[label][:, -1 if step is None else step - 1]


def play_pages(task: StudyTask) -> dict[str, Any]:
    """Return how many claims of null pages had each verdict, and how many pages had a wrong one.

    Each page has one problem of Figure 1a and one of Figure 2, and its own seeds.
    """
    sizes, pages = task.settings["false_positives"], []
    settings = {**task.settings, "early": sizes["early"]}
    own = VariantTask(StudyTask(settings, 1.0, task.folder, task.workers), settings["main"])
    for page in range(max(2, round(task.scale * sizes["pages"]))):
        words: list[tuple[str, str]] = []
        for name, figure in settings["figures"].items():
            curves = _play_racing(make_problem(name, figure, page), sizes, page)
            for claim in figure["claims"]:
                if claim != "samples":
                    measure = partial(_measure_part, settings, claim, curves)
                    words.append((claim, own.decide(measure)["verdict"]))
        pages.append(words)
    wrong = [
        [word == (HOLDS if claim in ("thompson", "late") else FAILS) for claim, word in words]
        for words in pages
    ]
    counts = Counter(word for words in pages for _, word in words)
    found = {"verdicts": dict(counts), "pages": len(pages), "claims": sum(map(len, wrong))}
    return found | {"wrong claims": sum(map(sum, wrong)), "wrong pages": sum(map(any, wrong))}


def _measure_part(
    settings: Mapping[str, Any], claim: str, curves: Mapping[str, FloatArray], look: float
) -> ClaimMeasure:
    count = round(look * len(next(iter(curves.values()))))
    return measure_claim(settings, claim, NullRuns({k: v[:count] for k, v in curves.items()}))


def _play_racing(
    problem: Mapping[str, Any], sizes: Mapping[str, int], page: int
) -> dict[str, FloatArray]:
    """Return label -> (C, T) pseudo-regret so far of racing, under a seed for each label."""
    options = {name: value for name, value in problem.items() if name not in ("env", "label")}
    env = gym.make_vec(f"bandit_gym:{problem['env']}", sizes["replications"], **options)
    agent, curves = RacingThompson(env.unwrapped.problem), {}  # type: ignore[attr-defined]
    for number, label in enumerate(MAIN_AGENTS):
        seed = (len(MAIN_AGENTS) * page + number) * sizes["replications"]  # of the first lane
        regret = rollout(agent, env, seed=seed, horizon=sizes["horizon"]).regret
        assert regret is not None
        curves[label] = regret.cumsum(axis=1)
    return curves


def write_table(found: Mapping[str, Any], level: float) -> str:
    """Return what went wrong beside what is promised."""
    titles = dict(zip(NULLS, ("equal", "equal, skew kept", "differ by the margin"), strict=True))
    rows = [
        {"wrong verdicts of": rule}
        | {title: f"{100 * shares[null]:.1f} %" for null, title in titles.items()}
        | {"promised": f"{100 * level:g} %"}
        for rule, shares in found["signs"].items()
    ]
    pages = found["pages"]
    whole = f"{pages['wrong pages']} of {pages['pages']}"
    last = {"wrong verdicts of": "a whole page", "equal": whole, "equal, skew kept": ""}
    last |= {"differ by the margin": "", "promised": f"{100 * level:g} %"}
    return markdown_rows([*rows, last])
