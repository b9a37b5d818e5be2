"""Our side: the same points as scenarios."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import incast
    from side_by_side.protocol import Point, Protocol

QUEUES = [f"queue_{what}_{weight}" for weight in ("over_time", "at_enqueue", "at_change") for what in ("mean", "p95")]


def incast_scenario(protocol: Protocol, point: Point, flows: Path, tcp: Mapping[str, object]) -> dict[str, Any]:
    """Return the scenario of a point; `tcp` are the keys of its variant."""
    switch: dict[str, Any] = {
        "buffer": {"name": "static", "limit": f"{point.buffer_packets}packets", "count_in_service": False}
    }
    if point.marks:
        switch["marker"] = {
            "name": "ecn-threshold",
            "threshold": f"{point.mark_packets}packets",
            "count_in_service": False,
        }
    return {
        "name": "incast beside ns-3",
        "topology": _star(point),
        "switch": switch,
        "stack": {"sender": point.kind},
        "tcp": {
            **tcp_keys(protocol),
            "initial_window": point.initial_window,
            "rto_min": f"{point.rto_min_ms}ms",
            "rto_initial": f"{point.rto_min_ms}ms",
            "handshake": "before",
            **tcp,
        },
        # Persistent connections are not closed; a message on each is all there is.
        "traffic": {"burst": {"kind": "trace", "file": str(flows.resolve()), "connections": "persistent"}},
    }


def completion_times(result: incast.Result) -> list[float]:
    """Return the completion times in the order of the list of flows."""
    table = result.to_arrow("flows")
    rows = zip(*(table[name].to_pylist() for name in ("start_s", "source_host", "fct_s")), strict=True)
    return [time for _, _, time in sorted(rows)]


def tcp_keys(protocol: Protocol) -> dict[str, Any]:
    """Return the keys of `[tcp]` that are the same in all comparisons."""
    common = protocol.common
    return {
        "mss": f"{common['mss_bytes']}B",
        "header": f"{common['header_bytes']}B",
        "receive_buffer": f"{common['receive_buffer_bytes']}B",
    }


def _star(point: Point) -> dict[str, Any]:
    """Return a star; where the links differ it is written out link by link."""
    hosts = [f"host {host}" for host in range(point.senders + 1)]
    least_ps = round(point.delay_us * 1e6)
    links = [
        {
            "between": [host, "switch"],
            "rate": f"{point.rate_bps}bps",
            "delay": f"{least_ps + number * point.delay_step_ps}ps",
        }
        for number, host in enumerate(hosts)
    ]
    return {"kind": "custom", "hosts": hosts, "switches": ["switch"], "links": links}


def incast_metrics(result: incast.Result) -> dict[str, float] | None:
    """Return the metrics of a run, or `None` if a flow is not complete."""
    summary = result.summary_dict
    if summary["flows_complete"] != summary["flows"]:
        return None
    ports = result.to_arrow("ports")
    port = ports.slice(ports["to"].to_pylist().index("host 0"), 1).to_pylist()[0]
    return {
        "goodput_bps": summary["goodput_total_bps"],
        **{f"fct_p{p}_s": summary[f"fct_p{p}_s"] for p in (1, 50, 99)},
        "drops": summary["drops"],
        "marks": summary["ce_marks"],
        "timeouts": summary["timeouts"] - summary["timeouts_control"],
        "fast_retransmits": summary["fast_retransmits"],
        "retransmitted_packets": summary["retransmitted_packets"],
        **{name: _known(port[_column(name)]) for name in QUEUES},
        "queue_max": port["max_waiting_packets"],
    }


def _column(metric: str) -> str:
    _, what, weight = metric.split("_", 2)
    return f"{what}_waiting_packets_{weight}"


def _known(value: float | None) -> float:
    return math.nan if value is None else float(value)
