"""Draws settings for the study of the order of grants: `python deadlines_draw.py > deadlines-settings.csv`.

Ports, timers, and what stacks are told come from the generator of the arena; the jobs are drawn here. They have four
different deadlines, each a multiple of the time that the line alone would need. In some settings there are others,
which have none.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Protocol

SEED, COUNT = 2026_11_26, 36
# Payload of the jobs with deadlines in a setting (bytes): it bounds what a run costs.
PAYLOAD = 36e6

arena = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[1] / "arena" / "draw.py")))


class Draw(Protocol):
    """Random choices, as the arena draws them."""

    def one(self, *of: str) -> str:
        """Return one of several."""
        ...

    def number(self, *of: float) -> float:
        """Return one of several numbers."""
        ...

    def between(self, low: float, high: float) -> float:
        """Return a number whose logarithm is uniform."""
        ...


def setting(number: int, draw: Draw) -> dict[str, object]:
    """Draw one setting: a third of them on a leaf-spine network with four hosts that ask, the others with one."""
    fabric = number % 3 == 0
    port = arena.port(draw, None)
    mix = draw.one(*arena.MIXES, "uniform")
    mean = arena.MIXES.get(mix, 129_000)
    sizes = (
        '{ kind = "uniform", min = "2KB", max = "256KB" }'
        if mix == "uniform"
        else f'{{ kind = "cdf", name = "{mix}" }}'
    )
    most = round(draw.between(12, 60))
    least = max(2, round(most * draw.number(0.1, 0.5, 1)))
    fan_in = (least + most) / 2
    load = draw.number(0.4, 0.6, 0.8)
    beside = draw.number(0, 0.25)
    opened_by = draw.one("scheduler", "worker")
    task_us = draw.number(10, 100, 1000)
    slack = draw.number(1, 2)
    count = max(24, min(100, int(PAYLOAD / (fan_in * mean))))
    # What a job with an average fan-in takes if it has the line for itself.
    ideal_s = port.seconds(fan_in * mean * arena.FULL / arena.PAYLOAD) + port.rtt_us * 1e-6 + 4 * task_us * 1e-6
    cases = ", ".join(f'{{ deadline = "{arena.ns(slack * times * ideal_s * 1e6)}" }}' for times in (1.5, 3, 6, 12))
    link = f'{{ rate = "{port.rate:g}Gbps", delay = "{arena.ns(port.rtt_us / (8 if fabric else 4))}" }}'
    size = "leaves = 4, spines = 4, hosts_per_leaf = 17"
    topology = (
        f'{{ kind = "leaf-spine", {size}, host_link = {link}, fabric_link = {link} }}'
        if fabric
        else f'{{ kind = "star", hosts = 65, link = {link} }}'
    )
    common = (
        f'kind = "fork-join", schedulers = {"{ per_rack = 1 }" if fabric else 1}, '
        f'fan_in = {{ min = {least}, max = {most} }}, sizes = {sizes}, opened_by = "{opened_by}", '
        f'task_time = {{ kind = "exponential", mean = "{arena.ns(task_us)}" }}'
    )
    traffic = f"jobs = {{ {common}, load = {load * (1 - beside)}, jobs = {count}, cases = [{cases}] }}"
    if beside:
        number_beside = max(4, round(count * beside / (1 - beside)))
        traffic += f", rest = {{ {common}, load = {load * beside}, jobs = {number_beside} }}"
    return {
        "setting": f"d{number:02}",
        "$load": load,
        "$without_deadline": beside,
        "$opened_by": opened_by,
        "$slack": slack,
        **arena.about(port, fan_in, mean, "jobs of four hosts" if fabric else "jobs of one host"),
        **arena.common(port, topology, 60.0, f"{{ {traffic} }}"),
        **arena.told(port, fan_in, mean),
    }


def text() -> str:
    """Return the settings as CSV."""
    draw = arena.Draw(SEED)
    rows = [setting(number, draw) for number in range(1, COUNT + 1)]
    made: str = arena.as_csv("deadlines_draw.py", rows)
    return made


if __name__ == "__main__":
    sys.stdout.write(text())
