"""Pages quote the saved tables of studies."""

from __future__ import annotations

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
