"""The demo: TCP incast on one page, simulated while you wait."""

from __future__ import annotations

import json
import math
import re
import time
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from incast import _native, api, demo_page, figures, text
from incast.estimates import Estimate, estimate
from incast.report.data import Drawn
from incast.report.recorded import Recorded
from incast.tables import PS_PER_S

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

SCENARIO = "incast"
_GIVEN = tomllib.loads(_native.example(SCENARIO))
_LINK, _SWITCH, _TCP, _ASKED = (
    _GIVEN["topology"]["link"],
    _GIVEN["switch"],
    _GIVEN["tcp"],
    _GIVEN["traffic"]["requests"],
)
LINE_RATE_BPS = float(_native.quantity("rate", _LINK["rate"]))
# A request and its response cross two links each.
RTT_S = 4 * _native.quantity("time", _LINK["delay"]) / PS_PER_S
RTO_MIN_S = _native.quantity("time", _TCP["rto_min"]) / PS_PER_S
RESPONSE_BYTES = _native.quantity("bytes", _ASKED["response"])
MSS_BYTES = _native.quantity("bytes", _TCP["mss"])
BUFFER_KIB = _native.quantity("bytes", _SWITCH["buffer"]["limit"]) // 1024
ROUNDS = 20
# A number of senders at which NewReno has collapsed and DCTCP has not.
COLLAPSED = 40
# Records the windows of all senders.
EVERYONE = {"record.window_series": ["requests"]}
# And what tells when the link was idle, and why.
_INSIDE = {**EVERYONE, "record.events": True, "record.packets": ["bottlenecks"]}
# What collapses, and remedies: what each changes, and what it is.
CURVES: dict[str, dict[str, object]] = {
    "NewReno": {"stack.sender": "newreno"},
    "RTOmin 1 ms": {"stack.sender": "newreno", "tcp.rto_min": "1ms"},
    "ICTCP": {"stack.sender": "newreno", "stack.receiver": "ictcp"},
    "DCTCP": {"stack.sender": "dctcp"},
    "credit": {"stack.sender": "newreno", "stack.receiver": "credit"},
}
REMEDIES = {
    "RTOmin 1 ms": "NewReno whose timers run for 1 ms at least instead of 200 ms; for all senders",
    "ICTCP": "the client limits the windows of NewReno senders by the goodput that it measures",
    "DCTCP": "the switch marks packets, and senders slow down by the share of marks; for all senders",
    "credit": "the client grants the windows of NewReno senders from one budget, so that they fit into the port",
}
# Remedies that are told apart from a few numbers of senders.
_SPARSE = {"RTOmin 1 ms", "ICTCP", "credit"}


def _spaced(quantity: str) -> str:
    """Write a quantity of a scenario for people: `64KiB` is 64 KiB."""
    return re.sub(r"(\d)(?=[A-Za-z])", r"\1 ", quantity).replace("bps", "bit/s")


# The scenario, for readers of the page.
DESCRIPTION = (
    ("Network", f"one switch; every link {_spaced(_LINK['rate'])}"),
    ("Round-trip time, idle", text.seconds(RTT_S)),
    ("Hosts", f"each takes {_spaced(_GIVEN['hosts']['noise']['mean'])} on average for a packet, sent or received"),
    (
        "Buffer per switch port",
        f"{BUFFER_KIB} KiB, drop-tail; marks from {_spaced(_SWITCH['marker']['threshold'])} on, which only DCTCP obeys",
    ),
    ("Response of each sender", f"{_spaced(_ASKED['response'])}, in packets of {MSS_BYTES / 1024:g} KiB"),
    (
        "Initial window",
        f"{_TCP['initial_window']} segment{'' if _TCP['initial_window'] == 1 else 's'}, fresh for every response",
    ),
    ("Rounds", f"{ROUNDS}; the next one starts when the slowest response is complete"),
    ("Jitter", f"each request leaves up to {_spaced(_ASKED['jitter'])} late"),
    ("Minimum retransmission timeout", _spaced(_TCP["rto_min"])),
    *((f"Remedy: {name}", said) for name, said in REMEDIES.items()),
)


class Point(NamedTuple):
    """All replications of one curve with one number of senders."""

    goodput_bps: list[float]
    timeouts: list[float]


Sweep = dict[str, dict[int, Point]]


@dataclass(frozen=True)
class Timeline:
    """One round of one run over time."""

    title: str
    queues: Mapping[str, NDArray[np.generic]]
    windows: Mapping[str, NDArray[np.generic]]
    """Of the senders of the responses."""
    end_s: float
    drops: int
    timeouts: int
    shortest_timer_s: float | None
    """How long the shortest timer ran that fired."""
    idle_s: float
    """How long the port to the client sent no payload."""
    waits_of_idle: float
    """In what share of that time some sender waited for its timer."""
    named: Mapping[int, str]


def main(directory: Path, *, senders: int, seeds: int, as_json: bool = False) -> None:
    """Simulate, draw and write the page into `directory`."""
    if senders < 2 or seeds < 2:
        raise api.ScenarioError("the demo needs at least 2 senders and 2 seeds")
    started = time.monotonic()
    counts = {label: sampled(senders, sparse=label in _SPARSE) for label in CURVES}
    points = sweep(counts, seeds)
    before, after = sides(points["NewReno"])
    timelines = [
        timeline("NewReno", before),
        timeline("NewReno", after),
        timeline("DCTCP", after),
        timeline("credit", after),
    ]
    simulated = time.monotonic() - started

    numbers = _csv(points)
    pictures = {
        "goodput": draw_goodput(points), "queues": draw_queues(timelines), "windows": draw_windows(timelines),
    }  # fmt: skip
    files = [figures.save(picture, directory / f"{name}.png", table=numbers) for name, picture in pictures.items()]
    (directory / "goodput.csv").write_text(numbers, encoding="utf-8")
    page = directory / "index.html"
    page.write_text(demo_page.build(points, timelines, before, after, seeds), encoding="utf-8")

    if as_json:
        print(json.dumps(_as_json(points, timelines)))
        return
    print(summary(points))
    runs = sum(map(len, counts.values())) * seeds
    print(f"\n{runs:,} runs in {simulated:.1f} s, {time.monotonic() - started:.1f} s in total")
    print(f"page     {page}")
    print(f"figures  {', '.join(map(str, files))}")
    print(f"data     {directory / 'goodput.csv'}")


def _as_json(points: Sweep, timelines: Sequence[Timeline]) -> dict[str, object]:
    """Return what the page shows: every run, and the rounds whose queues and windows are drawn."""
    return {
        "goodput": [
            {"curve": label, "senders": n, "goodput_bps": point.goodput_bps, "timeouts": point.timeouts}
            for label, row in points.items()
            for n, point in row.items()
        ],
        "rounds": [
            {
                "title": line.title,
                "end_s": line.end_s,
                "drops": line.drops,
                "timeouts": line.timeouts,
                "shortest_timer_s": line.shortest_timer_s,
                "idle_s": line.idle_s,
                "share_of_idle_with_timer": line.waits_of_idle,
            }
            for line in timelines
        ],
    }


def sweep(counts: Mapping[str, Sequence[int]], seeds: int) -> Sweep:
    """Run every curve with its numbers of senders and every seed."""
    keys = [(label, n, seed) for label in counts for n in counts[label] for seed in range(1, seeds + 1)]
    nothing = {"record.queue_statistics": False, "record.queue_series": [], "record.window_series": []}
    jobs: list[api.Job] = [(SCENARIO, {**changes(label, n, ROUNDS), **nothing}, seed) for label, n, seed in keys]
    results = api.run_many(jobs, progress=True)
    points: Sweep = {label: {n: Point([], []) for n in of} for label, of in counts.items()}
    for (label, n, _), result in zip(keys, results, strict=True):
        found = result.summary_dict
        points[label][n].goodput_bps.append(float(found["goodput_total_bps"]))
        points[label][n].timeouts.append(float(found["timeouts"]))
    return points


def sampled(most: int, *, sparse: bool = False) -> list[int]:
    """Choose numbers of senders: densely where goodput changes quickly, unless all are to be sparse."""
    few = {1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 30, 34, 40, 48, 60, *range(64, most, 8)}
    dense = {*few, *range(1, 21), *range(20, 41, 2), *range(57, 65), *range(40, most, 4)}
    return sorted(n for n in {*(few if sparse else dense), most} if n <= most)


def changes(label: str, senders: int, rounds: int) -> dict[str, object]:
    """Return what a curve and a number of senders change in the scenario."""
    return {
        **CURVES[label],
        "traffic.requests.workers": senders,
        "traffic.requests.rounds": rounds,
    }


def goodput(point: Point) -> Estimate:
    """Estimate the goodput in bit/s."""
    return estimate(point.goodput_bps)


def sides(points: Mapping[int, Point]) -> tuple[int, int]:
    """Choose a number of senders on each side of the collapse: the best one, and one far beyond."""
    best = max(points, key=lambda n: goodput(points[n]).mean)
    return best, min(max(points), COLLAPSED)


def timeline(label: str, senders: int) -> Timeline:
    """Run one round and record its queue and windows."""
    result = api.run(SCENARIO, set={**changes(label, senders, rounds=1), **_INSIDE}, seed=1)
    found = result.summary_dict
    run = Recorded.of(result)
    port = Drawn(run, run.port(), label)
    ran = (port.timeouts["time_ps"] - port.timeouts["armed_ps"]).to_list()
    flows = figures.columns(result.table("flows"))
    return Timeline(
        title=f"{label}, {senders} sender{'s' if senders > 1 else ''}",
        queues=figures.columns(result.table("queues")),
        windows=figures.of_side(figures.columns(result.table("windows")), clients=False),
        end_s=float(np.nanmax(flows["end_s"].astype(float))),
        drops=int(found["drops"]),
        timeouts=int(found["timeouts"]),
        shortest_timer_s=min(ran) / PS_PER_S if ran else None,
        idle_s=port.idle * (port.end - port.begin) / PS_PER_S,
        waits_of_idle=port.idle_with_timer,
        named=_stories(flows),
    )


def _stories(flows: Mapping[str, NDArray[np.generic]]) -> dict[int, str]:
    """Pick the connections worth following: the first and the last to finish."""
    order = np.argsort(flows["end_s"].astype(float), kind="stable")
    connection, timeouts = flows["connection"], flows["timeouts"]
    named = {int(connection[order[0]]): "first to finish"}
    if len(order) > 1:
        last, count = order[-1], int(timeouts[order[-1]])
        after = f", after {count} timeout{'s' if count > 1 else ''}" if count else ""
        named[int(connection[last])] = f"last to finish{after}"
    return named


def draw_goodput(points: Sweep, style: figures.Style = figures.LIGHT) -> Figure:
    """Draw the goodput of all curves."""
    curves = {label: {n: point.goodput_bps for n, point in row.items()} for label, row in points.items()}
    return figures.goodput(curves, line_rate_bps=LINE_RATE_BPS, style=style)


def draw_queues(timelines: Sequence[Timeline], style: figures.Style = figures.LIGHT) -> Figure:
    """Draw the queues, one panel per run."""
    panels = {line.title: line.queues for line in timelines}
    full = {"limit of the buffer": float(BUFFER_KIB)}
    return figures.queue(panels, unit="KiB", levels=full, limits_s=_limits(timelines), style=style)


def draw_windows(timelines: Sequence[Timeline], style: figures.Style = figures.LIGHT) -> Figure:
    """Draw the windows, one panel per run."""
    panels, named = {line.title: line.windows for line in timelines}, {line.title: line.named for line in timelines}
    return figures.windows(panels, named=named, limits_s=_limits(timelines), mss_bytes=MSS_BYTES, style=style)


def _limits(timelines: Sequence[Timeline]) -> dict[str, tuple[float, float]]:
    return {line.title: (0.0, line.end_s * 1.03) for line in timelines}


def shown(counts: list[int]) -> list[int]:
    """Choose the rows of a short table."""
    return [n for n in counts if n in {1, 2, 4, 8, 12, 16, 20, 30, 40, 50, 60, 80, 100} or n == counts[-1]]


def summary(points: Sweep) -> str:
    """Write the short table for the terminal."""
    rows = [[str(n), *(cell(row.get(n)) for row in points.values())] for n in shown(sorted(points["NewReno"]))]
    return f"Goodput in Mbit/s:\n{text.table(['senders', *points], rows)}"


def cell(point: Point | None) -> str:
    """Write a goodput with its interval, in Mbit/s."""
    if point is None:
        return "-"
    value = goodput(point)
    half = "" if math.isnan(value.half_width) else f" ± {value.half_width / 1e6:3.0f}"
    return f"{value.mean / 1e6:.0f}{half}"


def _csv(points: Sweep) -> str:
    rows = [
        (label, n, seed, f"{bps:.0f}", f"{timeouts:.0f}")
        for label, row in points.items()
        for n, point in row.items()
        for seed, (bps, timeouts) in enumerate(zip(point.goodput_bps, point.timeouts, strict=True), 1)
    ]
    return text.csv([("curve", "senders", "seed", "goodput_bps", "timeouts"), *rows])
