"""The comparison with ns-3: `.venv/bin/python validation/ns3/compare.py --help`."""

from __future__ import annotations

import sys
from pathlib import Path

import cyclopts

from side_by_side import campaign, ns3, protocol, tables

ROOT = protocol.HERE.parents[1]
OUT = ROOT / "out" / "ns3"
RESULTS = protocol.HERE / "results"
IMAGES = ROOT / "docs" / "images"

app = cyclopts.App(help="Run the same work in this simulator and in ns-3, and say where they agree.")


@app.command
def sweep(*, variants: list[str] | None = None, tcp: list[str] | None = None) -> None:
    """Run the incast sweep: N = 10 to 100, ten seeds.

    Args:
        variants: of loss recovery; by default all that this build of the simulator knows.
        tcp: keys of [tcp] on our side, as key=value, to see which rule makes the two meet. Nothing is written then.

    """
    plan, side = _ready()
    points = plan.sweep_points(variants or campaign.known_variants(plan, OUT))
    outcomes = campaign.run(plan, points, side, tcp=_keys(tcp))
    _say(tables.sweep(outcomes, [10, 30, 50, 70, 100]), tables.agreement(plan, outcomes), *tables.failures(outcomes))
    if tcp:
        return
    tables.write_points(RESULTS / "sweep.csv", outcomes, plan.metrics)


@app.command
def grid(
    *,
    half: protocol.Half,
    variants: list[str] | None = None,
    tcp: list[str] | None = None,
    again: bool = False,
) -> None:
    """Run one half of the grid.

    Args:
        half: work or held-out; the held-out half is for the end, once.
        variants: of loss recovery; by default all that this build of the simulator knows.
        tcp: keys of [tcp] on our side, as key=value. Nothing is written then.
        again: run the held-out half although its result is there.

    """
    written = RESULTS / f"grid-{half}.csv"
    if half == "held-out" and written.is_file() and not again:
        raise SystemExit(f"{written} is there: the held-out half is run once (--again runs it all the same)")
    plan, side = _ready()
    points = plan.grid_points(half, variants or campaign.known_variants(plan, OUT))
    outcomes = campaign.run(plan, points, side, tcp=_keys(tcp))
    _say(tables.agreement(plan, outcomes), tables.worst(plan, outcomes), *tables.failures(outcomes))
    if tcp:
        return
    tables.write_points(written, outcomes, plan.metrics)


def _ready() -> tuple[protocol.Protocol, ns3.Ns3]:
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
    print("\n\n".join(blocks))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    app()
