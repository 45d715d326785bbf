"""MABWiser: Thompson sampling for Bernoulli rewards, one decision and one update per step."""

from mabwiser.mab import MAB, LearningPolicy
from protocol import serve
from rewards import NUM_ARMS, NUM_STEPS, reward_table


def main():
    """Serve games of NUM_STEPS steps."""
    rewards = reward_table()

    def do_round():
        bandit = MAB(list(range(NUM_ARMS)), LearningPolicy.ThompsonSampling(), seed=0)
        bandit.fit([0], [rewards[0][0]])  # it does not predict before it has been fitted
        for row in rewards:
            arm = bandit.predict()
            bandit.partial_fit([arm], [row[arm]])

    serve(do_round, NUM_STEPS, "mabwiser", "numpy")


main()
