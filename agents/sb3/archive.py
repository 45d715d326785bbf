"""The archive of a saved Stable-Baselines3 model, looked at before anything in it is unpickled.

`save` writes a zip whose member `data` is JSON; what JSON cannot hold stands there pickled, beside
its type and its attributes as text. To unpickle is to run whatever the author of the file wanted to
be run, so a file that is no such archive is refused by its members alone, and of the others only
what acting needs is unpickled.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

from stable_baselines3.common.save_util import load_from_zip_file, open_path

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


def unpickle_policy(path: str | Path, settings: Settings) -> tuple[Settings, Any]:
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
