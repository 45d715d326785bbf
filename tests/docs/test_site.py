"""What the build of the site checks, beside what Sphinx does: the reference is complete."""

import re
import runpy
from importlib import import_module
from types import SimpleNamespace

import pytest
from documents import ROOT, read

import agents
from bandit_gym import ENV_IDS

pytestmark = [pytest.mark.slow, pytest.mark.pages]  # as what they import, SB3 with it, is


@pytest.fixture(scope="module")
def conf():
    """The configuration of the site, and what it imports."""
    pytest.importorskip("sphinx", reason="the extra docs is not installed")
    pytest.importorskip("stable_baselines3", reason="the extra sb3 is not installed")
    return runpy.run_path(str(ROOT / "docs" / "conf.py"))


def test_a_public_name_that_is_not_described_is_named(conf, caplog):
    rooms = {room: conf["public_names"](import_module(room)) for room in conf["ROOMS"]}
    names = {f"{room}.{name}" for room in rooms for name in rooms[room]} - {"agents.load"}
    described = SimpleNamespace(objects={name: SimpleNamespace(objtype="class") for name in names})
    conf["check_reference"](None, SimpleNamespace(domains={"py": described}))
    (record,) = caplog.records
    assert record.getMessage() == "not in the reference: agents.load"


def test_every_package_that_says_what_is_public_is_looked_at(conf):
    found = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for package in ("agents", "bandit_gym")
        for path in (ROOT / package).rglob("__init__.py")
        if re.search(r"^__all__ = ", path.read_text(encoding="utf-8"), re.M)
    }
    assert found and found <= set(conf["ROOMS"])


def test_the_page_about_stable_baselines3_mentions_every_public_name():
    sb3 = pytest.importorskip("agents.sb3", exc_type=ImportError)
    assert all(name in read("docs/sb3.md") for name in set(sb3.__all__) - {"AgentPolicy"})


def test_the_table_of_agents_says_what_their_classes_say():
    line = re.compile(r"\(#agents\.(\w+)\) `(\w+)` \|[^|]+\| ([^|]+) \| (\w+) \|")
    lines = line.findall(read("docs/reference/agents.md"))
    told = {(agent, name): (takes != "no", masks == "yes") for agent, name, takes, masks in lines}
    classes = {name: target.partition(":")[2] for name, target in agents.AGENTS.items()}
    known = {(cls, name): getattr(agents, cls) for name, cls in classes.items() if "." not in cls}
    assert told == {key: (cls.takes_features, cls.takes_available) for key, cls in known.items()}


def test_the_table_of_environments_has_all_ids():
    page = read("docs/reference/environments.md")
    listed = re.findall(r"^\| \[([\w-]+)\]\(#bandit_gym\.envs\.families\.\w+\)", page, re.M)
    assert sorted(listed) == sorted(ENV_IDS)
