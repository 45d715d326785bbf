import itertools

import numpy as np
import pytest

from agents import InformationRelaxation
from agents.rules import relaxed
from bandit_gym.likelihoods import Bernoulli, Gaussian, Poisson
from bandit_gym.priors import Beta, Gamma, Normal, TruncatedMultivariateNormal, TruncatedNormal
from bandit_gym.problem import BanditProblem

UNIFORM = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 2)


def agent_after(problem, counts, sums, left, num_envs=1, **options):
    agent = InformationRelaxation(problem, horizon=left + int(np.sum(counts)), **options)
    agent.reset(num_envs, seed=0)
    agent.warm_start(counts, sums)
    return agent


def future_of(problem, left, num_envs=30, counts=(0, 0), sums=(0, 0)):
    agent = agent_after(problem, counts, sums, left, num_envs)
    means = agent.up_to_date().sample(agent.rng)
    return agent._sample_future(np.arange(num_envs), means, left)


def sequences(num_arms, length):
    return itertools.product(range(num_arms), repeat=length)


def best_start(num_arms, num_pulls, pay):
    """Return the first arms of the sequences that pay most, all of them tried."""
    found = {}
    for arms in sequences(num_arms, num_pulls):
        n, total = np.zeros(num_arms, dtype=int), 0.0
        for step, arm in enumerate(arms):
            total += pay(n, arm, num_pulls - step - 1)
            n[arm] += 1
        found[arms[0]] = max(found.get(arms[0], -np.inf), total)
    top = max(found.values())
    return {arm for arm, value in found.items() if value >= top - 1e-9}


def test_fh_plays_thompson_sampling_while_the_end_is_far():
    # after 10^6 more pulls posterior means are all but the means themselves
    actions = agent_after(UNIFORM, [6, 1], [4, 1], 1_000_000, 4000).act()
    x = np.linspace(0, 1, 20_001)
    density = 105 * x**4 * (1 - x) ** 2
    expected = np.trapezoid(density * x**2, x)  # P(Beta(2, 1) <= x) = x^2
    share = (actions == 0).mean()
    assert abs(share - expected) <= 4 * np.sqrt(expected * (1 - expected) / 4000)


def test_fh_plays_the_largest_final_mean_whatever_was_paid_in_all():
    # Final means are 0.6 and 0.9 or so, with deviations of 0.02 and 0.03; final sums 1080 and 900.
    assert (agent_after(UNIFORM, [900, 100], [540, 90], 902, 40).act() == 1).all()


@pytest.mark.parametrize("penalty", ["fh", "v_zero", "v_emax", "index"])
def test_last_pull_is_greedy(penalty):
    agent = agent_after(UNIFORM, [10, 1], [6, 0], 1, 20, penalty=penalty)
    assert (agent.act() == 0).all()


def test_v_zero_pulls_the_arm_of_the_largest_share(rng):
    future = future_of(UNIFORM, 6)
    found = relaxed.most_pulled(rng, future)
    for lane, means in enumerate(future.means):
        totals = [means[:n, 0].sum() + means[: 6 - n, 1].sum() for n in range(7)]
        best = {n for n in range(7) if totals[n] >= max(totals) - 1e-9}
        allowed = {0 for n in best if n >= 3} | {1 for n in best if n <= 3}
        assert found[lane] in allowed


@pytest.mark.parametrize("num_arms", [2, 3])
def test_v_emax_starts_the_best_of_all_sequences(num_arms, rng):
    num_pulls = 6 if num_arms == 2 else 4
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), num_arms)
    zero = [0] * num_arms
    future = future_of(problem, num_pulls, 10, zero, zero)
    found = relaxed.first_of_best_sequence(np.random.default_rng(0), future)
    points, below = relaxed._distributions(future)
    for lane in range(10):
        maxima = relaxed.expected_maxima(points[lane], below[lane])

        def pay(n, arm, left, lane=lane, maxima=maxima):
            # mean - left (W(n + e_a) - W(n)), as the paper has it, before summing by parts
            after = n.copy()
            after[arm] += 1
            at, then = ((*each, 0)[:3] for each in (n, after))
            price = left * (maxima[then] - maxima[at]) if left else 0.0
            return future.means[lane, n[arm], arm] - price

        assert found[lane] in best_start(num_arms, num_pulls, pay)


def test_expected_maximum_of_uniform_means_is_that_by_hand():
    for num_arms, expected in ((2, 2 / 3), (3, 3 / 4)):
        problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), num_arms)
        zero = [0] * num_arms
        points, below = relaxed._distributions(future_of(problem, 2, 1, zero, zero))
        # the grid leaves out a share of 1e-4 at each end
        assert relaxed.expected_maxima(points[0], below[0])[0, 0, 0] == pytest.approx(
            expected, abs=3e-4
        )


def test_index_is_the_payment_at_which_the_best_sequence_starts_otherwise():
    future = future_of(UNIFORM, 6, 8)
    for payment in (0.3, 0.5, 0.65, 0.8):
        found = relaxed.is_worth_starting(future, np.full((8, 2), payment))
        level = np.full((8 * 6, 2), payment)
        worth = future.means + future.posterior.shortfall(level)[1].reshape(future.means.shape)
        for lane, arm in np.ndindex(8, 2):

            def pay(n, choice, left, lane=lane, arm=arm, payment=payment, worth=worth):
                if choice == 1:  # the sure payment, which leaves the arm as it is
                    return payment
                s = n[0]
                price = left * (worth[lane, s + 1, arm] - worth[lane, s, arm]) if left else 0.0
                return future.means[lane, s, arm] - price

            starts = best_start(2, 6, pay)
            assert bool(found[lane, arm]) in {start == 0 for start in starts}


@pytest.mark.parametrize("penalty", ["fh", "v_zero", "v_emax", "index"])
@pytest.mark.parametrize(
    "problem",
    [
        BanditProblem(Gaussian(), Normal(0.0, 1.0), 2),
        BanditProblem(Bernoulli(), TruncatedNormal(0.5, 0.2), 2),
    ],
    ids=lambda problem: problem.likelihood.name,
)
def test_better_arm_is_pulled_more(problem, penalty):
    agent = agent_after(problem, [20, 20], [14.0, 5.0], 10, 40, penalty=penalty)
    assert (agent.act() == 0).mean() > 0.5


def test_lanes_may_have_different_numbers_of_pulls_left():
    agent = InformationRelaxation(UNIFORM, penalty="v_zero", horizon=12)
    agent.reset(2, seed=0)
    agent.warm_start([[10, 1], [1, 0]], [[6, 0], [1, 0]])
    assert agent.act()[0] == 0


def test_what_cannot_be_served_is_refused_in_a_sentence():
    cases = [
        (BanditProblem(Poisson(), Gamma(2.0, 2.0), 2), {}, "must be Bernoulli or Gaussian"),
        (BanditProblem(Bernoulli(), Beta(1, 1), 4), {"penalty": "v_emax"}, "must be 2 or 3"),
        (UNIFORM, {"penalty": "v_emax", "horizon": 10_000}, "horizon must be at most 7070"),
        (
            BanditProblem(
                Bernoulli(), TruncatedMultivariateNormal(0.5, [[1.0, 0.9], [0.9, 1.0]]), 2
            ),
            {},
            "must have independent arms",
        ),
    ]
    for problem, options, words in cases:
        with pytest.raises(ValueError, match=words):
            InformationRelaxation(problem, **options)


@pytest.mark.parametrize("penalty", ["fh", "v_zero", "v_emax", "index"])
@pytest.mark.parametrize("left", [1, 6])
def test_relaxations_are_of_the_arms_that_are_there(penalty, left):
    """Without the best arm they play, of two, the better one more; of one, that."""
    problem = BanditProblem(Bernoulli(), Beta(1.0, 1.0), 3)
    agent = agent_after(problem, [9, 9, 9], [9, 8, 1], left, 40, penalty=penalty)
    played = agent.act(available=np.tile([False, True, True], (40, 1)))
    assert set(played.tolist()) <= {1, 2} and (played == 1).mean() > 0.5
    assert (agent.act(available=np.tile([False, False, True], (40, 1))) == 2).all()
