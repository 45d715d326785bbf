"""Text and picture of an episode."""

import subprocess
import sys

import gymnasium as gym

ENV = "bandit_gym:BernoulliBandit-v0"


def play(*actions, **options):
    env = gym.make(ENV, num_arms=3, means=[0.0, 1.0, 0.25], **options)
    env.reset(seed=0)
    for action in actions:
        env.step(action)
    return env


def test_text_lists_arms_pulls_and_means():
    assert play(1, render_mode="ansi").render().startswith("Bernoulli bandit, 1 pull, mean")
    assert play(1, 1, 0, render_mode="ansi").render() == (
        "Bernoulli bandit, 3 pulls, mean reward 0.667, regret 1.0\n"
        "  arm   pulls  empirical  true mean\n"
        "    0       1      0.000      0.000  <\n"
        "    1       2      1.000      1.000 *\n"
        "    2       0          -      0.250\n"
    )


def test_picture_needs_no_pyplot():
    code = (
        "import sys, gymnasium as gym\n"
        f"env = gym.make({ENV!r}, render_mode='rgb_array')\n"
        "assert 'matplotlib' not in sys.modules\n"
        "env.reset(seed=0)\n"
        "env.render()\n"
        "print('matplotlib.pyplot' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
