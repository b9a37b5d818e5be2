"""The advice as one self-contained HTML page, to hand to a colleague."""

from __future__ import annotations

import html
from importlib import resources
from string import Template
from typing import TYPE_CHECKING

from incast import figures, svg, text
from incast._native import version
from incast.advice import closed_form, judging, pictures, report
from incast.advice.judging import factor

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from incast.advice.judging import Advice, Result
    from incast.advice.remedies import Proposal, Step


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
        sweep_picture=pictures.sweep(advice),
        sweep=_rows(_sweep(advice)),
        ranking_picture=pictures.ranking(advice),
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
        light=svg.variables(figures.LIGHT),
        dark=svg.variables(figures.DARK),
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
        ("needs", html.escape(", ".join(one.candidate.places))),
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
