"""What the kernel tests share: a bottleneck of network namespaces, connections through it, and `incast-host attach`."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

HOST = Path(os.environ.get("INCAST_HOST", Path(sys.executable).parent / "incast-host"))
HERE = Path(__file__).parent
RATE_BPS = 50_000_000
BUFFER_BYTES = 65_536
RECEIVER = "10.0.2.2"
RECEIVER_V6 = "fd00:2::2"
_numbers = itertools.count()


def cgroup_root() -> Path | None:
    """Where cgroups of version 2 are mounted."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, path, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(path)
    return None


def missing() -> str | None:
    """Say what these tests need and do not find."""
    if platform.system() != "Linux":
        return "this is not Linux"
    if os.geteuid() != 0:
        return "they need root"
    if not Path("/sys/kernel/btf/vmlinux").exists():
        return "the kernel has no BTF (CONFIG_DEBUG_INFO_BTF)"
    for tool in ("ip", "tc"):
        if shutil.which(tool) is None:
            return f"there is no {tool} (Debian, Ubuntu: apt-get install iproute2)"
    if cgroup_root() is None:
        return "no cgroups of version 2 are mounted"
    if not HOST.exists():
        return f"there is no {HOST}: run make linux"
    return None


def run(*command: str) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def eventually(holds: Callable[[], bool]) -> None:
    for _ in range(500):
        if holds():
            return
        time.sleep(0.02)
    pytest.fail("this has not happened within 10 s")


def close(process: subprocess.Popen[str]) -> None:
    """End a process, if it has not ended, and what it was connected by."""
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
    process.wait()


@dataclass
class Connection:
    """One transfer, while it runs."""

    sender: subprocess.Popen[str]
    connected: bool = False

    def wait_for_handshake(self) -> None:
        """Wait until both ends have chosen their congestion controls."""
        assert self.sender.stdout is not None
        self.connected = self.connected or self.sender.stdout.readline() == "connected\n"
        assert self.connected

    def result(self) -> dict[str, Any]:
        """Wait until all bytes were acknowledged, and return what the sender saw."""
        self.wait_for_handshake()
        assert self.sender.stdout is not None
        out = self.sender.stdout.read()
        assert self.sender.wait() == 0, out
        result: dict[str, Any] = json.loads(out)
        return result


@dataclass
class Bottleneck:
    """A sender's host, a switch and a receiver's host; the port to the receiver has a buffer and a rate."""

    name: str
    cgroup: Path
    processes: list[subprocess.Popen[str]] = field(default_factory=list)
    queues: int = 1
    """Of each device. With several the port has mq, and each queue a share of rate and buffer."""

    def netns(self, host: str) -> str:
        return f"{self.name}-{host}"

    def start(self) -> None:
        for host in ("a", "switch", "b"):
            run("ip", "netns", "add", self.netns(host))
            run("ip", "-n", self.netns(host), "link", "set", "dev", "lo", "up")
            # Nobody else is on these links, and to look for them takes seconds.
            self.set_sysctls(host, "net.ipv6.conf.all.accept_dad=0", "net.ipv6.conf.default.accept_dad=0")
        self.set_sysctls("switch", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
        for number, host in enumerate(("a", "b"), 1):
            here, switch = self.netns(host), self.netns("switch")
            queues = ("numtxqueues", str(self.queues), "numrxqueues", str(self.queues))
            peer = ("peer", "name", host, "netns", switch, *queues)
            run("ip", "link", "add", "eth0", "netns", here, *queues, "type", "veth", *peer)
            # Packets as on a wire: segments are not joined.
            run("ip", "-n", here, "link", "set", "dev", "eth0", "gso_max_segs", "1", "up")
            run("ip", "-n", switch, "link", "set", "dev", host, "up")
            run("ip", "-n", here, "addr", "add", f"10.0.{number}.2/24", "dev", "eth0")
            run("ip", "-n", switch, "addr", "add", f"10.0.{number}.1/24", "dev", host)
            run("ip", "-n", here, "route", "add", "default", "via", f"10.0.{number}.1")
            run("ip", "-n", here, "addr", "add", f"fd00:{number}::2/64", "dev", "eth0")
            run("ip", "-n", switch, "addr", "add", f"fd00:{number}::1/64", "dev", host)
            run("ip", "-n", here, "route", "add", "default", "via", f"fd00:{number}::1")
        for host in ("a", "b"):
            # Some kernels leave programs out for packets that no thread receives (docs/how-to/linux-host.md).
            run("ip", "netns", "exec", self.netns(host), sys.executable, str(HERE / "threaded.py"), "eth0")
        self.shape()
        self.cgroup.mkdir()

    def shape(self) -> None:
        change = ("tc", "-n", self.netns("switch"), "qdisc", "add", "dev", "b")
        places: list[tuple[str, ...]] = [("root", "handle", "1:")]
        if self.queues > 1:
            run(*change, "root", "handle", "1:", "mq")
            # Numbers of classes are hexadecimal.
            places = [("parent", f"1:{number:x}", "handle", f"1{number:02x}:") for number in range(1, self.queues + 1)]
        for place in places:
            rate, limit = str(RATE_BPS // self.queues), str(BUFFER_BYTES // self.queues)
            run(*change, *place, "tbf", "burst", "3200", "rate", rate, "limit", limit)

    def stop(self) -> None:
        for process in self.processes:
            close(process)
        for host in ("a", "switch", "b"):
            subprocess.run(["ip", "netns", "del", self.netns(host)], check=False, stderr=subprocess.DEVNULL)
        with contextlib.suppress(FileNotFoundError):
            self.cgroup.rmdir()

    def port(self, **keys: object) -> dict[str, object]:
        """Return the port as a request names it."""
        switch, host = f"/run/netns/{self.netns('switch')}", f"/run/netns/{self.netns('b')}"
        port = {"netns": switch, "device": "b", "peer_netns": host, "peer_device": "eth0", "rate_bps": RATE_BPS}
        return {**port, "ce_threshold_bytes": None, "ein": None, **keys}

    def start_program(self, host: str, program: str, *arguments: str, inside: bool = True) -> subprocess.Popen[str]:
        """Start one of the programs beside this file at a host, in the cgroup or not."""
        enter = f"echo $$ > {self.cgroup}/cgroup.procs && " if inside else ""
        command = [f'{enter}exec "$@"', "sh", "ip", "netns", "exec", self.netns(host), sys.executable]
        process = subprocess.Popen(
            ["sh", "-c", *command, str(HERE / program), *arguments], stdout=subprocess.PIPE, text=True
        )
        self.processes.append(process)
        return process

    def receiver(self, algorithm: str, *, inside: bool = True, address: str = RECEIVER) -> int:
        """Receive whatever comes; the port number."""
        process = self.start_program("b", "peer.py", "receive", algorithm, address, inside=inside)
        assert process.stdout is not None
        return int(process.stdout.readline())

    def send(
        self, algorithm: str, port: int, size: int, within_us: int = 0, *, inside: bool = True, address: str = RECEIVER
    ) -> Connection:
        arguments = (algorithm, address, str(port), str(size), str(within_us))
        return Connection(self.start_program("a", "peer.py", "send", *arguments, inside=inside))

    def set_sysctls(self, host: str, *settings: str) -> None:
        """Set what a host's network namespace has of its own, as `net.ipv4.ip_forward=1`."""
        run("ip", "netns", "exec", self.netns(host), "sysctl", "-qw", *settings)

    def shapers(self) -> list[dict[str, Any]]:
        """Return what the queues of the port have counted."""
        shown = subprocess.check_output(["tc", "-n", self.netns("switch"), "-s", "-j", "qdisc", "show", "dev", "b"])
        return [each for each in json.loads(shown) if each["kind"] == "tbf"]

    def drops(self) -> int:
        return sum(int(each["drops"]) for each in self.shapers())


@dataclass
class Attached:
    """A process of `incast-host attach`, and its answer."""

    process: subprocess.Popen[str]
    answer: dict[str, Any]
    unanswered: int = 0
    """Calls of programs that the kernel left out, as far as was seen when it detached."""

    def report(self) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write('"report"\n')
        self.process.stdin.flush()
        report: dict[str, Any] = json.loads(self.process.stdout.readline())
        return report

    def left_out(self) -> int:
        """Return how many calls of programs the kernel left out (docs/how-to/linux-host.md)."""
        if "ready" in self.answer and self.process.poll() is None:
            self.unanswered = self.report()["sockets"]["unanswered"]
        return self.unanswered

    def detach(self) -> int:
        self.left_out()
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(timeout=30)


def require() -> None:
    """Leave a module of tests out, loudly, or fail where it may not be left out."""
    why = missing()
    if why is not None and os.environ.get("INCAST_KERNEL_TESTS") == "required":
        pytest.fail(f"the kernel tests are required, but {why}", pytrace=False)
    if why is not None:
        pytest.skip(f"THE KERNEL TESTS ARE LEFT OUT: {why}")


@dataclass
class Host:
    """`incast-host` with a directory of sockets of its own."""

    directory: str
    processes: list[subprocess.Popen[str]]

    def start(self, *arguments: str, wrapper: tuple[str, ...] = ()) -> tuple[subprocess.Popen[str], str]:
        """Start what goes on, and return it with the line by which it says that all is attached."""
        process = subprocess.Popen(
            [*wrapper, str(HOST), *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.env
        )
        self.processes.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "this ends with this process" in line, line
        return process, line

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([str(HOST), *arguments], capture_output=True, text=True, check=False, env=self.env)

    def say(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def status(self) -> list[dict[str, Any]]:
        enabled: list[dict[str, Any]] = json.loads(self.say("status", "--json"))["enabled"]
        return enabled

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "INCAST_HOST_RUN": self.directory}


@contextlib.contextmanager
def hosted() -> Iterator[Host]:
    """Have `incast-host` use a directory that goes with all that was started."""
    # Paths of sockets have to be short.
    host = Host(tempfile.mkdtemp(prefix="ih", dir="/tmp"), [])
    try:
        yield host
    finally:
        for process in host.processes:
            close(process)
        shutil.rmtree(host.directory)


def attach(request: object) -> Attached:
    process = subprocess.Popen([HOST, "attach"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write((request if isinstance(request, str) else json.dumps(request)) + "\n")
    process.stdin.flush()
    return Attached(process, json.loads(process.stdout.readline()))


@dataclass
class Attach:
    """Attaches what a request names, until the test ends at the latest."""

    every: list[Attached] = field(default_factory=list)

    def __call__(self, request: object) -> Attached:
        self.every.append(attach(request))
        return self.every[-1]

    def end(self) -> None:
        while self.every:
            close(self.every.pop().process)


@contextlib.contextmanager
def built(queues: int = 1) -> Iterator[Bottleneck]:
    """Build a bottleneck, and remove it whatever happens."""
    root = cgroup_root()
    assert root is not None
    # Short enough for names of namespaces, and no other run's.
    name = f"it{os.getpid()}x{next(_numbers)}"
    bottleneck = Bottleneck(name, root / name, queues=queues)
    try:
        bottleneck.start()
        yield bottleneck
    finally:
        bottleneck.stop()
