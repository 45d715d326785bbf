"""Films of a run, in a notebook and in files, and buttons to pull the arms by hand."""

import io
import re
import sys

import gymnasium as gym
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image
from scipy import stats

import bandit_gym as bg
from agents import make_agent
from bandit_gym.cli import main
from bandit_gym.envs.rendering import NUM_CELLS, draw_view, find_middles
from bandit_gym.films import play_views
from bandit_gym.rollout import rollout
from bandit_gym.wrappers import wrap

NAME = "BernoulliBandit-v0"


def views_of(agent, env=NAME, horizon=9, seed=0, **options):
    """Return what is seen after each shown step of a run."""
    settings = {"horizon": horizon, "seed": seed, "block_size": 1}
    experiment = bg.Experiment([{"env": env, **options}], [agent], **settings)
    return list(play_views(experiment.runs[0]))


MOVING = [{"name": "Drift", "std": 0.1}]
LATE = [{"name": "DelayedReward", "delay": 1}]
RUNS = {
    "racing": ("racing", NAME, {"num_arms": 4}, []),
    "chains": ("exact", "DependentPriorBandit-v0", {"num_arms": 2}, []),
    "particles": ("smc", "PoissonBandit-v0", {"num_arms": 3}, []),
    "ucb1": ("ucb1", "GaussianBandit-v0", {"num_arms": 3}, []),
    "drift": ("exact", NAME, {"num_arms": 3}, MOVING),
    "features": ("racing", "ContextualBandit-v0", {"num_arms": 3}, []),
    "features without posterior": ("lin_ucb", "ContextualBandit-v0", {"num_arms": 3}, LATE),
    "delay": ("exact", NAME, {"num_arms": 3}, LATE),
}


@pytest.mark.parametrize(("agent", "env", "options", "wrappers"), RUNS.values(), ids=RUNS)
def test_a_film_shows_the_run_of_rollout(agent, env, options, wrappers):
    single = wrap(gym.make(f"bandit_gym:{env}", max_episode_steps=9, **options), wrappers)
    played = rollout(make_agent(agent, single), single, seed=7)
    settings = options | ({"wrappers": wrappers} if wrappers else {})
    views = views_of(agent, env, seed=7, **settings)
    assert [view.action for view in views] == played.actions[0].tolist()
    assert views[-1].title[-1].startswith("step 9 of 9, ")
    regret = re.search(r"regret (\S+)", views[-1].title[-1])[1]
    assert float(regret) == pytest.approx(played.regret.sum(), abs=0.05)
    pulls = np.bincount(played.actions[0], minlength=options["num_arms"])
    assert views[-1].pulls.tolist() == pulls.tolist()


def test_a_posterior_is_drawn_by_its_density_each_arm_to_its_own_height():
    """Rewards are certain, so that the posteriors are known."""
    view = views_of("exact", num_arms=3, means=[0.0, 1.0, 1.0])[-1]
    assert view.source == "posterior, from the conjugate posterior"
    for arm, pulls in enumerate(view.pulls):
        distribution = stats.beta(1, 1 + pulls) if arm == 0 else stats.beta(1 + pulls, 1)
        assert view.centre[arm] == pytest.approx(distribution.mean())
        density = distribution.pdf(find_middles((0.0, 1.0)))
        assert view.heights[arm] == pytest.approx(density / density.max())


@pytest.mark.parametrize("env", ["PoissonBandit-v0", "DependentPriorBandit-v0"])
def test_a_posterior_without_a_density_is_drawn_as_ticks_in_the_places_of_its_draws(env):
    """200 draws have a mean within 4 standard errors of the posterior's."""
    view = views_of("smc", env, num_arms=3)[-1]
    assert view.heights is None and view.draws.shape == (3, 200)
    assert view.source.endswith(", 200 draws")
    errors = view.draws.std(axis=1) / 200**0.5
    assert (abs(view.draws.mean(axis=1) - view.centre) < 4 * errors).all()
    figure = Figure()
    draw_view(figure, view, "")
    for ticks, draws in zip(figure.axes[0].collections, view.draws, strict=True):
        assert [segment[0, 0] for segment in ticks.get_segments()] == draws.tolist()


def test_a_rule_without_a_posterior_shows_averages():
    view = views_of("stub_agents:Constant", num_arms=3, means=[1.0, 0.0, 0.5], horizon=4)[-1]
    assert view.source == "average, 95 % interval" and view.pulls.tolist() == [4, 0, 0]
    assert view.centre.tolist() == pytest.approx([1, np.nan, np.nan], nan_ok=True)
    assert view.heights.shape == (3, NUM_CELLS)


def test_the_range_is_the_support_or_fits_the_true_means():
    for family, means, cells in [
        ("Bernoulli", [0.4, 0.6], (0, 1)),
        ("Gaussian", [-1.0, 3.0], (-3, 5)),
        ("Poisson", [0.0, 0.0], (0, 1)),
    ]:
        (view,) = views_of("random", f"{family}Bandit-v0", means=means, num_arms=2, horizon=1)
        assert view.cells == cells, family


def test_a_long_run_has_few_views_and_the_last_step_among_them():
    views = views_of("stub_agents:Constant", horizon=2000)
    steps = [int(re.search(r"step ([\d,]+)", view.title[-1])[1].replace(",", "")) for view in views]
    assert (steps[0], steps[-1]) == (1, 2000) and 100 < len({*steps}) == len(steps) <= 200
    table = {"features": [[0.1]] * 457, "rewards": [[0.0, 1.0]] * 457}
    *_, last = views_of("random", "TableBandit-v0", **table, horizon=2000)  # which ends before
    assert last.title[-1].startswith("step 457 of 2,000")


def run(path, *arguments, agent="random", horizon=2):
    """Run the command, and return its exit code."""
    size = ["--agent", agent, "--horizon", str(horizon), "--env-options", '{"num_arms": 3}']
    return main(["film", str(path), "--env", NAME, *size, *arguments])


def test_the_command_writes_a_gif_that_goes_on_for_ever_or_a_page(tmp_path, capsys):
    gif, page = tmp_path / "new" / "a.film.gif", tmp_path / "film.html"
    assert run(gif) == run(page) == 0
    assert capsys.readouterr().out == f"Film: {gif}\nFilm: {page}\n"
    with Image.open(gif) as film:
        assert (film.format, film.n_frames, film.size) == ("GIF", 2, (960, 540))
        assert (film.info["duration"], film.info["loop"]) == (250, 0)
    text = page.read_text("utf-8")
    assert text.count("<img") == 2 and not re.search(r'(src|href)="(?!data:)', text)
    film = bg.film("random", {"env": NAME, "num_arms": 3}, horizon=2)
    assert text.strip().endswith(film._repr_html_())


def test_an_agent_that_fails_leaves_the_film_that_was_there(tmp_path):
    (tmp_path / "a.gif").write_text("mine")
    with pytest.raises(RuntimeError, match="I have had enough"):
        run(tmp_path / "a.gif", agent="stub_agents:Raising:at=2", horizon=5)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


BAD_INPUT = [
    ("a.gif", ["--env", "CartPole-v1"], "env must have a `problem`"),
    ("a.gif", ["--agent", "racin"], "the nearest known one is 'racing'"),
    ("a.gif", ["--agent", 'racing:grid={"stopping":[1,2]}'], "agent must be one agent in"),
    ("a.gif", ["--seed", str(2**64)], "seed must be at most 18446744073709551615"),
    ("a.mp4", [], "path must end in .gif or .html, got 'a.mp4'"),
    (".", [], "path must be a file, and no folder, got '.'"),
]


def test_bad_input_is_one_sentence_and_exit_code_2(capsys):
    for path, arguments, sentence in BAD_INPUT:
        assert main(["film", path, *arguments]) == 2, sentence
        printed = capsys.readouterr()
        assert sentence in printed.err
        assert (printed.err.count("\n"), printed.out) == (1, "")


def test_a_film_holds_a_picture_of_each_step_and_shows_the_first():
    film = bg.film("ucb1", {"env": NAME, "num_arms": 3}, horizon=4)
    html = film._repr_html_()
    assert [image.size for image in film.images] == [(960, 540)] * 4
    assert (html.count("<img"), html.count("display: none")) == (4, 3) and 'max="3"' in html
    stored = re.findall('base64,([^"]*)', html)
    assert len({*stored}) == 4


def test_buttons_pull_their_arms_until_the_end_and_the_truth_is_shown_when_asked_for():
    pytest.importorskip("ipywidgets")
    hidden, shown = [], []
    for means in ([0, 1], [1, 0]):
        game = bg.play({"env": NAME, "num_arms": 2, "means": means}, horizon=2)
        buttons, paid, picture, truth = game.children
        hidden.append(picture.value)
        truth.value = True
        shown.append(picture.value)
    assert hidden[0] == hidden[1] != shown[0] != shown[1]
    assert Image.open(io.BytesIO(hidden[0])).size == (960, 540)
    for button, text in zip(buttons.children, ("Arm 0 paid 1.", "Arm 1 paid 0."), strict=True):
        assert not button.disabled
        button.click()
        assert paid.value == text
    assert all(button.disabled for button in buttons.children) and picture.value != shown[1]


@pytest.mark.parametrize("tells", [True, False])
def test_buttons_pull_the_arms_of_an_environment_that_reports_no_regret(tells):
    """A click did nothing."""
    pytest.importorskip("ipywidgets")
    game = bg.play({"env": "stub_envs:Silent-v0", "tells_means": tells})
    buttons, paid, picture, truth = game.children
    buttons.children[1].click()
    assert paid.value == "Arm 1 paid 1."
    hidden, truth.value = picture.value, True
    assert (picture.value != hidden) == tells


def test_what_cannot_be_played_by_hand_is_refused_in_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    with pytest.raises(ImportError, match=r'^play needs .*: pip install "\.\[notebook\]"\.$'):
        bg.play(NAME)
    monkeypatch.setitem(sys.modules, "ipywidgets", pytest)
    with pytest.raises(ValueError, match="env must be a bandit without features, got 'Contextual"):
        bg.play("ContextualBandit-v0")
    with pytest.raises(ValueError, match="horizon must be a positive integer, got 0"):
        bg.play(NAME, horizon=0)
    with pytest.raises(ValueError, match="env must be one environment to play, without a grid"):
        bg.play({"env": NAME, "grid": {"num_arms": [2, 3]}})
