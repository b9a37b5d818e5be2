"""The report of a run, or of two, as one page that needs nothing else."""

from __future__ import annotations

import base64
import gzip
import html
import json
from importlib import resources
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from incast import figures, text
from incast.report.data import MOST_LANES, Drawn
from incast.report.explain import Story, duration, moment
from incast.report.outline import Outline
from incast.report.recorded import Recorded, count, size

if TYPE_CHECKING:
    from collections.abc import Sequence

# Rows of the tables beside the charts.
_ROWS = 24


def build(runs: Sequence[Recorded], *, port: str | None = None, labels: Sequence[str] | None = None) -> str:
    """Draw one run, or several on one axis.

    Args:
        runs: what was recorded.
        port: the port to draw, as in `queue_series`; by default the one with most drops in each run.
        labels: a name for each run; by default that of its sender.

    Raises:
        ScenarioError: the port was not recorded, or no flow uses it.

    """
    names = list(labels) if labels else names_of(runs)
    drawn = [
        (Drawn if run.has_packets else Outline)(run, run.port(port), name)
        for run, name in zip(runs, names, strict=True)
    ]
    for one in drawn:
        if not one.flows:
            raise api_error(f"{one.run.name}: no message was sent through {one.port.name}")
    looks, unit = figures.with_own_dashes(figures.looks(distinct(names))), units(drawn)
    document = {
        "runs": [
            {
                **one.as_json(str(unit["key"])),
                "light": figures.LIGHT.cycle[look.colour],
                "dark": figures.DARK.cycle[look.colour],
                "dash": list(look.on_off()),
                "why": {str(story.flow.id): why(story) for story in one.lanes},
            }
            for one, look in zip(drawn, looks, strict=True)
        ],
        "order": order(drawn),
        "words": WORDS,
        "unit": unit,
    }
    packed = gzip.compress(json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode(), 9, mtime=0)
    here = resources.files("incast.report")

    def read(name: str) -> str:
        return here.joinpath(name).read_text(encoding="utf-8")

    parts = {
        "title": html.escape(title(drawn)),
        "lead": lead(drawn),
        "cards": "".join(card(one, index) for index, one in enumerate(drawn)),
        "queue_title": queue_title(drawn),
        "lanes": "".join(lanes_section(one, index) for index, one in enumerate(drawn)),
        "note": note(drawn),
        "outstanding": html.escape(outstanding(drawn)),
        "queue_label": html.escape(queue_label(drawn)),
        "goodput_label": html.escape(goodput_label(drawn)),
        "goodput_title": goodput_title(drawn),
        "queue_table": queue_table(drawn),
        "goodput_table": goodput_table(drawn),
        "flows_table": flows_table(drawn),
        "run_head": "".join(f'<th scope="col">{words}</th>' for words in readout_head(drawn)),
        "settings": settings(drawn),
        "uplot_css": read("vendor/uPlot.min.css"),
        "uplot": read("vendor/uPlot.iife.min.js"),
        "uplot_licence": html.escape(read("vendor/uPlot.LICENSE")),
        "script": read("page.js"),
        "data": base64.b64encode(packed).decode("ascii"),
    }
    page = read("page.html")
    # One pass, so that what is filled in is not searched again.
    first, *rest = page.split("{{")
    filled = [first]
    for piece in rest:
        name, after = piece.split("}}", 1)
        filled += [parts[name], after]
    return "".join(filled)


def api_error(message: str) -> Exception:
    """Return the error of bad input."""
    from incast._native import ScenarioError

    return ScenarioError(message)


# What the script writes, with {} for numbers. Everything else on the page is written here in Python.
WORDS = {
    "idle": "{} idle",
    "flow": "flow {}",
    "windows": "Windows of flow {}",
    "windowsLine": "line: congestion window; filled: in flight",
    "windowsThreshold": "dotted: slow-start threshold",
    "windowsReceiver": "long dashes: receive window",
    "windowsReceiverAbove": "far above: the receive window, at least {}",
    "waitTimer": "waits for a retransmission timer until {} ({})",
    "waitProbe": "waits for the timer of a probe until {} ({})",
    "ranTimer": "a retransmission timer ran out at {} ({})",
    "ranProbe": "the timer of a probe ran out at {} ({})",
    "segment": "packet {}",
    "byte": "byte {} of the flow",
    "drop": "{} dropped at {}",
    "drops": "{} packets dropped from {} to {}",
    "fast": "fast retransmit of {} at {}",
    "fasts": "{} fast retransmits from {} to {}",
    "waits": "{} waits for timers, which ran out from {} to {}",
    "packet": "packet {}: arrived at {}, left the port after {}",
    "block": "{} packets from {} to {}",
    "done": "complete at {}",
    "open": "request outstanding, nothing of it at the port",
    "under": "request outstanding; its packets were not recorded",
    "unknown": "not recorded",
    "notYet": "not started yet",
    "play": "Play",
    "pause": "Pause",
    "none": "This flow has no row in this run.",
}


def readout_head(drawn: Sequence[Drawn]) -> tuple[str, ...]:
    """Say what the numbers at the cursor are; flows without a row are not counted."""
    has_rows = all(len(one.lanes) == len(one.flows) for one in drawn)
    under_way = "flows under way" if has_rows else f"of {MOST_LANES} rows: under way"
    return ("run", "at", "queue", under_way, "wait for a timer", "done", "goodput")


def units(drawn: Sequence[Drawn]) -> dict[str, str | float]:
    """Return in which units queues and rates are drawn: packets where buffers count them."""
    if all(one.port.limit_bytes is None and one.port.limit_packets is not None for one in drawn):
        queue: dict[str, str | float] = {
            "key": "packets", "limit": "limitPackets", "scale": 1, "label": "packets", "digits": 0
        }  # fmt: skip
    else:
        queue = {"key": "bytes", "limit": "limit", "scale": 1024, "label": "KiB", "digits": 1}
    queue["top"] = queue_top(drawn) or 0
    giga = min(one.port.rate_bps for one in drawn) >= 10**10
    rate: dict[str, str | float] = {"rate": 1e9 if giga else 1e6, "rateLabel": "Gbit/s" if giga else "Mbit/s"}
    return {**queue, **rate, "flow": "flow"}


def queue_top(drawn: Sequence[Drawn]) -> float | None:
    """Return where the axis of the queue ends if the limit lies so far above that nothing else would be seen."""
    in_packets = all(one.port.limit_bytes is None and one.port.limit_packets is not None for one in drawn)
    limits = [one.port.limit_packets if in_packets else one.port.limit_bytes for one in drawn]
    most = max(one.most("packets" if in_packets else "bytes") for one in drawn)
    known = [limit for limit in limits if limit is not None]
    return float(most) if known and 0 < 4 * most < min(known) else None


def names_of(runs: Sequence[Recorded]) -> list[str]:
    """Name runs after their senders if that tells them apart, else after their folders."""
    known = {name.lower(): name for name in figures.LOOKS}
    if len(runs) == 2 and len({run.on_kernel for run in runs}) == 2:
        return ["linux" if run.on_kernel else "packets" for run in runs]
    senders = [run.sender for run in runs]
    if None not in senders and len(set(senders)) == len(runs):
        return [known.get(str(sender), str(sender)) for sender in senders]
    names = [run.name.rstrip("/").rsplit("/", 1)[-1] for run in runs]
    return names if len(set(names)) == len(names) else [run.name for run in runs]


def distinct(names: Sequence[str]) -> list[str]:
    """Return names of which none has the look of another one."""
    return [f"{name} #{index}" if name in names[:index] else name for index, name in enumerate(names)]


def order(drawn: Sequence[Drawn]) -> list[int]:
    """Return the flows in the order of their rows: by completion in the first run, then those of the others."""
    rows: dict[int, None] = {}
    for one in drawn:
        rows.update(dict.fromkeys(story.flow.id for story in one.lanes))
    return list(rows)


def title(drawn: Sequence[Drawn]) -> str:
    """Say what is shown."""
    names = list(dict.fromkeys(str(one.run.summary["scenario"]) for one in drawn))
    return f"{' and '.join(names)}: what happened inside"


def lead(drawn: Sequence[Drawn]) -> str:
    """Say how the runs went."""
    said = []
    for one in drawn:
        own = f"<b>{html.escape(one.label)}</b>"
        complete = sum(flow.complete for flow in one.flows)
        sizes = {flow.size for flow in one.flows}
        same = next(iter(sizes)) if len(sizes) == 1 else None
        each = "" if same is None else f" of {size(same)}"
        took = one.end - one.begin
        if complete == len(one.flows):
            how = f"{count(complete, 'flow')}{each} took <b>{duration(took)}</b> in all"
        else:
            how = f"{complete:,} of {count(len(one.flows), 'flow')}{each} were complete after <b>{duration(took)}</b>"
        if not one.records_packets:
            said.append(f"<p>{own}: {how}. It ran on a kernel, and its packets were not recorded.</p>")
            continue
        how += f". The line was idle for {share(one.idle)} of that time"
        if one.idle_with_timer >= 0.005:
            how += f"; during {share(one.idle_with_timer)} of the idle time some flow waited for a retransmission timer"
        said.append(f"<p>{own}: {how}.</p>")
    ports = list(dict.fromkeys(f"{one.port.name} at {text.rate(one.port.rate_bps)}" for one in drawn))
    where = f"<p>All of this is about the port {html.escape(' and '.join(ports))}.</p>"
    return "".join(said) + where


def share(part: float) -> str:
    """Write a share in per cent, which is all only if nothing is missing."""
    return "all" if part >= 1 else "more than 99%" if part >= 0.995 else f"{part:.0%}"


def card(one: Drawn, index: int) -> str:
    """Return the figures of a run, as a switch that shows and hides it."""
    figures_ = [
        f"{text.rate(one.mean_bps)} goodput {'through the port' if one.records_packets else 'of all flows'}",
        f"{one.dropped:,} dropped at the port",
    ]
    if one.records_events:
        figures_ += [count(len(one.timeouts), "timeout"), count(one.fast_retransmits, "fast retransmit")]
    if len(one.marks):
        figures_.append(f"{len(one.marks):,} marked")
    return (
        f'<button class="card" aria-pressed="true" data-run="{index}"><span>{html.escape(one.label)}</span>'
        f"<b>{duration(one.end - one.begin)}</b><span>{' · '.join(figures_)}</span>"
        f"<span>{f'line idle {one.idle:.1%} of the time' if one.records_packets else 'on a kernel'}</span></button>"
    )


def queue_title(drawn: Sequence[Drawn]) -> str:
    """Say what the chart of the queue shows."""
    ports = list(dict.fromkeys(one.port.name for one in drawn))
    limits = list(dict.fromkeys(limit for one in drawn if (limit := one.port.limit())))
    drops = any(len(one.drops) for one in drawn)
    marks = any(len(one.marks) for one in drawn)
    # The queue of a kernel is that of its token bucket, where the packet that leaves next stands, too.
    counts = {
        False: "waiting, without the packet on the line",
        True: "waiting, with the packet that leaves next, looked at once a millisecond",
    }
    said = list(dict.fromkeys(one.run.on_kernel for one in drawn))
    parts = [counts[said[0]]] if len(said) == 1 else [f"{one.label}: {counts[one.run.on_kernel]}" for one in drawn]
    if limits:
        beyond = queue_top(drawn) is not None
        parts.append(f"{'far above: the' if beyond else 'dashed:'} room for {' and '.join(limits)}")
    parts += ["✕ dropped, many: a line"] if drops else []
    parts += ["ticks below: marked"] if marks else []
    return f"Queue at {html.escape(' and '.join(ports))} <small>({html.escape('; '.join(parts))})</small>"


def queue_label(drawn: Sequence[Drawn]) -> str:
    """Say what the chart of the queue shows, for those who do not see it."""
    said = [
        f"{one.label}: at most {size(one.most_waiting)} waited, "
        f"{count(one.dropped, 'packet')} dropped{f', {len(one.marks):,} marked' if one.records_packets else ''}."
        for one in drawn
    ]
    return f"Queue over time. {' '.join(said)} The table below has the numbers."


def lanes_section(one: Drawn, index: int) -> str:
    """Return the place for the rows of a run."""
    slow = f"the {len(one.lanes)} slowest of " if len(one.lanes) < len(one.flows) else ""
    stories = one.lanes
    waited = sum(any(wait.kind != "tail-probe" for wait in story.waits) for story in stories)
    lost = sum(bool(story.drops) for story in stories)
    label = (
        f"One row per flow over time, {slow}{count(len(one.flows), 'flow')}. "
        + (
            f"{lost:,} of them lost packets, {waited:,} waited for a retransmission timer. "
            if one.records_events
            else ""
        )
        + "The table of flows has the numbers."
    )
    name, spoken = html.escape(one.label), html.escape(f"{one.label}. {label}")
    return (
        f'<section class="run" data-run="{index}"><h3><span class="own">{name}</span>: what each flow did '
        f"<small>({slow}{count(len(one.flows), 'flow')}, first to complete at the top; click a row)</small></h3>"
        f'<div class="chart" id="lanes{index}" role="img" aria-label="{spoken}"></div></section>'
    )


def goodput_title(drawn: Sequence[Drawn]) -> str:
    """Say what the chart of goodput shows."""
    widths = list(dict.fromkeys(duration(one.goodput[0]) for one in drawn if one.records_packets))
    lacking = [f"; not recorded: {html.escape(one.label)}" for one in drawn if not one.records_packets]
    shown = f"payload, first copies only; mean over {html.escape(' and '.join(widths))}; " if widths else ""
    return f"Goodput through the port <small>({shown}dashed: the line{''.join(lacking)})</small>"


def goodput_label(drawn: Sequence[Drawn]) -> str:
    """Say what the chart of goodput shows, for those who do not see it."""
    said = [
        f"{one.label}: {text.rate(one.mean_bps)} on average, the line idle {one.idle:.0%} of the time."
        if one.records_packets
        else f"{one.label}: not recorded."
        for one in drawn
    ]
    return f"Goodput over time. {' '.join(said)} The table below has the numbers."


def outstanding(drawn: Sequence[Drawn]) -> str:
    """Say what the line of a flow means where no packets of it are."""
    without = [one.label for one in drawn if not one.records_packets]
    if len(without) == len(drawn):
        return "outstanding"
    more = f"; {' and '.join(without)}: outstanding" if without else ""
    return f"outstanding, nothing at the port{more}"


def note(drawn: Sequence[Drawn]) -> str:
    """Say what is not drawn one by one."""
    said = []
    for one in drawn:
        if not one.records_packets:
            said.append(
                f"{one.label}: packets at the port were not recorded. So the rows of flows show none, "
                "and goodput over time and shares of a flow's time are missing. Of a timer only the moment is drawn "
                "when it ran out. Marks, and probes with new data, are not drawn. Queue and windows were looked at "
                "once a millisecond. The flows are all of the run."
            )
        elif one.run.on_kernel:
            said.append(
                f"{one.label}: it ran on a kernel, whose queue and windows were looked at once a millisecond. Probes "
                "with new data are not told."
            )
            unknown = one.untimed
            if unknown:
                said.append(
                    f"{one.label}: since when timers ran is not known of {unknown:,}; of them the moment is drawn "
                    "when they ran out, and no wait."
                )
        if not one.records_events:
            said.append(f"{one.label}: losses, retransmissions and timeouts of its flows were not recorded.")
        if len(one.flows) > len(one.lanes):
            said.append(
                f"{one.label}: the {MOST_LANES} slowest of {count(len(one.flows), 'flow')} have a row of their own; "
                "losses and timeouts of the others are in the last row."
            )
        if len(one.drawn_marks) < len(one.marks):
            said.append(f"{one.label}: of {len(one.marks):,} marks the first in each {duration(one.mark_ps)} is drawn.")
        if one.in_blocks:
            said.append(
                f"{one.label}: packets of {count(one.in_blocks, 'flow')} are drawn as blocks; every loss is drawn."
            )
    return f'<p class="note">{html.escape(" ".join(said))}</p>' if said else ""


def why(story: Story) -> str:
    """Return the explanation of a flow."""
    took = story.flow.end - story.flow.begin
    labels = story.labels()
    shares = "".join(
        f"<tr><td>{html.escape(labels[kind])}</td><td>{duration(ps)}</td><td>{ps / took:.1%}</td></tr>"
        for kind, ps in story.shares.items()
        if ps
    )
    steps = "".join(
        f'<li class="{step.kind}"><button type="button" data-a="{(step.begin + 500) // 1000}" '
        f'data-b="{(step.end + 500) // 1000}">{moment(step.begin)}'
        f"{f' to {moment(step.end)}' if step.end > step.begin else ''}</button> {html.escape(step.text)}</li>"
        for step in story.steps
    )
    if story.left_out:
        steps += f"<li>{count(story.left_out, 'shorter step')} of it are not told here.</li>"
    head = f"<p>{html.escape(story.headline)}</p>"
    table = f"<table><tbody>{shares}</tbody></table>" if shares else ""
    return f"{head}{table}<ol>{steps}</ol>"


def flows_table(drawn: Sequence[Drawn]) -> str:
    """Return the flows with a row, as a table."""
    stories = [{story.flow.id: story for story in one.lanes} for one in drawn]
    columns = ("time", "dropped", "fast retransmits", "timeouts", "probes", "waiting for timers")
    groups = "".join(f'<th scope="colgroup" colspan="{len(columns)}">{html.escape(one.label)}</th>' for one in drawn)
    head = f'<tr><th rowspan="2" scope="col">flow</th>{groups}</tr><tr>'
    head += "".join(f'<th scope="col">{column}</th>' for _ in drawn for column in columns) + "</tr>"
    rows = []
    for flow in order(drawn):
        cells = []
        for run, of_run in zip(drawn, stories, strict=True):
            story = of_run.get(flow)
            if story is None:
                cells += [""] * len(columns)
                continue
            timeouts = sum(wait.kind != "tail-probe" for wait in story.waits)
            took = duration(story.flow.end - story.flow.begin) + ("" if story.flow.complete else ", not complete")
            if not run.records_events:
                cells += [took, *["not recorded"] * (len(columns) - 1)]
                continue
            waited = "-"
            if story.waits:
                known = run.records_packets and all(wait.is_known for wait in story.waits)
                waited = duration(story.shares["timer"] + story.shares["probe"]) if known else "not recorded"
            cells += [
                took,
                f"{len(story.drops):,}",
                f"{len(story.fast):,}",
                f"{timeouts:,}",
                f"{len(story.waits) - timeouts:,}",
                waited,
            ]
        rows.append(f'<tr><th scope="row">{flow}</th>' + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"


def queue_table(drawn: Sequence[Drawn]) -> str:
    """Return the queue in equal stretches of time, as a table."""
    parts = []
    for one in drawn:
        width = max(1, -(-(one.end - one.begin) // _ROWS))
        # In order of time: each stretch is a slice.
        edges = np.searchsorted(one.queue["time_ps"].to_numpy(), one.begin + width * np.arange(_ROWS + 1)).tolist()
        waiting = one.queue["waiting_bytes"].to_numpy()
        most = {number: int(waiting[a:b].max()) for number, (a, b) in enumerate(pairwise(edges)) if a < b}
        drops = one.drops.group_by(((pl.col("arrive_ps") - one.begin) // width).alias("stretch")).len()
        dropped = dict(drops.iter_rows())
        rows = [
            (
                f"{moment(one.begin + number * width)} to {moment(min(one.end, one.begin + (number + 1) * width))}",
                size(most[number]) if number in most else "no change",
                f"{dropped.get(number, 0):,}",
            )
            for number in range(_ROWS)
            if number in most or number in dropped
        ]
        parts.append(_table(one.label, ("time", "most waiting", "dropped"), rows))
    return "".join(parts)


def goodput_table(drawn: Sequence[Drawn]) -> str:
    """Return goodput in equal stretches of time, as a table."""
    parts = []
    for one in (one for one in drawn if one.records_packets):
        width, bins, got = one.goodput
        stretch = max(1, -(-(one.end // width + 1) // _ROWS))
        sums: dict[int, int] = {}
        for number, payload in zip(bins.tolist(), got.tolist(), strict=True):
            sums[number // stretch] = sums.get(number // stretch, 0) + payload
        rows = [
            (
                f"{moment(number * stretch * width)} to {moment((number + 1) * stretch * width)}",
                text.rate(payload * 8e12 / (stretch * width)),
                size(payload),
            )
            for number, payload in sums.items()
        ]
        parts.append(_table(one.label, ("time", "goodput", "payload"), rows))
    return "".join(parts)


def settings(drawn: Sequence[Drawn]) -> str:
    """Return what the runs were, as a table."""
    rows = [
        (
            one.label,
            str(one.run.summary["scenario"]),
            str(one.run.summary["seed"]),
            ", ".join(f"{name}: {of.get('sender', '-')}" for name, of in one.run.summary["classes"].items()),
            str(one.run.summary["outcome"]),
            one.run.name,
        )
        for one in drawn
    ]
    return _table("Runs", ("run", "scenario", "seed", "sender of each class", "outcome", "tables"), rows)


def _table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    heads = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row">{html.escape(first)}</th>'
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in rest)
        + "</tr>"
        for first, *rest in rows
    )
    return (
        f"<table><caption>{html.escape(caption)}</caption><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
    )
