"""Agents that misbehave, named in experiments as `stub_agents:NAME`."""

import ctypes
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np

from bandit_gym.doubts import Doubt


class Constant:
    """Plays one arm for ever, and keeps its options as attributes."""

    def __init__(self, problem, *, arm=0, **options):
        vars(self).update(options, arm=arm)

    def reset(self, num_envs=None, seed=None):
        self.num_envs, self.t = num_envs, 0

    def act(self, observation=None):
        self.t += 1
        return np.full(self.num_envs, self.arm)

    def observe(self, action, reward, mask=None):
        pass

    def diagnostics(self):
        return {}


class Uniform(Constant):
    """Says what it pulls arms with, and not whether that is exact."""

    def action_probabilities(self, observation=None):
        """Return the same for each of four arms."""
        return np.full((self.num_envs, 4), 0.25)


class Priced(Constant):
    """Plays its arm whatever it is worth."""

    def act(self, observation=None, *, values=None, costs=None, floor=0.0):
        return super().act(observation)


class Raising(Constant):
    """Raises in a step of its choice, after the harness has built and tried it."""

    at = 50

    def act(self, observation=None):
        if self.t == self.at:
            raise RuntimeError("I have had enough")
        return super().act(observation)


class Unbuilt(Constant):
    """Cannot be made."""

    def __init__(self, problem):
        raise RuntimeError("no")


class Deadly(Constant):
    """Takes its process down with it, as running out of memory does."""

    def act(self, observation=None):
        if self.t == 50:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().act(observation)


class Unpicklable(Constant):
    """Holds what cannot travel between processes."""

    def __init__(self, problem):
        super().__init__(problem)
        self.lock = threading.Lock()


class Tired(Constant):
    """Sleeps for some `seconds` in every step."""

    def act(self, observation=None):
        time.sleep(self.seconds)
        return super().act(observation)


class Telling(Constant):
    """Tells diagnostics of its own, the numbers of `tells`."""

    def diagnostics(self):
        return {name: np.full(self.num_envs, value) for name, value in self.tells.items()}


class Dicing(Constant):
    """Tells what it has drawn, each lane by itself."""

    def __init__(self, problem, *, arm=0, prior=None):
        super().__init__(problem, arm=arm)

    def reset(self, num_envs=None, seed=None):
        super().reset(num_envs, seed)
        self.rng = np.random.default_rng(seed)

    def diagnostics(self):
        return {"draw": self.rng.random(self.num_envs)}


class Scripted(Constant):
    """Plays one of `arms` for each step, all lanes the same; tells of as many samples as steps."""

    def act(self, observation=None):
        super().act(observation)
        return np.full(self.num_envs, self.arms[(self.t - 1) % len(self.arms)])

    def diagnostics(self):
        return {"num_samples": np.full(self.num_envs, self.t)}


class Saying(Constant):
    """Tells what it `says`, in whatever form, from step `since` on."""

    since = 1

    def diagnostics(self):
        return self.says if self.t >= self.since else {}


class Timed(Constant):
    """Tells for how long it was told that it plays."""

    def __init__(self, problem, *, horizon):
        super().__init__(problem)
        self.horizon = horizon

    def diagnostics(self):
        return {"told": np.full(self.num_envs, self.horizon)}


class Doubting(Constant):
    """Vouches for none of its first ten decisions."""

    def diagnostics(self):
        return {"is_unreliable": np.full(self.num_envs, self.t <= 10)}


class Collapsing(Constant):
    """Doubts its particles in its first 64 decisions, and its proposal in the first few."""

    num_blind = 0

    def diagnostics(self):
        doubts = Doubt.PARTICLES_COLLAPSED if self.t <= 64 else Doubt(0)
        if self.t <= self.num_blind:
            doubts |= Doubt.LOW_COVERAGE
        return {"doubts": np.full(self.num_envs, doubts)}


class Strange(Constant):
    """Raises what is hard to tell others, of some `kind`."""

    def act(self, observation=None):
        if self.t == 50:
            raise {
                "exit": SystemExit(0),
                "unencodable": ValueError("\udc80"),
                "group": BaseExceptionGroup("many", [ValueError("a"), KeyError("b")]),
                "markup": ValueError("[/x]"),
                "late": ValueError("\n\x1b[31mred\x07"),
            }[self.kind]
        return super().act(observation)


class Moody(Constant):
    """Raises while there is a file `hold` in its `folder`."""

    def act(self, observation=None):
        if self.t == 50 and Path(self.folder, "hold").exists():
            self.refuse()
        return super().act(observation)

    def refuse(self):
        raise RuntimeError("not now")


class Held(Moody):
    """Tells where it is at work, and hears nothing for a minute, as in a compiled loop."""

    def refuse(self):
        Path(self.folder, f"at-work-{os.getpid()}").touch()
        ctypes.PyDLL(None).sleep(60)  # keeps Python's lock
