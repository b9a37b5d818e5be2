"""The largest burst that a shared memory takes without loss, over alpha.

`.venv/bin/python studies/shared-buffer/tolerance.py` runs the study (some minutes), writes `tolerance.csv` beside
this file and draws `docs/images/incast-tolerance.png`. With `--check` it recomputes a few points and compares.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

import incast
from incast.figures import LIGHT, Look, description

HERE = Path(__file__).parent
TABLE = HERE / "tolerance.csv"
PICTURE = HERE.parents[1] / "docs" / "images" / "incast-tolerance.png"
ALPHAS = [2.0**power for power in range(-7, 4)]
CONGESTED = [0, 1, 4, 8]
SEEDS = range(1, 6)
MEMORY_BYTES = 2_000_000
#: What one sender's burst takes of the memory: ten segments of 1448 bytes with headers of 52.
BURST_BYTES = 10 * 1500
MOST_SENDERS = 200
SENDERS_PER_PORT = 4
FIRST_SENDER, FIRST_OF_BURST = 9, 41


@dataclass(frozen=True)
class Point:
    """How many senders may burst with this alpha while so many ports are congested."""

    background: str
    congested: int
    alpha: float

    def scenario(self, senders: int) -> dict[str, Any]:
        """Return the scenario with a burst of so many senders."""
        scenario: dict[str, Any] = tomllib.loads((HERE / "scenario.toml").read_text(encoding="utf-8"))
        scenario["switch"]["buffer"]["alpha"] = self.alpha
        scenario["traffic"]["burst"]["senders"] = [FIRST_OF_BURST + index for index in range(senders)]
        background = scenario["traffic"].pop("background")
        if self.congested:
            background["stack"] = {"sender": self.background}
            background["pairs"] = [
                [FIRST_SENDER + index, 1 + index // SENDERS_PER_PORT]
                for index in range(self.congested * SENDERS_PER_PORT)
            ]
            scenario["traffic"]["background"] = background
        return scenario

    def is_taken(self, senders: int) -> bool:
        """Whether, with every seed, a burst of so many senders arrives without a retransmission."""
        scenario = self.scenario(senders)
        for result in incast.run_many([(scenario, None, seed) for seed in SEEDS]):
            flows = result.to_pandas("flows")
            burst = flows[flows["class"] == "burst"]
            if burst["retransmitted_packets"].sum() > 0 or burst["fct_s"].isna().any():
                return False
        return True

    def tolerance(self) -> int:
        """Return the most senders whose burst is taken: below it all are, at one more some seed loses."""
        low, high = 0, MOST_SENDERS
        while low < high:
            middle = (low + high + 1) // 2
            if self.is_taken(middle):
                low = middle
            else:
                high = middle - 1
        return low

    def textbook(self) -> float:
        """Return what the steady state of Choudhury and Hahne gives the burst's port, in senders."""
        share = self.alpha / (1 + (self.congested + 1) * self.alpha)
        return share * MEMORY_BYTES / BURST_BYTES


def points() -> list[Point]:
    """Return every point of the study."""
    return [
        Point(background, congested, alpha)
        for background in ("newreno", "dctcp")
        for congested in CONGESTED
        for alpha in ALPHAS
        if congested or background == "newreno"
    ]


def study() -> dict[Point, int]:
    """Run everything, with progress on stderr."""
    found = {}
    everything = points()
    for number, point in enumerate(everything, start=1):
        found[point] = point.tolerance()
        print(f"\r{number} of {len(everything)} points", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return found


def write(found: dict[Point, int]) -> None:
    """Write the table."""
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["background", "congested_ports", "alpha", "senders_taken", "textbook_senders"])
        for point, senders in found.items():
            rows.writerow([point.background, point.congested, point.alpha, senders, f"{point.textbook():.2f}"])


def read() -> dict[Point, int]:
    """Read the table back."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return {
            Point(row["background"], int(row["congested_ports"]), float(row["alpha"])): int(row["senders_taken"])
            for row in csv.DictReader(file)
        }


def draw(found: dict[Point, int]) -> None:
    """Write the picture, with the table that it shows."""
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    about = description(TABLE.read_text(encoding="utf-8"))
    figure(found).savefig(PICTURE, dpi=160, metadata={"Software": None, "Description": about})


def figure(found: dict[Point, int]) -> Figure:
    """Draw tolerance over alpha: one panel per protocol of the long flows."""
    drawn = Figure(figsize=(9.5, 4.2), layout="constrained")
    axes = drawn.subplots(1, 2, sharey=True)
    titles = {"newreno": "other ports filled by NewReno", "dctcp": "other ports held at K = 65 by DCTCP"}
    hollow = {"markerfacecolor": LIGHT.paper, "markersize": 3.5, "markeredgewidth": 0.8}
    for panel, (background, title) in zip(axes, titles.items(), strict=True):
        for place, congested in enumerate(CONGESTED):
            look = Look(place, 0).points(LIGHT)
            name = background if congested else "newreno"
            of_alpha = [Point(name, congested, alpha) for alpha in ALPHAS]
            label = f"{congested} congested" if congested else "none congested"
            panel.plot(ALPHAS, [found[point] for point in of_alpha], label=label, **look)
            panel.plot(ALPHAS, [point.textbook() for point in of_alpha], linestyle="--", linewidth=1, **look | hollow)
        panel.set_xscale("log", base=2)
        panel.set_xlabel("alpha")
        panel.set_title(title, loc="left")
        panel.set_ylim(bottom=0)
        panel.grid(visible=True, color=LIGHT.grid)
    axes[0].set_ylabel("senders whose burst is taken whole")
    axes[0].legend(title="dashed, hollow: textbook share", frameon=False, loc="upper left")
    return drawn


def check() -> int:
    """Recompute a few points and compare them with the table; return the exit code."""
    known = read()
    sample = [Point("newreno", 0, 1.0), Point("newreno", 4, 0.5), Point("dctcp", 8, 2.0)]
    wrong = [(point, known[point], now) for point in sample if (now := point.tolerance()) != known[point]]
    for point, before, now in wrong:
        print(f"{point}: {now} senders, the table says {before}", file=sys.stderr)
    return 1 if wrong else 0


def main() -> int:
    """Run the study, or check it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="recompute a few points and compare")
    parser.add_argument("--draw", action="store_true", help="only draw what the table holds")
    arguments = parser.parse_args()
    if arguments.check:
        return check()
    if not arguments.draw:
        write(study())
    draw(read())
    return 0


if __name__ == "__main__":
    sys.exit(main())
