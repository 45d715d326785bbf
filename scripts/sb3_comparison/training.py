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
from stable_baselines3.common.utils import LinearSchedule

from agents.sb3 import GymnasiumVecEnv
from bandit_gym.experiments.entries import content_digest
from bandit_gym.files import write_atomically
from sb3_comparison.features import ScaledCounts
from sb3_comparison.settings import Training, World


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


def train_once(world: World, training: Training, directory: Path) -> Trained:
    """Train a model unless its file is there. The record is written last, so that it says done.

    Args:
        world: whose instances it is trained on.
        training: the settings.
        directory: folder of all models.
    """
    path = directory / f"{digest(world, training)}.zip"
    record_path = path.with_suffix(".json")
    if not (path.exists() and record_path.exists()):
        record = _train(world, training, path)
        write_atomically(record_path, json.dumps(record, indent=2).encode())
    record = json.loads(record_path.read_bytes())
    return Trained(training, path, record["num_steps"], record["cpu_seconds"])


def digest(world: World, training: Training) -> str:
    """Return the content hash of everything that shapes the weights, SB3's version included."""
    content = asdict(training) | {
        "env": world.entry(training.observation),
        "horizon": world.horizon,
        "stable_baselines3": stable_baselines3.__version__,
    }
    del content["deterministic"]
    return content_digest(content)[:16]


def _train(world: World, training: Training, path: Path) -> dict[str, Any]:
    torch.set_num_threads(1)  # fastest for networks of this size, and results do not depend on it
    start, cpu_start = perf_counter(), process_time()
    model = make_model(world, training)
    print(f"training {training.label} in {world.env}: {training.num_steps:,} pulls", flush=True)
    has_tqdm = importlib.util.find_spec("tqdm") is not None  # which SB3's bar is made of
    model.learn(training.num_steps, progress_bar=has_tqdm)
    weights = io.BytesIO()
    model.save(weights)
    write_atomically(path, weights.getvalue())
    return {
        "training": asdict(training),
        "env": world.entry(training.observation),
        "horizon": world.horizon,
        "num_steps": model.num_timesteps,
        "seconds": perf_counter() - start,
        "cpu_seconds": process_time() - cpu_start,
        "stable_baselines3": stable_baselines3.__version__,
        "torch": torch.__version__,
        "machine": platform.machine(),
    }


def make_model(world: World, training: Training) -> Any:
    """Build the untrained model and its environments, stepped as one batch."""
    env = make_world(world, training.observation, training.num_envs)
    lanes = GymnasiumVecEnv(env, ends_at_horizon=training.ends_at_horizon)
    options = dict(training.options)
    if training.is_scaled:
        features = {"features_extractor_class": ScaledCounts}
        settings = {"features_extractor_kwargs": {"horizon": world.horizon}}
        options["policy_kwargs"] = options.get("policy_kwargs", {}) | features | settings
    options["learning_rate"] = LinearSchedule(options["learning_rate"], 0.0, end_fraction=1.0)
    home = stable_baselines3 if hasattr(stable_baselines3, training.algorithm) else sb3_contrib
    make = getattr(home, training.algorithm)
    return make(training.policy, lanes, seed=training.seed, device="cpu", **options)


def make_world(world: World, observation: str, num_envs: int) -> Any:
    """Build lanes of a world, which start anew in the step in which they end."""
    return gym.make_vec(
        f"bandit_gym:{world.env}",
        num_envs=num_envs,
        max_episode_steps=world.horizon,
        autoreset_mode="SameStep",
        observation=observation,
        **world.env_options,
    )
