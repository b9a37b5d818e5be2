"""Measures what the programs of incast-host cost: nanoseconds of each per run, and the goodput that is left.

`python tests/linux/overhead.py [REPETITIONS]` prints the tables of docs/how-to/linux-host.md. It needs root, and is
best run on a machine without other work. Connections run over virtual cables without a limit, so that the processors
are the bottleneck, and packets are not joined: about the worst case. Rounds with and without programs alternate.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import loaded
from loaded import bpf
from slow_port import HERE, HOST, Bottleneck, Host, attach, built, hosted

ENABLE_STATS = 32
SIZE = 200_000_000
REPETITIONS = 5


def programs() -> Iterator[tuple[str, int, int]]:
    """Name, runs and nanoseconds of each program of incast-host."""
    for _, name, info in loaded.programs():
        runs, time_ns = (struct.unpack_from("Q", info, at)[0] for at in (loaded.RUN_COUNT, loaded.RUN_TIME_NS))
        yield name, runs, time_ns


def full_name(name: str) -> str:
    """Return what the source calls a program, of which the kernel keeps 15 letters."""
    if len(name) < loaded.LETTERS:
        return name
    sources = HERE.parents[1] / "crates" / "bpf" / "kernel"
    text = "".join(source.read_text() for source in sources.glob("*.bpf.c"))
    return max(re.findall(rf"\b{name}\w*", text), key=len, default=name)


def transfer(bottleneck: Bottleneck) -> tuple[float, int]:
    """Send on one connection; Mbit/s, and packets that the receiver's device took."""
    port = bottleneck.receiver("reno")
    counter = ["ip", "netns", "exec", bottleneck.netns("b"), "cat", "/sys/class/net/eth0/statistics/rx_packets"]
    before = int(subprocess.check_output(counter))
    connection = bottleneck.send("reno", port, SIZE)
    connection.wait_for_handshake()
    start = time.monotonic()
    assert connection.result()["arrived"] == SIZE
    taken = time.monotonic() - start
    bottleneck.processes.pop(-2).kill()
    return SIZE * 8e-6 / taken, int(subprocess.check_output(counter)) - before


# What is enabled, and what for: the port never marks, so that all congestion controls do the same.
PORT = ("enable", "ein", "--dev", "b", "--rate", "10Gbps", "--set", "growth=1000", "--set", "high_water=1000")
CASES: dict[str, tuple[str, ...]] = {
    "nothing": (),
    "`enable dctcp`": ("dctcp",),
    "`enable swift`": ("swift",),
    "`enable ein`": ("ein",),
    "`sample`": ("sample",),
    "all three, with `pulser`": ("pulser", "ein", "sample"),
    "`enable ictcp`": ("receiver ictcp",),
    "`enable dcmrg --receiver`": ("receiver dcmrg",),
    "`enable rdtcp --receiver`": ("receiver rdtcp",),
    "events": ("events",),
}
# Those whose programs are timed: between them they have all.
LOSSY = "events, where 16 connections lose packets"
TIMED = (
    "all three, with `pulser`",
    "`enable swift`",
    "`enable ictcp`",
    "`enable dcmrg --receiver`",
    "`enable rdtcp --receiver`",
    LOSSY,
)
# A round trip that nothing here reaches.
PATIENT = ("--set", "base_target=50ms")


@contextlib.contextmanager
def enabled(bottleneck: Bottleneck, host: Host, each: tuple[str, ...]) -> Iterator[None]:
    """Start what a case names, and end it."""
    inside = ("ip", "netns", "exec", bottleneck.netns("switch"))
    out = Path(host.directory) / "sample"
    started = []
    for name in each:
        if name == "sample":
            command = [*inside, str(HOST), "sample", "--dev", "b", "--rate", "10Gbps", "--out", str(out)]
            started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            assert started[-1].stdout is not None
            started[-1].stdout.readline()
        elif name == "ein":
            started.append(host.start(*PORT, wrapper=inside)[0])
        elif name == "events":
            everywhere = [f"/run/netns/{bottleneck.netns(each)}" for each in ("a", "switch", "b")]
            nothing: dict[str, object] = {"cgroup": None, "senders": [], "ports": [], "receivers": []}
            started.append(attach({**nothing, "events": everywhere}).process)
        elif name.startswith("receiver "):
            at_receiver = ("nsenter", f"--net=/run/netns/{bottleneck.netns('b')}")
            place = ("--cgroup", str(bottleneck.cgroup), "--dev", "eth0", "--rate", "10Gbps", "--receiver")
            started.append(host.start("enable", name.removeprefix("receiver "), *place, wrapper=at_receiver)[0])
        else:
            cgroup = ("--cgroup", str(bottleneck.cgroup), "--port", "10.0.0.0/8")
            started.append(host.start("enable", name, *cgroup, *(PATIENT if name == "swift" else ()))[0])
    yield
    for process in started:
        process.terminate()
        process.communicate()
    if out.exists():
        shutil.rmtree(out)


def events() -> dict[str, tuple[int, int, int]]:
    """Have a port of 50 Mbit/s drop packets of 16 connections while all events are told of."""
    with built() as bottleneck:
        timed = bpf(ENABLE_STATS, bytearray(32))
        everywhere = [f"/run/netns/{bottleneck.netns(each)}" for each in ("a", "switch", "b")]
        attached = attach({"cgroup": None, "senders": [], "ports": [], "receivers": [], "events": everywhere})
        port = bottleneck.receiver("reno")
        transfers = [bottleneck.send("reno", port, 250_000) for _ in range(16)]
        for transfer in transfers:
            assert transfer.result()["arrived"] == 250_000
        packets = sum(int(each["packets"]) for each in bottleneck.shapers())
        found = {name: (runs, time_ns, packets) for name, runs, time_ns in programs() if runs}
        os.close(timed)
        attached.detach()
    return found


def main(repetitions: int) -> None:
    goodputs: dict[str, list[float]] = {case: [] for case in CASES}
    costs: dict[tuple[str, str], tuple[int, int, int]] = {}
    # What is started inherits it: other processes of the machine wait.
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    with built() as bottleneck, hosted() as host:
        # No limit but the processors.
        replace = ["tc", "-n", bottleneck.netns("switch"), "qdisc", "replace", "dev", "b", "root", "bfifo", "limit"]
        subprocess.run([*replace, "4000000"], check=True)
        for repetition in range(repetitions + 1):
            for case, each in CASES.items():
                # In the first round programs are timed, which slows them; it does not count for goodput.
                timed = bpf(ENABLE_STATS, bytearray(32)) if repetition == 0 else None
                with enabled(bottleneck, host, each):
                    goodput, packets = transfer(bottleneck)
                    if timed is not None and case in TIMED:
                        costs |= {(case, name): (runs, time_ns, packets) for name, runs, time_ns in programs() if runs}
                if timed is None:
                    goodputs[case].append(goodput)
                else:
                    os.close(timed)
    costs |= {(LOSSY, name): cost for name, cost in events().items()}
    print("| enabled | program | runs per packet of data | ns per run | ns per packet |\n|---|---|---|---|---|")
    for (case, name), (runs, time_ns, carried) in sorted(
        costs.items(), key=lambda item: (TIMED.index(item[0][0]), -item[1][1])
    ):
        # Those of a connection's begin and end, and of what is asked.
        if case != LOSSY and runs < carried / 100:
            continue
        print(
            f"| {case} | `{full_name(name)}` | {runs / carried:.2f} | {time_ns / runs:.0f} | {time_ns / carried:.0f} |"
        )
    print("\n| enabled | Mbit/s, median | least | most |\n|---|---|---|---|")
    for case, values in goodputs.items():
        print(f"| {case} | {statistics.median(values):.0f} | {min(values):.0f} | {max(values):.0f} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else REPETITIONS)
