"""Pictures of the comparison, drawn as those of the package: without a window system, the same bytes each time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FuncFormatter

from incast import figures
from incast.estimates import estimate
from side_by_side import tables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from matplotlib.axes import Axes

    from side_by_side.campaign import Metrics, Outcome
    from side_by_side.dctcp_loss import Columns
    from side_by_side.leaf_spine import Outcome as LeafSpineOutcome
    from side_by_side.protocol import Protocol

STYLE = figures.LIGHT
OURS, NS3, MET = STYLE.cycle[1], STYLE.cycle[0], STYLE.cycle[2]
_NAMES = {"newreno": "NewReno", "dctcp": "DCTCP as shipped", "dctcp-mended": "DCTCP, two rules mended"}


def sweep(untied: Sequence[Outcome], met: Sequence[Outcome], variant: str) -> Figure:
    """Goodput, completion times and timeouts against the number of senders, with 95 % intervals over seeds."""
    rows = [
        ("goodput_bps", "goodput (Mbit/s)", 1e-6),
        ("fct_p99_s", "FCT p99 (ms)", 1e3),
        ("timeouts", "timeouts per run", 1.0),
    ]
    senders = [sender for name, sender in tables.groups(untied) if name == variant]
    with _rc():
        figure = Figure(figsize=(9.0, 7.2), layout="constrained")
        grid = figure.subplots(len(rows), len(senders), sharex=True, sharey="row", squeeze=False)
        for column, sender in enumerate(senders):
            as_is, with_rules = (
                [o for o in outcomes if (o.point.variant, o.point.sender) == (variant, sender)]
                for outcomes in (untied, met)
            )
            counts = [o.point.senders for o in as_is]
            for row, (metric, label, scale) in enumerate(rows):
                axes = grid[row][column]
                _band(axes, counts, [o.ns3 for o in as_is], metric, scale, NS3, "ns-3")
                _band(axes, counts, [o.ours for o in as_is], metric, scale, OURS, "ours")
                _band(
                    axes,
                    counts,
                    [o.ours for o in with_rules],
                    metric,
                    scale,
                    MET,
                    "ours with ns-3's rules",
                    dashes=(3, 2),
                )
                if column == 0:
                    axes.set_ylabel(label)
                if row == 0:
                    axes.set_title(_NAMES[sender], loc="left")
                if row == len(rows) - 1:
                    axes.set_xlabel("senders")
        for axes in grid.flat:  # only now: an axis that is told one end no longer follows what is drawn
            axes.set_ylim(bottom=0)
        grid[0][0].legend(labelcolor="linecolor", loc="lower left")
        return figure


def grid(protocol: Protocol, by_set: Mapping[str, Sequence[Outcome]]) -> Figure:
    """Share of cells that agree, metric by metric, for every set, variant and sender."""
    columns: list[tuple[str, str, str]] = []
    for name, outcomes in by_set.items():
        columns += [(name, *group) for group in tables.groups(outcomes)]
    shares = np.full((len(protocol.metrics), len(columns)), np.nan)
    for column, (name, variant, sender) in enumerate(columns):
        for row, metric in enumerate(protocol.metrics):
            agree = [found.agrees for found in tables.of_group(by_set[name], (variant, sender), metric)]
            shares[row, column] = 100 * sum(agree) / len(agree) if agree else np.nan
    with _rc():
        figure = Figure(figsize=(10.0, 6.6), layout="constrained")
        axes = figure.subplots()
        axes.grid(visible=False)
        image = axes.imshow(shares, cmap="cividis", vmin=0, vmax=100, aspect="auto")
        for (row, column), share in np.ndenumerate(shares):
            if np.isfinite(share):
                ink = "#ffffff" if share < 55 else "#1a1c1e"
                axes.text(column, row, f"{share:.0f}", ha="center", va="center", fontsize=9, color=ink)
        axes.set_yticks(range(len(protocol.metrics)), list(protocol.metrics))
        axes.set_xticks(
            range(len(columns)),
            [f"{sender}\n{variant}" for _, variant, sender in columns],
            rotation=60, ha="right", fontsize=9,
        )  # fmt: skip
        _name_sets(axes, [name for name, _, _ in columns])
        figure.colorbar(image, ax=axes, label="cells that agree (%)", pad=0.01)
        return figure


def leaf_spine(outcomes: Sequence[LeafSpineOutcome]) -> Figure:
    """Completion times of short and of long flows on both sides, all seeds together, with the tail apart."""
    shown = [outcome for outcome in outcomes if not outcome.meets]
    with _rc():
        figure = Figure(figsize=(9.0, 3.4 * len(shown)), layout="constrained")
        all_axes = figure.subplots(len(shown), 2, squeeze=False)
        for row, outcome in enumerate(shown):
            for axes, kind in zip(all_axes[row], ("short", "long"), strict=True):
                for side, colour in (("ns-3", NS3), ("ours", OURS)):
                    times = np.sort(np.array(outcome.fct_s[side][kind]))
                    if not len(times):
                        continue
                    beyond = 1 - np.arange(len(times)) / len(times)
                    keep = np.unique(
                        np.r_[np.linspace(0, len(times) - 1, 3000).astype(int), len(times) - 300 : len(times)]
                    )
                    keep = keep[keep >= 0]
                    axes.plot(times[keep], beyond[keep], color=colour, linewidth=1.8, label=side)
                axes.set(xscale="log", yscale="log", xlabel="completion time")
                axes.set_title(f"{kind} flows, {outcome.variant}", loc="left")
                axes.xaxis.set_major_formatter(EngFormatter(unit="s", sep=" "))
                axes.xaxis.set_minor_formatter(FuncFormatter(lambda *_: ""))
                axes.set_ylabel("share that takes longer")
                axes.legend(labelcolor="linecolor", loc="lower left")
        return figure


def dctcp_loss(panels: Mapping[str, Columns], limits_s: Mapping[str, tuple[float, float]]) -> Figure:
    """Congestion windows of ns-3's DCTCP and of ours over time."""
    with _rc():
        figure = Figure(figsize=(7.5, 2.9 * len(panels)), layout="constrained")
        all_axes = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
        for axes, (title, table) in zip(all_axes, panels.items(), strict=True):
            low, high = limits_s[title]
            for number, (name, colour) in enumerate((("ns-3", NS3), ("ours", OURS))):
                rows = np.asarray(table["connection"]) == number
                time = np.asarray(table["time_s"], dtype=np.float64)[rows]
                window = np.asarray(table["cwnd_bytes"], dtype=np.float64)[rows] / 1460
                inside = np.flatnonzero((time >= low) & (time <= high))
                inside = np.r_[max(0, inside[0] - 1), inside] if len(inside) else inside
                axes.step(time[inside] * 1e3, window[inside], where="post", color=colour, linewidth=1.6, label=name)
            axes.set_xlim(low * 1e3, high * 1e3)
            axes.set_ylim(bottom=0)
            axes.set(ylabel="window (segments)")
            axes.set_title(title, loc="left")
            axes.legend(labelcolor="linecolor", loc="upper right")
        all_axes[-1].axhline(1, color=STYLE.muted, linewidth=0.9, dashes=(4, 3))
        all_axes[-1].annotate(
            "one segment", (1, 1), xycoords=("axes fraction", "data"), xytext=(-2, 2), textcoords="offset points",
            ha="right", va="bottom", color=STYLE.muted, fontsize=9.5,
        )  # fmt: skip
        all_axes[-1].set_xlabel("time (ms)")
        return figure


def _band(
    axes: Axes,
    counts: Sequence[int],
    by_point: Sequence[Sequence[Metrics]],
    metric: str,
    scale: float,
    colour: str,
    label: str,
    dashes: tuple[float, float] | None = None,
) -> None:
    kept = [[run[metric] for run in runs if run is not None] for runs in by_point]
    senders = np.array([count for count, values in zip(counts, kept, strict=True) if values])
    estimates = [estimate(values) for values in kept if values]
    low = np.maximum([e.low for e in estimates], 0.0) * scale
    high = np.array([e.high for e in estimates]) * scale
    axes.fill_between(senders, low, high, color=colour, alpha=0.15, linewidth=0)
    (line,) = axes.plot(
        senders, np.array([e.mean for e in estimates]) * scale, color=colour, linewidth=1.8, label=label
    )
    if dashes:
        line.set_dashes(dashes)


def _name_sets(axes: Axes, names: Sequence[str]) -> None:
    """Write each set's name over its columns and draw a line between sets."""
    for name in dict.fromkeys(names):
        first = names.index(name)
        last = len(names) - 1 - list(reversed(names)).index(name)
        axes.text((first + last) / 2, -0.8, name, ha="center", va="bottom", fontweight="bold")
        if first:
            axes.axvline(first - 0.5, color="#ffffff", linewidth=4)


def _rc() -> AbstractContextManager[None]:
    return mpl.rc_context(
        {
            "font.family": "DejaVu Sans",
            "font.size": 10,
            "legend.frameon": False,
            "axes.edgecolor": STYLE.muted,
            "axes.labelcolor": STYLE.ink,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlesize": 10.5,
            "xtick.color": STYLE.muted,
            "ytick.color": STYLE.muted,
            "xtick.labelcolor": STYLE.ink,
            "ytick.labelcolor": STYLE.ink,
            "text.color": STYLE.ink,
            "axes.grid": True,
            "grid.color": STYLE.grid,
            "axes.axisbelow": True,
        }
    )
