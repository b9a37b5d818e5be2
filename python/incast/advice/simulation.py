"""Runs of a cluster: the scenario of one, and what its tables say of queries and long flows."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tomli_w

from incast import scenarios
from incast.advice.closed_form import segments
from incast.studies import execution, plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from incast.advice.cluster import Cluster
    from incast.studies.store import Store

# A run has as many queries as take about so many hops of packets, within limits.
_HOPS = 250_000
_HOPS_PER_SEGMENT = 3.2
_LEAST_QUERIES, _MOST_QUERIES = 20, 100
# Beside long flows the line is always busy: a run lasts for as many full packets.
_PACKETS_BESIDE_LONG_FLOWS = 200_000
# The part of such a run that belongs to the long flows alone, before the first query.
_ALONE = 0.1
# Queries of servers whose responses vary arrive at random, and take this part of the line.
LOAD = 0.3
_TABLES = frozenset({"coflows", "summary"})

# A port at which nothing is lost, and timers that do not expire for what merely waits.
LOSSLESS: Mapping[str, object] = {
    "switch.buffer": {"name": "static", "limit": "1000GB", "count_in_service": True},
    "tcp.rto_min": "60s",
    "tcp.tail_loss_probe": False,
}


@dataclass(frozen=True)
class Outcome:
    """What became of the queries of one run."""

    seconds: tuple[float, ...]
    """Of each query, ascending; of one that was not finished, its age at the end of the run."""
    unfinished: tuple[bool, ...]
    """Whether each was not finished."""
    missed: int | None
    """How many were late; `None` without a deadline."""
    timeouts: int
    drops: int
    """Packets of all traffic that ports did not admit."""
    long_share: float | None
    """Goodput of the long flows as a share of the line; `None` without any."""

    def percentile(self, percent: int) -> float:
        """Return a percentile by nearest rank."""
        return self.seconds[self._rank(percent)]

    def is_bound(self, percent: int) -> bool:
        """Whether a percentile is that of a query that was not finished, and so a lower bound."""
        return self.unfinished[self._rank(percent)]

    def _rank(self, percent: int) -> int:
        return max(1, math.ceil(percent * len(self.seconds) / 100)) - 1


def scenario(cluster: Cluster) -> dict[str, Any]:
    """Describe a cluster as it is today."""
    servers, long = cluster.fan_in, cluster.long_flows
    found: dict[str, Any] = {
        "name": "a cluster as it is today",
        "topology": {
            "kind": "star",
            "hosts": 1 + servers + long,
            # A round trip crosses four links.
            "link": {"rate": f"{cluster.rate_bps}bps", "delay": f"{cluster.rtt_ps // 4}ps"},
        },
        "hosts": {"noise": {"kind": "exponential", "mean": "1us"}, "noise_per": "burst"},
        "switch": {"buffer": cluster.buffer.scenario()},
        "stack": {"sender": cluster.sender},
        "tcp": {
            "profile": "linux",
            "initial_window": cluster.initial_window,
            "rto_min": f"{cluster.rto_min_ps}ps",
        },
        "traffic": {"queries": _queries(cluster)},
    }
    if cluster.marks_bytes is not None:
        found["switch"]["marker"] = marker(cluster.marks_bytes)
    if long:
        run_ps = _PACKETS_BESIDE_LONG_FLOWS * 1500 * 8 * 10**12 // cluster.rate_bps
        found["run"] = {"stop_at": f"{run_ps}ps"}
        found["traffic"]["queries"]["start"] = f"{int(run_ps * _ALONE)}ps"
        found["traffic"]["long"] = {"kind": "long", "senders": list(range(servers + 1, servers + 1 + long))}
    return found


def marker(threshold_bytes: int) -> dict[str, object]:
    """Return a marker that sets CE from so long a queue on."""
    return {"name": "ecn-threshold", "threshold": f"{threshold_bytes}B", "count_in_service": True}


def _queries(cluster: Cluster) -> dict[str, Any]:
    servers = list(range(1, cluster.fan_in + 1))
    service = {"kind": "exponential", "mean": f"{cluster.service_ps}ps"} if cluster.service_ps else "0s"
    if cluster.varies:
        parts = [
            {"share": one.share, "sizes": {"kind": "constant", "size": f"{one.size_bytes}B"}} for one in cluster.sizes
        ]
        found = {
            "kind": "fork-join",
            "schedulers": [0],
            "workers": servers,
            "fan_in": cluster.fan_in,
            "sizes": {"kind": "mixture", "share_of": "messages", "parts": parts},
            "task_time": service,
            "load": LOAD,
            "jobs": _count(cluster),
        }
    else:
        found = {
            "kind": "rounds",
            "workers": servers,
            "response": f"{cluster.response_bytes}B",
            "rounds": _count(cluster),
            "service_time": service,
            "window": cluster.windows,
            "jitter": "1us",
        }
    if cluster.deadline_ps is not None:
        found["deadline"] = f"{cluster.deadline_ps}ps"
    return found


def _count(cluster: Cluster) -> int:
    """Return how many queries a run has."""
    packets = cluster.fan_in * sum(one.share * segments(one.size_bytes) for one in cluster.sizes)
    return min(_MOST_QUERIES, max(_LEAST_QUERIES, int(_HOPS / (packets * _HOPS_PER_SEGMENT))))


def task(cluster: Cluster, changes: Mapping[str, object], seed: int) -> plan.Task:
    """Name a run by all that determines it."""
    described = tomli_w.dumps(scenario(cluster))
    set_ = tuple(scenarios.overrides(changes))
    text = json.dumps([described, set_, seed, plan.program()])
    key = hashlib.sha256(text.encode()).hexdigest()[:32]
    return plan.Task(key, scenarios.Source(described, "<cluster>", "cluster"), set_, seed, _TABLES)


def outcome(cluster: Cluster, run: plan.Task, store: Store) -> Outcome:
    """Return what a finished run was like."""
    rows = {row["class"]: row for row in execution.table(run, store, "summary").to_dicts()}
    end_s = rows["all"]["end_s"]
    queries = [row for row in execution.table(run, store, "coflows").to_dicts() if row["class"] == "queries"]
    taken = sorted((_seconds(row, end_s), row["cct_s"] is None) for row in queries)
    deadline_s = None if cluster.deadline_ps is None else cluster.deadline_ps / 1e12
    long_share = None
    if cluster.long_flows:
        long_share = rows["long"]["delivered_bytes"] * 8 / end_s / cluster.rate_bps
    return Outcome(
        seconds=tuple(seconds for seconds, _ in taken),
        unfinished=tuple(unfinished for _, unfinished in taken),
        missed=None if deadline_s is None else sum(seconds > deadline_s for seconds, _ in taken),
        timeouts=rows["queries"]["timeouts"],
        drops=rows["all"]["drops"],
        long_share=long_share,
    )


def _seconds(row: Mapping[str, Any], end_s: float) -> float:
    return float(row["cct_s"] if row["cct_s"] is not None else end_s - row["start_s"])
