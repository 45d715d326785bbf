"""What a notebook shows: a film of a run, and buttons to pull the arms by hand."""

import io
import sys

import pytest
from PIL import Image

import bandit_gym as bg

NAME = "BernoulliBandit-v0"


def test_a_film_holds_a_picture_of_each_frame_and_shows_the_first():
    film = bg.film("ucb1", {"env": NAME, "num_arms": 3}, horizon=4)
    html = film._repr_html_()
    sizes = [Image.open(io.BytesIO(picture)).size for picture in film.pictures]
    assert sizes == [(960, 540)] * 4 and (html.count("<img"), html.count("display: none")) == (4, 3)
    assert 'max="3"' in html and "\x1b" not in html


def test_buttons_pull_their_arms_until_the_end_and_the_truth_is_shown_when_asked_for():
    pytest.importorskip("ipywidgets")
    hidden, shown = [], []
    for means in ([0, 1], [1, 0]):
        game = bg.play({"env": NAME, "num_arms": 2, "means": means}, horizon=2)
        buttons, paid, picture, truth = game.children
        hidden.append(picture.value)
        truth.value = True
        shown.append(picture.value)
    assert hidden[0] == hidden[1] != shown[0] != shown[1]
    for button, text in zip(buttons.children, ("Arm 0 paid 1.", "Arm 1 paid 0."), strict=True):
        assert not button.disabled
        button.click()
        assert paid.value == text
    assert all(button.disabled for button in buttons.children) and picture.value != shown[1]


def test_what_cannot_be_played_by_hand_is_refused_in_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    with pytest.raises(ImportError, match=r'^play needs .*: pip install "\.\[notebook\]"\.$'):
        bg.play(NAME)
    monkeypatch.setitem(sys.modules, "ipywidgets", pytest)
    with pytest.raises(ValueError, match="env must be a bandit without features, got 'Contextual"):
        bg.play("ContextualBandit-v0")
