"""How far work is, on stderr: a bar on a terminal or in a notebook, an occasional line in a log."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

from incast import text

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.progress import Progress as Bars

    from incast._native import Progress, Run

_BAR_EVERY_S = 0.3
_LOG_EVERY_S = 10.0
# A narrower terminal has none for more than a bar and times.
_ROOM_FOR_FACTS = 80
# Time after which the speed of a run is known.
_PILOT_S = 0.5
# As many as a pilot has at least: 1,000,000 for 20,000 connections.
_HOPS_PER_END = 25


@dataclass(frozen=True)
class State:
    """How far some work is."""

    what: str
    share: float | None
    """What is done of it, from 0 to 1; `None` if that is not known."""
    facts: tuple[str, ...] = ()
    left_s: float | None = None
    """Time left, if it can be told."""

    def line(self) -> str:
        """Write it as one line."""
        left = [] if self.left_s is None else [f"{text.duration(self.left_s)} left"]
        return "  ".join([self.what, *self.facts, *left])


class _Shown(Protocol):
    def show(self, state: State, elapsed_s: float) -> None:
        """Replace what was shown, or add to it."""

    def close(self) -> None:
        """Leave the place to what comes next."""


class Meter:
    """Tells of the progress of some work for as long as its context is open."""

    def __init__(self, state: Callable[[float], State]) -> None:
        self.started = time.monotonic()
        self._state = state
        """How far it is, by the seconds since the start."""
        self._is_log = not (sys.stderr.isatty() or _is_notebook())
        self._shown: _Shown | None = None
        self._last_s = 0.0

    def __enter__(self) -> Self:
        return self

    def show(self) -> None:
        """Say how far it is, unless that was said only just now; short work is over before it would be read."""
        elapsed_s = time.monotonic() - self.started
        if elapsed_s - self._last_s < (_LOG_EVERY_S if self._is_log else _BAR_EVERY_S):
            return
        self._last_s = elapsed_s
        if self._shown is None:
            self._shown = _Log() if self._is_log else _InNotebook() if _is_notebook() else _OnTerminal()
        self._shown.show(self._state(elapsed_s), elapsed_s)

    def say(self, said: tuple[str, float]) -> None:
        """Print for good what takes this many seconds, unless it is over before anyone could read it."""
        what, lasts_s = said
        if lasts_s >= (_LOG_EVERY_S if self._is_log else _PILOT_S) and not _is_notebook():
            print(what, file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        if self._shown is not None:
            self._shown.close()


class _Log:
    def show(self, state: State, elapsed_s: float) -> None:  # noqa: ARG002 - lines of a log have their own time
        print(state.line(), file=sys.stderr, flush=True)

    def close(self) -> None:
        pass


class _OnTerminal:
    def __init__(self) -> None:
        self._bars = _bars()

    def show(self, state: State, elapsed_s: float) -> None:
        _update(self._bars, state, elapsed_s)
        self._bars.start()
        self._bars.refresh()

    def close(self) -> None:
        self._bars.stop()


class _InNotebook:
    """A bar that IPython replaces, for which it needs no widgets."""

    def __init__(self) -> None:
        from IPython.display import display

        self._bars = _bars()
        self._handle = display(self._bars, display_id=True)  # type: ignore[no-untyped-call]

    def show(self, state: State, elapsed_s: float) -> None:
        _update(self._bars, state, elapsed_s)
        self._handle.update(self._bars)

    def close(self) -> None:
        self._handle.update({"text/plain": ""}, raw=True)


def _is_notebook() -> bool:
    if "IPython" not in sys.modules:
        return False
    from rich.console import Console

    return Console().is_jupyter


def _bars() -> Bars:
    """Return a bar on stderr with what it is about, numbers, and the times that have passed and are left."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.table import Column

    console = Console(stderr=True)
    shown = ("{task.description}", "{task.percentage:.0f} %", "{task.fields[facts]}", "{task.fields[times]}")
    what, share, facts, times = (TextColumn(one, markup=False) for one in shown)
    bars = Progress(
        what,
        BarColumn(bar_width=None, table_column=Column(ratio=1)),
        *((share, facts, times) if console.width >= _ROOM_FOR_FACTS else (times,)),
        console=console,
        auto_refresh=False,
        expand=True,
        transient=True,
        # It is for results, which others may read.
        redirect_stdout=False,
    )
    bars.add_task("", facts="", times="")
    return bars


def _update(bars: Bars, state: State, elapsed_s: float) -> None:
    (bar,) = bars.task_ids
    times = [text.duration(elapsed_s), *([] if state.left_s is None else [f"{text.duration(state.left_s)} left"])]
    bars.update(
        bar,
        description=state.what,
        total=None if state.share is None else 1.0,
        completed=state.share or 0.0,
        facts="  ".join(state.facts),
        times=", ".join(times),
    )


def follow(run: Run) -> None:
    """Wait for `run` and show its progress; first what it will take, once its speed is known, unless that is short."""
    with Meter(lambda elapsed_s: state(run.progress(), elapsed_s)) as meter:
        is_said, begun_s = False, time.process_time()
        while not run.wait(0.1):
            progress = run.progress()
            if not progress["simulated_s"]:  # still building the network: speed counts from the first event
                meter.started, begun_s = time.monotonic(), time.process_time()
            used_s = time.process_time() - begun_s
            if not is_said and used_s >= _PILOT_S and _is_past_the_first_losses(progress):
                is_said = True
                meter.say(_expected(run, progress, used_s))
            meter.show()


def _is_past_the_first_losses(progress: Progress) -> bool:
    """Say whether what has happened so far is typical: an incast that collapses loses most packets at its beginning."""
    return progress["packet_hops"] >= _HOPS_PER_END * progress["open_ends"]


def _expected(run: Run, progress: Progress, used_s: float) -> tuple[str, float]:
    """Say what a run takes, by its speed so far; and how many seconds that is."""
    from incast import pilot

    packet_hops, memory_bytes = run.expected
    share = progress["share"] if packet_hops else progress["messages_done"] / max(progress["messages_total"], 1)
    expected_s = used_s / share if share else 0.0
    return f"{pilot.line(packet_hops, memory_bytes, expected_s)}, by its first {used_s:.1f} s", expected_s


def state(progress: Progress, elapsed_s: float) -> State:
    """Return how far a run is that has taken this many seconds."""
    what = f"simulated {text.seconds(progress['simulated_s'])}"
    if progress["stop_at_s"]:
        what += f" of {text.seconds(progress['stop_at_s'])}"
    facts = []
    if elapsed_s > 0 and progress["packet_hops"]:  # the ideal model has no packets
        facts.append(f"{progress['packet_hops'] / elapsed_s / 1e6:.1f} M hops/s")
    if progress["messages_total"]:
        facts.append(f"{progress['messages_done']:,}/{progress['messages_total']:,} messages")
    share = _share(progress)
    return State(what, share, tuple(facts), left_s(share, elapsed_s))


def _share(progress: Progress) -> float | None:
    """Return how much of a run is done, until the last message or the end time, whichever comes first."""
    shares = []
    if progress["messages_total"]:
        shares.append(progress["messages_done"] / progress["messages_total"])
    if progress["stop_at_s"]:
        shares.append(progress["simulated_s"] / progress["stop_at_s"])
    return min(max(shares), 1.0) if shares else None


def of_runs(done: int, total: int, elapsed_s: float, *, what: str = "", also: tuple[str, ...] = ()) -> State:
    """Return how far a number of runs is."""
    share = done / total if total else None
    speed = (f"{done / elapsed_s:.3g} runs/s",) if done and elapsed_s > 0 else ()
    return State(f"{what}{done:,} of {total:,} runs", share, (*also, *speed), left_s(share, elapsed_s))


def left_s(share: float | None, elapsed_s: float) -> float | None:
    """Estimate the time left, if this share took so many seconds."""
    return elapsed_s * (1 - share) / share if share else None
