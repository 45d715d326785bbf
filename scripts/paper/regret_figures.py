"""Figures 1a, 1b and 2: regret curves of Racing Thompson, SMC and Thompson sampling."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bandit_gym.experiments.execution import Workers
from bandit_gym.results.results import RunResults, paired_differences
from bandit_gym.results.statistics import Interval, mean_interval
from paper import common
from paper.common import Section, Verdict
from paper.settings import FIGURE_1B, FIGURE_2, FULL, PAPER_RACING, REFERENCE_TS, TRUTH, Scale

RACING, THOMPSON, EXACT, SMC = "Racing", "Thompson, Beta(1,1)", "exact Thompson", "SMC"
PRIOR_SEED = 2017
EARLY_STEP = 100


def reproduce_1a(scale: Scale, folder: Path, workers: Workers) -> Section:
    """Racing against exact Thompson sampling where the prior is conjugate."""
    size = FULL["fig1a"]
    replications = scale.replications(size["replications"])
    worlds = _beta_worlds(max(2, scale.replications(size["priors"])))
    runs = common.simulate(
        folder / "data", worlds, [PAPER_RACING, TRUTH], workers,
        replications=replications, horizon=scale.horizon(size["horizon"]),
        block_size=min(50, replications),
    )  # fmt: skip
    per_world = [common.by_agent(runs, world["label"]) for world in worlds]
    difference = common.stratified_difference([(w[RACING], w[EXACT]) for w in per_world])
    samples = float(np.mean([common.samples_per_decision(w[RACING]) for w in per_world]))
    exact = mean_interval(np.concatenate([w[EXACT].final("pseudo_regret") for w in per_world]))
    return Section(
        title="Figure 1a: conjugate prior",
        choices=f"{len(worlds)} priors, each with K = 10 pairs (a, b) uniform on (1, 10), "
        f"{replications} replications of each: {len(worlds) * replications} in all, where the "
        "paper has 100.",
        body=common.save_png(_draw_1a(per_world), folder, "fig1a"),
        verdicts=(
            _no_worse("Racing is competitive with vanilla Thompson sampling", difference, exact),
            Verdict(
                "about 400 samples are used in each time step",
                "holds" if 300 < samples < 500 else "does not hold",
                f"{samples:.0f} samples per decision",
            ),
        ),
    )


def _beta_worlds(num_priors: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(PRIOR_SEED)
    worlds = []
    for number in range(num_priors):
        alpha, beta = rng.uniform(1.0, 10.0, size=(2, 10)).round(4).tolist()
        prior = {"name": "beta", "alpha": alpha, "beta": beta}
        worlds.append({"env": "BernoulliBandit-v0", "prior": prior, "label": f"prior {number}"})
    return worlds


def _draw_1a(per_world: Sequence[dict[str, RunResults]]) -> Any:
    figure, (regret, samples) = common.new_panels(["regret", "samples per decision"], 2)
    steps = per_world[0][RACING].steps
    for label, style in zip((RACING, EXACT), common.styles(), strict=False):
        curves = np.concatenate([world[label].curves("pseudo_regret") for world in per_world])
        common.draw_band(regret, steps, curves, label, style)
    regret.set(xlabel="step", ylabel="Bayesian pseudo-regret so far", ylim=(0, None))
    regret.legend()
    sums = np.concatenate([world[RACING].curves("num_samples") for world in per_world])
    rates = np.diff(sums, prepend=0, axis=1) / np.diff(steps, prepend=0)
    common.draw_band(samples, steps, rates, RACING, next(common.styles()))
    samples.axhline(400, color="0.4", linestyle=":", label="the paper's average, about 400")
    samples.set(xlabel="step", ylabel="samples per decision", xscale="log", ylim=(0, None))
    samples.legend()
    return figure


def reproduce_1b(scale: Scale, folder: Path, workers: Workers) -> Section:
    """Racing, SMC with as many particles, and Thompson with the improper prior."""
    worlds = _run_three(scale, folder, workers, FIGURE_1B, "fig1b")
    figure = _draw_worlds(worlds)
    return Section(
        title="Figure 1b: non-conjugate prior",
        choices="K = 10 truncated normals on [0, 1]; their parameters are not in the paper, so "
        f"five sets are tried. {_sizes(scale, 'fig1b')} SMC has as many particles at each step as "
        "Racing drew samples there on average.",
        body="\n\n".join([common.save_png(figure, folder, "fig1b"), _regret_table(worlds)]),
        verdicts=_verdicts_on_baselines(worlds),
    )


def reproduce_2(scale: Scale, folder: Path, workers: Workers) -> Section:
    """The same under the dependent prior."""
    worlds = _run_three(scale, folder, workers, FIGURE_2, "fig2")
    figure = _draw_worlds(worlds)
    return Section(
        title="Figure 2: dependent prior",
        choices="K = 10, normal with mean 0.5 and Σ_ij = u_i·u_j cut to [0, 1]; four draws of the "
        f"u_i, uniform on the sphere in 10 dimensions. {_sizes(scale, 'fig2')}",
        body="\n\n".join([common.save_png(figure, folder, "fig2"), _regret_table(worlds)]),
        verdicts=_verdicts_on_baselines(worlds),
    )


def _sizes(scale: Scale, name: str) -> str:
    size = FULL[name]
    return (
        f"T = {scale.horizon(size['horizon'])}, {scale.replications(size['replications'])} "
        "replications in each."
    )


def _run_three(
    scale: Scale, folder: Path, workers: Workers, worlds: Sequence[dict[str, Any]], name: str
) -> dict[str, dict[str, RunResults]]:
    """Run Racing and the two Thompsons, then SMC with Racing's sample counts."""
    replications = scale.replications(FULL[name]["replications"])
    sizes = {
        "replications": replications,
        "horizon": scale.horizon(FULL[name]["horizon"]),
        "block_size": min(25, replications),
    }
    agents = [PAPER_RACING, REFERENCE_TS, TRUTH]
    runs = common.simulate(folder / "data", worlds, agents, workers, **sizes)
    found = {world["label"]: common.by_agent(runs, world["label"]) for world in worlds}
    for world in worlds:
        schedule = common.sample_schedule(found[world["label"]][RACING])
        smc = {"agent": "smc", "num_particles": schedule, "label": SMC}
        (run,) = common.simulate(folder / "data", [world], [smc], workers, **sizes)
        found[world["label"]][SMC] = run
    return found


def _draw_worlds(worlds: dict[str, dict[str, RunResults]]) -> Any:
    figure, panels = common.new_panels(list(worlds))
    for axes, runs in zip(panels, worlds.values(), strict=True):
        common.draw_curves(axes, [runs[label] for label in (RACING, THOMPSON, SMC, EXACT)])
        axes.set(xscale="log", xlabel="step", ylabel="Bayesian pseudo-regret so far")
    panels[0].legend(fontsize="small")
    return figure


def _regret_table(worlds: dict[str, dict[str, RunResults]]) -> str:
    header = [
        "prior",
        RACING,
        *(f"{label}, less Racing's" for label in (THOMPSON, SMC, EXACT)),
        "samples",
    ]
    rows = [
        [
            label,
            common.written(common.final_regret(runs[RACING])),
            *(
                common.written(common.difference(runs[name], runs[RACING]))
                for name in (THOMPSON, SMC, EXACT)
            ),
            f"{common.samples_per_decision(runs[RACING]):.0f}",
        ]
        for label, runs in worlds.items()
    ]
    title = "Final Bayesian pseudo-regret with 95 % intervals; differences paired by replication."
    return f"{title}\n\n" + common.markdown_table(header, rows)


def _verdicts_on_baselines(worlds: dict[str, dict[str, RunResults]]) -> tuple[Verdict, ...]:
    against_thompson = {k: common.difference(w[THOMPSON], w[RACING]) for k, w in worlds.items()}
    against_smc = {k: common.difference(w[SMC], w[RACING]) for k, w in worlds.items()}
    early = {k: _difference_at(w[SMC], w[RACING], EARLY_STEP) for k, w in worlds.items()}
    against_truth = common.stratified_difference([(w[RACING], w[EXACT]) for w in worlds.values()])
    truth = mean_interval(
        np.concatenate([w[EXACT].final("pseudo_regret") for w in worlds.values()])
    )
    return (
        _behind("Racing outperforms Thompson with the improper Beta(1,1) prior", against_thompson),
        _similar(f"SMC is similar to Racing while T is small (t = {EARLY_STEP})", early),
        _behind("Racing outperforms SMC as T grows", against_smc),
        _no_worse(
            "(the truth the paper lacked) Racing equals exact Thompson sampling",
            against_truth,
            truth,
        ),
    )


def _difference_at(found: RunResults, reference: RunResults, step: int) -> Interval:
    column = int(np.searchsorted(found.steps, step))
    differences = paired_differences(found, reference, "pseudo_regret")[1]
    return mean_interval(differences[:, min(column, differences.shape[1] - 1)])


def _behind(claim: str, differences: dict[str, Interval]) -> Verdict:
    """Say in how many worlds the other agent's regret is significantly above Racing's."""
    num_behind = sum(interval.low > 0 for interval in differences.values())
    num_ahead = sum(interval.high < 0 for interval in differences.values())
    if num_behind == len(differences):
        holds = "holds"
    elif num_behind:
        holds = "holds in part"
    else:
        holds = "does not hold" if num_ahead else "undecided"
    return Verdict(claim, holds, _listed(differences))


def _similar(claim: str, differences: dict[str, Interval]) -> Verdict:
    """Say in how many worlds the two cannot be told apart."""
    num_same = sum(interval.low <= 0 <= interval.high for interval in differences.values())
    holds = (
        "holds"
        if num_same == len(differences)
        else "holds in part"
        if num_same
        else "does not hold"
    )
    return Verdict(claim, holds, _listed(differences))


def _listed(differences: dict[str, Interval]) -> str:
    listed = "; ".join(f"{label}: {common.written(value)}" for label, value in differences.items())
    return f"its regret less Racing's, paired: {listed}"


def _no_worse(claim: str, difference: Interval, reference: Interval) -> Verdict:
    """Say whether the difference could be above a tenth of the reference's regret."""
    is_close = difference.high < 0.1 * reference.estimate
    return Verdict(
        claim,
        "holds" if is_close else "does not hold",
        f"paired difference {common.written(difference, 2)} where exact Thompson loses "
        f"{common.written(reference)}; an upper end below 10 % of that counts as equal",
    )
