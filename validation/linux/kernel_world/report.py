"""Tables: one CSV row per point and metric for whoever wants to look closer, Markdown for people."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from incast.studies.charts import Chart, Line, Span
from kernel_world.judging import LINUX, OURS, shared
from side_by_side import tables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from incast.studies.study import Lines, Study
    from kernel_world.judging import Place, Rules, Verdict
    from kernel_world.quality import Kept

_SHOWN = (
    ("goodput_bps", "goodput Mbit/s", 1e-6), ("fct_p50_s", "FCT p50 ms", 1e3), ("fct_p99_s", "FCT p99 ms", 1e3),
    ("timeouts", "timeouts", 1.0), ("tail_probes", "probes", 1.0), ("fast_retransmits", "recoveries", 1.0),
    ("retransmitted_packets", "retransmitted", 1.0), ("drops", "drops", 1.0),
)  # fmt: skip


def agreement(of: Sequence[Place], rules: Rules) -> str:
    """Return per metric how many points agree, and what they share."""
    head = f"| metric | points | agree | mean in Linux's range | ours / Linux's | within {rules.factor:g} |"
    lines = [head, "| --- | --- | --- | --- | --- | --- |"]
    for metric in rules.metrics:
        found = shared(of, metric, rules)
        ratio = "-" if found.ratio is None else f"{found.ratio:.2f}"
        lines.append(
            f"| `{metric}` | {found.points} | {found.agree} | {found.inside} | {ratio} | {found.near} of {found.told} |"
        )
    return "\n".join(lines)


def points(of: Sequence[Place]) -> str:
    """Return all points: ours / Linux's mean (least to greatest), in bold what does not agree."""
    axes = list(of[0].at)
    head = [*axes, *(title for _, title, _ in _SHOWN)]
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join(["---"] * len(head)) + " |"]
    for place in of:
        cells = [pair(place.verdicts.get(name), scale) for name, _, scale in _SHOWN]
        lines.append("| " + " | ".join([*map(str, place.at.values()), *cells]) + " |")
    return "\n".join(lines)


def pair(found: Verdict | None, scale: float = 1.0) -> str:
    """Write ours / Linux's (least to greatest), in bold if they do not agree."""
    if found is None:
        return "0 / 0"
    middle, low, high = (value * scale for value in found.linux)
    text = f"{found.ours.mean * scale:.4g} / {middle:.4g} ({low:.4g} to {high:.4g})"
    return text if found.agrees else f"**{text}**"


def write_points(file: Path, of: Sequence[Place]) -> None:
    """Write a row per point and metric."""
    rows = [
        {
            **place.at,
            "metric": metric,
            "ours_mean": f"{one.ours.mean:.6g}",
            "ours_low": f"{one.ours.low:.6g}",
            "ours_high": f"{one.ours.high:.6g}",
            "linux_mean": f"{one.linux[0]:.6g}",
            "linux_min": f"{one.linux[1]:.6g}",
            "linux_max": f"{one.linux[2]:.6g}",
            "agrees": int(one.agrees),
            "inside": int(one.inside),
        }
        for place in of
        for metric, one in place.verdicts.items()
    ]
    tables.write_rows(file, rows)


def chart(study: Study, panel: Lines, of: Sequence[Place]) -> Chart:
    """Return a metric over an axis: our means with their intervals, Linux's with all repetitions."""
    axis, along = study.axis(panel.x), study.along(panel)
    x = tuple(map(float, axis.shown)) if axis.is_numeric() else tuple(map(float, range(len(along))))
    found = [of[index].verdicts.get(panel.y) for index in along]
    # Where there is no verdict neither side has any.
    linux = [one.linux if one else (0.0, 0.0, 0.0) for one in found]
    ours = [(one.ours.mean, one.ours.low, one.ours.high) if one else (0.0, 0.0, 0.0) for one in found]
    labels = {curve.name: curve.label for curve in study.curves}
    lines = []
    for name, told in ((LINUX, linux), (OURS, ours)):
        middle, low, high = zip(*told, strict=True)
        lines.append(Line(labels[name], x, middle, Span(low, high)))
    drawn = Chart(
        panel.title, axis.label, panel.y_label, tuple(lines), ticks=() if axis.is_numeric() else axis.names,
        log_x="x" in panel.log, log_y="y" in panel.log, unit=study.metric(panel.y).unit,
    )  # fmt: skip
    points, intervals = ("Dots", "bars") if drawn.is_of_kinds else ("Lines", "bands")
    about = [
        f"{points} are means over {study.seeds} repetitions on Linux and {study.seeds} seeds of ours",
        f"{intervals} are all repetitions on Linux and our 95 % confidence intervals (Student's t)",
        *study.fixed(panel),
    ]
    return replace(drawn, caption=", ".join(about) + ".")


def write_counts(file: Path, at: Sequence[Mapping[str, object]], kept: Kept) -> None:
    """Write a row per repetition: all that the kernel counted, and how good the machine was."""
    rows = []
    for place, found in zip(at, kept.found, strict=True):
        quality = found["quality"]
        told = {
            name: f"{quality[name]:.6g}" for name in ("elapsed_s", "waiting", "softirq_waiting", "stolen", "rate_bps")
        }
        base = {f"base_rtt_{which}_us": f"{quality['base_rtt_s'][which] * 1e6:.1f}" for which in ("min", "p50", "p99")}
        rows.append({**place, **found["counts"], **told, **base, "refused": len(found["refused"])})
    tables.write_rows(file, rows)
