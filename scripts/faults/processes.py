"""Faults of processes and disks: kills and signals at random moments, full disks, two at once."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from faults.trial import Trial

PATIENCE = 5.0
"""Seconds in which workers must have ended with their parent."""

PAGE = 4096
Fault = Callable[[Trial, Path, np.random.Generator], str]
"""Does something to a run that is to fill a folder, and says what the run did."""


def stop(number: signal.Signals, trial: Trial, out: Path, rng: np.random.Generator) -> str:
    """Send a signal to the process that was started, at some moment of its work."""
    process = _wait_for_work(trial, out, rng)
    workers = find_workers(process.pid)
    process.send_signal(number)
    process.wait()
    return f"{_say(process)}; {_outlived(workers)}"


def kill_worker(trial: Trial, out: Path, rng: np.random.Generator) -> str:
    """Kill one of the workers."""
    process = _wait_for_work(trial, out, rng)
    workers = find_workers(process.pid)
    if workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(rng.choice(workers)), signal.SIGKILL)
    process.wait()
    return _say(process)


def run_two(trial: Trial, out: Path, rng: np.random.Generator) -> str:
    """Start a second run in the same folder, at about the same time."""
    first = trial.start(out)
    time.sleep(rng.uniform(0.0, 0.5))
    second = trial.start(out)
    codes = sorted((first.wait(), second.wait()))
    return f"exit codes {codes[0]} and {codes[1]}"


def fill_disk(trial: Trial, out: Path, rng: np.random.Generator) -> str:
    """Run on a disk in memory that has room for a part of the results, then move these."""
    size = sum(PAGE * -(-path.stat().st_size // PAGE) for path in trial.folder.rglob("*.*"))
    with _small_disk(
        out.with_name(f"{out.name}-disk"), round(rng.uniform(0.1, 0.9) * size)
    ) as disk:
        process = trial.start(disk / "out")
        process.wait()
        if (disk / "out").exists():
            shutil.copytree(disk / "out", out)
    return _say(process)


def limit_files(trial: Trial, out: Path, rng: np.random.Generator) -> str:
    """Run where no file may become as long as most blocks are."""
    longest = max(map(len, trial.truth.values()))
    limit = int(rng.uniform(0.1, 1.0) * longest)
    process = trial.start(
        out, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    )
    process.wait()
    return _say(process)


FAULTS: dict[str, Fault] = {
    "the process killed (SIGKILL)": partial(stop, signal.SIGKILL),
    "the process asked to stop (SIGTERM)": partial(stop, signal.SIGTERM),
    "its terminal closed (SIGHUP)": partial(stop, signal.SIGHUP),
    "a worker killed (SIGKILL)": kill_worker,
    "two runs at once": run_two,
    "disk full (a small tmpfs)": fill_disk,
    "files limited (`ulimit -f`)": limit_files,
}
"""What was done, in words, and by whom."""


def can_mount(folder: Path) -> bool:
    """Say whether this user may mount a disk in memory."""
    try:
        with _small_disk(folder, 10 * PAGE):
            return True
    except subprocess.CalledProcessError:
        return False


def find_workers(parent: int) -> list[int]:
    """Return the workers that a process has started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            status = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(status[1]) == parent and b"LokyProcess" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


def _wait_for_work(trial: Trial, out: Path, rng: np.random.Generator) -> subprocess.Popen[bytes]:
    """Start a run and wait for some number of blocks, and a moment more."""
    process = trial.start(out)
    num_blocks = rng.integers(len(trial.truth))
    while process.poll() is None and len(list(out.glob("receipts/*/*.json"))) < num_blocks:
        time.sleep(0.005)
    time.sleep(rng.uniform(0.0, 0.02))
    return process


def _outlived(workers: list[int]) -> str:
    end = time.monotonic() + PATIENCE
    while (left := list(filter(_is_at_work, workers))) and time.monotonic() < end:
        time.sleep(0.01)
    return f"{len(left)} WORKERS OUTLIVED IT" if left else "no worker outlived it"


def _is_at_work(process: int) -> bool:
    try:
        return bool(Path(f"/proc/{process}/cmdline").read_bytes())  # empty of one that has ended
    except OSError:
        return False


def _say(process: subprocess.Popen[bytes]) -> str:
    code = process.returncode
    return f"exit code {code}" if code >= 0 else f"ended by {signal.Signals(-code).name}"


@contextlib.contextmanager
def _small_disk(folder: Path, size: int) -> Iterator[Path]:
    folder.mkdir()
    try:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder],
            check=True,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield folder
        finally:
            subprocess.run(["umount", folder], check=True)
    finally:
        folder.rmdir()
