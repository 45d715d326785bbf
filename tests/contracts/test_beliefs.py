"""Any posterior under any rule: it plays by its propensities, is saved, copied, or refused."""

import pickle
import re

import numpy as np
import pytest
from ensemble import Ensemble
from families import make_problems, names_with
from pairwise import pairwise
from refusals import check_refusals
from surface import play, started

import agents
from agents import Thompson, make_agent
from agents.posteriors.agent import PosteriorAgent
from agents.posteriors.base import Posterior
from agents.posteriors.weighted_draws import WeightedDraws

pytestmark = pytest.mark.usefixtures("few_chain_draws")
PROBLEMS = make_problems(num_arms=3)
ARMS, TIED, LOGISTIC = (PROBLEMS[kind] for kind in ("grid", "chains", "logistic"))


class Sampled(Ensemble):
    """It has no more than samples."""

    state_names = ()
    source, has_exact_probabilities = Posterior.source, False
    weighted_draws = Posterior.weighted_draws


POSTERIORS = {
    "conjugate": (PROBLEMS["conjugate"], "exact"),
    "mixture": (PROBLEMS["mixture"], "exact"),
    "tables": (ARMS, "exact"),
    "chains": (TIED, "exact"),
    "particles": (ARMS, {"name": "smc", "num_particles": 100}),
    "joint particles": (TIED, {"name": "smc", "num_particles": 100}),
    "race of independent arms": (ARMS, "racing"),
    "race": (TIED, {"name": "racing", "effective_samples": 10}),
    "own": (ARMS, Sampled(ARMS)),
    "own, by name": (ARMS, {"name": "ensemble:Ensemble", "size": 10}),
}
FORGETFUL = "conjugate", "mixture", "tables", "particles", "joint particles"
"""Posteriors from which data can leave again."""
every_posterior = pytest.mark.parametrize("posterior", POSTERIORS)


def rules_of(posterior):
    """Return the names of the rules that a posterior can serve."""
    rules = names_with("posterior")
    return [name for name in rules if name != "sliding_window" or posterior in FORGETFUL]


ASKED = pairwise(
    (rule, posterior, question)
    for posterior in POSTERIORS
    for rule in rules_of(posterior)
    for question in ("plays", "copies")
)


def make(rule, posterior, num_envs):
    problem, told = POSTERIORS[posterior]
    return started(rule, problem, num_envs, posterior=told)


def rules_asked(question, posterior):
    """Return rules: each rule and each posterior meet both questions, each of both together one."""
    return [rule for rule, *others in ASKED if others == [posterior, question]]


@every_posterior
def test_arms_are_played_as_often_as_propensities_say(posterior):
    """Shares are summed over lanes: four deviations, and as many of what answers from draws miss.

    Draws of a chain are worth 300 here, a user's posterior has 1,000, a race 10,000.
    """
    num_lanes, num_rounds = 10, 10
    for rule in rules_asked("plays", posterior):
        agent = make(rule, posterior, num_lanes)
        play(agent, 3)
        probabilities = agent.action_probabilities()
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=1e-9, err_msg=rule)
        acts = np.array([agent.act() for _ in range(num_rounds)])
        shares = (acts[..., None] == np.arange(3)).mean(axis=0)
        variance = (probabilities * (1 - probabilities)).sum(axis=0) / num_rounds
        if not agent.has_exact_probabilities:
            variance += num_lanes * 0.25 / 100
        off = abs((shares - probabilities).sum(axis=0))
        assert (off <= 4 * np.sqrt(variance) + 1e-9).all(), rule


@every_posterior
def test_asking_moves_nothing_and_copies_and_files_go_on(posterior, tmp_path):
    problem, told = POSTERIORS[posterior]
    given = {"posterior": told} if "own" in posterior else {}
    for rule in rules_asked("copies", posterior):
        asked, unasked = (make(rule, posterior, 3) for _ in range(2))
        play(asked, 3)
        play(unasked, 3)
        asked.action_probabilities()
        snapshot = asked.posterior()
        snapshot.mean(), snapshot.quantile(0.3), snapshot.best_arm_probabilities()
        snapshot.sample(2, seed=0)
        asked.save(tmp_path / "agent")
        loaded = agents.load(tmp_path / "agent", problem, **given)
        expected = play(unasked, 3, seed=3)
        for each in (asked, pickle.loads(pickle.dumps(asked)), loaded):
            assert play(each, 3, seed=3).tolist() == expected.tolist(), rule


APPROXIMATE = "chains", "race", "own"
DRAWING = "thompson", "sliding_window", "top_two"


class HalfThompson(PosteriorAgent):
    """Draws from the belief half of the time, and says nothing of that."""

    def _choose(self):
        drawn = self.belief().draw_best(self.rng)
        return np.where(self.rng.random(len(drawn)) < 0.5, drawn, 0)

    def _action_probabilities(self):
        return 0.5 * self.belief().best_arm_probabilities() + 0.5 * np.eye(3)[0]


def test_propensities_are_exact_unless_the_rule_draws_from_what_answers_by_other_draws():
    for rule, posterior in ((rule, each) for each in POSTERIORS for rule in rules_of(each)):
        is_exact = not (rule in DRAWING and posterior in APPROXIMATE)
        assert make(rule, posterior, 1).has_exact_probabilities is is_exact, (rule, posterior)
    for posterior, (problem, told) in POSTERIORS.items():
        own = HalfThompson(problem, posterior=told)
        assert own.has_exact_probabilities is (posterior not in APPROXIMATE), posterior


def test_an_object_is_copied_so_that_two_agents_share_nothing():
    own = Ensemble(ARMS)
    first, second = (started("greedy", ARMS, 2, posterior=own) for _ in range(2))
    play(first, 3)
    assert (second._posterior.pulls == 3.0).all() and not hasattr(own, "pulls")


class Narrow(Sampled):
    """Has one number for all arms."""

    def sample(self, rng):
        return super().sample(rng)[:, :1]


def test_draws_of_another_shape_are_refused_by_name():
    """All decisions once were arm 0."""
    agent = started("thompson", ARMS, 2, posterior=Narrow(ARMS))
    shape = re.escape(f"shape (2, {ARMS.num_arms})")
    with pytest.raises(ValueError, match=rf"Narrow.sample must return numbers of {shape}, got"):
        agent.act()
    with pytest.raises(ValueError, match=rf"Narrow.sample must return numbers of {shape}, got"):
        agent.act(values=np.ones(ARMS.num_arms))
    with pytest.raises(ValueError, match=r"Narrow.sample_many must return numbers of shape \(1000"):
        agent.action_probabilities()
    right = started("thompson", ARMS, 2, posterior=Sampled(ARMS))
    right.act()
    right.reset(3)  # another number of lanes than at the last decision
    assert right.posterior().mean().shape == (3, ARMS.num_arms)


def test_what_a_posterior_lacks_is_answered_from_its_draws_and_it_says_so():
    agent = started("thompson", ARMS, None, posterior=Sampled(ARMS))
    agent.observe(0, 1.0)
    assert agent.posterior().source == "1,000 draws"
    belief = agent.belief()
    best, means = belief.best_arm_moments()
    assert best == pytest.approx(belief.best_arm_probabilities(), abs=1e-9)
    assert np.einsum("na,nai->ni", best, means) == pytest.approx(belief.mean(), abs=1e-9)
    below, moment = belief.lower_partial_moment(belief.quantile(0.5))
    assert (below >= 0.5).all() and (moment > 0).all()
    assert belief.effective_sample_size() == pytest.approx(1000)


def test_a_posterior_that_holds_few_draws_knows_no_more_than_they_tell():
    agent = started("thompson", ARMS, None, posterior=Ensemble(ARMS))
    agent.observe(0, 1.0)
    told = r"the models of an ensemble, worth 20: P\(best\) within 0.2\d; doubted: few effective"
    assert re.search(told, str(agent.posterior()))


class Pseudocounts(Sampled):
    def update(self, rng, evidence):
        sums = evidence.sums
        sums += 1.0


def test_a_posterior_of_ones_own_cannot_change_the_data():
    agent = started("thompson", ARMS, None, posterior=Pseudocounts(ARMS))
    agent.observe(1, 1.0)
    with pytest.raises(ValueError, match="read-only"):
        agent.act()
    assert agent.sums.tolist() == [0, 1, 0]


@pytest.mark.parametrize("axes", [(0, 2, 1), None])
def test_draws_of_another_form_are_refused_by_the_name_of_their_method(monkeypatch, axes):
    agent = started("bayes_ucb", ARMS, None, posterior=Ensemble(ARMS))
    means = agent._posterior.weighted_draws().means
    answer = means if axes is None else WeightedDraws(means.transpose(axes), np.zeros((1, 20)))
    for each in (answer, WeightedDraws(means, np.zeros((1, 20), dtype=np.int64))):
        monkeypatch.setattr(agent._posterior, "weighted_draws", lambda each=each: each)
        with pytest.raises(ValueError, match="weighted_draws must return WeightedDraws of "):
            agent.act()


def test_a_snapshot_of_ones_own_posterior_has_seen_all_rewards():
    agent = started("bayes_ucb", ARMS, None, posterior=Ensemble(ARMS))
    agent.act()
    for _ in range(30):
        agent.observe(0, 1.0)
    now = agent.posterior().mean()
    agent.act()
    assert now.tolist() == agent.posterior().mean().tolist() and now[0] > 0.8


def test_answers_of_another_shape_are_refused_where_a_snapshot_is_asked():
    snapshot = started("bayes_ucb", ARMS, None, posterior=Ensemble(ARMS)).posterior()
    snapshot.belief.mean = lambda: np.zeros(len(snapshot.counts))
    with pytest.raises(ValueError, match=r"Ensemble.mean must return numbers of shape \(1, \d"):
        snapshot.mean()


class Silent(Ensemble):
    """It does not say what it remembers."""


class Coefficients(Sampled):
    takes_features = True


REFUSED = [
    (ARMS, Coefficients(ARMS), {}, "problem must have features for Coefficients, which say"),
    (LOGISTIC, Ensemble(LOGISTIC), {}, "posterior must be one of coefficients", "'Ens"),
    *(
        (*POSTERIORS[name], leave, "posterior must be one that can follow a disc")
        for name in sorted({*POSTERIORS} - {*FORGETFUL})
        for leave in ({"window": 5}, {"discount": 0.5})
    ),
]


def test_posteriors_that_do_not_go_with_a_problem_or_options_are_refused():
    check_refusals(lambda of, told, given: Thompson(of, posterior=told, **given), REFUSED)
    many = make_agent("greedy", ARMS, posterior={"name": "smc", "num_particles": 10**6})
    check_refusals(lambda size: many.reset(size), [(1000, "num_envs must be at most 166")])


def test_a_file_asks_for_a_posterior_of_ones_own_and_for_its_state_names(tmp_path):
    paths = [tmp_path / name for name in ("own", "other")]
    for path, own in zip(paths, ({"posterior": Ensemble(ARMS)}, {}), strict=True):
        started("thompson", ARMS, 2, **own).save(path)
    rows = [
        (paths[0], None, "posterior must be Ensemble for the agent in"),
        (paths[1], Ensemble(ARMS), "posterior must be left out for the agent in"),
    ]
    check_refusals(lambda path, own: agents.load(path, posterior=own), rows)
    silent = started("thompson", ARMS, 2, posterior=Silent(ARMS))
    silent_path = tmp_path / "silent", "Silent must have state_names to be saved"
    check_refusals(silent.save, [silent_path])
    totals = [1, 0, 0], [1.0, 0.0, 0.0], "posterior must be one that does without learn, for warm"
    check_refusals(lambda counts, sums: silent.warm_start(counts, sums), [totals])
    assert not silent.counts.any()
