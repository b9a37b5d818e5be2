"""How well `incast check` tells what a run takes: by how much packet-hops, memory and time of runs differ from it.

Usage: `cost.py` measures the scenarios that are shipped and some that are drawn, and prints a table for
`docs/explanation/speed.md`. A factor of 1.25 is a run that takes a quarter more than was said. It takes minutes.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
# What an estimate may be off by.
MOST = 1.5
# Times below are not asked for: `incast check` says "less than a second".
SHORTEST_S = 1.0
DRAWN, SEED = 24, 20261125

# A run as `incast run` carries it out: packet-hops, and seconds of a processor until it was over, without the start of
# Python and without the tables.
RUN = """\
import json, sys, tempfile, time
from pathlib import Path
from incast import scenarios
source = scenarios.read(sys.argv[1])
begun = time.process_time()
handle = scenarios.start(source, [], None, spill=Path(tempfile.gettempdir()))
handle.result()
print(json.dumps([handle.progress()["packet_hops"], time.process_time() - begun]))
"""
# The command, and the bytes of memory that it takes at most.
MEMORY = """\
import resource, subprocess, sys
subprocess.run([sys.executable, "-m", "incast", *sys.argv[1:]], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
"""


class Took(NamedTuple):
    """What a run takes, or is said to take."""

    packet_hops: float
    memory_bytes: float
    seconds: float


def drawn(number: int) -> str:
    """Return a scenario of some million packet-hops, which depends on nothing but its number."""
    draw = random.Random(SEED + number)  # noqa: S311
    delay = draw.choice(["10ns", "100ns", "1us", "10us", "50us"])
    rate = draw.choice(["1Gbps", "10Gbps", "25Gbps"])
    link = f'{{ rate = "{rate}", delay = "{delay}" }}'
    kind = ("star", "dumbbell", "leaf-spine", "fat-tree")[number % 4]
    match kind:
        case "star":
            hosts = draw.choice([9, 41, 201])
            lines = [f"hosts = {hosts}", f"link = {link}"]
        case "dumbbell":
            hosts = 36
            lines = [
                "left = 32",
                "right = 4",
                f"edge_link = {link}",
                f'core_link = {{ rate = "40Gbps", delay = "{delay}" }}',
            ]
        case "leaf-spine":
            hosts = 64
            lines = ["leaves = 4", "hosts_per_leaf = 16", "spines = 4", f"host_link = {link}", f"fabric_link = {link}"]
        case _:
            hosts = 16
            lines = ["ports = 4", f"host_link = {link}", f"fabric_link = {link}"]
    buffer = draw.choice([
        '{ name = "static", limit = "100packets", count_in_service = false }',
        '{ name = "static", limit = "1MiB", count_in_service = true }',
        '{ name = "dynamic-threshold", alpha = 1.0, size = "2MiB" }',
    ])  # fmt: skip
    sender, marker = draw.choice([
        ("newreno", ""),
        ("dctcp", 'marker = { name = "ecn-threshold", threshold = "65packets" }'),
    ])  # fmt: skip
    profile = draw.choice(["paper", "linux-no-rack", "linux"])
    if draw.random() < 0.5:
        workers = min(hosts - 1, draw.choice([8, 32, 128]))
        size_kb = draw.choice([2, 16, 64, 256])
        rounds = max(1, 1_500_000 // (workers * (size_kb + 2)))
        traffic = ['kind = "rounds"', f"workers = {workers}", f'response = "{size_kb}KiB"', f"rounds = {rounds}"]
    else:
        sizes, flows = draw.choice([
            ('{ kind = "constant", size = "2KB" }', 100_000),
            ('{ kind = "constant", size = "100KB" }', 6_000),
            ('{ kind = "cdf", name = "websearch-dctcp" }', 400),
        ])  # fmt: skip
        load = draw.choice([0.2, 0.5, 0.8])
        traffic = [
            'kind = "poisson"',
            f"load = {load}",
            'reference = "host-links"',
            f"flows = {flows}",
            f"sizes = {sizes}",
        ]
    return "\n".join([
        "[topology]", f'kind = "{kind}"', *lines, "[hosts]", 'noise = { kind = "none" }',
        "[switch]", f"buffer = {buffer}", marker, "[stack]", f'sender = "{sender}"',
        "[tcp]", f'profile = "{profile}"', "[traffic.a]", *traffic, "",
    ])  # fmt: skip


def said(scenario: Path) -> Took:
    """Ask `incast check`."""
    done = subprocess.run(
        [sys.executable, "-m", "incast", "check", scenario, "--json"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{scenario}: {done.stderr}")
    checked = json.loads(done.stdout)
    return Took(checked["packet_hops"], checked["memory_bytes"], checked["seconds"])


def took(scenario: Path) -> Took:
    """Run it, twice."""
    hops, seconds = json.loads(subprocess.check_output([sys.executable, "-c", RUN, scenario], text=True))
    with tempfile.TemporaryDirectory() as out:
        command = ["run", str(scenario), "--threads", "1", "--out", out]
        most = subprocess.check_output([sys.executable, "-c", MEMORY, *command], stderr=subprocess.DEVNULL)
    return Took(hops, int(most), seconds)


def factors(estimate: Took, run: Took) -> list[float | None]:
    """Compare: 2 is a run that takes twice what was said; nothing stands for times too short to be said."""
    short = max(estimate.seconds, run.seconds) < SHORTEST_S
    told = [there / max(before, 1e-9) for before, there in zip(estimate, run, strict=True)]
    return [*told[:2], None if short else told[2]]


def main() -> int:
    """Measure, and print a line as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*", type=Path, help="instead of those")
    parser.add_argument("--keep", type=Path, help="folder for the scenarios that are drawn")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        chosen = asked.scenarios
        if not chosen:
            folder = asked.keep or Path(scratch)
            folder.mkdir(exist_ok=True)
            for number in range(DRAWN):
                (folder / f"drawn-{number}.toml").write_text(drawn(number), encoding="utf-8")
            shipped = [each for each in sorted((ROOT / "scenarios").glob("*.toml")) if each.stem != "linux"]
            chosen = [*shipped, *(folder / f"drawn-{number}.toml" for number in range(DRAWN))]
        print("| scenario | packet-hops | | memory | | time | |\n|---|---|---|---|---|---|---|")
        outside = [0, 0, 0]
        for scenario in chosen:
            estimate, run = said(scenario), took(scenario)
            found = factors(estimate, run)
            for place, factor in enumerate(found):
                outside[place] += factor is not None and not 1 / MOST <= factor <= MOST
            shown = [f"{factor:.2f}" if factor is not None else "" for factor in found]
            amounts = [f"{run.packet_hops / 1e6:.2f} M", f"{run.memory_bytes / 1e6:.0f} MB", f"{run.seconds:.1f} s"]
            cells = " | ".join(f"{amount} | {factor}" for amount, factor in zip(amounts, shown, strict=True))
            print(f"| {scenario.stem} | {cells} |", flush=True)
    print(f"\nOutside a factor of {MOST}: {outside[0]} of {len(chosen)} in packet-hops, {outside[1]} in memory, "
          f"{outside[2]} in time.")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
