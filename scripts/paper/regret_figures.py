"""Figures 1a, 1b and 2: regret curves of Racing Thompson, SMC and Thompson sampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from pages.command import Task
from pages.figures import draw_regret, name_curves, new_panels
from pages.page import Section, Verdict, graded, markdown_table, written
from pages.simulations import (
    Runs,
    curves,
    difference,
    final_regret,
    regrets,
    sample_schedule,
    samples_per_decision,
    simulate,
)

from bandit_gym.results.plots import draw_band, styles
from bandit_gym.results.results import RunResults
from bandit_gym.results.statistics import LEVEL, Interval
from paper.settings import (
    FIGURE_1B,
    FIGURE_2,
    PAPER_RACING,
    REFERENCE_TS,
    TRUTH,
    drawn_beta_world,
)

RACING, THOMPSON, EXACT, SMC = "Racing", "Thompson, Beta(1,1)", "exact Thompson", "SMC"
EARLY_STEP = 100
SIMILAR = 0.1  # share of a regret

Intervals = dict[str, Interval]


def reproduce_1a(task: Task) -> Section:
    """Racing against exact Thompson sampling where the prior is conjugate."""
    worlds = [drawn_beta_world(number) for number in range(task.sizes["priors"])]
    found = list(simulate(task, worlds, [PAPER_RACING, TRUTH], block_size=50).values())
    samples = samples_per_decision(*(runs[RACING] for runs in found))
    replications = task.sizes["replications"]
    return Section(
        title="Figure 1a: conjugate prior",
        text=f"{len(worlds)} priors, each with K = 10 pairs (a, b) uniform on (1, 10), "
        f"{replications} replications of each: {len(worlds) * replications} in all, where the "
        "paper has 100.",
        pictures={"fig1a": _draw_1a(found)},
        caption=_compared(found, EXACT),
        verdicts=[
            _no_worse("Racing is competitive with vanilla Thompson sampling", found),
            Verdict(
                "about 400 samples are used in each time step",
                graded(300 < samples < 500),
                f"{samples:.0f} samples per decision",
            ),
        ],
    )


def _draw_1a(found: Sequence[Runs]) -> Figure:
    figure, (regret, samples) = new_panels(["regret", "samples per decision"], 2)
    draw_regret(regret, {label: [runs[label] for runs in found] for label in (RACING, EXACT)})
    steps = found[0][RACING].steps
    sums = curves("num_samples", *(runs[RACING] for runs in found))
    rates = np.diff(sums, prepend=0, axis=1) / np.diff(steps, prepend=0)
    draw_band(samples, steps, rates, RACING, next(styles()))
    samples.plot(steps, np.full(len(steps), 400), ":", color="0.4", label="the paper's 400")
    samples.set(xlabel="step", ylabel="samples per decision", xscale="log", ylim=(0, None))
    for axes in (regret, samples):
        name_curves(axes)
    return figure


def _compared(found: Sequence[Runs], label: str) -> str:
    """Say how Racing ends up beside another agent, averaged over worlds."""
    racing, other = (
        final_regret(*(runs[name] for runs in found)).estimate for name in (RACING, label)
    )
    return f"Racing's regret ends at {racing:.0f}, that of {label} at {other:.0f}."


def reproduce_1b(task: Task) -> Section:
    """Racing, SMC with as many particles, and Thompson with the improper prior."""
    return _reproduce_worlds(
        task, FIGURE_1B, "fig1b", "Figure 1b: non-conjugate prior",
        "K = 10 truncated normals on [0, 1]; their parameters are not in the paper, so five "
        "sets are tried. SMC has as many particles at each step as Racing drew samples there on "
        "average.",
    )  # fmt: skip


def reproduce_2(task: Task) -> Section:
    """The same under the dependent prior."""
    return _reproduce_worlds(
        task, FIGURE_2, "fig2", "Figure 2: dependent prior",
        "K = 10, normal with mean 0.5 and Σ_ij = u_i·u_j cut to [0, 1]; four draws of the u_i, "
        "uniform on the sphere in 10 dimensions.",
    )  # fmt: skip


def _reproduce_worlds(
    task: Task, worlds: Sequence[dict[str, Any]], name: str, title: str, choices: str
) -> Section:
    found = _run_all(task, worlds)
    sizes = f"T = {task.sizes['horizon']}, {task.sizes['replications']} replications in each."
    measure = "Final Bayesian pseudo-regret with 95 % intervals; differences paired by replication."
    return Section(
        title=title,
        text=f"{choices} {sizes}",
        pictures={name: _draw_worlds(found)},
        caption=f"{_compared(list(found.values()), SMC)} {_compared(list(found.values()), EXACT)}",
        body=[measure, markdown_table([_row(world, runs) for world, runs in found.items()])],
        verdicts=_verdicts(found),
    )


def _run_all(task: Task, worlds: Sequence[dict[str, Any]]) -> dict[str, Runs]:
    """Run Racing and the two Thompsons, then SMC with Racing's sample counts."""
    found = simulate(task, worlds, [PAPER_RACING, REFERENCE_TS, TRUTH], block_size=25)
    for world in worlds:
        runs = found[world["label"]]
        smc = {"agent": "smc", "num_particles": _schedule(runs[RACING]), "label": SMC}
        runs |= simulate(task, [world], [smc], block_size=25)[world["label"]]
    return found


def _schedule(found: RunResults) -> list[int]:
    return sample_schedule(found.steps, found.curves("num_samples"))


def _draw_worlds(found: dict[str, Runs]) -> Figure:
    figure, panels = new_panels(list(found), 2)
    for axes, runs in zip(panels, found.values(), strict=True):
        draw_regret(axes, {label: [runs[label]] for label in (RACING, THOMPSON, SMC, EXACT)})
        axes.set_xscale("log")
        name_curves(axes)
    return figure


def _row(world: str, runs: Runs) -> dict[str, str]:
    return (
        {"prior": world, RACING: written(final_regret(runs[RACING]))}
        | {
            f"{name}, less Racing's": written(difference((runs[name], runs[RACING])))
            for name in (THOMPSON, SMC, EXACT)
        }
        | {"samples": f"{samples_per_decision(runs[RACING]):.0f}"}
    )


def _verdicts(found: dict[str, Runs]) -> list[Verdict]:
    similar = f"SMC is similar to Racing while T is small (t = {EARLY_STEP})"
    truth = "(the truth the paper lacked) Racing equals exact Thompson sampling"
    return [
        _behind("Racing outperforms Thompson with the improper Beta(1,1) prior", found, THOMPSON),
        _similar(similar, found, SMC, EARLY_STEP),
        _behind("Racing outperforms SMC as T grows", found, SMC),
        _no_worse(truth, list(found.values())),
    ]


def _behind(claim: str, found: dict[str, Runs], label: str) -> Verdict:
    """Say in how many worlds another agent's regret is significantly above Racing's."""
    differences = _less_racing(found, label)
    is_ahead = any(interval.high < 0 for interval in differences.values())
    is_behind = (interval.low > 0 for interval in differences.values())
    holds = graded(*is_behind, otherwise=_unless(is_ahead))
    return Verdict(claim, holds, _listed(differences))


def _similar(claim: str, found: dict[str, Runs], label: str, step: int) -> Verdict:
    """Say in how many worlds another agent's regret at a step is within a tenth of Racing's."""
    differences = _less_racing(found, label, step)
    margins = [SIMILAR * regrets(runs[RACING], step=step).mean() for runs in found.values()]
    both = list(zip(differences.values(), margins, strict=True))
    is_same = (max(-each.low, each.high) < margin for each, margin in both)
    is_apart = (max(each.low, -each.high) > margin for each, margin in both)
    evidence = f"{_listed(differences)}; within 10 % of Racing's counts as similar"
    return Verdict(claim, graded(*is_same, otherwise=_unless(any(is_apart))), evidence)


def _unless(is_refuted: bool) -> str:
    return "does not hold" if is_refuted else "undecided"


def _less_racing(found: dict[str, Runs], label: str, step: int | None = None) -> Intervals:
    """Return each world's intervals of an agent's regret less Racing's; they hold together."""
    confidence = 1 - LEVEL / len(found)
    return {
        world: difference((runs[label], runs[RACING]), confidence=confidence, step=step)
        for world, runs in found.items()
    }


def _listed(differences: Intervals) -> str:
    listed = "; ".join(f"{label}: {written(value)}" for label, value in differences.items())
    return f"its regret less Racing's, paired, intervals for all worlds together: {listed}"


def _no_worse(claim: str, found: Sequence[Runs]) -> Verdict:
    """Say whether Racing loses more than a tenth more than exact Thompson sampling."""
    excess = difference(*((runs[RACING], runs[EXACT]) for runs in found))
    truth = final_regret(*(runs[EXACT] for runs in found))
    margin = SIMILAR * truth.estimate
    return Verdict(
        claim,
        graded(excess.high < margin, otherwise=_unless(excess.low > margin)),
        f"paired difference {written(excess, 2)} where exact Thompson loses {written(truth)}; "
        "an upper end below 10 % of that counts as equal",
    )
