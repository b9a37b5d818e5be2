"""Times the works whose instructions are kept, in turns: ns per packet-hop, and ratios to the first of a group.

The time is that of the run, without its plan. With root, runs have one CPU and go before all of ordinary priority.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
from typing import TYPE_CHECKING

import instructions

if TYPE_CHECKING:
    from pathlib import Path

# What is compared: with the first of each group. Sizes make a run take some tenths of a second.
GROUPS = (
    {
        "leaf-spine": 8000, "leaf-spine, detector": 8000, "leaf-spine, shared": 8000,
        "leaf-spine, shared, detector": 8000, "leaf-spine, 100 Gbit/s": 8000,
    },
    {"incast 127:1": 200, "incast 127:1, shared": 200, "incast 1000:1": 20},
    {"star of 41, static": 20_000, "star of 41, shared": 20_000, "star of 401, shared": 8000},
)  # fmt: skip


def ns_per_hop(program: Path, work: str, size: int) -> float:
    """Carry out a work once."""
    alone = ["chrt", "-f", "10", "taskset", "-c", str(max(os.sched_getaffinity(0)))] if os.geteuid() == 0 else []
    done = subprocess.run([*alone, program, work, str(size)], check=True, capture_output=True, text=True)
    hops, run_s = (re.search(rf"^{name}=(\S+)$", done.stdout, re.MULTILINE) for name in ("packet_hops", "run_s"))
    if hops is None or run_s is None:
        raise SystemExit(f"{program}: no times of the work {work}:\n{done.stdout}{done.stderr}")
    return float(run_s[1]) * 1e9 / int(hops[1])


def spread(values: list[float], shown: str) -> str:
    """Return the median, and the least and the most."""
    low, middle, high = (format(value, shown) for value in (min(values), statistics.median(values), max(values)))
    return f"{middle} ({low} to {high})"


def main() -> int:
    """Time the works that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("works", nargs="*", help="which; each comes with the first of its group (default: all)")
    parser.add_argument("--rounds", type=int, default=9, help="how often each is carried out (default 9)")
    arguments = parser.parse_args()
    known = [work for group in GROUPS for work in group]
    if unknown := [work for work in arguments.works if work not in known]:
        print(f"no work {unknown[0]!r}; expected one of: {'; '.join(known)}", file=sys.stderr)
        return 2
    if arguments.rounds < 1:
        print(f"--rounds: found {arguments.rounds}, expected at least 1", file=sys.stderr)
        return 2
    if os.geteuid() == 0 and (shutil.which("chrt") is None or shutil.which("taskset") is None):
        print("timing needs chrt and taskset: apt-get install util-linux", file=sys.stderr)
        return 1
    program = instructions.built()
    print(f"{'ns per packet-hop':30} {'median (least to most)':26} times the first of its group, in turns")
    for group in GROUPS:
        first, *others = group
        works = [first, *(work for work in others if not arguments.works or work in arguments.works)]
        if len(works) == 1 and arguments.works and first not in arguments.works:
            continue
        taken: dict[str, list[float]] = {work: [] for work in works}
        for number in range(arguments.rounds):
            # Who begins changes: what slows the machine down does not always hit the same one.
            for work in works if number % 2 == 0 else reversed(works):
                taken[work].append(ns_per_hop(program, work, group[work]))
        for work, values in taken.items():
            ratios = [value / of_first for value, of_first in zip(values, taken[first], strict=True)]
            said = "" if work == first else spread(ratios, ".2f")
            print(f"{work:30} {spread(values, '.1f'):26} {said}".rstrip(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
