"""Draws the settings of the arena: `python draw.py 1 > settings-1.csv` writes half of them.

The numbers come from Python's `random.Random(seed).random()` (Mersenne Twister), whose sequence is the same in every
version; all else is computed from them here. The second half has another seed, and was drawn after the stacks, the
metrics and the page were frozen.

Columns whose names begin with `$` do not belong to the scenario. Some say for readers what a setting is; the others are
what stacks are told of it: each follows from the port, or from what is asked for, by a rule that stands below.
"""

from __future__ import annotations

import csv
import io
import random
import sys
from dataclasses import dataclass
from math import exp, log
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Halves by number; their seeds.
SEEDS = {1: 2026_11_23, 2: 2027_11_23}

# A full segment of Linux: on the wire, and its payload.
FULL, PAYLOAD = 1500, 1448

# So many settings of every half belong to each region, of queries alone and of those beside long flows ...
ALONE = {"T <= 1": 6, "F <= 1 < T": 9, "M <= 1 < F": 9, "M > 1": 9}
BESIDE = {"T <= 1": 3, "F <= 1 < T": 4, "M <= 1 < F": 4, "M > 1": 4}
# ... and so many are jobs, at one host or at several of a leaf-spine network.
JOBS, FABRIC = 6, 6

# Round trips on an idle network (us), by rate (Gbit/s).
ROUND_TRIPS = {1: 100.0, 10: 40.0, 25: 30.0, 40: 20.0, 100: 10.0}
# What is in a query and in all queries of a run, at most (bytes): it bounds what the run costs.
QUERY, QUERIES = 6e6, 48e6
# Beside long flows a run takes as long as the line needs for so much (bytes).
BESIDE_BYTES = 110e6


class Draw:
    """Random choices."""

    def __init__(self, seed: int) -> None:
        self._next = random.Random(seed).random  # noqa: S311

    def one(self, *of: float | str) -> float | str:
        """Return one of several."""
        return of[int(self._next() * len(of))]

    def number(self, *of: float) -> float:
        """Return one of several numbers."""
        return of[int(self._next() * len(of))]

    def between(self, low: float, high: float) -> float:
        """Return a number whose logarithm is uniform."""
        return exp(log(low) + self._next() * log(high / low))


@dataclass
class Port:
    """A port, its line, and the timers of those who send through it."""

    rate: float
    """Gbit/s."""
    rtt_us: float
    buffer: str
    """As a scenario has it."""
    depth: str
    holds: float
    """Bytes, if the others are empty."""
    rto_ms: float
    noise_us: float
    initial_window: int
    kept: bool

    @property
    def bdp(self) -> float:
        """What the line carries in a round trip (bytes)."""
        return self.rate * 125 * self.rtt_us

    def seconds(self, size: float) -> float:
        """How long the line needs for so many bytes."""
        return size / (self.rate * 125e6)


def port(draw: Draw, longest_rto_ms: float | None) -> Port:
    """Draw a port. Beside long flows timers shrink with the rate, so that a run sees several of them."""
    rate = draw.number(*ROUND_TRIPS)
    rtt_us = ROUND_TRIPS[int(rate)] * draw.number(0.5, 1, 2)
    depth = str(draw.one("shallow", "shallow", "deep", "shared"))
    packets = int(draw.between(400, 3000) if depth == "deep" else draw.between(43, 200))
    holds = packets * FULL
    if depth == "shared":
        alpha = draw.number(0.25, 0.5, 1, 2)
        # A queue alone grows to alpha / (1 + alpha) of the memory.
        size = int(holds * (1 + alpha) / alpha)
        buffer = f'{{ name = "dynamic-threshold", size = "{size}B", alpha = {alpha} }}'
    else:
        buffer = f'{{ name = "static", limit = "{holds}B", count_in_service = true }}'
    rto_ms = draw.number(1, 10, 200)
    if longest_rto_ms is not None:
        rto_ms = min(rto_ms, longest_rto_ms / rate)
    noise_us = min(draw.number(0.2, 1, 5), rtt_us / 5)
    initial_window = int(draw.number(10, 10, 10, 2))
    return Port(rate, rtt_us, buffer, depth, holds, rto_ms, noise_us, initial_window, draw.number(0, 1) == 1)


def region(port: Port, fan_in: float, response: float) -> str:
    """Say what of a query fits into the port: all of it (T), its first windows (F), or a segment of each (M)."""
    first = min(response, port.initial_window * PAYLOAD)
    if fan_in * response <= port.holds:
        return "T <= 1"
    if fan_in * first <= port.holds:
        return "F <= 1 < T"
    return "M <= 1 < F" if fan_in * min(response, PAYLOAD) <= port.holds else "M > 1"


def ns(us: float) -> str:
    """Write a time."""
    return f"{round(us * 1000)}ns"


def told(port: Port, fan_in: float, response: float) -> dict[str, object]:
    """Return what stacks are told: by rules, and from nothing but the port and what is asked for."""
    packets, bdp = port.holds / FULL, port.bdp / FULL
    # What may be under way: nine tenths of the port, and no more than its line carries in half the least timeout.
    budget = min(0.9 * port.holds, port.rate * 125e6 * port.rto_ms / 1000 / 2)
    largest = largest_window(response, port.initial_window)
    found: dict[str, object] = {
        # Marks begin at a bandwidth-delay product, from 20 packets on, and at a third of the port at the latest.
        "$threshold": f"{max(5, int(min(max(20, bdp), packets / 3)))}packets",
        # The window of each server if the port and the path are divided evenly.
        "$clamp": f"{max(PAYLOAD, int((port.holds + port.bdp) / fan_in * PAYLOAD / FULL))}B",
        # Requests whose largest windows in slow start fit into port and path together.
        "$slow_start": max(1, int((port.holds + port.bdp) / (largest * FULL / PAYLOAD))),
        # RDTCP's queue: the path, and half of the port.
        "$queue": max(2, int(bdp + packets / 2)),
        # Swift's target: twice the idle round trip and what hosts add to it; as much again for small windows, twice.
        "$target": ns(2 * port.rtt_us + 8 * port.noise_us),
        "$range": ns(4 * port.rtt_us),
    }
    # Windows and requests whose product fits into the budget, with windows of so many segments at least.
    for segments in (1, 4):
        window = max(budget / fan_in, segments * FULL)
        found[f"$window{segments}"] = f"{int(window * PAYLOAD / FULL)}B"
        found[f"$requests{segments}"] = max(1, int(budget / window))
    return found


def largest_window(response: float, initial_window: int) -> float:
    """Return the most of a response that slow start ever has under way (bytes)."""
    window, sent, largest = float(initial_window * PAYLOAD), 0.0, 0.0
    while sent < response:
        part = min(window, response - sent)
        largest, sent, window = max(largest, part), sent + part, 2 * window
    return largest


def common(port: Port, topology: str, stop_s: float, traffic: str) -> dict[str, object]:
    """Return the keys of the scenario that every setting sets."""
    # Hosts with short timers have a fine clock, and delay ACKs for a tenth of a timeout.
    fine = port.rto_ms < 200
    return {
        "run.stop_at": f"{round(stop_s * 1e6)}us",
        "topology": topology,
        "hosts.noise.mean": ns(port.noise_us),
        "switch.buffer": port.buffer,
        "tcp.initial_window": port.initial_window,
        "tcp.rto_min": ns(port.rto_ms * 1000),
        "$delayed_ack": f'{{ every = 2, timeout = "{ns(port.rto_ms * 100 if fine else 40_000)}" }}',
        "tcp.timer_tick": "0s" if fine else "4ms",
        "tcp.timer_margin": "0s" if fine else "2ms",
        "traffic": traffic,
    }


def about(port: Port, fan_in: float, response: float, where: str) -> dict[str, object]:
    """Return what readers want to know of a setting."""
    return {
        "$traffic": where,
        "$kind": "jobs" if "jobs" in where else where,
        "$region": region(port, fan_in, response),
        "$rate_gbps": f"{port.rate:g}",
        "$rtt_us": f"{port.rtt_us:g}",
        "$port": f"{port.depth}, {round(port.holds / FULL)} packets",
        "$fan_in": round(fan_in),
        "$response_kb": f"{response / 1000:.3g}",
        "$rto_ms": f"{port.rto_ms:g}",
    }


def queries(draw: Draw, wanted: str, *, beside: bool) -> dict[str, object]:
    """Draw queries of one client, one after the other, in a region; beside them two long flows, or none."""
    while True:
        at = port(draw, 200.0 if beside else None)
        fan_in = round(draw.between(8, 300 if beside else 1000))
        response = round(draw.between(2e3, 256e3))
        service_us = draw.number(0, 1, 10, 100)
        slack = draw.number(1.25, 2, 4)
        size = fan_in * response
        if size <= QUERY and region(at, fan_in, response) == wanted:
            break
    rounds = max(12, min(40, int((QUERIES / 3 if beside else QUERIES) / size)))
    stop_s = at.seconds(BESIDE_BYTES) if beside else 60.0
    ideal_s = at.seconds(size * FULL / PAYLOAD) + at.rtt_us * 1e-6 + 4 * service_us * 1e-6
    service = f'{{ kind = "exponential", mean = "{ns(service_us)}" }}' if service_us else '"0s"'
    traffic = (
        f'requests = {{ kind = "rounds", workers = {fan_in}, response = "{response}B", rounds = {rounds}, '
        f'window = "{"kept" if at.kept else "fresh"}", jitter = "{ns(at.rtt_us / 5)}", service_time = {service}, '
        f'deadline = "{ns(slack * ideal_s * 1e6)}" }}'
    )
    if beside:
        traffic += f', long = {{ kind = "long", senders = [{fan_in + 1}, {fan_in + 2}], receiver = 0 }}'
    link = f'{{ rate = "{at.rate:g}Gbps", delay = "{ns(at.rtt_us / 4)}" }}'
    topology = f'{{ kind = "star", hosts = {fan_in + 3}, link = {link} }}'
    where = "beside long flows" if beside else "alone"
    return {
        **about(at, fan_in, response, where),
        **common(at, topology, stop_s, f"{{ {traffic} }}"),
        **told(at, fan_in, response),
    }


# Means of published sizes (bytes).
MIXES = {"hadoop-hpcc": 120_421, "alistorage-hpcc": 40_870}


def jobs(draw: Draw, *, fabric: bool) -> dict[str, object]:
    """Draw coflows with deadlines: jobs that ask many servers, of one host or of one host in each of four racks."""
    at = port(draw, None)
    mix = str(draw.one(*MIXES, "uniform"))
    mean = MIXES.get(mix, 129_000)
    sizes = (
        '{ kind = "uniform", min = "2KB", max = "256KB" }'
        if mix == "uniform"
        else f'{{ kind = "cdf", name = "{mix}" }}'
    )
    fan_in = round(draw.between(8, 56))
    load = draw.number(0.3, 0.5, 0.7)
    task_us = draw.number(10, 100, 1000)
    slack = draw.number(2, 4, 8)
    count = max(24, min(80, int(QUERIES / (fan_in * mean))))
    ideal_s = at.seconds(fan_in * mean * FULL / PAYLOAD) + at.rtt_us * 1e-6 + 4 * task_us * 1e-6
    link = f'{{ rate = "{at.rate:g}Gbps", delay = "{ns(at.rtt_us / (8 if fabric else 4))}" }}'
    if fabric:
        size = "leaves = 4, spines = 4, hosts_per_leaf = 16"
        topology = f'{{ kind = "leaf-spine", {size}, host_link = {link}, fabric_link = {link} }}'
    else:
        topology = f'{{ kind = "star", hosts = 65, link = {link} }}'
    traffic = (
        f'{{ jobs = {{ kind = "fork-join", schedulers = {"{ per_rack = 1 }" if fabric else 1}, fan_in = {fan_in}, '
        f"sizes = {sizes}, load = {load}, jobs = {count}, "
        f'task_time = {{ kind = "exponential", mean = "{ns(task_us)}" }}, '
        f'deadline = "{ns(slack * ideal_s * 1e6)}" }} }}'
    )
    return {
        **about(at, fan_in, mean, "jobs of four hosts" if fabric else "jobs of one host"),
        **common(at, topology, 60.0, traffic),
        **told(at, fan_in, mean),
    }


def half(number: int) -> list[dict[str, object]]:
    """Draw one half of the settings."""
    draw = Draw(SEEDS[number])
    rows = [queries(draw, wanted, beside=False) for wanted, count in ALONE.items() for _ in range(count)]
    rows += [queries(draw, wanted, beside=True) for wanted, count in BESIDE.items() for _ in range(count)]
    rows += [jobs(draw, fabric=False) for _ in range(JOBS)]
    rows += [jobs(draw, fabric=True) for _ in range(FABRIC)]
    drawn = ("drawn first", "drawn after the freeze")[number - 1]
    return [
        {"setting": f"s{60 * (number - 1) + index:03}", "$half": drawn, **row}
        for index, row in enumerate(rows, start=1)
    ]


def text(number: int) -> str:
    """Return one half as CSV."""
    return as_csv(f"draw.py {number}", half(number))


def as_csv(program: str, rows: Sequence[Mapping[str, object]]) -> str:
    """Return settings as CSV that says which program made it."""
    out = io.StringIO()
    print(f"# Made by: python {program}", file=out)
    table = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return out.getvalue()


if __name__ == "__main__":
    sys.stdout.write(text(int(sys.argv[1])))
