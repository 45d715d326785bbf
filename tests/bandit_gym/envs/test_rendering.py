"""Text and pictures of an episode, and the intervals they show."""

import io
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from families import ALL_ENV_IDS, ALL_LIKELIHOODS
from gymnasium.error import ResetNeeded

from bandit_gym.envs import rendering
from bandit_gym.envs.rendering import likelihood_interval
from bandit_gym.likelihoods import Bernoulli, Gaussian, Likelihood, Poisson

every_id = pytest.mark.parametrize("env_id", ALL_ENV_IDS)
every_likelihood = pytest.mark.parametrize("likelihood", ALL_LIKELIHOODS, ids=lambda law: law.name)
HALF_CHI_SQUARED_95 = 0.5 * 3.841458820694124


def play_three(**options: Any) -> gym.Env:
    env = gym.make("BernoulliBandit-v0", num_arms=3, means=[0.0, 1.0, 0.25], **options)
    env.reset(seed=0)
    for action in (1, 1, 0):
        env.step(action)
    return env


def test_text_lists_arms_pulls_and_means() -> None:
    assert play_three(render_mode="ansi").render() == (
        "Bernoulli bandit, 3 pulls, mean reward 0.667, regret 1.0\n"
        "  arm   pulls  empirical  true mean\n"
        "    0       1      0.000      0.000  <\n"
        "    1       2      1.000      1.000 *\n"
        "    2       0          -      0.250\n"
    )


@every_id
def test_text_has_a_row_per_arm_before_the_first_pull(env_id: str) -> None:
    env = gym.make(env_id, render_mode="ansi")
    env.reset(seed=0)
    assert len(env.render().splitlines()) == 12


@every_id
def test_picture_is_an_rgb_array_of_fixed_size(env_id: str) -> None:
    env = gym.make(env_id, render_mode="rgb_array")
    env.reset(seed=0)
    blank = env.render()
    env.step(0)
    played = env.render()
    assert blank.shape == played.shape == (540, 960, 3)
    assert blank.dtype == played.dtype == np.uint8
    assert not np.array_equal(blank, played)


def test_picture_needs_no_pyplot() -> None:
    code = (
        "import sys, gymnasium as gym\n"
        "env = gym.make('bandit_gym:BernoulliBandit-v0', render_mode='rgb_array')\n"
        "assert 'matplotlib' not in sys.modules\n"
        "env.reset(seed=0)\n"
        "env.render()\n"
        "print('matplotlib.pyplot' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "False", result.stderr


def test_rendering_changes_nothing_in_the_episode() -> None:
    looked_at, left_alone = play_three(render_mode="ansi"), play_three()
    for _ in range(5):
        looked_at.render()
        assert looked_at.step(2) == left_alone.step(2)


def test_render_without_a_mode_warns_and_draws_nothing() -> None:
    env = gym.make("BernoulliBandit-v0", disable_env_checker=True).unwrapped
    env.reset(seed=0)
    with pytest.warns(UserWarning, match="without a render_mode"):
        assert env.render() is None


def test_render_before_reset_is_refused() -> None:
    env = gym.make("BernoulliBandit-v0", render_mode="ansi").unwrapped
    with pytest.raises(ResetNeeded, match="reset must be called before render"):
        env.render()


@pytest.mark.parametrize("render_mode", ["ansi", "rgb_array"])
def test_vector_env_draws_the_frame_of_each_single_env(render_mode: str) -> None:
    options = {"num_arms": 4, "render_mode": render_mode}
    venv = gym.make_vec("PoissonBandit-v0", 2, **options)
    sync = gym.make_vec("PoissonBandit-v0", 2, vectorization_mode="sync", **options)
    frames = []
    for envs in (venv, sync):
        envs.reset(seed=0)
        envs.step(np.array([1, 2]))
        frames.append(envs.render())
    assert isinstance(frames[0], tuple)
    np.testing.assert_equal(frames[0], frames[1])


def test_vector_env_without_a_mode_warns_and_draws_nothing() -> None:
    venv = gym.make_vec("PoissonBandit-v0", 2)
    with pytest.warns(UserWarning, match="without a render_mode"):
        assert venv.render() is None


def test_vector_env_render_before_reset_is_refused() -> None:
    with pytest.raises(ResetNeeded, match="reset must be called before render"):
        gym.make_vec("PoissonBandit-v0", 2, render_mode="ansi").render()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def sit_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Write into a terminal of 30 columns and 10 rows from here on, where no time passes."""
    stream = Terminal()
    monkeypatch.setattr("sys.stdout", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((30, 10)))
    monkeypatch.setattr("time.sleep", lambda seconds: stream.write(f"[{seconds} s]"))
    return stream


def test_a_human_sees_each_reset_and_step_for_a_quarter_of_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = sit_at_a_terminal(monkeypatch)
    env = play_three(render_mode="human")
    start, *shown = terminal.getvalue().split(rendering.CLEAR)
    assert start == ""
    assert len(shown) == 4
    assert all(text.endswith("\n[0.25 s]") for text in shown)
    assert shown[-1].splitlines()[2:4] == [
        "    0       1      0.000      ",
        "    1       2      1.000      ",
    ]
    assert env.render() is None


def test_a_human_sees_no_more_arms_than_fit_and_the_best_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = sit_at_a_terminal(monkeypatch)
    means = [0.0] * 99 + [1.0]
    env = gym.make("BernoulliBandit-v0", num_arms=100, means=means, render_mode="human")
    env.reset(seed=0)
    for action in (50, 7, 50):
        env.step(action)
    last = terminal.getvalue().split(rendering.CLEAR)[-1].splitlines()
    assert [line.split()[0] for line in last[2:9]] == ["0", "1", "2", "3", "7", "50", "99"]
    assert last[9:] == ["and 93 arms pulled less", "[0.25 s]"]


def test_a_human_sees_the_lanes_of_a_vector_env_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = sit_at_a_terminal(monkeypatch)
    venv = gym.make_vec("BernoulliBandit-v0", 9, num_arms=2, render_mode="human")
    venv.reset(seed=0)
    venv.step(np.zeros(9, dtype=int))
    last = terminal.getvalue().split(rendering.CLEAR)[-1].splitlines()
    assert [line for line in last if line.startswith("Bernoulli")] == 2 * [last[0]]
    assert len(last) - 1 <= 10


@pytest.mark.parametrize("name", ["file", "dumb terminal"])
def test_a_human_without_a_terminal_is_told_once_what_to_do(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr("sys.stdout", io.StringIO() if name == "file" else Terminal())
    monkeypatch.setenv("TERM", "dumb" if name == "dumb terminal" else "xterm")
    rendering._tell_of_no_terminal.cache_clear()
    play_three(render_mode="human")
    assert capsys.readouterr().err == rendering.NO_TERMINAL + "\n"
    assert sys.stdout.getvalue() == ""  # type: ignore[attr-defined]


def test_record_video_writes_a_film(tmp_path: Path) -> None:
    pytest.importorskip("moviepy")
    env = gym.wrappers.RecordVideo(play_three(render_mode="rgb_array"), str(tmp_path))
    env.reset(seed=0)
    env.step(0)
    env.close()
    (film,) = tmp_path.glob("*.mp4")
    assert film.read_bytes()[4:8] == b"ftyp"


def test_gaussian_interval_is_the_textbook_one() -> None:
    counts, sums = np.array([1.0, 4.0, 100.0]), np.array([3.0, -2.0, 0.0])
    low, high = likelihood_interval(Gaussian(std=2.0), counts, sums)
    half_width = np.sqrt(2 * HALF_CHI_SQUARED_95) * 2.0 / np.sqrt(counts)
    np.testing.assert_allclose(low, sums / counts - half_width)
    np.testing.assert_allclose(high, sums / counts + half_width)


def test_interval_does_not_shrink_to_a_point_when_all_rewards_are_equal() -> None:
    low, high = likelihood_interval(Bernoulli(), [10.0, 10.0], [0.0, 10.0])
    # (1 - high)^10 and low^10 are exp(-1.92), by hand.
    width = 1.0 - np.exp(-HALF_CHI_SQUARED_95 / 10)
    np.testing.assert_allclose([low[0], high[0], low[1], high[1]], [0, width, 1 - width, 1])


def test_poisson_interval_without_events_is_the_textbook_one() -> None:
    low, high = likelihood_interval(Poisson(), [5.0], [0.0])
    np.testing.assert_allclose([low[0], high[0]], [0.0, HALF_CHI_SQUARED_95 / 5])


@every_likelihood
def test_interval_ends_are_where_the_log_likelihood_has_dropped(likelihood: Likelihood) -> None:
    counts, sums = np.array([3.0, 50.0]), np.array([2.0, 30.0])
    peak = likelihood.log_likelihood(sums / counts, counts, sums)
    for end in likelihood_interval(likelihood, counts, sums):
        drop = peak - likelihood.log_likelihood(end, counts, sums)
        np.testing.assert_allclose(drop, HALF_CHI_SQUARED_95, rtol=1e-5)


@every_likelihood
def test_interval_of_rewards_without_a_likeliest_mean_raises_no_warning(
    likelihood: Likelihood,
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        low, high = likelihood_interval(likelihood, [2.0], [0.0])
    assert low[0] <= 0.0 <= high[0]
