"""Rankings in pages: the tables of a study's first panel `kind = "ranking"`, from its saved table.

Such a table comes after a comment that says which: `<!-- ranking of PAPER/STUDY: always -->` is what it costs to take
one stack everywhere, `cells` what it costs in each cell of the map, `map` which is best there, and `allowed` the best
among what one may change. With `always, of CUBIC; DCTCP` it has these stacks only, by their labels.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from incast.studies import ranking, reading, table
from incast.studies.ranking_page import needs_of, times
from incast.studies.study import Ranking

if TYPE_CHECKING:
    from incast.studies.ranking import Best, Chart

STUDIES = Path(__file__).resolve().parents[2] / "studies"
RANKED = re.compile(
    r"(?P<comment><!-- ranking of (?P<study>\S+): (?P<kind>always|cells|map|allowed)(?:, of (?P<of>.+?))? -->\n\n)"
    r"(?P<table>(?:\|.*\n)+)"
)


def today(page: str) -> str:
    """Write a page with what the tables of studies say now."""
    return RANKED.sub(lambda found: found["comment"] + _table(found), page)


@cache
def _chart(name: str) -> Chart:
    study = reading.read(STUDIES / f"{name}.toml")
    panel = next(panel for panel in study.panels if isinstance(panel, Ranking))
    numbers = table.read(study)
    if numbers is None:
        raise SystemExit(f"{study.table}: missing table")
    return ranking.of_panel(study, panel, numbers)


def _table(found: re.Match[str]) -> str:
    chart = _chart(found["study"])
    rows = {"always": _always, "cells": _cells, "map": _map, "allowed": _allowed}[found["kind"]](chart)
    head, *body = rows
    if found["of"]:
        labels = found["of"].split("; ")
        if unknown := set(labels) - {row[0] for row in body}:
            raise SystemExit(f"{found['study']}: no such stack: {', '.join(sorted(unknown))}")
        body = [row for row in body if row[0] in labels]
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *body))


def _always(chart: Chart) -> list[list[str]]:
    panel = chart.panel
    head = ["stack", "on average", "at worst", *panel.beside, *(group.name for group in chart.groups), *panel.means]
    rows = []
    for one in chart.ranked:
        interval = f" ({times(one.low)} to {times(one.high)})" if one.low is not None and one.high is not None else ""
        numbers = [one.worst, *one.beside, *one.groups]
        rows.append([one.curve.label, f"{times(one.mean)}{interval}", *map(times, numbers), *map(_short, one.means)])
    return [head, *rows]


def _cells(chart: Chart) -> list[list[str]]:
    groups = [group for row in chart.cells for group in row if group.points]
    # Column by column of the map.
    groups.sort(key=lambda group: [group.name.endswith(f", {column.name}") for column in chart.columns].index(True))
    rows = []
    for one in chart.ranked:
        found = [chart.best_of([one.index], group.points) for group in groups]
        rows.append([one.curve.label, *(times(best.mean) if best else "-" for best in found)])
    return [["stack", *(f"{group.name} ({len(group.points)})" for group in groups)], *rows]


def _map(chart: Chart) -> list[list[str]]:
    curves, unchanged = list(range(len(chart.study.curves))), chart.deployable(())
    rows = []
    for name, cells in zip(chart.rows, chart.cells, strict=True):
        said = []
        for cell in cells:
            best, now = chart.best_of(curves, cell.points), chart.best_of(unchanged, cell.points)
            said.append(f"{_best(chart, best)}; nothing changed: {times(now.mean)}" if best and now else "-")
        rows.append([name, *said])
    return [["", *(column.name for column in chart.columns)], *rows]


def _allowed(chart: Chart) -> list[list[str]]:
    rows = [
        [needs_of(one.needs), *(_best(chart, best) for best in (one.best, *one.by_column))] for one in chart.allowed
    ]
    return [["one may change", "everywhere", *(column.name for column in chart.columns)], *rows]


def _best(chart: Chart, best: Best | None) -> str:
    return f"{chart.study.curves[best.curve].label} {times(best.mean)} ({times(best.worst)})" if best else "-"


def _short(value: float) -> str:
    return f"{value:.2f}"
