"""SMPyBandits: Thompson sampling for Bernoulli rewards, one decision and one update per step."""

from protocol import serve
from rewards import NUM_ARMS, NUM_STEPS, reward_table
from SMPyBandits.Policies import Thompson


def main():
    """Serve games of NUM_STEPS steps."""
    rewards = reward_table()
    policy = Thompson(NUM_ARMS)

    def do_round():
        policy.startGame()
        for row in rewards:
            arm = policy.choice()
            policy.getReward(arm, row[arm])

    serve(do_round, NUM_STEPS, "SMPyBandits", "numpy", "scipy")


main()
