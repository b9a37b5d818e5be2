"""What the kernel counts: TCP's counters, the port's, the time that tasks waited for a CPU."""

from __future__ import annotations

import gzip
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# The names of a run's counts, and what in /proc/net/netstat and snmp adds up to each.
COUNTS = {
    "timeouts": ("TcpExt.TCPTimeouts",),
    # Recoveries that ACKs began, as in our table; TCPFastRetrans counts their segments.
    "fast_retransmits": ("TcpExt.TCPSackRecovery", "TcpExt.TCPRenoRecovery"),
    "tail_probes": ("TcpExt.TCPLossProbes",),
    "retransmitted_packets": ("Tcp.RetransSegs",),
    "probes_that_repaired": ("TcpExt.TCPLossProbeRecovery",),
    "fast_retransmitted_packets": ("TcpExt.TCPFastRetrans",),
    "lost_retransmissions": ("TcpExt.TCPLostRetransmit",),
    "spurious_timeouts": ("TcpExt.TCPSpuriousRTOs",),
    "duplicates_reported": ("TcpExt.TCPDSACKRecv",),
    "undone": ("TcpExt.TCPFullUndo", "TcpExt.TCPPartialUndo", "TcpExt.TCPDSACKUndo", "TcpExt.TCPLossUndo"),
    "slow_start_retransmits": ("TcpExt.TCPSlowStartRetrans",),
}


def parsed(text: str) -> dict[str, int]:
    """Read /proc/net/netstat or snmp: pairs of lines, names and numbers, with the same first word.

    Raises:
        ValueError: it is something else.

    """
    found: dict[str, int] = {}
    lines = [line.split() for line in text.splitlines() if line.strip()]
    if len(lines) % 2:
        raise ValueError("a line of names without its line of numbers")
    for names, numbers in zip(lines[::2], lines[1::2], strict=True):
        if names[0] != numbers[0] or len(names) != len(numbers):
            raise ValueError(f"the numbers of {names[0]} do not fit its names")
        group = names[0].rstrip(":")
        found |= {f"{group}.{name}": int(number) for name, number in zip(names[1:], numbers[1:], strict=True)}
    return found


def counted(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """Return what was counted in between, under the names of a run.

    Raises:
        KeyError: the kernel does not count one of them.

    """
    return {name: sum(after[one] - before[one] for one in parts) for name, parts in COUNTS.items()}


def total(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Add up the counts of several hosts."""
    found = dict.fromkeys(COUNTS, 0)
    for one in counts:
        for name, value in one.items():
            found[name] += value
    return found


@dataclass(frozen=True)
class Waits:
    """How often a task got a CPU, and how long it was runnable without one before that."""

    waited_s: float = 0.0
    turns: int = 0

    def __add__(self, other: Waits) -> Waits:
        return Waits(self.waited_s + other.waited_s, self.turns + other.turns)

    def __sub__(self, other: Waits) -> Waits:
        return Waits(self.waited_s - other.waited_s, self.turns - other.turns)

    @property
    def mean_s(self) -> float:
        """The mean wait of a turn; 0 if there was none."""
        return self.waited_s / self.turns if self.turns else 0.0


def waits(schedstat: str) -> Waits:
    """Read a task's schedstat: time on a CPU, time of waiting for one, turns."""
    _, waited_ns, turns = schedstat.split()
    return Waits(int(waited_ns) / 1e9, int(turns))


def own_waits() -> Waits:
    """Return the waits of this process, which has one thread."""
    return waits(Path("/proc/self/schedstat").read_text(encoding="ascii"))


def softirq_waits() -> Waits:
    """Return the waits of the kernel's threads that carry packets on."""
    return sum((waits((task / "schedstat").read_text(encoding="ascii")) for task in _softirq_threads()), Waits())


def _softirq_threads() -> list[Path]:
    found = []
    for task in Path("/proc").glob("[0-9]*"):
        try:
            if (task / "comm").read_text(encoding="utf-8", errors="replace").startswith("ksoftirqd/"):
                found.append(task)
        except OSError:
            continue  # it has ended
    return found


def stolen_s() -> float:
    """Return how long the machine's CPUs were taken away by its host, if it is a virtual one."""
    first = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()
    return int(first[8]) / os.sysconf("SC_CLK_TCK")


def ticks_per_second() -> int | None:
    """Return CONFIG_HZ; `None` where the kernel does not tell."""
    packed, plain = Path("/proc/config.gz"), Path(f"/boot/config-{os.uname().release}")
    try:
        text = gzip.decompress(packed.read_bytes()).decode() if packed.is_file() else plain.read_text(encoding="utf-8")
    except OSError:
        return None
    found = re.search(r"^CONFIG_HZ=(\d+)$", text, re.MULTILINE)
    return int(found[1]) if found else None
