"""Pages that show numbers which today's code would not draw are listed, and no others are."""

import tomllib

import golden
import pytest
from documents import ROOT

MEASURED = tomllib.loads(golden.MEASURED.read_text())
PICTURES = sorted(ROOT.glob("docs/**/*.png"))


def test_stale_pages_are_those_of_the_list():
    stale = tomllib.loads(golden.STALE.read_text())
    assert golden.stale_pages() == set(stale), (
        "measure them again and run python scripts/golden.py --measured PAGE, or list them in "
        "docs/stale.toml with the issue that will"
    )
    assert all(isinstance(issue, int) for issue in stale.values())


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_picture_has_a_record_of_its_command(picture):
    page = str(picture.relative_to(ROOT).with_suffix(""))
    assert any(page.startswith(name.removesuffix(".md").removesuffix(".png")) for name in MEASURED)


def test_measured_pages_exist():
    assert all((ROOT / page).exists() for page in MEASURED)


def test_a_page_is_stale_until_it_is_measured_again(tmp_path, monkeypatch):
    copy = tmp_path / "measured.toml"
    text = golden.MEASURED.read_text()
    copy.write_text(text.replace(MEASURED["docs/compare.png"]["digest"], "f" * 16))
    monkeypatch.setattr(golden, "MEASURED", copy)
    assert "docs/compare.png" in golden.stale_pages()
    golden.main(["--measured", "docs/compare.png"])
    assert "docs/compare.png" not in golden.stale_pages()


def test_a_page_without_a_record_cannot_be_said_to_be_measured():
    with pytest.raises(ValueError, match=r"measured must be one of docs/compare.png, .* got 'x'"):
        golden.stamp("x")
