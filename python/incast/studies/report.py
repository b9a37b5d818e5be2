"""The report on a paper: one self-contained HTML file, and its figures as separate files."""

from __future__ import annotations

import base64
import math
from collections import Counter
from html import escape
from importlib import resources
from itertools import groupby
from string import Template
from typing import TYPE_CHECKING

from incast import figures, output, scenarios, svg, text
from incast._native import version
from incast.studies import (
    cells,
    charts,
    claims,
    expressions,
    page_charts,
    pictures,
    ranking,
    ranking_page,
    winners,
)
from incast.studies.cells import Cells
from incast.studies.charts import Chart
from incast.studies.study import Lines, Map, Percentile, Ranking, Slowdown, Trace, Winners, for_readers
from incast.studies.winners import WinnerMap

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from incast.studies.claims import Judged, Verdict
    from incast.studies.grids import Flip, Share
    from incast.studies.paper import Paper
    from incast.studies.pictures import Drawn
    from incast.studies.store import Store
    from incast.studies.study import Claim, Metric, Study
    from incast.studies.table import Table

VERDICTS: dict[Verdict, str] = {
    "holds": "holds",
    "direction": "direction only",
    "undecided": "undecided",
    "fails": "does not hold",
    "baseline": "baseline not matched",
    "not-judged": "not judged",
}
# The verdict on one of several conditions.
_MET: dict[bool | None, str] = {True: ": yes", False: ": <b>no</b>", None: ""}


def write(
    paper: Paper,
    studies: Sequence[Study],
    tables: Mapping[str, Table | None],
    judged: Sequence[Judged],
    store: Store,
    out: Path,
    *,
    is_sample: bool,
) -> Path:
    """Draw every figure and write the page; the runs of panels over time are in the store."""
    sections, best = [], []
    for study in studies:
        drawn = panels(study, tables[study.name], store)
        best += _rankings(study, tables[study.name])
        best += [_winners(study, chart) for chart in drawn if isinstance(chart, WinnerMap)]
        sections.append(_figure(study, tables[study.name], drawn, [one for one in judged if one.study is study], out))
    baselines, counted = claims.split(judged)
    template = Template(resources.files("incast.studies").joinpath("report.html").read_text(encoding="utf-8"))
    page = template.substitute(
        title=escape(paper.title),
        cite=escape(paper.cite),
        note=_paragraphs(paper.note),
        counts=_counts(counted),
        winners="\n".join(['<h2 id="winners">What is best where</h2>', *best] if best else []),
        baselines=_baselines(baselines),
        unclaimed="" if counted else " hidden",
        claims=_judged(counted),
        figures="\n".join(sections),
        source=_source(paper, is_sample=is_sample),
        version=escape(version()),
        light=svg.variables(figures.LIGHT),
        dark=svg.variables(figures.DARK),
    )
    path = out / "report.html"
    output.write(path, page)
    return path


def paper_value(claim: Claim) -> str:
    """Format the paper's value."""
    return claim.paper if isinstance(claim.paper, str) else _with_unit(claim, claim.paper)


def measured(one: Judged) -> str:
    """Format the measured value with its interval."""
    if one.measured is None:
        return "-"
    if expressions.is_truth(one.claim.measure):
        return "yes" if one.measured else "no"
    if one.low is None or one.high is None or one.low == one.high:
        return _with_unit(one.claim, one.measured)
    low, high = (_number(one.claim, value, digits=3) for value in (one.low, one.high))
    # An interval smaller than what is shown of it says nothing.
    return _with_unit(one.claim, one.measured) + (f" ({low} to {high})" if low != high else "")


def undecided(one: Judged) -> str:
    """Say that the seeds of a study do not decide a claim; empty if they do."""
    if one.verdict != "undecided" or one.met is None:
        return ""
    return f"not decidable by {one.study.seeds} seeds: met in {100 * one.met:.0f} % of the resamples"


def compared(one: Judged) -> str:
    """Say whether our number has the sign of the paper's, and its size beside that; empty if neither has a meaning."""
    sign = f"{one.sign} sign" if one.sign else ""
    size = f"{one.size:.3g} of the paper's" if one.size is not None else ""
    return ", ".join(filter(None, (sign, size)))


def _with_unit(claim: Claim, value: float) -> str:
    return f"{_number(claim, value)}{claim.unit and ' ' + claim.unit}"


def _number(claim: Claim, value: float, *, digits: int = 4) -> str:
    """Format a number in the unit of a claim, without the unit: percentages with one decimal place."""
    if claim.unit != "%":
        return f"{float(f'{value:.{digits}g}'):,.12g}"
    percent = 100 * value
    return f"{percent:.2g}" if abs(percent) < 1 else f"{round(percent, 1):g}"


def panels(study: Study, numbers: Table | None, store: Store) -> list[Drawn]:
    """Return what there is to draw of a study; the runs of panels over time are in the store."""
    drawn: list[Drawn] = []
    for panel in study.panels:
        if isinstance(panel, Trace):
            drawn.append(charts.of_trace(study, panel, store))
        elif isinstance(panel, Percentile):
            drawn.append(charts.of_percentile(study, panel, store))
        elif isinstance(panel, Slowdown):
            drawn.append(charts.of_slowdown(study, panel, store))
        elif numbers and isinstance(panel, Map):
            drawn.append(cells.of_map(study, panel, numbers))
        elif numbers and isinstance(panel, Winners):
            drawn.append(winners.of_panel(study, panel, numbers))
        elif numbers and isinstance(panel, Lines):
            drawn.append(charts.of_lines(study, panel, numbers))
    return drawn


def _rankings(study: Study, numbers: Table | None) -> list[str]:
    panels = [panel for panel in study.panels if isinstance(panel, Ranking)] if numbers else []
    return [ranking_page.section(ranking.of_panel(study, panel, numbers)) for panel in panels if numbers]


def _figure(study: Study, numbers: Table | None, drawn: list[Drawn], judged: list[Judged], out: Path) -> str:
    links = []
    if drawn:
        picture = pictures.draw(drawn)
        document = figures.pdf(picture)
        (out / f"{study.name}.pdf").write_bytes(document)
        figures.save(picture, out / f"{study.name}.png", table=numbers.text() if numbers else "")
        links.append(_download(f"{study.name}.pdf", "application/pdf", document, "figure (PDF)"))
    if numbers:
        links.insert(0, _download(f"{study.name}.csv", "text/csv", numbers.text().encode(), "data (CSV)"))
    series = [chart for chart in drawn if isinstance(chart, Chart) and chart.is_series]
    if series:
        content = _series(series).encode()
        links.insert(0, _download(f"{study.name}-over-time.csv", "text/csv", content, "plotted data (CSV)"))
    number = f"Figure {escape(study.figure)}: " if study.figure else ""
    named = ", ".join(f'<a href="#{escape(one.claim.id)}">{escape(one.claim.id)}</a>' for one in judged)
    return "\n".join(
        [
            f'<section id="{escape(study.name)}"><h2>{number}{escape(study.title)}</h2>',
            _paragraphs(study.note),
            '<div class="panels">',
            *(_panel(chart) for chart in drawn if not isinstance(chart, WinnerMap)),
            "</div>",
            *(
                ['<p class="note">Maps and tables: <a href="#winners">what is best where</a>.</p>']
                if any(isinstance(panel, Winners | Ranking) for panel in study.panels) and numbers
                else []
            ),
            *(
                []
                if drawn or numbers or not study.panels
                else ['<p class="note">Nothing to draw yet: the runs are missing.</p>']
            ),
            f'<p class="note">{" · ".join([*links, *([f"claims {named}"] if named else [])])}</p>',
            _settings(study, numbers),
            "</section>",
        ]
    )


def _series(drawn: Sequence[Chart]) -> str:
    """Write the points of panels over time as CSV."""
    lines = [(chart.title, line) for chart in drawn for line in chart.lines]
    rows = [(title, line.label, x, y) for title, line in lines for x, y in zip(line.x, line.y, strict=True)]
    return text.csv([("panel", "curve", "x", "y"), *rows])


def _panel(chart: Chart | Cells) -> str:
    labels = [] if isinstance(chart, Cells) else [line.label for line in chart.lines]
    has_dashes = isinstance(chart, Chart) and not chart.is_series
    has_line = isinstance(chart, Chart) and not (chart.is_of_kinds or chart.dots)
    buttons = "".join(
        f'<button type="button" class="c{look.colour}" data-curve="{index}" aria-pressed="true">'
        f"{_key(look, look.on_off() if has_dashes else (), has_line=has_line)}{escape(label)}</button>"
        for index, (label, look) in enumerate(zip(labels, figures.looks(labels), strict=True))
    )
    return (
        f'<figure class="panel"><h3>{escape(pictures.heading(chart))}</h3><div class="legend">{buttons}</div>'
        f"{page_charts.draw(chart)}<figcaption>{escape(chart.caption)}</figcaption></figure>"
    )


def _winners(study: Study, chart: WinnerMap) -> str:
    """Draw a map of winners, and say below it what it costs to take the same curve everywhere."""
    names = "".join(
        f'<span class="c{colour}">{_key(figures.Look(colour, 0), (), has_line=False)}{escape(label)}</span>'
        for label, colour in zip(chart.labels, chart.colours, strict=True)
    )
    rows = "".join(
        f'<tr><th scope="row">{escape(one.label)}</th><td>{_times(one.mean)}</td><td>{_times(one.worst)}</td></tr>'
        for one in chart.regrets
    )
    heads = "".join(f'<th scope="col">{head}</th>' for head in ("always", "times the best, on average", "at worst"))
    source = f'<a href="#{escape(study.name)}">({escape(study.title)})</a>'
    return (
        f'<figure class="panel"><h3>{escape(chart.title)} {source}</h3>'
        f'<div class="legend">{names}</div>{page_charts.draw(chart)}<figcaption>{escape(chart.caption)}</figcaption>'
        f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div></figure>'
    )


def _times(ratio: float) -> str:
    return "without bound" if math.isinf(ratio) else page_charts.quantity(ratio, digits=3)


def _key(look: figures.Look, dashes: tuple[float, ...], *, has_line: bool) -> str:
    """Draw the line of a curve beside its name, as a picture: browsers do not print backgrounds."""
    pattern = " ".join(f"{2 * length:g}" for length in dashes)
    line = f'<path d="M0 6H28" stroke-dasharray="{pattern or "none"}"/>' if has_line else ""
    return f'<svg class="key" viewBox="0 0 28 12">{line}<text x="14" y="9.5">{look.sign}</text></svg>'


def _settings(study: Study, numbers: Table | None) -> str:
    """List the settings in tables, followed by the scenario itself."""
    rows = [("scenario", f"<code>{escape(study.scenario.name)}</code>" if study.scenario else "none: formulas")]
    if study.changes:
        rows.append(("all runs", _changes(study.changes)))
    rows += [
        (": ".join(filter(None, (axis.label, ", ".join(axis.keys)))), escape(", ".join(axis.names)))
        for axis in study.axes
    ]
    if study.scenario:
        rows += [(curve.label, _changes(curve.changes) or "scenario unchanged") for curve in study.curves]
        rows.append(("seeds", f"1 to {study.seeds}, the same everywhere"))
    if numbers and study.scenario:
        cost = f"{len(numbers.rows):,} runs, {numbers.packet_hops:,} packet-hops"
        if numbers.cpu_minutes is not None:
            cost += f", {text.duration(numbers.cpu_minutes * 60)} of one core"
        rows.append(("computed by", f"incast {escape(numbers.version)}: {cost}"))
    metrics = [
        (
            f"{metric.name} ({metric.unit})" if metric.unit else metric.name,
            f"{escape(metric.about)}<br>{_measured_by(study, metric)}",
        )
        for metric in study.metrics
    ]
    parts = [
        f"<details><summary>Settings</summary>{_table(rows)}",
        f"<h3>Metrics, one number per run</h3>{_table(metrics)}" if metrics else "",
        ""
        if study.scenario is None
        else f"<h3>{escape(study.scenario.name)}</h3><pre>{escape(scenarios.read_text(study.scenario))}</pre>",
        "</details>",
    ]
    return "".join(parts)


def _measured_by(study: Study, metric: Metric) -> str:
    if metric.sql:
        return f"<code>{escape(' '.join(metric.sql.split()))}</code>"
    formulas = {metric.formulas[curve.name].text: curve.label for curve in study.curves}
    if len(formulas) == 1:
        return f"<code>{escape(next(iter(formulas)))}</code>"
    by_curve = [f"{escape(curve.label)}: <code>{escape(metric.formulas[curve.name].text)}</code>"
                for curve in study.curves]  # fmt: skip
    return "<br>".join(by_curve)


def _changes(changes: Mapping[str, object]) -> str:
    return "<br>".join(f"<code>{escape(change)}</code>" for change in scenarios.overrides(changes))


def _baselines(judged: list[Judged]) -> str:
    if not judged:
        return ""
    return (
        '<h2 id="baselines">Baselines: what was calibrated</h2><p>What the paper says about those it compares with. '
        "Settings that it leaves open were chosen by them, so they are not counted among its claims.</p>"
        f"{_judged(judged)}"
    )


def _judged(judged: list[Judged]) -> str:
    """Return a table of claims; the atoms of one stand together."""
    heads = "".join(f'<th scope="col">{name}</th>' for name in ("", "claim", "paper", "ours", ""))
    groups = groupby(judged, lambda one: claims.whole(one.claim.id))
    rows = "\n".join(f"<tbody>{''.join(_claim(one) for one in group)}</tbody>" for _, group in groups)
    return f'<div class="scroll"><table class="claims"><thead><tr>{heads}</tr></thead>\n{rows}\n</table></div>'


def _remarks(one: Judged) -> str:
    """Say below a claim what its numbers do not: what decides it, and our explanation."""
    said = [escape(undecided(one).capitalize())]
    if one.unmatched and one.otherwise:
        names = ", ".join(f'<a href="#{escape(name)}">{escape(name)}</a>' for name in one.unmatched)
        said.append(f"Does not match the paper: {names}. Otherwise the verdict would be: {VERDICTS[one.otherwise]}.")
    if one.share:
        said.append(of_share(one.share))
    elif one.claim.closed:
        said.append(f"Not judged over settings that the paper leaves open: {escape(one.claim.closed)}.")
    if one.why:
        studies = ", ".join(f'<a href="#{escape(name)}">{escape(name)}</a>' for name in one.claim.shown_by.names)
        badge = f'<span class="badge">{one.badge}{studies and ": " + studies}</span> ' if one.badge else ""
        said.append(f"{badge}{escape(one.why)}")
    return "".join(f"<p>{remark}</p>" for remark in said if remark)


def _label(share: Share, axis: str) -> str:
    return share.study.axis(axis).label


def of_share(share: Share) -> str:
    """Say in which part of the grid of open settings a claim holds, and which single setting decides that."""
    frozen = ", ".join(f"{_label(share, name)} = {for_readers(value)}" for name, value in share.study.frozen.items())
    undecided = f"; in {share.undecided} more its seeds do not decide" if share.undecided else ""
    return (
        f'Holds in {share.holds} of {share.of} combinations of <a href="#{escape(share.study.name)}">settings that the '
        f"paper leaves open</a>{undecided}. With that of the other studies ({escape(frozen)}) "
        f"{escape(with_frozen(share))}."
    )


def with_frozen(share: Share) -> str:
    """Say whether a claim holds with the frozen setting, and which single changes of that decide it."""
    now, conditions = {
        "holds": ("it holds", {False: "it does not"}),
        "fails": ("it does not hold", {True: "it does"}),
        "undecided": ("the seeds do not decide it", {True: "it holds", False: "it does not hold"}),
    }[share.frozen]
    then = ", and ".join(
        f"{said} if {_changed(share, [flip for flip in share.flips if flip.holds == holds])}"
        for holds, said in conditions.items()
        if any(flip.holds == holds for flip in share.flips)
    )
    return f"{now}{'; ' + then if then else ', and no single change decides it'}"


def _changed(share: Share, flips: Sequence[Flip]) -> str:
    axes = groupby(flips, lambda flip: flip.axis)
    return ", or ".join(
        f"{_label(share, name)} = {' or '.join(for_readers(flip.value) for flip in some)}" for name, some in axes
    )


def _claim(one: Judged) -> str:
    claim = one.claim
    tolerance = []
    if claim.within is not None:
        # "Within 10 %" of a percentage could be taken for a tenth of it.
        points = f"{_number(claim, claim.within)} percentage points"
        nearness = points if claim.unit == "%" else _with_unit(claim, claim.within)
        tolerance.append(f"within {nearness} of the paper's number")
    tolerance += [f"at least {_with_unit(claim, claim.at_least)}"] if claim.at_least is not None else []
    tolerance += [f"at most {_with_unit(claim, claim.at_most)}"] if claim.at_most is not None else []
    number, bracket, interval = escape(measured(one)).partition(" (")
    # A line ends before an interval rather than in it.
    ours = f'{number} <span class="interval">({interval}</span>' if bracket else number
    if said := compared(one):
        ours += f"<p>{escape(said)}</p>"
    place = f"Figure {one.study.figure}" if one.study.figure else one.study.title
    judged = f"holds if {' and '.join(tolerance)}"
    if one.parts:
        judged = "holds if all of these are true"
    elif expressions.is_truth(claim.measure):
        judged = "holds if this is true"
    conditions = one.parts or ((claim.measure.text, None),)
    measure = "".join(
        f"<div><code>{escape(' '.join(text.split()))}</code>{_MET[met]}</div>" for text, met in conditions
    )
    if claim.direction:
        judged += f"; direction only: {claim.direction.side} {_with_unit(claim, claim.direction.level)}"
    return (
        f'<tr id="{escape(claim.id)}"><th scope="row">{escape(claim.id)}</th>'
        f'<td data-head="claim">{escape(claim.text)} <a href="#{escape(one.study.name)}">{escape(place)}</a>'
        f"{_remarks(one)}<details><summary>how it is judged</summary>{measure}{escape(judged)}"
        f'</details></td><td data-head="paper">{escape(paper_value(claim))}</td>'
        f'<td data-head="ours">{ours}</td>'
        f'<td data-head="verdict"><span class="verdict {one.verdict}">{VERDICTS[one.verdict]}</span></td></tr>'
    )


def _counts(judged: Sequence[Judged]) -> str:
    counts = Counter(one.verdict for one in judged)
    said = [f'<span class="verdict {verdict}">{name}: {counts[verdict]}</span>'
            for verdict, name in VERDICTS.items() if counts[verdict]]  # fmt: skip
    return f"{claims.count(judged)}: {' '.join(said)}" if said else "no claims"


def _source(paper: Paper, *, is_sample: bool) -> str:
    if is_sample:
        return (
            "The numbers come from the tables saved next to the studies. A sample of the runs was recomputed for this "
            f"page and compared with them. To recompute all: <code>incast reproduce {escape(paper.name)}</code>."
        )
    return "All runs behind the figures were computed for this page, or found in the store of finished runs."


def _download(name: str, kind: str, content: bytes, label: str) -> str:
    data = base64.b64encode(content).decode("ascii")
    return f'<a download="{escape(name)}" href="data:{kind};base64,{data}">{label}</a>'


def _paragraphs(note: str) -> str:
    return "".join(f"<p>{escape(part.strip())}</p>" for part in note.split("\n\n") if part.strip())


def _table(rows: Iterable[tuple[str, str]]) -> str:
    body = "".join(f'<tr><th scope="row">{escape(first)}</th><td>{second}</td></tr>' for first, second in rows)
    return f'<div class="scroll"><table class="settings"><tbody>{body}</tbody></table></div>'
