"""Lists of flows that both simulators read, made by this project's workload generator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import incast

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from side_by_side.protocol import Point, Protocol


def incast_flows(protocol: Protocol, point: Point, seed: int) -> str:
    """Return the list of flows of an incast: who starts when does not depend on anything but this."""
    common = protocol.common
    burst = {
        "kind": "incast",
        "senders": point.senders,
        "size": f"{point.size_bytes}B",
        "start": _duration(common["start_s"]),
        "jitter": _duration(common["jitter_s"]),
    }
    # The plan of the traffic is all that is wanted: the network over which it is run does not matter.
    scenario: dict[str, Any] = {
        "name": "flows",
        "topology": {"kind": "star", "hosts": point.senders + 1, "link": {"rate": "10Gbps", "delay": "10us"}},
        "switch": {"buffer": {"name": "static", "limit": "1GiB", "count_in_service": True}},
        "traffic": {"burst": burst},
    }
    return written(incast.run(scenario, seed=seed))


def scenario_flows(name: str, changes: Mapping[str, object], seed: int) -> str:
    """Return the list of flows of a scenario."""
    return written(incast.run(name, set=changes, seed=seed))


def written(result: incast.Result) -> str:
    """Write down the flows of a run as HPCC's `flow.txt`, in the order of their starts."""
    table = result.to_arrow("flows").select(["start_s", "source_host", "destination_host", "size_bytes"])
    rows = sorted(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))
    lines = [f"{source} {destination} 3 5000 {size} {start:.12f}" for start, source, destination, size in rows]
    return "\n".join([str(len(lines)), *lines]) + "\n"


def keep(text: str, file: Path) -> Path:
    """Write a list of flows to a file and return the file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.is_file() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")
    return file


def _duration(seconds: float) -> str:
    return f"{round(seconds * 1e9)}ns"
