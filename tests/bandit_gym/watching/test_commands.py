"""The command that shows a run as it goes."""

import io

import pytest
from PIL import Image

from bandit_gym.cli import main


def watch(*arguments, horizon=5):
    return main(["watch", "--agent", "random", "--horizon", str(horizon), *map(str, arguments)])


def test_watch_prints_how_the_run_ended(capsys):
    assert watch("--env-options", '{"num_arms": 3}', "--seed", "1") == 0
    text = capsys.readouterr().out
    assert text.startswith("BernoulliBandit-v0(num_arms=3)\nrandom\nstep 5 of 5, arm ")
    assert "\x1b" not in text


def test_watch_writes_an_animation_and_says_where(tmp_path, capsys):
    assert watch("--gif", tmp_path / "new" / "a.gif", "--fps", "20", horizon=2) == 0
    assert capsys.readouterr().out.endswith(f"\nAnimation: {tmp_path / 'new' / 'a.gif'}\n")
    with Image.open(tmp_path / "new" / "a.gif") as film:
        assert (film.n_frames, film.info["duration"]) == (2, 50)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--env", "BernouliBandit-v0"], "the nearest known one is 'BernoulliBandit-v0'"),
        (["--env", "CartPole-v1"], "env must have a `problem`"),
        (["--env-options", "[3]"], "--env-options must be like"),
        (["--agent", "racin"], "the nearest known one is 'racing'"),
        (["--agent", "racing:delta=2"], "delta must be a finite number above 0 and below 1"),
        (["--agent", 'racing:grid={"delta":[0.1,0.2]}'], "--agent must be one agent in one world"),
        (["--horizon", "0"], "horizon must be a positive integer, got 0"),
        (["--seed", "x"], "seed must be a non-negative integer, got 'x'"),
        (["--seed", str(2**64)], "seed must be at most 2**64 - 1"),
        (["--fps", "0"], "fps must be a finite number above 0 and at most 50, got 0.0"),
        (["--fps", "nan"], "fps must be a finite number above 0 and at most 50, got nan"),
        (["--gif", "."], "gif must be a file, and no folder, got '.'"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(arguments, message, capsys):
    assert watch(*arguments) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert (printed.err.count("\n"), printed.out) == (1, "")


def test_an_agent_that_fails_is_one_sentence_and_exit_code_1(capsys, tmp_path):
    arguments = ["--agent", "stub_agents:Raising:at=2", "--gif", tmp_path / "a.gif"]
    assert watch(*arguments) == 1
    printed = capsys.readouterr()
    assert "step 2 of 5" in printed.out
    assert printed.err.splitlines()[-1] == (
        "bandit-gym: Raising(at=2) failed in BernoulliBandit-v0 after 2 steps: "
        "RuntimeError: I have had enough"
    )
    assert not (tmp_path / "a.gif").exists()


def test_the_modules_of_others_are_named(capsys):
    assert watch("--agent", "stub_agents:Constant") == 0
    assert capsys.readouterr().err.startswith("bandit-gym: stub_agents is ")


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def test_ctrl_c_gives_the_cursor_back_and_ends_with_130(monkeypatch, capsys):
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    pauses = iter([None, KeyboardInterrupt])

    def wait(seconds):
        if error := next(pauses):
            raise error

    monkeypatch.setattr("time.sleep", wait)
    assert watch() == 130
    shown = terminal.getvalue()
    assert "step 1 of 5" in shown and "step 2 of 5" not in shown
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")
    assert capsys.readouterr().err == "bandit-gym: interrupted\n"
