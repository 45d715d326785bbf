"""Frames as animations in files."""

import shutil

import pytest
from PIL import Image
from watched import make_frame

from bandit_gym.watching.film import filming


def write_film(kind, path, steps=(1, 2)):
    with filming(kind, path, fps=5) as add:
        for step in steps:
            add(make_frame(step=step))


def test_a_gif_has_a_picture_for_each_frame_and_goes_on_for_ever(tmp_path):
    write_film("gif", tmp_path / "a.film")
    with Image.open(tmp_path / "a.film") as film:
        assert (film.format, film.n_frames, film.size) == ("GIF", 2, (800, 560))
        assert (film.info["duration"], film.info["loop"]) == (200, 0)


@pytest.mark.parametrize("kind", ["gif", "mp4"])
def test_a_film_that_is_not_finished_leaves_what_was_there(kind, tmp_path, monkeypatch):
    put_ffmpeg(tmp_path, monkeypatch, "cat > /dev/null")
    (tmp_path / "a").write_text("mine")
    with pytest.raises(KeyboardInterrupt), filming(kind, tmp_path / "a", fps=5) as add:
        add(make_frame())
        raise KeyboardInterrupt
    assert (tmp_path / "a").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "bin"]


def put_ffmpeg(folder, monkeypatch, script):
    """Let this script be the only ffmpeg there is."""
    program = folder / "bin" / "ffmpeg"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")


def test_without_ffmpeg_one_sentence_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="--mp4 must have ffmpeg .*; install it .* or write --gif"):
        write_film("mp4", tmp_path / "a.mp4")


@pytest.mark.parametrize("script", ["exit 1", "cat > /dev/null; exit 1"], ids=["first", "last"])
def test_an_ffmpeg_that_fails_is_one_sentence(script, tmp_path, monkeypatch):
    put_ffmpeg(tmp_path, monkeypatch, script)
    with pytest.raises(OSError, match="ffmpeg must be able to write MP4, got: "):
        write_film("mp4", tmp_path / "a.mp4", steps=(1,))
    assert not (tmp_path / "a.mp4").exists()


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="needs ffmpeg")
def test_an_mp4_is_one(tmp_path):
    write_film("mp4", tmp_path / "a.mp4")
    assert (tmp_path / "a.mp4").read_bytes()[4:8] == b"ftyp"
