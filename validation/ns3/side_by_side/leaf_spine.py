"""The leaf-spine with its 20,000 flows on both sides."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import incast
from side_by_side import flows, ns3
from side_by_side.agreement import Comparison, mean, nearest_rank
from side_by_side.campaign import Metrics, compared, in_parallel
from side_by_side.protocol import HERE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from side_by_side.ns3 import Ns3
    from side_by_side.protocol import Protocol

_LARGEST_SHORT_BYTES = 32768


@dataclass
class Outcome:
    """A variant and sender over all seeds."""

    variant: str
    sender: str
    meets: bool
    comparisons: dict[str, Comparison]
    fct_s: dict[str, dict[str, list[float]]]
    """Side -> class -> completion times of all seeds."""
    marks_on_acks: list[float]
    """ns-3's, by seed."""


@dataclass
class Run:
    """One side of one run."""

    metrics: Metrics
    fct_s: dict[str, list[float]]


def run(protocol: Protocol, side: Ns3) -> list[Outcome]:
    """Run all seeds, variants and senders; ours once as it is and once with ns-3's lawful rules."""
    settings = protocol.leaf_spine
    seeds = settings["seeds"]
    lists = {seed: flows.scenario_flows(settings["scenario"], {}, seed) for seed in seeds}
    pairs = [(variant, sender) for variant in settings["variants"] for sender in settings["senders"]]
    jobs = [(variant, sender, seed) for variant, sender in pairs for seed in seeds]
    # A run takes minutes and all the bandwidth to memory that there is: one at a time.
    results = in_parallel(jobs, lambda job: side.run(lists[job[2]], arguments(protocol, *job[:2])), processes=1)
    theirs = dict(zip(jobs, results, strict=True))
    outcomes = []
    for variant, sender in pairs:
        others = [_theirs(lists[seed], theirs[variant, sender, seed]) for seed in seeds]
        for meets in (False, True):
            mine = [_ours(protocol, side.out, variant, lists[seed], seed, meets=meets) for seed in seeds]
            outcomes.append(
                Outcome(
                    variant,
                    sender,
                    meets,
                    compared(
                        [run.metrics for run in mine],
                        [run.metrics for run in others],
                        protocol.leaf_spine_metrics,
                        protocol.standard_errors,
                    ),
                    {"ours": _pooled(mine), "ns-3": _pooled(others)},
                    [theirs[variant, sender, seed].get("marks_on_acks", 0) for seed in seeds],
                )
            )
    return outcomes


def scenario(protocol: Protocol, file: Path, tcp: Mapping[str, object]) -> dict[str, Any]:
    """Return the scenario that sends the flows of a list over the leaf-spine."""
    name = protocol.leaf_spine["scenario"]
    document = tomllib.loads((HERE.parents[1] / "scenarios" / f"{name}.toml").read_text(encoding="utf-8"))
    document["traffic"] = {"messages": {"kind": "trace", "file": str(file.resolve()), "connections": "fresh"}}
    document["tcp"] = {**document["tcp"], **tcp}
    return document


def metrics(sizes: Sequence[int], times_s: Sequence[float], counts: Mapping[str, float]) -> Run:
    """Compute a run's metrics from its flows and counters."""
    short = sorted(time for size, time in zip(sizes, times_s, strict=True) if size <= _LARGEST_SHORT_BYTES)
    long = sorted((time, size) for size, time in zip(sizes, times_s, strict=True) if size > _LARGEST_SHORT_BYTES)
    long_times = [time for time, _ in long]
    values = {
        **{f"short_fct_p{p}_s": nearest_rank(short, p) for p in (50, 99)},
        **{f"long_fct_p{p}_s": nearest_rank(long_times, p) for p in (50, 99)},
        "long_throughput_bps": mean([size * 8 / time for time, size in long]),
        **counts,
    }
    return Run(values, {"short": short, "long": long_times})


def arguments(protocol: Protocol, variant: str, sender: str) -> dict[str, object]:
    """Return the arguments of the leaf-spine, all but its flows."""
    document = scenario(protocol, HERE, {})
    topology, switch, tcp = document["topology"], document["switch"], document["tcp"]
    return {
        "leaves": topology["leaves"],
        "hostsPerLeaf": topology["hosts_per_leaf"],
        "spines": topology["spines"],
        "rateBps": int(topology["host_link"]["rate"].removesuffix("Gbps")) * 10**9,
        "delayUs": int(topology["host_link"]["delay"].removesuffix("us")),
        "buffer": int(switch["buffer"]["limit"].removesuffix("packets")),
        "mark": int(switch["marker"]["threshold"].removesuffix("packets")),
        "initialWindow": tcp["initial_window"],
        "rtoMinMs": int(tcp["rto_min"].removesuffix("ms")),
        "connectBefore": False,
        **ns3.tcp_arguments(protocol, sender, protocol.variants[variant]),
    }


def _theirs(text: str, result: Mapping[str, Any]) -> Run:
    if "failed" in result or any(row[0] is None for row in result["flows"]):
        return Run(None, {})
    sizes = [int(line.split()[4]) for line in text.splitlines()[1:]]
    counts = {
        "drops": result["drops"],
        "marks": result["marks"],
        "timeouts": sum(row[1] for row in result["flows"]),
    }
    return metrics(sizes, [row[0] for row in result["flows"]], counts)


def _ours(protocol: Protocol, out: Path, variant: str, text: str, seed: int, *, meets: bool) -> Run:
    file = flows.keep(text, out / "flows" / f"leaf-spine-{seed}.txt")
    tcp = {**dict(protocol.variants[variant].ours), **(protocol.meeting["dctcp"] if meets else {})}
    result = incast.run(scenario(protocol, file, tcp), seed=seed)
    summary = result.summary_dict
    if summary["flows_complete"] != summary["flows"]:
        return Run(None, {})
    table = result.to_arrow("flows")
    counts = {
        "drops": summary["drops"],
        "marks": summary["ce_marks"],
        "timeouts": summary["timeouts"] - summary["timeouts_control"],
    }
    return metrics(table["size_bytes"].to_pylist(), table["fct_s"].to_pylist(), counts)


def _pooled(runs: Sequence[Run]) -> dict[str, list[float]]:
    return {kind: sorted(time for run in runs for time in run.fct_s.get(kind, [])) for kind in ("short", "long")}
