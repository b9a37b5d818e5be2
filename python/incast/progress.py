"""The progress line on stderr: simulated time, speed, messages done and time left."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TYPE_CHECKING, Self

from incast import text

if TYPE_CHECKING:
    from collections.abc import Callable

    from incast._native import Progress, Run

_TERMINAL_EVERY_S = 0.3
_LOG_EVERY_S = 10.0
# Time after which the speed of a run is known.
_PILOT_S = 0.5


class Line:
    """A line on stderr that tells of progress: live on a terminal, an occasional line in a log."""

    def __init__(self, said: Callable[[float], str]) -> None:
        self.started = time.monotonic()
        self._said = said
        """What the line says, by the seconds since the start."""
        self._is_live = sys.stderr.isatty()
        self._last_s = 0.0

    def __enter__(self) -> Self:
        return self

    def show(self) -> None:
        """Say how far it is, unless that was said only just now; short work is over before it would be read."""
        elapsed_s = time.monotonic() - self.started
        if elapsed_s - self._last_s < (_TERMINAL_EVERY_S if self._is_live else _LOG_EVERY_S):
            return
        self._last_s, said = elapsed_s, self._said(elapsed_s)
        if self._is_live:
            said = f"\r{said[: shutil.get_terminal_size().columns - 1]}\x1b[K"
        print(said, end="" if self._is_live else "\n", file=sys.stderr, flush=True)

    def say(self, said: tuple[str, float]) -> None:
        """Print for good what takes this many seconds, unless it is over before anyone could read it."""
        what, lasts_s = said
        if lasts_s >= (_PILOT_S if self._is_live else _LOG_EVERY_S):
            print(what, file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        if self._is_live and self._last_s:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def follow(run: Run) -> None:
    """Wait for `run` and show its progress; first what it will take, once its speed is known, unless that is short."""
    with Line(lambda elapsed_s: line(run.progress(), elapsed_s)) as shown:
        is_said, begun_s = False, time.process_time()
        while not run.wait(0.1):
            progress = run.progress()
            if not progress["simulated_s"]:  # still building the network: speed counts from the first event
                shown.started, begun_s = time.monotonic(), time.process_time()
            used_s = time.process_time() - begun_s
            if not is_said and used_s >= _PILOT_S:
                is_said = True
                shown.say(_expected(run, progress, used_s))
            shown.show()


def _expected(run: Run, progress: Progress, used_s: float) -> tuple[str, float]:
    """Say what a run takes, by its speed so far; and how many seconds that is."""
    from incast import pilot

    packet_hops, memory_bytes = run.expected
    done, total = progress["packet_hops"], packet_hops
    if not packet_hops:
        done, total = progress["messages_done"], progress["messages_total"]
    expected_s = used_s * total / done if done else 0.0
    return f"{pilot.line(packet_hops, memory_bytes, expected_s)}, by its first {_PILOT_S:g} s", expected_s


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
