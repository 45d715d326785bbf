"""The page, as text and in a browser; one small experiment with labels that mean to do harm."""

import base64
import contextlib
import dataclasses
import gzip
import re
import shutil
import sys
from html import escape, unescape

import pytest
from fixed_instance import FIXED

from bandit_gym.experiments.execution import Workers, run_experiment
from bandit_gym.experiments.experiment import Experiment, load_experiment
from bandit_gym.experiments.storage import Store
from bandit_gym.files import RESULTS_VERSION
from bandit_gym.results.html import page
from bandit_gym.results.html.page import write_html
from bandit_gym.results.results import load_results

pytest.importorskip("plotly", reason="the extra html is not installed")
LABELS = ["<script>alert(1)</script>", "$x$ %{y} &lt;b&gt; [/red] _a_", "אבג", "L" * 200]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def harmful(tmp_path_factory):
    """Three agents that lose 0.7, 0.4 and 0 a step, and a random one, in two worlds."""
    agents = [
        {"agent": "stub_agents:Constant", "arm": number % 3, "label": label}
        for number, label in enumerate(LABELS[:3])
    ]
    agents.append({"agent": "random", "label": LABELS[3]})
    worlds = [{**FIXED, "label": "</script><b>"}, {**FIXED, "observation": "constant"}]
    experiment = Experiment(worlds, agents, replications=12, horizon=30)
    folder = tmp_path_factory.mktemp("harmful")
    run_experiment(experiment, folder, workers=Workers("serial"))
    return load_results(folder)


@pytest.fixture(scope="module")
def path(harmful, tmp_path_factory):
    return write_html(harmful, tmp_path_factory.mktemp("page") / "report.html")


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def shown(browser, path):
    """The page in a browser, and what it complained of or asked the network for."""
    tab = browser.new_context(viewport={"width": 1000, "height": 800}).new_page()
    tab.complaints = []
    tab.on("console", lambda message: tab.complaints.append(message.text))
    tab.on("pageerror", lambda error: tab.complaints.append(str(error)))
    tab.on("dialog", lambda dialog: tab.complaints.append(dialog.message))
    tab.on("request", lambda request: tab.complaints.append(request.url))
    tab.goto(path.as_uri())
    for chart in tab.locator("figure[data-chart]").all():
        chart.scroll_into_view_if_needed()
        chart.locator(".main-svg").first.wait_for(timeout=60_000)
    return tab


def chart(shown, name="0-0"):
    found = shown.locator(f'figure[data-chart="{name}"]')
    found.scroll_into_view_if_needed()
    return found


def test_page_is_small_and_asks_for_nothing(path):
    text = path.read_text("utf-8")
    assert len(text.encode()) < page.LARGEST
    assert not re.search(r'(?:src|href)="(?!#)', text)
    assert "default-src 'none'" in text


def test_page_holds_the_library_whole(path):
    from plotly.offline import get_plotlyjs

    packed = re.search(r'id="library">([^<]*)<', path.read_text("utf-8"))[1]
    assert gzip.decompress(base64.b64decode(packed)).decode() == get_plotlyjs()


def test_labels_stand_in_the_page_as_text_only(path):
    text = path.read_text("utf-8")
    assert all(f"<bdi>{escape(label)}</bdi>" in text for label in LABELS)
    assert LABELS[0] not in text
    assert "</script><b>" not in text


def test_page_has_every_part(path):
    text = path.read_text("utf-8")
    titles = ["Performance profiles", "over time", "Paired differences", "Arms pulled", "Versions"]
    assert all(title in text for title in [*titles, "The experiment", "How to cite", "p (Holm)"])


def test_experiment_of_the_page_is_the_experiment(path, harmful, tmp_path):
    found = re.search(
        r"<h2>The experiment</h2><pre[^>]*>(.*?)</pre>", path.read_text("utf-8"), re.S
    )
    (tmp_path / "again.toml").write_text(unescape(found[1]), encoding="utf-8")
    assert load_experiment(tmp_path / "again.toml") == harmful.experiment


def test_every_chart_has_words_and_a_table(path):
    text = path.read_text("utf-8")
    count = text.count('<figure data-chart="')
    assert count == 7  # regret, differences and arms of two worlds, and the profile
    assert text.count('role="img" aria-label="Line chart. ') == count
    assert text.count("<summary>Values as a table</summary>") == count


def test_same_results_give_the_same_page(path, harmful, tmp_path):
    assert write_html(harmful, tmp_path / "a.html").read_bytes() == path.read_bytes()


def test_page_that_would_be_too_large_has_fewer_points(harmful, monkeypatch):
    tried = []
    monkeypatch.setattr(page, "LARGEST", 0)
    monkeypatch.setattr(page, "_write", lambda r, rows, tables, points: tried.append(points) or "x")
    page._fit(harmful, "")
    assert tried == [200, 100, 50, 25]


def test_page_without_plotly_says_what_to_install(harmful, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "bayesian-bandit-gym\[html\]"'):
        write_html(harmful, tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def plain(monkeypatch):
    monkeypatch.setattr(page, "_library", lambda: "")


def write(results, folder):
    return write_html(results, folder / "report.html").read_text("utf-8")


def test_page_of_nothing_says_so_and_shows_the_experiment(harmful, tmp_path, plain):
    with Store.claimed(tmp_path / "new", harmful.experiment):
        text = write(load_results(tmp_path / "new"), tmp_path)
    assert "No block is stored so far that can be reported." in text
    assert "Not complete: 8 of 8 blocks are missing." in text
    assert "[[agents]]" in text and "<figure" not in text


def test_page_of_half_an_experiment_shows_that_half(harmful, tmp_path, plain):
    missing = dataclasses.replace(harmful.runs[0], blocks=())
    half = dataclasses.replace(harmful, runs=(missing, *harmful.runs[1:]))
    text = write(half, tmp_path)
    assert "Not complete: 1 of 8 blocks are missing." in text
    assert '<figure data-chart="0-0">' in text
    assert '<figure data-chart="1-0">' in text


def test_page_of_another_version_says_so(harmful, tmp_path, plain):
    older = dataclasses.replace(harmful, version=RESULTS_VERSION - 1, others=("a-run/00003",))
    text = write(older, tmp_path)
    assert f"These are results of version {RESULTS_VERSION - 1}" in text
    assert "blocks of another origin" in text


def test_browser_has_nothing_to_complain_of(shown, path):
    assert [
        each for each in shown.complaints if not each.startswith((path.as_uri(), "blob:"))
    ] == []


def test_no_button_of_a_chart_leads_online(shown):
    buttons = shown.locator('[data-chart="0-0"] .modebar-btn')
    titles = ["Download plot as a PNG", "Zoom", "Pan", "Reset axes"]
    assert [each.get_attribute("data-title") for each in buttons.all()] == titles


def test_hovering_shows_a_value_with_its_label_as_it_is(shown):
    """The first agent loses 0.7 in each of 30 steps: 21 at the end, at the top right."""
    box = chart(shown).locator(".plot .nsewdrag").bounding_box()
    shown.mouse.move(box["x"] + box["width"] - 1, box["y"] + box["height"] * 0.06)
    label = chart(shown).locator(".hoverlayer .hovertext").first
    label.wait_for(timeout=20_000)
    text = "".join(label.locator("text").all_text_contents())
    assert LABELS[0] in text
    assert "30: 21" in text


def test_legend_hides_an_agent_and_shows_it_again(shown):
    def count():
        return chart(shown).locator(".scatterlayer .js-line").count()

    button = shown.locator('[data-group="0"] [data-agent="0"]')
    before = count()
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert count() == before - 2  # its band and its curve
    button.click()
    assert count() == before


def test_axes_turn_logarithmic(shown):
    button = chart(shown).locator('[data-log="x"]')
    kind = "document.querySelector('[data-chart=\"0-0\"] .plot')._fullLayout.xaxis.type"
    assert shown.evaluate(kind) == "linear"
    button.click()
    assert shown.evaluate(kind) == "log"
    assert button.get_attribute("aria-pressed") == "true"
    button.click()


def test_a_reader_chooses_whose_pulls_are_shown(shown):
    values = "document.querySelector('[data-chart=\"0-2\"] .plot').data.map((t) => t.y.at(-1))"
    best = shown.evaluate(values)
    chart(shown, "0-2").locator("select").select_option("third arm")
    third = shown.evaluate(values)
    assert best[:3] == [0, 0, 1]
    assert third[:3] == [1, 0, 0]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_fits_a_phone_in_light_and_dark(browser, path, scheme):
    with contextlib.closing(
        browser.new_context(viewport={"width": 375, "height": 700}, color_scheme=scheme)
    ) as context:
        tab = context.new_page()
        tab.goto(path.as_uri())
        assert tab.evaluate("document.documentElement.scrollWidth") == 375
        back = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        assert back == {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 24, 28)"}[scheme]
