"""A star of network namespaces: workers, a router as the switch, an aggregator behind a port that tbf shapes.

The namespaces have no names: they live as long as this process holds them open. The kernel removes them, with all
that is inside, however the process ends, so nothing can be left over and two runs cannot meet.
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import json
import os
import shutil
import socket
import struct
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_CLONE_NEWNET = 0x40000000
_SIOCETHTOOL = 0x8946
# ETHTOOL_GTSO and so on: what asks for an offload, and what sets it.
_OFFLOADS = {"tso": (0x1E, 0x1F), "gso": (0x23, 0x24), "gro": (0x2B, 0x2C)}
HERE = Path("/proc/thread-self/ns/net")
"""The namespace in which the calling thread is."""
_IPV4 = Path("/proc/sys/net/ipv4")
# Bytes that tbf lets through at once after a pause. One packet (1514) is the least; a timer that fires late by up to
# (3200 - 1514) bytes' time still costs no rate.
BURST_BYTES = 3200
_MOST_WORKERS = 250


class UnavailableError(RuntimeError):
    """The machine cannot carry the experiment out; the message is one line."""


@dataclass(frozen=True)
class Bottleneck:
    """The port to the aggregator."""

    rate_bps: int
    limit_bytes: int


class Star:
    """The namespaces of one run, and the sockets' way into them."""

    def __init__(self, workers: int, bottleneck: Bottleneck, sysctls: Mapping[str, int]) -> None:
        if not 1 <= workers <= _MOST_WORKERS:
            raise UnavailableError(f"{workers} workers: from 1 to {_MOST_WORKERS} are possible")
        require()
        self.workers = range(1, workers + 1)
        self._home = os.open(HERE, os.O_RDONLY | os.O_CLOEXEC)
        # 0 is the aggregator, as in the scenario; the last one is the switch.
        self._open = [made(self._home) for _ in range(workers + 2)]
        try:
            self._build(bottleneck)
            for host in (0, *self.workers):
                self.set(host, sysctls)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the namespaces; the kernel removes them once their sockets are closed."""
        for fd in self._open:
            os.close(fd)
        self._open = []
        os.close(self._home)

    @contextmanager
    def inside(self, host: int) -> Iterator[None]:
        """Be in the namespace of a host: for sockets, files below /proc/thread-self/net and sysctls."""
        enter(self._open[host])
        try:
            yield
        finally:
            enter(self._home)

    def address(self, host: int) -> str:
        """Return a host's address."""
        return f"10.9.{host}.2"

    def set(self, host: int, sysctls: Mapping[str, int]) -> None:
        """Set sysctls below net.ipv4 for one host and check that they took.

        Raises:
            UnavailableError: the kernel has no such sysctl, or refuses the value.

        """
        with self.inside(host):
            set_sysctls(sysctls)

    def text(self, host: int, name: str) -> str:
        """Return a file of /proc/net of a host."""
        with self.inside(host):
            return Path("/proc/thread-self/net", name).read_text(encoding="ascii")

    def port(self) -> dict[str, Any]:
        """Return the statistics of the port to the aggregator, as tc has them."""
        with self.inside(-1):
            told: list[dict[str, Any]] = json.loads(run("tc", "-s", "-j", "qdisc", "show", "dev", "p0"))
        return told[0]

    def _build(self, bottleneck: Bottleneck) -> None:
        hosts = (0, *self.workers)
        of_switch, pid = [], os.getpid()
        for host in hosts:
            peer = f"name eth0 address {_mac(host, 2)} netns /proc/{pid}/fd/{self._open[host]}"
            of_switch += [
                f"link add p{host} address {_mac(host, 1)} type veth peer {peer}",
                f"addr add 10.9.{host}.1/24 dev p{host}",
                f"link set p{host} up",
                # So that no ARP is exchanged during the experiment.
                f"neigh add {self.address(host)} lladdr {_mac(host, 2)} dev p{host} nud permanent",
            ]
        with self.inside(-1):
            batch(of_switch)
            Path("/proc/sys/net/ipv4/ip_forward").write_text("1\n", encoding="ascii")
            for host in hosts:
                no_offloads(f"p{host}")
        for host in hosts:
            with self.inside(host):
                batch(
                    [
                        "link set lo up",
                        f"addr add {self.address(host)}/24 dev eth0",
                        "link set eth0 up",
                        f"neigh add 10.9.{host}.1 lladdr {_mac(host, 1)} dev eth0 nud permanent",
                        f"route add default via 10.9.{host}.1",
                    ]
                )
                no_offloads("eth0")
        rate, limit = str(bottleneck.rate_bps), str(bottleneck.limit_bytes)
        with self.inside(-1):
            run(
                "tc",
                "qdisc",
                "add",
                "dev",
                "p0",
                "root",
                "tbf",
                "rate",
                rate,
                "burst",
                str(BURST_BYTES),
                "limit",
                limit,
            )


def made(home: int) -> int:
    """Make a namespace without IPv6, and go back to the one at home; return a file descriptor that holds it open."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET):
        error = os.strerror(ctypes.get_errno())
        raise UnavailableError(f"network namespaces cannot be made: {error} (root and CONFIG_NET_NS are needed)")
    there = os.open(HERE, os.O_RDONLY | os.O_CLOEXEC)
    for part in ("all", "default"):
        # No router solicitations and the like in the experiment.
        file = Path(f"/proc/sys/net/ipv6/conf/{part}/disable_ipv6")
        if file.exists():
            file.write_text("1\n", encoding="ascii")
    enter(home)
    return there


def set_sysctls(sysctls: Mapping[str, int]) -> None:
    """Set sysctls below net.ipv4 where the calling thread is, and check that they took.

    Raises:
        UnavailableError: the kernel has no such sysctl, or refuses the value.

    """
    for name, value in sysctls.items():
        file = _IPV4 / name
        try:
            file.write_text(f"{value}\n", encoding="ascii")
            found = int(file.read_text(encoding="ascii").split()[0])
        except FileNotFoundError:
            raise UnavailableError(f"this kernel has no sysctl net.ipv4.{name} ({os.uname().release})") from None
        except OSError as error:
            raise UnavailableError(f"net.ipv4.{name} = {value} is refused: {error.strerror}") from error
        if found != value:
            raise UnavailableError(f"net.ipv4.{name} is {found} after it was set to {value}")


def require() -> None:
    """Check what this machine has to have.

    Raises:
        UnavailableError: something is missing.

    """
    if not hasattr(os, "sched_setscheduler"):
        raise UnavailableError("this is not Linux")
    if os.geteuid() != 0:
        raise UnavailableError("root is needed for network namespaces and SCHED_FIFO")
    if missing := [name for name in ("ip", "tc") if shutil.which(name) is None]:
        raise UnavailableError(f"{' and '.join(missing)} not found (Debian, Ubuntu: apt-get install iproute2)")


def congestion_controls() -> list[str]:
    """Return what this kernel has."""
    return (_IPV4 / "tcp_available_congestion_control").read_text(encoding="ascii").split()


def _mac(host: int, end: int) -> str:
    return f"02:00:00:00:{host:02x}:{end:02x}"


def enter(fd: int) -> None:
    """Take the calling thread into a namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(fd, _CLONE_NEWNET):
        raise UnavailableError(f"a network namespace cannot be entered: {os.strerror(ctypes.get_errno())}")


def no_offloads(device: str) -> None:
    """Make a device carry packets as they are on a wire, and check that it does."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for name, (ask, change) in _OFFLOADS.items():
            for command in (change, ask):
                value = array.array("B", struct.pack("II", command, 0))
                where, _ = value.buffer_info()
                fcntl.ioctl(control, _SIOCETHTOOL, struct.pack("16sP", device.encode(), where).ljust(40, b"\0"))
            if struct.unpack("II", value.tobytes())[1] != 0:
                raise UnavailableError(f"{name} of {device} cannot be switched off")


def batch(commands: Sequence[str]) -> None:
    """Run many commands of `ip`, which stops at the first that fails."""
    run("ip", "-batch", "-", given="\n".join(commands) + "\n")


def run(*command: str, given: str = "") -> str:
    """Run a command and return what it printed.

    Raises:
        UnavailableError: it failed.

    """
    ended = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        said = (ended.stderr.strip() or f"exit status {ended.returncode}").splitlines()[0]
        raise UnavailableError(f"{' '.join(command)}: {said}")
    return ended.stdout
