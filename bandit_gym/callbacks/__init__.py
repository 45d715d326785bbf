"""What listens to an experiment while it runs: TensorBoard, Weights & Biases, and one's own.

    run_experiment(experiment, folder, callbacks=[TensorBoard("runs")])

See `docs/callbacks.md`.
"""

from typing import TYPE_CHECKING

from bandit_gym.lending import lend

if TYPE_CHECKING:
    from bandit_gym.callbacks.metrics import MetricsCallback
    from bandit_gym.callbacks.tensorboard import TensorBoard
    from bandit_gym.callbacks.wandb import WeightsAndBiases
    from bandit_gym.experiments.callbacks import Callback

__getattr__, __dir__ = lend(
    __name__,
    {
        "Callback": "metrics",
        "MetricsCallback": "metrics",
        "TensorBoard": "tensorboard",
        "WeightsAndBiases": "wandb",
    },
)
__all__ = __dir__()
