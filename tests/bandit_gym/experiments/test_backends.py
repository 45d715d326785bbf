import socket
from contextlib import ExitStack

import pytest

from bandit_gym.experiments.backends import Workers, connect


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
