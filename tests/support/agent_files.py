"""Files of saved agents, one a kind of posterior, which every later version has to read.

python tests/support/agent_files.py           writes those that are missing
python tests/support/agent_files.py --renew   writes all anew, where draws or the format changed
"""

import json
import sys
from pathlib import Path

import numpy as np
from surface import play, shown, started

from agents import load
from agents.base.saved import AGENT_FILE_FORMAT
from bandit_gym.likelihoods import Bernoulli, Gaussian
from bandit_gym.priors import (
    Beta,
    HierarchicalBeta,
    Normal,
    TruncatedMultivariateNormal,
    TruncatedNormal,
)
from bandit_gym.problem import BanditProblem, ContextualProblem

FOLDER = Path(__file__).parent.parent / "agents" / "data"
EXPECTED = FOLDER / f"expected-format-{AGENT_FILE_FORMAT}.json"
TABLES = BanditProblem(Bernoulli(), TruncatedNormal(0.4, 0.2), 4)
COVARIANCE = (0.02 * np.eye(4) + 0.02).tolist()
FACTOR = BanditProblem(Bernoulli(), TruncatedMultivariateNormal(0.5, COVARIANCE), 4)
MIXTURE = BanditProblem(Bernoulli(), HierarchicalBeta([2.0, 8.0], [8.0, 2.0]), 4)
AGENTS = {
    "conjugate": ("exact", BanditProblem(Bernoulli(), Beta(2.0, 3.0), 4), None),
    "tables": ("exact", TABLES, 2),
    "mixture": ("exact", MIXTURE, None),
    "window": ("sliding_window", TABLES, 2),
    "decisions": ("moss", TABLES, 2),
    "chains": ("exact", FACTOR, None),
    "particles": ("smc", TABLES, 2),
    "race": ("racing", FACTOR, 2),
    "fits": ("racing", ContextualProblem(Bernoulli(), Normal(0.0, 1.0), 4, 3), None),
    "linear": ("exact", ContextualProblem(Gaussian(0.5), Normal(0.0, 1.0), 4, 3), None),
}
"""Kind -> agent, problem, number of lanes. Its options are those that need none."""


def path_of(name, file_format=AGENT_FILE_FORMAT):
    """Return where the file of a kind is."""
    return FOLDER / f"{name}-format-{file_format}.agent"


def describe(agent):
    """Return what an agent has observed, and how it goes on."""
    state = [agent.lane_counts.tolist(), agent.lane_sums.tolist(), repr(agent)]
    return [*state, np.asarray(agent.act(shown(agent))).tolist(), play(agent, 12, seed=5).tolist()]


def write_files(is_anew):
    """Write the files, and what is expected of agents that are loaded from them."""
    expected = {} if is_anew or not EXPECTED.exists() else json.loads(EXPECTED.read_text())
    for name, (short_name, problem, num_envs) in AGENTS.items():
        if name not in expected:
            agent = started(short_name, problem, num_envs)
            play(agent, 7)
            agent.save(path_of(name))
            expected[name] = describe(load(path_of(name)))
    EXPECTED.write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    write_files("--renew" in sys.argv)
