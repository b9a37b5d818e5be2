"""What a sample of `incast-host sample` tells of a cluster."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from incast import scenarios, text
from incast._native import ScenarioError

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Sample:
    """Bursts that came in at the host that asks."""

    device: str
    rate_bps: int
    bursts: int
    """Those of incast."""
    fan_in: int
    """99th percentile of the connections of a burst of incast."""
    response_bytes: int
    """Median of what a connection brought in a burst of incast."""
    ce_share: float
    retransmitted_share: float
    """Of the packets that came in."""

    def said(self, given: set[str]) -> tuple[str, ...]:
        """Say what was taken from it, but for the keys that are given, and what it cannot tell."""
        taken = {
            "rate": f"the rate of {self.device}, {text.rate(self.rate_bps)}",
            "fan_in": f"a fan-in of {self.fan_in}: 99 % of {self.bursts:,} bursts of incast have no more connections",
            "response": f"responses of {self.response_bytes:,} B: half of the bursts brought less for each connection",
        }
        own = [what for key, what in taken.items() if key not in given]
        lines = [f"Taken from the sample: {'; '.join(own)}."] if own else []
        marked, again = (f"{100 * share:.2f} %" for share in (self.ce_share, self.retransmitted_share))
        return (
            *lines,
            f"Of the packets that came in {marked} carried CE, and {again} were sent again or overtaken.",
            "A sample cannot tell the buffer of the port, the round trip without queues, or which flows are long.",
        )


def read(folder: Path) -> Sample:
    """Read the tables of a sample.

    Raises:
        ScenarioError: they are missing, or have no burst of incast.

    """
    path = folder / "summary.json"
    try:
        summary = json.loads(scenarios.text_of(path, "a sample", "no such file; incast-host sample writes it"))
        least, rate, device = int(summary["incast_connections"]), int(summary["rate_bps"]), str(summary["device"])
        (whole,) = [one for one in summary["directions"] if one["direction"] == "in"]
        packets = max(1, int(whole["packets"]))
        shares = [int(whole[key]) / packets for key in ("ce_packets", "retransmitted_packets")]
    except (ValueError, KeyError, TypeError) as error:
        raise ScenarioError(f"{path}: not the summary of a sample ({type(error).__name__}: {error})") from error
    table = folder / "bursts.csv"
    bursts = []
    for line, row in enumerate(csv.DictReader(io.StringIO(scenarios.text_of(table, "a sample"))), start=2):
        try:
            if row["direction"] == "in" and int(row["connections"]) >= least:
                bursts.append((int(row["connections"]), int(row["bytes"])))
        except (ValueError, KeyError, TypeError) as error:
            raise ScenarioError(f"{table}:{line}: not a burst of a sample ({type(error).__name__}: {error})") from error
    if not bursts:
        raise ScenarioError(f"{table}: no burst with {least} connections or more came in: there is no incast in it")
    connections = sorted(one for one, _ in bursts)
    each = sorted(size // one for one, size in bursts)
    fan_in = connections[-(-99 * len(bursts) // 100) - 1]
    return Sample(device, rate, len(bursts), fan_in, max(1, each[len(each) // 2]), shares[0], shares[1])
