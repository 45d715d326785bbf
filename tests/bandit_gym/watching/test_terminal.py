"""Frames as text."""

import io

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console
from watched import LABELS, make_frame

from bandit_gym.watching.terminal import lay_out, on_terminal


class Stream(io.StringIO):
    encoding = "utf-8"


class Terminal(Stream):
    def isatty(self):
        return True


class AsciiStream(io.StringIO):
    encoding = "ascii"


def write(frame, *, width=40, num_rows=30, file=None):
    file = file or Stream()
    console = Console(file=file, width=width, legacy_windows=False)
    console.print(lay_out(frame, console, num_rows))
    return file.getvalue()


def test_a_frame_is_a_row_for_each_arm_and_the_regret_below():
    """Nine columns are left for nine heights; 18 of 27 places lie within 3 of 4 steps."""
    frame = make_frame(regrets=np.array([1.0, 1.0, 1.0]))
    assert write(frame, width=27).splitlines() == [
        "World",
        "Agent",
        "step 3 of 4, arm 2, regret",
        "1.0",
        "arm pulls mean    0       1",
        "  0     0    -    │▁▂▃▄▅▆▇█",
        "  1     1 0.75*    ▁▂▃▄▅▆▇│",
        "  2     2  0.5 <   ▁▂▃│▅▆▇█",
        "posterior, from tables; │",
        "true mean, * best arm; <",
        "pulled last",
        "regret up to step 4",
        *4 * ["█" * 18],
    ]


def test_regret_rises_from_the_bottom_to_the_top():
    frame = make_frame(step=4, steps=np.array([1, 3, 4]), regrets=np.array([0.0, 2.0, 3.0]))
    rows = write(frame, width=25).splitlines()[-4:]
    heights = [sum(" ▁▂▃▄▅▆▇█".index(row.ljust(25)[i]) for row in rows) for i in range(25)]
    np.testing.assert_allclose(heights, [32 * i / 24 for i in range(25)], atol=0.5)


def test_pulls_have_bars_where_there_is_room():
    rows = write(make_frame(), width=70).splitlines()[4:7]
    assert [row[17:35].count("█") for row in rows] == [0, 8, 16]


def test_a_terminal_of_ascii_is_drawn_on_in_ascii():
    text = write(make_frame(), file=AsciiStream())
    assert text.isascii()
    assert "| true mean" in text


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("width", [20, 40, 120])
def test_labels_are_shown_as_they_are_and_no_line_is_too_long(label, width):
    text = write(make_frame(world=label, agent=label), width=width)
    assert max(map(cell_len, text.splitlines())) <= width
    assert "".join(text.split()).startswith(2 * "".join(label.split()))


@pytest.mark.parametrize("num_rows", [16, 40])
def test_of_many_arms_as_many_are_shown_as_there_is_room_for(num_rows):
    text = write(make_frame(1000), num_rows=num_rows)
    assert len(text.splitlines()) == num_rows
    assert f"and {1000 - (num_rows - 12):,} arms pulled less" in text


def test_what_nobody_tells_is_left_out():
    text = write(make_frame(means=None, regrets=None))
    assert "true mean" not in text and "*" not in text and "regret" not in text


def test_elsewhere_than_on_a_terminal_the_last_frame_is_printed_alone(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with on_terminal(fps=1e-9) as paint:
        paint(make_frame(step=2))
        paint(make_frame())
        assert capsys.readouterr().out == ""
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert text.count("World") == 1 and "step 3 of 4" in text


def test_a_run_without_a_frame_prints_nothing(capsys):
    with on_terminal(fps=1):
        pass
    assert capsys.readouterr().out == ""


def test_on_a_terminal_frames_are_as_far_apart_as_is_asked_and_the_cursor_comes_back(monkeypatch):
    terminal, waited = Terminal(), []
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("time.sleep", waited.append)
    monkeypatch.setattr("time.monotonic", lambda: 100.0 + len(waited) ** 2)
    with pytest.raises(KeyboardInterrupt), on_terminal(fps=0.5) as paint:
        for step in (1, 2, 3):
            paint(make_frame(step=step))
        raise KeyboardInterrupt
    # They come 1, 4 and 9 s after the start, of which the next may be shown after 0, 3 and 6.
    assert waited[0] == 0.0
    assert waited[1] == pytest.approx(2.0)
    shown = terminal.getvalue()
    assert [shown.count(f"step {step} of 4") for step in (1, 2, 3)] == [1, 1, 1 + 1]
    assert shown.index("\x1b[?25l") < shown.index("step 1") < shown.rindex("\x1b[?25h")


def test_a_dumb_terminal_is_no_terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("TERM", "dumb")
    with on_terminal(fps=1) as paint:
        paint(make_frame())
    assert "\x1b" not in terminal.getvalue()
