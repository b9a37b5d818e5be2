"""What was measured, in Markdown."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fan_in import campaign, judging
from fan_in.policies import OURS, POLICIES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fan_in.cells import Grid
    from fan_in.judging import Place, Row, Rules, Verdict
    from incast.estimates import Estimate

_RULES = {
    "gone": "The collapse is gone in cells without long flows",
    "cost": "It costs next to nothing where all at once does not collapse",
    "long flows": "With long flows it is no worse than all at once",
}


def text(title: str, release: str, rows: Sequence[Row], rules: Rules, grid: Grid) -> str:
    """Return the report of what is there of a grid."""
    found = judging.places(rows, rules)
    verdicts = judging.judge(found, rules, grid.policies)
    wanted = len(campaign.jobs(grid))
    whole = [place for place in found if judging.complete(place, rules, grid.policies)]
    refused = sum(row.refused for row in rows)
    busy, softirqs = _share([row.waiting for row in rows]), _share([row.softirq_waiting for row in rows])
    of_machine = (
        f"Linux {release}. {len(rows)} of {wanted} repetitions measured; {refused} more were refused, because the "
        f"machine was busy, and done again. The client or the servers waited for a CPU {busy} of the time, the "
        f"kernel's threads for packets {softirqs}."
    )
    of_cells = (
        "Goodput with the 95 % interval of its mean. Quantiles of queries are over all of them, those of responses the "
        "mean of the repetitions, in ms from the beginning of the query. Counts are over all repetitions. A query is "
        f"late if it had a timeout or took {rules.late_after_ms:g} ms more than the ideal."
    )
    blocks = [
        f"# {title}",
        of_machine,
        "## Verdict",
        f"By `tolerances.toml`. {len(whole)} of {len(grid.cells)} cells have all repetitions and are judged.",
        _summary(verdicts, grid),
        _judged(verdicts),
        "## Goodput",
        "Mbit/s, mean over the repetitions. Bold is the best of the cell, † a cell in which all at once collapses.",
        _overview(found, rules, grid),
        "## Cells",
        of_cells,
        *(_cell(place, rules, grid) for place in found),
    ]
    return "\n\n".join(blocks) + "\n"


def _share(values: Sequence[float]) -> str:
    mean = math.fsum(values) / len(values) if values else math.nan
    return f"{mean:.2%} (at most {max(values, default=math.nan):.1%})"


def _summary(verdicts: Sequence[Verdict], grid: Grid) -> str:
    ours = [policy for policy in OURS if policy in grid.policies]
    lines = ["| rule | " + " | ".join(POLICIES[policy] for policy in ours) + " |", "|---|" + "---|" * len(ours)]
    for rule, says in _RULES.items():
        cells = []
        for policy in ours:
            mine = [one.holds for one in verdicts if (one.rule, one.policy) == (rule, policy)]
            cells.append(f"holds in {sum(mine)} of {len(mine)} cells" if mine else "not judged")
        lines.append(f"| {says} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _judged(verdicts: Sequence[Verdict]) -> str:
    lines = ["| cell | rule | policy | | |", "|---|---|---|---|---|"]
    for one in verdicts:
        held = "holds" if one.holds else "**fails**"
        lines.append(f"| {one.cell.name} | {one.rule} | {POLICIES[one.policy]} | {held} | {one.says} |")
    return "\n".join(lines)


def _overview(found: Sequence[Place], rules: Rules, grid: Grid) -> str:
    names = [POLICIES[policy] for policy in grid.policies]
    lines = ["| cell | ideal | " + " | ".join(names) + " |", "|---|---|" + "---|" * len(names)]
    for place in found:
        cells = []
        for policy in grid.policies:
            if policy not in place.by:
                cells.append("-")
                continue
            mean = place.by[policy].goodput.mean
            told = f"{mean:.1f}"
            if policy == "all" and judging.collapses(place, rules):
                told += "†"
            cells.append(f"**{told}**" if mean == place.best else told)
        lines.append(f"| {place.cell.name} | {place.cell.ideal_mbps:.1f} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(place: Place, rules: Rules, grid: Grid) -> str:
    cell = place.cell
    columns = [
        "policy", "repetitions", "goodput", "of the best", "query p50", "p99", "response p50", "p99", "timeouts",
        "probes", "late", "drops", "longest to warm up", *(["long flows, Mbit/s"] if cell.long_flows else []),
    ]  # fmt: skip
    lines = [
        f"### {cell.name}",
        "",
        (
            f"{cell.queries} queries after {cell.warm_up} to warm up; ideal {cell.ideal_s * 1e3:.0f} ms, "
            f"{cell.ideal_mbps:.1f} Mbit/s."
        ),
        "",
        "| " + " | ".join(columns) + " |",
        "|" + "---|" * len(columns),
    ]
    for policy, one in place.by.items():
        queries = [ms for row in one.rows for ms in row.queries_ms]
        cells = [
            POLICIES[policy],
            str(len(one.rows)),
            _interval(one.goodput),
            f"{one.goodput.mean / place.best:.2f}",
            f"{judging.quantile(queries, 50):.0f}",
            f"{judging.quantile(queries, 99):.0f}",
            _mean([row.response_p50_ms for row in one.rows]),
            _mean([row.response_p99_ms for row in one.rows]),
            str(sum(row.timeouts for row in one.rows)),
            str(sum(row.probes_sent for row in one.rows)),
            f"{one.late} of {one.queries}",
            str(sum(row.drops for row in one.rows)),
            f"{max(row.warm_up_ms for row in one.rows):.0f}",
        ]
        if cell.long_flows:
            cells.append(_mean([row.long_mbps for row in one.rows]))
        lines.append("| " + " | ".join(cells) + " |")
    if not judging.complete(place, rules, grid.policies):
        lines += ["", "Not judged: repetitions are missing."]
    return "\n".join(lines)


def _interval(value: Estimate) -> str:
    if math.isnan(value.half_width):
        return f"{value.mean:.1f}"
    return f"{value.mean:.1f} ± {value.half_width:.1f}"


def _mean(values: Sequence[float]) -> str:
    return f"{math.fsum(values) / len(values):.0f}"
