"""What a point of the Pulser study takes here and in ns-3: an eighth of it is run on both sides."""

from __future__ import annotations

import resource
import time
import tomllib
from dataclasses import dataclass
from typing import Any

import incast
from incast.studies import paper, plan, table
from side_by_side import dctcp_loss, world

SCENARIO = world.ROOT / "studies" / "pulser" / "scenarios" / "leaf-spine.toml"
_SHARE = 8
_DCTCP: dict[str, Any] = {
    "stack.sender": "dctcp",
    "switch.marker": {"name": "ecn-threshold", "threshold": "65packets", "count_in_service": False},
    "record.incasts": [],
    "traffic.long.flows": 7275 // _SHARE,
    "traffic.short.flows": 93120 // _SHARE,
}


@dataclass(frozen=True)
class Cost:
    """CPU time of the same flows on both sides."""

    flows: int
    packet_hops: int
    ns3_s: float
    ours_s: float


def measure() -> Cost:
    """Run DCTCP at 60 % of the uplinks on both sides, anew each time.

    Raises:
        FailedError: ns-3 did not finish.

    """
    ours_before = time.process_time()
    result = incast.run(SCENARIO, set=_DCTCP)
    ours_s = time.process_time() - ours_before
    arguments = {
        **world.arguments(tomllib.loads((world.ROOT / "scenarios" / "leaf-spine.toml").read_text(encoding="utf-8"))),
        "buffer": 200,
        "mark": 65,
        "initialWindow": 1,
        "rtoMinMs": 10,
    }
    before_s = cpu_s_of_children()
    world.printed(world.OUT, dctcp_loss.listed(result), arguments)
    ns3_s = cpu_s_of_children() - before_s
    summary = result.summary_dict
    return Cost(summary["flows"], summary["packet_hops"], ns3_s, ours_s)


def cpu_s_of_children() -> float:
    """Return the CPU time of all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def packet_hops_of(name: str) -> int:
    """Return the packet-hops of a paper's studies, a run that several of them share counted once."""
    hops: dict[str, int] = {}
    for study in paper.read(name, None).studies:
        known = table.read(study)
        if known:
            column = known.head.index("packet_hops")
            rows = zip(plan.rows(study), known.rows, strict=True)
            hops.update({row.task.key: int(cells[column]) for row, cells in rows if row.task})
    return sum(hops.values())


def said(cost: Cost, study_packet_hops: int) -> str:
    """Say what both took, and what a study of this many packet-hops would take at that pace."""
    hours = cost.ns3_s / cost.packet_hops * study_packet_hops / 3600
    return (
        f"{cost.flows:,} flows, {cost.packet_hops / 1e6:.1f} million packet-hops: ns-3 {cost.ns3_s:.0f} s of CPU, "
        f"ours {cost.ours_s:.1f} s.\n"
        f"The {study_packet_hops / 1e9:.1f} billion packet-hops of the studies would take ns-3 {hours:.0f} hours "
        f"of CPU ({hours / 24:.1f} days) at that pace."
    )
