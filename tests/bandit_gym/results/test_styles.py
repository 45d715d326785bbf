import matplotlib
import pytest

from bandit_gym.results import plots
from bandit_gym.results.styles import FORMATS, drawing_in, fill, size, text_width, wrapped


def paper(results):
    return dict(plots.draw_each(results, {"regret": plots.draw_regret}, "paper"))["00-regret"]


def test_figures_for_papers_are_a_column_wide_serif_and_without_titles(results):
    figure = paper(results)
    assert figure.get_figwidth() == 3.33
    assert figure.get_suptitle() == ""
    assert figure.axes[0].get_title() == ""
    assert "serif" in figure.axes[0].xaxis.label.get_fontfamily()


def test_axes_of_figures_for_papers_are_inside_of_them(results):
    figure = paper(results)
    figure.draw_without_rendering()
    box = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    assert box.x0 >= 0 and box.y0 >= 0
    assert box.x1 <= width and box.y1 <= height


def test_a_style_ends_with_its_block():
    before = size(), list(matplotlib.rcParams["font.family"])
    with pytest.raises(RuntimeError), drawing_in("paper"):
        assert size() != before[0]
        raise RuntimeError
    assert (size(), list(matplotlib.rcParams["font.family"])) == before


def test_a_mark_stays_when_titles_go(results):
    import dataclasses

    kept = dataclasses.replace(results, kept="other code")
    assert "other code" in paper(kept).get_suptitle()


def test_figures_are_the_same_bytes_in_every_format(results, tmp_path):
    heads = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    for folder in ("a", "b"):
        plots.save(paper(results), tmp_path / folder / "regret", list(FORMATS))
    for name, head in heads.items():
        first, second = ((tmp_path / f / f"regret.{name}").read_bytes() for f in ("a", "b"))
        assert first == second
        assert first.startswith(head)


@pytest.mark.parametrize("text", ["W" * 200, "i" * 200, "i" * 99 + " " + "W" * 100, "$" * 50, " "])
def test_text_is_broken_into_lines_that_fit_and_stays_whole(text):
    lines = fill(text, 64, 36).splitlines()
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert max(map(len, lines)) <= 64
    assert max(map(text_width, lines)) <= 36


def test_a_letter_wider_than_the_space_has_a_line_of_its_own():
    assert fill("WW", 9, 0.5).splitlines() == ["W", "W"]


def test_long_titles_are_broken_at_their_commas():
    title = "Bandit(" + ",".join(["num_arms=10"] * 8) + ")"
    lines = wrapped(title).splitlines()
    assert [line.count("num_arms") for line in lines] == [4, 4]
    assert all(len(line) <= 64 for line in lines)


@pytest.mark.parametrize(("length", "num_lines"), [(31, 1), (32, 2)])
def test_titles_have_lines_of_at_most_64_characters(length, num_lines):
    """With its comma and no blank, a title of 64 characters is left as it is."""
    title = "r" * 32 + "," + "t" * length
    assert len(wrapped(title).splitlines()) == num_lines
