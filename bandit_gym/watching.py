"""A run as it goes: its frames, as text on a terminal, as an animation in a file and in a notebook.

A frame has what the agent holds of each arm, what it pulls, and what that costs.

Notation: K arms, C cells of a range of means, T steps, S shown ones.
"""

from __future__ import annotations

import contextlib
import io
import sys
import time
from base64 import b64encode
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.random import SeedSequence
from PIL import Image
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from bandit_gym.checks import check_seed, find_problem, import_extra, message
from bandit_gym.checks.files import replacing
from bandit_gym.checks.styles import wrap_text
from bandit_gym.checks.typing import FloatArray, IntArray
from bandit_gym.envs.observations import PlayRecord
from bandit_gym.envs.rendering import (
    Frame,
    make_frame,
    render_picture,
    select_most_pulled,
    show_record,
)
from bandit_gym.experiments.entries import make_environment
from bandit_gym.experiments.experiment import Experiment, Run, make_agent_and_environment
from bandit_gym.problem import ContextualProblem
from bandit_gym.rollout import AGENT_STREAM, Step, play_steps

POSTERIOR_MEMBERS = ("mean", "density", "sample", "source")
"""Of a posterior, as `agents.snapshots` has them."""

HEIGHTS, PLACE = " ▁▂▃▄▅▆▇█", "│"
"""Signs for heights from nothing to all, and for a place."""

MAX_ROWS, NUM_OTHER_ROWS = 30, 8
"""Of a page that is printed, where a terminal has as many as it has; and those without an arm."""

MIN_ARMS = 2
BEST, LAST, TRUE = "green", "bold", "bold red"

TITLE_WIDTH = 50
"""Characters of a line of a picture's title, which fit even where all are capitals."""


# -- Frames ----------------------------------------------------------------------------------------


def make_run(agent: Any, env: Any, horizon: int, seed: int) -> Run:
    """Return the run of one agent in one environment and one lane, both given as for `compare`."""
    settings = {"horizon": horizon, "seed": seed, "block_size": 1}
    experiment = Experiment.from_dict({"environments": [env], "agents": [agent], **settings})
    if len(experiment.runs) > 1:
        condition = "be one agent in one environment to watch, without a grid"
        labels = [run.agent.label for run in experiment.runs]
        raise ValueError(message("agent", condition, labels))
    return experiment.runs[0]


def watch(run: Run) -> Iterator[Frame]:
    """Play one episode, that of `rollout` at one lane with the run's seed, and yield its frames.

    There are at most 200 frames, evenly spaced in log t, that of the horizon among them.

    Args:
        run: agent, environment, horizon and seed; of one lane.

    Raises:
        TypeError, ValueError: if agent and environment cannot be built or do not fit each other.
    """
    check_seed("seed", run.seed)
    agent, env = make_agent_and_environment(run)
    problem: Any = find_problem(env)
    seed = SeedSequence(run.seed, spawn_key=(AGENT_STREAM,))
    record, regret, cells = PlayRecord(1, problem.num_arms), 0.0, None
    played = islice(play_steps(agent, env, env_seed=run.seed, agent_seed=seed), run.horizon)
    with contextlib.closing(env):
        for number, step in enumerate(played, start=1):
            record.add(step.actions, step.rewards)
            regret += np.nan if step.regrets is None else float(step.regrets[0])
            if number in run.steps:
                shown = (step.observation,) if isinstance(problem, ContextualProblem) else ()
                status = f"step {number:,} of {run.horizon:,}, arm {step.actions[0]}"
                status += "" if np.isnan(regret) else f", regret {regret:,.1f}"
                title = run.environment.label, run.agent.label, status
                means, posterior = find_means(step, env), ask_posterior(agent, *shown)
                settings = {"posterior": posterior, "before": cells}
                frame = make_frame(title, problem.likelihood, means, record, **settings)
                cells = frame.cells
                yield frame


def find_means(step: Step, env: Any) -> FloatArray | None:
    """Return the (K,) true means that a step was played on; where they move, `env` has them."""
    means = getattr(env.unwrapped, "played_means", None) if step.means is None else step.means
    return None if means is None else np.array(means[0])


def ask_posterior(agent: Any, *shown: Any) -> Any:
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


# -- Pictures --------------------------------------------------------------------------------------


def show_on_terminal(frames: Iterable[Frame], fps: float) -> Iterator[Frame]:
    """Show frames on the standard output as they come, no more than `fps` a second; yield each.

    On a terminal each is in the place of the one before; elsewhere the last one is printed alone.
    """
    is_terminal = sys.stdout.isatty()
    console = Console(
        file=sys.stdout, highlight=False, markup=False, emoji=False, force_terminal=is_terminal
    )
    num_rows = console.height if console.is_interactive else MAX_ROWS
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        for frame in frames:
            page = lay_out_frame(frame, console.width, num_rows - NUM_OTHER_ROWS)
            live.update(page, refresh=True)
            if console.is_interactive:
                time.sleep(1 / fps)
            yield frame
    if not console.is_terminal:
        console.line()


def lay_out_frame(frame: Frame, width: int, num_arms: int) -> Group:
    """Write a frame in lines of so many letters, with a row for each of so many arms."""
    arms = select_most_pulled(frame.pulls, frame.best_arm, max(MIN_ARMS, num_arms))
    true = "" if frame.means is None else f"; {PLACE} true mean, * best arm"
    key = Text(f"{frame.source}{true}; < pulled last", style="dim")
    *names, status = frame.title
    return Group(
        *map(Text, names), Text(status, style="bold"), *_write_arm_rows(frame, arms, width), key
    )


def _write_arm_rows(frame: Frame, arms: IntArray, width: int) -> Iterator[Text]:
    """Yield the scale of means and a row for each arm; say how many are left out."""
    numbers = [f"{value:.3g}" if np.isfinite(value) else "-" for value in frame.centre[arms]]
    pulls = [f"{count:,}" for count in frame.pulls[arms]]
    columns = pd.DataFrame({"arm": arms, "pulls": pulls, "mean": numbers})
    head, *left = columns.to_string(index=False).splitlines()
    strip = max(1, width - len(head) - 4)
    low, high = (f"{end:.3g}" for end in frame.cells)
    yield Text(
        f"{head}    {low}{high.rjust(strip - len(low))}", "dim", no_wrap=True, overflow="crop"
    )
    for arm, words in zip(arms.tolist(), left, strict=True):
        marks = ("*" if arm == frame.best_arm else " ") + ("<" if arm == frame.action else " ")
        row = Text(f"{words}{marks}  ", no_wrap=True, overflow="crop")
        row.stylize(BEST if arm == frame.best_arm else "")
        row.stylize(LAST if arm == frame.action else "")
        row.append(_draw_strip(frame, arm, strip), "cyan").highlight_words([PLACE], TRUE)
        yield row
    left_out = len(frame.pulls) - len(arms)
    if left_out:
        yield Text(f"and {left_out:,} arms pulled less", style="dim")


def _draw_strip(frame: Frame, arm: int, width: int) -> str:
    """Draw an arm's heights in so many letters, and a sign in the place of its true mean."""
    heights = frame.heights[arm]
    starts = np.linspace(0, len(heights), width + 1)[:-1].astype(int)
    levels = np.rint(np.maximum.reduceat(heights, starts) * (len(HEIGHTS) - 1)).astype(int)
    letters = [HEIGHTS[level] for level in levels]
    if frame.means is not None:
        low, high = frame.cells
        column = int((frame.means[arm] - low) / (high - low) * width)
        letters[min(width - 1, max(0, column))] = PLACE
    return "".join(letters).rstrip()


def write_gif(path: Path, frames: Iterable[Frame], fps: float) -> None:
    """Write frames as a GIF, which is there when all is done."""
    first, *others = map(draw_image, frames)
    pace = {"duration": round(1000 / fps), "loop": 0}
    with replacing(path, is_typed=True) as file:
        first.save(file, "GIF", save_all=True, append_images=others, **pace)


def draw_image(frame: Frame) -> Image.Image:
    """Return a frame as a picture of few colours, which makes small files."""
    return Image.fromarray(render_picture(frame, fit_title(frame))).quantize()


def fit_title(frame: Frame) -> str:
    """Return a frame's title in lines that fit into a picture."""
    return "\n".join(wrap_text(line, TITLE_WIDTH) for line in frame.title)


# -- In a notebook -------------------------------------------------------------------------------

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
    run = make_run("random", env, horizon, seed=0)
    lanes: Any = make_environment(run.environment, run.block_size, run.horizon)
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
        record.add(actions, rewards, info["regret"])
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
