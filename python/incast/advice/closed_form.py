"""What follows from the network alone, before anything is run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from incast import planning, text
from incast.advice.cluster import HEADER_BYTES, MSS_BYTES

if TYPE_CHECKING:
    from incast.advice.cluster import Cluster

Region = Literal["all fit", "first windows fit", "segments fit", "nothing fits"]
SENTENCES: dict[Region, str] = {
    "all fit": "All responses of a query fit into the port at once.",
    "first windows fit": "The responses of a query do not fit into the port at once; the first windows of all do.",
    "segments fit": "Not even the first windows of all servers fit into the port; one segment of each does.",
    "nothing fits": "Not even one segment of each server fits into the port: no open window is small enough.",
}


@dataclass(frozen=True)
class ClosedForm:
    """Multiples of the port, the region that they make, and what is safe."""

    bdp_bytes: int
    buffer_bytes: int
    all_responses: float
    """T: all responses of a query, as a multiple of what the port holds."""
    first_windows: float
    """F: the first windows of all servers."""
    segments: float
    """M: one segment of each."""
    region: Region
    burst_bytes: int
    """What a server sends at once at most, in payload."""
    budget_bytes: int
    """What may be under way at once without loss, in payload."""
    safe: int
    """How many servers may be asked at once by that."""
    losses_from: int
    """The fan-in from which on more can be under way at once than the port holds."""
    transfer_s: float
    """Time that the link needs for all responses of a query."""

    def as_json(self) -> dict[str, Any]:
        """Return all numbers for programs."""
        return {
            "bdp_bytes": self.bdp_bytes,
            "buffer_bytes": self.buffer_bytes,
            "T": self.all_responses,
            "F": self.first_windows,
            "M": self.segments,
            "region": self.region,
            "burst_bytes": self.burst_bytes,
            "budget_bytes": self.budget_bytes,
            "safe": self.safe,
            "losses_from": self.losses_from,
            "transfer_s": self.transfer_s,
        }


def compute(cluster: Cluster) -> ClosedForm:
    """Compute it."""
    largest = cluster.largest_bytes
    rtt_s, rate, buffer = cluster.rtt_ps / 1e12, cluster.rate_bps, cluster.buffer.limit_bytes
    # The batch sizes of ARS are of no use here, but budget and bursts are those of `incast plan`.
    network = planning.Network(rate, buffer, cluster.rtt_ps, largest, MSS_BYTES)
    planned = planning.plan(network, 1, initial_window=cluster.initial_window, windows=cluster.windows)
    limits = (largest, cluster.initial_window * MSS_BYTES, MSS_BYTES)
    each = [sum(one.share * wire_bytes(min(one.size_bytes, limit)) for one in cluster.sizes) for limit in limits]
    shares = [cluster.fan_in * size / buffer for size in each]
    regions: tuple[Region, ...] = ("all fit", "first windows fit", "segments fit")
    fitting: list[Region] = [name for name, share in zip(regions, shares, strict=True) if share <= 1]
    return ClosedForm(
        bdp_bytes=round(rate * rtt_s / 8),
        buffer_bytes=buffer,
        all_responses=shares[0],
        first_windows=shares[1],
        segments=shares[2],
        region=fitting[0] if fitting else "nothing fits",
        burst_bytes=planned.burst_bytes,
        budget_bytes=planned.budget_bytes,
        safe=planned.safe,
        # The link of a single server is no faster than the port.
        losses_from=max(2, buffer // wire_bytes(planned.burst_bytes) + 1),
        transfer_s=cluster.fan_in * each[0] * 8 / rate,
    )


def wire_bytes(payload_bytes: int) -> int:
    """Return how much a payload is with the headers of its packets."""
    return payload_bytes + segments(payload_bytes) * HEADER_BYTES


def segments(payload_bytes: int) -> int:
    """Return how many packets a payload is."""
    return -(-payload_bytes // MSS_BYTES)


def report(cluster: Cluster, form: ClosedForm) -> str:
    """Say it to people."""
    sizes = f"{cluster.response_bytes:,} B" + (" on average" if cluster.varies else "")
    rate, rtt = text.rate(cluster.rate_bps), text.seconds(cluster.rtt_ps / 1e12)
    beside = f", beside {count(cluster.long_flows, 'long flow')}" if cluster.long_flows else ""
    ideal = form.transfer_s + cluster.rtt_ps / 1e12
    servers = f"{count(cluster.fan_in, 'server')} answer{'s' if cluster.fan_in == 1 else ''}"
    fill = " Long flows can fill it alone." if cluster.long_flows else ""
    lines = [
        f"{servers} a query with {sizes} each over {rate} and a round trip of {rtt}{beside}.",
        *cluster.sampled,
        f"The port has {cluster.buffer.said()}.",
        "",
        f"  bandwidth-delay product       {form.bdp_bytes:>12,} B",
        f"  all responses / port      T = {form.all_responses:>12.3g}",
        f"  first windows / port      F = {form.first_windows:>12.3g}",
        f"  one segment each / port   M = {form.segments:>12.3g}",
        f"  a query without queues        {text.seconds(ideal):>12}  ({text.seconds(form.transfer_s)} on the link)",
        "",
        SENTENCES[form.region],
        f"A server sends up to {form.burst_bytes:,} B at once (windows {cluster.windows}).",
        f"From a fan-in of {form.losses_from:,} on the port can overflow.{fill}",
    ]
    return "\n".join(lines)


def count(number: int, what: str) -> str:
    """Write a number of things."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
