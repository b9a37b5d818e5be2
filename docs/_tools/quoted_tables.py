"""Tables in pages that quote the saved tables of studies: `--update` writes them anew.

Such a table comes after a comment that says what it shows:
`<!-- from FOLDER/STUDY: METRIC and METRIC over AXIS, at AXIS=VALUE; ... -->`.
A row is a point of the axis, a column a curve by its label, and a cell the means over the seeds. `quoted_rankings.py`
has the tables of rankings.
"""

from __future__ import annotations

import argparse
import csv
import re
import tomllib
from pathlib import Path
from statistics import fmean

import quoted_rankings

ROOT = Path(__file__).resolve().parents[2]
STUDIES = ROOT / "studies"
PAGES = tuple(
    ROOT / "docs" / f"{page}.md"
    for page in ("explanation/credit", "explanation/incast-bursts", "explanation/arena", "how-to/requests")
)
QUOTED = re.compile(
    r"(?P<comment><!-- from (?P<study>\S+): (?P<metrics>.+?) over (?P<axis>\w+)(?:, at (?P<at>.+?))? -->\n\n)"
    r"(?P<table>(?:\|.*\n)+)"
)


def today(page: str) -> str:
    """Write a page with what the tables of studies say now."""
    return quoted_rankings.today(QUOTED.sub(lambda found: found["comment"] + _table(found), page))


def _table(found: re.Match[str]) -> str:
    fixed = dict(part.split("=") for part in found["at"].split("; ")) if found["at"] else {}
    lines = (STUDIES / f"{found['study']}.csv").read_text(encoding="utf-8").splitlines()
    runs = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    runs = [run for run in runs if fixed.items() <= run.items()]
    head, rule, *_ = found["table"].splitlines(keepends=True)
    known = _labels(STUDIES / f"{found['study']}.toml")
    curves = [known[cell.strip()] for cell in head.strip("|\n ").split("|")[1:]]
    rows = ""
    for point in dict.fromkeys(run[found["axis"]] for run in runs):
        cells = [point]
        for curve in curves:
            here = [run for run in runs if run["curve"] == curve and run[found["axis"]] == point]
            means = [fmean(float(run[metric]) for run in here) for metric in found["metrics"].split(" and ")]
            cells.append(", ".join(f"{mean:.0f}" if mean >= 100 else f"{mean:.3g}" for mean in means))
        rows += f"| {' | '.join(cells)} |\n"
    return head + rule + rows


def _labels(study: Path) -> dict[str, str]:
    """By label: the curves of a study, and of the one that it is like."""
    about = tomllib.loads(study.read_text(encoding="utf-8"))
    inherited = _labels(study.parent / about["like"]) if "like" in about else {}
    return inherited | {str(curve["label"]): name for name, curve in about.get("curves", {}).items()}


def main() -> None:
    """Check all pages, or update them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true", help="write the tables anew")
    update = parser.parse_args().update
    for path in PAGES:
        page = path.read_text(encoding="utf-8")
        if update:
            path.write_text(today(page), encoding="utf-8")
        elif today(page) != page:
            raise SystemExit(f"{path.relative_to(ROOT)}: a table is not that of its study; run `make docs-output`")


if __name__ == "__main__":
    main()
