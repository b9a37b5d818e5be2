"""The tables of a ranking in the report. A number leads to the runs behind it, and to the commands that repeat them."""

from __future__ import annotations

import json
import math
import os
import shlex
from html import escape
from typing import TYPE_CHECKING

from incast import scenarios
from incast.studies import page_charts, plan
from incast.studies.ranking import Further
from incast.studies.study import PARAMETER, for_readers, named_in, parted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from incast.studies.expressions import Numbers
    from incast.studies.ranking import Best, Chart, Group
    from incast.studies.study import Point, Study

# So many rows are shown at first.
_FIRST = 12


def section(chart: Chart) -> str:
    """Return all tables of a ranking."""
    everything = tuple(range(len(chart.study.grid())))
    groups: list[tuple[int, ...]] = [everything]
    name = f"ranking-{chart.study.name}"
    title = f'<a href="#{escape(chart.study.name)}">({escape(chart.study.title)})</a>'
    parts = [
        f'<figure class="panel ranking" id="{escape(name)}">',
        f"<h3>{escape(chart.panel.title)} {title}</h3>",
        _always(chart, groups),
        _map(chart, groups),
        _deployable(chart, groups),
        '<div class="runs" hidden></div>',
        # Made last: it has the groups that the cells name.
        f'<script type="application/json">{_data(chart, groups)}</script></figure>',
    ]
    return "".join(parts)


def _always(chart: Chart, groups: list[tuple[int, ...]]) -> str:
    """Return what it costs to take the same curve everywhere."""
    panel, study = chart.panel, chart.study
    heads = ["always", "what must be changed", "on average", "", "mean", "at worst"]
    heads += [f"{name}, on average" for name in panel.beside]
    heads += [group.name for group in chart.groups]
    heads += [f"{name}, mean" for name in panel.means]
    own = [_group(groups, group) for group in chart.groups]
    rows = []
    for place, one in enumerate(chart.ranked):
        interval = f"{times(one.low)} to {times(one.high)}" if one.low is not None and one.high is not None else ""
        cells = [f"<td>{escape(needs_of(one.curve.needs))}</td>", _cell(one.mean, one.index, 0)]
        cells += [f'<td class="note">{interval}</td>', _cell(one.arithmetic, one.index, 0)]
        cells += [_cell(one.worst, one.index, 0)]
        cells += [_cell(value, one.index, 0, metric) for metric, value in enumerate(one.beside, 1)]
        cells += [_cell(value, one.index, group) for value, group in zip(one.groups, own, strict=True)]
        cells += [_cell(value, one.index, 0, metric) for metric, value in enumerate(one.means, 1 + len(one.beside))]
        hidden = ' class="more"' if place >= _FIRST else ""
        rows.append(f'<tr{hidden}><th scope="row">{escape(one.curve.label)}</th>{"".join(cells)}</tr>')
    about, order = study.metric(panel.metric).about, "lower" if panel.is_lowest else "higher"
    caption = (
        f"{about[:1].upper()}{about[1:]} ({order} is better): times that of the best in the same setting, over "
        f"{len(study.grid())} settings with {study.seeds} seeds each; geometric means with the 95 % bootstrap interval "
        "over the settings, the arithmetic mean, and the worst setting. A click on a number shows its runs."
    )
    more = f'<p><button type="button" class="all">all {len(rows)}</button></p>' if len(rows) > _FIRST else ""
    return f"{_table(heads, rows, 'sortable')}{more}<figcaption>{escape(caption)}</figcaption>"


def _map(chart: Chart, groups: list[tuple[int, ...]]) -> str:
    """Return the best curve by two parameters, and what it costs to change nothing."""
    if not chart.cells:
        return ""
    curves = list(range(len(chart.study.curves)))
    unchanged = chart.deployable(())
    rows = []
    for name, cells in zip(chart.rows, chart.cells, strict=True):
        said = []
        for cell in cells:
            best, now = chart.best_of(curves, cell.points), chart.best_of(unchanged, cell.points)
            if best is None:
                said.append("<td>-</td>")
                continue
            group = _group(groups, cell)
            nothing = (
                f'<br><span class="note">nothing changed: {_button(now.mean, now.curve, group)}</span>' if now else ""
            )
            said.append(
                f"<td>{escape(chart.study.curves[best.curve].label)} {_best(best, group)}{nothing}"
                f'<br><span class="note">{len(cell.points)} settings</span></td>'
            )
        rows.append(f'<tr><th scope="row">{escape(name)}</th>{"".join(said)}</tr>')
    caption = "What is best if it is taken in all settings of a cell: times the best on average, and at worst."
    heads = ["", *(column.name for column in chart.columns)]
    return f"<h3>Where which is best</h3>{_table(heads, rows)}<figcaption>{caption}</figcaption>"


def _deployable(chart: Chart, groups: list[tuple[int, ...]]) -> str:
    """Return what is best among the curves that need no more than some changes."""
    allowed = chart.allowed
    if not any(one.needs for one in allowed):
        return ""
    columns = [_group(groups, column) for column in chart.columns]
    rows = []
    for one in allowed:
        cells = [(one.best, 0), *zip(one.by_column, columns, strict=True)]
        said = "".join(
            f"<td>{escape(chart.study.curves[best.curve].label)} {_best(best, group)}</td>" if best else "<td>-</td>"
            for best, group in cells
        )
        rows.append(f'<tr><th scope="row">{escape(needs_of(one.needs))}</th>{said}</tr>')
    caption = (
        "The best of those that need no other change: times the best of all on average, and at worst. What is no "
        "better than with fewer changes is left out."
    )
    heads = ["one may change", "everywhere", *(column.name for column in chart.columns)]
    return f"<h3>Best among what one may change</h3>{_table(heads, rows)}<figcaption>{caption}</figcaption>"


def command(study: Study, point: Point) -> str:
    """Return the command that repeats the first run of a point."""
    return " ".join(filter(None, (_start(study), *_sets(study, point))))


def _start(study: Study) -> str:
    if study.scenario is None:  # reading.py sees to it
        return ""
    # As seen from the folder that holds the folder of papers.
    scenario = os.path.relpath(study.scenario.resolve(), study.path.resolve().parents[2])
    return f"incast run {shlex.quote(scenario)} --seed 1"


def _sets(study: Study, point: Point) -> tuple[str, str]:
    """Write the changes of a curve, and those of its point, as options."""
    moves = [axis.changes[axis.shown.index(value)] for axis, value in zip(study.axes, point.at, strict=True)]
    here = {key for move in moves for key in parted(move)[0]}
    own = plan.own_changes(study, point)
    of_curve = scenarios.overrides({key: value for key, value in own.items() if key not in here})
    of_point = scenarios.overrides({key: value for key, value in own.items() if key in here})
    curve, at = (" ".join(f"--set {shlex.quote(one)}" for one in some) for some in (of_curve, of_point))
    return curve, at


def _data(chart: Chart, groups: list[tuple[int, ...]]) -> str:
    """Return what the page needs to show runs."""
    study, grid = chart.study, chart.study.grid()
    points = study.points()
    used = {*named_in(dict(study.changes)), *(name for curve in study.curves for name in named_in(dict(curve.changes)))}
    told = study.parameters()
    shown = [name for name in dict.fromkeys(key for one in told for key in one) if name not in used]
    of_points = [""] * len(grid)
    curves = []
    for index, curve in enumerate(study.curves):
        sets = []
        for place in range(len(grid)):
            own, of_points[place] = _sets(study, points[index * len(grid) + place])
            sets.append(own)
        curves.append({"label": curve.label, "sets": sets[:1] if len(set(sets)) == 1 else sets})
    data = {
        "start": _start(study),
        "told": [name.removeprefix(PARAMETER).replace("_", " ") for name in shown],
        "points": [
            {
                "name": ", ".join(for_readers(value) for value in at),
                "told": [str(one.get(name, "")) for name in shown],
                "set": of_point,
            }
            for at, one, of_point in zip(grid, told, of_points, strict=True)
        ],
        "curves": curves,
        "metrics": [
            _metric(study, Further(chart.panel.metric, chart.values, chart.ratios, chart.best)),
            *(_metric(study, one) for one in chart.further),
        ],
        "groups": groups,
    }
    # Inside of a script element only its end could be taken for something else.
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


def _metric(study: Study, one: Further) -> dict[str, object]:
    """Return the numbers of a metric; without ratios if it is not ranked."""
    data: dict[str, object] = {"what": f"{one.name}{_unit(study, one.name)}", "values": _rows(one.values)}
    if one.ratios is not None and one.best is not None:
        data |= {"ratios": _rows(one.ratios), "best": one.best.tolist()}
    return data


def _rows(numbers: Numbers) -> list[list[float | None]]:
    return [[_short(value) for value in row] for row in numbers.tolist()]


def _unit(study: Study, name: str) -> str:
    unit = study.metric(name).unit
    return f" ({unit})" if unit else ""


def _short(value: float) -> float | None:
    return float(f"{value:.4g}") if math.isfinite(value) else None


def _group(groups: list[tuple[int, ...]], group: Group) -> int:
    """Return the number under which the page knows some points."""
    if group.points not in groups:
        groups.append(group.points)
    return groups.index(group.points)


def needs_of(needs: Sequence[str]) -> str:
    """Say what must be changed."""
    return ", ".join(needs) or "nothing"


def times(ratio: float) -> str:
    """Write how many times the best something is."""
    if math.isnan(ratio):
        return "-"
    if math.isinf(ratio):
        return "without bound"
    return page_charts.quantity(ratio, digits=3) if ratio < 1000 else f"{round(ratio):,}"


def _button(ratio: float, curve: int, group: int, metric: int = 0) -> str:
    of_metric = f' data-metric="{metric}"' if metric else ""
    return f'<button type="button" data-curve="{curve}" data-group="{group}"{of_metric}>{times(ratio)}</button>'


def _best(best: Best, group: int) -> str:
    return f"<b>{_button(best.mean, best.curve, group)}</b> ({times(best.worst)})"


def _cell(value: float, curve: int, group: int, metric: int = 0) -> str:
    return f'<td data-value="{value}">{_button(value, curve, group, metric)}</td>'


def _table(heads: Sequence[str], rows: Sequence[str], kind: str = "") -> str:
    head = "".join(f'<th scope="col">{escape(one)}</th>' for one in heads)
    return (
        f'<div class="scroll"><table class="{kind}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
