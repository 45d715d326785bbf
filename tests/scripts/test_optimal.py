"""The study of avoidable regret at a small fraction of its size."""

import numpy as np
import optimal
import pytest
from avoidable import costs, exact, racing

from agents import ExactThompson, make_agent
from agents.bayes_optimal import expected_regret
from bandit_gym.priors import Beta

UNIFORM = exact.problem(Beta(1.0, 1.0), 2)
SIZES = dict.fromkeys(optimal.SIZES, 4) | {"horizon": 20, "replications": 12, "players": 12}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BANDIT_GYM_CACHE", str(tmp_path))
    monkeypatch.setattr(exact, "PRIORS", {"uniform": Beta(1.0, 1.0)})


def test_page_has_a_section_for_each_part_asked_for(tmp_path):
    assert optimal.main(["--out", str(tmp_path), "--scale", "0.005", "--only", "worst"]) == 0
    page = (tmp_path / "optimal.md").read_text(encoding="utf-8")
    assert page.count("\n## ") == 1
    assert page.count("\n| ") == 1 + 1 + len(exact.STRENGTHS)


def test_no_rule_is_below_the_least_and_one_pull_leaves_no_choice():
    row = exact._rows("uniform", 2, 5)[-1]
    assert all(float(row[label]) >= 1 for label in exact.RULES)
    assert {exact._rows("uniform", 2, 1)[0][label] for label in exact.RULES} == {"1.00"}


def test_agent_as_a_rule_loses_what_its_law_does():
    # A table is within 1e-6 of the law, and a decision costs at most 1: twelve times as much.
    found = expected_regret(UNIFORM, costs.as_rule(ExactThompson(UNIFORM)), 12)
    assert found == pytest.approx(expected_regret(UNIFORM, "thompson", 12), abs=12e-6)


def test_every_rule_is_placed_and_the_optimal_agent_first():
    section = costs.place(SIZES)
    table = section.body[0].splitlines()[2:]
    assert len(table) == len(costs.MARKS)
    cells = {line.split(" | ")[0].strip("| "): line.split(" | ")[1] for line in table}
    assert cells["Bayes-optimal"] == "1.000"
    assert sum(mark.is_drawn for mark in costs.MARKS) <= 7


def test_sharpened_law_to_the_first_power_is_thompsons_and_draws_from_it():
    exact_agent, agent = ExactThompson(UNIFORM), racing.Sharpened(UNIFORM, power=1.0)
    for each in (exact_agent, agent):
        each.reset(4000, seed=0)
        each.warm_start([3, 5], [2.0, 2.0])
    law = exact_agent.action_probabilities()
    np.testing.assert_allclose(agent.action_probabilities(), law)
    share = (agent.act() == 0).mean()
    assert abs(share - law[0, 0]) < 4 * np.sqrt(law[0, 0] * law[0, 1] / 4000)


def test_power_of_a_known_law_is_found(monkeypatch):
    def sharper(world, counts, sums, num_races):
        agent = racing.Sharpened(world, power=2.5)
        return costs.as_rule(agent)(counts, sums)

    monkeypatch.setattr(racing, "race_shares", sharper)
    assert racing.find_power(UNIFORM, 30, 20, 1) == pytest.approx(2.5, abs=1e-3)


def test_race_shares_are_frequencies():
    shares = racing.race_shares(UNIFORM, np.array([[0, 0], [9, 9]]), np.array([[0, 0], [0, 9]]), 50)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    np.testing.assert_allclose(shares[1], [0.0, 1.0], atol=1e-12)


def test_racing_is_compared_with_the_least_in_both_worlds():
    table = racing.explain(SIZES).body[0].splitlines()
    assert len(table) == 2 + 2
    assert " to " not in table[2].split(" | ")[1] and " to " in table[3].split(" | ")[1]


def test_horizon_is_told_to_agents_that_ask_for_one():
    for mark in costs.MARKS:
        agent = make_agent(mark.name, UNIFORM, **mark.options, **costs._told(mark, 9))
        assert getattr(agent, "horizon", 9) == 9
