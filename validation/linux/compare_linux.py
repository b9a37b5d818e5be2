"""The comparison with Linux: `.venv/bin/python validation/linux/compare_linux.py --help`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

# What both comparisons need stands with the one with ns-3.
sys.path.append(str(Path(__file__).resolve().parents[1] / "ns3"))

import cyclopts

from incast import figures
from incast.studies import pictures, plan
from incast.studies.study import Lines
from kernel_world import judging, namespaces, quality, report, world
from side_by_side import campaign

_RESULTS = world.HERE / "results"
IMAGES = world.ROOT / "docs" / "images"


@dataclass(frozen=True)
class Tables:
    """The files of a study's results."""

    study: str

    @property
    def report(self) -> Path:
        """What people read."""
        return _RESULTS / f"{self.study}.md"

    @property
    def points(self) -> Path:
        """A row per point and metric, of both sides."""
        return _RESULTS / f"{self.study}.csv"

    @property
    def repetitions(self) -> Path:
        """A row per repetition on Linux."""
        return _RESULTS / f"{self.study}-repetitions.csv"

    def machine(self) -> str:
        """Return what the report says of the machine on which Linux's side was measured."""
        text = self.report.read_text(encoding="utf-8")
        return text[text.index("\n") : text.index("## Agreement")].strip()


app = cyclopts.App(help="Run the same incasts on this machine's Linux and in the simulator, and say where they agree.")


KeepLinux = Annotated[
    bool,
    cyclopts.Parameter(negative=(), help="Run the simulator only; Linux's side is that of the tables there are."),
]


@app.command
def grid(*, keep_linux: KeepLinux = False) -> None:
    """Run the grid: reno and cubic, three sizes, two RTOmin, 1 to 64 workers."""
    _compare("grid", keep_linux=keep_linux)


@app.command
def mechanisms(*, keep_linux: KeepLinux = False) -> None:
    """Run with tail loss probes, RACK, F-RTO, DSACK and SACK off, one by one."""
    _compare("mechanisms", keep_linux=keep_linux)


@app.command(name="all")
def run_all(*, keep_linux: KeepLinux = False) -> None:
    """Run everything (about an hour, with --keep-linux minutes)."""
    grid(keep_linux=keep_linux)
    mechanisms(keep_linux=keep_linux)


def _compare(study: str, *, keep_linux: bool) -> None:
    tables = Tables(study)
    rules = judging.read()
    if keep_linux:
        found = campaign.run(world.HERE / f"{study}.toml", world.OUT, only=judging.OURS)
        of = judging.places(found, rules, judging.known(tables.points, [axis.name for axis in found.study.axes]))
        machine = tables.machine()
    else:
        try:
            namespaces.require()
        except namespaces.UnavailableError as error:
            raise SystemExit(f"error: {error}") from error
        # One at a time: two would share the CPUs, and the wait for them would be measured.
        found = campaign.run(world.HERE / f"{study}.toml", world.OUT, workers=1)
        kept = quality.read(found.study, world.OUT)
        of, machine = judging.places(found, rules), quality.told(kept)
        names = [axis.name for axis in found.study.axes]
        at = [
            {**dict(zip(names, row.point.at, strict=True)), "repetition": row.seed}
            for row in plan.rows(found.study)
            if row.task and row.task.outside
        ]
        report.write_counts(tables.repetitions, at, kept)
    blocks = [
        f"# {found.study.title}",
        machine,
        "## Agreement",
        report.agreement(of, rules),
        "## All points",
        "Ours / Linux's mean (least to greatest of the repetitions); bold does not agree by `tolerances.toml`.",
        report.points(of),
    ]
    text = "\n\n".join(blocks) + "\n"
    print(text, flush=True)
    tables.report.write_text(text, encoding="utf-8")
    report.write_points(tables.points, of)
    drawn = [report.chart(found.study, panel, of) for panel in found.study.panels if isinstance(panel, Lines)]
    if drawn:
        points = tables.points.read_text(encoding="utf-8")
        figures.save(pictures.draw(drawn), IMAGES / f"linux-{study}.png", table=points)


if __name__ == "__main__":
    app()
