"""Studies that several tests look at: each command is carried out once a test run.

The processes of a test run share what it printed and the files that it left.
"""

import contextlib
import hashlib
import io
import shlex
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import benchmark
import pytest
from benchmarks.timing import Effort

TINY = Effort("tiny", seconds=0.0, repeats=1, length_scale=0.001, width_scale=0.01)


class CommandResult(NamedTuple):
    """What a command printed, and the folder that it ran in."""

    printed: str
    folder: Path


def run_study(command, shared):
    """Carry out a command of `scripts/`, unless this run of the tests has done so.

    Args:
        command: as on a page, "python scripts/NAME.py ...".
        shared: a folder of this test run.

    Raises:
        AssertionError: if the command fails.
    """
    folder = shared / hashlib.sha256(command.encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    with hold_lock(folder / "lock"):
        if not (folder / "printed").exists():
            with contextlib.chdir(folder):
                printed = run_script(command)
            (folder / "printed").write_text(printed, encoding="utf-8")
    return CommandResult((folder / "printed").read_text(encoding="utf-8"), folder)


@contextlib.contextmanager
def hold_lock(lock):
    """Wait until nobody else holds a lock, and hold it; on Windows the work may be done twice."""
    with open(lock, "w", encoding="utf-8") as file:
        with contextlib.suppress(ImportError):
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def run_script(command):
    """Carry out a command of `scripts/` in this process, which spares it the imports.

    Returns:
        what it printed.

    Raises:
        AssertionError: if it fails.
    """
    _, script, *arguments = shlex.split(command)
    name, printed = Path(script).stem, io.StringIO()
    with contextlib.redirect_stdout(printed):
        main = run_benchmark if name == "benchmark" else import_module(name).main
        code = main(arguments)
    assert code == 0, f"{command}: {printed.getvalue()}"
    return printed.getvalue()


def run_benchmark(arguments):
    """Run `scripts/benchmark.py` with the least effort, on worlds that are not warm."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchmarks.runs.WORTH_COMPILING", 0)
        return benchmark.main(arguments, TINY)
