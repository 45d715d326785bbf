import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from bandit_gym.experiments import ending
from bandit_gym.experiments.ending import Stopped, keeping_handlers, stopping_in_order

SUPPORT = Path(__file__).parents[2] / "support"
SECONDS = 60
"""That a worker would compute on for, if it were left to."""


def start(folder, backend):
    """Start a run whose two workers are in the midst of a block; return it and their processes."""
    at_work = folder / "at-work"
    at_work.mkdir()
    agent = {"agent": "stub_agents:Absorbed", "folder": str(at_work), "seconds": SECONDS}
    file = folder / "experiment.json"
    settings = {"replications": 8, "horizon": 60, "block_size": 4}
    worlds = {"environments": ["BernoulliBandit-v0"], "agents": [agent]}
    file.write_text(json.dumps(worlds | settings))
    command = ["run", str(file), "--backend", backend, "--workers", "2", "--out", folder / "out"]
    process = subprocess.Popen(
        [sys.executable, "-m", "bandit_gym", *command],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([*sys.path, str(SUPPORT)])},
        stderr=subprocess.PIPE,
        text=True,
    )
    while len(list(at_work.iterdir())) < 2 and process.poll() is None:
        time.sleep(0.02)
    return process, [int(path.name) for path in at_work.iterdir()]


def is_at_work(process):
    try:
        return bool(Path(f"/proc/{process}/cmdline").read_bytes())  # empty of one that has ended
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux sends a signal at a parent's death")
@pytest.mark.parametrize(
    ("number", "code", "backend"),
    [
        (signal.SIGTERM, 143, "loky"),
        pytest.param(signal.SIGKILL, -signal.SIGKILL, "loky", marks=pytest.mark.slow),
        pytest.param(signal.SIGKILL, -signal.SIGKILL, "dask", marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, 143, "dask", marks=pytest.mark.slow),
    ],
)
def test_workers_end_with_their_parent_in_the_midst_of_a_compiled_loop(
    tmp_path, number, code, backend
):
    if backend == "dask":
        pytest.importorskip("distributed")
    process, workers = start(tmp_path, backend)
    assert len(workers) == 2
    begin = time.monotonic()
    process.send_signal(number)
    assert process.wait() == code
    while any(map(is_at_work, workers)) and time.monotonic() < begin + SECONDS / 2:
        time.sleep(0.02)
    assert [worker for worker in workers if is_at_work(worker)] == []
    if code > 0:
        assert f"stopped by {number.name}" in process.stderr.read()


@pytest.fixture
def unheard():
    """No signal to stop is ignored, as it is where `nohup` runs the tests."""
    numbers = signal.SIGTERM, signal.SIGHUP
    before = [signal.signal(number, signal.SIG_DFL) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("unheard")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_stop_is_an_interrupt_with_an_exit_code_of_its_own(number):
    with pytest.raises(KeyboardInterrupt) as caught, stopping_in_order():
        signal.raise_signal(number)
    assert isinstance(caught.value, Stopped)
    assert caught.value.exit_code == 128 + number
    assert str(caught.value) == f"stopped by {number.name}"


@pytest.mark.usefixtures("unheard")
def test_what_is_done_at_a_signal_is_put_back():
    before = signal.getsignal(signal.SIGTERM)
    with stopping_in_order():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_that_is_ignored_stays_so():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with stopping_in_order():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_signal_that_somebody_handles_is_left_to_them():
    heard = []
    before = signal.signal(signal.SIGHUP, lambda number, frame: heard.append(number))
    try:
        with stopping_in_order():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert heard == [signal.SIGHUP]


def test_another_thread_than_the_main_one_leaves_signals_alone():
    def work():
        with stopping_in_order():
            seen.append(signal.getsignal(signal.SIGTERM))

    seen = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGTERM)]


def test_what_others_set_meanwhile_does_not_last():
    with stopping_in_order():
        ours = signal.getsignal(signal.SIGTERM)
        with keeping_handlers():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        assert signal.getsignal(signal.SIGTERM) is ours


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it does nothing")
def test_a_worker_whose_parent_has_ended_already_ends_at_once():
    code = f"from {ending.__name__} import end_with_parent; end_with_parent(1); print('on')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
    )
    assert (done.returncode, done.stdout) == (1, b"")
