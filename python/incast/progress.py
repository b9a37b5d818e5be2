"""The progress line on stderr: simulated time, speed, messages done and time left."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from incast import text

if TYPE_CHECKING:
    from incast._native import Progress, Run

_TERMINAL_EVERY_S = 0.1
_LOG_EVERY_S = 10.0


def follow(run: Run) -> None:
    """Wait for `run` and show its progress: a live line on a terminal, an occasional line in a log."""
    if sys.stderr.isatty():
        _live(run)
    else:
        _log(run)


def _live(run: Run) -> None:
    started = time.monotonic()
    # Short runs are over before a progress line could be read.
    if run.wait(0.3):
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text as Line

    with Live(console=Console(stderr=True), transient=True, auto_refresh=False) as live:
        while not run.wait(_TERMINAL_EVERY_S):
            if not run.progress()["simulated_s"]:  # still building the network: speed counts from the first event
                started = time.monotonic()
            shown = Line(line(run.progress(), time.monotonic() - started), no_wrap=True, overflow="ellipsis")
            live.update(shown, refresh=True)


def _log(run: Run) -> None:
    started = time.monotonic()
    while not run.wait(_LOG_EVERY_S):
        print(line(run.progress(), time.monotonic() - started), file=sys.stderr, flush=True)


def line(progress: Progress, elapsed_s: float) -> str:
    """Write one progress line."""
    parts = [f"simulated {text.seconds(progress['simulated_s'])}"]
    if progress["stop_at_s"]:
        parts[0] += f" of {text.seconds(progress['stop_at_s'])}"
    if elapsed_s > 0 and progress["packet_hops"]:  # the ideal model has no packets
        parts.append(f"{progress['packet_hops'] / elapsed_s / 1e6:.1f} M hops/s")
    if progress["messages_total"]:
        parts.append(f"{progress['messages_done']:,}/{progress['messages_total']:,} messages")
    left = time_left_s(progress, elapsed_s)
    if left is not None:
        parts.append(f"{text.duration(left)} left")
    return "  ".join(parts)


def time_left_s(progress: Progress, elapsed_s: float) -> float | None:
    """Estimate the time left until the last message or the end time, whichever comes first."""
    shares = []
    if progress["messages_total"]:
        shares.append(progress["messages_done"] / progress["messages_total"])
    if progress["stop_at_s"]:
        shares.append(progress["simulated_s"] / progress["stop_at_s"])
    share = min(max(shares, default=0.0), 1.0)
    return elapsed_s * (1 - share) / share if share > 0 else None
