"""Whatever happens to a sweep, the next one ends with the bytes of one that nothing happened to."""

from __future__ import annotations

import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import Command, shifted, small_paper

RUNS = 2 * 3 * 3
ROUNDS = 4
COMMAND = [sys.executable, "-m", "incast"]


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Return a study whose runs are long enough that a kill meets some of them."""
    file = small_paper(tmp_path) / "figure-1.toml"
    scenario = file.parent / "scenarios" / "small.toml"
    scenario.write_text(scenario.read_text(encoding="utf-8").replace("rounds = 2", "rounds = 100"), encoding="utf-8")
    return file


@pytest.fixture
def whole(inside: Command, study: Path, tmp_path: Path) -> dict[str, bytes]:
    """Return the files of a sweep to which nothing happens."""
    done = inside("sweep", study, "--out", "whole")
    assert done.returncode == 0, done.stderr
    return contents(tmp_path / "whole")


@pytest.fixture
def tmpfs(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Return a function that mounts an empty file system with some options."""
    folder = tmp_path / "tmpfs"
    folder.mkdir()

    def mount(options: str) -> Path:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder],  # noqa: S607
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            pytest.skip(f"needs to mount a file system: {done.stderr.strip()}")
        return folder

    yield mount
    subprocess.run(["umount", folder], capture_output=True, check=False)  # noqa: S607


def contents(directory: Path) -> dict[str, bytes]:
    """Return the table and the finished runs, but not what was set aside."""
    files = [*directory.glob("*.csv"), *directory.glob("runs/??/*")]
    return {str(file.relative_to(directory)): file.read_bytes() for file in files}


def finished(directory: Path) -> list[Path]:
    return sorted(directory.glob("runs/??/*.zip"))


def damage(file: Path, other: Path, draw: random.Random) -> None:
    """Do to a stored run what disks, copies and people do."""
    content = bytearray(file.read_bytes())
    match draw.randrange(5):
        case 0:
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
            file.write_bytes(content)
        case 1:
            file.write_bytes(content[: draw.randrange(len(content))])
        case 2:
            file.write_bytes(bytes(len(content)))
        case 3:
            file.write_bytes(other.read_bytes())
        case _:
            file.unlink()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1])
def test_kills_and_damage_leave_no_trace(
    inside: Command, study: Path, whole: dict[str, bytes], tmp_path: Path, seed: int
) -> None:
    draw, out, killed = random.Random(seed), tmp_path / "out", 0  # noqa: S311
    for _ in range(ROUNDS):
        sweeps = [
            subprocess.Popen(
                [*COMMAND, "sweep", study, "--out", out, "--workers", "1"],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            )
            for _ in range(draw.randint(1, 2))
        ]  # fmt: skip
        wanted = len(finished(out)) + draw.randint(1, 4)
        while any(sweep.poll() is None for sweep in sweeps) and len(finished(out)) < min(wanted, RUNS):
            time.sleep(0.002)
        for sweep in sweeps:
            if draw.random() < 0.7:
                sweep.send_signal(signal.SIGKILL)
        for sweep in sweeps:
            said = sweep.communicate(timeout=300)[1]
            assert sweep.returncode in (0, -signal.SIGKILL), said
            assert "Traceback" not in said
            killed += sweep.returncode != 0
        there = finished(out)
        for file in draw.sample(there, draw.randint(0, min(3, len(there)))):
            if file.exists():
                damage(file, there[0], draw)
    assert killed, "every sweep was over before it could be killed"
    done = inside("sweep", study, "--out", out)
    assert done.returncode == 0, done.stderr
    # A bit that says nothing, such as one of a date, may stay flipped.
    assert inside("store", "verify", out).returncode == 0
    assert contents(out)["figure-1.csv"] == whole["figure-1.csv"]
    assert contents(out).keys() == whole.keys()
    assert not list((out / "runs" / ".unfinished").iterdir())


def resumed(inside: Command, study: Path, out: Path, whole: dict[str, bytes]) -> None:
    done = inside("sweep", study, "--out", out)
    assert done.returncode == 0, done.stderr
    assert contents(out) == whole


def test_a_limit_on_the_size_of_files_ends_a_sweep_with_one_message(
    inside: Command, study: Path, whole: dict[str, bytes], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    limit = max(len(content) for name, content in whole.items() if name.endswith(".zip")) - 1
    done = subprocess.run(
        [*COMMAND, "sweep", study, "--out", out],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "File too large" in done.stderr
    assert f"{len(finished(out))} of 18 runs are kept" in done.stderr
    resumed(inside, study, out, whole)


@pytest.mark.timeout(600)
def test_a_limit_on_the_size_of_files_ends_a_reproduction_with_one_message(study: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "reproduce", "paper", "--studies", study.parents[1], "--out", tmp_path / "out"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    # A recording that does not fit comes with the number of the error.
    assert re.search(r"File too large( \(os error 27\))?; finished runs are kept in", done.stderr)


@pytest.mark.parametrize("program", ["command", "library"])
def test_a_limit_on_the_size_of_files_leaves_the_results_of_the_run_before(
    incast: Command, small: Path, tmp_path: Path, program: str
) -> None:
    out = tmp_path / "out"
    assert incast("run", small, "--out", out, "--plots").returncode == 0
    kept = {file.name: file.read_bytes() for file in out.iterdir()}
    assert {"summary.json", "completion-times.png"} <= kept.keys()
    command = {
        "command": [*COMMAND, "run", str(small), "--seed", "2", "--out", str(out)],
        "library": [sys.executable, "-c", f"import incast; incast.run({str(small)!r}, seed=2).write({str(out)!r})"],
    }
    done = subprocess.run(
        command[program],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout
    assert "File too large" in done.stderr
    assert ("Traceback" in done.stderr) == (program == "library")
    assert {file.name: file.read_bytes() for file in out.iterdir()} == kept


def test_a_full_disk_ends_a_sweep_with_one_message(
    inside: Command, study: Path, whole: dict[str, bytes], tmpfs: Callable[[str], Path], tmp_path: Path
) -> None:
    needed = sum(map(len, whole.values()))
    out = tmpfs(f"size={needed // 2}") / "out"
    done = inside("sweep", study, "--out", out)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "No space left on device" in done.stderr
    assert f"{len(finished(out))} of 18 runs are kept" in done.stderr
    assert not list((out / "runs" / ".unfinished").iterdir())
    shutil.copytree(out, tmp_path / "out")
    resumed(inside, study, tmp_path / "out", whole)


def test_a_disk_that_cannot_be_written_to_is_named_before_anything_is_run(
    inside: Command, study: Path, tmpfs: Callable[[str], Path]
) -> None:
    out = tmpfs("ro") / "out"
    done = inside("sweep", study, "--out", out)
    assert (done.returncode, done.stderr.count("\n")) == (2, 2), done.stderr
    assert f"incast: {out}: cannot write results here: read-only file system\n" in done.stderr
    # What was finished before can still be looked at.
    assert inside("store", "ls", out.parent).returncode == 0
    assert os.listdir(out.parent) == []  # noqa: PTH208


# Loaded by Python before everything else. The clock of the machine is set by a year, there and back, between any two
# looks at it; the monotonic one goes on by an hour, as after a sleep.
JUMPING = """\
import datetime, itertools, time
wall, steady, looks = time.time(), time.monotonic(), itertools.count()
year, was_localtime, was_gmtime = 365 * 86400.0, time.localtime, time.gmtime
time.time = lambda: wall + (-1) ** next(looks) * year
time.time_ns = lambda: int(time.time() * 1e9)
time.monotonic = lambda: steady + 3600 * next(looks)
time.perf_counter = time.monotonic
time.localtime = lambda seconds=None: was_localtime(time.time() if seconds is None else seconds)
time.gmtime = lambda seconds=None: was_gmtime(time.time() if seconds is None else seconds)
class Jumping(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(time.time(), tz)
datetime.datetime = Jumping
open("jumped", "w").close()
"""


def test_a_sweep_whose_clock_jumps_has_the_same_bytes(
    incast: Command, study: Path, whole: dict[str, bytes], tmp_path: Path
) -> None:
    (tmp_path / "clock").mkdir()
    (tmp_path / "clock" / "sitecustomize.py").write_text(JUMPING, encoding="utf-8")
    jumping = {"PYTHONPATH": str(tmp_path / "clock")}
    done = incast("sweep", study, "--shard", "1/2", "--workers", "2", "--out", "out", **jumping)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "jumped").exists()
    # What was kept is from the next century, or from before there was a UNIX.
    for number, file in enumerate(sorted((tmp_path / "out").rglob("*"))):
        os.utime(file, (number % 2 * 4e9, number % 2 * 4e9))
    done = incast("sweep", study, "--out", "out", **jumping)
    assert done.returncode == 0, done.stderr
    assert f"{RUNS // 2:,} runs computed; {RUNS} of {RUNS} done" in done.stderr
    assert contents(tmp_path / "out") == whole
    done = incast("store", "verify", "out", **jumping)
    assert done.returncode == 0, done.stderr


def in_time_namespace(seconds: int) -> tuple[str, ...]:
    """Return how to start a program there, once it is known that this works."""
    command = shifted(seconds)
    done = subprocess.run(
        [*command, "cat", "/proc/self/timens_offsets"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        pytest.skip(f"needs a time namespace: {done.stderr.strip()}")
    assert done.stdout.split() == ["monotonic", str(seconds), "0", "boottime", str(seconds), "0"]
    return command


def test_a_sweep_that_goes_on_in_another_time_namespace_has_the_same_bytes(
    study: Path, whole: dict[str, bytes], tmp_path: Path
) -> None:
    """A container is stopped on a machine that was up for years, and goes on on one that was started just now."""
    out = tmp_path / "out"
    years, none = in_time_namespace(100_000_000), in_time_namespace(-int(time.monotonic()))
    command = [*COMMAND, "sweep", str(study), "--out", str(out), "--workers", "1"]
    first = subprocess.Popen([*years, *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while first.poll() is None and not finished(out):
        time.sleep(0.002)
    first.send_signal(signal.SIGINT)
    said = first.communicate(timeout=300)[1]
    kept = len(finished(out))
    assert first.returncode == 128 + signal.SIGINT, said
    assert 0 < kept < RUNS
    again = subprocess.run([*none, *command], capture_output=True, text=True, check=False, timeout=300)
    assert again.returncode == 0, again.stderr
    assert f"{RUNS - kept:,} runs computed; {RUNS} of {RUNS} done" in again.stderr
    assert contents(out) == whole
