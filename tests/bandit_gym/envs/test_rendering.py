"""Text of an episode, and what a human sees on a terminal."""

import io
import os
import subprocess
import sys

import gymnasium as gym
import numpy as np

ENV = "bandit_gym:BernoulliBandit-v0"


def play_three(**options):
    env = gym.make(ENV, num_arms=3, means=[0.0, 1.0, 0.25], **options)
    env.reset(seed=0)
    for action in (1, 1, 0):
        env.step(action)
    return env


def test_text_lists_arms_pulls_and_means():
    assert play_three(render_mode="ansi").render() == (
        "Bernoulli bandit, 3 pulls, mean reward 0.667, regret 1.0\n"
        "  arm   pulls  empirical  true mean\n"
        "    0       1      0.000      0.000  <\n"
        "    1       2      1.000      1.000 *\n"
        "    2       0          -      0.250\n"
    )


def test_picture_needs_no_pyplot_and_a_human_without_a_terminal_is_told_once_what_to_do():
    code = (
        "import sys, gymnasium as gym\n"
        f"env = gym.make({ENV!r}, render_mode='rgb_array')\n"
        "assert 'matplotlib' not in sys.modules\n"
        "env.reset(seed=0)\n"
        "env.render()\n"
        "print('matplotlib.pyplot' in sys.modules)\n"
        f"env = gym.make({ENV!r}, render_mode='human')\n"
        "env.reset(seed=0), env.step(0), env.step(1)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith('render_mode "human" must have a terminal to write into')


class Terminal(io.StringIO):
    def isatty(self):
        return True


def sit_at_a_terminal(monkeypatch):
    """Write into a terminal of 30 columns and 10 rows, where no time passes; return how to read it.

    It is no fixture, as pytest puts its own standard output in place before each test.
    """
    stream = Terminal()
    monkeypatch.setattr("sys.stdout", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((30, 10)))
    monkeypatch.setattr("time.sleep", lambda seconds: stream.write(f"[{seconds} s]"))
    return lambda: stream.getvalue().split("\x1b[H\x1b[J")


def test_a_human_sees_each_reset_and_step_for_a_quarter_of_a_second(monkeypatch):
    screens = sit_at_a_terminal(monkeypatch)
    env = play_three(render_mode="human")
    start, *shown = screens()
    assert start == ""
    assert len(shown) == 4
    assert all(text.endswith("\n[0.25 s]") for text in shown)
    assert shown[-1].splitlines()[2:4] == [
        "    0       1      0.000      ",
        "    1       2      1.000      ",
    ]
    assert env.render() is None


def test_a_human_sees_no_more_arms_than_fit_and_the_best_one(monkeypatch):
    screens = sit_at_a_terminal(monkeypatch)
    env = gym.make(ENV, num_arms=100, means=[0.0] * 99 + [1.0], render_mode="human")
    env.reset(seed=0)
    for action in (50, 7, 50):
        env.step(action)
    last = screens()[-1].splitlines()
    assert [line.split()[0] for line in last[2:9]] == ["0", "1", "2", "3", "7", "50", "99"]
    assert last[9:] == ["and 93 arms pulled less", "[0.25 s]"]


def test_a_human_sees_the_lanes_of_a_vector_env_that_fit(monkeypatch):
    screens = sit_at_a_terminal(monkeypatch)
    venv = gym.make_vec(ENV, 9, num_arms=2, render_mode="human")
    venv.reset(seed=0), venv.step(np.zeros(9, dtype=int))
    last = screens()[-1].splitlines()
    assert [line for line in last if line.startswith("Bernoulli")] == 2 * [last[0]]
    assert len(last) - 1 <= 10
