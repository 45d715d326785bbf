"""Frames as an animation in a file, by matplotlib's writers: Pillow's for GIF, ffmpeg for MP4."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from matplotlib.animation import FFMpegWriter, PillowWriter
from matplotlib.figure import Figure

from bandit_gym.checks import message
from bandit_gym.files import replacing
from bandit_gym.watching.frames import Frame
from bandit_gym.watching.picture import draw

SIZE, DPI = (8.0, 5.6), 100
"""Inches, and dots in each; both sides are even in dots, as films want them."""

WRITERS: dict[str, Any] = {"gif": PillowWriter, "mp4": FFMpegWriter}


@contextlib.contextmanager
def filming(kind: str, path: Path, fps: float) -> Iterator[Callable[[Frame], None]]:
    """Give a function that adds a frame to a file, which is there when all is done.

    Args:
        kind: "gif" or "mp4".
        path: of the file.
        fps: frames per second.

    Raises:
        ValueError: if a film is asked for where there is no ffmpeg.
        OSError: if ffmpeg does not write it.
    """
    if not WRITERS[kind].isAvailable():
        remedy = "install it (as with apt-get install ffmpeg), or write --gif"
        raise ValueError(message(f"--{kind}", "have ffmpeg to write it", str(path), remedy))
    figure, writer = Figure(figsize=SIZE, dpi=DPI), WRITERS[kind](fps=fps)
    with tempfile.TemporaryDirectory() as folder:
        part = Path(folder) / f"film.{kind}"
        writer.setup(figure, part, DPI)

        def add(frame: Frame) -> None:
            draw(figure, frame)
            writer.grab_frame()

        try:
            yield add
            writer.finish()
        except (BrokenPipeError, subprocess.CalledProcessError) as error:
            raise OSError(f"ffmpeg must be able to write MP4, got: {error}") from error
        except BaseException:
            _stop(writer)
            raise
        with open(part, "rb") as made, replacing(path, is_typed=True) as file:
            shutil.copyfileobj(made, file)


def _stop(writer: PillowWriter | FFMpegWriter) -> None:
    """Let a film end before it is done; without this ffmpeg would wait for more."""
    if isinstance(writer, FFMpegWriter):
        with contextlib.suppress(subprocess.CalledProcessError, OSError):
            writer.finish()
