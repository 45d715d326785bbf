"""The site of these pages; CONTRIBUTING.md has the command that builds it."""

import os
import re
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name

import gymnasium as gym
from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import inspect, logging

project = "bandit-gym"
html_title = project
html_math_renderer = "mathml"
html_theme = "furo"
html_static_path = ["_static"]
templates_path = ["_templates"]
html_css_files = ["site.css"]
html_show_copyright = False
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

nb_execution_mode = "force"  # each build runs the tutorials, whatever an earlier one has kept
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 900  # seconds a cell, of a loaded machine that has compiled nothing yet
nb_merge_streams = True
nb_output_stderr = "remove"  # where progress is shown

default_role = "py:obj"  # a name in backticks leads to what the reference says of it
suppress_warnings = ["ref.python"]  # names such as `actions`, which several classes have
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 88
napoleon_custom_sections = [
    *("Description", "Actions", "Observation", "Reward", "Info", "Episode end"),
    *("Diagnostics", "Version history"),
]

ROOMS = (
    *("agents", "agents.bayes_optimal", "agents.oracle", "agents.sb3"),
    *("bandit_gym", "bandit_gym.envs", "bandit_gym.experiments"),
    *("bandit_gym.fidelity", "bandit_gym.likelihoods", "bandit_gym.priors", "bandit_gym.problem"),
    *("bandit_gym.results", "bandit_gym.rollout", "bandit_gym.wrappers"),
)
"""Modules whose public names are all in the reference."""

FOLDERS = {
    "agents": {
        name: f"autoclass:: agents.{name}\n   :members:"
        for name in import_module("agents").AGENT_MODULES
    },
    "environments": {
        env_id: f"autofunction:: {gym.spec(env_id).entry_point.replace(':', '.')}"
        for env_id in import_module("bandit_gym").ENV_IDS
    },
}
"""Folders of the reference: names of pages, and what each is about. They are written anew."""

INCLUDED = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
"""Pages outside of this folder that pages of `project` include."""
LINK = re.compile(r"\[([^\]]+)\]\((?!\w+:)([^)#\s]+)[^)\s]*\)")


def write_pages(app):
    """Write a page for each agent and each environment."""
    for folder, pages in FOLDERS.items():
        room = Path(app.srcdir) / "reference" / folder
        room.mkdir(exist_ok=True)
        for name, directive in pages.items():
            text = f"# {name}\n\n```{{eval-rst}}\n.. {directive}\n```\n"
            if name != "Agent":  # which stands in front of them all
                (room / f"{name}.md").write_text(text)


def deal_tutorials(app, env, names):
    """Spread the tutorials, which take the time, over the pages: each job reads a part of these."""
    tutorials = [name for name in names if name.startswith("tutorials/")]
    others = [name for name in names if name not in tutorials]
    places = {
        name: (i + 0.5) / len(group)
        for group in (tutorials, others)
        for i, name in enumerate(group)
    }
    names.sort(key=places.get)


def lead_inside(app, name, source):
    """Name what lies outside of this folder, in place of links that would not lead to a page."""
    folder = (Path(app.srcdir) / name).parent

    def lead(link):
        target = (folder / link[2]).resolve()
        if target.is_relative_to(app.srcdir):
            return link[0]
        page = f"/project/{target.stem.lower()}.md"
        return f"[{link[1]}]({page})" if target.name in INCLUDED else link[1]

    source[0] = LINK.sub(lead, source[0])


def check_reference(app, env):
    """Warn of every public name that is not in the reference."""
    entries = env.domains["py"].objects.items()
    top = ("class", "exception", "function", "data", "attribute")
    named = [find(name) for name, entry in entries if entry.objtype in top]
    shown = {id(found) for found in named if found is not None}
    for room in ROOMS:
        for name in public_names(import_module(room)):
            value = resolve_name(f"{room}:{name}")
            if not inspect.ismodule(value) and id(value) not in shown:
                logging.getLogger(__name__).warning("not in the reference: %s.%s", room, name)


def find(name):
    """Return what a name stands for, None if it is an attribute that only instances have."""
    try:
        return resolve_name(name)
    except (AttributeError, ImportError):
        return None


def public_names(module):
    """Return the names of `__all__`, or where there is none those of its own without underscore."""
    own = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and str(getattr(value, "__module__", "")).startswith(module.__name__)
    ]
    return getattr(module, "__all__", own)


def sign(app, what, name, value, options, signature, returns):
    """Return the arguments of `__init__` for agents, whose `__new__` takes any to remember them."""
    if signature and signature.startswith("(*arguments"):
        own = inspect.signature(value.__init__, bound_method=True)
        return inspect.stringify_signature(
            own, show_return_annotation=False, unqualified_typehints=True
        ), returns


def write_inline(self, node):
    """Write mathematics as MathML, which browsers show by themselves."""
    self.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def write_block(self, node):
    """Write an equation in a line of its own."""
    self.body.append(tex2mathml(node.astext(), as_block=True))
    raise nodes.SkipNode


def setup(app):
    """Tell Sphinx of all that."""
    # Several tutorials run at once: more workers and threads of each would wait for a core.
    os.environ |= {"LOKY_MAX_CPU_COUNT": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    app.add_html_math_renderer("mathml", (write_inline, None), (write_block, None))
    app.connect("builder-inited", write_pages)
    app.connect("env-before-read-docs", deal_tutorials)
    app.connect("autodoc-process-signature", sign)
    app.connect("source-read", lead_inside)
    app.connect("env-check-consistency", check_reference)
