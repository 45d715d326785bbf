"""The command that shows a run as it goes.

Nothing heavy is loaded before it is carried out: the parser of every command is made first.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bandit_gym.checks import check_file, check_real, message
from bandit_gym.experiments.command_line import parse_agent, parse_environment, take_world
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.experiments.provenance import HERE, importing_from
from bandit_gym.experiments.simulation import headline
from bandit_gym.results.commands import FAILED, OK

if TYPE_CHECKING:
    from bandit_gym.experiments import Run

MOST_FPS = 50
"""Frames a second; players show a GIF that asks for more at a tenth of its speed."""


def watch(options: argparse.Namespace) -> int:
    """Show a run on the terminal as it goes, and film it where that is asked for."""
    from bandit_gym.watching import showing

    fps = check_real("fps", options.fps, above=0, maximum=MOST_FPS)
    path = None if options.gif is None else check_file("gif", options.gif)
    with importing_from(HERE):
        run = _read_run(options)
        try:
            with contextlib.ExitStack() as stack:
                painters = [stack.enter_context(showing.on_terminal(fps))]
                if path is not None:
                    painters.append(stack.enter_context(showing.filming(path, fps)))
                for frame in showing.watch(run):
                    for paint in painters:
                        paint(frame)
        except (ValueError, TypeError, ImportError, OSError):
            raise
        except (Exception, SystemExit) as error:  # of the agent or the world
            if options.traceback:
                raise
            names = f"{run.agent.label} failed in {run.environment.label}"
            print(f"bandit-gym: {names}: {headline(error)}", file=sys.stderr)
            return FAILED
    if path is not None:
        print(f"Animation: {path}")
    return OK


def _read_run(options: argparse.Namespace) -> Run:
    """Return the run that was typed, of one agent in one world and one lane."""
    experiment = Experiment.from_dict(
        {
            "environments": [parse_environment(options.env, options.env_options)],
            "agents": [parse_agent(options.agent)],
            "horizon": options.horizon,
            "seed": options.seed,
            "block_size": 1,
        }
    )
    if len(experiment.runs) > 1:
        condition = "be one agent in one world to watch, without a grid"
        labels = [run.agent.label for run in experiment.runs]
        raise ValueError(message("--agent", condition, labels))
    return experiment.runs[0]


def _take_watched(parser: argparse.ArgumentParser) -> None:
    take_world(parser)
    text = "who plays; default: %(default)s"
    form = "NAME[:OPTION=VALUE,...]"
    parser.add_argument("--agent", default="racing", metavar=form, help=text)
    text = "frames a second, at most; default: %(default)s"
    parser.add_argument("--fps", type=float, default=10.0, help=text)
    parser.add_argument("--gif", metavar="FILE", help="write an animation")


COMMANDS: dict[Callable[[argparse.Namespace], int], tuple[Any, ...]] = {
    watch: ("show what an agent knows, pulls and loses, as it plays", _take_watched),
}
"""The command, what it does, and which arguments it takes."""
