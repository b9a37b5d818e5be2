"""The network: a client, a switch whose port to it is narrow, and servers with an address and a link each.

Three network namespaces without names, which live as long as this process holds them open. All servers are in one, and
behind an HTB class per address, far too fast to matter, with a tbf below it that is the server's link.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fan_in import dctcp
from fan_in.cells import MOST_LONG_FLOWS, MOST_WORKERS
from kernel_world import namespaces
from kernel_world.namespaces import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fan_in.cells import Cell

CLIENT, SWITCH, SERVERS = "client", "switch", "servers"
_CLIENT_ADDRESS, _CLIENT_GATEWAY = "10.8.0.1", "10.8.0.254"
_SERVER_GATEWAY = "10.9.0.254"
_ADDRESSES = MOST_WORKERS + MOST_LONG_FLOWS
_LEAF_BURST_BYTES, _LEAF_LIMIT_BYTES = 3200, 4_000_000
_LEAF_MBPS = 100


def address(worker: int) -> str:
    """Return the address of a server, from 0 on. Long flows come from those after the workers."""
    return f"10.9.0.{worker + 1}"


class Fabric:
    """The namespaces of a run, and the ways into them."""

    def __init__(self) -> None:
        namespaces.require()
        self._home = os.open(namespaces.HERE, os.O_RDONLY | os.O_CLOEXEC)
        self._open = {name: namespaces.made(self._home) for name in (CLIENT, SWITCH, SERVERS)}
        self._dctcp: dctcp.Attached | None = None
        self._link_mbps = 0
        try:
            self._build()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the namespaces; the kernel removes them when the last process and socket in them has ended."""
        self._detach()
        for fd in self._open.values():
            os.close(fd)
        self._open = {}
        os.close(self._home)

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """Be in a namespace: for sockets, processes that are started, files below /proc/thread-self/net."""
        namespaces.enter(self._open[name])
        try:
            yield
        finally:
            namespaces.enter(self._home)

    def enter(self, name: str) -> None:
        """Go into a namespace for good."""
        namespaces.enter(self._open[name])

    def counters(self) -> tuple[int, int]:
        """Return file descriptors of what the servers' kernel counts: /proc/net/netstat and snmp."""
        with self.inside(SERVERS):
            found = [os.open(f"/proc/thread-self/net/{name}", os.O_RDONLY) for name in ("netstat", "snmp")]
        return found[0], found[1]

    def drops(self) -> int:
        """Return how many packets the port to the client has dropped since it was set."""
        with self.inside(SWITCH):
            told: list[dict[str, Any]] = json.loads(namespaces.run("tc", "-s", "-j", "qdisc", "show", "dev", "client"))
        return int(told[0]["drops"])

    def check_control(self, control: str) -> None:
        """Check that all connections of servers have a congestion control, and ECN if it needs that.

        Raises:
            UnavailableError: one has not.

        """
        with self.inside(SERVERS):
            told = namespaces.run("ss", "-tionH", "state", "established", "src", "10.9.0.0/24")
        lines = [line.split() for line in told.splitlines() if "rto:" in line]
        needed = {dctcp.NAME, "ecn"} if control == "dctcp" else {control}
        if not lines or any(not needed.issubset(words) for words in lines):
            raise UnavailableError(
                f"not all connections of servers have congestion control {' and '.join(sorted(needed))}"
            )

    def set(self, cell: Cell) -> None:
        """Make the network that of a cell."""
        if cell.control != "dctcp" and cell.control not in (there := namespaces.congestion_controls()):
            raise UnavailableError(f"this kernel has no {cell.control} ({', '.join(there)} are there)")
        self._detach()
        self._links(max(cell.rate_mbps, _LEAF_MBPS))
        with self.inside(SWITCH):
            # Anew, so that its counters begin at zero and it is empty.
            namespaces.run("tc", "qdisc", "del", "dev", "client", "root")
            self._port(cell.rate_mbps * 10**6, cell.burst_bytes, cell.buffer_bytes)
        if cell.control == "dctcp":
            self._dctcp = dctcp.Attached(self._marking_port(cell))
        for name, gateway in ((CLIENT, _CLIENT_GATEWAY), (SERVERS, _SERVER_GATEWAY)):
            with self.inside(name):
                namespaces.run(
                    "ip", "route", "replace", "default", "via", gateway, "congctl", _kernel_name(cell.control)
                )
        with self.inside(SERVERS):
            namespaces.set_sysctls({"tcp_early_retrans": 3 if cell.probes else 0})

    def _marking_port(self, cell: Cell) -> dict[str, Any]:
        inside = f"/proc/{os.getpid()}/fd"
        return {
            "netns": f"{inside}/{self._open[SWITCH]}",
            "device": "client",
            "peer_netns": f"{inside}/{self._open[CLIENT]}",
            "peer_device": "eth0",
            "rate_bps": cell.rate_mbps * 10**6,
            "ce_threshold_bytes": dctcp.MARKED_FROM_BYTES,
            "ein": None,
        }

    def _detach(self) -> None:
        if self._dctcp is not None:
            self._dctcp.close()
            self._dctcp = None

    @staticmethod
    def _port(rate_bps: int, burst_bytes: int, limit_bytes: int) -> None:
        namespaces.run(
            "tc", "qdisc", "add", "dev", "client", "root",
            "tbf", "rate", str(rate_bps), "burst", str(burst_bytes), "limit", str(limit_bytes),
        )  # fmt: skip

    def _build(self) -> None:
        pid = os.getpid()
        far = {CLIENT: ("02:00:00:00:01:01", "02:00:00:00:01:02"), SERVERS: ("02:00:00:00:02:01", "02:00:00:00:02:02")}
        with self.inside(SWITCH):
            commands = []
            for name, gateway in ((CLIENT, _CLIENT_GATEWAY), (SERVERS, _SERVER_GATEWAY)):
                here, there = far[name]
                peer = f"name eth0 address {there} netns /proc/{pid}/fd/{self._open[name]}"
                commands += [
                    f"link add {name} address {here} type veth peer {peer}",
                    f"addr add {gateway}/24 dev {name}",
                    f"link set {name} up",
                ]
            # So that no ARP is exchanged while something is measured.
            commands.append(f"neigh add {_CLIENT_ADDRESS} lladdr {far[CLIENT][1]} dev client nud permanent")
            for worker in range(_ADDRESSES):
                commands.append(f"neigh add {address(worker)} lladdr {far[SERVERS][1]} dev servers nud permanent")
            namespaces.batch(commands)
            with open("/proc/sys/net/ipv4/ip_forward", "w", encoding="ascii") as file:  # noqa: PTH123
                file.write("1\n")
            namespaces.no_offloads("client")
            namespaces.no_offloads("servers")
            self._port(100_000_000, 16_000, 65_536)
        self._host(CLIENT, [_CLIENT_ADDRESS], _CLIENT_GATEWAY, far[CLIENT][0])
        self._host(SERVERS, [address(worker) for worker in range(_ADDRESSES)], _SERVER_GATEWAY, far[SERVERS][0])
        with self.inside(SERVERS):
            namespaces.run("tc", "-batch", "-", given="\n".join(_classes()) + "\n")
        self._links(_LEAF_MBPS)

    def _links(self, mbps: int) -> None:
        """Give each server a link of its own."""
        if mbps == self._link_mbps:
            return
        kind = f"tbf rate {mbps}mbit burst {_LEAF_BURST_BYTES} limit {_LEAF_LIMIT_BYTES}"
        commands = [
            f"qdisc replace dev eth0 parent 1:{worker + 1:x} handle 1{worker + 1:03x}: {kind}"
            for worker in range(_ADDRESSES)
        ]
        with self.inside(SERVERS):
            namespaces.run("tc", "-batch", "-", given="\n".join(commands) + "\n")
        in_order = mbps > _LEAF_MBPS
        if in_order != (self._link_mbps > _LEAF_MBPS):
            for name, devices in ((CLIENT, ["eth0"]), (SWITCH, ["client", "servers"]), (SERVERS, ["eth0"])):
                with self.inside(name):
                    self._keep_in_order(devices, in_order)
        self._link_mbps = mbps

    @staticmethod
    def _keep_in_order(devices: list[str], wanted: bool) -> None:
        """Have one CPU take all packets of these devices if that is `wanted`, and any CPU otherwise.

        With several, packets may overtake each other. At 100 Mbit/s they rarely do.
        """
        script = ["mount -t sysfs sysfs /sys"]
        script += [f"echo {int(wanted)} > /sys/class/net/{device}/queues/rx-0/rps_cpus" for device in devices]
        # A sysfs shows the devices of the namespace in which it was mounted, so this process mounts one of its own.
        namespaces.run("unshare", "--mount", "sh", "-ec", "\n".join(script))

    def _host(self, name: str, addresses: list[str], gateway: str, beside: str) -> None:
        with self.inside(name):
            namespaces.batch(
                [
                    "link set lo up",
                    *(f"addr add {one}/24 dev eth0" for one in addresses),
                    "link set eth0 up",
                    f"neigh add {gateway} lladdr {beside} dev eth0 nud permanent",
                    f"route add default via {gateway}",
                ]
            )
            namespaces.no_offloads("eth0")
            # What one repetition has learned of the path must not be there in the next.
            namespaces.set_sysctls({"tcp_no_metrics_save": 1})


def _kernel_name(control: str) -> str:
    return dctcp.NAME if control == "dctcp" else control


def _classes() -> list[str]:
    """Return the commands of tc that tell the packets of servers from one another."""
    commands = ["qdisc add dev eth0 root handle 1: htb"]
    for worker in range(_ADDRESSES):
        number = f"{worker + 1:x}"
        commands += [
            f"class add dev eth0 parent 1: classid 1:{number} htb rate 10gbit quantum 1514",
            f"filter add dev eth0 parent 1: protocol ip u32 match ip src {address(worker)}/32 flowid 1:{number}",
        ]
    return commands
