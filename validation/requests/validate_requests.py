"""Real clients and servers around one port: `.venv/bin/python validation/requests/validate_requests.py --help`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

# Namespaces and counters stand with the comparison with Linux, what that needs with the one with ns-3.
sys.path.append(str(Path(__file__).resolve().parents[1] / "linux"))
sys.path.append(str(Path(__file__).resolve().parents[1] / "ns3"))

import cyclopts

from fan_in import campaign, cells, judging, report
from incast.studies.sweep import shard_of
from kernel_world import namespaces

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
OUT = Path(os.environ.get("REQUESTS_OUT", HERE.parents[1] / "out" / "requests"))
_NO_GRID = {"tolerances"}

app = cyclopts.App(help="Ask real servers in eight ways over one narrow port, and judge the scheduler by rules.")


@app.default
def main(*, grid: str = "core", shard: str | None = None, minutes: float | None = None, measure: bool = True) -> None:
    """Measure a grid and report; what is there already is not measured again.

    Args:
        grid: which, by its file beside this program: `full` and `everywhere` take hours, others half an hour at most.
        shard: measure only shard i of n of the cells, written i/n. The report has what is there of all.
        minutes: stop after this time, and report what is there.
        measure: whether anything is measured; otherwise the report is made of `results/*.csv` anew, without root.

    """
    if grid not in (known := grids()):
        raise SystemExit(f"error: --grid: found {grid!r}, expected one of {', '.join(known)}")
    try:
        wanted = cells.read(HERE / f"{grid}.toml")
        rules = judging.read_rules()
        now = wanted if shard is None else wanted.shard(*shard_of(shard))
        if measure:
            _measure(now, rules, minutes)
            rows = campaign.kept(OUT, wanted)
            RESULTS.mkdir(exist_ok=True)
            judging.write_rows(RESULTS / f"{grid}.csv", rows)
        else:
            rows = judging.read_rows(RESULTS / f"{grid}.csv")
    except (namespaces.UnavailableError, cells.BadGridError, OSError, ValueError) as error:
        raise SystemExit(f"error: {error}") from error
    if not rows:
        raise SystemExit("error: nothing has been measured")
    release = os.uname().release if measure else _release(RESULTS / f"{grid}.md")
    text = report.text(title(grid), release, rows, rules, wanted)
    (RESULTS / f"{grid}.md").write_text(text, encoding="utf-8")
    print(text.partition("## Cells")[0].rstrip())
    print(f"\nmore: {RESULTS / grid}.md")
    cells_now = set(now.cells)
    if missing := len(campaign.jobs(now)) - sum(row.cell in cells_now for row in rows):
        raise SystemExit(f"{missing} repetitions are missing: run the same command again")


def grids() -> list[str]:
    """Return the names of all grids."""
    return sorted({file.stem for file in HERE.glob("*.toml")} - _NO_GRID)


def title(grid: str) -> str:
    """Return the title of a report."""
    return f"Request scheduling on real servers: the {grid} grid"


def _measure(grid: cells.Grid, rules: judging.Rules, minutes: float | None) -> None:
    # So that servers, namespaces and files go before this process does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("interrupted"))
    namespaces.require()
    try:
        campaign.run(grid, OUT, rules.machine, minutes)
    except KeyboardInterrupt:
        print("interrupted: what is there is reported, and stays", file=sys.stderr)


def _release(file: Path) -> str:
    """Return the kernel of an earlier report."""
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("Linux "):
            return line.removeprefix("Linux ").partition(". ")[0]
    raise ValueError(f"{file}: it does not say which kernel was measured")


if __name__ == "__main__":
    app()
