"""Formats tables, times and rates."""

from __future__ import annotations

import csv as csv_module
import io
import os
import shutil
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from rich.text import Text

# Of lines in a file, which a pager or an editor may move.
_NO_WIDTH = 200


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


def fitting(head: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """Lay out rows of words in columns, on several lines where the terminal is too narrow; a file has no width."""
    from rich.console import Console
    from rich.table import Table

    if width is None:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() or "COLUMNS" in os.environ else _NO_WIDTH
    shown = Table(box=None, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    for number, cell in enumerate(head):
        # A name in the first column stays in one piece.
        shown.add_column(_cell(cell), overflow="fold", no_wrap=not number)
    for row in rows:
        shown.add_row(*map(_cell, row))
    console = Console(file=io.StringIO(), width=width, color_system=None)
    with console.capture() as captured:
        console.print(shown)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def _cell(cell: str) -> Text:
    """Take the text as it is: brackets are no marks, and colons no emoji."""
    from rich.text import Text

    return Text(cell)


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
