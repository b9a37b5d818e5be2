"""Linux as a world of a study: carries a scenario out between network namespaces and prints the tables of the run.

What was measured is kept under `out/linux`, or where LINUX_OUT says: by the settings, the repetition, the kernel and
the harness, so that a comparison resumes where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sys
import time
from contextlib import closing
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel_world import agent, counters, namespaces
from kernel_world.namespaces import Bottleneck, Star, UnavailableError
from side_by_side.world import amount, kept, nearest_rank, picoseconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HERE = Path(__file__).resolve().parents[1]
ROOT = HERE.parents[1]
OUT = Path(os.environ.get("LINUX_OUT", ROOT / "out" / "linux"))
CONTROLS = {"newreno": "reno", "cubic": "cubic"}
# Keys of the table [tcp] that a sysctl decides: its name, and its values.
_SWITCHES: dict[str, tuple[str, dict[object, int]]] = {
    "tail_loss_probe": ("tcp_early_retrans", {True: 3, False: 0}),
    "loss_detection": ("tcp_recovery", {"rack": 1, "duplicates": 0}),
    "frto": ("tcp_frto", {True: 2, False: 0}),
    "sack": ("tcp_sack", {True: 1, False: 0}),
    "dsack": ("tcp_dsack", {True: 1, False: 0}),
    "timestamps": ("tcp_timestamps", {True: 1, False: 0}),
    "slow_start_restart": ("tcp_slow_start_after_idle", {"decay": 1, "off": 0}),
}
# Settings of our side that describe what the kernel does by itself.
_OURS = {"profile", "mss", "header", "receive_buffer", "handshake", "timer_tick", "timer_margin", "delayed_ack"}
_MEASURED_RTTS, _MEASURED_RATE_S = 400, 0.1
# Goes up with every change of the harness after which what was measured before no longer counts.
_MEASURING = 1
# How often a repetition is done again because the machine was too busy, and the pause before that.
_ATTEMPTS, _PAUSE_S = 100, 2.0


@dataclass(frozen=True)
class Limits:
    """When the machine is too busy. A wait is too much only if it is long in all and turn by turn.

    Short ones are there on an idle machine too: whoever is woken waits for the softirq that wakes it, and the threads
    of softirqs wait for the harness.
    """

    waiting: float = 0.02
    """Share of the time that the harness may be runnable without a CPU."""
    wait_us: float = 20.0
    """Mean of a turn."""
    softirq_waiting: float = 0.1
    """The same of the kernel's threads that carry packets on."""
    softirq_wait_us: float = 250.0
    rate: float = 0.01
    """By how much the port's rate may differ from what it should be."""

    def refuse(self, quality: Mapping[str, Any], rate_bps: int) -> str | None:
        """Say what is wrong with a repetition."""
        if abs(quality["rate_bps"] / rate_bps - 1) > self.rate:
            return f"the port carried {quality['rate_bps'] / 1e6:.1f} Mbit/s"
        if "waiting" not in quality:
            return None
        if quality["waiting"] > self.waiting and quality["wait_us"] > self.wait_us:
            return f"the harness waited for a CPU {quality['waiting']:.1%} of the time"
        if quality["softirq_waiting"] > self.softirq_waiting and quality["softirq_wait_us"] > self.softirq_wait_us:
            return f"softirqs waited for a CPU {quality['softirq_waiting']:.1%} of the time"
        return None


@dataclass(frozen=True)
class Settings:
    """One cell: all that decides what is measured, but for chance."""

    workers: int
    rounds: int
    response_bytes: int
    request_bytes: int
    jitter_s: float
    rate_bps: int
    limit_bytes: int
    congestion_control: str
    rto_min_us: int
    mss: int
    timer_tick_s: float
    sysctls: dict[str, int] = field(default_factory=dict)
    limits: Limits = field(default_factory=lambda: Limits())


def main() -> None:
    """Carry out the request on standard input."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("interrupted"))
    request = json.load(sys.stdin)
    try:
        chosen = settings(request["scenario"])
        found = kept(file_of(OUT, chosen, request["seed"]), lambda: repetition(chosen, request["seed"]))
    except UnavailableError as error:
        raise SystemExit(str(error)) from error
    json.dump(tables(chosen, found), sys.stdout)


def settings(scenario: Mapping[str, Any]) -> Settings:
    """Read what a scenario asks for.

    Raises:
        SystemExit: the kernel has no such thing.

    """
    topology, switch, tcp = scenario["topology"], scenario["switch"], scenario["tcp"]
    if topology["kind"] != "dumbbell" or topology["left"] != 1:
        raise SystemExit(
            'linux: the topology has to be a "dumbbell" with left = 1: the aggregator behind the core link'
        )
    if len(scenario["traffic"]) != 1 or next(iter(scenario["traffic"].values()))["kind"] != "rounds":
        raise SystemExit('linux: the traffic has to be one class of kind "rounds"')
    (rounds,) = scenario["traffic"].values()
    if unknown := sorted(set(tcp) - set(_SWITCHES) - _OURS - {"rto_min"}):
        raise SystemExit(f"linux has no key tcp.{unknown[0]}")
    own = scenario.get("kernel", {})
    if unknown := sorted(set(own) - {"sysctl", "limits"}):
        raise SystemExit(f"linux has no key kernel.{unknown[0]}: sysctl and limits are allowed")
    known = [one.name for one in fields(Limits)]
    if unknown := sorted(set(own.get("limits", {})) - set(known)):
        raise SystemExit(f"linux has no key kernel.limits.{unknown[0]}: {', '.join(known)} are allowed")
    buffer = switch["buffer"]
    if buffer["name"] != "static" or not buffer["limit"].endswith("B") or not buffer["count_in_service"]:
        raise SystemExit('linux: tbf counts bytes, the packet that waits for its tokens included: the buffer has to be '
                         '"static", its limit in bytes, with count_in_service = true')  # fmt: skip
    if "marker" in switch:
        raise SystemExit("linux: tbf does not mark: the switch has to be without a marker")
    sender = scenario["stack"]["sender"]
    if sender not in CONTROLS:
        raise SystemExit(f"linux has no sender {sender!r}: {', '.join(CONTROLS)} are allowed")
    return Settings(
        workers=rounds["workers"],
        rounds=rounds["rounds"],
        response_bytes=amount(rounds["response"]),
        request_bytes=amount(rounds.get("request", "64B")),
        jitter_s=picoseconds(rounds.get("jitter", "0s")) / 10**12,
        rate_bps=amount(topology["core_link"]["rate"]),
        limit_bytes=amount(buffer["limit"]),
        congestion_control=CONTROLS[sender],
        rto_min_us=picoseconds(tcp["rto_min"]) // 10**6,
        mss=amount(tcp["mss"]),
        timer_tick_s=picoseconds(tcp["timer_tick"]) / 10**12,
        sysctls={
            **{name: _switched(key, values, tcp[key]) for key, (name, values) in _SWITCHES.items() if key in tcp},
            **own.get("sysctl", {}),
        },
        limits=Limits(**own.get("limits", {})),
    )


def _switched(key: str, values: Mapping[object, int], value: object) -> int:
    if value not in values:
        raise SystemExit(f"linux: tcp.{key} = {value!r}: {' or '.join(map(repr, values))} are allowed")
    return values[value]


def file_of(out: Path, chosen: Settings, repetition: int) -> Path:
    """Return where a repetition is kept."""
    what = json.dumps([asdict(chosen), repetition, os.uname().release, _MEASURING], sort_keys=True)
    key = hashlib.sha256(what.encode()).hexdigest()[:32]
    return out / "kernel" / key[:2] / f"{key}.json"


def repetition(chosen: Settings, number: int) -> dict[str, Any]:
    """Measure a cell once; again if the machine was too busy.

    Raises:
        UnavailableError: the kernel lacks something, or the machine is never idle enough.

    """
    _check_kernel(chosen)
    refused: list[str] = []
    while len(refused) < _ATTEMPTS:
        found = _measured(chosen, number, attempt=len(refused))
        reason = chosen.limits.refuse(found["quality"], chosen.rate_bps)
        if reason is None:
            return found | {"refused": refused}
        refused.append(reason)
        time.sleep(_PAUSE_S)
    raise UnavailableError(
        f"the machine is too busy: {_ATTEMPTS} attempts were refused, the last because {refused[-1]}; stop other work "
        "and run the same command again"
    )


def _measured(chosen: Settings, number: int, attempt: int) -> dict[str, Any]:
    chance = random.Random(f"{number} {attempt}")  # noqa: S311
    sysctls = {"tcp_no_metrics_save": 1, "tcp_rto_min_us": chosen.rto_min_us, **chosen.sysctls}
    expected = agent.Expected(
        chosen.congestion_control,
        chosen.mss,
        timestamps=chosen.sysctls.get("tcp_timestamps", 1) == 1,
        sack=chosen.sysctls.get("tcp_sack", 1) == 1,
        rto_min_s=chosen.rto_min_us / 1e6,
    )
    work = agent.Rounds(chosen.rounds, chosen.response_bytes, chosen.request_bytes, chosen.jitter_s)
    bottleneck = Bottleneck(chosen.rate_bps, chosen.limit_bytes)
    with closing(Star(chosen.workers, bottleneck, sysctls)) as star, agent.undisturbed():
        trips = agent.round_trips(star, chosen.congestion_control, _MEASURED_RTTS, chance)
        rate_bps, late = agent.departures(star, chosen.rate_bps, _MEASURED_RATE_S)
        least = min(trips)
        quality: dict[str, Any] = {
            "rate_bps": rate_bps,
            "base_rtt_s": agent.quantiles(trips),
            "base_noise_s": agent.quantiles([trip - least for trip in trips]),
            "late_departures_s": agent.quantiles(late),
        }
        if chosen.limits.refuse(quality, chosen.rate_bps):
            return {"quality": quality}
        connections = agent.Connections(star, expected)
        try:
            before, drops = [_counters(star, worker) for worker in star.workers], star.port()["drops"]
            own, softirqs, stolen = counters.own_waits(), counters.softirq_waits(), counters.stolen_s()
            began = time.monotonic()
            measured = agent.run(connections, work, chance)
            elapsed_s = time.monotonic() - began
            own, softirqs = counters.own_waits() - own, counters.softirq_waits() - softirqs
            stolen = counters.stolen_s() - stolen
            after, drops = [_counters(star, worker) for worker in star.workers], star.port()["drops"] - drops
        finally:
            connections.close()
    quality |= {
        "elapsed_s": elapsed_s,
        "late_answers_s": agent.quantiles(measured.late_answers),
        "waiting": own.waited_s / elapsed_s,
        "wait_us": own.mean_s * 1e6,
        "softirq_waiting": softirqs.waited_s / elapsed_s,
        "softirq_wait_us": softirqs.mean_s * 1e6,
        "stolen": stolen / elapsed_s,
    }
    return {
        "responses": measured.responses,
        "rounds": measured.rounds,
        "counts": counters.total(counters.counted(*pair) for pair in zip(before, after, strict=True))
        | {"drops": drops},
        "quality": quality,
        "kernel": {"release": os.uname().release, "ticks_per_second": counters.ticks_per_second()},
    }


def _check_kernel(chosen: Settings) -> None:
    if chosen.congestion_control not in (there := namespaces.congestion_controls()):
        raise UnavailableError(f"this kernel has no {chosen.congestion_control} ({', '.join(there)} are there)")
    ticks = counters.ticks_per_second()
    if ticks is not None and round(1 / ticks, 6) != round(chosen.timer_tick_s, 6):
        raise UnavailableError(
            f"this kernel's clock ticks every {1e3 / ticks:g} ms (CONFIG_HZ={ticks}), the scenario's every "
            f"{chosen.timer_tick_s * 1e3:g} ms: set tcp.timer_tick"
        )


def _counters(star: Star, host: int) -> dict[str, int]:
    return counters.parsed(star.text(host, "netstat")) | counters.parsed(star.text(host, "snmp"))


def tables(chosen: Settings, found: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the tables of a repetition."""
    size = chosen.response_bytes
    flows = [
        {
            "class": "requests", "source_host": worker, "destination_host": 0, "round": number, "coflow": number,
            "size_bytes": size, "start_s": start_s, "end_s": end_s, "fct_s": end_s - start_s,
        }
        for number, worker, start_s, end_s in found["responses"]
    ]  # fmt: skip
    rounds = [
        {
            "class": "requests", "coflow": number, "destination_host": 0, "flows": chosen.workers,
            "size_bytes": size * chosen.workers, "start_s": start_s, "end_s": end_s, "cct_s": end_s - start_s,
        }
        for number, (start_s, end_s) in enumerate(found["rounds"])
    ]  # fmt: skip
    summary = {
        "class": "all", "flows": len(flows), "flows_complete": len(flows), "packet_hops": 0, "timeouts_control": 0,
        "drops": found["counts"]["drops"],
        **_percentiles("fct", [flow["fct_s"] for flow in flows]),
        **_percentiles("cct", [one["cct_s"] for one in rounds]),
        **{name: found["counts"][name]
           for name in ("timeouts", "fast_retransmits", "tail_probes", "retransmitted_packets")},
    }  # fmt: skip
    return {"summary": [summary], "flows": flows, "coflows": rounds}


def _percentiles(what: str, times: Sequence[float]) -> dict[str, float]:
    ascending = sorted(times)
    return {f"{what}_p{percent}_s": nearest_rank(ascending, percent) for percent in (50, 99)}
