import dataclasses

import numpy as np
import pytest
from fixed_instance import ENV, FIXED
from matplotlib.figure import Figure

from bandit_gym.experiments.execution import Workers, run_experiment
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.results import plots
from bandit_gym.results.results import load_results

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
