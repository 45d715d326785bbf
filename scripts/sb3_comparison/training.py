"""Training models with SB3, each once: a trained model is found again by its settings."""

from __future__ import annotations

import importlib.util
import io
import json
import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import gymnasium as gym
import sb3_contrib
import stable_baselines3
import torch

from agents.sb3 import GymnasiumVecEnv
from bandit_gym.files import write_atomically
from sb3_comparison.settings import Training


@dataclass(frozen=True)
class Trained:
    """A model on disk.

    Attributes:
        training: its settings.
        path: its file.
        num_steps: pulls it was trained on; SB3 rounds up to whole batches.
        cpu_seconds: processor time that it took.
    """

    training: Training
    path: Path
    num_steps: int
    cpu_seconds: float


def train_once(training: Training, directory: Path) -> Trained:
    """Train a model unless its file is there. The record is written last, so that it says done.

    Args:
        training: the settings.
        directory: folder of all models.
    """
    path = directory / f"{training.digest}.zip"
    record_path = path.with_suffix(".json")
    if not (path.exists() and record_path.exists()):
        record = _train(training, path)
        write_atomically(record_path, json.dumps(record, indent=2).encode())
    record = json.loads(record_path.read_bytes())
    return Trained(training, path, record["num_steps"], record["cpu_seconds"])


def _train(training: Training, path: Path) -> dict[str, Any]:
    torch.set_num_threads(1)  # fastest for networks of this size, and results do not depend on it
    start, cpu_start = perf_counter(), process_time()
    model = make_model(training)
    print(f"training {training.label} in {training.env}: {training.num_steps:,} pulls", flush=True)
    has_tqdm = importlib.util.find_spec("tqdm") is not None  # which SB3's bar is made of
    model.learn(training.num_steps, progress_bar=has_tqdm)
    weights = io.BytesIO()
    model.save(weights)
    write_atomically(path, weights.getvalue())
    return {
        "training": asdict(training),
        "num_steps": model.num_timesteps,
        "seconds": perf_counter() - start,
        "cpu_seconds": process_time() - cpu_start,
        "stable_baselines3": stable_baselines3.__version__,
        "torch": torch.__version__,
        "machine": platform.machine(),
    }


def make_model(training: Training) -> Any:
    """Build the untrained model and its environments, stepped as one batch."""
    env = gym.make_vec(
        f"bandit_gym:{training.env}",
        num_envs=training.num_envs,
        max_episode_steps=training.horizon,
        autoreset_mode="SameStep",
        **training.env_options,
    )
    home = stable_baselines3 if hasattr(stable_baselines3, training.algorithm) else sb3_contrib
    make = getattr(home, training.algorithm)
    return make(
        training.policy, GymnasiumVecEnv(env), seed=training.seed, device="cpu", **training.options
    )
