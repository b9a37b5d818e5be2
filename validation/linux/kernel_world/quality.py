"""How good the machine was while it measured, from what is kept of the repetitions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from incast.studies import plan
from kernel_world import world
from kernel_world.agent import PERCENTS
from side_by_side.agreement import mean

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from incast.studies.study import Study

QUANTILES = ("min", *(f"p{percent:g}" for percent in PERCENTS), "max")


@dataclass(frozen=True)
class Kept:
    """The repetitions of a study."""

    found: tuple[dict[str, Any], ...]

    @property
    def refused(self) -> list[str]:
        """Why repetitions were done again."""
        return [one for found in self.found for one in found["refused"]]

    def of(self, name: str) -> list[float]:
        """Return a number of the machine's quality, repetition by repetition."""
        return [found["quality"][name] for found in self.found]

    def quantile(self, name: str, which: str) -> list[float]:
        """Return a quantile, repetition by repetition."""
        return [found["quality"][name][which] for found in self.found]

    def median_quantiles(self, name: str) -> dict[str, float]:
        """Return each quantile's median over the repetitions."""
        return {which: median(self.quantile(name, which)) for which in QUANTILES}


def read(study: Study, out: Path) -> Kept:
    """Read all repetitions of a study, which has been run."""
    found = []
    for row in plan.rows(study):
        if row.task and row.task.outside:
            chosen = world.settings(json.loads(row.task.outside.scenario))
            found.append(json.loads(world.file_of(out, chosen, row.seed).read_text(encoding="utf-8")))
    return Kept(tuple(found))


def median(values: Sequence[float]) -> float:
    """Return the lower median."""
    return sorted(values)[(len(values) - 1) // 2]


def told(kept: Kept) -> str:
    """Say it in Markdown."""
    kernel = kept.found[0]["kernel"]
    waiting, softirqs, stolen = kept.of("waiting"), kept.of("softirq_waiting"), kept.of("stolen")
    rates = [rate / 1e6 for rate in kept.of("rate_bps")]
    ticks = kernel["ticks_per_second"] or "an unknown number of"
    minutes = sum(kept.of("elapsed_s")) / 60
    done = f"{len(kept.found)} repetitions, {minutes:.0f} minutes of traffic"
    lines = [
        f"Linux {kernel['release']}, {ticks} ticks a second; {done}.",
        "",
        f"{len(kept.refused)} more repetitions were refused, because the machine was busy, and done again.",
        "",
        "| | mean | worst |",
        "| --- | --- | --- |",
        f"| harness waited for a CPU, % | {100 * mean(waiting):.2f} | {100 * max(waiting):.2f} |",
        f"| softirqs' threads waited for a CPU, % | {100 * mean(softirqs):.2f} | {100 * max(softirqs):.2f} |",
        f"| CPU time taken by the host of this machine, % | {100 * mean(stolen):.2f} | {100 * max(stolen):.2f} |",
        f"| rate of the port, Mbit/s | {mean(rates):.2f} | {min(rates):.2f} to {max(rates):.2f} |",
        "",
        "Quantiles in us, each the median over the repetitions:",
        "",
        "| | " + " | ".join(QUANTILES) + " |",
        "| --- |" + " --- |" * len(QUANTILES),
    ]
    names = {
        "base_rtt_s": "round trip of a small message on the unloaded path, both applications' turns included",
        "base_noise_s": "the same less its least",
        "late_departures_s": "a packet leaves the busy port late by",
        "late_answers_s": "an answer is handed to TCP so long after its request is due",
    }
    for name, said in names.items():
        values = kept.median_quantiles(name)
        lines.append(f"| {said} | " + " | ".join(f"{values[which] * 1e6:.0f}" for which in QUANTILES) + " |")
    return "\n".join(lines)
