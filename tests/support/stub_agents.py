"""Agents that misbehave, named in experiments as `stub_agents:NAME`."""

import os
import signal
import threading
import time

import numpy as np


class Constant:
    """Plays one arm for ever."""

    def __init__(self, problem, *, arm=0):
        self.arm = arm

    def reset(self, num_envs=None, seed=None):
        self.num_envs, self.t = num_envs, 0

    def act(self, observation=None):
        self.t += 1
        return np.full(self.num_envs, self.arm)

    def observe(self, action, reward, mask=None):
        pass

    def diagnostics(self):
        return {}


class Raising(Constant):
    """Raises in a step of its choice, after the harness has built and tried it."""

    def act(self, observation=None):
        if self.t == 50:
            raise RuntimeError("I have had enough")
        return super().act(observation)


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
    """Sleeps a little in every step."""

    def __init__(self, problem, *, seconds=0.01):
        super().__init__(problem)
        self.seconds = seconds

    def act(self, observation=None):
        time.sleep(self.seconds)
        return super().act(observation)


class Confessing(Constant):
    """Tells in which process it lives."""

    def diagnostics(self):
        return {"process": np.full(self.num_envs, os.getpid())}


class Doubting(Constant):
    """Vouches for none of its first ten decisions."""

    def diagnostics(self):
        return {"is_unreliable": np.full(self.num_envs, self.t <= 10)}
