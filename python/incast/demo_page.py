"""The page of the demo: one self-contained HTML file."""

from __future__ import annotations

import base64
import html
from importlib import resources
from string import Template
from typing import TYPE_CHECKING

from incast import demo
from incast._native import version

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def build(
    points: demo.Sweep,
    timelines: Sequence[demo.Timeline],
    pictures: Mapping[str, Mapping[str, bytes]],
    before: int,
    after: int,
    seeds: int,
) -> str:
    """Fill the page in."""
    template = Template(resources.files("incast").joinpath("demo.html").read_text(encoding="utf-8"))
    labels = list(points)
    counts = sorted(points[labels[0]])
    return template.substitute(
        version=html.escape(version()),
        most=counts[-1],
        seeds=seeds,
        findings=_findings(points),
        before=before,
        after=after,
        after_ms=f"{timelines[1].end_s * 1e3:.0f}",
        needed_ms=f"{after * demo.RESPONSE_BYTES * 8 / demo.LINE_RATE_BPS * 1e3:.0f}",
        dctcp_ms=f"{timelines[2].end_s * 1e3:.0f}",
        goodput=_picture(pictures, "goodput", f"Goodput against the number of senders, 1 to {counts[-1]}"),
        queues=_picture(pictures, "queues", "Packets waiting at the last switch port over time, three runs"),
        windows=_picture(pictures, "windows", "Congestion windows over time, the same three runs"),
        settings=_rows((html.escape(a), html.escape(b)) for a, b in demo.DESCRIPTION),
        head="".join(f'<th scope="col">{label}</th><th scope="col">timeouts</th>' for label in labels),
        short=_data(points, demo.shown(counts)),
        full=_data(points, counts),
        command=html.escape(_command("NewReno", after)),
    )


def _command(label: str, senders: int) -> str:
    changes = demo.changes(label, senders, rounds=1)
    return " ".join(
        (f"incast run {demo.SCENARIO}", *(f"--set {key}={value}" for key, value in changes.items()), "--plots")
    )


def _findings(points: demo.Sweep) -> str:
    """Say where each protocol collapses, from the numbers just computed."""
    return " ".join(
        _finding(label, {n: demo.goodput(point).mean for n, point in row.items()}) for label, row in points.items()
    )


def _finding(label: str, mean: Mapping[int, float]) -> str:
    half = max(mean.values()) / 2
    first = min((n for n in mean if mean[n] < half), default=None)
    last = max(n for n in mean if mean[n] >= half)
    name, half_of_best = f"<strong>{label}</strong>", "half of its best goodput"
    if first is None:
        return f"{name} keeps at least {half_of_best} up to {last} senders."
    beyond = [mean[n] for n in mean if n > last]
    if not beyond:
        return f"{name} falls below {half_of_best} at some points, first at {first} senders."
    average = f"{sum(beyond) / len(beyond) / 1e6:.0f} Mbit/s on average"
    if first > last:
        return f"Beyond {last} senders, {name} delivers less than {half_of_best}: {average}."
    return f"{name} first falls below {half_of_best} at {first} senders, and stays below it beyond {last}: {average}."


def _picture(pictures: Mapping[str, Mapping[str, bytes]], name: str, alternative: str) -> str:
    variants = {
        key: "data:image/png;base64," + base64.b64encode(png).decode("ascii") for key, png in pictures[name].items()
    }
    narrow, dark = "(max-width: 32rem)", "(prefers-color-scheme: dark)"
    return (
        f'<picture><source media="{narrow} and {dark}" srcset="{variants["dark-narrow"]}">'
        f'<source media="{narrow}" srcset="{variants["light-narrow"]}">'
        f'<source media="{dark}" srcset="{variants["dark"]}">'
        f'<img src="{variants["light"]}" alt="{html.escape(alternative)}"></picture>'
    )


def _data(points: demo.Sweep, counts: Iterable[int]) -> str:
    return _rows(
        (
            str(n),
            *(
                text
                for row in points.values()
                for text in (
                    demo.cell(demo.goodput(row[n])),
                    f"{sum(row[n].timeouts) / len(row[n].timeouts):.1f}",
                )
            ),
        )
        for n in counts
    )


def _rows(rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(
        f'<tr><th scope="row">{first}</th>' + "".join(f"<td>{cell}</td>" for cell in rest) + "</tr>"
        for first, *rest in rows
    )
