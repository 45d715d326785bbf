"""Is your library's Thompson sampling Thompson sampling? Releases of others, as they are.

Each library is installed in an environment of its own, from `adapters/NAME.txt`, and answers there
through `adapters/NAME_adapter.py`. A sampler has two distances: from Thompson sampling under the
model and prior that its manual states, and under those of the case. They differ where the library
cannot be given the latter.

Notation: K arms, d coefficients, t rewards, p features of a visitor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from agents.oracle import action_probabilities_with_error
from bandit_gym.checks.typing import FloatArray, IntArray
from bandit_gym.experiments.entries import read_entries
from bandit_gym.fidelity import load_suite
from bandit_gym.fidelity.distance import HALF_WIDTH, Excess, measure_excess
from bandit_gym.fidelity.suite import Case, ContextualCase
from bandit_gym.fidelity.trial import FAILED, MEASURED, measure_distance
from bandit_gym.likelihoods import Bernoulli, Gaussian, Poisson
from bandit_gym.priors import Gamma, Normal
from bandit_gym.problem import BanditProblem, ContextualProblem, problem_from_dict
from bandit_gym.results.plots import NotebookFigure
from bandit_gym.styles import COLOURS, GREY, MAX_WIDTH
from scripts.studies.environments import ask_adapter, install_library
from scripts.studies.study import Found, StudyTask, fold_rows, parts_of, write_interval

LINKS = {"bernoulli": "logit", "poisson": "log"}
PLAIN, FEATURES = "fidelity-v1", "contextual-v1"
PROOF_ARMS, PROOF_SIZE, PROOF_ROWS = 3, 2, 20
PROOFS = "arms alike", "one row", "unit covariance"
PLAIN_PROOFS = {
    "one reward an arm": (Gaussian(1.0), Normal(0.0, 1000.0), [1, 1, 1], [0.0, 0.5, 1.2]),
    "sums equal counts": (Poisson(), Gamma(1.0, 1.0), [1, 4, 16], [1.0, 4.0, 16.0]),
    "equal arms": (Gaussian(1.0), Normal(0.0, 1000.0), [9, 9, 9], [4.5, 4.5, 4.5]),
}
"""Likelihood, prior, counts and sums in which releases that differ elsewhere must be at 0."""
RIGHT, APPROXIMATE, DIFFERS, NOT_PROVEN = "as stated", "approximate", "differs", "not proven"
DOTS = {
    "own": ("the case's own prior", COLOURS[1], "none"),
    "stated": ("as its manual states", COLOURS[0], COLOURS[0]),
}
"""Words, colour and inside of each distance's dots."""


def parts(task: StudyTask) -> dict[str, Callable[[], Any]]:
    """Return a part for each sampler, for each agent of ours, and for what cannot be installed."""
    found: dict[str, Callable[[], Any]] = {}
    pythons: dict[str, Path] = {}
    for library in task.settings["libraries"]:
        try:
            pythons[library] = install_library(library)
        except (RuntimeError, OSError) as error:
            found[f"missing: {library}"] = partial(str, error)
    for label, sampler in task.settings["samplers"].items():
        if sampler["library"] in pythons:
            python = pythons[sampler["library"]]
            found[f"sampler: {label}"] = partial(measure_sampler, task, sampler, python)
    for suite, agents in task.settings["agents"].items():
        for name in agents:
            found[f"sampler: {name}, {suite}"] = partial(_measure_agent, task, suite, name)
    return found


def measure_sampler(task: StudyTask, sampler: Mapping[str, Any], python: Path) -> dict[str, Any]:
    """Return the distances of a library's sampler in its cases, and in the one that proves it."""
    chosen = [case for case in _choose_cases(task, sampler["suite"]) if _is_fit(sampler, case)]
    cases = [load_cases()[sampler["proof"]], *chosen]
    problems = [find_stated_problem(sampler, case) for case in cases]
    seeds = range(task.settings["seed"], task.settings["seed"] + len(cases))
    size = sampler.get("decisions", task.size("decisions"))
    shared = {"sampler": sampler["sampler"], "num_decisions": size}
    asked = [
        encode_case(case, problem) | shared | {"seed": seed}
        for case, problem, seed in zip(cases, problems, seeds, strict=True)
    ]
    answers = ask_adapter(python, sampler["library"], asked)
    rows = [
        {"case": case.name} | _compare(case, problem, answer)
        for case, problem, answer in zip(cases, problems, answers, strict=True)
    ]
    stated = {"suite": sampler["suite"], "states": sampler["states"]}
    return stated | {"proof": rows[0], "cases": rows[1:]}


def _choose_cases(task: StudyTask, suite: str) -> list[Case]:
    maximum, left_out = task.settings["max_pulls"], task.settings["left_out"]
    return [
        case
        for case in load_suite(suite).cases
        if 0 < case.counts.sum() <= maximum and not any(text in case.name for text in left_out)
    ]


def _is_fit(sampler: Mapping[str, Any], case: Case) -> bool:
    """Say whether a library can be given a case's rewards, and its features at the decision."""
    if case.problem.likelihood.to_dict()["name"] not in sampler["likelihoods"]:
        return False
    if not isinstance(case, ContextualCase):
        return bool(case.counts.min() > 0) or not sampler.get("all_pulled")
    return not sampler.get("one_visitor") or (case.kind == "disjoint" and _has_one_visitor(case))


def _has_one_visitor(case: ContextualCase) -> bool:
    blocks = [row[row != 0] for row in case.features]
    return all(np.array_equal(block, blocks[0]) for block in blocks)


def find_stated_problem(sampler: Mapping[str, Any], case: Case) -> BanditProblem:
    """Return a case's problem under the model and prior that the manual states.

    A prior that the library can be given is the case's own: of a family in `given`, with a number
    for each parameter.
    """
    own = case.problem.to_dict()
    has_lists = any(isinstance(value, list) for value in own["prior"].values())
    is_given = own["prior"]["name"] in sampler["given"] and not has_lists
    prior = own["prior"] if is_given else sampler["prior"]
    likelihood = sampler.get("model", own["likelihood"])
    return problem_from_dict(own | {"prior": prior, "likelihood": likelihood})


# -- What adapters are given -----------------------------------------------------------------------


def encode_case(case: Case, problem: BanditProblem) -> dict[str, Any]:
    """Return what an adapter is given of a case, under the problem that its manual states.

    Arrays are `arms` (t,), `rewards` (t,); with features also `rows` (t, d) and the `features`
    (K, d) at the decision, and where each arm has coefficients of its own, `visitors` (t, p) and
    the `visitor` (p,) at the decision.
    """
    stated = problem.to_dict()
    arrays: dict[str, Any] = {}
    if isinstance(case, ContextualCase):
        arrays |= {"rows": case.rows, "features": case.features, "rewards": case.rewards}
        if case.kind == "disjoint":
            arms, visitors = _split_blocks(case)
            visitor = case.features[0, : visitors.shape[1]]
            arrays |= {"arms": arms, "visitors": visitors, "visitor": visitor}
    else:
        arrays |= {"arms": np.repeat(np.arange(len(case.counts)), case.counts)}
        arrays |= {"rewards": spread_rewards(case)}
    fields = {name: array.tolist() for name, array in arrays.items()}
    link = LINKS.get(stated["likelihood"]["name"])
    return stated | fields | {"arrays": list(arrays), "link": link}


def spread_rewards(case: Case) -> FloatArray:
    """Return (t,) rewards, arm by arm, with the sums of a case: as even as the likelihood allows.

    Those of Gaussian arms are normal scores with the noise's standard deviation.
    """
    found = []
    for count, total in zip(case.counts, case.sums, strict=True):
        rewards = np.full(count, total / max(count, 1))
        if case.problem.likelihood.to_dict()["name"] in LINKS:  # whole numbers
            rewards = np.diff(np.round(np.linspace(0.0, total, count + 1)))
        elif isinstance(case.problem.likelihood, Gaussian) and count > 1:
            scores = stats.zscore(stats.norm.ppf((np.arange(count) + 0.5) / count), ddof=1)
            rewards = rewards + case.problem.likelihood.std * scores
        found.append(rewards)
    return np.concatenate(found)


def _split_blocks(case: ContextualCase) -> tuple[IntArray, FloatArray]:
    """Return the (t,) arms and (t, p) visitors of rows in which each arm has a block."""
    blocks = case.rows.reshape(len(case.rows), len(case.features), -1)
    arms = (blocks != 0).any(axis=2).argmax(axis=1)
    return arms, blocks[np.arange(len(arms)), arms]


def make_plain_proof_case(name: str) -> Case:
    """Return one of `PLAIN_PROOFS`, without features."""
    likelihood, prior, pulls, totals = PLAIN_PROOFS[name]
    problem, counts, sums = BanditProblem(likelihood, prior, 3), np.array(pulls), np.array(totals)
    found, error = action_probabilities_with_error(problem, counts, sums)
    return Case(name, name, "conjugate", problem, counts, sums, found, float(error))


def make_proof_case(name: str) -> ContextualCase:
    """Return a case in which even an approximate sampler must be at 0, by symmetry or for its rows.

    Args:
        name: "arms alike", where each arm has seen the same visitors and paid the same; for linear
            models, whose answer is known, "one row", of one arm, or "unit covariance", where each
            arm's coefficients have the identity as covariance and as precision.
    """
    rng, std = np.random.default_rng(0), 1.0
    visitors, paid = rng.normal(size=(PROOF_ROWS, PROOF_SIZE)), rng.integers(2, size=PROOF_ROWS)
    rewards = np.tile(paid, PROOF_ARMS).astype(np.float64)
    if name == "unit covariance":
        visitors, rewards, std = np.array([[1, 1], [1, -1]]) / 2, np.repeat([0.0, 1.0], 3), 2**0.5
    rows: FloatArray = np.kron(np.eye(PROOF_ARMS), visitors).astype(np.float64)
    size = 1 if name == "one row" else len(rows)
    problem = ContextualProblem(Bernoulli(), Normal(0.0, std), PROOF_ARMS, PROOF_ARMS * PROOF_SIZE)
    return ContextualCase(
        *(name, name, "disjoint", problem, np.array([size]), rewards[:size].sum(keepdims=True)),
        probabilities=np.full(PROOF_ARMS, 1 / PROOF_ARMS),
        error=0.0,
        features=rows[:: len(visitors)],
        rows=rows[:size],
        rewards=rewards[:size],
        method="symmetry",
        chains_distance=0.0,
    )


def _compare(case: Case, problem: BanditProblem, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return both distances of what an adapter answered, or its error."""
    if "error" in answer:
        return {"error": answer["error"]}
    counts = np.array(answer["counts"])
    stated, error = find_truth(case.name, problem)
    own, distance = (
        measure_excess(counts / counts.sum(), truth, int(counts.sum()))._asdict()
        for truth in (case.probabilities, stated)
    )
    costs = {"microseconds": answer["microseconds"], "error_of_truth": error}
    return {"own": own, "stated": distance} | costs


@cache
def load_cases() -> dict[str, Case]:
    """Return all cases by name."""
    suites = *load_suite(PLAIN).cases, *load_suite(FEATURES).cases
    proofs = *map(make_plain_proof_case, PLAIN_PROOFS), *map(make_proof_case, PROOFS)
    return {case.name: case for case in (*suites, *proofs)}


@cache
def find_truth(name: str, problem: BanditProblem) -> tuple[FloatArray, float]:
    """Return the (K,) probabilities of Thompson sampling in a case, and their error.

    Args:
        name: of the case.
        problem: as stated. If it is the case's own, the answer is stored. Otherwise the oracle
            finds it, to 0.001 in total variation where arms have features.
    """
    case = load_cases()[name]
    if problem == case.problem:
        return case.probabilities, case.error
    data: Any = case.counts, case.sums
    if isinstance(case, ContextualCase):
        data = (case.rows, case.rewards), case.features
    found, error = action_probabilities_with_error(problem, *data)
    return found, float(error)


def _measure_agent(task: StudyTask, suite: str, name: str) -> dict[str, Any]:
    """Return the distances of an agent of ours, which is always given the case's own prior."""
    entry, rows = read_entries("agents", "agent", [name])[0], []
    for case in _choose_cases(task, suite):
        found = measure_distance(entry, case, task.size("decisions"), task.settings["seed"])
        if found["status"] == MEASURED:
            distance = {key: found[key] for key in Excess._fields}
            costs = {"microseconds": found["microseconds"], "error_of_truth": case.error}
            rows.append({"case": case.name, "stated": distance, "own": distance} | costs)
        elif found["status"] == FAILED:
            rows.append({"case": case.name, "error": found["words"]})
    return {"suite": suite, "states": "the case's own", "proof": None, "cases": rows}


# -- The page --------------------------------------------------------------------------------------


def write_tables(found: Found) -> dict[str, str]:
    """Return the tables of the page."""
    near, samplers = found["settings"]["near"], parts_of(found, "sampler")
    settings = found["settings"]["samplers"]
    tables: dict[str, list[dict[str, str]]] = {PLAIN: [], FEATURES: []}
    failed, verdicts = [f"- {n}: {e}" for n, e in parts_of(found, "missing").items()], {}
    for label, part in samplers.items():
        failed += [f"- {label} in {r['case']}: {r['error']}" for r in part["cases"] if "error" in r]
        if not (rows := [row for row in part["cases"] if "error" not in row]):
            continue
        name = {"sampler": label.removesuffix(f", {part['suite']}")}
        beyond = sum(row["stated"]["low"] > near for row in rows)
        if part["proof"]:
            verdicts[label] = _judge(settings[label], part["proof"], beyond, near)
        tables[part["suite"]].append(
            name
            | {"verdict": verdicts.get(label, ""), "stated prior": part["states"]}
            | {"proof": _describe_proof(part["proof"])}
            | {
                "as stated": write_interval(find_mean(rows, "stated"), 3),
                "beyond": f"{beyond} of {len(rows)}",
            }
            | {"own": f"{find_mean(rows, 'own')[0]:z.3f}"}
            | {"µs": f"{np.median([row['microseconds'] for row in rows]):,.0f}"}
        )
    failed += [f"- {label} is not measured" for label in sorted(settings.keys() - samplers.keys())]
    return {
        "answer": _write_answer(verdicts),
        "plain": fold_rows(tables[PLAIN]),
        "features": fold_rows(tables[FEATURES]),
        "failed": "\n".join(failed) or "Nothing.",
    }


def _judge(sampler: Mapping[str, Any], proof: Mapping[str, Any], beyond: int, near: float) -> str:
    """Return the verdict on a sampler that is beyond `near` in a number of cases."""
    if "error" in proof or proof["stated"]["low"] > near:
        return NOT_PROVEN
    if sampler.get("is_approximate"):
        return APPROXIMATE
    return DIFFERS if beyond else RIGHT


def _write_answer(verdicts: Mapping[str, str]) -> str:
    """Return the first sentence of the page, which counts what is proven."""
    num = Counter(verdicts.values())
    libraries = len({label.partition(",")[0] for label in verdicts})
    text = (
        f"Of {len(verdicts)} samplers of {libraries} libraries, {num[RIGHT]} are not seen to "
        f"differ from what their manuals state,\n{num[DIFFERS]} do, "
        f"and {num[APPROXIMATE]} are approximate as they say."
    )
    return f"{text} Not proven: {num[NOT_PROVEN]}." if num[NOT_PROVEN] else text


def _describe_proof(row: Mapping[str, Any] | None) -> str:
    return "" if row is None else row.get("error") or f"{row['stated']['excess']:.3f}"


def find_mean(rows: Sequence[Mapping[str, Any]], kind: str) -> tuple[float, float, float]:
    """Return a mean over cases and its 95 % interval, which adds up the noise of single cases."""
    cases = pd.DataFrame([row[kind] for row in rows])
    half = HALF_WIDTH * np.sqrt((cases["std"] ** 2).sum()) / len(cases)
    mean, high = cases["excess"].mean(), (cases["high"] - HALF_WIDTH * cases["std"]).mean()
    return mean, mean - half, high + half


def draw(found: Found) -> dict[str, Figure]:
    """Draw both distances of each sampler."""
    samplers = parts_of(found, "sampler")
    titles = {PLAIN: "without features", FEATURES: "with features"}
    chosen = {
        suite: [name for name in reversed(samplers) if samplers[name]["suite"] == suite]
        for suite in titles
    }
    figure = NotebookFigure(figsize=(MAX_WIDTH, 8.4), layout="constrained")
    heights = [len(names) + 1 for names in chosen.values()]
    panels = figure.subplots(2, sharex=True, height_ratios=heights)
    for axes, (suite, names) in zip(panels, chosen.items(), strict=True):
        for kind, (title, colour, face) in DOTS.items():
            for place, name in enumerate(names):
                rows = [row for row in samplers[name]["cases"] if "error" not in row]
                middle, low, high = find_mean(rows, kind)
                axes.plot([low, high], [place] * 2, color=colour, lw=1)
                axes.plot(middle, place, "o", color=colour, mfc=face, label="" if place else title)
        axes.set_yticks(range(len(names)), [name.removesuffix(f", {suite}") for name in names])
        axes.set_xscale("symlog", linthresh=0.01)
        axes.axvline(0.0, color=GREY, lw=0.8, ls=":")
        axes.set_title(titles[suite], loc="left")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    panels[1].set_xlabel("distance (TV over noise, mean)")
    return {"libraries": figure}
