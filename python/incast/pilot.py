"""What a run will take: packet-hops and memory by its plan, and time by a pilot, the first part of a second of it.

How long a packet-hop takes depends on more than can be told from a plan: the windows that come about, what the caches
of this machine hold, and what else it is doing. The pilot's results are thrown away.

A pilot takes nearly the memory of its run, whose network and connections it builds. Where that is much, the plan's own
time counts, and the pilot of another run says how fast this machine is.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from incast import _native, scenarios, text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from incast._native import Checked, Run

# Time of a processor that a pilot takes once the network is built; by the clock, the most for building and for both.
_PILOT_S = 0.4
_BUILDING_S = 3.0
# The first packets take longer: memory is new.
_WARMING_S = 0.15
_PATIENCE_S = 5.0
_POLL_S = 0.02
# By the estimate of the plan: runs below end within a second on any machine.
_SHORT_S = 0.02
# Likewise: beyond, a pilot would take more than a check is to take, 500 MB.
_MUCH_BYTES = 300_000_000
# The example whose pilot says how fast this machine is: it has ten million packet-hops, and 400 hosts.
_USUAL = "leaf-spine"


def line(packet_hops: int, memory_bytes: int, seconds: float) -> str:
    """Say in words what a run takes."""
    hops = f"{packet_hops / 1e6:,.1f} million" if packet_hops >= 1e6 else f"{packet_hops:,}"
    took = "less than a second" if seconds < 1 else f"{seconds:.1f} s" if seconds < 10 else text.duration(seconds)
    # The ideal model has no packets.
    takes = [f"{memory(memory_bytes)} of memory", f"{took} on one core"]
    return ", ".join([f"{hops} packet-hops"] * bool(packet_hops) + takes)


def memory(in_bytes: int) -> str:
    """Say how much memory that is."""
    gigabytes = in_bytes / 1e9
    return f"{gigabytes:.1f} GB" if gigabytes >= 1 else f"{in_bytes / 1e6:.0f} MB"


def seconds(
    source: scenarios.Source, changes: list[str], seed: int | None, world: str | None, checked: Checked
) -> float:
    """Return the time that a run takes here; runs on a kernel take their time in the real world, and have no pilot."""
    if checked["world"] == "linux" or (checked["packet_hops"] and checked["seconds"] < _SHORT_S):
        return checked["seconds"]
    if checked["memory_bytes"] > _MUCH_BYTES:
        usual = scenarios.Source(_native.example(_USUAL), _USUAL, _USUAL)
        return checked["seconds"] * correction([(usual, [], scenarios.check(usual, [], None))])
    # As a run does that writes its tables: rows of what is over, or has not begun, are not in memory.
    handle = scenarios.start(source, changes, seed, world, spill=Path(tempfile.gettempdir()))
    try:
        return _extrapolated(handle, checked)
    finally:
        handle.cancel()


def correction(
    points: Iterable[tuple[scenarios.Source, list[str], Checked]],
) -> float:
    """Return by how much the times of these runs differ from those that their plans say, as a factor."""
    measured = planned = 0.0
    for source, changes, checked in points:
        measured += seconds(source, changes, 1, None, checked)
        planned += checked["seconds"]
    return measured / planned if planned else 1.0


def _extrapolated(handle: Run, checked: Checked) -> float:
    started_s, started = time.process_time(), time.monotonic()
    while not (finished := handle.wait(_POLL_S)) and not handle.progress()["simulated_s"]:
        if time.monotonic() - started > _BUILDING_S:
            return time.process_time() - started_s + checked["seconds"]
    begun_s = warm_s = time.process_time()
    before = 0
    # Its own time, which is less than that of the clock where others use the processors, too.
    while not finished and (used_s := time.process_time() - begun_s) < _PILOT_S:
        if used_s < _WARMING_S:
            warm_s, before = time.process_time(), _done(handle)
        if time.monotonic() - started > _PATIENCE_S:
            break
        finished = handle.wait(_POLL_S)
    ended_s = time.process_time()
    share = (_done(handle) - before) / max(_total(handle, checked), 1)
    if finished or not share:
        return ended_s - started_s + (0 if finished else checked["seconds"])
    return begun_s - started_s + (ended_s - warm_s) / share


def _done(handle: Run) -> int:
    progress = handle.progress()
    return progress["packet_hops"] or progress["messages_done"]


def _total(handle: Run, checked: Checked) -> int:
    return checked["packet_hops"] or handle.progress()["messages_total"]
