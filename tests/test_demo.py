"""The demo page."""

from __future__ import annotations

import re
from pathlib import Path

from conftest import Command


def test_a_small_demo_makes_a_page_that_needs_nothing_else(incast: Command, tmp_path: Path) -> None:
    done = incast("demo", "--out", "demo", "--senders", "12", "--seeds", "2")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "demo" / "index.html").read_text(encoding="utf-8")
    assert "$" not in re.sub(r"base64,[A-Za-z0-9+/=]+", "", page)
    assert page.count("<figure>") == 3
    assert not re.search(r"""(src|srcset|href)=["'](?!data:)""", page)
    assert "NewReno" in done.stdout
    assert "DCTCP" in done.stdout
    for name in ("goodput", "queues", "windows"):
        picture = tmp_path / "demo" / f"{name}.png"
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert str(picture.relative_to(tmp_path)) in done.stdout
    rows = (tmp_path / "demo" / "goodput.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 1 + 2 * 12 * 2


def test_the_same_demo_gives_the_same_bytes(incast: Command, tmp_path: Path) -> None:
    for out in ("one", "two"):
        assert incast("demo", "--out", out, "--senders", "2", "--seeds", "2").returncode == 0
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert len(files) == 5
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name
