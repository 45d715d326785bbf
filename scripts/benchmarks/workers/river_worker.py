"""River: Thompson sampling for Bernoulli rewards, one decision and one update per step."""

from protocol import serve
from rewards import NUM_ARMS, NUM_STEPS, reward_table
from river import bandit, proba


def main():
    """Serve games of NUM_STEPS steps."""
    rewards = reward_table()
    arms = range(NUM_ARMS)

    def do_round():
        policy = bandit.ThompsonSampling(reward_obj=proba.Beta(), seed=0)
        for row in rewards:
            arm = policy.pull(arms)
            policy.update(arm, row[arm])

    serve(do_round, NUM_STEPS, "river", "numpy")


main()
