"""What is compared, as data: worlds, models to train, agents, and two sizes of it all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

LEARNS = "learns inside the instance"
FROZEN = "trained across instances, frozen"
NEITHER = "does not learn"
MEANS = [0.1, 0.3, 0.5, 0.7, 0.9]
NUM_ARMS = 5


A2C = {
    "agent": "agents.sb3:OnlineSB3",
    "algorithm": "A2C",
    "learning_rate": 0.02,
    "label": "online A2C",
}
LEARNERS: tuple[dict[str, Any], ...] = (
    {"agent": "exact", "label": "exact TS"},
    {"agent": "racing_paper", "label": "Racing TS"},
    {"agent": "ucb1", "label": "UCB1"},
    {"agent": "random", "label": "random"},
)


@dataclass(frozen=True)
class Training:
    """One model to train across instances of a world.

    Attributes:
        algorithm: name of an algorithm of SB3 or sb3-contrib.
        policy: SB3's name of the network.
        observation: mode of the environments.
        num_envs: environments stepped together.
        num_steps: pulls to train on, over all environments.
        seed: of the network, the environments and the exploration.
        options: hyperparameters, as SB3 names them; the learning rate is where it begins, and it
            falls linearly to 0.
        deterministic: whether the trained agent plays its best action always.
        is_scaled: whether the network sees its counts through `features.ScaledCounts`.
        ends_at_horizon: whether the algorithm knows that nothing comes after the last pull.
    """

    algorithm: str
    policy: str
    observation: str
    num_envs: int
    num_steps: int
    seed: int
    options: dict[str, Any]
    deterministic: bool = False
    is_scaled: bool = False
    ends_at_horizon: bool = True

    @property
    def label(self) -> str:
        """What tables and figures call the trained agent."""
        return f"{self.algorithm} on {'scaled ' if self.is_scaled else ''}{self.observation}"


@dataclass(frozen=True)
class World:
    """One panel: agents that all play the same episodes.

    Attributes:
        title: for people.
        env: environment id.
        env_options: its keyword arguments without the observation mode.
        horizon: pulls per episode.
        replications: evaluation episodes of every agent.
        block_size: episodes simulated together.
        trainings: models trained for this world.
        learners: entries of agents that learn inside each episode; the first is the reference.
    """

    title: str
    env: str
    env_options: dict[str, Any]
    horizon: int
    replications: int
    block_size: int
    trainings: tuple[Training, ...] = ()
    learners: tuple[dict[str, Any], ...] = LEARNERS

    def entry(self, observation: str) -> dict[str, Any]:
        """Return the environment as experiments name it, with a mode of observation."""
        return {"env": self.env, **self.env_options, "observation": observation}


class Size(NamedTuple):
    """How much of everything.

    Attributes:
        num_steps: algorithm -> pulls to train it on, per world.
        replications: evaluation episodes in a world of random instances.
        instance_replications: evaluation episodes on the fixed instance.
        instance_horizon: pulls of each of them.
        learning_steps: pulls to train each variant of `learning` on.
        learning_seeds: trainings of each of these.
    """

    num_steps: dict[str, int]
    replications: int
    instance_replications: int
    instance_horizon: int
    learning_steps: int
    learning_seeds: int


QUICK = Size({"PPO": 100_000, "DQN": 100_000, "RecurrentPPO": 100_000}, 500, 20, 500, 50_000, 1)
FULL = Size({"PPO": 400_000, "DQN": 300_000, "RecurrentPPO": 400_000}, 1000, 40, 1000, 200_000, 3)


def worlds(size: Size, *, seed: int) -> tuple[World, ...]:
    """Return the three worlds: random Bernoulli, random dependent, one fixed instance."""
    bernoulli, dependent = "BernoulliBandit-v0", "DependentPriorBandit-v0"
    random: dict[str, Any] = {
        "env_options": {"num_arms": NUM_ARMS},
        "horizon": 50,
        "replications": size.replications,
        "block_size": 100,
        "trainings": tuple(
            Training(**model, num_steps=size.num_steps[model["algorithm"]], seed=seed)
            for model in (PPO_ON_COUNTS | {"is_scaled": True}, DQN, RECURRENT)
        ),
    }
    return (
        World(f"Bernoulli, uniform prior, {NUM_ARMS} arms", bernoulli, **random),
        World(f"Dependent prior, {NUM_ARMS} arms", dependent, **random),
        World(
            title=f"Bernoulli, fixed means {', '.join(map(str, MEANS))}",
            env=bernoulli,
            env_options={"num_arms": NUM_ARMS, "means": MEANS},
            horizon=size.instance_horizon,
            replications=size.instance_replications,
            block_size=20,
            learners=(*LEARNERS, A2C),
        ),
    )


PPO_ON_COUNTS: dict[str, Any] = {
    "algorithm": "PPO",
    "policy": "MlpPolicy",
    "observation": "counts",
    "num_envs": 128,
    "options": {
        "n_steps": 40,
        "batch_size": 1024,
        "n_epochs": 4,
        "learning_rate": 3e-3,
        "gamma": 1.0,
    },
}
DQN: dict[str, Any] = {
    "algorithm": "DQN",
    "policy": "MlpPolicy",
    "observation": "counts",
    "num_envs": 16,
    "deterministic": True,
    "options": {
        "learning_rate": 1e-3,
        "buffer_size": 100_000,
        "batch_size": 128,
        "learning_starts": 2000,
        "train_freq": 4,
        "target_update_interval": 500,
        "exploration_fraction": 0.3,
        "gamma": 0.97,
    },
}
RECURRENT: dict[str, Any] = {
    "algorithm": "RecurrentPPO",
    "policy": "MlpLstmPolicy",
    "observation": "history",
    "num_envs": 128,
    "options": {
        "n_steps": 40,
        "batch_size": 1280,
        "n_epochs": 4,
        "learning_rate": 3e-3,
        "gamma": 1.0,
        # One LSTM for actor and critic trains three times as fast as one each.
        "policy_kwargs": {
            "lstm_hidden_size": 48,
            "shared_lstm": True,
            "enable_critic_lstm": False,
        },
    },
}
