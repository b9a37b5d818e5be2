"""Pictures of the comparison, drawn as those of the studies."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import numpy as np

from incast import estimates
from incast.studies import pictures
from incast.studies.cells import Cells
from incast.studies.charts import Chart, Line, Span
from incast.studies.study import Lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypeAlias

    from matplotlib.figure import Figure

    from incast.studies.study import Study
    from side_by_side.campaign import Campaign
    from side_by_side.dctcp_loss import Columns

    Row: TypeAlias = Mapping[str, str]

LONG_BYTES = 32768
_MOST_POINTS, _TAIL = 3000, 300


def sweep(study: Study, untied: str, met: str) -> Figure:
    """Draw the panels of the study from the texts of two tables: ours without and with ns-3's rules."""
    rows, rows_met = (list(csv.DictReader(table.splitlines())) for table in (untied, met))
    panels = [panel for panel in study.panels if isinstance(panel, Lines)]
    t = estimates.t_95(study.seeds - 1)
    return pictures.draw([_beside(study, panel, t, rows, rows_met) for panel in panels])


def _beside(study: Study, panel: Lines, t: float, rows: Sequence[Row], rows_met: Sequence[Row]) -> Chart:
    """Draw a metric of ns-3, and ours beside it with the 95 % interval of the difference around our mean."""
    chosen, chosen_met = (
        [row for row in some if all(row[key] == str(at) for key, at in panel.at.items() if key in row)]
        for some in (rows, rows_met)
    )
    x = tuple(float(row[panel.x]) for row in chosen)
    lines = [Line(study.curves[0].label, x, _column(chosen, f"{panel.y}_ns3"))]
    for curve, some in zip(study.curves[1:], (chosen, chosen_met), strict=True):
        mean, half = _column(some, f"{panel.y}_ours"), [t * error for error in _column(some, f"{panel.y}_error")]
        low, high = (tuple(middle + sign * width for middle, width in zip(mean, half, strict=True)) for sign in (-1, 1))
        lines.append(Line(curve.label, x, mean, Span(low, high)))
    return Chart(panel.title, study.axis(panel.x).label, panel.y_label, tuple(lines), unit=study.metric(panel.y).unit)


def _column(rows: Sequence[Row], name: str) -> tuple[float, ...]:
    return tuple(float(row[name]) for row in rows)


def grid(agreement: str) -> Figure:
    """Share of cells that agree, metric by metric, for every set, variant and sender, from the text of that table."""
    share: dict[str, dict[tuple[str, str], dict[str, float]]] = {}
    for row in csv.DictReader(agreement.splitlines()):
        points = int(row["points"])
        of_group = share.setdefault(row["set"], {}).setdefault((row["variant"], row["sender"]), {})
        of_group[row["metric"]] = int(row["agree"]) / points if points else np.nan
    drawn = []
    for name, groups in share.items():
        metrics = list(next(iter(groups.values())))[::-1]
        values = tuple(tuple(group[metric] for group in groups.values()) for metric in metrics)
        names = tuple(f"{sender}\n{variant}".replace("-", "-\n") for variant, sender in groups)
        drawn.append(Cells(name, "sender", "", "share of cells that agree", names, tuple(metrics), values, None, ""))
    return pictures.draw(drawn)


def leaf_spine(campaign: Campaign) -> Figure:
    """Completion times of short and of long flows on both sides, all seeds together, with the tail apart."""
    drawn = []
    for at, variant in ((point, point[0]) for point in campaign.study.grid()):
        for kind in ("short", "long"):
            lines = []
            for label, curve in (("ns-3", "ns3"), ("ours", "ours")):
                flows = [flows.to_dict(as_series=False) for flows in campaign.flows[curve, at]]
                sizes, times = (np.concatenate([one[name] for one in flows]) for name in ("size_bytes", "fct_s"))
                lines.append(_taking_longer(label, times[(sizes > LONG_BYTES) == (kind == "long")]))
            drawn.append(
                Chart(f"{kind} flows, {variant}", "completion time (s)", "share that takes longer", tuple(lines),
                      log_x=True, log_y=True, is_series=True)
            )  # fmt: skip
    return pictures.draw(drawn)


def _taking_longer(label: str, times: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Line:
    """Return the share of flows that take longer than a time: every one of the tail, some of the others."""
    count = len(times)
    kept = np.unique(np.r_[np.linspace(0, count - 1, _MOST_POINTS).astype(int), max(0, count - _TAIL) : count])
    return Line(label, tuple(np.sort(times)[kept].tolist()), tuple((1 - kept / count).tolist()))


def dctcp_loss(panels: Mapping[str, Columns], limits_s: Mapping[str, tuple[float, float]]) -> Figure:
    """Congestion windows of ns-3's DCTCP and of ours over time."""
    drawn = []
    for title, table in panels.items():
        first_s, last_s = limits_s[title]
        limits_ms = (first_s * 1e3, last_s * 1e3)
        lines = [Line("one segment", limits_ms, (1.0, 1.0))]
        for number, name in enumerate(("ns-3", "ours")):
            rows = np.asarray(table["connection"]) == number
            time = np.asarray(table["time_s"], dtype=np.float64)[rows] * 1e3
            window = np.asarray(table["cwnd_bytes"], dtype=np.float64)[rows] / 1460
            lines.append(Line(name, tuple(time.tolist()), tuple(window.tolist())))
        drawn.append(Chart(title, "time (ms)", "window (segments)", tuple(lines), is_series=True, limits=limits_ms))
    return pictures.draw(drawn)
