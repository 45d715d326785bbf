"""An experiment of seconds, its undisturbed results, and the judgement of disturbed ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bandit_gym.experiments import Experiment, Workers, run_experiment
from bandit_gym.results import load_results

ROOT = Path(__file__).resolve().parents[2]
SERIAL = Workers("serial")
SETTINGS: dict[str, Any] = {
    "environments": ["BernoulliBandit-v0"],
    "horizon": 100,
    "block_size": 4,
}
CARELESS = '''"""An agent that raises, so that there are files of failures to damage."""

import numpy as np


class Careless:
    def __init__(self, problem):
        pass

    def reset(self, num_envs=None, seed=None):
        self.num_envs, self.step = num_envs, 0

    def act(self, observation=None):
        self.step += 1
        if self.step > 50:
            raise RuntimeError("I have had enough")
        return np.zeros(self.num_envs, dtype=int)

    def observe(self, action, reward, mask=None):
        pass
'''

Blocks = dict[Path, bytes]


@dataclass(frozen=True)
class Trial:
    """An experiment and what it comes to when nothing happens.

    Attributes:
        file: its settings.
        experiment: the same, read.
        folder: its undisturbed results.
        truth: their blocks.
    """

    file: Path
    experiment: Experiment
    folder: Path
    truth: Blocks

    def start(self, out: Path, **options: Any) -> subprocess.Popen[bytes]:
        """Start the command that runs the experiment in a process of its own, with two workers."""
        command = ["run", str(self.file), "--out", str(out), "--workers", "2"]
        settings = {"PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(self.file.parent / "state")}
        return subprocess.Popen(
            [sys.executable, "-m", "bandit_gym", *command],
            env=os.environ | settings,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **options,
        )

    def judge(self, out: Path) -> str:
        """Look at what a folder is believed to hold, go on with it, and say how it ends."""
        if not out.exists():
            return self._go_on(out)
        try:
            believed = read_believed(out)
        except ValueError:  # its settings are damaged
            believed = {}
        except FileExistsError:  # or were never written
            believed = {}
        if not believed.items() <= self.truth.items():
            return "WRONG: other numbers are believed"
        return self._go_on(out)

    def _go_on(self, out: Path) -> str:
        try:
            run_experiment(self.experiment, out, workers=SERIAL)
        except (ValueError, OSError) as error:
            assert str(error).count("\n") == 0
            return "refused in one sentence"
        return "same bytes" if read_believed(out) == self.truth else "WRONG: other numbers"


def make_trial(folder: Path, *, replications: int, is_careless: bool = False) -> Trial:
    """Write an experiment down and run it undisturbed, in this process."""
    folder.mkdir(parents=True)
    agents = ["random", "ucb1"]
    if is_careless:
        (folder / "careless.py").write_text(CARELESS)
        sys.path.append(str(folder))
        agents.append("careless:Careless")
    settings = SETTINGS | {"agents": agents, "replications": replications}
    file, out = folder / "settings.json", folder / "undisturbed"
    file.write_text(json.dumps(settings))
    experiment = Experiment.from_dict(settings)
    run_experiment(experiment, out, workers=SERIAL)
    return Trial(file, experiment, out, read_believed(out))


def read_believed(folder: Path) -> Blocks:
    """Return the bytes of the blocks that a folder is believed to hold."""
    blocks = Path("blocks")
    paths = {
        blocks / found.run.name / f"{block.replications.start // found.run.block_size:05d}.parquet"
        for found in load_results(folder).runs
        for block in found.blocks
    }
    return {path: (folder / path).read_bytes() for path in paths}
