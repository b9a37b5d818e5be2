"""Tables: one CSV row per point for whoever wants to look closer, Markdown for people."""

from __future__ import annotations

import csv
import math
from typing import TYPE_CHECKING

from side_by_side.agreement import bias, mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from side_by_side.agreement import Comparison, Rules, Tolerance
    from side_by_side.campaign import Outcome
    from side_by_side.dctcp_loss import Row as LossRow
    from side_by_side.dctcp_loss import Stalls

MAIN_METRICS = (
    "goodput_bps", "fct_p50_s", "fct_p99_s", "drops", "marks", "timeouts", "queue_mean_over_time", "queue_max",
)  # fmt: skip


POINT = (
    "sender", "variant", "senders", "size_bytes", "rate_bps", "delay_us", "buffer_packets", "mark_packets",
    "initial_window", "rto_min_ms",
)  # fmt: skip


def write_points(file: Path, outcomes: Sequence[Outcome]) -> Path:
    """Write the main metrics' means over seeds and the standard errors of their differences, point by point."""
    rows = [
        {
            **point_columns(outcome),
            "equal_flows": _number(mean(outcome.equal)),
            **comparison_columns(outcome.comparisons, MAIN_METRICS),
        }
        for outcome in outcomes
    ]
    return write_rows(file, rows)


def point_columns(outcome: Outcome) -> dict[str, object]:
    """Return what identifies a point; of its links, by how much each is longer than the one before."""
    step_ps = 137 if outcome.place["links"] == "untied" else 0
    return {**{name: outcome.place[name] for name in POINT}, "delay_step_ps": step_ps}


def write_agreement(file: Path, rules: Rules, by_set: Mapping[str, Sequence[Outcome]]) -> Path:
    """Write per set, variant, sender and metric how many points agree and what they share."""
    rows: list[dict[str, object]] = []
    for name, outcomes in by_set.items():
        for group in groups(outcomes):
            for metric, tolerance in rules.metrics.items():
                found = of_group(outcomes, group, metric)
                shared = bias(found, tolerance, rules.bias)
                rows.append(
                    {
                        "set": name,
                        "variant": group[0],
                        "sender": group[1],
                        "metric": metric,
                        "points": len(found),
                        "agree": sum(comparison.agrees for comparison in found),
                        "bias": "" if shared is None else f"{shared.mean:.4f}",
                        "bias_error": "" if shared is None else f"{shared.standard_error:.4f}",
                        "bias_within": "" if shared is None else int(shared.within),
                    }
                )
    return write_rows(file, rows)


def groups(outcomes: Sequence[Outcome]) -> list[tuple[str, str]]:
    """Return the pairs of variant and sender, in order."""
    return list(dict.fromkeys(outcome.group for outcome in outcomes))


def of_group(outcomes: Sequence[Outcome], group: tuple[str, str], metric: str) -> list[Comparison]:
    """Return a metric's comparisons at all points of a variant and sender."""
    return [
        outcome.comparisons[metric] for outcome in outcomes if outcome.group == group and metric in outcome.comparisons
    ]


def comparison_columns(comparisons: Mapping[str, Comparison], metrics: Iterable[str]) -> dict[str, str]:
    """Return the columns of one point: `metric_ours`, `metric_ns3`, `metric_error`."""
    columns: dict[str, str] = {}
    for name in metrics:
        found = comparisons.get(name)
        columns |= {
            f"{name}_ours": _number(found.ours) if found else "",
            f"{name}_ns3": _number(found.ns3) if found else "",
            f"{name}_error": _number(found.standard_error) if found else "",
        }
    return columns


def write_rows(file: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    """Write a CSV file; its columns are those of the first row."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return file


def sweep(outcomes: Sequence[Outcome], senders: Sequence[int]) -> str:
    """Return the sweep at some numbers of senders: ours / ns-3's, in bold what does not agree."""
    shown = [
        ("goodput_bps", "goodput Mbit/s", 1e-6),
        ("drops", "drops", 1.0),
        ("marks", "marks", 1.0),
        ("timeouts", "timeouts", 1.0),
        ("fct_p50_s", "FCT p50 ms", 1e3),
        ("fct_p99_s", "FCT p99 ms", 1e3),
        ("queue_mean_over_time", "queue over time", 1.0),
    ]
    head = ["variant", "sender", "N", *(title for _, title, _ in shown), "equal flows %"]
    rows = [
        [
            *outcome.group,
            str(outcome.place["senders"]),
            *(pair(outcome.comparisons.get(name), scale) for name, _, scale in shown),
            f"{100 * mean(outcome.equal):.0f}",
        ]
        for outcome in outcomes
        if outcome.place["senders"] in senders
    ]
    return _table(head, rows)


def agreement(rules: Rules, outcomes: Sequence[Outcome]) -> str:
    """Return per metric how many points agree and what they all share."""
    of = groups(outcomes)
    rows = [
        [f"`{name}`", *(_agreement_cell(of_group(outcomes, group, name), tolerance, rules.bias) for group in of)]
        for name, tolerance in rules.metrics.items()
    ]
    equal = [mean([mean(o.equal) for o in outcomes if o.group == group]) for group in of]
    rows.append(["flows equal to 1 ns", *(f"{100 * share:.0f} %" for share in equal)])
    return _table(["metric", *(f"{variant}, {sender}" for variant, sender in of)], rows)


def worst(outcomes: Sequence[Outcome], count: int = 30) -> str:
    """Return the points that are farthest from agreement, by how many times the allowed difference."""
    ranked = sorted(
        (
            (abs(found.difference) / found.allowed if found.allowed else math.inf, name, found, outcome)
            for outcome in outcomes
            for name, found in outcome.comparisons.items()
            if not found.agrees
        ),
        key=lambda row: -row[0],
    )
    rows = [
        [f"{times:.1f}", name, f"{_number(found.ours)} / {_number(found.ns3)}", _place(outcome)]
        for times, name, found, outcome in ranked[:count]
    ]
    table = _table(["times allowed", "metric", "ours / ns-3", "point"], rows)
    of = sum(len(outcome.comparisons) for outcome in outcomes)
    return f"{table}\n\n{len(ranked)} of {of} comparisons do not agree."


def leaf_spine(rules: Rules, by_curve: Mapping[str, Sequence[Outcome]]) -> str:
    """Return the leaf-spine: ours / ns-3's, in bold what does not agree."""
    scales = {"s": ("ms", 1e3), "bit/s": ("Gbit/s", 1e-9), "packets": ("", 1.0), "": ("", 1.0)}
    metrics = [(name, *scales[tolerance.unit]) for name, tolerance in rules.leaf_spine.items()]
    head = [f"{name.removesuffix('_s').removesuffix('_bps').replace('_', ' ')} {unit}" for name, unit, _ in metrics]
    rows = [
        [
            *outcome.group,
            "met" if curve == "met" else "as it is",
            *(pair(outcome.comparisons.get(name), scale) for name, _, scale in metrics),
        ]
        for outcome, curve in leaf_spine_rows(by_curve)
    ]
    return _table(["variant", "sender", "ours", *head], rows)


def leaf_spine_rows(by_curve: Mapping[str, Sequence[Outcome]]) -> list[tuple[Outcome, str]]:
    """Return all points with their curves, by point."""
    return [
        pair
        for pairs in zip(*([(o, curve) for o in outcomes] for curve, outcomes in by_curve.items()), strict=True)
        for pair in pairs
    ]


def write_leaf_spine(file: Path, rules: Rules, by_curve: Mapping[str, Sequence[Outcome]]) -> Path:
    """Write the leaf-spine's means over seeds."""
    rows = [
        {
            "variant": outcome.group[0],
            "sender": outcome.group[1],
            "meets": int(curve == "met"),
            "seeds": len(outcome.equal),
            "marks_on_acks_ns3": _number(outcome.marks_on_acks),
            **comparison_columns(outcome.comparisons, rules.leaf_spine),
        }
        for outcome, curve in leaf_spine_rows(by_curve)
    ]
    return write_rows(file, rows)


def dctcp_loss(rows: Sequence[LossRow], stalls: Stalls) -> str:
    """Return what senders do about losses without marks, and how long windows were below one segment."""
    head = ["side", "sender", "window kept after a loss: median (least to most)", "drops", "timeouts", "Mbit/s"]
    cells = []
    for row in rows:
        kept = f"{row.kept_median:.2f} ({min(row.kept):.2f} to {max(row.kept):.2f})" if row.kept else "-"
        cells.append([row.side, row.sender, kept, str(row.drops), str(row.timeouts), f"{row.goodput_bps * 1e-6:.0f}"])
    below = (
        f"Windows below one segment in one incast of {stalls.of} senders: {stalls.senders} senders of ns-3, "
        f"{stalls.ns3_s * 1e3:.0f} ms together; ours {stalls.ours_s * 1e3:.0f} ms."
    )
    return f"{_table(head, cells)}\n\n{below}"


def failures(outcomes: Sequence[Outcome]) -> list[str]:
    """Return a line per point of which some run failed or did not complete."""
    return [
        f"{_place(outcome)}: runs without a result: {outcome.failed}"
        for outcome in outcomes
        if any(outcome.failed.values())
    ]


def pair(found: Comparison | None, scale: float = 1.0) -> str:
    """Write ours / ns-3's, in bold if they do not agree."""
    if found is None:
        return "-"
    text = f"{_number(found.ours * scale)} / {_number(found.ns3 * scale)}"
    return text if found.agrees else f"**{text}**"


def _place(outcome: Outcome) -> str:
    return " ".join(f"{key}={value}" for key, value in point_columns(outcome).items() if key != "size_bytes")


def _agreement_cell(found: Sequence[Comparison], tolerance: Tolerance, rules: dict[str, float]) -> str:
    if not found:
        return "-"
    within = sum(comparison.agrees for comparison in found)
    shared = bias(found, tolerance, rules)
    told = "" if shared is None else f", {100 * shared.mean:+.1f} ± {100 * shared.standard_error:.1f} %"
    text = f"{within} of {len(found)}{told}"
    return text if shared is None or shared.within else f"**{text}**"


def _number(value: float) -> str:
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}" if abs(value) < 1e6 else f"{value:.4e}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *rows])
