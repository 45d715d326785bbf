"""Threads change nothing but the time: the pieces of the lanes, their streams, and who may."""

import numpy as np
import pytest

from agents import ExactThompson, SMCThompson
from bandit_gym.experiments import Experiment
from bandit_gym.experiments.simulation import simulate_block
from bandit_gym.likelihoods import Bernoulli
from bandit_gym.numerics.threads import (
    LANES_PER_STREAM,
    MOST_PIECES,
    count_threads,
    cut,
    draw_in_pieces,
    limited_to,
    side_by_side,
)
from bandit_gym.priors import Beta, TruncatedNormal
from bandit_gym.problem import BanditProblem

BETA = BanditProblem(Bernoulli(), Beta(2.0, 3.0), 4)
TRUNCATED = BanditProblem(Bernoulli(), TruncatedNormal(0.5, 0.2), 4)
RENEWED = {"num_particles": 1000, "resampling": "systematic", "move": "random-walk"}
CASES = {
    "exact": (lambda: ExactThompson(BETA), 2 * LANES_PER_STREAM + 1),
    "grid": (lambda: ExactThompson(TRUNCATED), LANES_PER_STREAM + 1),
    "particles": (lambda: SMCThompson(TRUNCATED), 90),
    "renewed": (lambda: SMCThompson(TRUNCATED, **RENEWED), 30),
}


def play(agent, num_lanes, num_threads):
    """Return the (6, N) actions of six steps of 0-1 rewards that depend on lane and arm alone."""
    rewards = np.random.default_rng(0).integers(2, size=(num_lanes, 4)).astype(float)
    lanes, found = np.arange(num_lanes), []
    with limited_to(num_threads):
        agent.reset(num_lanes, seed=0)
        for _ in range(6):
            found.append(agent.act())
            agent.observe(found[-1], rewards[lanes, found[-1]])
    return np.array(found)


@pytest.mark.parametrize("name", CASES)
def test_actions_do_not_depend_on_the_number_of_threads(name):
    make, num_lanes = CASES[name]
    alone = play(make(), num_lanes, 1)
    assert (play(make(), num_lanes, 2) == alone).all()
    assert (play(make(), num_lanes, 5) == alone).all()


def test_the_number_of_threads_may_change_between_two_steps():
    """Tables are copied from lanes that another piece may have had before."""
    agents = [ExactThompson(TRUNCATED) for _ in range(2)]
    for agent in agents:
        agent.reset(900, seed=0)
    for num_threads in (1, 4, 2, 1):
        actions = [agents[0].act()]
        with limited_to(num_threads):
            actions.append(agents[1].act())
        assert (actions[0] == actions[1]).all()
        for agent in agents:
            agent.observe(actions[0], (actions[0] + np.arange(900)) % 2.0)


def test_lanes_of_one_piece_draw_from_the_generator_itself():
    rng, found = np.random.default_rng(3), []
    draw_in_pieces(lambda stream, lanes: found.append((stream, lanes)), rng, LANES_PER_STREAM)
    assert found == [(rng, slice(0, LANES_PER_STREAM))]
    assert rng.random() == np.random.default_rng(3).random()


def test_pieces_cover_all_lanes_and_draw_apart():
    numbers = np.empty(3 * LANES_PER_STREAM + 7)

    def draw(stream, lanes):
        numbers[lanes] = stream.random(len(numbers[lanes]))

    draw_in_pieces(draw, np.random.default_rng(0), len(numbers))
    assert len(np.unique(numbers)) == len(numbers)


@pytest.mark.parametrize(
    ("size", "least", "num_threads", "num_pieces"),
    [(10, 100, 4, 1), (199, 100, 4, 1), (200, 100, 4, 2), (10_000, 1, 3, 3), (10_000, 1, 999, 64)],
)
def test_pieces_for_threads_are_as_many_as_pay(size, least, num_threads, num_pieces):
    with limited_to(num_threads):
        pieces = cut(size, least)
    assert len(pieces) == num_pieces <= MOST_PIECES
    assert [i for piece in pieces for i in range(size)[piece]] == list(range(size))


def test_what_a_piece_raises_is_raised():
    with limited_to(2), pytest.raises(ZeroDivisionError):
        side_by_side(lambda x: 1 / x, [1, 0])


def test_a_block_of_an_experiment_has_one_thread(monkeypatch):
    seen, choose = [], ExactThompson._choose

    def choose_and_tell(agent):
        seen.append(count_threads())
        return choose(agent)

    monkeypatch.setattr(ExactThompson, "_choose", choose_and_tell)
    experiment = Experiment(
        environments=("BernoulliBandit-v0",), agents=("exact",), horizon=3, replications=2
    )
    with limited_to(7):
        assert simulate_block(experiment.runs[0], 0).failure is None
    assert len(seen) >= 3 and set(seen) == {1}
