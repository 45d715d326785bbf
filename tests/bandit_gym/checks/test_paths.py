"""Paths are refused before anything is made there."""

import pytest

from bandit_gym.checks import check_folder, check_path, make_folder


@pytest.mark.parametrize("value", [None, 5, b"x", ["x"]])
def test_what_is_no_path_is_of_the_wrong_type(value):
    with pytest.raises(TypeError, match="out must be a path that a file system can hold"):
        check_path("out", value)


@pytest.mark.parametrize("value", ["", "a\0b", "\ud800", "x" * 5000])
def test_what_no_file_system_can_hold_is_refused(value):
    with pytest.raises(ValueError, match="out must be a path that a file system can hold"):
        check_path("out", value)


def test_a_name_that_is_not_utf_8_is_a_path():
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    assert check_path("out", name).name == name


@pytest.mark.parametrize("path", ["file", "file/below"])
def test_a_file_where_a_folder_is_to_be_is_refused(path, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError, match="out must be a folder, got"):
        check_folder("out", tmp_path / path)


def test_a_link_that_leads_nowhere_is_refused(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    with pytest.raises(FileExistsError, match="out must be no link that leads nowhere, got"):
        check_folder("out", tmp_path / "link")


def test_a_link_to_a_folder_is_a_folder(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    assert check_folder("out", tmp_path / "link" / "new") == tmp_path / "link" / "new"


def test_a_folder_that_cannot_be_made_is_named_with_the_reason():
    with pytest.raises(OSError, match="out must be a folder that can be made, got '/proc/x'; "):
        make_folder("out", check_path("out", "/proc/x"))
