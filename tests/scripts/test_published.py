"""The tables beside published numbers at a small fraction of their size."""

import numpy as np
import published
import pytest
from studies import run_study

from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta
from bandit_gym.problem import BanditProblem


@pytest.mark.slow
def test_page_has_a_row_for_each_rule_and_each_case(shared):
    done = run_study("python scripts/published.py --out docs --scale 0.005", shared)
    page = (done.folder / "docs/published.md").read_text(encoding="utf-8")
    for each in published.rules(100):
        assert page.count(f"\n| {each.label} |") == 1
    for case in published.CASES:
        assert page.count(f"\n| {case.title} |") == 1


def test_error_of_equal_shares_is_that_of_all_outcomes():
    # one pull of each of 0.5 and 0.6: worse by 0.5 * 0.4, tied by 0.5 * 0.6 + 0.5 * 0.4
    case = published.Case("", (0.5, 0.6), 2)
    assert published.equal_error(case) == pytest.approx(0.2 + 0.5 / 2)


def test_top_two_sampling_of_two_arms_errs_as_equal_shares_do():
    case, num = published.Case("", (0.5, 0.65), 60), 2000
    found = published._error("top_two", case, num).estimate
    expected = published.equal_error(case)
    assert abs(found - expected) <= 4 * np.sqrt(expected / num)


def test_anytime_moss_looks_no_further_than_the_present_step():
    agents = [make(BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)) for make in (
        lambda problem: published.AnytimeMOSS(problem, horizon=1000),
        lambda problem: published.MOSS(problem, horizon=31),
    )]  # fmt: skip
    for agent in agents:
        agent.reset(20, seed=0)
        agent.warm_start([20, 10], [12, 5])
    assert (agents[0].act() == agents[1].act()).all()
    assert agents[0].horizon == 1000
