"""The same work in this simulator, in ns-3 and in Days, in turns: `make bench-peers`, which installs both before.

Prints CPU time per packet-hop and its ratio to ours. A ratio is printed only if the numbers of packet-hops are alike.
Building the network counts on all sides; starting Python does not, and neither does building ns-3's network, which is
the smaller part. The page docs/explanation/speed.md says what was found.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import subprocess
import sys
import tempfile
import tomllib
from functools import partial, reduce
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import incast
from incast.bench import Turn
from side_by_side import cost, dctcp_loss, world

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ROOT = world.ROOT
DAYS = ROOT / "out" / "peers" / "bin" / "daytone"
# By how much the packet-hops of two programs may differ if the time of one is to be compared.
ALIKE = 0.05
OURS = """\
import json, sys, time
import incast
given = json.load(sys.stdin)
begun = time.process_time()
result = incast.run(given["scenario"], set=given["set"], threads=1)
print(json.dumps([result.summary_dict["packet_hops"], time.process_time() - begun]))
"""


class Work(NamedTuple):
    """The same network and flows for several programs; the first is ours."""

    name: str
    programs: dict[str, Callable[[], Turn]]


def ours(scenario: Path, changed: dict[str, Any]) -> Turn:
    """Run a scenario in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", OURS],
        input=json.dumps({"scenario": str(scenario), "set": changed}), capture_output=True, text=True, check=True,
    )  # fmt: skip
    hops, cpu_s = json.loads(done.stdout)
    return Turn(hops, cpu_s)


def ns3(flows: str, arguments: dict[str, Any]) -> Turn:
    """Run a list of flows in ns-3."""
    said = json.loads(world.printed(world.OUT, flows, arguments))
    return Turn(said["packet_hops"], said["cpu_s"])


def against_ns3(name: str, file: str, changed: dict[str, Any]) -> Work:
    """Return the work of a scenario that both have."""
    scenario = tomllib.loads((ROOT / file).read_text(encoding="utf-8"))
    for key, value in changed.items():
        *tables, last = key.split(".")
        reduce(lambda inner, table: inner.setdefault(table, {}), tables, scenario)[last] = value
    flows = dctcp_loss.listed(incast.run(ROOT / file, set=changed))
    arguments = world.arguments(scenario)
    return Work(name, {"ours": lambda: ours(ROOT / file, changed), "ns-3": lambda: ns3(flows, arguments)})


def days(head: str, ports: int, flows: list[str]) -> tuple[int, float]:
    """Run Days; return how many packets its flows have received, and what it took."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "days.toml"
        file.write_text("\n".join([head.format(folder=folder, ports=ports), *flows]), encoding="utf-8")
        before_s = cost.cpu_s_of_children()
        subprocess.run([DAYS, file], capture_output=True, check=True)
        cpu_s = cost.cpu_s_of_children() - before_s
        with (Path(folder) / "sinks.csv").open(encoding="utf-8") as rows:
            return sum(int(row["received_packets"]) for row in csv.DictReader(rows)), cpu_s


# Days leaves out the links of hosts: of the six links between two pods it has four. So its flows are half as large
# again, and both programs send as many packets over links. Its segments have 512 bytes, and each is acknowledged.
SEGMENT_BYTES, LINKS, DAYS_LINKS = 512, 6, 4


def between_pods(ports: int, flows: int) -> list[tuple[int, int]]:
    """Return the hosts at both ends of flows between the pods of a fat tree, from all edge switches alike."""
    hosts = ports**3 // 4
    return [(flow * hosts // flows, (flow * hosts // flows + hosts // 2) % hosts) for flow in range(flows)]


def on_edges(ports: int, ends: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the edge switches of hosts: Days has no others."""
    per_edge = ports // 2
    return [(source // per_edge, to // per_edge) for source, to in ends]


def ours_on_fat_tree(flows: Iterable[str], changed: dict[str, Any]) -> Turn:
    """Run flows, written down as HPCC's `flow.txt`, on our fat tree."""
    with tempfile.TemporaryDirectory() as folder:
        with (Path(folder) / "flow.txt").open("w", encoding="utf-8") as file:
            file.writelines(flows)
        scenario = Path(folder) / "fat-tree.toml"
        scenario.write_text(FAT_TREE, encoding="utf-8")
        return ours(scenario, changed)


def fat_tree(ports: int, flows: int, segments: int) -> Work:
    """Return flows between the pods of a fat tree for Days and for us."""
    ends = between_pods(ports, flows)
    listed = [
        {"source_host": source, "destination_host": to, "size_bytes": segments * SEGMENT_BYTES, "start_s": 0.001}
        for source, to in ends
    ]

    def of_ours() -> Turn:
        return ours_on_fat_tree([world.listed(listed)], {"topology.ports": ports})

    def of_days() -> Turn:
        size = segments * SEGMENT_BYTES * LINKS // DAYS_LINKS
        flows = [days_flow(source, to, size) for source, to in on_edges(ports, ends)]
        received, cpu_s = days(DAYS_HEAD, ports, flows)
        return Turn(received * 2 * DAYS_LINKS, cpu_s)

    return Work(
        f"fat tree, k = {ports}, {flows:,} flows of {segments * SEGMENT_BYTES // 1024} KiB",
        {"ours": of_ours, "Days": of_days},
    )


# The benchmark that Days comes with (`configs/benchmarks/fattree_k32_f4096_st.toml` of its sources): a packet of 1,000
# bytes of each flow every second, which nothing acknowledges. But flows go from pod to pod, where that one draws their
# ends, and links have ten times its rate: with 320 kbit/s, two thirds of the packets are lost. Of 640 flows nothing
# arrives with any, so only what arrives is counted. Ours are messages of one segment, each with its own connection:
# with its ACK and that of the handshake three packets over six links. All is a thousand times as fast there, as links
# have 1 Mbit/s at least; a simulator does not see that.
OWN_PORTS, OWN_FLOWS, OWN_S, OWN_BYTES = 32, 4096, 1500, 1000
OWN_ARRIVES = (OWN_FLOWS - 640) / OWN_FLOWS


def own_of_days(seconds: int) -> Work:
    """Return Days' own benchmark, which lasts this many simulated seconds in Days."""
    ends = between_pods(OWN_PORTS, OWN_FLOWS)

    def of_ours() -> Turn:
        lasts = round(seconds * OWN_ARRIVES * DAYS_LINKS / (3 * LINKS))
        messages = (
            f"{source} {to} 3 5000 {OWN_BYTES} {second / 1000}\n"
            for second in range(1, lasts + 1)
            for source, to in ends
        )
        link = {"rate": "320Mbps", "delay": "1us"}
        changed = {
            "topology.ports": OWN_PORTS, "topology.host_link": link, "topology.fabric_link": link,
            "switch.buffer.limit": "100packets", "tcp.mss": f"{OWN_BYTES}B",
        }  # fmt: skip
        return ours_on_fat_tree(chain([f"{lasts * OWN_FLOWS}\n"], messages), changed)

    def of_days() -> Turn:
        every = 'arr_dist = { type = "Uniform", low = 1, high = 1 }'
        sizes = f'pkt_size_dist = {{ type = "Uniform", low = {OWN_BYTES}, high = {OWN_BYTES} }}'
        flows = [
            f'[[flow]]\nflow_type = "PacketDistribution"\ngraph = [[{source}, {to}]]\n'
            f"[flow.traffic]\ninitial_delay = 1.0\nduration = {seconds}\n{every}\n{sizes}"
            for source, to in on_edges(OWN_PORTS, ends)
        ]
        head = DAYS_HEAD.replace("duration = 20.0\n", "").replace("10000000000", "3200000").replace("100000", "100")
        received, cpu_s = days(head, OWN_PORTS, flows)
        return Turn(received * DAYS_LINKS, cpu_s)

    return Work(f"Days' own: fat tree, k = 32, 4,096 packets a second, {seconds} s", {"ours": of_ours, "Days": of_days})


FAT_TREE = """\
name = "flows between pods"
[topology]
kind = "fat-tree"
ports = 8
host_link = { rate = "10Gbps", delay = "1us" }
fabric_link = { rate = "10Gbps", delay = "1us" }
[switch]
buffer = { name = "static", limit = "100000packets", count_in_service = false }
[tcp]
profile = "paper"
mss = "512B"
handshake = "before"
[traffic.flows]
kind = "trace"
file = "flow.txt"
[record]
queue_statistics = false
"""
DAYS_HEAD = """\
seed = 1
duration = 20.0
num_threads = 1
log_path = "{folder}"
[topology]
category = "FatTree"
[topology.fat_tree]
k = {ports}
[switch]
port_rate = 10000000000
capacity = 100000
weights = [1]
discipline = "FIFO"
drop = "TailDrop"
"""


def days_flow(source: int, to: int, size_bytes: int) -> str:
    """Return a flow as Days wants it: by TCP, of segments that its application has at 1 Gbit/s."""
    distance = f"low = {2 * SEGMENT_BYTES * 8e-9}, high = {2 * SEGMENT_BYTES * 8e-9}"
    sizes = f"low = {2 * SEGMENT_BYTES}, high = {2 * SEGMENT_BYTES}"
    return f"""\
[[flow]]
flow_type = "TCP"
graph = [[{source}, {to}]]
[flow.traffic]
initial_delay = 0.0
size = {size_bytes}
arr_dist = {{ type = "Uniform", {distance} }}
pkt_size_dist = {{ type = "Uniform", {sizes} }}
[flow.traffic.tcp]
cc_algorithm = "TCPReno"
"""


def in_turns(work: Work, rounds: int) -> None:
    """Run the programs of a work in turns and print what they took."""
    turns: dict[str, list[Turn]] = {name: [] for name in work.programs}
    for number in range(rounds):
        order = list(work.programs)
        # Who begins changes: what slows the machine down does not always hit the same one.
        for name in order if number % 2 == 0 else reversed(order):
            turns[name].append(work.programs[name]())
    mine = turns["ours"]
    for name, taken in turns.items():
        ns_per_hop = [turn.ns_per_hop for turn in taken]
        row = f"| {work.name} | {name} | {taken[0].packet_hops:,} | {spread(ns_per_hop, '.0f')} "
        apart = abs(taken[0].packet_hops / mine[0].packet_hops - 1)
        if name == "ours":
            row += "| |"
        elif apart > ALIKE:
            row += f"| not compared: {apart:.0%} more or fewer packet-hops |"
        else:
            row += f"| {spread([its.ns_per_hop / my.ns_per_hop for its, my in zip(taken, mine, strict=True)], '.0f')} |"
        print(row, flush=True)


def spread(values: list[float], shown: str) -> str:
    """Return the median, and the least and the most."""
    low, middle, high = (format(value, f",{shown}") for value in (min(values), statistics.median(values), max(values)))
    return f"{middle} ({low} to {high})"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="how often each program runs (default 3)")
    parser.add_argument("--large", action="store_true", help="also what is large: a quarter of an hour more")
    arguments = parser.parse_args()
    incast_40: dict[str, Any] = {
        "traffic.burst.size": "1048576B",
        "stack.sender": "newreno", "topology.hosts": 41, "topology.delay_step": "137ps", "traffic.burst.senders": 40,
    }  # fmt: skip
    works: list[Callable[[], Work]] = [
        partial(against_ns3, "incast 40:1, NewReno, 1 MiB each", "validation/ns3/incast.toml", incast_40),
        partial(against_ns3, "leaf-spine, 2,000 flows", "scenarios/leaf-spine.toml", {"traffic.messages.flows": 2000}),
        partial(fat_tree, 8, 128, 256),
        partial(own_of_days, OWN_S // 10),
    ]
    if arguments.large:
        works += [
            partial(fat_tree, 32, 4096, 128),
            partial(own_of_days, OWN_S),
            partial(against_ns3, "leaf-spine, 20,000 flows", "scenarios/leaf-spine.toml", {}),
        ]
    print("| work | program | packet-hops | ns of CPU per packet-hop | times ours |\n|---|---|---|---|---|")
    for work in works:
        in_turns(work(), arguments.rounds)


if __name__ == "__main__":
    main()
