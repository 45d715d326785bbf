"""The command that shows a run as it goes, on terminals of all kinds and in films."""

import io
import json
import re

import gymnasium as gym
import numpy as np
import pytest
from PIL import Image
from rich.cells import cell_len
from scipy import stats

from agents import make_agent
from bandit_gym.cli import main
from bandit_gym.rollout import rollout
from bandit_gym.wrappers import wrap

HOSTILE = 'stub_agents:Telling:tells={"[/red]<script>$x_1^2$ [bold]&amp; _%":1}'


class Stream(io.StringIO):
    """A standard output of an encoding, which is a terminal or is not."""

    def __init__(self, encoding="utf-8", *, is_terminal=False):
        super().__init__()
        self.is_terminal, self.name = is_terminal, encoding

    encoding = property(lambda self: self.name)

    def isatty(self):
        return self.is_terminal


def watch(*arguments, agent="random", horizon=5, env="BernoulliBandit-v0", **options):
    """Run the command, with options of the environment, and return its exit code."""
    settings = ["--env", env, "--env-options", json.dumps(options)] if options else ["--env", env]
    size = ["--agent", agent, "--horizon", str(horizon)]
    return main(["watch", *size, *settings, *map(str, arguments)])


def printed(monkeypatch, *arguments, stream=None, columns=60, **settings):
    """Return what a successful run prints."""
    stream = stream or Stream()
    monkeypatch.setattr("sys.stdout", stream)
    monkeypatch.setenv("COLUMNS", str(columns))
    assert watch(*arguments, **settings) == 0
    return stream.getvalue()


def rows_of(text):
    """Return arm -> (pulls, posterior mean or average, what is drawn behind)."""
    found = re.findall(r"^ *(\d+) +([\d,]+) +([\d.e-]+)[* ]? ?(.*)$", text, re.M)
    return {int(arm): (int(n.replace(",", "")), mean, strip) for arm, n, mean, strip in found}


MOVING = [{"name": "Drift", "std": 0.1}]
LATE = [{"name": "DelayedReward", "delay": 1}]
RUNS = {
    "racing": ("racing", "BernoulliBandit-v0", {"num_arms": 4}, []),
    "chains": ("exact", "DependentPriorBandit-v0", {"num_arms": 2}, []),
    "particles": ("smc", "PoissonBandit-v0", {"num_arms": 3}, []),
    "ucb1": ("ucb1", "GaussianBandit-v0", {"num_arms": 3}, []),
    "drift": ("exact", "BernoulliBandit-v0", {"num_arms": 3}, MOVING),
    "features": ("racing", "ContextualBandit-v0", {"num_arms": 3}, []),
    "features without posterior": ("lin_ucb", "ContextualBandit-v0", {"num_arms": 3}, LATE),
    "delay": ("exact", "BernoulliBandit-v0", {"num_arms": 3}, LATE),
}


@pytest.mark.parametrize(("agent", "env", "options", "wrappers"), RUNS.values(), ids=RUNS)
def test_a_watched_run_is_that_of_rollout(agent, env, options, wrappers, monkeypatch):
    world = wrap(gym.make(f"bandit_gym:{env}", max_episode_steps=9, **options), wrappers)
    played = rollout(make_agent(agent, world), world, seed=7)
    told = options | ({"wrappers": wrappers} if wrappers else {})
    text = printed(monkeypatch, "--seed", 7, agent=agent, env=env, horizon=9, **told)
    status = re.search(r"step 9 of 9, arm (\d+), regret (\S+)", text)
    assert int(status[1]) == played.actions[0, -1]
    assert float(status[2]) == pytest.approx(played.regret.sum(), abs=0.05)
    pulls = np.bincount(played.actions[0], minlength=options["num_arms"])
    assert [rows_of(text)[arm][0] for arm in range(len(pulls))] == pulls.tolist()


def test_a_posterior_is_drawn_by_its_density_each_arm_to_its_own_height(monkeypatch):
    """Eight levels of height; rewards are sure, so that the laws are known."""
    options = {"num_arms": 3, "means": [0.0, 1.0, 1.0]}
    text = printed(monkeypatch, agent="exact", horizon=9, **options)
    assert "posterior, from the conjugate posterior" in text
    for arm, (pulls, mean, strip) in rows_of(text).items():
        distribution = stats.beta(1, 1 + pulls) if arm == 0 else stats.beta(1 + pulls, 1)
        assert float(mean) == pytest.approx(distribution.mean(), abs=5e-4)
        width = text.splitlines()[3].rindex("1") - text.splitlines()[3].index("0") + 1
        cells = strip.lstrip("< ").rjust(width) if arm else strip.removeprefix("<").strip()
        levels = [" ▁▂▃▄▅▆▇█".find(letter) for letter in cells.ljust(width)[:width]]
        density = distribution.pdf((np.arange(width) + 0.5) / width)
        is_height = np.array(levels) >= 0  # where the true mean does not stand
        gap = np.array(levels) - 8 * density / density.max()
        assert is_height.sum() >= width - 1 and (np.abs(gap)[is_height] <= 1.2).all()


def test_a_rule_without_a_posterior_shows_averages(monkeypatch):
    options = {"num_arms": 3, "means": [1.0, 0.0, 0.5]}
    text = printed(monkeypatch, agent="stub_agents:Constant", horizon=4, **options)
    assert "average, 95 % interval" in text
    assert rows_of(text)[0][:2] == (4, "1")
    assert re.search(r"^ +1 +0 +- ", text, re.M)


def test_the_range_is_the_support_or_fits_the_true_means(monkeypatch):
    for family, means, low, high in [
        ("Bernoulli", [0.4, 0.6], "0", "1"),
        ("Gaussian", [-1.0, 3.0], "-3", "5"),
        ("Poisson", [0.0, 0.0], "0", "1"),
    ]:
        options = {"num_arms": 2, "means": means, "env": f"{family}Bandit-v0"}
        text = printed(monkeypatch, horizon=1, **options)
        assert re.search(rf"^ *arm pulls +mean +{low} +{high}$", text, re.M), family


def test_labels_are_shown_as_they_are_and_no_line_is_too_long(monkeypatch):
    label = 'Telling(tells={"[/red]<script>$x_1^2$ [bold]&amp; _%":1})'
    for columns in (20, 40, 120):
        text = printed(monkeypatch, agent=HOSTILE, columns=columns)
        assert max(map(cell_len, text.splitlines())) <= columns
        assert "".join(label.split()) in "".join(text.split())
        assert "\x1b" not in text


def test_of_many_arms_as_many_are_shown_as_there_is_room_for_and_the_best_one(monkeypatch):
    options = {"num_arms": 1000, "means": [0.0] * 999 + [1.0]}
    text = printed(monkeypatch, columns=10_000, **options)
    assert len(text.splitlines()) == 3 + 1 + 22 + 1 + 1  # labels, scale, arms, left out, key
    assert rows_of(text).keys() >= {999} and re.search(r"and 9\d\d arms pulled less", text)


def sit_at_a_terminal(monkeypatch, waits):
    """Return a terminal at which waiting takes no time."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("time.sleep", waits.append)
    return Stream(is_terminal=True)


def test_frames_on_a_terminal_are_as_far_apart_as_is_asked(monkeypatch):
    waits = []
    terminal = sit_at_a_terminal(monkeypatch, waits)
    text = printed(monkeypatch, "--fps", "0.5", stream=terminal, horizon=3)
    assert waits == [2.0, 2.0, 2.0]
    assert all(f"step {step} of 3" in text for step in (1, 2, 3))
    assert text.index("\x1b[?25l") < text.index("step 1") < text.rindex("\x1b[?25h")


def test_a_long_run_has_few_frames_and_the_last_step_among_them(monkeypatch):
    terminal = sit_at_a_terminal(monkeypatch, [])
    text = printed(monkeypatch, agent="stub_agents:Constant", stream=terminal, horizon=2000)
    shown = re.findall(r"step ([\d,]+) of 2,000", text)
    assert (shown[0], shown[-1]) == ("1", "2,000") and 100 < len(set(shown)) <= 200


def test_ctrl_c_gives_the_cursor_back_and_ends_with_130(monkeypatch, capsys):
    terminal = sit_at_a_terminal(monkeypatch, [])

    def wait(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setattr("time.sleep", wait)
    assert watch() == 130
    shown = terminal.getvalue()
    assert "step 1 of 5" in shown and "step 2 of 5" not in shown
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")
    assert capsys.readouterr().err == "bandit-gym: interrupted\n"


def test_elsewhere_and_on_a_dumb_terminal_the_last_frame_is_printed_alone(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    texts = [printed(monkeypatch, stream=Stream(is_terminal=True))]
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    texts.append(printed(monkeypatch))
    for text in texts:
        assert "\x1b" not in text and re.findall(r"step (\d) of", text) == ["5"]


def test_a_gif_has_a_picture_for_each_frame_and_goes_on_for_ever(tmp_path, capsys):
    path = tmp_path / "new" / "a.film.gif"
    assert watch("--gif", path, "--fps", "20", horizon=2) == 0
    assert capsys.readouterr().out.endswith(f"\nAnimation: {path}\n")
    with Image.open(path) as film:
        assert (film.format, film.n_frames, film.size) == ("GIF", 2, (960, 540))
        assert (film.info["duration"], film.info["loop"]) == (50, 0)


def test_an_agent_that_fails_leaves_the_film_that_was_there(tmp_path, capsys):
    (tmp_path / "a").write_text("mine")
    with pytest.raises(RuntimeError, match="I have had enough"):
        watch("--gif", tmp_path / "a", agent="stub_agents:Raising:at=2")
    assert "step 2 of 5" in capsys.readouterr().out
    assert (tmp_path / "a").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


BAD_INPUT = [
    ("--env", "CartPole-v1", "env must have a `problem`"),
    ("--agent", "racin", "the nearest known one is 'racing'"),
    ("--agent", 'racing_paper:grid={"delta":[0.1,0.2]}', "agent must be one agent in"),
    ("--seed", str(2**64), "seed must be at most 18446744073709551615"),
    ("--fps", "0", "fps must be a finite number above 0 and at most 50, got 0.0"),
    ("--gif", ".", "gif must be a file, and no folder, got '.'"),
]


def test_bad_input_is_one_sentence_and_exit_code_2(capsys):
    for option, value, message in BAD_INPUT:
        assert watch(option, value) == 2, message
        told = capsys.readouterr()
        assert message in told.err
        assert (told.err.count("\n"), told.out) == (1, "")
