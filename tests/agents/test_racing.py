"""Races and their parts in small cases: against the definition, or worked out by hand."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from numba import njit
from scipy import integrate

from agents.numerics.laws import TINY
from agents.racing.bank import Bank
from agents.racing.leaders import find_leaders as plain_find_leaders
from agents.racing.leaders import largest_evidence
from agents.racing.logistic import log_logistic
from agents.racing.marginal import FAR, fit_marginals
from agents.racing.matching import effective_share, make_proposal
from agents.racing.normal import NormalProposal, step_inside
from agents.racing.normal import add_features as plain_features
from agents.racing.races import Races
from agents.racing.stopping import (
    FIRST_GUESS,
    TILTS,
    fixed_rule,
    paper_rule,
    self_normalised_rule,
    threshold_function,
)
from bandit_gym.likelihoods import Bernoulli, Exponential, Gaussian, Poisson
from bandit_gym.priors import (
    Beta,
    Gamma,
    InverseGamma,
    Normal,
    TruncatedMultivariateNormal,
    TruncatedNormal,
)
from bandit_gym.problem import BanditProblem

CASES = [  # the prior in question, and the conjugate one drawn from
    (Bernoulli(), Beta(3.0, 4.0), Beta(2.0, 2.0)),
    (Bernoulli(), TruncatedNormal(0.4, 0.2), Beta(2.0, 2.0)),
    (Exponential(), InverseGamma(4.0, 3.0), InverseGamma(2.0, 2.0)),
    (Poisson(), Gamma(3.0, 2.0), Gamma(2.0, 1.5)),
    (Poisson(), TruncatedNormal(1.0, 0.5, 0.2, 2.0), Gamma(2.0, 1.5)),
    (Gaussian(), Normal(0.5, 0.8), Normal(0.0, 1.0)),
]
IDS = [f"{likelihood.name}-{type(prior).__name__}" for likelihood, prior, _ in CASES]
COUNTS, SUMS = np.array([[0, 4], [3, 30]]), np.array([[0.0, 2.0], [1.0, 14.0]])


def log_ratio(prior, other, means):
    return (prior.arm_log_density(means) - other.arm_log_density(means)).sum(axis=-1)


@pytest.mark.parametrize(("likelihood", "prior", "other"), CASES, ids=IDS)
def test_weights_are_the_prior_over_the_conjugate_one(likelihood, prior, other, rng):
    proposal = make_proposal(BanditProblem(likelihood, prior, 2), other)
    proposal.follow(rng, COUNTS, SUMS)
    draws = proposal.draw(rng, np.array([1, 0]), 40)
    expected = log_ratio(prior, other, draws.means.transpose(0, 2, 1))
    is_inside = np.isfinite(expected)
    assert (np.isfinite(draws.log_weights) == is_inside).all()
    gaps = draws.log_weights[is_inside] - expected[is_inside]
    assert gaps == pytest.approx(gaps[0], abs=1e-9)


BOUNDED = [
    *(CASES[i] for i in (0, 2, 3, 5)),
    (Bernoulli(), TruncatedNormal(0.4, 0.2), Beta(1.0, 1.0)),
    (Bernoulli(), TruncatedNormal(0.9, 0.2, 0.3, 0.8), Beta(1.0, 1.0)),
    (Poisson(), TruncatedNormal(1.0, 0.5, 0.2, 2.0), Gamma(2.0, 1.5)),
]


@pytest.mark.parametrize(("likelihood", "prior", "other"), BOUNDED)
def test_the_largest_weight_is_found(likelihood, prior, other, rng):
    """Of two arms, on a grid of steps below 2e-4; it has the constant of the weights of draws."""
    problem = BanditProblem(likelihood, prior, 2)
    proposal = make_proposal(problem, other)
    low, high = np.clip(problem.arm_support()[0], -20, 20)
    largest = 2 * log_ratio(prior, other, np.linspace(low, high, 200_003)[1:-1, None]).max()
    proposal.follow(rng, COUNTS, SUMS)
    draws = proposal.draw(rng, np.arange(2), 50)
    ratios, is_inside = log_ratio(prior, other, draws.means.transpose(0, 2, 1)), np.isfinite
    constant = (draws.log_weights - np.where(is_inside(ratios), ratios, 0.0)).max()
    assert proposal.log_supremum() == pytest.approx(largest + constant, abs=1e-4)


def test_weights_without_bound_have_no_largest_one():
    problem = BanditProblem(Bernoulli(), Beta(0.1, 2.0), 2)
    with pytest.raises(ValueError, match="where the weight pi / q_0 is unbounded"):
        make_proposal(problem, Beta(1.0, 1.0)).log_supremum()


def test_weights_that_are_all_the_same_have_that_as_their_largest():
    problem = BanditProblem(Bernoulli(), Beta(2.0, 2.0), 2)
    assert make_proposal(problem, Beta(2.0, 2.0)).log_supremum() == 0.0


def test_an_arm_without_data_is_drawn_from_the_stand_in_where_the_reference_is_improper(rng):
    """Its mean under Normal(5, 0.1), a hundred draws, is within 4 errors of 0.01."""
    proposal = make_proposal(BanditProblem(Gaussian(), Normal(5.0, 0.1), 2), "reference")
    proposal.follow(rng, COUNTS[:1], SUMS[:1])
    assert proposal.is_missing(COUNTS).tolist() == [[True, False], [False, False]]
    draws = proposal.draw(rng, np.arange(1), 100)
    assert abs(draws.means[0, 0].mean() - 5.0) < 4 * 0.01
    other = draws.means[0, 1]  # N(1 / 2, 1 / 4) from 4 rewards of sum 2
    assert abs(other.mean() - 0.5) < 4 * 0.5 / 10
    weights = draws.log_weights[0] - -0.5 * ((other - 5.0) / 0.1) ** 2
    assert weights == pytest.approx(weights[0], abs=1e-6)


def test_weights_that_only_the_prior_knows_are_for_no_compiled_loop():
    class Own:
        def sample(self, rng, shape):
            return rng.random(shape)

        def log_density(self, means):
            return np.zeros(means.shape[:-1])

    proposal = make_proposal(BanditProblem(Bernoulli(), Own(), 2), "reference")
    proposal.follow(np.random.default_rng(0), COUNTS, SUMS)
    assert proposal.weighed_laws() is None
    assert math.isfinite(proposal.draw(np.random.default_rng(0), np.arange(2), 5).log_weights.sum())


add_features, find_leaders = njit(plain_features), njit(plain_find_leaders)
NUM_LANES, NUM_ARMS, NUM_DRAWS = 30, 3, 60
RULES = {
    "value": paper_rule("printed", 0.1, 0.3, NUM_DRAWS, by_value=True),
    "weight": paper_rule("shortened", 0.2, 0.2, NUM_DRAWS, by_value=False),
    "enough": self_normalised_rule(0.1, 12.0, NUM_DRAWS),
    "clear": self_normalised_rule(0.9, 50.0, NUM_DRAWS),
    "fixed": fixed_rule(NUM_DRAWS),
}


def is_clear(rule, values, weights, factors, leader):
    """Apply the rule of the module to (d, K) values, (d,) weights and (K,) factors as it stands."""
    level, units = math.log(len(TILTS) * (NUM_ARMS - 1) / rule.delta), values / weights.max()
    if units[:, leader].sum() < level * factors[leader]:
        return False
    for other in set(range(NUM_ARMS)) - {leader}:
        x = (units[:, leader] - units[:, other]) / max(factors[leader], factors[other])
        evidence = max(r * x.sum() + (math.log1p(-r) + r) * (x**2).sum() for r, _ in TILTS)
        if evidence <= level:
            return False
    return True


def play_by_definition(name, log_weights, winners, gumbels, share):
    """Return the (d, K) values and (d,) weights of one race at its end, all computed anew."""
    rule, delta = RULES[name], {"enough": 0.1, "clear": 0.9}.get(name)
    weights, values = np.exp(log_weights), np.zeros((NUM_DRAWS, NUM_ARMS))
    values[np.arange(NUM_DRAWS), winners] = weights * np.exp(gumbels[winners])
    length = min(math.ceil(min(rule.enough_size / share, NUM_DRAWS)), NUM_DRAWS)
    for d in range(1, NUM_DRAWS + 1):
        v, w = values[:d], weights[:d]
        if not w.any():
            length = NUM_DRAWS if d >= length else length
            continue
        second, first = np.sort(v.sum(axis=0))[-2:] / (v.max() if rule.by_value else w.max())
        is_decided = (first - second) / (d + 1) > rule.bars[d] or d == length
        if delta is not None and not is_decided:
            told = SimpleNamespace(delta=delta)
            is_decided = is_clear(told, v, w, np.exp(gumbels), v.sum(axis=0).argmax())
        if is_decided:
            break
    return v, w


@pytest.mark.parametrize("name", RULES)
def test_races_are_those_of_their_definition(name, rng):
    """Weights far apart, a fifth of them 0, in chunks; lane 0 has no weight in its first half."""
    log_weights = rng.normal(scale=1.0, size=(NUM_LANES, NUM_DRAWS)) - 3.0
    log_weights[rng.random(log_weights.shape) < 0.2] = -np.inf
    log_weights[0, : NUM_DRAWS // 2] = -np.inf
    winners = np.minimum(rng.integers(NUM_ARMS + 2, size=log_weights.shape), NUM_ARMS - 1)
    gumbels, shares = rng.gumbel(size=(NUM_LANES, NUM_ARMS)), rng.uniform(0.3, 1.0, NUM_LANES)
    rule, lanes = RULES[name], np.arange(NUM_LANES)
    races = Races.start(rule, gumbels, rule.lengths(shares))
    for start in range(0, NUM_DRAWS, 7):
        part = slice(start, start + 7)
        lanes = lanes[~races.feed(lanes, log_weights[lanes, part], winners[lanes, part])]
    assert lanes.size == 0
    for n in range(NUM_LANES):
        v, w = play_by_definition(name, log_weights[n], winners[n], gumbels[n], shares[n])
        scale = math.exp(races.log_scale[n])
        assert races.num_samples[n] == len(w)
        assert races.totals[n] * scale == pytest.approx(v.sum(axis=0))
        assert races.squares[n] * scale**2 == pytest.approx((v**2).sum(axis=0))
        assert races.weight_sums[n] * [scale, scale**2] == pytest.approx([w.sum(), (w**2).sum()])
        size = w.sum() ** 2 / (w**2).sum()
        assert races.effective_sample_size()[n] == pytest.approx(size)
        assert scale == pytest.approx((v if RULES[name].by_value else w).max())


def test_a_race_before_its_first_sample_has_no_effective_size():
    rule = RULES["fixed"]
    races = Races.start(rule, np.zeros((2, 3)), rule.lengths(np.ones(2)))
    assert races.effective_sample_size().tolist() == [0.0, 0.0]


def test_races_that_end_at_the_cap_say_so_unless_nothing_else_could_end_them():
    """Two arms that win in turn stay within 1 / 11 of each other, far below any bar."""
    for rule, is_capped in (
        (paper_rule("printed", 0.1, 0.1, 10, by_value=True), True),
        (fixed_rule(10), False),
    ):
        races = Races.start(rule, np.zeros((2, 2)), rule.lengths(np.ones(2)))
        is_over = races.feed(np.arange(1), np.zeros((1, 10)), np.array([[0, 1] * 5]))
        assert is_over.tolist() == [True]
        assert races.num_samples.tolist() == [10, 0]
        assert races.is_capped().tolist() == [is_capped, False]


def test_thresholds_are_those_of_the_paper_less_sigma():
    """Before the d-th sample m = d + 1; nothing is decided before the first."""
    rule = paper_rule("printed", 0.1, 0.3, 5, by_value=True)
    assert rule.bars[0] == np.inf
    m = np.arange(2.0, 7.0)
    assert rule.bars[1:] == pytest.approx(2 * threshold_function("printed", m, 0.1) - 0.3)
    assert (rule.cap, rule.is_fixed, rule.first_guess) == (5, False, FIRST_GUESS)


def test_a_rule_of_fixed_length_knows_how_long_it_takes():
    rule = fixed_rule(7)
    assert np.isinf(rule.bars).all()
    assert (len(rule.bars), rule.cap, rule.is_fixed, rule.first_guess) == (8, 7, True, 7.0)


def test_lengths_are_effective_samples_over_what_one_is_worth_and_the_cap_at_most():
    rule = self_normalised_rule(0.1, 12.0, 100)
    lengths = rule.lengths(np.array([1.0, 0.5, 0.7, 0.1, 0.0]))
    assert lengths.tolist() == [12, 24, 18, 100, 100]
    assert paper_rule("printed", 0.1, 0.3, 9, by_value=True).lengths(np.ones(1)).tolist() == [9]


def test_tilts_are_those_of_fans_inequality():
    assert TILTS[:, 0].tolist() == [0.05, 0.1, 0.2, 0.4, 0.8]
    assert TILTS[:, 1] == pytest.approx(-np.log(1 - TILTS[:, 0]) - TILTS[:, 0])


@pytest.mark.parametrize(
    ("low", "high"), [(-np.inf, np.inf), (-2.0, 3.0), (1.0, np.inf), (-1.0, 0.0)]
)
def test_the_ends_of_an_open_interval_are_its_next_numbers(low, high):
    assert step_inside(low, high) == (np.nextafter(low, np.inf), np.nextafter(high, -np.inf))


def test_the_lowest_number_above_zero_is_one_that_has_a_logarithm():
    lowest, highest = step_inside(0.0, 1.0)
    assert TINY == lowest > np.finfo(float).tiny
    assert highest == 1 - 2**-53


def test_marginals_of_independent_arms_are_their_own_and_of_others_fitted():
    class Tied:
        support = (0.0, 1.0)

        def sample(self, rng, shape):
            return rng.random(shape)

        def log_density(self, means):
            return np.zeros(means.shape[:-1])

    known = BanditProblem(Bernoulli(), TruncatedNormal(0.5, 0.1), 2)
    assert fit_marginals(known, None) is known.prior
    draws = np.array([[0.1, 0.5], [0.3, 0.5], [0.2, 0.8]])
    fitted = fit_marginals(BanditProblem(Bernoulli(), Tied(), 2), draws)
    assert fitted.mean == pytest.approx(draws.mean(axis=0).tolist())
    assert fitted.std == pytest.approx(draws.std(axis=0).tolist())
    assert (list(fitted.low), list(fitted.high)) == ([0.0, 0.0], [1.0, 1.0])


def test_marginals_without_ends_are_cut_far_from_their_means():
    class Tied:
        def sample(self, rng, shape):
            return rng.normal(size=shape)

        def log_density(self, means):
            return -0.5 * np.square(means).sum(axis=-1)

    draws = np.array([[-1.0, 4.0], [3.0, 8.0]])  # means 1 and 6, deviations 2
    fitted = fit_marginals(BanditProblem(Gaussian(), Tied(), 2), draws)
    assert fitted.low == pytest.approx([1 - 2 * FAR, 6 - 2 * FAR])
    assert fitted.high == pytest.approx([1 + 2 * FAR, 6 + 2 * FAR])


def test_marginals_of_a_cut_normal_law_are_its_own_before_the_cut():
    prior = TruncatedMultivariateNormal(0.5, [[0.04, 0.01], [0.01, 0.09]], low=0.1, high=0.9)
    fitted = fit_marginals(BanditProblem(Bernoulli(), prior, 2), np.zeros((2, 2)))
    assert fitted.mean == pytest.approx([0.5, 0.5])
    assert fitted.std == pytest.approx([0.2, 0.3])
    assert (list(fitted.low), list(fitted.high)) == ([0.1, 0.1], [0.9, 0.9])


def test_draws_of_equal_weights_are_worth_one_each_and_others_less():
    same = make_proposal(BanditProblem(Bernoulli(), Beta(1.0, 1.0), 3), "reference")
    assert effective_share(same) == pytest.approx(1.0)
    other = make_proposal(BanditProblem(Bernoulli(), Beta(2.0, 1.0), 1 + 1), "reference")
    # a weight 2x has E[w]^2 / E[w^2] = 3 / 4, of two arms 9 / 16
    assert effective_share(other) == pytest.approx(9 / 16, abs=0.05)


@pytest.mark.parametrize(
    "row",
    [(1, 0, 0, 0, 0), (0, 1, 0, 0, 0), (1, 1, 0, 0, 0), (0, 0, 2, -3, 0.5), (2, -1, 3, 4, 5)],
    ids=str,
)
@pytest.mark.parametrize("last", [(0, 0, 0, 0, 0), (-0.5, 2, 1, 0, 1), None], ids=str)
def test_features_are_added_up_over_arms(row, last, rng):
    """The last arm's coefficients are others, or the same."""
    c = np.array([row, row, row if last is None else last], dtype=float)
    x, out = rng.uniform(0.1, 0.9, size=(3, 7)), np.arange(7.0)
    features = np.array([np.log(x), np.log1p(-x), x, x**2, 1 / x])
    expected = np.arange(7.0) + np.einsum("kf,fkm->m", c, features)
    add_features(c, x, np.full((3, 21), np.nan), out)
    assert out == pytest.approx(expected)


@pytest.mark.parametrize(
    ("totals", "leader", "second"),
    [([1, 3, 2], 1, 2), ([3, 1, 2], 0, 2), ([1, 2, 3], 2, 2), ([2, 2, 1], 0, 2), ([0, 0, 0], 0, 0)],
)
def test_leader_and_second_are_the_two_largest_and_the_first_of_equal_ones(totals, leader, second):
    assert find_leaders(np.array(totals, dtype=float)) == (leader, second)


def test_evidence_of_no_gap_is_none():
    assert largest_evidence(TILTS, 0.0, 1.0) == 0.0
    r, psi = TILTS[0]
    assert largest_evidence(TILTS[:1], 5.0, 1.0) == pytest.approx(5 * r - psi)


@pytest.mark.parametrize(
    ("low", "high"), [(-1.0, 2.0), (-np.inf, 0.5), (2.5, np.inf), (-4.0, -3.0), (0.5, 0.6)]
)
def test_logistic_densities_integrate_to_one(low, high):
    """Of the law that is turned so that its far end is on the right."""
    side = (low, high) if high >= 0 else (-high, -low)
    mass, _ = integrate.quad(
        lambda z: math.exp(log_logistic(z, np.float64(low), np.float64(high))), *side
    )
    assert mass == pytest.approx(1.0)


def test_a_bank_follows_as_large_a_part_of_the_data_as_leaves_enough_draws():
    """3 pulls leave enough of some thousand draws; of 10^6 a part that halving leads to."""
    bank = Bank(BanditProblem(Bernoulli(), Beta(2.0, 2.0), 2))
    counts, sums = np.array([[3, 0], [10**6, 0]]), np.array([[1.0, 0.0], [4e5, 0.0]])
    bank.follow(np.random.default_rng(0), counts, sums)
    assert bank.counts[0].tolist() == [3, 0]
    assert bank.counts[1, 0] in [10**6 >> k for k in range(1, 20)]
    assert bank.sums[1, 0] == pytest.approx(0.4 * bank.counts[1, 0], rel=0.01)
    assert bank.sums[:, 1].tolist() == [0.0, 0.0]
    assert not bank.is_far.any()
    draws = bank.draw(np.random.default_rng(0), np.arange(2), 500)
    assert abs(draws.means[0, 0].mean() - 3 / 7) < 4 * math.sqrt(12 / 49 / 8 / 100)
    assert abs(draws.means[1, 0].mean() - 0.4) < 0.05
    assert draws.winners.tolist() == draws.means.argmax(axis=1).tolist()


def test_weighted_draws_of_a_normal_proposal_have_the_moments_of_the_posterior(rng):
    """Gaussian rewards and a box too wide to matter: the posterior is normal, in closed form."""
    covariance = np.array([[1.0, 0.8, 0.1], [0.8, 1.0, 0.3], [0.1, 0.3, 0.5]])
    prior = TruncatedMultivariateNormal(0.5, covariance.tolist(), low=-30.0, high=30.0)
    proposal = NormalProposal(BanditProblem(Gaussian(0.5), prior, 3), None)
    counts, sums = np.array([[0, 4, 1]]), np.array([[0.0, 3.0, -1.0]])
    proposal.follow(rng, counts, sums)
    draws = proposal.draw(rng, np.arange(1), 4000)
    weights = np.exp(draws.log_weights[0] - draws.log_weights.max())
    weights /= weights.sum()
    precision = np.linalg.inv(covariance) + np.diag(4.0 * counts[0])
    expected = np.linalg.solve(
        precision, np.linalg.solve(covariance, np.full(3, 0.5)) + 4 * sums[0]
    )
    spread, effective = np.linalg.inv(precision), 1 / np.square(weights).sum()
    assert effective > 2000
    off = draws.means[0] - expected[:, None]
    deviations = np.sqrt(np.diag(spread))
    assert (abs(off @ weights) < 4 * deviations / math.sqrt(effective)).all()
    found = (weights * off) @ off.T / np.outer(deviations, deviations)
    wanted = spread / np.outer(deviations, deviations)
    assert abs(found - wanted).max() < 4 * math.sqrt(2 / effective)
    assert draws.winners.tolist() == draws.means.argmax(axis=1).tolist()


PROPOSALS = {
    "normal": lambda: NormalProposal(NORMAL_PROBLEM, None),
    "own": lambda: make_proposal(NORMAL_PROBLEM, Normal(0.3, 0.7)),
    "conjugate": lambda: make_proposal(BanditProblem(Poisson(), Gamma(2.0, 1.0), 3), "reference"),
}
NORMAL_PROBLEM = BanditProblem(
    Gaussian(0.5),
    TruncatedMultivariateNormal(
        0.5, [[1.0, 0.8, 0.1], [0.8, 1.0, 0.3], [0.1, 0.3, 0.5]], low=-1.0, high=2.0
    ),
    3,
)


@pytest.mark.parametrize("kind", PROPOSALS)
def test_a_proposal_weighs_its_own_draws_as_it_did_when_it_drew_them(kind, rng):
    """Up to a constant of each lane; the second lane's draws come first."""
    proposal = PROPOSALS[kind]()
    counts = np.array([[0, 4, 1], [2, 1, 7]])
    proposal.follow(rng, counts, np.array([[0.0, 3.0, 1.0], [1.0, 0.0, 5.0]]))
    lanes = np.array([1, 0])
    draws = proposal.draw(rng, lanes, 20)
    again = proposal.weigh(lanes, draws.means)
    is_inside = np.isfinite(draws.log_weights)
    assert (np.isfinite(again) == is_inside).all()
    gaps = np.where(is_inside, again, 0.0) - np.where(is_inside, draws.log_weights, 0.0)
    for gap, inside in zip(gaps, is_inside, strict=True):
        assert gap[inside] == pytest.approx(gap[inside][0], abs=1e-8)


def test_a_race_may_end_at_a_sample_that_the_leader_does_not_win():
    """Arm 0 wins thrice and arm 1 then once: at the fourth sample any gap is enough."""
    rule = RULES["value"]._replace(bars=np.array([np.inf] * 4 + [0.0] * (NUM_DRAWS - 3)))
    races = Races.start(rule, np.zeros((1, 3)), rule.lengths(np.ones(1)))
    is_over = races.feed(np.arange(1), np.zeros((1, 6)), np.array([[0, 0, 0, 1, 2, 1]]))
    assert is_over.tolist() == [True]
    assert races.num_samples.tolist() == [4]
