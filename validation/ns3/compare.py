"""The comparison with ns-3: `.venv/bin/python validation/ns3/compare.py --help`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cyclopts

from side_by_side import campaign, leaf_spine, ns3, protocol, tables

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        tcp: keys of [tcp] on our side, as key=value, to see which rule makes the two meet. Nothing is written then.

    """
    plan, side = _ready()
    for run in _chosen(plan, sets):
        outcomes = _run(plan, run, plan.sweep_points(run, variants or list(plan.variants)), side, tcp)
        print(f"\n## sweep, {run.name}: {run.meaning}\n")
        _say(tables.sweep(outcomes, _SHOWN_SENDERS), tables.agreement(plan, outcomes), *tables.failures(outcomes))
        if not (sets or variants or tcp):
            tables.write_points(RESULTS / f"sweep-{run.name}.csv", outcomes, plan.metrics)


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
        tcp: keys of [tcp] on our side, as key=value. Nothing is written then.
        again: run the held-out half although its result is there.

    """
    plan, side = _ready()
    for run in _chosen(plan, sets):
        written = RESULTS / f"grid-{half}-{run.name}.csv"
        if half == "held-out" and written.is_file() and not again:
            raise SystemExit(f"{written} is there: the held-out half is run once (--again runs it all the same)")
        outcomes = _run(plan, run, plan.grid_points(run, half, variants or list(plan.variants)), side, tcp)
        print(f"\n## grid, {half} half, {run.name}: {run.meaning}\n")
        _say(tables.agreement(plan, outcomes), tables.worst(plan, outcomes), *tables.failures(outcomes))
        if not (sets or variants or tcp):
            tables.write_points(written, outcomes, plan.metrics)


@app.command(name="leaf-spine")
def run_leaf_spine() -> None:
    """Run the leaf-spine: 20,000 flows, five seeds; ns-3 takes minutes for each."""
    plan, side = _ready()
    outcomes = leaf_spine.run(plan, side)
    _say(tables.leaf_spine(plan, outcomes))
    tables.write_leaf_spine(RESULTS / "leaf-spine.csv", plan, outcomes)


def _run(plan: Protocol, run: Set, points: Sequence[Point], side: ns3.Ns3, tcp: list[str] | None) -> list[Outcome]:
    more = _keys(tcp)
    return campaign.run(plan, points, side, lambda point: {**plan.tcp(point, run), **more})


def _chosen(plan: Protocol, sets: list[str] | None) -> list[Set]:
    unknown = set(sets or ()) - set(plan.sets)
    if unknown:
        raise SystemExit(f"error: no set {sorted(unknown)[0]!r}; there are: {', '.join(plan.sets)}")
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


def _say(*blocks: str) -> None:
    print("\n\n".join(blocks), flush=True)


if __name__ == "__main__":
    app()
