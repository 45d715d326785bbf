"""In a notebook: a film of a run to step through, and an environment to play by hand."""

from __future__ import annotations

import io
from base64 import b64encode
from typing import Any

import numpy as np

from bandit_gym.checks import find_problem, import_extra, message
from bandit_gym.envs.observations import PlayRecord
from bandit_gym.envs.rendering import Frame, show_record
from bandit_gym.experiments.catalogue import make_environment
from bandit_gym.problem import ContextualProblem
from bandit_gym.watching.showing import draw_image, make_run, watch

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

    It needs neither another file nor a network.

    Attributes:
        pictures: of the frames, as PNG.
    """

    def __init__(self, pictures: list[bytes]) -> None:
        self.pictures = pictures

    def _repr_html_(self) -> str:
        images = "".join(
            f'<img alt="frame {number}" style="display: {"none" if number else ""}" '
            f'src="data:image/png;base64,{b64encode(picture).decode()}">'
            for number, picture in enumerate(self.pictures)
        )
        return (
            f'<div><button onclick="{PLAY_SCRIPT}">Play / stop</button> <input type="range" '
            f'value="0" max="{len(self.pictures) - 1}" style="width: 75%" '
            f'oninput="{SHOW_SCRIPT}"><br>{images}</div>'
        )


def film(agent: Any, env: Any, *, horizon: int = 50, seed: int = 0) -> Film:
    """Film one episode for a notebook: what the agent knows of each arm, and which it pulls.

    It is the episode of `bandit-gym watch` with the same settings.

    Args:
        agent: as for `compare`.
        env: as for `compare`.
        horizon: T, steps of the episode; the film has at most 200 frames.
        seed: integer >= 0 of the episode.

    Raises:
        TypeError, ValueError: if agent and environment cannot be built or do not fit each other.
    """
    return Film([_write_png(frame) for frame in watch(make_run(agent, env, horizon, seed))])


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
    lanes: Any = make_environment(make_run("random", env, horizon, seed=0))
    problem: Any = find_problem(lanes)
    if problem is None or isinstance(problem, ContextualProblem):
        raise ValueError(message("env", "be a bandit without features", env))
    lanes.reset(seed=seed)
    record, picture, paid = PlayRecord(1, problem.num_arms), widgets.Image(), widgets.Label()
    truth = widgets.ToggleButton(description="Show the truth")
    arms = [widgets.Button(description=f"Arm {arm}") for arm in range(problem.num_arms)]

    def show(change: Any = None) -> None:
        means = lanes.unwrapped.means[0] if truth.value else None
        picture.value = _write_png(show_record(problem.likelihood, means, record))

    def pull(button: Any) -> None:
        actions = np.array([arms.index(button)])
        _, rewards, terminated, truncated, info = lanes.step(actions)
        rewards = info.get("pull_reward", rewards)  # which may arrive later
        record.add(actions, rewards)
        paid.value = f"{button.description} paid {rewards[0]:g}."
        for arm in arms:
            arm.disabled = bool(terminated[0] or truncated[0])
        show()

    for arm in arms:
        arm.on_click(pull)
    truth.observe(show, "value")
    show()
    return widgets.VBox([widgets.Box(arms, layout={"flex_flow": "row wrap"}), paid, picture, truth])


def _write_png(frame: Frame) -> bytes:
    file = io.BytesIO()
    draw_image(frame).save(file, "PNG")
    return file.getvalue()
