"""The text of an episode."""

import gymnasium as gym


def test_text_lists_arms_pulls_and_means():
    means = [0.0, 1.0, 0.25]
    env = gym.make("BernoulliBandit-v0", num_arms=3, means=means, render_mode="ansi")
    env.reset(seed=0), env.step(1)
    assert env.render().startswith("Bernoulli bandit, 1 pull, mean")
    env.step(1), env.step(0)
    assert env.render() == (
        "Bernoulli bandit, 3 pulls, mean reward 0.667, regret 1.0\n"
        "  arm   pulls  empirical  true mean\n"
        "    0       1      0.000      0.000  <\n"
        "    1       2      1.000      1.000 *\n"
        "    2       0          -      0.250\n"
    )
