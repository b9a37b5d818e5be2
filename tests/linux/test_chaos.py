"""Whatever happens to runs on the kernel and to `incast-host`: nothing is lost, doubled, half-written or left behind.

No two runs on a kernel are the same, so a sweep cannot end with the bytes of another. But a run that is finished keeps
its own: it is not computed again.

`INCAST_KILLS=20` tries 20 seeds, and kills each sweep twice.
"""

from __future__ import annotations

import contextlib
import csv
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

import loaded
from conftest import shifted
from slow_port import HOST, RATE_BPS, Bottleneck, Host, cgroup_root, close, eventually
from test_leftovers import settings

ROOT = Path(__file__).resolve().parents[2]
INCAST = [sys.executable, "-m", "incast"]
MEGABYTE = 1_000_000
# Longer than the machine can have been up.
SHIFTED = shifted(100_000_000)

STUDY = """
title = "Three senders"
scenario = "linux.toml"
seeds = 1
set = { "traffic.requests.rounds" = 1, "traffic.requests.workers" = 2, "topology.right" = 2 }

[curves.newreno]
label = "NewReno"
world = "linux"

[curves.cubic]
label = "CUBIC"
world = "linux"
set = { "stack.sender" = "cubic" }

[curves.dctcp]
label = "DCTCP"
world = "linux"
set = { "stack.sender" = "dctcp", "switch.marker" = { name = "ecn-threshold", threshold = "20KB" } }

[metrics.messages]
about = "messages"
sql = "SELECT COUNT(*) FROM flows"
"""
RUNS = 3
# Each start of a sweep, and each of its runs, takes half a second: one seed has to do where all tests are run.
KILLS = int(os.environ.get("INCAST_KILLS", "1"))
SEEDS = range(1, KILLS + 1)
# How many runs are finished when a sweep is killed. Of two, one is damaged, and the other may not be computed again.
KILLED_AT = (1, 2) if KILLS > 1 else (2,)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    folder = tmp_path / "paper"
    folder.mkdir()
    (folder / "linux.toml").write_text((ROOT / "scenarios/linux.toml").read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "study.toml").write_text(STUDY, encoding="utf-8")
    return folder / "study.toml"


@pytest.fixture
def tmpfs(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Return a function that mounts an empty file system with some options."""
    folder = tmp_path / "tmpfs"
    folder.mkdir()

    def mount(options: str) -> Path:
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True)
        return folder

    yield mount
    subprocess.run(["umount", folder], capture_output=True, check=False)


def incast(*arguments: str | Path, wrapper: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    command = [*wrapper, *INCAST, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def finished(out: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in out.glob("runs/??/*.zip")}


def namespaces(process: Path) -> set[str]:
    """Return the network namespaces that a process is in or has open."""
    found = set()
    for link in (*process.glob("fd/*"), *process.glob("task/*/ns/net")):
        with contextlib.suppress(OSError):
            found.add(str(link.readlink()))
    return {name for name in found if name.startswith("net:")}


def left_in_the_kernel() -> list[str]:
    """Name groups in which processes still are, and processes of runs."""
    root = cgroup_root()
    assert root is not None
    groups = [group for group in root.glob("incast-run-*") if (group / "cgroup.procs").read_text()]
    return [str(group) for group in groups]


def whole_table(out: Path) -> None:
    """All runs are in the table, once each, with all of their messages."""
    lines = (out / "study.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 2 + RUNS
    rows = list(csv.DictReader(lines[1:]))
    assert sorted((row["curve"], row["seed"]) for row in rows) == [
        (curve, "1") for curve in ("cubic", "dctcp", "newreno")
    ]
    assert {row["messages"] for row in rows} == {"2"}
    assert len(finished(out)) == RUNS
    assert list((out / "runs/.unfinished").iterdir()) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_sweep_on_the_kernel_ends_whole_whatever_killed_it(study: Path, tmp_path: Path, seed: int) -> None:
    draw, out = random.Random(seed), tmp_path / "out"  # noqa: S311
    before, held_before, killed = namespaces(Path("/proc/self")), loaded.held_by_nobody(), 0
    kept: dict[Path, bytes] = {}
    damaged: dict[Path, bytes] = {}
    made: set[str] = set()
    for stop_at in KILLED_AT:
        sweep = subprocess.Popen([*INCAST, "sweep", study, "--out", out], stderr=subprocess.PIPE, text=True)
        while sweep.poll() is None and len(finished(out)) < stop_at:
            made |= namespaces(Path("/proc", str(sweep.pid))) - before
            # Who looks more often keeps a run from its processor.
            time.sleep(0.05)
        # The rest of a sweep takes longer.
        time.sleep(draw.uniform(0.0, 0.4))
        sweep.send_signal(signal.SIGKILL)
        said = sweep.communicate(timeout=60)[1]
        assert "Traceback" not in said
        killed += sweep.returncode == -signal.SIGKILL
        now = finished(out)
        # What was finished has not been computed again.
        assert {file: now.get(file) for file in kept} == kept
        # One of them is damaged, which may be noticed only when it is measured.
        file = draw.choice(sorted(now))
        content = bytearray(now[file])
        content[draw.randrange(len(content) // 4, len(content) // 2)] ^= 0xFF
        damaged[file] = bytes(content[: draw.choice([len(content), len(content) // 2])])
        file.write_bytes(damaged[file])
        kept = {file: content for file, content in finished(out).items() if damaged.get(file) != content}
    assert killed, "every sweep was over before it could be killed"
    assert kept, "nothing was finished that could have been computed again"
    done = incast("sweep", study, "--out", out)
    assert done.returncode == 0, done.stderr
    whole_table(out)
    now = finished(out)
    assert {file: now[file] for file in kept} == kept
    assert incast("store", "verify", out).returncode == 0
    assert made
    assert not any(namespaces(process) & made for process in Path("/proc").glob("[0-9]*"))
    assert left_in_the_kernel() == []
    # A killed process's programs go with its connections.
    eventually(lambda: not any(kind == "prog" for kind, _ in loaded.held_by_nobody() - held_before))


def test_a_full_disk_ends_a_sweep_on_the_kernel_with_one_message(study: Path, tmpfs: Callable[[str], Path]) -> None:
    """It is full once one run is stored."""
    disk = tmpfs("size=1m")
    out, ballast = disk / "out", disk / "ballast"
    out.mkdir()
    free = os.statvfs(disk)
    # A run takes some 20 KB.
    ballast.write_bytes(bytes(free.f_bavail * free.f_bsize - 24 * 1024))
    done = incast("sweep", study, "--out", out)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert "No space left on device" in done.stderr
    kept = finished(out)
    assert f"{len(kept)} of {RUNS} runs are kept" in done.stderr
    assert list((out / "runs/.unfinished").iterdir()) == []
    assert left_in_the_kernel() == []
    ballast.unlink()
    done = incast("sweep", study, "--out", out)
    assert done.returncode == 0, done.stderr
    whole_table(out)
    now = finished(out)
    assert {file: now[file] for file in kept} == kept


def test_a_full_disk_ends_a_run_on_the_kernel_with_one_message(tmpfs: Callable[[str], Path]) -> None:
    """What the run before has left stays as it is, pictures too."""
    disk = tmpfs("size=1m")
    out, ballast = disk / "out", disk / "ballast"
    run = (
        "run", "linux", "--world", "linux", "--out", out, "--set", "traffic.requests.rounds=1",
        "--set", "traffic.requests.workers=2", "--set", "topology.right=2", "--set", "stack.sender=dctcp",
        "--set", 'switch.marker={ name = "ecn-threshold", threshold = "20KB" }',
    )  # fmt: skip
    done = incast(*run, "--plots")
    assert done.returncode == 0, done.stderr
    kept = {file.name: file.read_bytes() for file in out.iterdir()}
    assert {"summary.json", "completion-times.png"} <= kept.keys()
    free = os.statvfs(disk)
    # Tables take some 80 KB.
    ballast.write_bytes(bytes(free.f_bavail * free.f_bsize - 4 * 1024))
    before, held_before, made = namespaces(Path("/proc/self")), loaded.held_by_nobody(), set[str]()
    second = subprocess.Popen([*INCAST, *run], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while second.poll() is None:
        made |= namespaces(Path("/proc", str(second.pid))) - before
        time.sleep(0.05)
    stdout, stderr = second.communicate(timeout=60)
    assert (second.returncode, stdout) == (1, ""), stderr
    (said,) = [line for line in stderr.splitlines() if not line.startswith("warning: ")]
    assert said.startswith(f"incast: cannot write {out}/"), said
    assert "No space left on device" in said
    assert {file.name: file.read_bytes() for file in out.iterdir()} == kept
    assert made
    assert not any(namespaces(process) & made for process in Path("/proc").glob("[0-9]*"))
    assert left_in_the_kernel() == []
    eventually(lambda: not any(kind == "prog" for kind, _ in loaded.held_by_nobody() - held_before))
    ballast.unlink()
    done = incast(*run)
    assert done.returncode == 0, done.stderr
    assert "completion-times.png" not in {file.name for file in out.iterdir()}


def test_a_disk_that_cannot_be_written_to_is_named_before_the_kernel_is_touched(
    study: Path, tmpfs: Callable[[str], Path]
) -> None:
    out = tmpfs("ro") / "out"
    named = f"incast: {out}: cannot write results here: read-only file system\n"
    done = incast("sweep", study, "--out", out)
    assert (done.returncode, done.stderr.endswith(named)) == (2, True), done.stderr
    done = incast("run", "linux", "--world", "linux", "--out", out)
    assert (done.returncode, done.stderr) == (2, named)


def test_a_run_in_a_time_namespace_has_its_events_at_their_times(tmp_path: Path) -> None:
    """The clock inside is years ahead of that of the kernel's programs."""
    done = incast(
        "run", "linux", "--world", "linux", "--out", tmp_path / "out", "--set", "record.events=true",
        "--set", "traffic.requests.rounds=1", "--set", "traffic.requests.workers=8", "--set", "topology.right=8",
        wrapper=SHIFTED,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    events = pl.read_parquet(tmp_path / "out/events.parquet")["time_ps"]
    end = pl.read_parquet(tmp_path / "out/flows.parquet")["end_s"].max()
    assert len(events) > 10
    assert events.n_unique() > len(events) // 2
    assert isinstance(end, float)
    assert 0 < events.max() / 1e12 <= end + 0.1  # type: ignore[operator]


def rows(table: Path) -> list[dict[str, str]]:
    """Return the rows of a table of a sample, all of which have to be whole."""
    text = table.read_text(encoding="ascii")
    assert text.endswith("\n")
    assert {line.count(",") for line in text.splitlines()} == {text.splitlines()[0].count(",")}
    return list(csv.DictReader(text.splitlines()))


def sampling(bottleneck: Bottleneck, out: Path, *more: str, wrapper: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    """Sample what comes to the receiver."""
    inside = ("nsenter", f"--net=/run/netns/{bottleneck.netns('b')}", *wrapper)
    command = [*inside, str(HOST), "sample", "--dev", "eth0", "--rate", f"{RATE_BPS}bps", "--interval", "100us", *more]
    return subprocess.Popen([*command, "--out", str(out)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def started(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("sampling eth0 every 100 us"), process.communicate()


def test_a_sample_in_a_time_namespace_counts_what_passes(bottleneck: Bottleneck, tmp_path: Path) -> None:
    process = sampling(bottleneck, tmp_path / "s", wrapper=SHIFTED)
    started(process)
    assert bottleneck.send("reno", bottleneck.receiver("reno"), MEGABYTE).result()["arrived"] == MEGABYTE
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    counted = sum(int(row["bytes"]) for row in rows(tmp_path / "s/intervals.csv") if row["direction"] == "in")
    assert counted >= MEGABYTE
    assert process.returncode == 128 + signal.SIGINT


def test_a_full_disk_ends_a_sample_with_one_message(bottleneck: Bottleneck, tmpfs: Callable[[str], Path]) -> None:
    """What was sampled before is there, in whole rows."""
    out = tmpfs("size=16k") / "s"
    before = settings(bottleneck)
    process = sampling(bottleneck, out)
    started(process)
    transfer = bottleneck.send("reno", bottleneck.receiver("reno"), 4 * MEGABYTE)
    said = process.communicate(timeout=30)[1]
    assert process.returncode == 1
    assert said == f"{out}/intervals.csv: No space left on device (os error 28)\n"
    assert len(rows(out / "intervals.csv")) > 50
    assert sorted(file.name for file in out.iterdir()) == ["intervals.csv"]
    assert transfer.result()["arrived"] == 4 * MEGABYTE
    assert settings(bottleneck) == before


@pytest.mark.parametrize("options", ["ro", "nr_inodes=1"])
def test_without_a_place_for_its_socket_nothing_is_enabled(
    bottleneck: Bottleneck, tmpfs: Callable[[str], Path], options: str
) -> None:
    before, made = settings(bottleneck), loaded.everything()
    environment = {**os.environ, "INCAST_HOST_RUN": str(tmpfs(options))}
    command = [str(HOST), "enable", "dctcp", "--cgroup", str(bottleneck.cgroup)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=30)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done
    assert {"ro": "Read-only file system", "nr_inodes=1": "No space left on device"}[options] in done.stderr
    assert settings(bottleneck) == before
    assert not {each for each in loaded.held_by_nobody() - made if each[0] == "prog"}


@pytest.mark.parametrize("seed", SEEDS)
def test_kills_at_any_moment_leave_nothing_of_incast_host(
    host: Host, bottleneck: Bottleneck, tmp_path: Path, seed: int
) -> None:
    """Also before all is attached, and while it is being taken back."""
    draw = random.Random(seed)  # noqa: S311
    before, held_before = settings(bottleneck), loaded.held_by_nobody()
    cgroup = ("--cgroup", str(bottleneck.cgroup))
    enable = [str(HOST), "enable", "dctcp", *cgroup]
    ein = [
        "nsenter",
        f"--net=/run/netns/{bottleneck.netns('switch')}",
        str(HOST),
        "enable",
        "ein",
        "--dev",
        "b",
        "--ce",
        "20KB",
    ]
    for count in range(4):
        sample = sampling(bottleneck, tmp_path / str(count))
        others = [
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=host.env, text=True)
            for command in (enable, ein)
        ]
        time.sleep(draw.uniform(0.0, 0.5))
        if count % 2:
            # Who is disabling may be killed, too.
            command = [str(HOST), "disable", *cgroup]
            others.append(subprocess.Popen(command, stderr=subprocess.DEVNULL, env=host.env, text=True))
            time.sleep(draw.uniform(0.0, 0.02))
        processes: list[subprocess.Popen[str]] = [sample, *others]
        for process in processes:
            process.kill()
        for process in processes:
            process.communicate(timeout=30)
        if (table := tmp_path / str(count) / "intervals.csv").exists():
            rows(table)
        assert not (tmp_path / str(count) / "summary.json").exists()
    assert host.say("status") == "nothing is enabled\n"
    eventually(lambda: not loaded.held_by_nobody() - held_before)
    assert settings(bottleneck) == before
    again = host.start(*enable[1:])[0]
    host.say("disable", *cgroup)
    assert again.wait(timeout=30) == 0
    close(again)
