"""The archive of a saved Stable-Baselines3 model, looked at before anything in it is unpickled.

`save` writes a zip whose member `data` is JSON; what JSON cannot hold stands there pickled, beside
its type and its attributes as text. To unpickle is to run whatever the author of the file wanted to
be run, so a file that is no such archive is refused by its members alone, and of the others only
what acting needs is unpickled.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.save_util import load_from_zip_file, open_path

from bandit_gym.checks import check_path, message

MEMBERS = ("data", "policy.pth")
POLICY = ("policy_class", "observation_space", "action_space", "policy_kwargs")

Settings = dict[str, Any]


def read_settings(path: str | Path) -> Settings:
    """Return the settings of a saved model as they stand in JSON; nothing is unpickled.

    Raises:
        OSError: if there is no such file.
        ValueError: if it is torn, or lacks what makes a policy.
        zipfile.BadZipFile: if it is no zip.
    """
    with open_path(path, "r", suffix="zip") as file, zipfile.ZipFile(file) as archive:
        _require(MEMBERS, archive.namelist())
        settings = json.loads(archive.read("data"))
    _require(POLICY, settings)
    return dict(settings)


def stated_num_arms(settings: Settings) -> int | None:
    """Return K, the number of actions that a model states; None if they are not `Discrete`."""
    space = settings["action_space"]
    stated = str(space.get("n")) if isinstance(space, dict) else ""
    return int(stated) if stated.isdecimal() else None


def make_model(path: str | Path, settings: Settings) -> SimpleNamespace:
    """Rebuild what acting needs of a saved model: its policy, and its exploration rate.

    The policy's class is part of the file, the algorithm's is not.
    """
    made_from, weights = _unpickle_policy(path, settings)
    policy = made_from["policy_class"](
        made_from["observation_space"],
        made_from["action_space"],
        BasePolicy._dummy_schedule,
        **made_from["policy_kwargs"],
    )
    policy.load_state_dict(weights)
    return SimpleNamespace(policy=policy, exploration_rate=settings.get("exploration_rate", 0.0))


def _unpickle_policy(path: str | Path, settings: Settings) -> tuple[Settings, Any]:
    """Unpickle what makes the policy, and return it by name, with the weights.

    Args:
        path: the file.
        settings: of that file, as `read_settings` returns them.
    """
    others = dict.fromkeys(settings.keys() - POLICY)
    contents: Any = load_from_zip_file(path, custom_objects=others, device="cpu")
    data, parameters, _ = contents
    return {name: data[name] for name in POLICY}, parameters["policy"]


def _require(names: tuple[str, ...], found: Any) -> None:
    missing = [name for name in names if name not in found]
    if missing:
        raise ValueError(f"it has no {' and no '.join(missing)}")


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Say in one sentence why a file cannot be read as a saved model."""
    check_path("path", path)
    try:
        yield
    except OSError as error:
        condition = "lead to a model that Stable-Baselines3 saved"
        raise type(error)(message("path", condition, str(path), error.strerror or "")) from error
    except Exception as error:  # a file of another kind fails in many ways
        condition = "lead to a file that `save` of a Stable-Baselines3 model wrote"
        reason = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".")
        raise ValueError(message("path", condition, str(path), reason)) from error
