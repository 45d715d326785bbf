"""How a run ends before it is done: at a signal as at Ctrl-C, and its workers with it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

ASK_TO_STOP = ("SIGTERM", "SIGHUP")
"""Signals by which a system asks a process to stop, if it knows them; Ctrl-C is Python's own."""

PR_SET_PDEATHSIG = 1


class Stopped(KeyboardInterrupt):
    """A signal asked this process to stop.

    Attributes:
        exit_code: what a shell would say of a process that the signal had ended.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.exit_code = 128 + number


@contextlib.contextmanager
def stopping_in_order() -> Iterator[None]:
    """Raise `Stopped` at signals that would end this process without a word.

    One that is handled or ignored already, as by nohup, stays so.
    """
    with keeping_handlers():
        for number, handler in _handlers().items():
            if handler is signal.SIG_DFL:
                signal.signal(number, _stop)
        yield


@contextlib.contextmanager
def keeping_handlers() -> Iterator[None]:
    """Put back what is done at these signals, whatever others have set meanwhile."""
    before = _handlers()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _handlers() -> dict[int, Any]:
    """Return what is done at each of these signals; {} where that cannot be changed."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    known = (getattr(signal, name) for name in ASK_TO_STOP if hasattr(signal, name))
    handlers = {number: signal.getsignal(number) for number in known}
    return {number: handler for number, handler in handlers.items() if handler is not None}


def _stop(number: int, frame: Any) -> None:
    raise Stopped(number)


def end_with_parent(parent: int | None = None) -> None:
    """Let this process be killed when its parent ends, however that happens and whatever it does.

    Only Linux does this, at the end of the thread that started the process; elsewhere a worker
    ends when it has finished its block and finds nobody to take it.

    Args:
        parent: the process to end with, if that may have ended by now.
    """
    if sys.platform == "linux":
        import ctypes  # which the command itself need not wait for

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if parent is not None and os.getppid() != parent:
            os._exit(1)
