"""Making bad calls in processes of their own, so that none can hang or end the others."""

from __future__ import annotations

import contextlib
import io
import os
import resource
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from calls import harness, known, learners, sessions, trained, worlds, wrapped
from calls.edges import Call, bad_calls
from calls.judge import ACCEPTED, HANG, judge

PATIENCE = 60.0
"""Seconds for a call; the first of a process, which imports everything, has `START`."""
START = 60.0
MEMORY = 48 * 2**30
"""Bytes of addresses a process may have; beyond them there is a MemoryError."""

TINY = 'environments = ["BernoulliBandit-v0"]\nagents = ["random"]\nreplications = 2\nhorizon = 3\n'


class Outcome(NamedTuple):
    """How a call ended.

    Attributes:
        number: of the call.
        verdict: of `judge`, or that it was accepted or hung.
        reason: what is not clear.
        text: what was raised.
    """

    number: int
    verdict: str
    reason: str = ""
    text: str = ""


@cache
def all_calls() -> tuple[Call, ...]:
    """Return every bad call, in the same order in each process."""
    has_sb3 = find_spec("stable_baselines3") is not None  # an extra
    rooms = [worlds, wrapped, learners, known, sessions, harness, *([trained] if has_sb3 else [])]
    return tuple(bad_calls([edge for room in rooms for edge in room.edges()]))


def make_all(numbers: Sequence[int], patience: float = PATIENCE) -> Iterator[Outcome]:
    """Make calls by number, one after the other, and yield how each ended."""
    waiting = list(numbers)
    while waiting:
        with _worker(waiting) as (connection, process):
            for position, number in enumerate(list(waiting)):
                outcome = _receive(connection, patience if position else START)
                waiting.remove(number)
                yield outcome or Outcome(number, HANG, "died" if not process.is_alive() else "slow")
                if outcome is None:
                    break


@contextlib.contextmanager
def _worker(numbers: Sequence[int]) -> Iterator[tuple[Connection, Any]]:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, list(numbers)), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours, process
    finally:
        process.kill()
        process.join()


def _receive(connection: Connection, seconds: float) -> Outcome | None:
    """Return the next outcome; None if none comes in time, or no more can come."""
    try:
        return connection.recv() if connection.poll(seconds) else None
    except EOFError:
        return None


def _work(connection: Connection, numbers: list[int]) -> None:
    """Make the calls; everything that they print is thrown away."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp()
    warnings.simplefilter("ignore")
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    calls = all_calls()
    template = Path(tempfile.mkdtemp())
    _furnish(template)
    for number in numbers:
        connection.send(make(calls[number], number, template))
    connection.close()


def make(call: Call, number: int, template: Path) -> Outcome:
    """Make one call in a folder of its own."""
    folder = tempfile.mkdtemp()
    shutil.copytree(template, folder, symlinks=True, dirs_exist_ok=True)
    home = os.getcwd()
    os.chdir(folder)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            call.edge.call(**{call.argument: call.value})
    except BaseException as error:
        return Outcome(number, *judge(call, error), f"{type(error).__name__}: {error}"[:1000])
    finally:
        os.chdir(home)
        shutil.rmtree(folder, ignore_errors=True)
    return Outcome(number, ACCEPTED)


def _furnish(folder: Path) -> None:
    """Make the files and folders that bad paths lead to."""
    (folder / "foreign").mkdir()
    (folder / "foreign" / "photo.jpg").write_bytes(b"\xff\xd8")
    (folder / "text.py").write_text("x = 1\n")
    (folder / "bytes.json").write_bytes(b"\xff\xfe\x00")
    (folder / "torn.json").write_text('{"environments": [')
    (folder / "empty.toml").touch()
    (folder / "tiny.toml").write_text(TINY)
    (folder / "dangling").symlink_to("nowhere/at/all")
    (folder / "device").symlink_to("/dev/null")  # itself might be replaced by a careless writer
    harness.run_experiment(harness.tiny(), folder / harness.STORED, workers=harness.SERIAL)
    known.save_agent(folder / known.SAVED)
    with contextlib.suppress(ImportError):
        trained.make_model().save(folder / trained.SAVED)
