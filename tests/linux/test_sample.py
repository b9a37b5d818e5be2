"""`incast-host sample` beside what is known of the traffic: the device's own counters, senders, and other programs."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from slow_port import HOST, RECEIVER, Bottleneck, Host, attach, close, eventually

MEGABYTE = 1_000_000
COUNTS = ("bytes", "packets", "ce_packets", "incast_packets", "retransmitted_packets")


def start(host: Host, out: Path, netns: str, device: str, *more: str) -> subprocess.Popen[str]:
    """Sample a device, and return when that has begun."""
    command = ("ip", "netns", "exec", netns, str(HOST), "sample", "--dev", device, "--out", str(out), *more)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    host.processes.append(process)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith(f"sampling {device} every "), line
    return process


def finish(process: subprocess.Popen[str], by: signal.Signals = signal.SIGINT) -> str:
    process.send_signal(by)
    assert process.stdout is not None
    text = process.stdout.read()
    assert process.wait() == 128 + by, text
    return text


def rows(out: Path, table: str = "intervals") -> dict[str, list[dict[str, float]]]:
    """Return the rows of a table by direction."""
    found: dict[str, list[dict[str, float]]] = {"in": [], "out": []}
    with (out / f"{table}.csv").open() as file:
        for row in csv.DictReader(file):
            found[row.pop("direction")].append({key: float(value) for key, value in row.items()})
    return found


def total(found: list[dict[str, float]]) -> dict[str, float]:
    return {count: sum(row[count] for row in found) for count in COUNTS}


def device_counts(netns: str, device: str) -> dict[str, dict[str, int]]:
    shown = subprocess.check_output(["ip", "-n", netns, "-s", "-j", "link", "show", "dev", device])
    counts: dict[str, dict[str, int]] = json.loads(shown)[0]["stats64"]
    return counts


@pytest.mark.parametrize("interval", ["100us", "1s"])
def test_every_byte_and_every_connection_is_counted(
    host: Host, bottleneck: Bottleneck, tmp_path: Path, interval: str
) -> None:
    """The device counts too, and there are as many connections as sockets."""
    netns = bottleneck.netns("b")
    # Nothing but what is sent here, and neighbours are known.
    for each in ("a", "switch", "b"):
        bottleneck.set_sysctls(each, "net.ipv6.conf.all.disable_ipv6=1")
    bottleneck.start_program("a", "datagrams.py", RECEIVER, "1", "1", "10").wait()
    process = start(host, tmp_path / "s", netns, "eth0", "--interval", interval, "--rate", "50Mbps")
    before = device_counts(netns, "eth0")
    assert bottleneck.start_program("a", "datagrams.py", RECEIVER, "24", "2", "1000").wait() == 0
    # They wait in the queue for a while.
    eventually(lambda: device_counts(netns, "eth0")["rx"]["packets"] >= before["rx"]["packets"] + 48)
    after = device_counts(netns, "eth0")
    text = finish(process)
    found = rows(tmp_path / "s")
    for direction, key in (("in", "rx"), ("out", "tx")):
        summed = total(found[direction])
        assert summed["bytes"] == after[key]["bytes"] - before[key]["bytes"]
        assert summed["packets"] == after[key]["packets"] - before[key]["packets"]
        assert [summed[count] for count in COUNTS[2:]] == [0, 0, 0]
    assert total(found["in"])["bytes"] >= 48 * (1000 + 8 + 20 + 14)
    # Errors that come back have data, but no ports.
    assert max((row["connections"] for row in found["out"]), default=0) == 0
    if interval == "1s":
        assert max(row["connections"] for row in found["in"]) == 24
    else:
        # A burst of this length is 8 ms long.
        assert len(found["in"]) >= 20
        (direction, *_) = json.loads((tmp_path / "s" / "summary.json").read_text())["directions"]
        assert direction["bursts"] == len(rows(tmp_path / "s", "bursts")["in"]) >= 1
        assert direction["utilisation"] < 1
        assert "bursts: median" in text


def test_marks_and_retransmissions_are_those_that_others_count(
    host: Host, bottleneck: Bottleneck, tmp_path: Path
) -> None:
    """Where packets come to the port, before those are dropped that it has no room for."""
    port = bottleneck.port(ce_threshold_bytes=20_000)
    senders = [{"algorithm": "dctcp", "name": "sampled", "parameters": {}}]
    attached = attach({"cgroup": None, "senders": senders, "ports": [port], "receivers": []})
    process = start(host, tmp_path / "s", bottleneck.netns("switch"), "b")
    receivers = {algorithm: bottleneck.receiver(algorithm) for algorithm in ("sampled", "reno")}
    transfers = [bottleneck.send(each, at, MEGABYTE) for each, at in receivers.items() for _ in range(4)]
    results = [transfer.result() for transfer in transfers]
    text = finish(process, signal.SIGTERM)
    assert "interrupted by SIGTERM\n" in text
    assert "connections: median" in text
    found = rows(tmp_path / "s")
    counted = total(found["out"])
    assert attached.report()["ports"][0]["ce_marks"] == counted["ce_packets"] > 0
    close(attached.process)
    again = sum(result["retransmitted"] for result in results)
    assert again > 0
    # Handshakes and ends that are sent again have no data, and two processors that forward may change an order.
    assert abs(counted["retransmitted_packets"] - again) <= max(8, again // 10)
    assert max(row["connections"] for row in found["out"]) <= len(transfers)
    directions: list[dict[str, Any]] = json.loads((tmp_path / "s" / "summary.json").read_text())["directions"]
    assert [direction["bytes"] for direction in directions] == [total(found[each])["bytes"] for each in ("in", "out")]
    # Little but ACKs comes back.
    assert directions[0]["bursts"] == 0
    # A millisecond has room for four packets.
    assert 2 <= directions[1]["connections_max"] <= 8


def test_incast_marks_are_counted_where_they_arrive(host: Host, bottleneck: Bottleneck, tmp_path: Path) -> None:
    everything = bottleneck.port(ein={"growth": 0, "samples": 1, "high_water": 0})
    attached = attach({"cgroup": None, "senders": [], "ports": [everything], "receivers": []})
    netns = bottleneck.netns("b")
    process = start(host, tmp_path / "s", netns, "eth0", "--rate", "50Mbps")
    before = device_counts(netns, "eth0")
    assert bottleneck.start_program("a", "datagrams.py", RECEIVER, "12", "4", "1000").wait() == 0
    eventually(lambda: device_counts(netns, "eth0")["rx"]["packets"] >= before["rx"]["packets"] + 48)
    text = finish(process, signal.SIGHUP)
    assert "interrupted by SIGHUP\n" in text
    marks = attached.report()["ports"][0]["ein_marks"]
    close(attached.process)
    assert total(rows(tmp_path / "s")["in"])["incast_packets"] == marks > 40
    # In no millisecond more than six connections find room at this rate, but in a burst all do.
    assert max(burst["connections"] for burst in rows(tmp_path / "s", "bursts")["in"]) >= 10
    assert "INCAST: " in text


def test_a_sample_ends_after_its_time_and_is_not_overwritten(
    host: Host, bottleneck: Bottleneck, tmp_path: Path
) -> None:
    process = start(host, tmp_path / "s", bottleneck.netns("switch"), "b", "--for", "0.2", "--interval", "10us")
    assert process.wait() == 0
    summary = json.loads((tmp_path / "s" / "summary.json").read_text())
    assert [direction["intervals"] for direction in summary["directions"]] == [20_000, 20_000]
    command = ["ip", "netns", "exec", bottleneck.netns("switch"), str(HOST), "sample", "--dev", "b", "--out"]
    again = subprocess.run([*command, str(tmp_path / "s")], check=False, capture_output=True, text=True)
    assert (again.returncode, "--out has to name another folder" in again.stderr) == (1, True)
    command = ["ip", "netns", "exec", bottleneck.netns("b"), str(HOST), "sample", "--dev", "eth0", "--out"]
    unknown = subprocess.run([*command, str(tmp_path / "t")], check=False, capture_output=True, text=True)
    assert (unknown.returncode, "add --rate" in unknown.stderr) == (1, True)
    assert not (tmp_path / "t").exists()
