"""Scripts, carried out in this process."""

import contextlib
import io
import shlex
from importlib import import_module
from pathlib import Path

import benchmark
import pytest
from benchmarks.timing import Effort

TINY = Effort("tiny", seconds=0.0, repeats=1, length_scale=0.001, width_scale=0.01)


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
