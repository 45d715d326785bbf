"""The table of costs at a small fraction of its size."""

import cost
import numpy as np
import pytest

from bandit_gym.likelihoods import Bernoulli
from bandit_gym.priors import Beta
from bandit_gym.problem import BanditProblem

TINY = {"decisions": 100, "milliseconds": 1}


def known_case(num_arms=2):
    problem = BanditProblem(Bernoulli(), Beta(2.0, 2.0), num_arms)
    counts, sums = cost.play(problem)
    truth = cost.action_probabilities(problem, counts, sums)
    return cost.Case(problem, counts, sums, truth)


@pytest.mark.parametrize("name", cost.SETTINGS)
def test_every_setting_has_a_cost_in_one_lane_and_in_many(name):
    found = cost.find_cost(name, known_case(), TINY)
    assert found.single > 0 and found.many > 0
    assert 0 <= found.distance <= 1 and 0 < found.floor < 0.2
    assert found.num_samples == 1 if name == "exact" else found.num_samples > 1


def test_exact_decisions_are_as_far_off_as_noise_is():
    found = cost.find_cost("exact", known_case(), {"decisions": 5000, "milliseconds": 1})
    # two arms: |share - p|, with a mean of sqrt(2 p (1 - p) / (pi n)) and hardly ever four times it
    assert found.distance <= 4 * found.floor
    assert found.floor <= np.sqrt(1 / (2 * np.pi * 5000)) * 1.1


def test_page_has_a_table_for_each_problem_and_one_picture(tmp_path, monkeypatch):
    monkeypatch.setattr(cost, "problems", lambda: [(*cost.SHOWN, known_case(3).problem)])
    assert cost.main(["--out", str(tmp_path), "--scale", "0.002"]) == 0
    page = (tmp_path / "cost.md").read_text(encoding="utf-8")
    assert page.count("](cost.png)") == 1 and (tmp_path / "cost.png").exists()
    for name in cost.SETTINGS:
        assert page.count(f"| {cost.SHOWN[1]} | {name} |") == 1


def test_problems_are_all_likelihoods_in_two_ten_and_a_hundred_arms():
    found = cost.problems()
    assert len(found) == 3 * len(cost.INDEPENDENT) + 2
    assert {problem.likelihood.name for _, _, problem in found} == {
        "bernoulli", "exponential", "gaussian", "poisson",
    }  # fmt: skip
    assert all(problem.num_arms == num_arms for _, num_arms, problem in found)
