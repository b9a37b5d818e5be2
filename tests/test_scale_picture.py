"""The picture of the page on speed shows the tables of that page."""

from __future__ import annotations

import pytest
from PIL import Image

import scale_picture
from incast import figures


def test_the_picture_shows_the_tables_of_the_page() -> None:
    drawn = scale_picture.table(scale_picture.curves(scale_picture.PAGE.read_text(encoding="utf-8")))
    with Image.open(scale_picture.PICTURE) as picture:
        assert picture.info["Description"] == figures.description(drawn), "run `make docs-output`, and look at it"


def test_every_program_and_every_network_has_its_points() -> None:
    found = scale_picture.curves(scale_picture.PAGE.read_text(encoding="utf-8"))
    assert [len(points) for points in found.values()] == [4, 3, 4, 2, 2, 2, 2, 2]
    assert found["ns-3, leaf-spine, 400 hosts"][0] == (1_015_985, 6_127)
    assert found["ours, leaf-spine, 400 hosts"][-1] == (1_057e6, 40)


def test_a_page_without_the_table_is_refused() -> None:
    with pytest.raises(ValueError, match="not enough values"):
        scale_picture.rows("no table", scale_picture.OURS)
