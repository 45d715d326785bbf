"""Callbacks hear of the run, and neither change nor lose it."""

import os

import numpy as np
import pytest
from surface import SERIAL, files_of

from bandit_gym.callbacks import Callback
from bandit_gym.experiments import Experiment, Workers, run_experiment

AGENTS = ["random", "stub_agents:Constant"]
EXPERIMENT = Experiment(["BernoulliBandit-v0"], AGENTS, replications=6, horizon=20, block_size=2)


class Listener(Callback):
    """Notes what it is told, in which process, and draws from the global generator."""

    def __init__(self):
        self.calls = []

    def on_start(self, experiment, directory):
        self.calls.append(("start", experiment, directory, os.getpid()))

    def on_block(self, outcome):
        np.random.random(7)  # noqa: NPY002
        self.calls.append(("block", outcome.run, outcome.block, os.getpid()))

    def on_end(self, experiment, directory):
        self.calls.append(("end", experiment, directory, os.getpid()))


@pytest.mark.parametrize("workers", [SERIAL, Workers("loky", 1)], ids=lambda w: w.backend)
def test_callbacks_are_told_here_and_change_no_number(tmp_path, workers):
    plain, folder, listener, silent = tmp_path / "plain", tmp_path / "told", Listener(), Callback()
    run_experiment(EXPERIMENT, plain, workers=SERIAL)
    run_experiment(EXPERIMENT, folder, workers=workers, callbacks=[listener, silent])
    assert files_of(folder) == files_of(plain)
    first, *blocks, last = listener.calls
    assert first == ("start", EXPERIMENT, folder, os.getpid())
    assert last == ("end", EXPERIMENT, folder, os.getpid())
    calls = [(run.name, block, process) for _, run, block, process in blocks]
    expected = [(run.name, block, os.getpid()) for run in EXPERIMENT.runs for block in range(3)]
    assert sorted(calls) == sorted(expected)


def test_callback_that_raises_ends_the_run_and_all_are_told_of_the_end(tmp_path):
    class Failing(Callback):
        def on_block(self, outcome):
            raise OSError("no room")

    listener = Listener()
    with pytest.raises(OSError, match="no room"):
        run_experiment(EXPERIMENT, tmp_path, workers=SERIAL, callbacks=[Failing(), listener])
    assert [each[0] for each in listener.calls] == ["start", "end"]
    assert len(files_of(tmp_path)) == 1
