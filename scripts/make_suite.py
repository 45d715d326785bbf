"""Make the problems, histories and exact answers of a suite, once.

The history of a problem is that of exact Thompson sampling in a world drawn from its prior, or with
stated means, from a declared seed; a tenth of the pulls so far are chosen at a time. The answer is
the law of the best arm by the quadrature of `bandit_gym/fidelity/truth.py`. Its error bound is the
distance, in the largest of all arms, from the oracle's answer (which shares no code with it) and
the oracle's own bound; with one common factor, from the answer by three times as many factors.

    python scripts/make_suite.py             # says whether its answers are those that this finds
    python scripts/make_suite.py --write     # writes a suite that is not there yet

A suite that is there is never written again: other problems make a suite of another name. Histories
are data from then on, and not drawn again: where two arms are as likely, the last digit of their
probability decides what NumPy draws, which is another on another processor.
"""

from __future__ import annotations

import argparse
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.random import Generator
from suites.fidelity_v1 import NAME, WORLDS, World

from agents import ExactThompson
from agents.oracle import action_probabilities_with_error
from bandit_gym.fidelity.priors import OneFactor
from bandit_gym.fidelity.suite import suite_file
from bandit_gym.fidelity.truth import NUM_FACTORS, Data, exact_law, factor_law
from bandit_gym.files import from_json, to_json, write_atomically
from bandit_gym.likelihoods import Likelihood
from bandit_gym.problem import BanditProblem
from bandit_gym.typing import FloatArray

BATCH_SHARE = 0.1
ROUNDING = 1e-12
"""Smallest error bound: of so many sums of floating-point numbers."""

CLOSE = 1e-9
"""Difference of two answers that are the same but for the rounding of other processors."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write a suite that is not there yet")
    options = parser.parse_args(arguments)
    file = suite_file(NAME)
    if options.write and file.exists():
        parser.error(f"{file.name} is there, and stays as it is.")
    if options.write:
        cases = [case for world in WORLDS for case in make_cases(world, histories(world))]
        write_atomically(file, to_json({"name": NAME, "cases": cases}))
        return 0
    stored = from_json(file.read_text(encoding="utf-8"))["cases"]
    is_same = are_same(remake(stored), stored)
    print(f"{len(stored)} cases; their answers are {'' if is_same else 'NOT '}those found now")
    return 0 if is_same else 1


def remake(stored: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the cases that the worlds and the stored histories make now."""
    return [
        case
        for world in WORLDS
        if any(case["world"] == world.name for case in stored)
        for case in make_cases(world, stored_histories(world, stored))
    ]


def are_same(made: list[dict[str, Any]], stored: list[dict[str, Any]]) -> bool:
    """Say whether cases are equal but for the last digits of their answers."""
    answers = ("law", "error")
    return [without(case, answers) for case in made] == [
        without(case, answers) for case in stored
    ] and all(np.allclose(a["law"], b["law"], 0, CLOSE) for a, b in zip(made, stored, strict=True))


def without(case: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    return {key: value for key, value in case.items() if key not in keys}


def make_cases(world: World, data: Iterable[Data]) -> Iterator[dict[str, Any]]:
    """Yield the cases of a world, one for each of its histories."""
    problem = problem_of(world)
    for pulls, (counts, sums) in zip(world.pulls, data, strict=True):
        law, error = answer(world, problem, (counts, sums))
        yield {
            "name": f"{world.name}, {pulls:,} pulls",
            "world": world.name,
            "kind": world.kind,
            "is_game": world.is_game,
            "problem": problem.to_dict(),
            "counts": counts.astype(int).tolist(),
            "sums": sums.tolist(),
            "law": law.tolist(),
            "error": error,
        }


def problem_of(world: World) -> BanditProblem:
    """Return a world's likelihood, prior and number of arms."""
    prior = world.prior.prior() if isinstance(world.prior, OneFactor) else world.prior
    return BanditProblem(world.likelihood, prior, world.num_arms)


def stored_histories(world: World, stored: list[dict[str, Any]]) -> Iterator[Data]:
    """Yield (K,) counts and sums of the stored cases of a world."""
    for case in stored:
        if case["world"] == world.name:
            yield np.array(case["counts"], dtype=np.float64), np.array(case["sums"])


def histories(world: World) -> Iterator[Data]:
    """Yield copies of (K,) counts and sums after each of the world's numbers of pulls."""
    problem = problem_of(world)
    rng = np.random.default_rng(zlib.crc32(world.name.encode()))
    means = np.array(world.means or problem.prior.sample(rng, (world.num_arms,)))
    agent = ExactThompson(problem)
    agent.reset(1, seed=zlib.crc32(world.name.encode()))
    counts, sums, step = np.zeros(world.num_arms), np.zeros(world.num_arms), 0
    for pulls in world.pulls:
        while step < pulls:
            size = min(max(1, int(BATCH_SHARE * step)), pulls - step)
            drawn = rng.multinomial(size, agent.action_probabilities()[0])
            paid = total_rewards(world.likelihood, means, drawn, rng)
            agent.warm_start(drawn, paid)
            counts, sums, step = counts + drawn, sums + paid, step + size
        yield counts.copy(), sums.copy()


def total_rewards(
    likelihood: Likelihood, means: FloatArray, counts: FloatArray, rng: Generator
) -> FloatArray:
    """Draw what (K,) numbers of pulls pay in all."""
    draw = {
        "bernoulli": lambda: rng.binomial(counts, means),
        "exponential": lambda: means * rng.standard_gamma(counts),
        "gaussian": lambda: rng.normal(counts * means, np.sqrt(counts)),
        "poisson": lambda: rng.poisson(counts * means),
    }
    return np.asarray(draw[likelihood.name](), dtype=np.float64)


def answer(world: World, problem: BanditProblem, data: Data) -> tuple[FloatArray, float]:
    """Return the (K,) law of the best arm, and a bound of its largest error."""
    law = exact_law(world.likelihood, world.prior, data)
    if isinstance(world.prior, OneFactor):
        other = factor_law(world.likelihood, world.prior, data, num_factors=3 * NUM_FACTORS)
        return law, ROUNDING + float(np.abs(law - other).max())
    other, error = action_probabilities_with_error(problem, *data)
    return law, ROUNDING + float(np.abs(law - other).max() + error)


if __name__ == "__main__":
    sys.exit(main())
