"""Sweeps on a real Slurm, a real sshd and a real Dask, all on this machine; whatever is killed, nothing is lost.

`make test-cluster` installs what they need and runs them.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Command, small_paper

pytestmark = [
    pytest.mark.skipif(not os.environ.get("INCAST_CLUSTER_TESTS"), reason="make test-cluster runs them"),
    pytest.mark.timeout(300),
]

HERE = Path(__file__).parent
DASK = [str(Path(sys.executable).with_name("dask"))]


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Return a study whose runs are long enough that a kill meets some of them."""
    file = small_paper(tmp_path) / "figure-1.toml"
    scenario = file.parent / "scenarios" / "small.toml"
    scenario.write_text(scenario.read_text(encoding="utf-8").replace("rounds = 2", "rounds = 600"), encoding="utf-8")
    return file


@pytest.fixture
def whole(inside: Command, study: Path, tmp_path: Path) -> dict[str, bytes]:
    """Return the files of a sweep to which nothing happens."""
    done = inside("sweep", study, "--out", "whole")
    assert done.returncode == 0, done.stderr
    return contents(tmp_path / "whole")


def contents(directory: Path) -> dict[str, bytes]:
    files = [*directory.glob("*.csv"), *directory.glob("runs/??/*")]
    return {str(file.relative_to(directory)): file.read_bytes() for file in files}


def begun(study: Path, out: Path, on: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "incast", "sweep", str(study), "--out", str(out), "--on", on]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def until(runs: int, out: Path, process: subprocess.Popen[str]) -> None:
    """Wait until this many runs are done."""
    while process.poll() is None and len(list(out.glob("runs/??/*.zip"))) < runs:
        time.sleep(0.005)
    assert process.poll() is None, "the sweep was over before anything could be killed"


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Start a Slurm of one machine; return its folder."""
    folder = tmp_path / "slurm"
    subprocess.run([HERE / "slurm.sh", "start", folder], check=True)
    monkeypatch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
    yield folder
    subprocess.run([HERE / "slurm.sh", "stop", folder], check=True)


def jobs() -> list[str]:
    listed = subprocess.run(
        ["squeue", "--noheader", "--array", "--format=%i", "-tR"], capture_output=True, text=True, check=True
    )  # fmt: skip
    return sorted(listed.stdout.split())


def test_jobs_and_the_controller_of_slurm_that_are_killed_lose_nothing(
    study: Path, whole: dict[str, bytes], tmp_path: Path, slurm: Path
) -> None:
    draw, out = random.Random(3), tmp_path / "out"  # noqa: S311
    sweeping = begun(study, out, "slurm:jobs=2,partition=test")
    until(draw.randint(1, 3), out, sweeping)
    subprocess.run(["scancel", "--signal=KILL", draw.choice(jobs())], check=True)
    until(draw.randint(4, 6), out, sweeping)
    # One that is killed within five seconds after a job began forgets it, and takes the machine out of service.
    began = time.time()
    while (slurm / "state" / "job_state").stat().st_mtime < began + 1:
        time.sleep(0.1)
    controller = int((slurm / "slurmctld.pid").read_text(encoding="ascii"))
    os.kill(controller, signal.SIGKILL)
    time.sleep(1)
    subprocess.run([HERE / "slurm.sh", "controller", slurm], check=True)
    said = sweeping.communicate(timeout=200)[1]
    assert sweeping.returncode == 0, said
    assert "18 of 18 done" in said
    assert contents(out) == whole
    assert not (out / "runs" / ".jobs").exists()


def test_ctrl_c_cancels_jobs_of_slurm_and_keeps_what_is_done(
    inside: Command, study: Path, whole: dict[str, bytes], tmp_path: Path, slurm: Path
) -> None:
    assert slurm.is_dir()
    out = tmp_path / "out"
    sweeping = begun(study, out, "slurm:jobs=2")
    until(2, out, sweeping)
    sweeping.send_signal(signal.SIGINT)
    said = sweeping.communicate(timeout=60)[1]
    assert sweeping.returncode == 130, said
    assert "of 18 runs are kept" in said
    for _ in range(100):
        if not jobs():
            break
        time.sleep(0.1)
    assert not jobs()
    # The array of shards of a job script does the rest.
    for shard in ("1/2", "2/2"):
        submitted = [sys.executable, "-m", "incast", "sweep", str(study), "--out", str(out), "--shard", shard]
        subprocess.run(["srun", *submitted], check=True, capture_output=True)
    assert "0 runs computed" in inside("sweep", study, "--out", out).stderr
    assert contents(out) == whole


@pytest.fixture
def sshd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Start an sshd, and have ssh reach it under the names `one` and `two`."""
    folder = tmp_path / "ssh"
    folder.mkdir(mode=0o700)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    Path("/run/sshd").mkdir(exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\n"
        f"StrictModes no\nPidFile none\nUsePAM no\nPermitRootLogin yes\n",
        encoding="utf-8",
    )
    (folder / "config").write_text(
        f"Host one two\n HostName 127.0.0.1\n Port {port}\n IdentityFile {folder}/user\n"
        f" StrictHostKeyChecking no\n UserKnownHostsFile /dev/null\n LogLevel ERROR\n",
        encoding="utf-8",
    )
    ssh = folder / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/config "$@"\n', encoding="utf-8")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")
    daemon = subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", folder / "sshd_config"], stderr=subprocess.DEVNULL)
    yield
    daemon.kill()
    daemon.wait()


def workers() -> list[int]:
    listed = subprocess.run(["pgrep", "-f", "incast.studies.worker"], capture_output=True, text=True, check=False)
    return sorted(map(int, listed.stdout.split()))


@pytest.mark.usefixtures("sshd")
def test_workers_of_hosts_that_are_killed_lose_nothing(study: Path, whole: dict[str, bytes], tmp_path: Path) -> None:
    draw, out, before = random.Random(4), tmp_path / "out", workers()  # noqa: S311
    sweeping = begun(study, out, "ssh:one,two")
    until(draw.randint(2, 5), out, sweeping)
    # One of those under the daemon, not ssh itself, whose arguments name it, too.
    mine = [
        one for one in workers() if one not in before and (Path("/proc") / str(one) / "comm").read_text() != "ssh\n"
    ]
    os.kill(draw.choice(mine), signal.SIGKILL)
    said = sweeping.communicate(timeout=100)[1]
    assert sweeping.returncode == 0, said
    assert contents(out) == whole
    for _ in range(100):
        if workers() == before:
            break
        time.sleep(0.1)
    assert workers() == before


class Cluster:
    """A scheduler of Dask and its workers, each a process."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self.scheduler = self.started("scheduler", "--host", "127.0.0.1", "--port", self.address.split(":")[-1])
        self.workers = [self.worker() for _ in range(2)]

    def worker(self) -> subprocess.Popen[bytes]:
        """Start a worker."""
        return self.started("worker", self.address, "--nthreads", "1", "--no-nanny")

    def started(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a process."""
        with (self._folder / "dask.log").open("ab") as log:
            process = subprocess.Popen([*DASK, *words, "--no-dashboard"], cwd=self._folder, stdout=log, stderr=log)
        self._processes.append(process)
        return process

    def close(self) -> None:
        """Kill all processes."""
        for process in self._processes:
            process.kill()
            process.wait()


def test_workers_and_schedulers_of_dask_that_are_killed_lose_nothing(
    study: Path, whole: dict[str, bytes], tmp_path: Path
) -> None:
    draw = random.Random(5)  # noqa: S311
    out = tmp_path / "out"

    cluster = Cluster(tmp_path)
    try:
        sweeping = begun(study, out, f"dask:{cluster.address}")
        until(draw.randint(1, 4), out, sweeping)
        victim = draw.randrange(2)
        cluster.workers[victim].send_signal(signal.SIGKILL)
        cluster.workers[victim] = cluster.worker()
        until(draw.randint(6, 9), out, sweeping)
        assert sweeping.poll() is None, "the sweep was over before its scheduler could be killed"
        cluster.scheduler.send_signal(signal.SIGKILL)
        said = sweeping.communicate(timeout=60)[1]
        assert sweeping.returncode == 1, said
        assert "is gone; " in said, said
        assert "Traceback" not in said
    finally:
        cluster.close()
    cluster = Cluster(tmp_path)
    try:
        said = begun(study, out, f"dask:{cluster.address}").communicate(timeout=60)[1]
        assert "18 of 18 done" in said
    finally:
        cluster.close()
    assert contents(out) == whole
