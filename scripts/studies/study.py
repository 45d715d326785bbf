"""What all studies have in common: settings, parts that are kept, a page made from its numbers.

A study is a file of settings, `NAME.toml`, with the scale of its page, and a module `NAME.py` with

    parts(task) -> name -> what returns the numbers of this part, as JSON can hold them
    write_tables(found) -> name -> Markdown, given the file that `measure_study` writes
    draw(found) -> name -> figure

`docs/NAME.md` has places for what `write_tables` returns, between `<!-- study: NAME -->` and
`<!-- study: end -->`; `made` says how the numbers came about. All else is written by hand.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import matplotlib

from bandit_gym.checks import message
from bandit_gym.experiments.execution import Workers, progress_on_stderr
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.files import RESULTS_VERSION, to_json, write_atomically
from bandit_gym.results.data import RunResults
from bandit_gym.results.plots import save_figure
from bandit_gym.results.report import markdown_rows
from bandit_gym.session import run_experiment
from bandit_gym.styles import STYLES

STUDIES_FOLDER = Path(__file__).parent
DOCS, BUILD = STUDIES_FOLDER.parents[1] / "docs", Path("build/studies")
NAMES = tuple(sorted(path.stem for path in STUDIES_FOLDER.glob("*.toml")))
STUDY_BLOCK = re.compile(r"(<!-- study: (\w+) -->\n).*?(<!-- study: end -->)", re.S)
MAX_ROWS = 12
"""Of a table before the rest is folded."""
MAX_OPTION = 80
"""Characters of `--only` that a page repeats."""

HOLDS, FAILS, UNDECIDED = "holds", "fails", "undecided"

Found = Mapping[str, Any]
"""A study's numbers, and how they came about: what `docs/NAME.json` has."""


@dataclass(frozen=True)
class StudyTask:
    """What a part of a study is given.

    Attributes:
        settings: of the study's file.
        scale: 1 is the full size; `size` applies it.
        folder: for blocks of experiments and the like, which are kept.
        workers: who computes.
    """

    settings: Mapping[str, Any]
    scale: float
    folder: Path
    workers: Workers

    def size(self, name: str) -> int:
        """Return a share of one of the settings' sizes; horizons shrink last.

        It is 10 at least, below which means have no interval, if it is not less at full scale.
        """
        full = self.settings["sizes"][name]
        if name.startswith("horizon"):
            return min(full, max(min(full, 20), round(10 * self.scale * full)))
        return max(min(full, 10), round(self.scale * full))


def load_settings(name: str) -> dict[str, Any]:
    """Return what the file of a study says."""
    return tomllib.loads((STUDIES_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def import_study(name: str) -> ModuleType:
    """Return what measures and reports a study."""
    return import_module(f"scripts.studies.{name}")


def measure_study(
    study: str, scale: float, folder: Path, workers: Workers, only: Sequence[str] = ()
) -> Path:
    """Measure the parts that are not kept from before; write numbers, pictures and page.

    Args:
        study: its name.
        scale: 1 is the full size.
        folder: for the page and what belongs to it.
        workers: who computes.
        only: how the names of the parts begin that are measured, if not all; the others stay as
            the page's numbers have them, with the command, version and date of their own.

    Returns:
        the page.

    Raises:
        ValueError: if no part begins so.
    """
    settings = load_settings(study)
    origin = f"{json.dumps(settings, sort_keys=True)} {scale} {RESULTS_VERSION}"
    own = BUILD / study / "parts" / hashlib.sha256(origin.encode()).hexdigest()[:16]
    own.mkdir(parents=True, exist_ok=True)
    parts = import_study(study).parts(StudyTask(settings, scale, own, workers))
    chosen = [name for name in parts if name.startswith(tuple(only) or "")]
    if not chosen:
        raise ValueError(
            message("only", f"begin the name of a part, as of {next(iter(parts))!r}", [*only])
        )
    numbers: dict[str, Any] = {}
    for number, (name, part) in enumerate(((name, parts[name]) for name in chosen), start=1):
        file = _part_file(own, name)
        if not file.exists():
            write_atomically(file, to_json(part()))
        print(f"{number} of {len(chosen)}: {name}", flush=True)
        numbers[name] = json.loads(file.read_text(encoding="utf-8"))
    options = "" if scale == settings["scale"] else f" --scale {scale}"
    options += " ".join([" --only", *(f'"{start}"' for start in only)]) if only else ""
    origin_of = {
        "command": f"python -m scripts.studies {study}{options}",
        "results_version": RESULTS_VERSION,
        "date": datetime.now(UTC).date().isoformat(),
    }
    found: dict[str, Any] = origin_of | {"scale": scale, "settings": settings, "numbers": numbers}
    if only:
        stored = json.loads((DOCS / f"{study}.json").read_text(encoding="utf-8"))
        later = stored.get("later", {}) | {" ".join(only): origin_of}
        kept = stored["numbers"] | numbers  # also of parts whose packages are not here today
        found = stored | {"later": later, "settings": settings, "numbers": kept}
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / f"{study}.json", to_json(found))
    return _write_study_page(study, folder, found)


def _part_file(folder: Path, name: str) -> Path:
    return folder / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.json"


def read_part(task: StudyTask, name: str) -> Any:
    """Return the numbers of a part that was measured before the one that asks."""
    return json.loads(_part_file(task.folder, name).read_text(encoding="utf-8"))


def play_agents(
    task: StudyTask, environments: Sequence[Any], agents: Sequence[Any], **sizes: Any
) -> dict[str, dict[str, RunResults]]:
    """Run an experiment, or what the study's folder lacks of it.

    More replications than before go on with those that are there.

    Returns:
        its runs by the labels of environment and agent, also those that failed.
    """
    sizes["block_size"] = min(sizes.get("block_size", 100), sizes["replications"])
    experiment = Experiment(tuple(environments), tuple(agents), **sizes)
    folder = BUILD / "experiments" / replace(experiment, replications=experiment.block_size).name
    with progress_on_stderr() as report:
        results = run_experiment(experiment, folder, workers=task.workers, on_progress=report)
    found: dict[str, dict[str, RunResults]] = {}
    for each in results.runs:
        found.setdefault(each.run.environment.label, {})[each.run.agent.label] = each
    return found


def write_pages() -> list[Path]:
    """Write all pages and pictures anew whose numbers are stored, and return the pages."""
    return [_write_study_page(name, DOCS, found) for name, found in _read_stored().items()]


def find_edited_tables() -> list[str]:
    """Return the names of tables that do not say what the stored numbers do, as PAGE: TABLE."""
    edited = []
    for study, found in _read_stored().items():
        page = (DOCS / f"{study}.md").read_text(encoding="utf-8")
        filled = fill_blocks(page, _write_blocks(study, found))
        places = zip(STUDY_BLOCK.finditer(page), STUDY_BLOCK.finditer(filled), strict=True)
        edited += [f"docs/{study}.md: {old[2]}" for old, new in places if old[0] != new[0]]
    return edited


def _read_stored() -> dict[str, Found]:
    files = {name: DOCS / f"{name}.json" for name in NAMES}
    return {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}


def _write_blocks(study: str, found: Found) -> dict[str, str]:
    return import_study(study).write_tables(found) | {"made": made(found)}


def _write_study_page(study: str, folder: Path, found: Found) -> Path:
    with matplotlib.rc_context(STYLES["screen"]):
        for name, figure in import_study(study).draw(found).items():
            save_figure(figure, folder / name, ["svg"])
    page, text = folder / f"{study}.md", (DOCS / f"{study}.md").read_text(encoding="utf-8")
    write_atomically(page, fill_blocks(text, _write_blocks(study, found)).encode())
    return page


def made(found: Found) -> str:
    """Say how the numbers came about, and where to read what today's code would draw otherwise.

    Where a command named many parts, `docs/NAME.json` has their names.
    """
    sentences = []
    for number, origin in enumerate((found, *found.get("later", {}).values())):
        version = str(origin["results_version"])
        if version != str(RESULTS_VERSION) and not number:
            version += f" ([today {RESULTS_VERSION}](project/changelog.md))"
        how = f"Measured by `{origin['command']}` at results version"
        if number:
            option = origin["command"].partition(" --only ")[2]
            parts = f"with `--only {option}`"
            if len(option) > MAX_OPTION:
                parts = f"parts that `docs/{found['command'].split()[3]}.json` names,"
            how = f"later, {parts} at"
        sentences.append(f"{how} {version}, {origin['date']}")
    return "; ".join(sentences) + "."


def fill_blocks(page: str, blocks: Mapping[str, str]) -> str:
    """Return a page with these blocks in their places.

    Raises:
        ValueError: if a block has no place, or a place no block.
    """
    block_names = [name for _, name, _ in STUDY_BLOCK.findall(page)]
    if sorted(block_names) != sorted(blocks):
        raise ValueError(f"page must have the places {sorted(blocks)}, got {sorted(block_names)}.")
    return STUDY_BLOCK.sub(lambda place: f"{place[1]}{blocks[place[2]]}\n{place[3]}", page)


def write_interval(
    interval: Iterable[float], digits: int, *, sign: str = "", unit: str = ""
) -> str:
    """Write "mean ± half width", or both ends where the interval is lopsided."""
    mean, low, high = interval
    number = f"{{:{sign}z.{digits}f}}".format
    if abs(low + high - 2 * mean) < 0.5 * 10**-digits:
        return f"{number(mean)} ± {(high - low) / 2:.{digits}f}{unit}"
    return f"{number(mean)} [{number(low)}, {number(high)}]{unit}"


def write_percentage(interval: Iterable[float]) -> str:
    """Write the interval of a share that is lost or gained, in per cent."""
    return write_interval([100 * each for each in interval], 0, sign="+", unit=" %")


def fold_rows(rows: Sequence[Mapping[str, str]]) -> str:
    """Return a table, of which a page shows the first `MAX_ROWS` rows, and the others if asked."""
    first, rest = markdown_rows(rows[:MAX_ROWS]) if rows else "", rows[MAX_ROWS:]
    more = [fold(f"{len(rest)} more rows", markdown_rows(rest))] if rest else []
    return "\n\n".join([first, *more])


def fold(summary: str, text: str) -> str:
    """Return Markdown that a page shows if its summary is clicked."""
    return f"<details><summary>{summary}</summary>\n\n{text}\n\n</details>"


def parts_of(found: Found, kind: str) -> dict[str, Any]:
    """Return the numbers of the parts that are called `kind: NAME`, by NAME."""
    names = [name.partition(": ") for name in found["numbers"]]
    return {own: found["numbers"][f"{kind}: {own}"] for first, _, own in names if first == kind}


def verdict(is_shown: bool, is_refuted: bool) -> str:
    """Return the word for a claim: holds, fails or undecided."""
    return HOLDS if is_shown else FAILS if is_refuted else UNDECIDED
