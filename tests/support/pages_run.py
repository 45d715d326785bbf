"""Runs a page from top to bottom, as a reader would: its code, its commands, and what they print.

Code in Python, files in TOML and commands, in blocks or in a line of prose, are carried out in
their order, in one folder and one namespace. What a block of text shows is compared with what was
printed, if it follows its code at once, or names its command in a comment:
<!-- output of: COMMAND -->.
"""

import contextlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from documents import ROOT, run
from gymnasium.envs.registration import registry
from scripts_run import run_in_process, run_script
from sybil import Document, Region, Sybil
from sybil.parsers.markdown import CodeBlockParser

from bandit_gym.cli import main

EXCEPTIONS = {
    r"pip install .*": "installs; the gate does",
    r"python -m venv .*": "makes an environment; the gate does",
    r"source .*": "enters that environment",
    r"pre-commit install": "writes to the repository",
    r"pytest": "this run",
    r"python scripts/benchmark\.py (.* )?--with-peers.*": "installs other people's libraries",
    r"python scripts/benchmark\.py( --check| --only harness)?": "minutes, by the clock",
    r"python (-m scripts\.studies|scripts/(moved|inverse_propensities)\.py) .*": "minutes",
    r"python (-m sphinx|scripts/(golden|make_suite)\.py).*": "the gate's; takes minutes",
}
"""Commands that are not run, as patterns of the whole command, and why; ten at most."""

FIRST = "--replications 2 --horizon 20 --backend serial"
"""Of a comparison: no workers, which would take longer to start than to work."""

REDUCED = {
    r"bandit-gym compare --out results/first": "--replications 10 --horizon 100 --backend serial",
    r"bandit-gym compare --propensities": f"{FIRST} --horizon 3",
    r"bandit-gym compare( --(agents|env).*)?": FIRST,
    r"bandit-gym film .*": "--horizon 5",
    r"bandit-gym run \S+( --out \S+)?": "--backend serial",
    r"bandit-gym fidelity --suite adversarial.*": "--only sure --scale 0.01",
    r"bandit-gym fidelity --suite contextual-v1 .*": "--scale 0.001 --only 'd = 2, 10 rows'",
    r"bandit-gym report DIR": "--format png",
    r"bandit-gym fidelity .*": "--scale 0.001 --only 'Beta(5, 5), 100 pulls'",
    r"pytest -m .*": "--collect-only tests/bandit_gym/test_registration.py",
    r"pytest .* -k NAME": "--collect-only -k exact",
    r"pytest .*": "--collect-only",
    r"python -m bandit_gym": "list",
}
"""Commands that take over ten seconds, and what reduces their size; files of settings are too."""

MOST = {
    r"(?<=\.learn\()\d[\d_]*(?=\))": 30_000,
    r"(?<=num_batches=)\d+": 100,
    r"(?<=[ =])10_000\b": 1_000,
    r"(?<=\(\()30_000\b": 3_000,
}
"""Steps after which models are better than chance, batches, and episodes of three policies."""

SCALE = re.compile(r" --scale \S+")

MASKS = [(r"\d+\.\d+$", "TIME"), (r" +", " ")]
"""Timings stand at the end of a line, and widths of columns follow from them."""

COMMAND = re.compile(r"`((?:bandit-gym|python|pytest)\s[^`<>]*)`")
FILE = re.compile(r"# (\w+\.(?:py|toml))\n")
OUTPUT = re.compile(r"<!-- output of: (.*) -->\s*$")


def run_page(path, folder, monkeypatch):
    """Carry out a page in an empty folder, and return the names that its code made.

    Raises:
        AssertionError: if a command fails, or something else is printed than the page says.
    """
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    for name in ("scripts", "tests"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "DIR").symlink_to("results/first")
    known = set(registry)
    document = Sybil(PARSERS, path=str(ROOT)).parse(Path(path))
    examples = list(document.examples())
    for example in sorted(examples, key=lambda each: each.region.evaluator is not write_file):
        example.evaluate()
    for name in set(registry) - known:
        del registry[name]
    return document.namespace


def run_python(example):
    """Run a block of code, a file if its first line names one, and remember what it prints."""
    if name := FILE.match(example.parsed):
        Path(name[1]).write_text(example.parsed)
    code = example.parsed
    for pattern, most in MOST.items():
        code = re.sub(pattern, lambda size, most=most: str(min(int(size[0]), most)), code)
    example.namespace["last"] = example.end, run(code, example.namespace)


def run_shell(example):
    """Run a block of commands, or one in a line of prose, and remember what each prints."""
    for line in example.parsed.replace("\\\n", "").splitlines():
        for command in shlex.join(shlex.split(line, comments=True)).split(" '&&' "):
            printed = run_command(command)
            example.namespace.setdefault("outputs", {})[command] = printed
            example.namespace["last"] = example.end, printed


def write_file(example):
    """Write a block of TOML, its sizes reduced, to the file that its first line names, or FILE."""
    name = FILE.match(example.parsed)
    text = re.sub(r"^replications = \d+", "replications = 2", example.parsed, flags=re.M)
    text = re.sub(r"^horizon = \d+", "horizon = 20", text, flags=re.M)
    text = re.sub(r"^horizon = \[.*\]", "horizon = [5, 20]", text, flags=re.M)
    Path(name[1] if name else "FILE").write_text(text)


def compare(example):
    """Compare a block of text with what its code printed, if it is said to be that."""
    before = example.document.text[: example.start]
    named = OUTPUT.search(before)
    end, printed = example.namespace.get("last", (0, ""))
    if named:
        printed = example.namespace["outputs"][named[1]]
    if named or not before[end:].strip():
        assert mask_times(printed).startswith(mask_times(example.parsed)), f"printed: {printed}"


def run_command(command):
    """Run a command, in part where all of it takes long, and return what it prints."""
    if any(re.fullmatch(pattern, command) for pattern in EXCEPTIONS):
        return ""
    for pattern, options in REDUCED.items():
        if re.fullmatch(pattern, command):
            command = f"{SCALE.sub('', command)} {options}"
            break
    if command.startswith("python scripts/"):
        return run_script(command)
    program, *arguments = shlex.split(command)
    if program == "bandit-gym":
        return run_in_process(main, arguments)
    if program == "pytest":
        with contextlib.chdir(ROOT):
            return run_in_process(pytest.main, arguments)
    done = subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{command}: {done.stdout} {done.stderr}"
    return done.stdout


def mask_times(text):
    """Return text without its timings."""
    for pattern, replacement in MASKS:
        text = re.sub(pattern, replacement, text, flags=re.M)
    return text


def find_commands(document: Document):
    """Yield the commands in lines of prose, outside all blocks."""
    blocks = [match.span() for match in re.finditer(r"^```.*?^```$", document.text, re.M | re.S)]
    for match in COMMAND.finditer(document.text):
        if not any(start <= match.start() < end for start, end in blocks):
            yield Region(*match.span(), " ".join(match[1].split()), run_shell)


PARSERS = [
    CodeBlockParser("python", run_python),
    CodeBlockParser("bash", run_shell),
    CodeBlockParser("toml", write_file),
    CodeBlockParser("text", compare),
    find_commands,
]
