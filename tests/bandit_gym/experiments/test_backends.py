import logging
import os
import signal
import socket
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from bandit_gym.experiments import backends
from bandit_gym.experiments.backends import Workers, connect
from bandit_gym.experiments.ending import end_with_parent


def test_an_unreachable_scheduler_is_one_clear_error():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # taken, but nobody listens
        address = f"tcp://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(ConnectionError, match="scheduler must be reachable, got 'tcp://"):
            connect(Workers("dask", None, address), ExitStack())


def test_a_listener_that_is_no_scheduler_is_one_clear_error(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("bandit_gym.experiments.backends.SCHEDULER_TIMEOUT", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ConnectionError, match="scheduler must be reachable, got 'tcp://"):
            connect(Workers("dask", None, address), ExitStack())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("threads",), "backend must be one of 'loky', 'serial', 'dask', 'ray', got 'threads'"),
        (("loky", 0), "num_workers must be a positive integer, got 0"),
        (("loky", 2, "tcp://host:1"), "scheduler must be None for the backend 'loky'"),
        (("dask", 2, "nonsense"), "scheduler must be an address like tcp://host:8786, got 'nons"),
    ],
)
def test_workers_refuse_bad_values(arguments, message):
    with pytest.raises(ValueError, match=message):
        Workers(*arguments)


class Opened:
    """A cluster or a client that notes how it was made, and whether it is still open."""

    def __init__(self, *arguments, **options):
        self.made_with, self.is_open = arguments or options, False

    def __enter__(self):
        self.is_open = True
        return self

    def __exit__(self, *error):
        self.is_open = False


@pytest.fixture
def dask(monkeypatch):
    """A stand-in for Dask with three workers of 2, 1 and 1 threads; what was opened of it."""
    opened = []

    class Client(Opened):
        threads = {"a": 2, "b": 1, "c": 1}

        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            opened.append(self)

        def nthreads(self):
            return self.threads

        def run(self, function):
            self.runs = function

    class LocalCluster(Opened):
        def __init__(self, **options):
            super().__init__(**options)
            opened.append(self)

    config = SimpleNamespace(set=lambda options: ExitStack())
    fake = SimpleNamespace(Client=Client, LocalCluster=LocalCluster, config=config)
    monkeypatch.setattr(backends, "_import", lambda module, extra: fake)
    return SimpleNamespace(opened=opened, client=Client)


@pytest.mark.parametrize(("num_workers", "num_jobs"), [(None, 4), (3, 3)])
def test_dask_here_has_one_process_a_worker_and_closes_what_it_opened(dask, num_workers, num_jobs):
    with ExitStack() as stack:
        assert connect(Workers("dask", num_workers), stack) == num_jobs
        cluster, client = dask.opened
        assert cluster.made_with == {
            "n_workers": num_workers or backends.joblib.cpu_count(),
            "threads_per_worker": 1,
            "dashboard_address": None,
            "silence_logs": logging.CRITICAL,
        }
        assert client.runs is end_with_parent
        assert client.made_with == (cluster,)
        assert cluster.is_open
        assert client.is_open
    assert not cluster.is_open
    assert not client.is_open


def test_dask_here_kills_its_workers_where_a_run_is_stopped(dask, monkeypatch):
    killed = []
    monkeypatch.setattr("os.kill", lambda *arguments: killed.append(arguments))
    nanny = SimpleNamespace(pid=12345, auto_restart=True)
    with pytest.raises(KeyboardInterrupt), ExitStack() as stack:
        connect(Workers("dask", 1), stack)
        dask.opened[0].workers = {0: nanny}
        raise KeyboardInterrupt
    assert killed == [(12345, signal.SIGKILL)]
    assert not nanny.auto_restart


def test_dask_elsewhere_has_as_many_jobs_as_its_workers_have_threads(dask):
    with socket.create_server(("127.0.0.1", 0)) as server, ExitStack() as stack:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        assert connect(Workers("dask", scheduler=address), stack) == 4
        (client,) = dask.opened
        assert client.made_with == (address,)


def test_a_scheduler_without_workers_is_refused(dask):
    dask.client.threads = {}
    with socket.create_server(("127.0.0.1", 0)) as server, ExitStack() as stack:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ConnectionError, match=f"must have workers, got none at '{address}'"):
            connect(Workers("dask", scheduler=address), stack)


@pytest.fixture
def ray(monkeypatch):
    """A stand-in for Ray with six cores; what was asked of it."""
    asked = []
    fake = SimpleNamespace(
        init=lambda *address, **options: asked.append(address or options),
        shutdown=lambda: asked.append("shutdown"),
        cluster_resources=lambda: {"CPU": 6.0},
    )
    monkeypatch.setattr(backends, "_import", lambda module, extra: fake)
    joblib_side = SimpleNamespace(register_ray=lambda: asked.append("registered"))
    monkeypatch.setattr(backends, "import_module", {"ray.util.joblib": joblib_side}.__getitem__)
    monkeypatch.setattr(
        backends.joblib, "parallel_config", lambda **told: asked.append(told) or ExitStack()
    )
    monkeypatch.setenv("RAY_AUTH_MODE", "theirs")
    return asked


@pytest.mark.parametrize(("num_workers", "num_jobs"), [(None, 6), (2, 2)])
def test_ray_here_is_told_its_cores_and_shut_down(ray, num_workers, num_jobs):
    with ExitStack() as stack:
        assert connect(Workers("ray", num_workers), stack) == num_jobs
        assert "shutdown" not in ray
    num_cpus = num_workers or backends.joblib.cpu_count()
    assert ray == [
        {"num_cpus": num_cpus, "include_dashboard": False, "log_to_driver": False},
        "registered",
        {"backend": "ray", "n_jobs": num_jobs},
        "shutdown",
    ]


def test_ray_elsewhere_is_reached_by_its_address(ray):
    with socket.create_server(("127.0.0.1", 0)) as server, ExitStack() as stack:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert connect(Workers("ray", scheduler=address), stack) == 6
    assert ray[0] == (address,)


@pytest.mark.parametrize(("num_workers", "num_jobs"), [(None, 7), (2, 2)])
def test_loky_takes_every_core_unless_told_otherwise(monkeypatch, num_workers, num_jobs):
    monkeypatch.setattr(backends.joblib, "cpu_count", lambda: 7)
    with ExitStack() as stack:
        assert connect(Workers("loky", num_workers), stack) == num_jobs


def test_this_process_alone_has_one_job():
    with ExitStack() as stack:
        assert connect(Workers("serial", 5), stack) == 1


def test_a_back_end_that_is_not_installed_says_how_to_get_it():
    with pytest.raises(
        ImportError, match=r'needs no_such: pip install "bayesian-bandit-gym\[ray\]'
    ):
        backends._import("no_such", "ray")


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("tcp://host:8786", ("host", 8786)),
        ("host:6379", ("host", 6379)),
        ("ray://10.0.0.1:10001", ("10.0.0.1", 10001)),
    ],
)
def test_an_address_has_a_host_and_a_port(address, parts):
    assert backends._split_address(address) == parts


@pytest.mark.parametrize("address", ["host", "tcp://host", ":80", "host:port", "host:99999"])
def test_half_an_address_is_refused(address):
    with pytest.raises(ValueError, match="scheduler must be an address like tcp://host:8786"):
        Workers("ray", scheduler=address)


def test_one_worker_is_enough():
    assert Workers("loky", 1).num_workers == 1


def test_ten_thousand_workers_are_the_most():
    assert Workers("loky", 10_000).num_workers == 10_000
    with pytest.raises(ValueError, match="num_workers must be at most 10000, got 10001"):
        Workers("loky", 10_001)


@pytest.mark.parametrize("value", [None, "1"])
def test_workers_start_without_the_current_folder_and_then_have_the_environment_as_it_was(
    tmp_path, monkeypatch, value
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "joblib.py").write_text("raise SystemError('this is run')")
    monkeypatch.delenv(backends.SAFE_PATH, raising=False)
    if value is not None:
        monkeypatch.setenv(backends.SAFE_PATH, value)
    with ExitStack() as stack:
        connect(Workers("loky", 1), stack)
        look = backends.joblib.delayed(os.getenv)(backends.SAFE_PATH)
        assert backends.joblib.Parallel(n_jobs=2)([look]) == [value]
    assert os.environ.get(backends.SAFE_PATH) == value
