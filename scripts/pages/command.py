"""The command of a study: its options, its parts one after the other, its page."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import joblib

from bandit_gym.experiments.execution import Workers
from bandit_gym.files import RESULTS_VERSION
from pages.page import Section, write_page


@dataclass(frozen=True)
class Task:
    """What a part of a study is given.

    Attributes:
        sizes: name -> number of replications, steps, races, ...
        folder: where the study keeps its data.
        workers: who computes.
    """

    sizes: Mapping[str, int]
    folder: Path
    workers: Workers


class Part(NamedTuple):
    """What turns a task into a section, and the task's sizes at scale 1."""

    reproduce: Callable[[Task], Section]
    sizes: Mapping[str, int]


@dataclass(frozen=True)
class Study:
    """Parts whose sections make one page.

    Attributes:
        title: of the page.
        text: below it.
        parts: by name.
        folder: for data, pictures and the page, if the command names no other.
        num_workers: processes, if the command says nothing; None for all cores.
        page: what the page is called, if it has more than one part.
        lead: what makes a section that goes first of all others.
        is_parallel: whether parts are carried out side by side, each by one process, since they
            have nothing in common.
    """

    title: str
    text: str
    parts: Mapping[str, Part]
    folder: str
    num_workers: int | None = None
    page: str = "README"
    lead: Callable[[Sequence[Any]], Section] | None = None
    is_parallel: bool = False


def run_study(study: Study, description: str | None, arguments: Sequence[str] | None) -> int:
    """Carry out a command: run the parts that it asks for and write their page."""
    parser = new_parser(description, study.folder, study.num_workers)
    parser.add_argument("--only", "--figure", nargs="+", choices=[*study.parts, "all"], default=[])
    add_scale(parser)
    options = parser.parse_args(arguments)
    is_all = not options.only or "all" in options.only
    names = [name for name in study.parts if is_all or name in options.only]
    sections = _run_parts(study, names, options)
    if study.lead is not None:
        sections.insert(0, study.lead(sections))
    page = options.out / f"{names[0] if len(names) == 1 else study.page}.md"
    chosen = "" if is_all else f" --only {' '.join(names)}"
    command = f"python scripts/{parser.prog}{chosen} --scale {options.scale:g}"
    made_by = f"Made by `{command}`, results version {RESULTS_VERSION}."
    if left_out := [name for name in study.parts if name not in names]:
        made_by += f" Left out: {', '.join(left_out)}."
    write_page(page, study.title, f"{made_by} {study.text}", sections)
    print(f"verdicts and figures: {page}")
    return 0


def _run_parts(study: Study, names: Sequence[str], options: argparse.Namespace) -> list[Section]:
    if not study.is_parallel or len(names) == 1:
        return [_run_part(study.parts[name], name, options, options.workers) for name in names]
    calls = (joblib.delayed(_run_part)(study.parts[name], name, options, 1) for name in names)
    found: list[Section] = joblib.Parallel(options.workers or -1)(calls)
    return found


def _run_part(
    part: Part, name: str, options: argparse.Namespace, num_workers: int | None
) -> Section:
    print(f"{name} ...", flush=True)
    start = perf_counter()
    sizes, workers = scaled(part.sizes, options.scale), Workers(num_workers=num_workers)
    section = part.reproduce(Task(sizes, options.out, workers))
    print(f"{name}: {perf_counter() - start:.0f} s", flush=True)
    return section


def scaled(sizes: Mapping[str, int], scale: float) -> dict[str, int]:
    """Return a share of each size, at least four; horizons shrink from a tenth of it down only."""
    return {
        name: max(100, min(full, round(10 * scale * full)))
        if name == "horizon"
        else max(4, round(scale * full))
        for name, full in sizes.items()
    }


def new_parser(
    description: str | None, folder: str, num_workers: int | None
) -> argparse.ArgumentParser:
    """Return a parser with the options that all studies have."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path(folder), help="default: %(default)s")
    workers = f"processes; default: {num_workers or 'all cores'}"
    parser.add_argument(
        "--workers", "--jobs", type=_read_workers, default=num_workers, help=workers
    )
    return parser


def add_scale(parser: argparse.ArgumentParser) -> None:
    """Add the option that says which share of the full size to do."""
    parser.add_argument("--scale", type=_read_scale, default=1.0, help="1 is the full size")


def _read_workers(text: str) -> int:
    with suppress(ValueError):
        if (value := int(text)) >= 1:
            return value
    raise argparse.ArgumentTypeError(f"workers must be a positive integer, got {text!r}.")


def _read_scale(text: str) -> float:
    with suppress(ValueError):
        if 0 < (value := float(text)) <= 1000:
            return value
    message = f"scale must be a number above 0 and at most 1000, got {text!r}."
    raise argparse.ArgumentTypeError(message)
