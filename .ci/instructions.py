"""Counts the instructions that the packet simulator takes per packet-hop, and compares them with those kept.

Time depends on what else the machine does, instructions do not. They do depend on the compiler: after an update of Rust
write them anew (`--update`).
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "crates/worlds/packets/instructions.json"
PROGRAM = ("cargo", "build", "--quiet", "--release", "--locked", "-p", "incast-packets", "--example", "work")
METADATA = ("cargo", "metadata", "--format-version=1", "--no-deps")
# Counting begins and ends with this function, so that making the plan is not in it.
COUNTED = "incast_packets::run"
# What changes less says nothing.
NOTABLE = 0.03


def built() -> Path:
    """Build the program that carries out a work, and return it."""
    subprocess.run(PROGRAM, check=True, cwd=ROOT)
    target = json.loads(subprocess.check_output(METADATA, cwd=ROOT))
    return Path(target["target_directory"], "release/examples/work")


def counted(program: Path, work: str) -> float:
    """Return the instructions per packet-hop of a work."""
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory, "counts")
        tool = ["valgrind", "--tool=callgrind", f"--toggle-collect={COUNTED}", f"--callgrind-out-file={out}"]
        done = subprocess.run([*tool, program, work], check=True, capture_output=True, text=True)
        hops = re.search(r"^packet_hops=(\d+)$", done.stdout, re.MULTILINE)
        total = re.search(r"^(?:totals|summary): (\d+)", out.read_text(encoding="utf-8"), re.MULTILINE)
    if hops is None or total is None or total[1] == "0":
        raise SystemExit(f"nothing was counted of the work {work}:\n{done.stdout}{done.stderr}")
    return int(total[1]) / int(hops[1])


def line(work: str, before: float | None, now: float) -> str:
    """Describe one work, and whether its cost has changed notably."""
    text = f"{work:24} {now:8.1f}"
    if before is None:
        return f"{text}      new"
    change = now / before - 1
    return f"{text} {before:8.1f} {change:+8.1%}{'  <--' if abs(change) > NOTABLE else ''}"


def main() -> int:
    """Count all works; return the exit code: 1 if one has become notably more expensive."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true", help=f"write the counts to {KEPT.relative_to(ROOT)}")
    arguments = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("counting instructions needs valgrind: apt-get install valgrind", file=sys.stderr)
        return 1
    program = built()
    kept: dict[str, float] = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    counts = {}
    print(f"{'instructions per hop':24} {'now':>8} {'kept':>8} {'change':>8}")
    for work in subprocess.check_output([program], text=True).splitlines():
        counts[work] = round(counted(program, work), 1)
        print(line(work, kept.get(work), counts[work]), flush=True)
    if arguments.update:
        KEPT.write_text(json.dumps(counts, indent=2) + "\n", encoding="utf-8")
        return 0
    worse = [work for work, count in counts.items() if count > kept.get(work, count) * (1 + NOTABLE)]
    if worse:
        print(f"more expensive than before: {', '.join(worse)}; if that is meant: make bench UPDATE=1")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
