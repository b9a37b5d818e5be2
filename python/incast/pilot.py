"""What a run will take, by a pilot: a short run whose results are thrown away.

Packets are lost and sent again, connections wait for each other, and caches hold what they can: little of that can be
told from a plan. A pilot ends after a million packet-hops, at the same point on any machine. Of a run that has many
connections open at once it has 20,000, since it would take much memory and see only how an incast collapses; of one
that takes much memory because it is long it has the first 250,000 messages. What it shows of packet-hops and memory is
the same everywhere; how long its packet-hops take is that of this machine.

Where even that would take too much memory, the plan's own time counts, and the pilot of another run says how fast this
machine is.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from incast import _native, scenarios, text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from incast._native import Checked, Run

# A pilot takes less, by its processor's time, unless the machine is slow; then the plan counts.
_PATIENCE_S = 10.0
# Where there are no packets to be counted: the time of a pilot.
_PILOT_S = 0.4
# The first packets take longer, as memory is new: these packet-hops, or this time, do not count.
_WARMING_HOPS = 250_000
_WARMING_S = 0.1
_POLL_S = 0.005
# What a run may take whose pilot saw neither all workers nor the end: 2.67 times was measured.
_GUESS_TIMES = 3
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


@dataclass(frozen=True)
class Cost:
    """What a run takes."""

    packet_hops: int
    memory_bytes: int
    seconds: float
    times_at_most: int = 1
    """So many times as many packet-hops and seconds it may be."""

    def line(self) -> str:
        """Say it in words."""
        said = line(self.packet_hops, self.memory_bytes, self.seconds)
        return (
            said if self.times_at_most == 1 else f"{said}; packet-hops and time may be {self.times_at_most} times that"
        )


def cost(source: scenarios.Source, changes: list[str], seed: int | None, world: str | None, checked: Checked) -> Cost:
    """Return what a run takes here; runs on a kernel take their time in the real world, and have no pilot."""
    planned = Cost(checked["packet_hops"], checked["memory_bytes"], checked["seconds"])
    if checked["world"] == "linux":
        return planned
    spill = Path(tempfile.gettempdir())
    # As a run does that writes its tables: rows of what is over, or has not begun, are not in memory.
    if not checked["packet_hops"]:
        handle = scenarios.start(source, changes, seed, world, spill=spill)
    elif (pilot := scenarios.pilot(source, changes, seed, world, spill)) is not None:
        handle = pilot
    else:
        usual = scenarios.Source(_native.example(_USUAL), _USUAL, _USUAL)
        times = correction([(usual, [], scenarios.check(usual, [], None))]).seconds
        return replace(planned, seconds=planned.seconds * times)
    try:
        return _shown(handle, planned)
    finally:
        handle.cancel()


@dataclass(frozen=True)
class Correction:
    """By how much what runs take differs from what their plans say, as factors."""

    packet_hops: float
    seconds: float


def correction(points: Iterable[tuple[scenarios.Source, list[str], Checked]]) -> Correction:
    """Hold the plans of these runs against their pilots."""
    hops = planned_hops = 0
    seconds = planned_s = 0.0
    for source, changes, checked in points:
        shown = cost(source, changes, 1, None, checked)
        hops += shown.packet_hops
        planned_hops += checked["packet_hops"]
        seconds += shown.seconds
        planned_s += checked["seconds"]
    return Correction(hops / planned_hops if planned_hops else 1.0, seconds / planned_s if planned_s else 1.0)


def _shown(handle: Run, planned: Cost) -> Cost:
    """Wait for a pilot, and say what it has shown."""
    started_s = begun_s = warm_s = reached_s = time.process_time()
    warm = reached = 0
    while not (finished := handle.wait(_POLL_S)):
        now_s, done = time.process_time(), _done(handle)
        if not handle.progress()["simulated_s"]:
            # It still builds the network.
            begun_s = warm_s = now_s
        elif done < _WARMING_HOPS and now_s - begun_s < _WARMING_S:
            warm_s, warm = now_s, done
        if done > reached:
            reached_s, reached = now_s, done
        if now_s - started_s > (_PATIENCE_S if planned.packet_hops else _PILOT_S):
            break
    ended_s, done = time.process_time(), _done(handle)
    if done > reached:
        reached_s = ended_s
    told = handle.told() if finished else None
    of_part = told.packet_hops_of_part if told else planned.packet_hops or handle.progress()["messages_total"]
    if done >= of_part or (finished and not told):
        seconds = ended_s - started_s
    elif done > warm:
        # What is to be written down of all messages in the end is that of the whole run.
        beside_s = begun_s - started_s + ended_s - reached_s
        seconds = beside_s + (reached_s - warm_s) / (done - warm) * of_part
    else:
        seconds = ended_s - started_s + planned.seconds
    if told is None:
        return replace(planned, seconds=seconds)
    guess_times = _GUESS_TIMES if told.is_guess else 1
    return Cost(told.packet_hops, told.memory_bytes, seconds * told.times, guess_times)


def _done(handle: Run) -> int:
    progress = handle.progress()
    return progress["packet_hops"] or progress["messages_done"]
