"""ns-3 as a world of a study: reads a scenario and its flows, runs the program for ns-3, and prints the tables.

The program is built by `make -C programs` into `out/ns3`, or where NS3_OUT says. What it has computed is kept there.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HERE = Path(__file__).resolve().parents[1]
ROOT = HERE.parents[1]
OUT = Path(os.environ.get("NS3_OUT", ROOT / "out" / "ns3"))
LONGEST_S = 4 * 3600
# The exit status of a program that finds no library.
LIBRARY_MISSING = 127
# How long before the first start drops, marks and queues begin to be counted.
COUNTED_FROM_S = 0.001
_SCALES = {"K": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_PICOSECONDS = {"ps": 1, "ns": 10**3, "us": 10**6, "ms": 10**9, "s": 10**12}
# ns-3 has rules of its own for what these keys decide on our side.
_OURS = {"profile", "mss", "header", "rto_initial", "recovery_exit"}
_KNOWN = {"initial_window", "rto_min", "handshake", "receive_buffer", "sack", "recovery", "limited_transmit"}


class FailedError(RuntimeError):
    """A run of ns-3 crashed."""


def main() -> None:
    """Carry out the request on standard input."""
    request = json.load(sys.stdin)
    flows = request["flows"]
    json.dump(tables(flows, run(OUT, listed(flows), arguments(request["scenario"]))), sys.stdout)


def listed(flows: list[dict[str, Any]]) -> str:
    """Write down flows as HPCC's `flow.txt`, in the order of their starts."""
    lines = [
        f"{flow['source_host']} {flow['destination_host']} 3 5000 {flow['size_bytes']} {flow['start_s']:.12f}"
        for flow in flows
    ]
    return "\n".join([str(len(lines)), *lines]) + "\n"


def arguments(scenario: dict[str, Any]) -> dict[str, object]:
    """Return the arguments of the program for a star or a leaf-spine."""
    topology, switch, tcp = scenario["topology"], scenario["switch"], scenario["tcp"]
    if unknown := sorted(set(tcp) - _KNOWN - _OURS):
        raise SystemExit(f"ns-3 has no key tcp.{unknown[0]}")
    if scenario.get("hosts") != {"noise": {"kind": "none"}}:
        raise SystemExit('ns-3 has hosts without noise: hosts.noise must be { kind = "none" }, the only key of hosts')
    link = topology["link" if topology["kind"] == "star" else "host_link"]
    sender = scenario["stack"]["sender"]
    marks = sender == "dctcp"
    found = {
        "rateBps": amount(link["rate"]),
        "delayUs": picoseconds(link["delay"]) // 10**6,
        "buffer": amount(switch["buffer"]["limit"]),
        "mark": amount(switch["marker"]["threshold"]) if marks else 0,
        "initialWindow": tcp["initial_window"],
        "rtoMinMs": picoseconds(tcp["rto_min"]) // 10**9,
        "sender": f"{sender}-mended" if scenario.get("ns3", {}).get("mend") else sender,
        "sack": int(tcp.get("sack", False)),
        "recovery": "ns3::TcpPrrRecovery" if tcp.get("recovery") == "prr" else "ns3::TcpClassicRecovery",
        "limitedTransmit": int(tcp.get("limited_transmit", False)),
        "socketBuffer": amount(tcp.get("receive_buffer", "4194304B")),
    }
    if topology["kind"] == "star":
        (burst,) = scenario["traffic"].values()
        return found | {
            "hostsPerLeaf": topology["hosts"],
            "delayStepPs": picoseconds(topology["delay_step"]),
            "from": picoseconds(burst["start"]) / 10**12 - COUNTED_FROM_S,
            "watch": 0,
        }
    return found | {
        "leaves": topology["leaves"],
        "hostsPerLeaf": topology["hosts_per_leaf"],
        "spines": topology["spines"],
        "connectBefore": 0,
    }


def run(out: Path, flows: str, given: Mapping[str, object]) -> dict[str, Any]:
    """Run a list of flows; what the same run gave before is taken from disk. A run that crashes has failed."""
    words = [f"--{name}={value}" for name, value in sorted(given.items())]
    key = hashlib.sha256("\0".join([sources(), *words, flows]).encode()).hexdigest()

    def compute() -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(printed(out, flows, given))
        except FailedError as error:
            return {"failed": str(error)}
        return found

    return kept(out / "runs" / key[:2] / f"{key}.json", compute)


def kept(file: Path, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the result in a file; if it is not there, compute it and write it, completely or not at all."""
    if not file.is_file():
        result = compute()
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_suffix(f".{os.getpid()}")
        unfinished.write_text(json.dumps(result), encoding="utf-8")
        unfinished.replace(file)
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def printed(out: Path, flows: str, given: Mapping[str, object]) -> str:
    """Run a list of flows now and return what the program prints.

    Raises:
        FailedError: it crashed.

    """
    words = [f"--{name}={value}" for name, value in sorted(given.items())]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(flows)
        file.flush()
        command = [str(out / "run"), *words, f"--flows={file.name}"]
        try:
            ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LONGEST_S)
        except subprocess.TimeoutExpired as error:
            raise FailedError(f"did not end within {LONGEST_S} s") from error
        except OSError as error:
            raise SystemExit(
                f"{command[0]} cannot be started: {error.strerror}; make validate-ns3 builds it"
            ) from error
    said = ended.stderr.strip()
    if ended.returncode == LIBRARY_MISSING:
        raise SystemExit(f"{command[0]} cannot be started: {said}")
    if ended.returncode != 0:
        raise FailedError(f"exit status {ended.returncode}: {(said.splitlines() or ['no message'])[-1][:300]}")
    return ended.stdout


def tables(flows: list[dict[str, Any]], result: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the tables of a run. One that failed has completed no flow."""
    summary: dict[str, Any] = {"class": "all", "flows": len(flows), "flows_complete": 0, "packet_hops": 0}
    if "failed" in result:
        print(result["failed"], file=sys.stderr)
        return {"summary": [summary], "ports": [{"to": "host 0"}], "flows": flows}
    rows = [
        flow | {"fct_s": fct_s, "timeouts": timeouts, "fast_retransmits": begun, "retransmitted_packets": sent}
        for flow, (fct_s, timeouts, begun, sent) in zip(flows, result["flows"], strict=True)
    ]
    times = sorted(row["fct_s"] for row in rows if row["fct_s"] is not None)
    summary |= {
        "flows_complete": len(times),
        "packet_hops": result["packet_hops"],
        "drops": result["drops"],
        "ce_marks": result["marks"],
        "timeouts_control": 0,
        **{name: sum(row[name] for row in rows) for name in ("timeouts", "fast_retransmits", "retransmitted_packets")},
    }
    if len(times) == len(rows):
        last_s = max(row["start_s"] + row["fct_s"] for row in rows)
        summary["goodput_total_bps"] = (
            sum(flow["size_bytes"] for flow in flows) * 8 / (last_s - min(flow["start_s"] for flow in flows))
        )
        summary |= {f"fct_p{percent}_s": nearest_rank(times, percent) for percent in (1, 50, 99)}
    queue = {name: value for name, value in result.items() if name.startswith("queue_")}
    port = {re.sub(r"^queue_(mean|p95|max)", r"\1_waiting_packets", name): value for name, value in queue.items()}
    on_acks = {"class": "ns-3: ACKs", "ce_marks": result.get("marks_on_acks")}
    return {"summary": [summary, on_acks], "ports": [{"to": "host 0", **port}], "flows": rows}


def nearest_rank(ascending: list[float], percent: float) -> float:
    """Return the percentile: number `ceil(percent / 100 * n)`, counted from one."""
    return ascending[max(1, math.ceil(percent / 100 * len(ascending) - 1e-9)) - 1]


def amount(text: str) -> int:
    """Return the number of an amount as a scenario writes it, in its basic unit: "10Gbps", "4KiB", "85packets"."""
    found = re.match(r"([\d.]+)(Ki|Mi|Gi|K|M|G)?", text)
    if not found:
        raise SystemExit(f"{text!r} is not an amount")
    return round(float(found[1]) * _SCALES.get(found[2], 1))


def picoseconds(text: str) -> int:
    """Return a time as a scenario writes it."""
    found = re.fullmatch(r"([\d.]+)(ps|ns|us|ms|s)", text)
    if not found:
        raise SystemExit(f"{text!r} is not a time")
    return round(float(found[1]) * _PICOSECONDS[found[2]])


def sources() -> str:
    """Return a fingerprint of the program for ns-3."""
    files = sorted(file for file in (HERE / "programs").iterdir() if file.suffix in {".cc", ".h", ""})
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


if __name__ == "__main__":
    main()
