"""Figures: goodput against senders, completion times, queues and windows over time.

Every function draws with Agg alone, without a window system or global state, so figures can be drawn in threads. The
same numbers give the same PNG bytes.
"""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from incast import output
from incast.estimates import Estimate, estimate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    import polars as pl
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from numpy.typing import NDArray

    Columns: TypeAlias = Mapping[str, NDArray[np.generic]]
    Numbers: TypeAlias = NDArray[np.float64]

Suffix: TypeAlias = Literal["png", "svg", "pdf"]
Width: TypeAlias = Literal["page", "column", "columns"]
# What the columns of papers of the field measure.
WIDTHS_IN: dict[Width, float] = {"column": 3.35, "columns": 7.0}

DPI = 200
# More points than this are indistinguishable in a figure of this width.
_MOST_POINTS = 4000
_MOST_LINES = 6
# Percentiles of slowdowns, with their dashes, and into how many bins messages are sorted by size.
_SHARES: dict[float, tuple[str, tuple[float, ...]]] = {
    0.5: ("median", ()),
    0.95: ("95th percentile", (5.0, 1.5)),
    0.99: ("99th percentile", (1.5, 1.3)),
}
_BINS = 10
# The room for the numbers and the label at the left of a panel.
_LEFT_IN = 0.7
SIDES = {"senders that opened the connection": True, "senders that accepted it": False}


@dataclass(frozen=True)
class Style:
    """Colours and width of a figure.

    Any two colours of the cycle differ by at least 10 hundredths in OKLab, also to readers without red, green or blue
    cones, and each has a contrast of at least 3 to the paper. A just noticeable difference is about 2 hundredths.
    """

    name: str
    paper: str
    ink: str
    muted: str
    grid: str
    cycle: tuple[str, ...]
    width_in: float = 6.0
    points: float = 11.0
    """Size of letters."""

    @property
    def letters(self) -> int:
        """How many letters there is room for beside the axis of a panel."""
        return round(12 * 11 / self.points * (self.width_in - _LEFT_IN))

    def as_wide_as(self, width: Width) -> Style:
        """Return the same style for a page, or for one or both columns of a paper, with the letters of papers."""
        return self if width == "page" else replace(self, width_in=WIDTHS_IN[width], points=8.0)


LIGHT = Style(
    "light", "#ffffff", "#1a1c1e", "#6a7075", "#e3e6e8",
    ("#c84c00", "#0b5aa5", "#10a572", "#c060d0", "#1a1c1e", "#8f3a3a"),
)  # fmt: skip
DARK = Style(
    "dark", "#16181a", "#e6e8ea", "#9aa1a7", "#2d3134",
    ("#f58231", "#6eaffe", "#3fe89a", "#b566a8", "#e6e8ea", "#6b7aed"),
)  # fmt: skip


class Look(NamedTuple):
    """How a curve is drawn: its place in the cycle of colours, and in the list of dashes.

    Every colour has a marker of its own, so that two curves differ in dash or marker where colours cannot be seen.
    Where a colour comes again its markers are hollow, so that points differ without lines, too.
    """

    colour: int
    dash: int
    hollow: bool = False

    def on_off(self) -> tuple[float, ...]:
        """Return the lengths of dashes and gaps, in widths of the line; none if it is solid."""
        return _DASHES[self.dash]

    @property
    def marker(self) -> str:
        """The name that matplotlib gives the marker of the points."""
        return _MARKERS[self.colour][0]

    @property
    def sign(self) -> str:
        """The marker as a letter."""
        return _MARKERS[self.colour][2 if self.hollow else 1]

    def line(self, style: Style) -> dict[str, Any]:
        """Return what matplotlib draws a line of many points with. Those with larger gaps lie above the others."""
        pattern = self.on_off()
        dashes = (0, pattern) if pattern else "-"
        return {"linestyle": dashes, "zorder": 2 + self.dash / 10} | self.few_points(style)

    def points(self, style: Style, *, size: float = 4.0) -> dict[str, Any]:
        """Return what matplotlib draws the points of a curve with."""
        size *= 1.4 if self.marker == "P" else 1.0
        filled = {"color": style.cycle[self.colour], "marker": self.marker, "markersize": size, "markeredgewidth": 0.0,
                  "markevery": None}  # fmt: skip
        return filled | {"markerfacecolor": style.paper, "markeredgewidth": size / 4} if self.hollow else filled

    def few_points(self, style: Style) -> dict[str, Any]:
        """Return what matplotlib draws a curve of many points with, so that the markers of some can be seen."""
        return self.points(style, size=5.0) | {"markevery": (0.02 + 0.03 * self.colour, 0.2)}


# The height of a row of a legend, in points, and for how many a panel has room.
_LEGEND_ROW, _LEGEND_ROWS = 17, 4
_MARKERS = (
    ("o", "\u25cf", "\u25cb"), ("s", "\u25a0", "\u25a1"), ("^", "\u25b2", "\u25b3"), ("D", "\u25c6", "\u25c7"),
    ("v", "\u25bc", "\u25bd"), ("P", "\u271a", "\u271b"),
)  # fmt: skip
_DASHES = ((), (5.0, 1.5), (5.0, 1.5, 1.2, 1.5), (1.5, 1.3), (3.0, 1.3, 1.2, 1.3, 1.2, 1.3), (2.5, 2.0))
# One look per protocol, the same in every figure. Those in one line are never drawn together.
LOOKS = {
    "NewReno": Look(0, 0), "TCP": Look(0, 0),
    "DCTCP": Look(1, 1),
    "ICTCP": Look(2, 2), "ARS, NewReno": Look(2, 3), "DCMRG": Look(2, 0), "Swift": Look(2, 5),
    "RDTCP": Look(3, 3), "ARS, DCTCP": Look(3, 2), "D2TCP": Look(3, 4), "D2TCP-IC": Look(3, 4), "HPCC": Look(3, 0),
    "Ideal": Look(4, 3), "MRG": Look(4, 2), "MRG-IC": Look(4, 2),
    "Pulser": Look(5, 4),
}  # fmt: skip


def looks(names: Iterable[str]) -> list[Look]:
    """Return the looks of the curves of one figure: those of the protocols, and others for what has no look."""
    known = [LOOKS.get(name) for name in names]
    taken = {look.colour for look in known if look}
    count = len(_DASHES)
    every = [Look(place, place) for place in range(count)]
    # More curves than colours: a colour comes again with another dash, and hollow markers.
    again = [Look(place, (place + turn) % count, hollow=True) for turn in range(1, count) for place in range(count)]
    free = cycle([look for look in every if look.colour not in taken] + [look for look in again if look not in known])
    return [look or next(free) for look in known]


def with_own_dashes(looks: Iterable[Look]) -> list[Look]:
    """Return looks that differ in dashes, for curves without markers. A later one gives way, while there are dashes."""
    found: list[Look] = []
    for look in looks:
        taken = {one.dash for one in found}
        free = (dash for dash in (look.dash, *range(len(_DASHES))) if dash not in taken)
        found.append(look._replace(dash=next(free, look.dash)))
    return found


def goodput(
    curves: Mapping[str, Mapping[int, Sequence[float]]],
    *,
    line_rate_bps: float | None = None,
    style: Style = LIGHT,
) -> Figure:
    """Goodput against the number of senders: mean of the replications and its 95 % interval.

    Args:
        curves: label -> number of senders -> goodput of each replication, in bit/s.
        line_rate_bps: rate of the shared link, drawn as the upper limit.
        style: colours and width.

    """
    with rc(style):
        figure, (axes,) = stacked(1, 3.7, style)
        for (label, points), look in zip(curves.items(), looks(curves), strict=True):
            senders = np.array(sorted(points), dtype=np.float64)
            estimates = [estimate(points[int(n)]) for n in senders]
            _band(axes, senders, estimates, style.cycle[look.colour], 1e-6)
            mean = np.array([e.mean for e in estimates]) * 1e-6
            axes.plot(senders, mean, linewidth=1.8, label=label, **look.line(style))
        last, top = max(1.0, axes.dataLim.xmax), max(1.0, axes.dataLim.ymax)
        if line_rate_bps:
            top = line_rate_bps * 1e-6
            _level(axes, top, "line rate", style)
        axes.set(xlabel="senders", ylabel="goodput (Mbit/s)", xlim=(0, last * 1.01), ylim=(0, top * 1.13))
        legend_above(axes, style)
        return figure


def cost(lines: Mapping[str, tuple[Sequence[float], Sequence[float]]], axis: str, *, style: Style = LIGHT) -> Figure:
    """CPU time of a packet-hop, in nanoseconds, over the size of the work, one line per label."""
    with rc(style):
        figure, (axes,) = stacked(1, 3.2, style)
        for (label, (size, ns)), look in zip(lines.items(), looks(lines), strict=True):
            axes.plot(size, ns, linewidth=1.8, label=label, **(look.line(style) | {"markevery": 1}))
        axes.set(xscale="log", xlabel=axis, ylabel="CPU time per packet-hop (ns)")
        axes.set_ylim(0, axes.dataLim.ymax * 1.1)
        number_decades(axes.xaxis, style.letters // 8)
        legend_above(axes, style)
        return figure


def completion_times(samples: Mapping[str, NDArray[np.generic]], *, style: Style = LIGHT) -> Figure:
    """Cumulative distribution of completion times, in seconds, one curve per label.

    A message that is not complete has no time, but it counts: its curve ends below 1.
    """
    with rc(style):
        figure, (axes,) = stacked(1, 3.7, style)
        _draw_completion_times(axes, samples, style)
        return figure


def _draw_completion_times(axes: Axes, samples: Mapping[str, NDArray[np.generic]], style: Style) -> None:
    axes.set_xscale("log")
    for (label, values), look in zip(samples.items(), looks(samples), strict=True):
        times = np.sort(_numbers(values))
        times = times[np.isfinite(times)]
        share = np.arange(1, len(times) + 1) / len(values)
        part = f"{len(times):,} of " if len(times) < len(values) else ""
        name = f"{label} ({part}{len(values):,}{' complete' if part else ''})"
        own = look.line(style)
        if not len(times):
            axes.plot([], [], linewidth=1.8, label=name, **own)
            continue
        if len(times) > _MOST_POINTS:  # keep the ends exactly: the tail is what is looked at
            keep = np.unique(np.linspace(0, len(times) - 1, _MOST_POINTS).astype(int))
            times, share = times[keep], share[keep]
        axes.step(np.r_[times[0], times], np.r_[0, share], where="post", linewidth=1.8, label=name, **own)
    axes.set(xlabel="completion time", ylabel="share of messages", ylim=(0, 1.02))
    number_decades(axes.xaxis, style.letters // 8, "s")
    legend_above(axes, style)


def slowdown(flows: Mapping[str, tuple[NDArray[np.generic], NDArray[np.generic]]], *, style: Style = LIGHT) -> Figure:
    """Slowdown over the size of messages, as the field plots it: percentiles in ten bins with as many messages each.

    Args:
        flows: label -> sizes in bytes, and completion times over those on an idle network. Flows of several seeds may
            be pooled. Messages without a slowdown, such as those that are not complete, are left out, and the title of
            the panel says how many.
        style: colours and width.

    """
    with rc(style):
        figure, all_axes = stacked(len(flows), 3.1, style)
        for axes, (title, (sizes, slowdowns)) in zip(all_axes, flows.items(), strict=True):
            values = _numbers(slowdowns)
            known = np.isfinite(values)
            order = np.argsort(_numbers(sizes)[known], kind="stable")
            size, values = _numbers(sizes)[known][order], values[known][order]
            bins = [part for part in np.array_split(np.arange(len(size)), _BINS) if len(part)]
            ends = [size[part[-1]] for part in bins]
            for (share, (name, dash)), colour in zip(_SHARES.items(), style.cycle, strict=False):
                heights = [float(np.quantile(values[part], share, method="inverted_cdf")) for part in bins]
                axes.plot(
                    ends, heights, marker="o", markersize=3, linewidth=1.7, color=colour,
                    linestyle=(0, dash) if dash else "-", label=name,
                )  # fmt: skip
            least = min(map(len, bins), default=0)
            axes.set(
                xscale="log", yscale="log", ylabel="slowdown",
                xlabel=f"largest message of each bin of {least:,} messages",
            )  # fmt: skip
            number_decades(axes.xaxis, style.letters // 8, "B")
            number_decades(axes.yaxis, 8)
            left = f" ({len(known) - len(size):,} of {len(known):,} have none)" if len(size) < len(known) else ""
            legend_above(axes, style, f"{title}{left}".strip())
        return figure


def queue(
    panels: Mapping[str, Columns],
    *,
    unit: Literal["packets", "KiB"] = "packets",
    levels: Mapping[str, float] | None = None,
    limits_s: Mapping[str, tuple[float, float]] | None = None,
    style: Style = LIGHT,
) -> Figure:
    """Packets or bytes that wait at ports over time, one panel per label, one colour per link.

    Args:
        panels: title -> columns of the table `queues`.
        unit: of what waits.
        levels: labelled horizontal lines: label -> height, in the same unit.
        limits_s: title -> part of the time axis to show.
        style: colours and width.

    """
    with rc(style):
        figure, all_axes = stacked(len(panels), 2.45, style)
        for axes, (title, table) in zip(all_axes, panels.items(), strict=True):
            _draw_queue(axes, title, table, unit, levels or {}, (limits_s or {}).get(title), style)
        return figure


def _draw_queue(
    axes: Axes,
    title: str,
    table: Columns,
    unit: Literal["packets", "KiB"],
    levels: Mapping[str, float],
    limits_s: tuple[float, float] | None,
    style: Style,
) -> None:
    column, size = ("waiting_bytes", 1024.0) if unit == "KiB" else ("waiting_packets", 1.0)
    links = np.unique(table["link"])
    for place, link in enumerate(links[:_MOST_LINES]):
        rows = table["link"] == link
        time, waiting = thinned(_numbers(table["time_ps"][rows]) / 1e12, _numbers(table[column][rows]) / size)
        label = f"link {link}" if len(links) > 1 else None
        look = Look(place, 0).few_points(style) if label else {"color": style.cycle[1]}
        axes.step(time, waiting, where="post", linewidth=1.1, label=label, **look)
    for what, level in levels.items():
        _level(axes, level, what, style)
    axes.set(ylabel=f"{unit} waiting")
    axes.set_ylim(0, 1.18 * max([1.0, axes.dataLim.ymax, *levels.values()]))
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    part = f"the first {_MOST_LINES} of {len(links)} links" if len(links) > _MOST_LINES else ""
    _time_axis(axes, limits_s)
    legend_above(axes, style, ": ".join(filter(None, (title, part))))


def worlds(directories: Mapping[str, Sequence[Path]], *, style: Style = LIGHT) -> Figure:
    """Draw runs of one scenario in several worlds: completion times of all messages, and the recorded queues below.

    Args:
        directories: world -> the tables of its repetitions, of which the first shows its queue.
        style: colours and width.

    """
    samples = {
        world: np.concatenate([_read(directory, "flows", ("fct_s",))["fct_s"] for directory in repetitions])
        for world, repetitions in directories.items()
    }
    queues = {
        world: table
        for world, (first, *_) in directories.items()
        if len((table := _read(first, "queues", ("time_ps", "link", "waiting_packets"))).get("time_ps", ()))
    }
    last = max((float(_numbers(table["time_ps"]).max()) / 1e12 for table in queues.values()), default=0.0)
    with rc(style):
        figure, (top, *below) = stacked(1 + len(queues), 3.0, style)
        _draw_completion_times(top, samples, style)
        for axes, (world, table) in zip(below, queues.items(), strict=True):
            _draw_queue(axes, f"queue in the world {world}", table, "packets", {}, (0.0, 1.03 * last), style)
        return figure


def windows(
    panels: Mapping[str, Columns],
    *,
    named: Mapping[str, Mapping[int, str]] | None = None,
    limits_s: Mapping[str, tuple[float, float]] | None = None,
    mss_bytes: float | None = None,
    style: Style = LIGHT,
) -> Figure:
    """Congestion windows over time, one panel per label, one line per connection.

    Args:
        panels: title -> columns of the table `windows`, of one side of the connections: see `of_side`.
        named: title -> connection -> its label; the others stay in the background.
        limits_s: title -> part of the time axis to show.
        mss_bytes: shows segments in place of KiB.
        style: colours and width.

    """
    with rc(style):
        figure, all_axes = stacked(len(panels), 2.45, style)
        unit, word = (mss_bytes, "segments") if mss_bytes else (1024.0, "KiB")
        for axes, (title, table) in zip(all_axes, panels.items(), strict=True):
            connections = [int(c) for c in np.unique(table["connection"])]
            labels = dict((named or {}).get(title, {}))
            if not labels and len(connections) <= _MOST_LINES:
                labels = {c: f"connection {c}" for c in connections}
            for connection in [c for c in connections if c not in labels] + list(labels):
                rows = table["connection"] == connection
                time_s = _numbers(table["time_ps"][rows]) / 1e12
                time, window = thinned(time_s, _numbers(table["cwnd_bytes"][rows]) / unit)
                if connection in labels:
                    look = Look(list(labels).index(connection) % len(style.cycle), 0).few_points(style)
                    axes.step(time, window, where="post", linewidth=1.7, label=labels[connection], **look)
                else:
                    axes.step(time, window, where="post", color=style.muted, linewidth=0.5, alpha=0.35)
            axes.set(ylabel=f"window ({word})")
            axes.set_ylim(0, 1.1 * max(1.0, axes.dataLim.ymax))
            axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
            _time_axis(axes, (limits_s or {}).get(title))
            legend_above(axes, style, title)
        return figure


def of_side(windows: Columns, *, clients: bool) -> dict[str, NDArray[np.generic]]:
    """Return the windows of the senders that opened their connections, or of those on the other side."""
    return {name: values[windows["from_client"] == clients] for name, values in windows.items()}


class _Shown(Figure):
    """A figure that a notebook shows; those of matplotlib it shows only once `pyplot` has drawn one."""

    def _repr_png_(self) -> tuple[bytes, dict[str, float]]:
        width_in, height_in = self.get_size_inches()
        return png(self), {"width": 100 * width_in, "height": 100 * height_in}


def png(figure: Figure, *, table: str = "") -> bytes:
    """Return a figure as PNG, without timestamps or versions.

    With the text of the table that it shows, a reader of the file can tell whether that is still the table of today.
    """
    FigureCanvasAgg(figure)
    file = io.BytesIO()
    of = {"Description": description(table)} if table else {}
    figure.savefig(file, format="png", dpi=DPI, metadata={"Software": None, **of})
    return file.getvalue()


def description(table: str) -> str:
    """Return what is written into the picture of a table, apart from the table's comments."""
    rows = "".join(line for line in table.splitlines(keepends=True) if not line.startswith("#"))
    return f"drawn from a table with SHA-256 {hashlib.sha256(rows.encode()).hexdigest()}"


def pdf(figure: Figure) -> bytes:
    """Return a figure as PDF, without timestamps or versions."""
    FigureCanvasAgg(figure)
    file = io.BytesIO()
    # Publishers refuse the fonts of type 3 that are matplotlib's default.
    with mpl.rc_context({"pdf.fonttype": 42}):
        figure.savefig(file, format="pdf", metadata={"CreationDate": None, "Producer": None, "Creator": None})
    return file.getvalue()


def svg(figure: Figure) -> bytes:
    """Return a figure as SVG, without timestamps or versions; its text is text, which can be searched and edited."""
    FigureCanvasAgg(figure)
    file = io.BytesIO()
    # Names of parts would be random.
    with mpl.rc_context({"svg.hashsalt": "incast", "svg.fonttype": "none"}):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return file.getvalue()


def save(figure: Figure, path: Path, *, table: str = "") -> Path:
    """Write a figure as a PNG file."""
    path.write_bytes(png(figure, table=table))
    return path


def from_results(directory: Path, *, style: Style = LIGHT, suffix: Suffix = "png") -> list[Path]:
    """Draw figures from the tables in `directory`, into the same directory, and remove those of an earlier run.

    The suffix of their names says how they are written: `png`, `svg`, or `pdf`.

    Raises:
        FileNotFoundError: there are no tables.
        OSError: a table is not a readable Parquet file.

    """
    read = partial(_read, directory)
    if not (directory / "flows.parquet").is_file():
        raise FileNotFoundError(f"{directory}: no results here (flows.parquet is missing); create them with incast run")
    pictures: list[tuple[str, Callable[[], Figure]]] = []
    flows = read("flows", ("class", "fct_s"))
    samples = {str(name): flows["fct_s"][flows["class"] == name] for name in _in_order(flows["class"])}
    if any(np.isfinite(_numbers(times)).any() for times in samples.values()):
        pictures.append(("completion-times", lambda: completion_times(samples, style=style)))
    sized = read("flows", ("class", "size_bytes", "slowdown"))
    by_class = (
        {
            name: (sized["size_bytes"][sized["class"] == name], sized["slowdown"][sized["class"] == name])
            for name in map(str, _in_order(sized["class"]))
        }
        if "slowdown" in sized
        else {}
    )
    many = {name: (sizes, values) for name, (sizes, values) in by_class.items() if has_sizes(sizes, values)}
    if many:
        pictures.append(("slowdown", lambda: slowdown(many, style=style)))
    queues = read("queues", ("time_ps", "link", "waiting_packets"))
    if queues and len(queues["time_ps"]):
        pictures.append(("queues", lambda: queue({"": queues}, style=style)))
    traces = read("windows", ("time_ps", "connection", "from_client", "cwnd_bytes"))
    if traces and len(traces["time_ps"]):
        sides = {name: of_side(traces, clients=clients) for name, clients in SIDES.items()}
        sides = {name: side for name, side in sides.items() if len(side["time_ps"])}
        times = _numbers(traces["time_ps"]) / 1e12
        limits = dict.fromkeys(sides, (min(0.0, float(times.min())), 1.03 * float(times.max())))
        pictures.append(("windows", lambda: windows(sides, limits_s=limits, style=style)))
    output.remove_pictures(directory)
    write = {"png": png, "svg": svg, "pdf": pdf}[suffix]
    files = []
    for name, draw in pictures:
        output.write(file := directory / f"{name}.{suffix}", write(draw()))
        files.append(file)
    return files


def has_sizes(sizes: NDArray[np.generic], slowdowns: NDArray[np.generic]) -> bool:
    """Whether messages are many, and differ enough in size, for bins of sizes to say something."""
    known = _numbers(sizes)[np.isfinite(_numbers(slowdowns))]
    return len(known) >= 10 * _BINS and len(np.unique(known)) >= _BINS


def _read(directory: Path, table: str, wanted: Sequence[str]) -> dict[str, NDArray[np.generic]]:
    import polars as pl

    from incast import tables

    path = directory / f"{table}.parquet"
    try:
        return columns(tables.read(path, wanted)) if path.is_file() else {}
    except (pl.exceptions.PolarsError, OSError) as error:
        raise OSError(f"{path}: not a readable Parquet table: {error}") from error


def columns(table: pl.DataFrame) -> dict[str, NDArray[np.generic]]:
    """Return the columns of a table as arrays; a missing number is `nan`."""
    return {name: table[name].to_numpy() for name in table.columns}


def rc(style: Style) -> AbstractContextManager[None]:
    """Return the matplotlib settings of this style."""
    return mpl.rc_context(
        {
            "font.family": "DejaVu Sans",  # comes with matplotlib, so figures are the same everywhere
            "font.size": style.points,
            "text.parse_math": False,  # labels are the user's, and a dollar sign is one
            "axes.labelsize": style.points,
            "axes.titlesize": style.points,
            "legend.fontsize": style.points - 0.5,
            "legend.frameon": False,
            "axes.edgecolor": style.muted,
            "axes.labelcolor": style.ink,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.linewidth": 0.8,
            "xtick.color": style.muted,
            "ytick.color": style.muted,
            "xtick.labelcolor": style.ink,
            "ytick.labelcolor": style.ink,
            "text.color": style.ink,
            "axes.grid": True,
            "grid.color": style.grid,
            "grid.linewidth": 0.8,
            "axes.axisbelow": True,
            "figure.facecolor": style.paper,
            "axes.facecolor": style.paper,
            "savefig.facecolor": style.paper,
        }
    )


def stacked(panels: int, height_in: float, style: Style, *, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """Return a figure with panels stacked vertically, or row by row if there are several columns."""
    layout = ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.08)
    rows = -(-panels // columns)
    size = (style.width_in * columns, height_in * rows * style.points / 11)
    figure = _Shown(figsize=size, layout=layout, facecolor=style.paper)
    every = list(figure.subplots(rows, columns, squeeze=False).flat)
    for unused in every[panels:]:
        unused.remove()
    return figure, every[:panels]


def make_room(figure: Figure, panels: int, rows: int, style: Style) -> None:
    """Make the figure taller if its legends have more rows than fit. `panels` is how many are stacked vertically."""
    if rows <= _LEGEND_ROWS:
        return
    width_in, height_in = figure.get_size_inches()
    more_in = (rows - _LEGEND_ROWS) * _LEGEND_ROW * style.points / 11 / 72
    figure.set_size_inches(width_in, height_in + panels * more_in)


def legend_above(axes: Axes, style: Style, title: str = "") -> int:
    """Name the curves above the panel, where nothing is drawn, below its title. Return in how many rows."""
    labels = axes.get_legend_handles_labels()[1]
    rows = 0
    for columns in range(len(labels), 0, -1):
        legend = axes.legend(
            loc="lower left", bbox_to_anchor=(-0.01, 0.98), ncols=columns,
            handlelength=2.6, columnspacing=1.2,
        )  # fmt: skip
        rows = -(-len(labels) // columns)
        if legend.get_window_extent().width <= (style.width_in - _LEFT_IN) * axes.figure.dpi:
            break
    axes.set_title(title, loc="left", pad=8 + _LEGEND_ROW * rows * style.points / 11)
    return rows


def number_decades(axis: Axis, most: int, unit: str = "") -> None:
    """Label an axis with a logarithmic scale, between powers of ten too if no more than `most` labels result."""
    low, high = axis.get_view_interval()
    decades = np.log10(high / low)
    within = next((steps for steps in ((1, 2, 5), (1, 3)) if decades * len(steps) <= most), (1,))
    # Of 1, 2, 5, 10 and so on, a range of less than a factor of five may have fewer than two.
    axis.set_major_locator(MaxNLocator(max(2, most // 2)) if decades < np.log10(5) else LogLocator(subs=within))
    # Beside a unit in the label, which may have a prefix, a number has none.
    plain = FuncFormatter(lambda value, _: f"{value:,.9g}")
    axis.set_major_formatter(EngFormatter(unit, sep=" ") if unit else plain)
    axis.set_minor_formatter(NullFormatter())


def _band(axes: Axes, x: Numbers, estimates: Sequence[Estimate], colour: str, scale: float) -> None:
    low = np.maximum([e.low for e in estimates], 0.0) * scale
    high = np.array([e.high for e in estimates]) * scale
    axes.fill_between(x, low, high, color=colour, alpha=0.22, linewidth=0)


def _level(axes: Axes, y: float, what: str, style: Style) -> None:
    axes.axhline(y, color=style.muted, linewidth=0.9, dashes=(4, 3))
    axes.annotate(
        what, (1, y), xycoords=("axes fraction", "data"), xytext=(-2, 2), textcoords="offset points",
        ha="right", va="bottom", color=style.muted, fontsize=9.5,
    )  # fmt: skip


def _time_axis(axes: Axes, limits_s: tuple[float, float] | None) -> None:
    if limits_s:
        axes.set_xlim(*limits_s)
    else:
        axes.set_xlim(left=min(0.0, float(axes.dataLim.xmin)))
    span = axes.get_xlim()[1]
    factor, unit = (1.0, "s") if span >= 2 else (1e3, "ms") if span >= 2e-4 else (1e6, "us")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value * factor:g}"))
    axes.set_xlabel(f"time ({unit})")


def thinned(time: Numbers, value: Numbers, most: int = _MOST_POINTS) -> tuple[Numbers, Numbers]:
    """Keep the first, the smallest, the largest and the last value of every short span of time.

    The extremes preserve peaks; the last value holds until the next span in which something happens.
    """
    if len(time) <= most:
        return time, value
    spans = most // 4
    span = np.floor((time - time[0]) / max(time[-1] - time[0], np.finfo(float).tiny) * spans)
    starts = np.flatnonzero(np.r_[True, np.diff(span) > 0])
    ends = np.r_[starts[1:], len(time)]
    low = np.array([a + int(np.argmin(value[a:b])) for a, b in zip(starts, ends, strict=True)])
    high = np.array([a + int(np.argmax(value[a:b])) for a, b in zip(starts, ends, strict=True)])
    keep = np.unique(np.r_[starts, low, high, ends - 1])
    return time[keep], value[keep]


def _numbers(values: NDArray[np.generic]) -> Numbers:
    return np.asarray(values, dtype=np.float64)


def _in_order(values: NDArray[np.generic]) -> list[object]:
    return list(dict.fromkeys(values.tolist()))
