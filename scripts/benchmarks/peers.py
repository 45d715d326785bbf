"""Other people's libraries, each in a virtual environment and a process of its own.

Their pins clash with ours and with one another's. A worker (`workers/`) stays alive, is given a
number of rounds and a clock on its standard input, and answers with the seconds they took and the
units of work they did; it keeps its own time, so that talking is not timed.
"""

from __future__ import annotations

import json
import subprocess
from contextlib import ExitStack
from pathlib import Path

from benchmarks.timing import Contestant
from scripts.studies.environments import install_environment

WORKERS = Path(__file__).parent / "workers"
PEERS_FOLDER = Path(__file__).parents[2] / "results" / "peers"
NOT_ASKED_FOR = "run with --with-peers"
PEERS = {
    "gymnax": ("gymnax==1.0.1", "jax<0.7", "six"),  # imports six, does not ask for it
    "bayesianbandits": ("bayesianbandits==1.5.0",),
    "mabwiser": ("mabwiser==2.7.4",),
    "particles": ("particles==0.4",),
    "polyagamma": ("polyagamma==2.0.2",),
    "river": ("river==0.26.1",),
}
"""Name of a peer's environment -> what pip installs for it; its workers' names begin so."""


class Worker(subprocess.Popen):
    """A running worker, to be called as any contestant; it stops where its `with` block ends.

    Raises:
        RuntimeError: if it ends without an answer; carries its last words.
    """

    def __init__(self, python: Path, script: Path) -> None:
        super().__init__(
            [str(python), "-u", str(script)],  # its last words come last
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.versions: dict[str, str] = json.loads(self._read_answer("ready"))

    def __call__(self, num_rounds: int, clock: str) -> tuple[float, float]:
        """Have it do some rounds."""
        print(num_rounds, clock, file=self.stdin, flush=True)
        seconds, work = self._read_answer("done").split()
        return float(seconds), float(work)

    def _read_answer(self, word: str) -> str:
        """Return what follows the word; libraries may print other lines before it."""
        line = "it ended without a word"
        for line in self.stdout:
            if line.startswith(word + " "):
                return line.removeprefix(word + " ")
        self.wait()
        raise RuntimeError(line.strip())


class Peers(ExitStack):
    """The peers that are there; each is installed and started when it is first asked for.

    Args:
        is_wanted: False to leave them all alone.
    """

    def __init__(self, is_wanted: bool) -> None:
        super().__init__()
        self._is_wanted = is_wanted
        self._found: dict[str, Worker | str] = {}

    def contestant(self, name: str) -> Contestant | str:
        """Return the worker of a peer, or why there is none."""
        if name not in self._found:
            self._found[name] = self._start(name) if self._is_wanted else NOT_ASKED_FOR
        return self._found[name]

    def versions(self) -> dict[str, dict[str, str]]:
        """Return the versions of the packages of each peer asked for, or why it is absent."""
        return {
            name: found.versions if isinstance(found, Worker) else {"absent": found}
            for name, found in self._found.items()
        }

    def _start(self, name: str) -> Worker | str:
        script = WORKERS / f"{name}_worker.py"
        try:
            home = name.partition("_")[0]
            python = install_environment(PEERS_FOLDER / home, "\n".join(PEERS[home]))
            return self.enter_context(Worker(python, script))
        except (RuntimeError, OSError) as error:
            return str(error)
