"""What a report shows is text: nothing that a study says is run by the browser of its reader."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest

from conftest import Command, small_paper

HOSTILE = """"'><script>alert(1)</script><img src=x onerror=alert(1)>${title}]]>--><a href=javascript:alert(1)>$x^"""
# What runs, loads or leads somewhere.
ACTIVE = {"a", "base", "embed", "form", "iframe", "image", "img", "link", "meta", "object", "script", "style", "use"}

SAFE = ("#", "data:image/", "data:text/csv;", "data:application/pdf;")


class Page(HTMLParser):
    """Counts what is active on a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.active: Counter[tuple[str, ...]] = Counter()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag does."""
        names = sorted(name for name, _ in attrs)
        if tag in ACTIVE or any(name.startswith("on") for name in names):
            self.active[tag, *names] += 1
        for name, value in attrs:
            if name in ("href", "src", "xlink:href"):
                assert value
                assert value.startswith(SAFE)

    def handle_data(self, data: str) -> None:
        """Note what is text."""
        self.text += data


def written(inside: Command, folder: Path, said: str) -> Page:
    """Return the report of a paper in which every text says something."""
    paper = small_paper(folder)
    (paper / "paper.toml").write_text(
        f"title = '''{said}'''\ncite = '''{said}'''\nnote = '''{said}'''\nquestions = ['''{said}''']\n",
        encoding="utf-8",
    )
    study = paper / "figure-1.toml"
    text = study.read_text(encoding="utf-8")
    for key, old in (
        ("title", "Goodput and drops"), ("label", "workers"), ("label", "TCP"), ("about", "goodput"),
        ("unit", "Mbit/s"), ("title", "Goodput <of all>"), ("y_label", "packets"),
        ("id", "T01"), ("text", "DCTCP drops less with 8 workers"),
        ("paper", "fewer"), ("why", "The buffer is small."),
    ):  # fmt: skip
        assert f'{key} = "{old}"' in text, old
        text = text.replace(f'{key} = "{old}"', f"{key} = '''{said}'''")
    study.write_text(f"note = '''{said}'''\n{text}", encoding="utf-8")
    done = inside("reproduce", "paper", "--studies", paper.parent, "--out", folder / "out")
    assert done.returncode == 0, done.stderr
    return Page((folder / "out" / "report.html").read_text(encoding="utf-8"))


# The words are too long for a figure, which is drawn all the same.
@pytest.mark.filterwarnings("ignore:constrained_layout not applied")
@pytest.mark.timeout(300)
def test_a_report_runs_nothing_that_a_study_says(inside: Command, tmp_path: Path) -> None:
    harmless, hostile = (written(inside, tmp_path / name, said) for name, said in (("a", "word"), ("b", HOSTILE)))
    assert hostile.active == harmless.active
    # It is all there, as text.
    assert hostile.text.count(HOSTILE) > 10
