"""The page of the demo: one self-contained HTML file."""

from __future__ import annotations

import html
import math
import shlex
from importlib import resources
from string import Template
from typing import TYPE_CHECKING

from incast import demo, figures, scenarios, svg, text
from incast._native import version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from matplotlib.figure import Figure


def build(
    points: demo.Sweep,
    timelines: Sequence[demo.Timeline],
    before: int,
    after: int,
    seeds: int,
) -> str:
    """Fill the page in."""
    template = Template(resources.files("incast").joinpath("demo.html").read_text(encoding="utf-8"))
    counts = sorted(points["NewReno"])
    return template.substitute(
        version=html.escape(version()),
        most=counts[-1],
        seeds=seeds,
        findings=_findings(points),
        remedies=_WORDS.get(len(demo.CURVES) - 1, str(len(demo.CURVES) - 1)),
        rounds=_rounds(timelines, before, after),
        segment=f"{demo.MSS_BYTES / 1024:g}&nbsp;KiB",
        thin=_thin(timelines),
        timer=_timer(timelines),
        after=after,
        light=svg.variables(figures.LIGHT),
        dark=svg.variables(figures.DARK),
        goodput=svg.text(svg.element(demo.draw_goodput(points, svg.STYLE), f"Goodput of 1 to {counts[-1]} senders")),
        queues=_panels(timelines, demo.draw_queues, "bytes waiting at the last switch port over time"),
        windows=_panels(timelines, demo.draw_windows, "congestion windows over time"),
        settings=_rows((html.escape(a), html.escape(b)) for a, b in demo.DESCRIPTION),
        head="".join(f'<th scope="col">{label}</th>' for label in points),
        full_head="".join(f'<th scope="col">{label}</th><th scope="col">timeouts</th>' for label in points),
        short=_data(points, demo.shown(counts), timeouts=False),
        full=_data(points, counts, timeouts=True),
        again=f"incast demo --senders {counts[-1]} --seeds {seeds}",
        command=html.escape(_command("NewReno", after)),
    )


def _rounds(timelines: Sequence[demo.Timeline], before: int, after: int) -> str:
    """Say what happened in the rounds that are drawn."""
    one, collapsed, dctcp, credit = timelines
    needed_s = after * demo.RESPONSE_BYTES * 8 / demo.LINE_RATE_BPS
    said = [f"In the round with {_senders(before)} of NewReno, {_drops(one)}, and {_timeouts(one)}."]
    said.append(f"With {after}, {_drops(collapsed)}, and {_timeouts(collapsed)}.")
    said.append(f"The round takes {_ms(collapsed.end_s)}; the link needs {_ms(needed_s)} for the payload.")
    if collapsed.timeouts:
        share = _share(collapsed.waits_of_idle)
        said.append(
            f"For {_ms(collapsed.idle_s)} the link is idle; {share} of that time some sender waits for its timer."
        )
    said.append(f"With DCTCP and {_senders(after)}, {_round(dctcp)}: {_DCTCP}.")
    said.append(f"With credit, {_round(credit)}: {_CREDIT}.")
    return " ".join(said)


_WORDS = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five", 6: "six"}
# How each works, which is so however a round ends.
_DCTCP = "the switch marks packets before its buffer is full, and senders slow down by the share of marks"
_CREDIT = "the client, which knows whom it has asked, divides one budget among the senders"


def _round(line: demo.Timeline) -> str:
    return f"{_drops(line)}, {_timeouts(line)}, and the round takes {_ms(line.end_s)}"


def _senders(count: int) -> str:
    return f"{count} sender{'s' if count > 1 else ''}"


def _ms(seconds: float) -> str:
    """Write milliseconds, with a digit behind the point where they are few."""
    ms = seconds * 1e3
    return f"{ms:.0f}&nbsp;ms" if ms >= 10 else f"{ms:.1f}&nbsp;ms"


def _share(share: float) -> str:
    """Write a share of a time, which is all of it only if nothing is missing."""
    if share >= 1:
        return "all"
    return f"{min(math.floor(share * 1000) / 10, 99.9):g}&nbsp;%"


def _thin(timelines: Sequence[demo.Timeline]) -> str:
    """Name the lines without a name, where there are any."""
    others = any(set(line.windows["connection"].tolist()) - set(line.named) for line in timelines)
    return " Thin lines are the other senders." if others else ""


def _timer(timelines: Sequence[demo.Timeline]) -> str:
    """Say how long timers ran in the rounds that are drawn, or would have run at least."""
    ran = [line.shortest_timer_s for line in timelines if line.shortest_timer_s is not None]
    shortest = min(ran, default=demo.RTO_MIN_S)
    times = shortest / demo.RTT_S
    said = f"{text.seconds(shortest).replace(' ', '&nbsp;')}, {times:,.0f} times the round-trip time of an idle network"
    return f". The shortest of them ran for {said}" if ran else f", which runs for at least {said}"


def _command(label: str, senders: int) -> str:
    changes = scenarios.overrides({**demo.changes(label, senders, rounds=1), **demo.EVERYONE})
    return " ".join((f"incast run {demo.SCENARIO}", *(f"--set {shlex.quote(change)}" for change in changes), "--plots"))


def _drops(line: demo.Timeline) -> str:
    if line.drops < 2:
        return f"{'a' if line.drops else 'no'} packet is dropped"
    return f"{line.drops:,} packets are dropped"


def _timeouts(line: demo.Timeline) -> str:
    if line.timeouts < 2:
        return "there is a timeout" if line.timeouts else "there are no timeouts"
    return f"there are {line.timeouts:,} timeouts"


def _findings(points: demo.Sweep) -> str:
    """Say where each curve collapses, from the numbers just computed."""
    return " ".join(
        _finding(label, {n: demo.goodput(point).mean for n, point in row.items()}) for label, row in points.items()
    )


def _finding(label: str, mean: Mapping[int, float]) -> str:
    """Speak only of numbers of senders that were simulated."""
    half = max(mean.values()) / 2
    # Few senders cannot fill the link: what counts is after it was once half full.
    reached = min(n for n in mean if mean[n] >= half)
    below = [n for n in mean if n > reached and mean[n] < half]
    name, half_of_best = f"<strong>{label}</strong>", "half of its best goodput"
    if not below:
        return f"{name} keeps at least {half_of_best} up to {max(mean)} senders."
    for_good = [n for n in below if n > max((k for k in mean if mean[k] >= half), default=0)]
    if not for_good:
        return f"{name} falls below {half_of_best} at some points, first at {below[0]} senders."
    average = f"{sum(mean[n] for n in for_good) / len(for_good) / 1e6:.0f} Mbit/s on average"
    if below == for_good:
        first = f"From {below[0]} senders on{_not_yet(mean, below[0])}"
        return f"{first}, {name} delivers less than {half_of_best}: {average}."
    return (
        f"{name} first falls below {half_of_best} at {below[0]} senders, "
        f"and stays below it from {for_good[0]} on{_not_yet(mean, for_good[0])}: {average}."
    )


def _not_yet(mean: Mapping[int, float], first: int) -> str:
    """Name the number of senders before, if others lie between."""
    before = max(n for n in mean if n < first)
    return f" (not yet with {before})" if before < first - 1 else ""


def _panels(
    timelines: Sequence[demo.Timeline],
    draw: Callable[[Sequence[demo.Timeline], figures.Style], Figure],
    shown: str,
) -> str:
    """Draw a panel per run, which stand side by side where there is room."""
    return "\n".join(svg.text(svg.element(draw([line], svg.STYLE), f"{line.title}: {shown}")) for line in timelines)


def _data(points: demo.Sweep, counts: Iterable[int], *, timeouts: bool) -> str:
    def cells(point: demo.Point | None) -> list[str]:
        mean = f"{sum(point.timeouts) / len(point.timeouts):.1f}" if point else "-"
        return [demo.cell(point), *([mean] if timeouts else [])]

    return _rows((str(n), *(cell for row in points.values() for cell in cells(row.get(n)))) for n in counts)


def _rows(rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(
        f'<tr><th scope="row">{first}</th>' + "".join(f"<td>{cell}</td>" for cell in rest) + "</tr>"
        for first, *rest in rows
    )
