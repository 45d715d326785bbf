import json

import make_suite
import numpy as np
import pytest
from suites.fidelity_v1 import NAME, WORLDS

from bandit_gym.fidelity.suite import load_suite, suite_file


@pytest.mark.parametrize("kind", ["conjugate", "rare"])
def test_first_world_of_a_kind_is_made_as_it_is_stored(kind):
    world = next(world for world in WORLDS if world.kind == kind)
    stored = json.loads(suite_file(NAME).read_text(encoding="utf-8"))["cases"]
    own = [case for case in stored if case["world"] == world.name]
    assert make_suite.are_same(make_suite.remake(own), own)


def test_histories_of_a_world_have_its_pulls_and_rewards_of_its_kind():
    world = next(world for world in WORLDS if world.kind == "rare")
    found = list(make_suite.histories(world))
    assert [counts.sum() for counts, _ in found] == list(world.pulls)
    assert all(((sums >= 0) & (sums <= counts)).all() for counts, sums in found)


def test_other_cases_are_not_the_same():
    case = {"name": "a", "law": [0.5, 0.5], "error": 1e-12}
    assert make_suite.are_same([case], [case | {"law": [0.5 + 1e-11, 0.5 - 1e-11]}])
    assert not make_suite.are_same([case], [case | {"law": [0.6, 0.4]}])
    assert not make_suite.are_same([case], [case | {"name": "b"}])
    assert not make_suite.are_same([case], [])


def test_every_world_is_stored_with_all_its_pulls():
    stored = [(case.world, int(case.counts.sum())) for case in load_suite(NAME).cases]
    assert stored == [(world.name, pulls) for world in WORLDS for pulls in world.pulls]


def test_a_suite_that_is_there_is_not_written_again(capsys):
    with pytest.raises(SystemExit):
        make_suite.main(["--write"])
    assert "stays as it is" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["bernoulli", "exponential", "gaussian", "poisson"])
def test_total_rewards_average_to_the_means(name):
    world = next(world for world in WORLDS if world.likelihood.name == name)
    means, counts = np.array([0.3, 0.6]), np.array([1_000_000, 0])
    total = make_suite.total_rewards(world.likelihood, means, counts, np.random.default_rng(0))
    std = float(world.likelihood.reward_std(0.3))
    assert abs(total[0] - 300_000) < 4 * std * 1000
    assert total[1] == 0
