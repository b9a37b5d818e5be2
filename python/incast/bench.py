"""Measures the speed of the simulator. Every case runs in its own process, so that peak memory is measured per case."""

from __future__ import annotations

import json
import re
import shlex
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from incast import output, text
from incast._native import RunError, ScenarioError

if TYPE_CHECKING:
    from pathlib import Path

Driver = Literal["sweep", "event-loop"]
# Only the native module: the memory of Python and its libraries would hide that of a run. Even `json` takes 2 MB.
_CHILD = (
    "import sys, time; from incast._native import bench_leaf_spine as b; begin = time.process_time(); "
    "print(b(sys.argv[3:], sys.argv[1], int(sys.argv[2])), time.process_time() - begin, sep='\\n')"
)
# Of the scale table: numbers of flows on 400 hosts; then, with 50 flows per host, leaf-spine networks with this many
# times the leaves, spines and hosts per leaf, and fat trees by the ports of their switches.
_FLOWS = (2_000, 20_000, 200_000, 2_000_000)
_SIDES = (2, 4, 8)
_FAT_TREES = (12, 20, 30, 46)
_FLOWS_PER_HOST = 50


class LeafSpine(NamedTuple):
    """The network of the benchmark, or `side` times its leaves, spines and hosts per leaf."""

    side: int = 1

    @property
    def hosts(self) -> int:
        """How many there are."""
        return 400 * self.side**2

    def changes(self) -> list[str]:
        """Return what differs from the scenario."""
        sizes = {"leaves": 20, "hosts_per_leaf": 20, "spines": 10}
        return [f"topology.{name}={count * self.side}" for name, count in sizes.items()]


# Messages per second and host whose payload is 60 % of its link of 10 Gbit/s; their mean size is 94,976 bytes.
_MESSAGES = (
    'kind = "poisson", flows = 1, start = "1ms", pairs = "any", connections = "fresh", sizes = { '
    'kind = "mixture", share_of = "bytes", parts = ['
    '{ share = 0.2, sizes = { kind = "uniform", min = "8KiB", max = "32KiB" } }, '
    '{ share = 0.8, sizes = { kind = "constant", size = "1MiB" } }] }'
)
_MESSAGES_PER_S = 0.6 * 10e9 / 8 / 94_976


class FatTree(NamedTuple):
    """A fat tree with the same links and messages, which fill 60 % of what hosts can send."""

    ports: int

    @property
    def hosts(self) -> int:
        """How many there are."""
        return self.ports**3 // 4

    def changes(self) -> list[str]:
        """Return what differs from the scenario."""
        link = '{ rate = "10Gbps", delay = "10us" }'
        return [
            f'topology={{ kind = "fat-tree", ports = {self.ports}, host_link = {link}, fabric_link = {link} }}',
            # A load would ask for all shortest paths, of which there are too many.
            f"traffic.messages={{ {_MESSAGES}, rate_per_s = {self.hosts * _MESSAGES_PER_S:.0f} }}",
        ]


class Case(NamedTuple):
    """One workload."""

    name: str
    flows: int
    network: LeafSpine | FatTree
    driver: Driver
    threads: int = 1


def best(case: Case, repeat: int) -> dict[str, Any]:
    """Run a case `repeat` times and return the fastest run.

    Raises:
        ScenarioError: `repeat` or the number of flows is out of range.
        RunError: a run failed.

    """
    _check(case.flows, repeat)
    runs = [_once(case) for _ in range(repeat)]
    fastest = min(runs, key=lambda measured: float(measured["wall_s"]))
    return {**fastest, "best_of": repeat, "driver": case.driver, "flows": case.flows, "threads": case.threads}


def table(flows: int, repeat: int, threads: int) -> None:
    """Print a table for both drivers, each row as soon as it is measured."""
    _check(10 * flows, repeat)
    head = ("driver", "work", "packet-hops", "wall s", "M PTS", "ns/hop", "peak MB")
    widths = (10, 10, 13, 8, 9, 8, 8)
    _line(head, widths)
    drivers: tuple[Driver, ...] = ("sweep", "event-loop")
    for driver in drivers:
        of_run = threads if driver == "sweep" else 1
        for case in (
            Case("base", flows, LeafSpine(), driver, of_run),
            Case("10x flows", 10 * flows, LeafSpine(), driver, of_run),
            Case("4x hosts", flows, LeafSpine(2), driver, of_run),
        ):
            measured = best(case, repeat if case.name == "base" else 1)
            _line(
                (
                    driver,
                    case.name,
                    f"{measured['packet_hops']:,}",
                    f"{measured['wall_s']:.2f}",
                    f"{measured['packet_hops_per_s'] / 1e6:.1f}",
                    f"{measured['ns_per_hop']:.1f}",
                    f"{measured['peak_rss_mb']:.1f}",
                ),
                widths,
            )
            if case.name == "base":
                base = measured
    print(
        f"\n{flows:,} flows on 400 hosts, DCTCP; a packet-hop is the transmission of one packet on one link, "
        f"PTS are packet\ntransmissions per second of wall-clock time. "
        f"Short flows: FCT p50 {text.seconds(base['short_fct_p50_s'])}, p99 {text.seconds(base['short_fct_p99_s'])}. "
        f"The base case is the fastest of {repeat} runs."
    )


def scale(most_flows: int, *, as_json: bool, plot: Path | None = None) -> None:
    """Print what a packet-hop costs as flows and hosts become more, up to a number of flows, and draw it.

    Raises:
        ScenarioError: not even the smallest case has so few flows.
        RunError: a run failed.

    """
    cases = [Case("more flows", flows, LeafSpine(), "sweep") for flows in _FLOWS]
    larger = [("more hosts", LeafSpine(side)) for side in _SIDES] + [
        ("fat tree", FatTree(ports)) for ports in _FAT_TREES
    ]
    cases += [Case(name, _FLOWS_PER_HOST * network.hosts, network, "sweep") for name, network in larger]
    cases = [case for case in cases if case.flows <= most_flows]
    if not cases:
        raise ScenarioError(f"--up-to must be at least {_FLOWS[0]:,} flows")
    if plot is not None:
        if plot.suffix != ".png":
            raise ScenarioError(f"--plot {plot}: must end in .png")
        output.prepare(plot.parent)
    head = ("work", "hosts", "flows", "packet-hops", "CPU s", "ns/hop", "ratio", "peak MB")
    widths = (10, 6, 9, 14, 8, 7, 6, 8)
    rows: list[dict[str, Any]] = []
    for case in cases:
        measured = _once(case)
        ns_per_hop = float(measured["cpu_s"]) * 1e9 / int(measured["packet_hops"])
        ratio = ns_per_hop / float(rows[0]["cpu_ns_per_hop"]) if rows else 1.0
        hosts = case.network.hosts
        rows.append(
            {
                **measured,
                "work": case.name,
                "hosts": hosts,
                "flows": case.flows,
                "cpu_ns_per_hop": ns_per_hop,
                "ratio": ratio,
            }
        )
        if as_json:
            continue
        if len(rows) == 1:
            _line(head, widths)
        hops, cpu_s, peak_mb = (float(measured[key]) for key in ("packet_hops", "cpu_s", "peak_rss_mb"))
        cells = (f"{hosts:,}", f"{case.flows:,}", f"{hops:,.0f}", f"{cpu_s:.2f}", f"{ns_per_hop:.1f}", f"{ratio:.2f}")
        _line((case.name, *cells, f"{peak_mb:.0f}"), widths)
    if plot is not None:
        _draw(rows, plot)
    if as_json:
        print(json.dumps(rows))
    else:
        print(
            "\nCPU time, planning included, which a busy machine changes less than wall-clock time. "
            "Ratios are to the first row."
        )


def _draw(rows: list[dict[str, Any]], file: Path) -> None:
    from incast import figures

    lines: dict[str, tuple[list[float], list[float]]] = {}
    for work, network in (("more flows", "leaf-spine"), ("more hosts", "leaf-spine"), ("fat tree", "fat tree")):
        if found := [row for row in rows if row["work"] == work]:
            hosts = " to ".join(f"{count:,}" for count in sorted({found[0]["hosts"], found[-1]["hosts"]}))
            cost = [float(row["cpu_ns_per_hop"]) for row in found]
            lines[f"{network}, {hosts} hosts"] = [float(row["packet_hops"]) / 1e6 for row in found], cost
    output.write(file, figures.png(figures.cost(lines, "packet-hops of the run (millions)")))


class Turn(NamedTuple):
    """What one run took, with everything around it but the start of its process."""

    packet_hops: int
    seconds: float

    @property
    def ns_per_hop(self) -> float:
        """What a packet-hop costs."""
        return self.seconds * 1e9 / self.packet_hops


def against(command: str, flows: int, repeat: int, threads: int) -> None:
    """Run the base case and another program in turns, and print the ratio of what a packet-hop costs.

    Raises:
        ScenarioError: `command`, `repeat` or the number of flows is out of range.
        RunError: a run failed, or the other program does not say how many packet-hops it ran.

    """
    _check(flows, repeat)
    try:
        program = shlex.split(command)
    except ValueError as error:
        raise ScenarioError(f"--against: {error} in {command}") from None
    if not program:
        raise ScenarioError("--against: there is no program")
    head = ("round", "ours ns/hop", "theirs ns/hop", "theirs/ours")
    widths = (7, 12, 14, 12)
    pairs: list[tuple[Turn, Turn]] = []
    for number in range(repeat):
        # Who begins changes from round to round: what slows the machine down does not always hit the same one.
        if number % 2 == 0:
            ours = _ours(flows, threads)
            theirs = _theirs(program)
        else:
            theirs = _theirs(program)
            ours = _ours(flows, threads)
        pairs.append((ours, theirs))
        if number == 0:
            _line(head, widths)
        _line((str(number + 1), *_compared(ours.ns_per_hop, theirs.ns_per_hop)), widths)
    medians = [statistics.median(turn.ns_per_hop for turn in turns) for turns in zip(*pairs, strict=True)]
    ratios = [theirs.ns_per_hop / ours.ns_per_hop for ours, theirs in pairs]
    _line(("median", *_compared(*medians)[:2], f"{statistics.median(ratios):.2f}"), widths)
    ours, theirs = pairs[-1]
    print(
        f"\nratio {min(ratios):.2f} to {max(ratios):.2f} in {repeat} rounds; "
        f"{ours.packet_hops:,} packet-hops of ours, {theirs.packet_hops:,} of theirs"
    )


def _compared(ours: float, theirs: float) -> tuple[str, str, str]:
    return f"{ours:.1f}", f"{theirs:.1f}", f"{theirs / ours:.2f}"


def _ours(flows: int, threads: int) -> Turn:
    measured = _once(Case("base", flows, LeafSpine(), "sweep", threads))
    return Turn(int(measured["packet_hops"]), float(measured["wall_s"]))


def _theirs(program: list[str]) -> Turn:
    begin = time.perf_counter()
    try:
        done = subprocess.run(program, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ScenarioError(f"--against: {program[0]}: {error.strerror}") from None
    whole = time.perf_counter() - begin
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise RunError(f"{program[0]} failed: {last[0]}")
    return said(program[0], done.stdout, whole)


def said(program: str, output: str, whole_s: float) -> Turn:
    """Find how many packet-hops a program says it ran, and how long; if it says no time, its process took it.

    Raises:
        RunError: it does not say how many.

    """
    hops = _number(r"packet_hops", output)
    if not hops:
        raise RunError(f"{program} does not say how many packet-hops it ran: its output has no packet_hops=NUMBER")
    wall_s = _number(r"(?:run_)?wall_s", output)
    return Turn(int(hops), wall_s or whole_s)


def _number(name: str, output: str) -> float | None:
    """Read `name=5` or the `"name": 5` of JSON."""
    found = re.search(rf'(?<![\w]){name}"?\s*[=:]\s*([0-9.]+(?:e[+-]?[0-9]+)?)', output)
    return float(found[1]) if found else None


def _check(flows: int, repeat: int) -> None:
    if not 1 <= flows < 2**32 or repeat < 1:
        raise ScenarioError("--flows and --repeat must be at least 1, and ten times --flows less than 2^32")


def _once(case: Case) -> dict[str, Any]:
    changes = [*case.network.changes(), f"traffic.messages.flows={case.flows}"]
    arguments = [case.driver, str(case.threads), *changes]
    child = subprocess.run([sys.executable, "-c", _CHILD, *arguments], capture_output=True, text=True, check=False)
    if child.returncode != 0:
        last = child.stderr.strip().splitlines()[-1:] or [f"exit code {child.returncode}"]
        raise RunError(f"the benchmark failed: {last[0]}")
    measured, cpu_s = child.stdout.splitlines()
    return {**json.loads(measured), "cpu_s": float(cpu_s)}


def _line(cells: tuple[str, ...], widths: tuple[int, ...]) -> None:
    padded = [
        cell.rjust(width) if i > 1 else cell.ljust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    print("  ".join(padded), flush=True)
