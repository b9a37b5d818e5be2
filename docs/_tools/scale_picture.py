"""Draw what a packet-hop costs here, in ns-3 and in Days, from the tables of `docs/explanation/speed.md`.

The measurements take half an hour of a quiet machine. So the tables are kept, and the picture is drawn from them:
`make docs-output`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from incast import figures

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "speed.md"
PICTURE = ROOT / "docs" / "images" / "scale.png"

PEERS = "| work | program | packet-hops | ns of CPU per packet-hop |"
OURS = "| network | hosts | flows | packet-hops | ns of CPU per packet-hop |"


class Point(NamedTuple):
    """The size of a run and what a packet-hop of it takes."""

    packet_hops: float
    ns: float


def rows(page: str, head: str) -> list[list[str]]:
    """Return the cells of the table with this head.

    Raises:
        ValueError: there is no such table, or more than one.

    """
    _, table = page.split(head)
    lines = table.split("\n\n", maxsplit=1)[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines]


def number(text: str) -> float:
    """Read `1,234`, or `1.2 million`; what follows in brackets is a spread."""
    first, *rest = text.split()
    return float(first.replace(",", "")) * (1e6 if rest[:1] == ["million"] else 1)


def curves(page: str) -> dict[str, list[Point]]:
    """Return the curves by their labels: those of the scale table, and of the works that ns-3 and Days have as well."""
    found: dict[str, list[Point]] = {}
    ours = rows(page, OURS)
    for name, network, at_most in (
        ("ours, leaf-spine, 400 hosts", "leaf-spine", False),
        ("ours, leaf-spine, 1,600 to 25,600 hosts", "leaf-spine", True),
        ("ours, fat tree, 432 to 24,334 hosts", "fat tree", True),
    ):
        found[name] = [
            Point(number(hops), number(ns))
            for of, hosts, _, hops, ns, *_ in ours
            if of == network and (number(hosts) > 400) == at_most
        ]
    theirs = rows(page, PEERS)
    for name, program, work in (
        ("ns-3, leaf-spine, 400 hosts", "ns-3", r"leaf-spine"),
        ("Days, fat tree, 128 and 8,192 hosts", "Days", r"fat tree"),
        ("Days, Days' own benchmark", "Days", r"Days' own|the same"),
        ("ours, fat tree, 128 and 8,192 hosts", "ours", r"fat tree"),
        ("ours, Days' own benchmark", "ours", r"Days' own|the same"),
    ):
        found[name] = [
            Point(number(hops), number(ns)) for of, by, hops, ns, *_ in theirs if by == program and re.match(work, of)
        ]
    return found


def table(found: dict[str, list[Point]]) -> str:
    """Write down what is drawn."""
    return "".join(f"{name},{hops:.0f},{ns:g}\n" for name, points in found.items() for hops, ns in points)


def draw(found: dict[str, list[Point]]) -> bytes:
    """Return the picture as PNG."""
    style = figures.LIGHT
    with figures.rc(style):
        figure, (axes,) = figures.stacked(1, 4.8, style)
        for (label, points), look in zip(found.items(), figures.looks(found), strict=True):
            hops, ns = zip(*points, strict=True)
            millions = [each / 1e6 for each in hops]
            axes.plot(millions, ns, linewidth=1.8, label=label, **(look.line(style) | {"markevery": 1}))
        axes.set(xscale="log", yscale="log", xlabel="packet-hops of the run (millions)")
        axes.set(ylabel="CPU time per packet-hop (ns)", ylim=(20, 20_000))
        figures.number_decades(axes.xaxis, style.letters // 8)
        figures.number_decades(axes.yaxis, 12)
        figures.legend_above(axes, style)
    return figures.png(figure, table=table(found))


if __name__ == "__main__":
    PICTURE.write_bytes(draw(curves(PAGE.read_text(encoding="utf-8"))))
