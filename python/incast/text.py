"""Formats tables, times and rates."""

from __future__ import annotations

import csv as csv_module
import io
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, right: bool = True) -> str:
    """Align columns; all but the first to the right unless `right` is false."""
    widths = [max(len(cells[i]) for cells in (head, *rows)) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if right and i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "  ".join(padded).rstrip()

    return "\n".join([line(head), *map(line, rows)])


def fitting(head: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> str:
    """Lay out rows in columns whose last one takes the rest of a width, on several lines if need be."""
    room = max(30, width - sum(max(map(len, column)) + 2 for column in list(zip(head, *rows, strict=True))[:-1]))
    lines: list[list[str]] = []
    for row in rows:
        first, *others = textwrap.wrap(row[-1], room) or [""]
        lines += [[*row[:-1], first], *([*[""] * (len(row) - 1), other] for other in others)]
    return table(head, lines, right=False)


def csv(rows: Iterable[Iterable[object]]) -> str:
    """Write rows as CSV."""
    file = io.StringIO()
    csv_module.writer(file, lineterminator="\n").writerows(rows)
    return file.getvalue()


def name(path: Path | str) -> str:
    """Write the name of a file, which may have bytes that are no letters."""
    return str(path).encode("utf-8", "backslashreplace").decode()


def seconds(value: float | None) -> str:
    """Write a time in a suitable unit."""
    if value is None:
        return "-"
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if value >= factor:
            return f"{value / factor:.4g} {unit}"
    return f"{value / 1e-9:.4g} ns" if value else "0 s"


def rate(value: float | None) -> str:
    """Write a rate in a suitable unit."""
    if value is None:
        return "-"
    for factor, unit in ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if value >= factor:
            return f"{value / factor:.4g} {unit}"
    return f"{value:.4g} bit/s"


def duration(value: float) -> str:
    """Write a waiting time for people."""
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"
