"""The comparison with Linux: `.venv/bin/python validation/linux/compare_linux.py --help`."""

from __future__ import annotations

import sys
from pathlib import Path

# What both comparisons need stands with the one with ns-3.
sys.path.append(str(Path(__file__).resolve().parents[1] / "ns3"))

import cyclopts

from incast import figures
from incast.studies import charts, pictures, plan
from incast.studies.study import Lines
from kernel_world import judging, namespaces, quality, report, world
from side_by_side import campaign

RESULTS = world.HERE / "results"
IMAGES = world.ROOT / "docs" / "images"

app = cyclopts.App(help="Run the same incasts on this machine's Linux and in the simulator, and say where they agree.")


@app.command
def grid() -> None:
    """Run the grid: reno and cubic, three sizes, two RTOmin, 1 to 64 workers."""
    _compare("grid")


@app.command
def mechanisms() -> None:
    """Run with tail loss probes, RACK, F-RTO, DSACK and SACK off, one by one."""
    _compare("mechanisms")


@app.command(name="all")
def run_all() -> None:
    """Run everything (about an hour)."""
    grid()
    mechanisms()


def _compare(study: str) -> None:
    try:
        namespaces.require()
    except namespaces.UnavailableError as error:
        raise SystemExit(f"error: {error}") from error
    # One at a time: two would share the CPUs, and the wait for them would be measured.
    found = campaign.run(world.HERE / f"{study}.toml", world.OUT, workers=1)
    rules = judging.read()
    of, kept = judging.places(found, rules), quality.read(found.study, world.OUT)
    blocks = [
        f"# {found.study.title}",
        quality.told(kept),
        "## Agreement",
        report.agreement(of, rules),
        "## All points",
        "Ours / Linux's mean (least to greatest of the repetitions); bold does not agree by `tolerances.toml`.",
        report.points(of),
    ]
    text = "\n\n".join(blocks) + "\n"
    print(text, flush=True)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{study}.md").write_text(text, encoding="utf-8")
    report.write_points(RESULTS / f"{study}.csv", of)
    names = [axis.name for axis in found.study.axes]
    at = [
        {**dict(zip(names, row.point.at, strict=True)), "repetition": row.seed}
        for row in plan.rows(found.study)
        if row.task and row.task.outside
    ]
    report.write_counts(RESULTS / f"{study}-repetitions.csv", at, kept)
    drawn = [
        charts.of_lines(found.study, panel, found.table) for panel in found.study.panels if isinstance(panel, Lines)
    ]
    if drawn:
        points = (RESULTS / f"{study}.csv").read_text(encoding="utf-8")
        figures.save(pictures.draw(drawn), IMAGES / f"linux-{study}.png", table=points)


if __name__ == "__main__":
    app()
