"""Runs on this machine's kernel: they need Linux and root, and say so where they are left out."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

REQUIRED = os.environ.get("INCAST_KERNEL_TESTS") == "required"
RIGHTS = sys.platform == "linux" and os.geteuid() == 0
INCAST = Path(sys.executable).with_name("incast")
SETTINGS = Path("/proc/sys/net/ipv4")
# How long a run may take to set up, and to end.
PATIENCE_S = 30.0

pytestmark = pytest.mark.skipif(not RIGHTS and not REQUIRED, reason="LEFT OUT: runs on the kernel need Linux and root")


def incast(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([INCAST, *arguments], cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


def namespaces(process: Path) -> set[str]:
    """Return the network namespaces that a process keeps: those of its threads, and those that it has open."""
    found = set()
    for link in (*process.glob("fd/*"), *process.glob("task/*/ns/net")):
        with contextlib.suppress(OSError):  # it has been closed, or the thread has ended
            found.add(str(link.readlink()))
    return {name for name in found if name.startswith("net:")}


def settings() -> dict[str, str]:
    """Return the machine's own settings of TCP."""
    found = {}
    for file in SETTINGS.glob("tcp_*"):
        try:
            found[file.name] = file.read_text(encoding="ascii")
        except OSError:
            continue  # it can only be written
    return found


def test_one_scenario_runs_in_two_worlds_and_one_picture_shows_both(tmp_path: Path) -> None:
    done = incast("run", "linux", "--world", "packets,linux", "--set", "traffic.requests.rounds=2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "a round trip of" in done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith(("packets", "linux"))]
    assert [row[:3] for row in rows] == [["packets", "32", "32"], ["linux", "32", "32"]]
    assert (tmp_path / "out/linux/worlds.png").stat().st_size > 20_000
    tables = {world: tmp_path / "out/linux" / world for world in ("packets", "linux")}
    schemas = [{file.name: pl.read_parquet_schema(file) for file in path.glob("*.parquet")} for path in tables.values()]
    assert schemas[0] == schemas[1]
    (machine,) = pl.read_parquet(tables["linux"] / "machine.parquet").to_dicts()
    assert machine["kernel"] == os.uname().release
    assert abs(machine["rate_error"]) < 0.01
    assert machine["waiting"] < 1
    assert pl.read_parquet(tables["packets"] / "machine.parquet").is_empty()
    queues = pl.read_parquet(tables["linux"] / "queues.parquet")
    assert (queues["waiting_packets"] > 10).any()


def test_what_the_kernel_cannot_honour_is_named_all_at_once(tmp_path: Path) -> None:
    done = incast("run", "incast", "--world", "linux", cwd=tmp_path)
    assert done.returncode == 2
    for key in ("tcp.recovery", "tcp.rto_max: 60s", "window"):
        assert key in done.stderr
    assert 'profile = "linux"' in done.stderr
    assert not (tmp_path / "out").exists()


def test_an_application_schedules_real_requests(tmp_path: Path) -> None:
    """One request after the other cannot collapse."""
    done = incast(
        "run", "linux", "--world", "linux", "--json", "--set", "traffic.requests.rounds=2",
        "--set", 'stack.application="sequential"', cwd=tmp_path,
    )  # fmt: skip
    summary = json.loads(done.stdout)
    assert (summary["flows_complete"], summary["timeouts"]) == (32, 0)
    flows = pl.read_parquet(tmp_path / "out/linux/flows.parquet").sort("start_s")
    assert (flows["start_s"][1:] >= flows["end_s"][:-1]).all()


@pytest.mark.parametrize("sender", ["dctcp", "d2tcp", "mrg", "dcmrg", "pulser"])
def test_incast_host_attaches_what_the_kernel_lacks(tmp_path: Path, sender: str) -> None:
    host = Path(sys.executable).with_name("incast-host")
    if not host.is_file():
        assert not REQUIRED, "incast-host is not built: make linux"
        pytest.skip("LEFT OUT: senders by incast-host, which is not built: make linux")
    ecn = 'threshold = "20KB", count_in_service = true'
    marker = f'{{ name = "ein", ecn = {{ {ecn} }} }}' if sender == "pulser" else f'{{ name = "ecn-threshold", {ecn} }}'
    done = incast(
        "run", "linux", "--world", "linux", "--json", "--set", "traffic.requests.rounds=3",
        "--set", f'stack.sender="{sender}"', "--set", f"switch.marker={marker}",
        "--set", 'traffic.requests.deadline="120ms"', cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["flows_complete"] == 48
    (port,) = [port for port in summary["ports"] if (port["from"], port["to"]) == ("right", "left")]
    # MRG does not react to marks, so its packets cannot be marked.
    assert (port["ce_marks_packets"] > 0) == (sender != "mrg")
    assert (port["ein_marks_packets"] > 0) == (sender == "pulser")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_is_left_behind_however_it_ends(tmp_path: Path, how: signal.Signals) -> None:
    own, before = settings(), namespaces(Path("/proc/self"))
    command = [str(INCAST), "run", "linux", "--world", "linux", "--set", "traffic.requests.rounds=2000"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        until = time.monotonic() + PATIENCE_S
        # One for every host and switch.
        while len(made := namespaces(Path("/proc", str(running.pid))) - before) < 19:
            assert running.poll() is None
            assert time.monotonic() < until
            time.sleep(0.02)
        running.send_signal(how)
        running.wait(PATIENCE_S)
    # Nobody holds them, so the kernel removes them with all that is in them.
    assert not any(namespaces(process) & made for process in Path("/proc").glob("[0-9]*"))
    assert not any(name in Path("/proc/self/mountinfo").read_text(encoding="utf-8") for name in made)
    assert settings() == own
