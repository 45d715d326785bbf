import dataclasses
import math
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest
from fixed_instance import ENV, FIXED
from matplotlib.figure import Figure

from bandit_gym.experiments.execution import Workers, run_experiment
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.results import plots
from bandit_gym.results.curves import RANK_NAMES
from bandit_gym.results.results import load_results
from bandit_gym.results.styles import COLOURS, wrapped

SMC = {"agent": "smc", "num_particles": 20}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    experiment = Experiment(
        environments=[ENV, FIXED],
        agents=["random", SMC, {"agent": "stub_agents:Constant", "arm": 1}],
        replications=20,
        horizon=30,
    )
    folder = tmp_path_factory.mktemp("plots")
    run_experiment(experiment, folder, workers=Workers("serial"))
    return load_results(folder)


@pytest.fixture
def runs(results):
    return results.usable(results.experiment.environments[0])


@pytest.fixture
def fixed_runs(results):
    return results.usable(results.experiment.environments[1])


def lines_of(figure):
    return {line.get_label(): line for line in figure.axes[0].lines}


def test_every_figure_is_drawn_for_every_environment(results):
    names = [name for name, _ in plots.draw_all(results)]
    assert names == [
        *(f"{number:02d}-{name}" for number in (0, 1) for name in plots.FIGURES),
        "performance-profile",
    ]


def test_regret_curves_are_the_means_over_replications(runs):
    lines = lines_of(plots.draw_regret(runs))
    for found in runs:
        expected = found.curves("pseudo_regret").mean(axis=0)
        assert lines[found.run.agent.label].get_ydata() == pytest.approx(expected)


def test_regret_axis_says_in_words_which_regret_it_shows(runs, fixed_runs):
    random, fixed = (plots.draw_regret(r).axes[0].get_ylabel() for r in (runs, fixed_runs))
    assert random.startswith("Bayesian pseudo-regret so far")
    assert fixed.startswith("pseudo-regret so far")


def test_lai_robbins_line_is_drawn_for_fixed_means_only(runs, fixed_runs):
    random, fixed = (" ".join(lines_of(plots.draw_regret(r))) for r in (runs, fixed_runs))
    assert "Lai-Robbins" not in random
    assert "Lai-Robbins" in fixed


def test_lai_robbins_line_does_not_squeeze_the_curves(tmp_path):
    """Means this close make its slope about 37; uniform play loses 30 * 0.01."""
    world = {"env": ENV, "num_arms": 3, "means": [0.49, 0.50, 0.51]}
    experiment = Experiment(environments=[world], agents=["random"], replications=5, horizon=30)
    run_experiment(experiment, tmp_path, workers=Workers("serial"))
    figure = plots.draw_regret(list(load_results(tmp_path).runs))
    assert figure.axes[0].get_ylim()[1] < 1
    assert max(figure.axes[0].lines[-1].get_ydata()) > 100


def test_a_long_legend_makes_the_figure_taller(runs):
    short, long = (plots.draw_final_regret(shown) for shown in (runs[:2], runs * 4))
    assert long.get_figheight() > short.get_figheight() + 0.5


def test_differences_leave_the_reference_at_zero(runs):
    lines = lines_of(plots.draw_differences(runs))
    assert np.all(np.array(lines["random (reference)"].get_ydata()) == 0)


def test_differences_need_two_agents(runs):
    assert plots.draw_differences(runs[:1]) is None


def test_samples_are_drawn_only_for_agents_that_tell_them(runs):
    lines = lines_of(plots.draw_samples(runs))
    assert list(lines) == ["smc(num_particles=20)"]
    assert lines["smc(num_particles=20)"].get_ydata() == pytest.approx(20.0)
    assert plots.draw_samples(runs[:1]) is None


def test_final_regret_is_drawn_as_a_distribution(runs):
    values = lines_of(plots.draw_final_regret(runs))["random"].get_xdata()
    assert sorted(runs[0].final("pseudo_regret")) == pytest.approx(values)


def test_arm_shares_add_up_to_one(runs):
    _, shares = plots.rank_shares(runs[0])
    assert shares.sum(axis=0) == pytest.approx(1.0)


def test_styles_of_the_first_28_agents_all_differ():
    styles = [tuple(style.values()) for _, style in zip(range(28), plots.styles(), strict=False)]
    assert len(set(styles)) == 28


def test_figures_are_saved_as_png_and_svg_the_same_bytes_each_time(tmp_path, runs):
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        plots.save(plots.draw_regret(runs), folder / "regret")
    for suffix in ("png", "svg"):
        first, second = ((folder / f"regret.{suffix}").read_bytes() for folder in folders)
        assert first == second


@pytest.mark.parametrize(("count", "num_bands"), [(9, 0), (10, 1)])
def test_bands_are_drawn_from_ten_replications_on(count, num_bands):
    axes = Figure().subplots()
    curves = np.random.default_rng(0).random((count, 4))
    plots.draw_band(axes, np.arange(4), curves, "agent", next(plots.styles()))
    assert len(axes.collections) == num_bands


def test_a_figure_without_bands_says_so(runs):
    def subtitle(count):
        blocks = [
            dataclasses.replace(runs[0].blocks[0], replications=range(count)),
        ]
        few = dataclasses.replace(runs[0], blocks=tuple(blocks))
        return plots.draw_regret([few]).axes[0].get_title()

    assert subtitle(10) == "10 replications; bands: 95 % interval of the mean"
    assert subtitle(9) == "9 replications; no bands below 10"


def test_one_replication_is_drawn_without_a_band(runs, tmp_path):
    experiment = Experiment(environments=[ENV], agents=["random"], replications=1, horizon=30)
    run_experiment(experiment, tmp_path, workers=Workers("serial"))
    for _, figure in plots.draw_all(load_results(tmp_path)):
        assert isinstance(figure, Figure)
        assert not np.isnan(figure.axes[0].get_ylim()).any()


AGENTS = ["random", "ucb1", {"agent": "stub_agents:Constant", "label": "constant"}]
RUNS = Experiment(environments=[FIXED], agents=AGENTS, replications=3, horizon=4).runs
SLOPE = 2.5
CURVES = {
    "pseudo_regret": [[1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 4.0, 6.0], [1.0, 2.0, 5.0, 11.0]],
    "num_samples": [[2.0, 6.0, 6.0, 7.0]] * 3,
    "action_rank": [[0, 1, 2, 3], [0, 1, 4, 5], [0, 2, 9, 4]],
}


def stand_in(run=RUNS[0], scale=1.0, copies=1):
    """Three replications of `CURVES`, times a scale, or copies of them in place of stored ones."""
    curves = {name: np.array(values * copies) * scale for name, values in CURVES.items()}
    return SimpleNamespace(
        run=run,
        steps=run.steps,
        replications=np.arange(3 * copies),
        blocks=[SimpleNamespace(receipt={"lai_robbins_slope": SLOPE})],
        curves=curves.get,
        final=lambda name: curves[name][:, -1],
        optimum=None,
    )


def test_bands_are_students_intervals_of_the_mean():
    """At the last step 4, 6, 11 four times: mean 7; 97.5 % point of t with 11 degrees 2.200985."""
    figure = plots.draw_regret([stand_in(copies=4)])
    (band,) = figure.axes[0].collections
    ends = [y for x, y in band.get_paths()[0].vertices if x == 4]
    half = 2.200985 * math.sqrt(4 * (9 + 1 + 16) / 11 / 12)
    assert (min(ends), max(ends)) == pytest.approx((7 - half, 7 + half))


def test_final_regrets_are_drawn_as_shares_of_replications_that_lose_no_more():
    (line,) = plots.draw_final_regret([stand_in()]).axes[0].lines
    assert line.get_xdata().tolist() == [4.0, 6.0, 11.0]
    assert line.get_ydata() == pytest.approx([1 / 3, 2 / 3, 1.0])
    assert line.get_drawstyle() == "steps-post"


def test_samples_are_drawn_per_decision_between_two_recorded_steps():
    """2, 6, 6 and 7 samples after steps 1 to 4: 2, 4, 0 and 1 in each."""
    (line,) = plots.draw_samples([stand_in()]).axes[0].lines
    assert line.get_ydata().tolist() == [2.0, 4.0, 0.0, 1.0]


def test_samples_are_means_over_the_steps_that_lie_between():
    run = SimpleNamespace(**{**vars(stand_in()), "steps": np.array([2, 4, 8, 9])})
    (line,) = plots.draw_samples([run]).axes[0].lines
    assert line.get_ydata().tolist() == [1.0, 2.0, 0.0, 1.0]


def test_arm_shares_count_ranks_and_put_the_fifth_and_worse_arms_together():
    times, shares = plots.rank_shares(stand_in())
    assert times == pytest.approx([1.0, 2.0, 3.0, 4.0])
    thirds = [[3, 0, 0, 0], [0, 2, 0, 0], [0, 1, 1, 0], [0, 0, 0, 1], [0, 0, 2, 2]]
    assert shares * 3 == pytest.approx(np.array(thirds))


def test_arm_shares_of_many_steps_are_averaged_over_forty_spans_of_them():
    """80 steps: spans of two, drawn at their geometric mean."""
    ranks = np.tile([0, 1], (3, 40))
    found = SimpleNamespace(steps=np.arange(1, 81), curves=lambda name: ranks)
    times, shares = plots.rank_shares(found)
    assert times == pytest.approx(np.sqrt(np.arange(1, 81, 2) * np.arange(2, 81, 2)))
    assert shares[:2] == pytest.approx(0.5)


def test_one_panel_an_agent_shows_the_arms_it_chose():
    figure = plots.draw_arm_choice([stand_in(run) for run in RUNS])
    panels = figure.axes
    assert [axes.get_title(loc="left") for axes in panels] == ["random", "ucb1", "constant"]
    assert [axes.get_xlabel() for axes in panels] == ["", "", "step"]
    assert all(axes.get_xscale() == "log" for axes in panels)
    assert all(axes.get_xlim() == (1, 4) and axes.get_ylim() == (0, 1) for axes in panels)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(RANK_NAMES)


def test_arm_choice_has_room_for_every_panel():
    """1.1 inches a panel and 1.4 for what stands around them; the legend takes two rows."""
    heights = [plots.draw_arm_choice([stand_in(r) for r in RUNS[:n]]) for n in (1, 3)]
    assert [f.get_figheight() for f in heights] == pytest.approx([2.5, 4.7])


def test_differences_are_paired_with_the_first_run():
    runs = [stand_in(RUNS[0]), stand_in(RUNS[1], scale=3.0)]
    reference, other = plots.draw_differences(runs).axes[0].lines
    assert reference.get_label() == "random (reference)"
    expected = 2 * np.mean(CURVES["pseudo_regret"], axis=0)
    assert other.get_ydata() == pytest.approx(expected)


@pytest.mark.parametrize(("name", "scale"), [("regret", "linear"), ("regret-log-time", "log")])
def test_time_is_linear_unless_asked_for_in_logarithms(name, scale):
    assert plots.FIGURES[name]([stand_in()]).axes[0].get_xscale() == scale


def test_lower_bound_is_drawn_with_its_slope():
    line = plots.draw_regret([stand_in()]).axes[0].lines[-1]
    assert line.get_ydata() == pytest.approx(SLOPE * np.log([1, 2, 3, 4]))
    assert line.get_label() == f"Lai-Robbins rate, {SLOPE:.1f} log t"
    assert line.get_linestyle() == ":"


def test_regret_is_drawn_from_zero_upwards():
    assert plots.draw_regret([stand_in()]).axes[0].get_ylim()[0] == 0


def test_shares_are_drawn_from_nothing_to_all():
    assert plots.draw_final_regret([stand_in()]).axes[0].get_ylim() == (0, 1)


def test_figures_of_time_say_what_they_show():
    axes = plots.draw_regret([stand_in()]).axes[0]
    assert axes.get_title() == "3 replications; no bands below 10"
    assert axes.get_xlabel() == "step"
    assert axes.get_ylabel() == "pseudo-regret so far\n(best mean − pulled mean, summed)"


def test_samples_are_drawn_in_logarithms_with_round_numbers_beside():
    axes = plots.draw_samples([stand_in()]).axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert [axes.yaxis.get_major_formatter()(y) for y in (0.5, 20)] == ["0.5", "20"]
    ticks = axes.yaxis.get_major_locator().tick_values(1, 10)
    assert ticks[(ticks >= 1) & (ticks <= 10)] == pytest.approx([1, 2, 5, 10])


def test_figures_are_a_column_and_a_half_wide_at_200_dots_an_inch(tmp_path):
    figure = plots.draw_final_regret([stand_in()])
    assert figure.get_size_inches().tolist() == [5.2, 4.0]
    files = plots.save(figure, tmp_path / "deep" / "figure")
    assert [path.name for path in files] == ["figure.png", "figure.svg"]
    assert matplotlib.image.imread(files[0]).shape[:2] == (800, 1040)


def test_legend_has_as_many_columns_as_fit_below_the_figure():
    """84 characters across; an entry takes 8 beside its own, here 20: three columns."""
    figure = Figure(figsize=(5.2, 4.0))
    axes = figure.subplots()
    for number in range(8):
        axes.plot([0, 1], label=f"{number:020d}")
    plots._with_legend(figure)
    assert figure.legends[0]._ncols == 3
    assert figure.get_figheight() == pytest.approx(4.0 + 0.19)  # a third row


@pytest.mark.parametrize(
    "label", ["W" * 200, "0" * 200, "i" * 100 + "W" * 100], ids=["wide", "digits", "mixed"]
)
def test_labels_of_200_letters_stay_within_the_figure_however_wide_they_are(label):
    figure = Figure(figsize=(5.2, 4.0), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], label=label)
    axes.plot([0, 2], label="another")
    figure.suptitle(wrapped(label), fontsize="medium")
    plots._with_legend(figure)
    figure.draw_without_rendering()
    for shown in (figure.legends[0], figure._suptitle):
        box = shown.get_window_extent()
        assert 0 <= box.x0 < box.x1 <= figure.bbox.x1


def test_styles_change_colours_first_and_lines_with_them():
    first = [style for _, style in zip(range(30), plots.styles(), strict=False)]
    assert [s["color"] for s in first[:8]] == [*COLOURS, COLOURS[0]]
    assert [s["linestyle"] for s in first[:5]] == ["-", "--", "-.", ":", "-"]
    assert first[28]["linestyle"] == "--"  # a second round differs from the first


def test_profile_shows_the_share_of_scores_up_to_each_level(monkeypatch):
    """99 % of the scores 0 to 1 lie below 0.99, where the picture ends."""
    scores = {"one": np.linspace(0, 1, 101)[:, None]}
    monkeypatch.setattr(plots, "normalised_scores", lambda results: scores)
    results = SimpleNamespace(experiment=SimpleNamespace(environments=[1, 2]))
    axes = plots.draw_performance_profile(results).axes[0]
    levels, shares = axes.lines[0].get_data()
    assert (len(levels), levels[0], levels[-1]) == (400, 0.0, pytest.approx(0.99))
    assert (shares[0], shares[-1]) == pytest.approx((1 / 101, 100 / 101))
    assert axes.get_title() == "all replications in 2 environments"
    assert axes.get_ylim() == (0, 1)
