"""The advice as one self-contained HTML page, to hand to a colleague."""

from __future__ import annotations

import html
import math
from importlib import resources
from string import Template
from typing import TYPE_CHECKING, NamedTuple

from incast import text
from incast._native import version
from incast.advice import closed_form, judging, report
from incast.advice.judging import factor

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from incast.advice.judging import Advice, Ratio, Result
    from incast.advice.remedies import Proposal, Step

_WIDTH, _LABELS, _RIGHT, _ROW = 800, 250, 20, 24
# Intervals are cut off beyond this multiple of their mean.
_LONG = 30
_SIDES = {"collapses": "var(--worse)", "does not collapse": "var(--better)", "seeds differ": "var(--muted)"}
_COLOURS = {"better": "var(--better)", "worse": "var(--worse)"}


def build(advice: Advice, again: str, described: str) -> str:
    """Fill the page in.

    Args:
        advice: what came out.
        again: the command that makes this page.
        described: the file with the cluster.

    """
    cluster, form = advice.plan.cluster, advice.plan.form
    template = Template(resources.files("incast").joinpath("advice/page.html").read_text(encoding="utf-8"))
    first, *_ = closed_form.report(cluster, form).splitlines()
    recommended = report.recommendation(advice)
    return template.substitute(
        title=f"Advice for {closed_form.count(cluster.fan_in, 'server')} at {text.rate(cluster.rate_bps)}",
        heading=html.escape(_heading(advice)),
        cluster=html.escape(first),
        verdict=_paragraphs(judging.verdict(advice)),
        recommendation=_paragraphs(recommended[:1]) + _paragraphs(_warnings(recommended), kind="warning"),
        network=_rows(_network(advice)),
        region=html.escape(closed_form.SENTENCES[form.region]),
        collapse=factor(judging.COLLAPSE),
        sweep_picture=_sweep_picture(advice),
        sweep=_rows(_sweep(advice)),
        ranking_picture=_ranking_picture(advice),
        ranking_head="".join(f'<th scope="col">{html.escape(name)}</th>' for name in report.head(advice)),
        ranking=_rows(report.row(advice, one) for one in (advice.today, *advice.results)),
        remarks=_paragraphs([one for one in recommended[1:] if one not in _warnings(recommended)], kind="note"),
        details="\n".join(_remedy(one, one.candidate.proposal) for one in advice.results if one.candidate.proposal),
        left_out=_left_out(advice),
        runs=f"{advice.runs:,}",
        seeds=judging.SEEDS,
        fewer=judging.FEWER_SEEDS,
        worth=f"{100 * judging.WORTH:.0f}&nbsp;%",
        described=html.escape(described.strip()),
        again=html.escape(again),
        version=html.escape(version()),
    )


def _heading(advice: Advice) -> str:
    match advice.culprit:
        case "fan-in":
            return "The cluster collapses, and fan-in is the culprit"
        case "long flows":
            return "The cluster collapses, and long flows are the culprit"
        case "the port":
            return "The port is too small for a single server"
        case _:
            return "The cluster does not collapse"


def _warnings(recommended: Sequence[str]) -> list[str]:
    return [one for one in recommended if one.startswith("Warning")]


def _paragraphs(sentences: Iterable[str], kind: str = "") -> str:
    attribute = f' class="{kind}"' if kind else ""
    return "\n".join(f"<p{attribute}>{html.escape(one)}</p>" for one in sentences)


def _network(advice: Advice) -> list[list[str]]:
    cluster, form = advice.plan.cluster, advice.plan.form
    sizes = ", ".join(
        f"{one.size_bytes:,} B" + (f" ({100 * one.share:.0f} %)" if cluster.varies else "") for one in cluster.sizes
    )
    timeouts = f"timeouts of {text.seconds(cluster.rto_min_ps / 1e12)} at least"
    tcp = f"{cluster.sender}, first window {cluster.initial_window} segments, windows {cluster.windows}, {timeouts}"
    rows = [
        ["Rate and round trip", f"{text.rate(cluster.rate_bps)}, {text.seconds(cluster.rtt_ps / 1e12)}"],
        ["Port", cluster.buffer.said()],
        ["Servers and long flows", f"{cluster.fan_in:,} and {cluster.long_flows:,}"],
        ["Responses", sizes],
        ["Service time", f"{text.seconds(cluster.service_ps / 1e12)} on average"],
        ["TCP", tcp],
        ["Marks", "none" if cluster.marks_bytes is None else f"CE from {cluster.marks_bytes:,} B on"],
        ["May be changed", ", ".join(cluster.may_change) or "nothing"],
        ["Bandwidth-delay product", f"{form.bdp_bytes:,} B"],
        ["All responses / port (T)", factor(form.all_responses)],
        ["First windows / port (F)", factor(form.first_windows)],
        ["One segment each / port (M)", factor(form.segments)],
        ["The port can overflow", f"from a fan-in of {form.losses_from:,} on"],
    ]
    if cluster.deadline_ps is not None:
        rows.insert(5, ["Deadline of a query", text.seconds(cluster.deadline_ps / 1e12)])
    return [*rows, *(["From a sample", one] for one in cluster.sampled)]


def _sweep(advice: Advice) -> list[list[str]]:
    return [
        [
            f"{point.fan_in:,}",
            (">= " if point.is_bound else "") + text.seconds(point.p99_s),
            text.seconds(point.lossless_s),
            point.ratio.said(),
        ]
        for point in advice.sweep
    ]


def _rows(rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(
        f'<tr><th scope="row">{html.escape(head)}</th>'
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in rest)
        + "</tr>"
        for head, *rest in rows
    )


def _remedy(one: Result, proposal: Proposal) -> str:
    entries = [
        ("today", html.escape(proposal.today)),
        ("proposed", html.escape(proposal.proposed)),
        ("why", html.escape(judging.why(one, proposal.follows))),
        ("gain", f'<span class="{one.judged}">{html.escape(report.gain(one))}</span>'),
        ("apply", _steps(proposal.apply)),
        ("undo", _steps(proposal.undo)),
        ("note", html.escape(proposal.note)),
    ]
    told = "".join(f"<dt>{name}</dt><dd>{said}</dd>" for name, said in entries if said)
    name = html.escape(one.candidate.id)
    return f'<section class="remedy" id="{name}"><h3>{name}</h3><dl>{told}</dl></section>'


def _steps(steps: Iterable[Step]) -> str:
    return "".join(f"{html.escape(step.where)}<pre>{html.escape(step.code)}</pre>" for step in steps)


def _left_out(advice: Advice) -> str:
    if not advice.plan.left_out:
        return ""
    rows = _rows(advice.plan.left_out)
    return f'<h2>Left out</h2>\n<div class="scroll"><table><tbody>\n{rows}\n</tbody></table></div>'


class _Scale(NamedTuple):
    """A logarithmic axis."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Return where a value is, at an end if it is beyond."""
        share = math.log(min(max(value, self.low), self.high) / self.low) / math.log(self.high / self.low)
        return self.start + (self.end - self.start) * share

    def ticks(self) -> list[float]:
        """Return powers of ten, and their doubles and halves if these are few."""
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        steps = (1, 2, 5) if self.high / self.low < 300 else (1,)
        return [step * 10.0**power for power in powers for step in steps if self.low <= step * 10.0**power <= self.high]


def _scale(ratios: Sequence[Ratio], start: float, end: float) -> _Scale:
    """Return an axis with all means, and with their intervals unless these are very long."""
    low = min([1, *(max(one.low, one.mean / _LONG) for one in ratios)])
    high = max([judging.COLLAPSE, *(min(one.high, one.mean * _LONG) for one in ratios)])
    return _Scale(low / 1.25, high * 1.25, start, end)


def _ranking_picture(advice: Advice) -> str:
    """Draw the p99 of each remedy as a multiple of today's."""
    results = advice.results
    height = _ROW * (len(results) + 2)
    scale = _scale([one.p99 for one in results], _LABELS, _WIDTH - _RIGHT)
    parts = _vertical(scale, _ROW * len(results) + 6)
    for number, one in enumerate(results):
        y, colour = _ROW * number + _ROW / 2, _COLOURS.get(one.judged, "var(--muted)")
        name = html.escape(one.candidate.id)
        parts += [
            f"<g><title>{name}: {one.p99.said()} times today's p99, {one.judged}</title>",
            f'<text x="{_LABELS - 12}" y="{y + 4:.1f}" text-anchor="end">{name}</text>',
            _whisker(scale.at(one.p99.low), y, scale.at(one.p99.high), y, colour),
            f'<circle cx="{scale.at(one.p99.mean):.1f}" cy="{y:.1f}" r="4.5" fill="{colour}"/></g>',
        ]
    return _svg(parts, height, "p99 of each remedy as a multiple of today's")


def _vertical(scale: _Scale, bottom: float) -> list[str]:
    parts = []
    for tick in scale.ticks():
        x, colour = scale.at(tick), "var(--muted)" if tick == 1 else "var(--rule)"
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{bottom:.1f}" stroke="{colour}"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 16:.1f}" text-anchor="middle">{factor(tick)}</text>')
    return parts


def _sweep_picture(advice: Advice) -> str:
    """Draw the slowdown over the fan-in."""
    top, bottom, left, right = 10, 200, 60, _WIDTH - _RIGHT
    scale = _scale([point.ratio for point in advice.sweep], bottom, top)
    across = _Scale(0.9, max(2.0, advice.sweep[-1].fan_in * 1.1), left, right)
    parts = []
    for tick in [*scale.ticks(), judging.COLLAPSE]:
        y = scale.at(tick)
        is_limit = tick == judging.COLLAPSE
        colour, dash = ("var(--worse)", ' stroke-dasharray="4 3"') if is_limit else ("var(--rule)", "")
        parts.append(f'<line x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="{colour}"{dash}/>')
        parts.append(f'<text x="{left - 10}" y="{y + 4:.1f}" text-anchor="end">{factor(tick)}</text>')
    line = " ".join(f"{across.at(point.fan_in):.1f},{scale.at(point.ratio.mean):.1f}" for point in advice.sweep)
    parts.append(f'<polyline points="{line}" fill="none" stroke="var(--muted)" stroke-width="1"/>')
    for point in advice.sweep:
        x, y = across.at(point.fan_in), scale.at(point.ratio.mean)
        colour = _SIDES[point.verdict]
        parts += [
            f"<g><title>{point.fan_in:,} servers: {html.escape(point.ratio.said())} times</title>",
            _whisker(x, scale.at(point.ratio.low), x, scale.at(point.ratio.high), colour),
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{colour}"/></g>',
            f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{point.fan_in:,}</text>',
        ]
    parts.append(f'<text x="{right}" y="{bottom + 36}" text-anchor="end">servers</text>')
    return _svg(parts, bottom + 42, "Slowdown of a query over the number of servers")


def _whisker(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" x2="{x2:.1f}" y1="{y1:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="2"/>'


def _svg(parts: Iterable[str], height: float, name: str) -> str:
    body = "\n".join(parts)
    return f'<svg viewBox="0 0 {_WIDTH} {height:g}" role="img" aria-label="{html.escape(name)}">\n{body}\n</svg>'
