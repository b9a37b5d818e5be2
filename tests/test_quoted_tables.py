"""Pages quote the saved tables of studies."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import quoted_rankings
import quoted_tables

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("path", quoted_tables.PAGES, ids=lambda path: path.name)
def test_a_page_quotes_the_tables_of_its_studies(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    assert quoted_tables.QUOTED.search(page) or quoted_rankings.RANKED.search(page)
    assert quoted_tables.today(page) == page, "run `make docs-output`, and look at the sentences around the tables"


def test_a_number_that_is_not_of_today_is_replaced() -> None:
    path = quoted_tables.PAGES[0]
    page = path.read_text(encoding="utf-8")
    table = quoted_tables.QUOTED.search(page)
    assert table
    *_, last = table["table"].splitlines()
    assert quoted_tables.today(page.replace(last, "| 600 | 1 | 2 | 3 | 4 | 5 |")) == page
    path = next(path for path in quoted_tables.PAGES if path.stem == "arena")
    page = path.read_text(encoding="utf-8")
    ranked = quoted_rankings.RANKED.search(page)
    assert ranked
    row = ranked["table"].splitlines()[2]
    assert quoted_tables.today(page.replace(row, "| Magic | 0.5 |")) == page


def test_the_readme_has_the_numbers_of_the_arena() -> None:
    stacks = {
        "none: CUBIC": "CUBIC",
        "ARS": "CUBIC + ARS",
        "clamped windows": "CUBIC + clamp",
        "ICTCP": "CUBIC + ICTCP",
        "credit at the receiver": "CUBIC + credit",
        "credit for requests, told the port": "CUBIC + cs",
        "credit for requests, learned": "CUBIC + cs, learned",
    }
    arena = next(path for path in quoted_tables.PAGES if path.stem == "arena").read_text(encoding="utf-8")
    always = {}
    for line in arena.partition("## Always the same stack")[2].partition("## Where which")[0].splitlines():
        if re.match(r"\| .* \| [0-9.]+ \(", line):
            _, stack, regret, worst, *_ = (cell.strip() for cell in line.split("|"))
            always[stack] = f"{regret.partition(' ')[0]} ({worst})"
    readme = (quoted_tables.ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| \[?([\w :,]+?)(?:\]\(.*\), ours)? \| .* \| ([0-9.]+ \([0-9.,]+\)) \|$", readme, re.MULTILINE
    )
    assert len(rows) == 14
    quoted = {stacks.get(name, name): numbers for name, numbers in rows}
    assert quoted == {stack: always[stack] for stack in quoted}
