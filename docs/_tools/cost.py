"""How well `incast check` tells what a run takes: by how much packet-hops, memory and time of runs differ from it.

Usage: `cost.py` measures the scenarios that are shipped and those that are drawn, and prints a table for
`docs/explanation/speed.md`; `cost.py --only fifth` measures one of these sets. A factor of 1.25 is a run that takes a
quarter more than was said. It takes half an hour.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).resolve().parents[2]
# What an estimate may be off by.
MOST = 1.5
# Times below are not asked for: `incast check` says "less than a second".
SHORTEST_S = 1.0


class Draw(NamedTuple):
    """A set of scenarios that depend on nothing but their numbers."""

    scenarios: int
    seed: int
    longer: int
    """How many times as much traffic as some million packet-hops they have."""


# The estimates were fitted with the first at hand. The second to the fifth were set before they were measured, and
# what they showed changed the estimates. The sixth was set before it was measured, and nothing was changed after it.
DRAWS = {
    "drawn": Draw(24, 20261125, 1),
    "second": Draw(24, 7_402_931, 8),
    "third": Draw(24, 3_916_047, 4),
    "fourth": Draw(24, 6_250_713, 4),
    "fifth": Draw(24, 1_874_409, 4),
    "sixth": Draw(24, 4_358_826, 4),
}
# Incasts on a star of many workers, most of which lose their packets. What the first set showed changed the estimates;
# the second was set with the fifth draw.
COLLAPSES = {"collapse": Draw(12, 5_118_804, 1), "second-collapse": Draw(12, 9_026_351, 1)}

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


def drawn(of: Draw, number: int) -> str:
    """Return a scenario of a set."""
    draw = random.Random(of.seed + number)  # noqa: S311
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
    if of.longer > 1 and draw.random() < 0.25:
        traffic = jobs(draw, hosts, of.longer)
    elif draw.random() < 0.5:
        workers = min(hosts - 1, draw.choice([8, 32, 128]))
        size_kb = draw.choice([2, 16, 64, 256])
        rounds = max(1, of.longer * 1_500_000 // (workers * (size_kb + 2)))
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
            f"flows = {of.longer * flows}",
            f"sizes = {sizes}",
        ]
    return "\n".join([
        "[topology]", f'kind = "{kind}"', *lines, "[hosts]", 'noise = { kind = "none" }',
        "[switch]", f"buffer = {buffer}", marker, "[stack]", f'sender = "{sender}"',
        "[tcp]", f'profile = "{profile}"', "[traffic.a]", *traffic, "",
    ])  # fmt: skip


def jobs(draw: random.Random, hosts: int, longer: int) -> list[str]:
    """Return jobs that fork and join."""
    fan_in = min(hosts - 3, draw.choice([6, 24]))
    size_kb, load = draw.choice([2, 20, 200]), draw.choice([0.2, 0.5, 0.8])
    count = longer * 1_500_000 // (fan_in * (size_kb + 8))
    return [
        'kind = "fork-join"', "schedulers = 2", f"fan_in = {fan_in}", f"jobs = {count}", f"load = {load}",
        f'sizes = {{ kind = "uniform", min = "1KB", max = "{2 * size_kb}KB" }}',
        f'task_time = "{draw.choice([0, 100, 5000])}us"',
    ]  # fmt: skip


def collapse(of: Draw, number: int) -> str:
    """Return an incast that loses most of what is sent at first."""
    draw = random.Random(of.seed + number)  # noqa: S311
    workers = draw.choice([2_000, 8_000, 30_000, 60_000])
    size_kb = draw.choice([1, 2, 8, 30])
    buffer = draw.choice([
        '{ name = "static", limit = "9packets", count_in_service = true }',
        '{ name = "static", limit = "100packets", count_in_service = false }',
        '{ name = "dynamic-threshold", alpha = 1.0, size = "2MiB" }',
    ])  # fmt: skip
    link = f'{{ rate = "{draw.choice(["1Gbps", "10Gbps"])}", delay = "{draw.choice(["100ns", "1us", "20us"])}" }}'
    return "\n".join([
        "[topology]", 'kind = "star"', f"hosts = {workers + 1}", f"link = {link}",
        "[hosts]", 'noise = { kind = "none" }', "[switch]", f"buffer = {buffer}",
        "[stack]", f'sender = "{draw.choice(["newreno", "cubic"])}"',
        "[tcp]", f'profile = "{draw.choice(["paper", "linux-no-rack", "linux"])}"',
        "[traffic.a]", 'kind = "rounds"', f"workers = {workers}", f'response = "{size_kb}KB"',
        f"rounds = {draw.choice([1, 1, 3])}", f'jitter = "{draw.choice([0, 0, 5000])}us"', "",
    ])  # fmt: skip


def sets(folder: Path) -> dict[str, list[Path]]:
    """Write the scenarios that are drawn to a folder, and return all that are measured, by the name of their set."""

    def written(name: str, texts: Iterable[str]) -> list[Path]:
        files = []
        for number, text in enumerate(texts):
            files.append(folder / f"{name}-{number}.toml")
            files[-1].write_text(text, encoding="utf-8")
        return files

    return {
        "shipped": [each for each in sorted((ROOT / "scenarios").glob("*.toml")) if each.stem != "linux"],
        **{name: written(name, (drawn(of, number) for number in range(of.scenarios))) for name, of in DRAWS.items()},
        **{
            name: written(name, (collapse(of, number) for number in range(of.scenarios)))
            for name, of in COLLAPSES.items()
        },
    }


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
    parser.add_argument("--only", choices=["shipped", *DRAWS, *COLLAPSES], help="measure one set")
    parser.add_argument("--keep", type=Path, help="folder for the scenarios that are drawn")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = asked.keep or Path(scratch)
        folder.mkdir(exist_ok=True)
        chosen = {"given": asked.scenarios} if asked.scenarios else sets(folder)
        print("| scenario | packet-hops | | memory | | time | |\n|---|---|---|---|---|---|---|")
        ends = [measured(name, chosen[name]) for name in chosen if asked.only in {None, name}]
    print("\n" + "\n".join(ends))
    return 0


def measured(name: str, scenarios: list[Path]) -> str:
    """Measure a set; say how many of it are outside, and how far."""
    found: list[list[float]] = [[], [], []]
    for scenario in scenarios:
        estimate, run = said(scenario), took(scenario)
        each = factors(estimate, run)
        for place, factor in enumerate(each):
            found[place] += [] if factor is None else [factor]
        shown = [f"{factor:.2f}" if factor is not None else "" for factor in each]
        amounts = [f"{run.packet_hops / 1e6:.2f} M", f"{run.memory_bytes / 1e6:.0f} MB", f"{run.seconds:.1f} s"]
        cells = " | ".join(f"{amount} | {factor}" for amount, factor in zip(amounts, shown, strict=True))
        print(f"| {scenario.stem} | {cells} |", flush=True)
    parts = []
    for what, some in zip(["packet-hops", "memory", "time"], found, strict=True):
        outside = sum(not 1 / MOST <= factor <= MOST for factor in some)
        parts.append(f"{what} {min(some):.2f} to {max(some):.2f} ({outside} of {len(some)} outside)" if some else "")
    return f"{name}, {len(scenarios)}: {', '.join(filter(None, parts))}"


if __name__ == "__main__":
    sys.exit(main())
