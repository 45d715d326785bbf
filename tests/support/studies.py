"""Studies that several tests look at: each command is carried out once a test run.

The processes of a test run share what it printed and the files that it left.
"""

import contextlib
import hashlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from documents import ROOT

SMALL = "--scale 0.0005 --workers 1"


class Done(NamedTuple):
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
    with held(folder / "lock"):
        if not (folder / "printed").exists():
            (folder / "printed").write_text(_printed(command, folder), encoding="utf-8")
    return Done((folder / "printed").read_text(encoding="utf-8"), folder)


def sections_with_verdicts(page):
    """Return the titles of a study's sections, and those that its table of verdicts speaks of."""
    text = page.read_text(encoding="utf-8")
    titles = [title.partition(":")[0] for title in re.findall(r"^## (.*)$", text, re.M)]
    words = "holds|holds in part|does not hold|undecided"
    judged = re.findall(rf"^\| (.*?) \| .* \| \*\*(?:{words})\*\* \|", text, re.M)
    return set(titles) - {"Verdicts"}, set(judged)


@contextlib.contextmanager
def held(lock):
    """Wait until nobody else holds a lock, and hold it; on Windows the work may be done twice."""
    with open(lock, "w", encoding="utf-8") as file:
        with contextlib.suppress(ImportError):
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _printed(command, folder):
    _, script, *arguments = shlex.split(command)
    done = subprocess.run(
        [sys.executable, str(ROOT / script), *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert done.returncode == 0, f"{command}: {done.stdout} {done.stderr}"
    return done.stdout
