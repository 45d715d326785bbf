"""Films of a run, for notebooks and in files, and buttons to play by hand.

A film shows after each step what the agent holds of each arm, what it pulls, and what that costs.
"""

from __future__ import annotations

import contextlib
import io
from base64 import b64encode
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import SeedSequence
from PIL import Image

from bandit_gym.checks import (
    check_file,
    check_integer,
    check_seed,
    find_problem,
    import_extra,
    message,
)
from bandit_gym.checks.typing import FloatArray
from bandit_gym.envs.observations import PlayRecord
from bandit_gym.envs.rendering import RENDER_FPS, View, make_view, render_picture, show_record
from bandit_gym.experiments.entries import make_environment
from bandit_gym.experiments.experiment import Experiment, Run, make_agent_and_environment
from bandit_gym.files import replacing
from bandit_gym.problem import ContextualProblem
from bandit_gym.rollout import AGENT_STREAM, Step, play_steps
from bandit_gym.styles import wrap_text

POSTERIOR_MEMBERS = ("mean", "density", "sample", "source")
"""Of a posterior, as `agents.snapshots` has them."""

TITLE_WIDTH = 50
"""Characters of a line of a picture's title, which fit even where all are capitals."""

SHOW_SCRIPT = """
    const images = this.parentNode.querySelectorAll('img')
    images.forEach((image, i) => image.style.display = i == this.value ? '' : 'none')"""
"""Of the slider: show the picture of its place, and hide the others."""

PLAY_SCRIPT = """
    const slider = this.nextElementSibling, stop = () => this.timer = clearInterval(this.timer)
    if (this.timer) return stop()
    if (slider.value == slider.max) slider.value = -1
    this.timer = setInterval(() => {
        slider.stepUp(), slider.oninput(), slider.value == slider.max && stop()
    }, 250)"""
"""Of the button: play on, from the start after the end, or stop."""


class Film:
    """A film that a notebook shows, with a button that plays it and a slider to step through.

    It needs neither another file nor a network, which matplotlib's own player does.

    Attributes:
        images: one after each shown step, of few colours, which makes small files.
    """

    def __init__(self, images: list[Image.Image]) -> None:
        self.images = images

    def save(self, path: str | Path) -> Path:
        """Write the film as a GIF, or as a page if the name ends in .html; return the path.

        Raises:
            ValueError: if the name ends otherwise.
            OSError: if the file cannot be written.
        """
        path = check_film_path(path)
        with replacing(path, allows_devices=True) as file:
            if path.suffix == ".html":
                head = '<!doctype html><meta charset="utf-8"><title>A run</title>'
                file.write(f"{head}{self._repr_html_()}\n".encode())
            else:
                pace = {"duration": round(1000 / RENDER_FPS), "loop": 0}
                first, *others = self.images
                first.save(file, "GIF", save_all=True, append_images=others, **pace)
        return path

    def _repr_html_(self) -> str:
        images = "".join(
            f'<img alt="step shown {number + 1} of {len(self.images)}" '
            f'style="max-width: 100%; display: {"none" if number else ""}" '
            f'src="data:image/png;base64,{b64encode(_write_png(image)).decode()}">'
            for number, image in enumerate(self.images)
        )
        return (
            f'<div><button onclick="{PLAY_SCRIPT}">Play / stop</button> <input type="range" '
            f'value="0" max="{len(self.images) - 1}" style="width: 75%" '
            f'oninput="{SHOW_SCRIPT}"><br>{images}</div>'
        )


def check_film_path(path: str | Path) -> Path:
    """Return the path of a film, whose suffix says its kind."""
    path = check_file("path", path)
    if path.suffix not in (".gif", ".html"):
        raise ValueError(message("path", "end in .gif or .html", str(path)))
    return path


def film(agent: Any, env: Any, *, horizon: int = 50, seed: int = 0) -> Film:
    """Film one episode: what the agent knows of each arm, and which it pulls.

    It is the episode of `rollout` in one lane with this seed.

    Args:
        agent: as for `compare`.
        env: as for `compare`.
        horizon: T, steps of the episode; the film shows at most 200 of them, evenly spaced in
            log t, the last one among them.
        seed: integer >= 0 of the episode.

    Raises:
        TypeError, ValueError: if agent and environment cannot be built or do not fit each other.
    """
    settings = {"horizon": horizon, "seed": check_seed("seed", seed), "block_size": 1}
    runs = Experiment.from_dict({"environments": [env], "agents": [agent], **settings}).runs
    if len(runs) > 1:
        condition = "be one agent in one environment to film, without a grid"
        raise ValueError(message("agent", condition, [run.agent.label for run in runs]))
    return Film([_draw_image(view) for view in play_views(runs[0])])


def play_views(run: Run) -> Iterator[View]:
    """Play one episode of one lane, and yield what there is to see after recorded steps.

    The last one is among them, also where the episode ends before the horizon.
    """
    agent, env = make_agent_and_environment(run)
    problem: Any = find_problem(env)
    seed = SeedSequence(run.seed, spawn_key=(AGENT_STREAM,))
    record, regret, cells = PlayRecord(1, problem.num_arms), 0.0, None
    played = islice(play_steps(agent, env, env_seed=run.seed, agent_seed=seed), run.horizon)

    def show(number: int, step: Step) -> View:
        shown = (step.observation,) if isinstance(problem, ContextualProblem) else ()
        status = f"step {number:,} of {run.horizon:,}, arm {step.actions[0]}"
        status += "" if np.isnan(regret) else f", regret {regret:,.1f}"
        title = run.environment.label, run.agent.label, status
        means, posterior = _find_means(step, env), _ask_posterior(agent, *shown)
        settings = {"posterior": posterior, "before": cells}
        return make_view(title, problem.likelihood, means, record, **settings)

    with contextlib.closing(env):
        for number, step in enumerate(played, start=1):
            record.add(step.actions, step.rewards)
            regret += np.nan if step.regrets is None else float(step.regrets[0])
            if number in run.steps:
                view = show(number, step)
                cells = view.cells
                yield view
        if number not in run.steps:
            yield show(number, step)


def _find_means(step: Step, env: Any) -> FloatArray | None:
    """Return the (K,) true means that a step was played on; where they move, `env` has them."""
    means = getattr(env.unwrapped, "played_means", None) if step.means is None else step.means
    return None if means is None else np.array(means[0])


def _ask_posterior(agent: Any, *shown: Any) -> Any:
    """Return the posterior of an agent's single lane, and change nothing in it; None without one.

    Args:
        agent: the learner.
        *shown: (1, K, d) features of the arms, if they have any.
    """
    with contextlib.suppress(AttributeError, TypeError):  # rules that need no prior
        posterior = agent.posterior(*shown)
        if all(hasattr(posterior, name) for name in POSTERIOR_MEMBERS):
            return posterior
    return None


def play(env: Any, *, horizon: int = 50, seed: int | None = None) -> Any:
    """Return buttons with which you pull the arms in a notebook; one shows the true means.

    Args:
        env: as for `compare`, without features.
        horizon: T, pulls until the end.
        seed: of the environment; None draws another one each time.

    Raises:
        ImportError: if the package `ipywidgets` is not installed.
        TypeError, ValueError: if the environment cannot be built, or its arms have features.
    """
    widgets = import_extra("ipywidgets", "play", "notebook")
    check_integer("horizon", horizon, minimum=1)
    environments = Experiment.from_dict({"environments": [env], "agents": ["random"]}).environments
    if len(environments) > 1:
        labels = [each.label for each in environments]
        raise ValueError(message("env", "be one environment to play, without a grid", labels))
    lanes: Any = make_environment(environments[0], 1, horizon)
    problem: Any = find_problem(lanes)
    if problem is None or isinstance(problem, ContextualProblem):
        raise ValueError(message("env", "be a bandit without features", env))
    _, info = lanes.reset(seed=seed)
    record, picture, paid = PlayRecord(1, problem.num_arms), widgets.Image(), widgets.Label()
    truth = widgets.ToggleButton(description="Show the truth")
    arms = [widgets.Button(description=f"Arm {arm}") for arm in range(problem.num_arms)]

    def show(change: Any = None) -> None:
        means = getattr(lanes.unwrapped, "means", info.get("means", [None]))  # may be unknown
        means = means[0] if truth.value else None
        view = show_record(problem.likelihood, means, record)
        picture.value = _write_png(_draw_image(view))

    def pull(button: Any) -> None:
        actions = np.array([arms.index(button)])
        _, rewards, terminated, truncated, info = lanes.step(actions)
        rewards = info.get("pull_reward", rewards)  # which may arrive later
        record.add(actions, rewards, info.get("regret", np.nan))
        paid.value = f"{button.description} paid {rewards[0]:g}."
        for arm in arms:
            arm.disabled = bool(terminated[0] or truncated[0])
        show()

    for arm in arms:
        arm.on_click(pull)
    truth.observe(show, "value")
    show()
    return widgets.VBox([widgets.Box(arms, layout={"flex_flow": "row wrap"}), paid, picture, truth])


def fit_title(view: View) -> str:
    """Return the title of a picture in lines that fit into it."""
    return "\n".join(wrap_text(line, TITLE_WIDTH) for line in view.title)


def _draw_image(view: View) -> Image.Image:
    return Image.fromarray(render_picture(view, fit_title(view))).quantize()


def _write_png(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()
