"""The comparison with ns-3: `.venv/bin/python validation/ns3/compare.py --help`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cyclopts

from incast import figures
from side_by_side import campaign, cost, dctcp_loss, leaf_spine, ns3, pictures, protocol, tables

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from side_by_side.campaign import Outcome
    from side_by_side.protocol import Point, Protocol, Set

ROOT = protocol.HERE.parents[1]
OUT = ROOT / "out" / "ns3"
RESULTS = protocol.HERE / "results"
IMAGES = ROOT / "docs" / "images"
_SHOWN_SENDERS = (10, 30, 50, 70, 100)

app = cyclopts.App(help="Run the same work in this simulator and in ns-3, and say where they agree.")


@app.command
def sweep(*, sets: list[str] | None = None, variants: list[str] | None = None, tcp: list[str] | None = None) -> None:
    """Run the incast sweep: N = 10 to 100, ten seeds.

    Args:
        sets: ways to run all points (grid.toml); by default all.
        variants: of loss recovery; by default all.
        tcp: keys of [tcp] on our side, as key=value, to see which rule makes the two meet.

    Results are written only if all of it was run.

    """
    plan, side = _ready()
    by_set = {
        run.name: _run(plan, run, plan.sweep_points(run, variants or list(plan.variants)), side, tcp)
        for run in _chosen(plan, sets)
    }
    blocks = ["# The incast sweep"]
    for name, outcomes in by_set.items():
        blocks.append(f"## {name}: {plan.sets[name].meaning}")
        blocks += [tables.sweep(outcomes, _SHOWN_SENDERS), tables.agreement(plan, outcomes)]
        blocks += tables.failures(outcomes)
    whole = not (sets or variants or tcp)
    _report(blocks, RESULTS / "sweep.md" if whole else None)
    if whole:
        for name, outcomes in by_set.items():
            tables.write_points(RESULTS / f"sweep-{name}.csv", outcomes)
        figures.save(pictures.sweep(by_set["untied"], by_set["met"], "rfc6582"), IMAGES / "ns3-sweep.png")


@app.command
def grid(
    *,
    half: protocol.Half,
    sets: list[str] | None = None,
    variants: list[str] | None = None,
    tcp: list[str] | None = None,
    again: bool = False,
) -> None:
    """Run one half of the grid.

    Args:
        half: work or held-out; the held-out half is for the end, once.
        sets: ways to run all points (grid.toml); by default all.
        variants: of loss recovery; by default all.
        tcp: keys of [tcp] on our side, as key=value.
        again: run the held-out half although its result is there.

    Results are written only if all of it was run.

    """
    written = RESULTS / f"grid-{half}.md"
    if half == "held-out" and written.is_file() and not again:
        raise SystemExit(f"{written} is there: the held-out half is run once (--again runs it all the same)")
    plan, side = _ready()
    by_set = {
        run.name: _run(plan, run, plan.grid_points(run, half, variants or list(plan.variants)), side, tcp)
        for run in _chosen(plan, sets)
    }
    blocks = [f"# The {half} half of the grid"]
    for name, outcomes in by_set.items():
        blocks.append(f"## {name}: {plan.sets[name].meaning}")
        blocks += [tables.agreement(plan, outcomes), tables.worst(plan, outcomes), *tables.failures(outcomes)]
    whole = not (sets or variants or tcp)
    _report(blocks, written if whole else None)
    if whole:
        for name, outcomes in by_set.items():
            tables.write_points(RESULTS / f"grid-{half}-{name}.csv", outcomes)
        tables.write_agreement(RESULTS / f"grid-{half}-agreement.csv", plan, by_set)
        figures.save(pictures.grid(plan, by_set), IMAGES / f"ns3-grid-{half}.png")


@app.command(name="leaf-spine")
def run_leaf_spine() -> None:
    """Run the leaf-spine: 20,000 flows, five seeds; ns-3 takes minutes for each."""
    plan, side = _ready()
    outcomes = leaf_spine.run(plan, side)
    _report(["# The leaf-spine", tables.leaf_spine(plan, outcomes)], RESULTS / "leaf-spine.md")
    tables.write_leaf_spine(RESULTS / "leaf-spine.csv", plan, outcomes)
    figures.save(pictures.leaf_spine(outcomes), IMAGES / "ns3-leaf-spine.png")


@app.command(name="dctcp-loss")
def run_dctcp_loss() -> None:
    """Show what ns-3's DCTCP does about losses and small windows."""
    plan, side = _ready()
    rows, windows = dctcp_loss.loss_without_marks(plan, side)
    stalls = dctcp_loss.small_windows(plan, side)
    _report(["# ns-3's DCTCP under loss", tables.dctcp_loss(rows, stalls)], RESULTS / "dctcp-loss.md")
    titles = ("losses without marks: one of 16 long flows", f"marks at small windows: one of {stalls.of} senders")
    panels = dict(zip(titles, (windows, stalls.longest), strict=True))
    limits_s = dict(zip(titles, ((0.01, 0.18), (0.0095, 0.05)), strict=True))
    figures.save(pictures.dctcp_loss(panels, limits_s), IMAGES / "ns3-dctcp-loss.png")


@app.command(name="cost")
def run_cost() -> None:
    """Measure what a point of the Pulser study takes here and in ns-3 (minutes)."""
    plan, side = _ready()
    print(cost.said(cost.measure(plan, side), cost.packet_hops_of("pulser")))


@app.command(name="all")
def run_all() -> None:
    """Run everything, both halves of the grid included."""
    sweep()
    grid(half="work")
    grid(half="held-out", again=True)
    run_dctcp_loss()
    run_leaf_spine()


def _run(plan: Protocol, run: Set, points: Sequence[Point], side: ns3.Ns3, tcp: list[str] | None) -> list[Outcome]:
    more = _keys(tcp)
    return campaign.run(plan, points, side, lambda point: {**plan.tcp(point, run), **more})


def _chosen(plan: Protocol, sets: list[str] | None) -> list[Set]:
    unknown = set(sets or ()) - set(plan.sets)
    if unknown:
        raise SystemExit(f"error: no set {min(unknown)!r}; there are: {', '.join(plan.sets)}")
    return [run for name, run in plan.sets.items() if not sets or name in sets]


def _ready() -> tuple[Protocol, ns3.Ns3]:
    try:
        return protocol.read(), ns3.set_up(OUT)
    except ns3.Ns3Error as error:
        raise SystemExit(f"error: {error}") from error


def _keys(words: list[str] | None) -> dict[str, object]:
    keys: dict[str, object] = {}
    for word in words or []:
        name, _, value = word.partition("=")
        if value in {"true", "false"}:
            keys[name] = value == "true"
        else:
            keys[name] = int(value) if value.isdigit() else value
    return keys


def _report(blocks: Sequence[str], file: Path | None) -> None:
    text = "\n\n".join(blocks) + "\n"
    print(text, flush=True)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    app()
