"""Runs on this machine's kernel: they need Linux and root, and say so where they are left out."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

import loaded
from incast.advice import closed_form, cluster
from kernel_fixtures import RERUNS
from slow_port import HOST, RATE_BPS, RECEIVER, Bottleneck, Host, cgroup_root

REQUIRED = os.environ.get("INCAST_KERNEL_TESTS") == "required"
RIGHTS = sys.platform == "linux" and os.geteuid() == 0
INCAST = Path(sys.executable).with_name("incast")
SETTINGS = Path("/proc/sys/net/ipv4")
# How long a run may take to set up, and to end.
PATIENCE_S = 30.0

pytestmark = [
    pytest.mark.skipif(not RIGHTS and not REQUIRED, reason="LEFT OUT: runs on the kernel need Linux and root"),
    # As the kernel tests in tests/linux: a machine that stands still for some ms changes what is measured.
    pytest.mark.flaky(reruns=RERUNS),
]


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
    two = ("--set", "traffic.requests.rounds=2", "--report")
    done = incast("run", "linux", "--world", "packets,linux", *two, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "a round trip of" in done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith(("packets", "linux"))]
    assert [row[:3] for row in rows] == [["packets", "32", "32"], ["linux", "32", "32"]]
    assert (tmp_path / "out/linux/worlds.png").stat().st_size > 20_000
    report = (tmp_path / "out/linux/report.html").read_text(encoding="utf-8")
    assert "<b>linux</b>: 32 flows of 64 KiB took" in report
    told = incast("explain", "out/linux/linux", "slowest", cwd=tmp_path)
    # It tells of packets, and is looked for beside the interpreter first.
    if not HOST.exists() and shutil.which("incast-host") is None:
        assert "linux: packets at the port were not recorded." in report
        assert (told.returncode, "did not record its packets" in told.stderr) == (2, True)
    else:
        assert "linux: it ran on a kernel, whose queue and windows were looked at once a millisecond." in report
        assert "where its time went" in told.stdout
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


def test_repetitions_on_the_kernel_are_shown_with_intervals(tmp_path: Path) -> None:
    few = ("--set", "traffic.requests.rounds=2", "--set", "traffic.requests.workers=4")
    done = incast("run", "linux", "--world", "packets,linux", "--repetitions", "2", *few, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("linux ")]
    # No two runs on a kernel are the same.
    assert row.count("±") >= 2
    assert (tmp_path / "out/linux/worlds.png").stat().st_size > 20_000
    for place in ("packets/1", "packets/2", "linux/1", "linux/2"):
        assert pl.read_parquet(tmp_path / "out/linux" / place / "flows.parquet").height == 8


STUDY = """
title = "Two worlds"
scenario = "linux.toml"
seeds = 1
set = { "traffic.requests.rounds" = 1, "traffic.requests.workers" = 2, "record.queue_series" = [] }

[curves.packets]
label = "simulator"

[curves.linux]
label = "Linux"
world = "linux"

[metrics.messages]
about = "messages"
sql = "SELECT COUNT(*) FROM flows"
"""


def test_a_study_keeps_what_was_measured_on_linux_where_it_is_told_to(tmp_path: Path) -> None:
    paper = tmp_path / "studies/paper"
    paper.mkdir(parents=True)
    (paper / "paper.toml").write_text('title = "A paper"\ncite = "Somebody"\n', encoding="utf-8")
    (paper / "study.toml").write_text(STUDY, encoding="utf-8")
    example = (Path(__file__).parents[1] / "scenarios/linux.toml").read_text(encoding="utf-8")
    (paper / "linux.toml").write_text(example, encoding="utf-8")
    update = ("reproduce", "paper", "--update", "--no-report")
    done = incast(*update, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    table = paper / "study.csv"
    _, names, simulated, measured = table.read_text(encoding="utf-8").splitlines()
    assert (simulated.rpartition(",")[2], measured.rpartition(",")[2]) == ("2", "2")
    # Neither is true, so what is computed anew shows.
    invented = [row.rpartition(",")[0] + ",77777" for row in (simulated, measured)]
    table.write_text("\n".join(["# incast 0.1.0: 2 runs, 9 packet-hops", names, *invented]) + "\n", encoding="utf-8")
    done = incast(*update, "--keep-linux", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert table.read_text(encoding="utf-8").splitlines()[2:] == [simulated, invented[1]]
    # What the study has gained since is measured.
    (paper / "study.toml").write_text(STUDY.replace("seeds = 1", "seeds = 2"), encoding="utf-8")
    done = incast(*update, "--keep-linux", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    again = table.read_text(encoding="utf-8").splitlines()[2:]
    assert [again[0], again[2], again[3].rpartition(",")[2]] == [simulated, invented[1], "2"]
    # No row of another table is kept, and none is lost without a word.
    (paper / "study.toml").write_text(STUDY.replace("metrics.messages", "metrics.others"), encoding="utf-8")
    done = incast(*update, "--keep-linux", cwd=tmp_path)
    assert done.returncode == 2
    assert "so none of these rows can be kept" in done.stderr


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


def require_incast_host() -> None:
    host = Path(sys.executable).with_name("incast-host")
    if not host.is_file():
        assert not REQUIRED, "incast-host is not built: make linux"
        pytest.skip("LEFT OUT: remedies by incast-host, which is not built: make linux")


@pytest.mark.parametrize("sender", ["dctcp", "d2tcp", "mrg", "dcmrg", "pulser", "swift"])
def test_incast_host_attaches_what_the_kernel_lacks(tmp_path: Path, sender: str) -> None:
    require_incast_host()
    ecn = 'threshold = "20KB", count_in_service = true'
    marker = f'{{ name = "ein", ecn = {{ {ecn} }} }}' if sender == "pulser" else f'{{ name = "ecn-threshold", {ecn} }}'
    done = incast(
        "run", "linux", "--world", "linux", "--json", "--set", "traffic.requests.rounds=3",
        "--set", f'stack.sender="{sender}"', "--set", f"switch.marker={marker}",
        "--set", 'traffic.requests.deadline="120ms"', "--set", "record.events=true", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["flows_complete"] == 48
    (port,) = [port for port in summary["ports"] if (port["from"], port["to"]) == ("right", "left")]
    # These two do not react to marks, so their packets cannot be marked.
    assert (port["ce_marks_packets"] > 0) == (sender not in ("mrg", "swift"))
    assert (port["ein_marks_packets"] > 0) == (sender == "pulser")
    # Each mark is told of, and where the port detects incast, so are incasts.
    events = pl.read_parquet(tmp_path / "out/linux/events.parquet").filter(pl.col("link") == port["link"])
    told = dict(events["kind"].value_counts().iter_rows())
    assert told.get("ce-mark", 0) == port["ce_marks_packets"]
    assert told.get("ein-mark", 0) == port["ein_marks_packets"]
    incasts = pl.read_parquet(tmp_path / "out/linux/incasts.parquet")
    assert incasts["link"].unique().to_list() == ([port["link"]] if sender == "pulser" else [])
    assert incasts["detected"].any() == (sender == "pulser")
    assert summary["incasts"] == (len(incasts) if sender == "pulser" else None)


def test_the_kernel_tells_what_happens_to_packets_one_by_one(tmp_path: Path) -> None:
    """Its tracepoints count as its counters do, and say of which connection and at which byte."""
    require_incast_host()
    done = incast(
        "run", "linux", "--world", "linux", "--json", "--set", "traffic.requests.rounds=4",
        "--set", "record.events=true", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    events = pl.read_parquet(tmp_path / "out/linux/events.parquet")
    told = dict(events["kind"].value_counts().iter_rows())
    assert told["drop"] == summary["drops"] > 0
    assert told["fast-retransmit"] == summary["fast_retransmits"] > 0
    assert told.get("timeout-untold", 0) == summary["timeouts"]
    # Those of requests are no flows' own.
    assert told["retransmission"] >= summary["retransmitted_packets"] > 0
    (port,) = [port for port in summary["ports"] if (port["from"], port["to"]) == ("right", "left")]
    drops = events.filter(pl.col("kind") == "drop")
    assert drops["link"].unique().to_list() == [port["link"]]
    assert not drops["from_client"].any()
    # Segments of 1448 bytes, of four responses of 64 KiB.
    assert (drops["offset_bytes"] < 4 * 65_536).all()
    assert set(drops["offset_bytes"] % 65_536 % 1448) == {0}
    assert (events["time_ps"] / 1e12 <= summary["end_s"]).all()


@pytest.mark.parametrize(
    ("sender", "receiver"),
    [
        ("newreno", '{ name = "static-window", window = "2896B" }'),
        ("newreno", '{ name = "ictcp", rtt_limit = "50ms" }'),
        ("rdtcp", '{ name = "rdtcp", queue_maxsize = 32 }'),
        ("dcmrg", '{ name = "dcmrg" }'),
    ],
)
def test_receivers_set_windows_on_linux(tmp_path: Path, sender: str, receiver: str) -> None:
    """Sixteen workers collapse here without: hundreds of packets are lost in three rounds."""
    require_incast_host()
    ecn = '{ name = "ecn-threshold", threshold = "20KB", count_in_service = true }'
    marker = ecn if sender == "dcmrg" else '"none"'
    done = incast(
        "run", "linux", "--world", "linux", "--json", "--set", "traffic.requests.rounds=3",
        "--set", f'stack.sender="{sender}"', "--set", f"stack.receiver={receiver}",
        "--set", f"switch.marker={marker}", "--set", 'traffic.requests.deadline="120ms"',
        "--set", 'tcp.receive_buffer="256KiB"', "--set", 'record.window_series=["requests:0-3"]', cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["flows_complete"] == 48
    windows = pl.read_parquet(tmp_path / "out/linux/windows.parquet")
    announced = windows.filter(~pl.col("from_client"))["rwnd_bytes"].to_list()
    # The others' windows depend on round trips. One that nobody had set would grow beyond 256 KiB.
    if sender == "rdtcp" or "static" in receiver:
        assert max(announced) <= 64 << 10
        assert (summary["timeouts"], summary["drops"] < 20) == (0, True)
    else:
        assert sorted(announced)[len(announced) // 10] < 64 << 10


def test_what_a_receiver_cannot_have_on_linux_is_refused_by_name(tmp_path: Path) -> None:
    done = incast(
        "check", "linux", "--world", "linux", "--set", 'stack.sender="rdtcp"',
        "--set", 'stack.receiver={ name = "rdtcp", strict = true }', cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 2
    assert "stack.receiver: on Linux, strict is true; allowed: its default" in done.stderr


def receiving_threads() -> set[str]:
    names = {process: process / "comm" for process in Path("/proc").glob("[0-9]*")}
    return {process.name for process, name in names.items() if name.exists() and name.read_text().startswith("napi/l")}


def test_hosts_receive_in_threads_of_their_own_while_programs_are_attached(tmp_path: Path) -> None:
    host = Path(sys.executable).with_name("incast-host")
    if not host.is_file():
        assert not REQUIRED, "incast-host is not built: make linux"
        pytest.skip("LEFT OUT: senders by incast-host, which is not built: make linux")
    before = receiving_threads()
    command = [
        str(INCAST), "run", "linux", "--world", "linux", "--set", "traffic.requests.rounds=2000",
        "--set", 'stack.sender="dctcp"', "--set", 'switch.marker={ name = "ecn-threshold", threshold = "20KB" }',
    ]  # fmt: skip
    with killed_in_the_end(command, tmp_path) as running:
        until = time.monotonic() + PATIENCE_S
        while len(made := receiving_threads() - before) < 17:
            assert running.poll() is None
            assert time.monotonic() < until
            time.sleep(0.02)
        running.kill()
        running.wait(PATIENCE_S)
    while receiving_threads() & made:
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_behind_however_it_ends(tmp_path: Path, how: signal.Signals) -> None:
    own, before = settings(), namespaces(Path("/proc/self"))
    command = [str(INCAST), "run", "linux", "--world", "linux", "--set", "traffic.requests.rounds=2000"]
    with killed_in_the_end(command, tmp_path) as running:
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


def begun(command: list[str], cwd: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def killed_in_the_end(command: list[str], cwd: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command; a test that fails does not wait for its end, which is minutes away."""
    with begun(command, cwd) as running:
        try:
            yield running
        finally:
            running.kill()


def hosts_and_switches(running: subprocess.Popen[bytes], before: set[str]) -> set[str]:
    """Wait until a run has one namespace for each."""
    until = time.monotonic() + PATIENCE_S
    while len(made := namespaces(Path("/proc", str(running.pid))) - before) < 19:
        assert running.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)
    return made


def opened_by(pid: int) -> set[str]:
    """Return the names of the files that a process has open. One that is closed meanwhile is not."""
    names = set()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            names.add(file.readlink().name)
    return names


def test_two_runs_at_once_do_not_meet(tmp_path: Path) -> None:
    """The second has nothing of its own until the first has ended, and then counts as if it had been alone."""
    before = namespaces(Path("/proc/self"))
    command = [str(INCAST), "run", "linux", "--world", "linux"]
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    endless = [*command, "--set", "traffic.requests.rounds=2000"]
    with killed_in_the_end(endless, tmp_path / "first") as first:
        hosts_and_switches(first, before)
        short = [*command, "--set", "traffic.requests.rounds=2"]
        with killed_in_the_end(short, tmp_path / "second") as second:
            # It has come to where it waits.
            until = time.monotonic() + PATIENCE_S
            while "incast-linux.lock" not in opened_by(second.pid):
                assert time.monotonic() < until
                time.sleep(0.02)
            time.sleep(0.2)
            assert first.poll() is None
            assert namespaces(Path("/proc", str(second.pid))) <= before
            first.kill()
            first.wait(PATIENCE_S)
            assert second.wait(PATIENCE_S) == 0
    assert pl.read_parquet(tmp_path / "second/out/linux/flows.parquet").height == 32


def test_the_next_start_removes_what_a_killed_run_with_programs_has_left(tmp_path: Path) -> None:
    require_incast_host()
    root = cgroup_root()
    assert root is not None
    command = [
        str(INCAST), "run", "linux", "--world", "linux", "--set", 'stack.sender="pulser"',
        "--set", 'switch.marker={ name = "ein", ecn = { threshold = "20KB", count_in_service = true } }',
    ]  # fmt: skip
    before, held_before = namespaces(Path("/proc/self")), loaded.held_by_nobody()
    endless = [*command, "--set", "traffic.requests.rounds=2000"]
    with killed_in_the_end(endless, tmp_path) as running:
        group = root / f"incast-run-{running.pid}"
        hosts_and_switches(running, before)
        until = time.monotonic() + PATIENCE_S
        while not group.exists() or str(running.pid) not in (group / "cgroup.procs").read_text().split():
            assert time.monotonic() < until
            time.sleep(0.02)
        # What it sends goes through programs.
        time.sleep(0.3)
        made = loaded.everything()
        running.kill()
        running.wait(PATIENCE_S)
    # A directory with nobody in it is all that outlives it.
    while (loaded.held_by_nobody() - held_before) & made:
        assert time.monotonic() < until
        time.sleep(0.1)
    assert group.exists()
    assert (group / "cgroup.procs").read_text() == ""
    short = [*command, "--set", "traffic.requests.rounds=1"]
    done = subprocess.run(short, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not group.exists()


HOG = """if True:
    import os, time
    os.sched_setaffinity(0, {cpu})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(80))
    print("begins", flush=True)
    end = time.monotonic() + 20
    while time.monotonic() < end:
        until = time.monotonic() + 0.01
        while time.monotonic() < until:
            pass
        time.sleep(0.01)
"""


@pytest.mark.parametrize("kept", [False, True])
def test_a_starved_run_is_no_result_unless_one_asks_for_it(tmp_path: Path, kept: bool) -> None:
    """Something more urgent takes half of the only processor that the run may use."""
    cpu = min(os.sched_getaffinity(0))
    command = ["taskset", "-c", str(cpu), str(INCAST), "run", "linux", "--world", "linux"]
    few = ("--set", "traffic.requests.rounds=2", "--set", "traffic.requests.workers=4")
    hog = [sys.executable, "-c", HOG.replace("{cpu}", f"{{{cpu}}}")]
    with subprocess.Popen(hog, stdout=subprocess.PIPE, text=True) as urgent:
        assert urgent.stdout is not None
        assert urgent.stdout.readline() == "begins\n"
        done = subprocess.run(
            [*command, *few], cwd=tmp_path, capture_output=True, text=True, check=False,
            env={**os.environ, "INCAST_LINUX_ATTEMPTS": "1", "INCAST_LINUX_BUSY": "warn" if kept else "refuse"},
        )  # fmt: skip
        urgent.kill()
    tables = list((tmp_path / "out").rglob("*.parquet"))
    if kept:
        assert (done.returncode, bool(tables)) == (0, True), done.stderr
        assert "warning: this machine was too busy, so this is no measurement: " in done.stderr
        return
    assert (done.returncode, tables) == (1, []), done.stderr
    assert "this machine is too busy to measure: 1 attempts did not count, the last because" in done.stderr
    assert "set INCAST_LINUX_BUSY=warn to keep" in done.stderr


SAMPLED = """\
sample = "sample"
rtt = "100us"
buffer = { limit = "64KiB" }
may_change = ["receiver"]
"""


def test_a_sample_of_real_incast_is_advised_on(tmp_path: Path, host: Host, bottleneck: Bottleneck) -> None:
    """Three times 20 sockets send 2 datagrams of 1400 bytes each: from the wire to what the advice makes of it."""
    require_incast_host()
    inside = ("ip", "netns", "exec", bottleneck.netns("b"), str(INCAST.with_name("incast-host")))
    sample = ("sample", "--dev", "eth0", "--rate", "50Mbps", "--out", str(tmp_path / "sample"))
    with subprocess.Popen([*inside, *sample], stdout=subprocess.PIPE, text=True, env=host.env) as sampling:
        assert sampling.stdout is not None
        assert sampling.stdout.readline().startswith("sampling eth0 ")
        for _ in range(3):
            assert bottleneck.start_program("a", "datagrams.py", RECEIVER, "20", "2", "1400").wait() == 0
            # 56 KB need 9 ms.
            time.sleep(0.1)
        sampling.send_signal(signal.SIGINT)
        said = sampling.stdout.read()
        assert sampling.wait(PATIENCE_S) == 130, said
    assert "INCAST: 3 of 3 bursts" in said
    done = incast("export", "sample", "--parquet", "tables", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    intervals, bursts = (pl.read_parquet(tmp_path / f"tables/{name}.parquet") for name in ("intervals", "bursts"))
    datagram = 1400 + 8 + 20 + 14
    arrived = intervals.filter(pl.col("direction") == "in")
    # A few packets more are the kernel's own.
    assert 0 <= arrived["bytes"].sum() - 3 * 40 * datagram < 10_000
    incasts = bursts.filter(pl.col("direction") == "in")
    assert incasts["connections"].to_list() == 3 * [20]
    path = tmp_path / "cluster.toml"
    path.write_text(SAMPLED, encoding="utf-8")
    found = cluster.read(path)
    assert (found.rate_bps, found.fan_in) == (RATE_BPS, 20)
    # A connection's share of a burst, with headers.
    assert 0.9 * 2 * datagram < found.response_bytes <= 2 * datagram + 100
    assert "the rate of eth0, 50 Mbit/s" in " ".join(found.sampled)
    # It fits: 64 KiB hold one query.
    assert closed_form.compute(found).losses_from > 20
