"""Studies that several tests look at: each command is carried out once a test run.

The processes of a test run share what it printed and the files that it left.
"""

import contextlib
import hashlib
import io
import shlex
from importlib import import_module
from pathlib import Path

import benchmark
import pytest
from benchmarks.timing import Effort
from filelock import FileLock

TINY = Effort("tiny", seconds=0.0, repeats=1, length_scale=0.001, width_scale=0.01)


def run_study(command, shared):
    """Carry out a command of `scripts/`, unless this run of the tests has done so.

    Returns:
        the folder that it ran in, where a file `printed` has what it printed.

    Args:
        command: as on a page, "python scripts/NAME.py ...".
        shared: a folder of this test run.

    Raises:
        AssertionError: if the command fails.
    """
    folder = shared / hashlib.sha256(command.encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "lock"):
        if not (folder / "printed").exists():
            with contextlib.chdir(folder):
                printed = run_script(command)
            (folder / "printed").write_text(printed, encoding="utf-8")
    return folder


def run_script(command):
    """Carry out a command of `scripts/`, and return what it prints."""
    _, script, *arguments = shlex.split(command)
    name = Path(script).stem
    main = run_benchmark if name == "benchmark" else import_module(name).main
    return run_in_process(main, arguments)


def run_in_process(main, arguments):
    """Carry out a command in this process, which spares it the imports; return what it prints.

    Raises:
        AssertionError: if it fails.
    """
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = main(arguments)
    assert code == 0, f"{arguments}: {printed.getvalue()}"
    return printed.getvalue()


def run_benchmark(arguments):
    """Run `scripts/benchmark.py` with the least effort, on worlds that are not warm."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchmarks.runs.WORTH_COMPILING", 0)
        return benchmark.main(arguments, TINY)
