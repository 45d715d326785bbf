"""What is known of a proposal before and after a race."""

import numpy as np
import pytest
from scipy import stats

from agents import RacingThompson
from agents.oracle import action_probabilities
from agents.racing.bank import Bank
from agents.racing.conjugate import ConjugateProposal
from agents.racing.matching import find_witness, make_proposal
from agents.racing.races import Races
from agents.racing.stopping import fixed_rule, self_normalised_rule
from agents.racing.vetting import NUM_PILOTS, NUM_WITNESSES, Vetting, find_middles, miss
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.priors import Beta, Normal, TruncatedMultivariateNormal, TruncatedNormal
from bandit_gym.problem import BanditProblem

PROBLEM = BanditProblem(Bernoulli(), Beta(5.0, 5.0), 2)


def _vet(problem, proposal, counts, sums, witness=None):
    vetting = Vetting(proposal, witness, self_normalised_rule(0.1, 12.0, 1000))
    vetting.restart(np.ones(len(counts), dtype=bool))
    proposal.follow(np.random.default_rng(0), counts, sums)
    vetting.look_ahead(np.arange(len(counts)))
    return vetting


def _race(vetting, num_samples):
    """Run races of all lanes that end after so many samples."""
    shape = vetting.proposal.counts.shape
    races = Races.start(fixed_rule(num_samples), np.zeros(shape), np.full(shape[0], num_samples))
    races.run(np.random.default_rng(1), vetting.proposal, np.arange(shape[0]))
    return races


def test_shares_are_the_effective_samples_that_a_draw_is_worth():
    proposal = make_proposal(PROBLEM, "reference")
    vetting = _vet(PROBLEM, proposal, np.zeros((1, 2), dtype=int), np.zeros((1, 2)))
    x = np.linspace(0, 1, 10_001)
    weights = stats.beta(5, 5).pdf(x)
    share = (1 / np.trapezoid(weights**2, x)) ** 2  # of two arms, E[w] = 1
    assert vetting.shares[0] == pytest.approx(share, abs=4 * 1 / np.sqrt(NUM_PILOTS) * share)


def test_lanes_are_vetted_anew_when_their_pulls_have_doubled_and_later_grown_fourfold():
    proposal = make_proposal(PROBLEM, "reference")
    counts, sums = np.zeros((2, 2), dtype=int), np.zeros((2, 2))
    vetting = _vet(PROBLEM, proposal, counts, sums)
    vetting.look_back(np.arange(2), _race(vetting, 5))
    seen = []
    for pulls in range(1, 300):
        counts[0, 0], sums[0, 0] = pulls, pulls // 2
        before = vetting.shares.copy()
        proposal.follow(np.random.default_rng(0), counts, sums)
        due = np.flatnonzero(counts.sum(axis=1) >= vetting.due)
        if due.size:
            vetting.look_ahead(due)
            vetting.look_back(due, _race(vetting, 5))
        if (vetting.shares != before).any():
            seen.append(pulls)
        assert vetting.shares[1] == before[1]
    assert seen == [8, 16, 32, 64, 256]


def test_a_lane_that_did_not_race_stays_due():
    problem = BanditProblem(Gaussian(), Normal(0.0, 1.0), 2)
    agent = RacingThompson.paper(problem, unpulled_arms="pull")
    agent.reset(2, seed=0)
    agent.warm_start([[1, 0], [1, 1]], [[0.0, 0.0], [0.0, 0.0]])
    agent.act()
    assert agent._vetting.due.tolist() == [0, 8]


def test_a_lane_that_starts_again_is_vetted_again():
    agent = RacingThompson(PROBLEM, proposal="reference")
    agent.reset(2, seed=0)
    agent.warm_start([50, 50], [45, 5])
    agent.act()
    before = agent._vetting.shares.copy()
    agent.reset_lanes(np.array([True, False]))
    agent.act()
    assert (agent._vetting.shares != before).tolist() == [True, False]


def test_few_draws_are_blind_and_many_see():
    problem = BanditProblem(Bernoulli(), Beta((20.0, 2.0), (20.0, 1.0)), 2)
    proposal = make_proposal(problem, "reference")
    counts, sums = np.array([[0, 0]] * 2), np.zeros((2, 2))
    vetting = _vet(problem, proposal, counts, sums, find_witness(proposal))
    vetting.look_back(np.arange(2), _race(vetting, 1))
    assert vetting.is_blind.all()
    vetting.look_back(np.arange(2), _race(vetting, 1000))
    assert not vetting.is_blind.any()
    np.testing.assert_array_equal(proposal.counts, counts)


@pytest.mark.parametrize("num_samples", [1, 2, 8])
def test_what_a_race_misses_is_the_distance_of_its_law(num_samples):
    problem, size = BanditProblem(Bernoulli(), Beta((1.5, 1.0), 1.0), 2), 40_000
    agent = RacingThompson(problem, proposal="reference", stopping=num_samples)
    agent.reset(size, seed=0)
    races = agent.race()
    law = np.bincount(races.totals.argmax(axis=1), minlength=2) / size
    truth = action_probabilities(problem, [0, 0], [0.0, 0.0])
    lanes = np.arange(20)
    missed = [
        miss(*agent._vetting._testify(lanes), np.full(20, log_sum)).mean()
        for log_sum in races.log_sums_of_others()[:100]
    ]
    # Weights vary by 0.58 of their average at most, which the standard error of M draws rests on.
    noise = 0.58 / np.sqrt(NUM_WITNESSES) + 4 * 0.5 / np.sqrt(size)
    assert np.mean(missed) == pytest.approx(abs(law - truth).sum() / 2, abs=noise)


def test_groups_have_their_middle_values_found():
    values, which = np.array([5.0, 1.0, 3.0, 9.0, 7.0]), np.array([0, 0, 0, 1, 1])
    assert find_middles(values, which).tolist() == [2, 3]


def test_who_bears_witness():
    tied = TruncatedMultivariateNormal(0.5, [[0.04, 0.039], [0.039, 0.04]])
    found = {
        (prior, kind): find_witness(make_proposal(BanditProblem(Bernoulli(), prior, 2), kind))
        for prior in (Beta(5.0, 5.0), TruncatedNormal(0.5, 0.1), tied, TwoCamps())
        for kind in ("reference", "matched")
    }
    names = [type(witness).__name__ for witness in found.values()]
    assert names == [
        "ConjugateProposal", "NoneType", "MarginalProposal", "NoneType",
        "NormalProposal", "NoneType", "Bank", "Bank",
    ]  # fmt: skip


class TwoCamps:
    """All arms are in a rare camp, or none is."""

    rate = 0.002
    camps = Beta(20.0, 20.0), TruncatedNormal(0.97, 0.003)

    def sample(self, rng, shape):
        is_rare = rng.random((*shape[:-1], 1)) < self.rate
        common, rare = (camp.sample(rng, shape) for camp in self.camps)
        return np.where(is_rare, rare, common)

    def log_density(self, means):
        common, rare = (camp.log_density(means) for camp in self.camps)
        return np.logaddexp(np.log1p(-self.rate) + common, np.log(self.rate) + rare)


@pytest.mark.filterwarnings("ignore:draws of prior.sample")
def test_a_camp_that_all_arms_share_is_met_or_flagged():
    agent = RacingThompson(BanditProblem(Bernoulli(), TwoCamps(), 3))
    agent.reset(20, seed=0)
    agent.warm_start([30, 1000, 0], [30, 960, 0])
    agent.act()
    assert agent.diagnostics()["is_unreliable"].all()


def test_a_bank_takes_as_much_of_the_data_as_leaves_enough_draws(rng):
    bank = Bank(PROBLEM)
    counts, sums = np.array([[4, 3], [4000, 3000]]), np.array([[2.0, 1.0], [2000.0, 1500.0]])
    bank.follow(rng, counts, sums)
    assert bank.counts[0].tolist() == [4, 3]
    assert 10 < bank.counts[1].sum() < 2000
    np.testing.assert_allclose(bank.sums[1], bank.counts[1] / 2)
    means = bank.draw(rng, np.arange(2), 2000).means
    law = stats.beta(5 + bank.sums, 5 + bank.counts - bank.sums)
    assert (abs(means.mean(axis=2) - law.mean()) < 4 * law.std() / 10).all()  # 100 effective draws
    assert not bank.is_far.any()


def test_a_bank_says_where_no_draw_explains_the_data(rng):
    bank = Bank(BanditProblem(Gaussian(), TruncatedNormal(0.0, 0.1), 2))
    bank.follow(rng, np.array([[3, 2], [3, 2]]), np.array([[15.0, 10.0], [0.3, 0.0]]))
    assert bank.is_far.tolist() == [True, False]


def test_conjugate_proposals_weigh_the_draws_of_others():
    proposal = make_proposal(PROBLEM, "reference")
    assert isinstance(proposal, ConjugateProposal)
    proposal.follow(np.random.default_rng(0), np.zeros((1, 2), dtype=int), np.zeros((1, 2)))
    means = np.random.default_rng(0).random((1, 2, 50))
    log_weights = proposal.weigh(np.arange(1), means)
    density = stats.beta(5, 5).logpdf(means).sum(axis=1)
    np.testing.assert_allclose(log_weights - log_weights[0, 0], density - density[0, 0], atol=1e-9)
