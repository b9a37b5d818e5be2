"""Draws settings of the arena for the study of `gives_up`: `python gives_up_draw.py > gives-up-settings.csv`."""

from __future__ import annotations

import random
import sys
from pathlib import Path

SEED, COUNT = 2026_11_25, 40
ARENA = Path(__file__).parents[1] / "arena"


def text() -> str:
    """Return them as CSV, in the order of the arena."""
    head, rows = "", []
    for name in ("settings-1.csv", "settings-2.csv"):
        _, head, *found = (ARENA / name).read_text(encoding="utf-8").splitlines()
        rows += found
    keys = [(random.Random(f"{SEED} {row.split(',')[0]}").random(), number) for number, row in enumerate(rows)]  # noqa: S311
    drawn = sorted(number for _, number in sorted(keys)[:COUNT])
    lines = ["# Made by: python gives_up_draw.py", head, *(rows[number] for number in drawn)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
