"""Receivers on the kernel: windows that `incast-host` sets, on real connections."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import loaded
from slow_port import HOST, RATE_BPS, Attach, Bottleneck, Host, close, eventually

RECEIVERS = ["ictcp", "dcmrg", "rdtcp", "static-window", "credit"]
MEGABYTE = 1_000_000
MSS = 1448
# What a header's field of windows counts in with the receive buffers of any machine: at most so many bytes.
LARGEST_UNIT = 1 << 14
THRESHOLD_BYTES = 20_000


def request(bottleneck: Bottleneck, algorithm: str, senders: list[str] | None = None, **parameters: object) -> object:
    netns = f"/run/netns/{bottleneck.netns('b')}"
    receiver = {
        "algorithm": algorithm,
        "parameters": parameters,
        "mss_bytes": MSS,
        "header_bytes": 66,
        "hosts": [{"netns": netns, "rate_bps": RATE_BPS, "device": "eth0"}],
    }
    named = [{"algorithm": each, "name": name(each)} for each in senders or []]
    ports = [bottleneck.port(ce_threshold_bytes=THRESHOLD_BYTES)] if senders else []
    return {"cgroup": str(bottleneck.cgroup), "senders": named, "ports": ports, "receivers": [receiver]}


def name(algorithm: str) -> str:
    """Return a name that no other run registers."""
    return f"{algorithm[:6]}_{os.getpid()}"


def largest_backlog(bottleneck: Bottleneck, until: threading.Event) -> int:
    """Look at the port's queue again and again; the most bytes that waited."""
    command = ["tc", "-n", bottleneck.netns("switch"), "-s", "-j", "qdisc", "show", "dev", "b"]
    most = 0
    while not until.is_set():
        most = max(most, json.loads(subprocess.check_output(command))[0]["backlog"])
    return most


def test_a_static_window_bounds_what_is_under_way(attach: Attach, bottleneck: Bottleneck) -> None:
    """Four flows of 8 KiB fit into the buffer of 64 KiB, which each of them fills and overflows without."""
    window, flows = 8 << 10, 4
    attached = attach(request(bottleneck, "static-window", window="8KiB"))
    assert attached.answer == {"ready": {"senders": []}}
    port = bottleneck.receiver("reno")
    transfers = [bottleneck.send("reno", port, MEGABYTE) for _ in range(flows)]
    for transfer in transfers:
        transfer.wait_for_handshake()
    ended, found = threading.Event(), []
    watching = threading.Thread(target=lambda: found.append(largest_backlog(bottleneck, ended)))
    watching.start()
    results = [transfer.result() for transfer in transfers]
    ended.set()
    watching.join()
    assert [result["arrived"] for result in results] == flows * [MEGABYTE]
    assert bottleneck.drops() == 0
    # The header's field rounds, by less than a unit.
    announced = max(most for result in results for most in result["announced"])
    assert announced <= window + MSS // 4 or announced - window < LARGEST_UNIT
    segments = announced // MSS + 1
    assert 0 < found[0] <= flows * segments * (MSS + 66)
    (counted,) = attached.report()["receivers"]
    assert (counted["flows"], counted["flows_refused"]) == (0, 0)
    # Senders acknowledge little, so that most ACKs are the receiver's.
    assert counted["windows_set"] > flows * MEGABYTE / MSS / 4


@pytest.mark.parametrize("algorithm", RECEIVERS)
def test_every_receiver_delivers_every_byte_and_drops_less(
    attach: Attach, bottleneck: Bottleneck, algorithm: str
) -> None:
    """With buffers of their own, four flows lose dozens of packets here."""
    parameters: dict[str, Any] = {
        # The path has 10 ms with its buffer full; ICTCP leaves those of 2 ms alone.
        "ictcp": {"rtt_limit": "50ms", "slot_floor": "1ms"},
        "rdtcp": {"queue_maxsize": 30},
        "static-window": {"window": "8KiB"},
        "credit": {"closes": False, "budget": "40KB"},
    }
    attached = attach(request(bottleneck, algorithm, **parameters.get(algorithm, {})))
    port = bottleneck.receiver("reno")
    results = [each.result() for each in [bottleneck.send("reno", port, MEGABYTE) for _ in range(4)]]
    assert [result["arrived"] for result in results] == 4 * [MEGABYTE]
    assert bottleneck.drops() <= 20
    runs = {program["name"]: program["runs"] for program in attached.report()["programs"]}
    # Packets may come joined.
    assert runs["receivers[0].incast_receive"] > 100
    assert attached.detach() == 0


def answering(bottleneck: Bottleneck, address: str = "10.0.1.2") -> str:
    """Start the host on the other side; the port number at which it answers."""
    servers = bottleneck.start_program("a", "query.py", "answer", address, inside=False)
    assert servers.stdout is not None
    return servers.stdout.readline().strip()


def query(
    bottleneck: Bottleneck, connections: int, size: int, rounds: int, how: str, address: str = "10.0.1.2"
) -> dict[str, Any]:
    """Let the host behind the port query a host on the other side, over several connections at once."""
    arguments = ("ask", address, answering(bottleneck, address), str(connections), str(size), str(rounds), how)
    client = bottleneck.start_program("b", "query.py", *arguments)
    assert client.stdout is not None
    result: dict[str, Any] = json.loads(client.stdout.read())
    return result


@pytest.mark.parametrize("how", ["told", "learned"])
def test_credit_has_an_incast_fit_its_port(attach: Attach, bottleneck: Bottleneck, how: str) -> None:
    """First windows of 16 answers are 240 KB at once, over a port of 64 KiB. With credit 16 x 2 segments are 48 KB."""
    connections, size, rounds, budget = 16, 60_000, 4, 40_000
    plain = query(bottleneck, connections, size, rounds, "learned")
    assert plain["arrived"] == rounds * [connections * size]
    lost = bottleneck.drops()
    assert lost > 20
    attached = attach(request(bottleneck, "credit", closes=False, budget=f"{budget}B"))
    asked = query(bottleneck, connections, size, rounds, how)
    assert asked["arrived"] == rounds * [connections * size]
    assert bottleneck.drops() == lost
    assert asked["announced"] <= budget
    (counted,) = attached.report()["receivers"]
    assert counted["flows_refused"] == 0
    # One answer alone has what the budget has room for, as it grows by what arrives: more than it began with.
    alone = query(bottleneck, 1, 500_000, 2, how)
    assert alone["arrived"] == 2 * [500_000]
    assert 10 * MSS < alone["announced"] <= budget
    assert bottleneck.drops() == lost
    assert attached.detach() == 0


@pytest.mark.parametrize(("how", "most_lost"), [("told", 0), ("learned", 100)])
def test_credit_that_closes_windows_has_any_incast_fit_its_port(
    attach: Attach, bottleneck: Bottleneck, how: str, most_lost: int
) -> None:
    """Two segments of 64 connections are 190 KB at once, over a port of 64 KiB: most wait with closed windows.

    Without credit some 2000 packets are lost. Of a size that is learned the guess may be too large.
    """
    connections, size, rounds, budget = 64, 30_000, 4, 40_000
    attached = attach(request(bottleneck, "credit", budget=f"{budget}B"))
    asked = query(bottleneck, connections, size, rounds, how)
    assert asked["arrived"] == rounds * [connections * size]
    assert bottleneck.drops() <= most_lost
    assert asked["announced"] <= budget
    (counted,) = attached.report()["receivers"]
    assert counted["flows_refused"] == 0
    assert counted["windows_opened"] > connections
    assert attached.detach() == 0


def window_probes(bottleneck: Bottleneck) -> int:
    """Count how often the host on the other side had to ask for a window that nobody had opened."""
    text = subprocess.check_output(
        ["ip", "netns", "exec", bottleneck.netns("a"), "cat", "/proc/net/netstat"], text=True
    )
    lines = [line.split() for line in text.splitlines()]
    (names, counts) = (line for line in lines if line[0] == "TcpExt:")
    return int(dict(zip(names, counts, strict=True))["TCPWinProbe"])


def test_what_nobody_can_expect_comes_through_windows_that_are_closed(attach: Attach, bottleneck: Bottleneck) -> None:
    """Responses that are larger than the last one, or than was told, requests together, and what the server ends."""
    attached = attach(request(bottleneck, "credit", budget="40KB"))
    asked = bottleneck.start_program("b", "query.py", "surprise", "10.0.1.2", answering(bottleneck))
    assert asked.stdout is not None
    took = json.loads(asked.stdout.read())
    assert set(took) >= {"much more", "two at once", "more than was told", "after a pause", "end"}
    assert window_probes(bottleneck) == 0, took
    (counted,) = attached.report()["receivers"]
    assert counted["windows_opened"] > 0


def test_windows_that_were_closed_open_again_when_the_process_is_killed(attach: Attach, bottleneck: Bottleneck) -> None:
    """Then senders ask, and TCP answers as it has always done."""
    connections, size, rounds = 64, 30_000, 6
    attached = attach(request(bottleneck, "credit", budget="40KB"))
    arguments = ("10.0.1.2", answering(bottleneck), str(connections), str(size), str(rounds), "learned")
    asked = bottleneck.start_program("b", "query.py", "ask", *arguments)
    eventually(lambda: attached.report()["receivers"][0]["windows_opened"] > connections)
    attached.process.kill()
    assert asked.stdout is not None
    assert json.loads(asked.stdout.read())["arrived"] == rounds * [connections * size]


@pytest.mark.parametrize(("sender", "receiver"), [("dcmrg", "dcmrg"), ("rdtcp", "rdtcp"), ("dctcp", "ictcp")])
def test_a_sender_and_a_receiver_work_together(
    attach: Attach, bottleneck: Bottleneck, sender: str, receiver: str
) -> None:
    attached = attach(request(bottleneck, receiver, [sender]))
    assert attached.answer == {"ready": {"senders": [name(sender)]}}
    port = bottleneck.receiver(name(sender))
    transfers = [bottleneck.send(name(sender), port, MEGABYTE, within_us=2_000_000) for _ in range(4)]
    results = [transfer.result() for transfer in transfers]
    assert [(result["arrived"], result["ecn"]) for result in results] == 4 * [(MEGABYTE, True)]
    report = attached.report()
    assert report["receivers"][0]["windows_set"] > 0
    runs = {program["name"]: program["runs"] for program in report["programs"]}
    assert runs[f"{name(sender)}.incast_cc_in_ack_event"] > 0
    assert attached.detach() == 0


def test_the_verifier_has_room_for_every_receiver(attach: Attach, bottleneck: Bottleneck) -> None:
    """It gives up after a million instructions, and needs more on some kernels than on others."""
    # Credit by default closes windows.
    forms: list[tuple[str, dict[str, Any]]] = [(algorithm, {}) for algorithm in RECEIVERS]
    forms.append(("credit", {"closes": False}))
    for algorithm, form in forms:
        before = set(loaded.numbers("prog"))
        attached = attach(request(bottleneck, algorithm, None, **form))
        needed = {
            name: struct.unpack_from("I", info, loaded.VERIFIED)[0]
            for number, name, info in loaded.programs()
            if number not in before
        }
        assert "incast_receive" in needed
        assert max(needed.values()) < 700_000, (algorithm, needed)
        assert attached.detach() == 0


def test_what_will_come_is_told_by_a_socket_option(attach: Attach, bottleneck: Bottleneck) -> None:
    """Bytes and microseconds, with a coflow or without; more than four at once are too many."""
    code = """if True:
        import errno, socket, struct
        def told(connection, value):
            try:
                connection.setsockopt(0x1ca5, 2, value)
            except OSError as error:
                return errno.errorcode[error.errno]
            return "told"
        with socket.create_server(("127.0.0.1", 0)) as listening:
            connection = socket.create_connection(listening.getsockname())
            values = [struct.pack("QQ", 1000, 0), struct.pack("QQQ", 1000, 5000, 7), bytes(8), bytes(32)]
            print(*(told(connection, value) for value in values))
            print(*(told(connection, values[0]) for _ in range(3)))
    """
    enter = f'echo $$ > {bottleneck.cgroup}/cgroup.procs && exec "$@"'
    inside = ["ip", "netns", "exec", bottleneck.netns("b"), sys.executable, "-c", code]
    command = ["sh", "-c", enter, "sh", *inside]
    assert subprocess.check_output(command, text=True).split() == 7 * ["ENOPROTOOPT"]
    attached = attach(request(bottleneck, "dcmrg"))
    said = subprocess.check_output(command, text=True).split()
    assert said == ["told", "told", "EINVAL", "EINVAL", "told", "told", "EBUSY"]
    assert attached.detach() == 0


def test_a_receiver_is_enabled_and_gives_windows_back_when_it_ends(host: Host, bottleneck: Bottleneck) -> None:
    inside = ("nsenter", f"--net=/run/netns/{bottleneck.netns('b')}")
    place = ("--cgroup", str(bottleneck.cgroup))
    enabled, line = host.start(
        "enable", "static-window", *place, "--dev", "eth0", "--rate", "50Mbps", "--set", "window=3000B", wrapper=inside
    )
    assert line.startswith("static-window sets the windows of new connections")
    # The sender's end is not in the cgroup.
    transfer = bottleneck.send("reno", bottleneck.receiver("reno"), 6 * MEGABYTE, inside=False)
    transfer.wait_for_handshake()
    (status,) = host.status()
    assert (status["kind"], status["name"], status["rate_bps"]) == ("receiver", "static-window", RATE_BPS)
    assert status["connections_open"] == 1
    assert "static-window sets windows for" in host.say("status")
    assert "already" in host.run("enable", "ictcp", *place, "--dev", "lo", "--rate", "1Gbps").stderr
    host.say("disable", *place)
    assert enabled.wait(timeout=30) == 0
    result = transfer.result()
    assert result["arrived"] == 6 * MEGABYTE
    assert result["announced"][0] < LARGEST_UNIT
    assert result["announced"][-1] > 2 * LARGEST_UNIT


def test_credit_that_closes_windows_is_enabled_and_shown_and_knows_ipv6(host: Host, bottleneck: Bottleneck) -> None:
    inside = ("nsenter", f"--net=/run/netns/{bottleneck.netns('b')}")
    arguments = ("--cgroup", str(bottleneck.cgroup), "--dev", "eth0", "--rate", "50Mbps", "--set", "budget=40KB")
    # As docs/how-to/linux-host.md says: these rights, and no other.
    rights = ("setpriv", "--bounding-set", "-all,+bpf,+net_admin,+perfmon,+net_raw")
    enabled, _ = host.start("enable", "credit", *arguments, "--set", "closes=true", wrapper=(*inside, *rights))
    # Threads that send ACKs have no rights either.
    threads = Path(f"/proc/{enabled.pid}/task").iterdir()
    found = {line for each in threads for line in (each / "status").read_text().splitlines() if line[:6] == "CapEff"}
    assert found == {"CapEff:\t0000000000000000"}
    asked = query(bottleneck, 64, 30_000, 2, "told", address="fd00:1::2")
    assert asked["arrived"] == 2 * [64 * 30_000]
    assert bottleneck.drops() == 0
    assert host.status()[0]["counts"]["windows_opened"] > 64
    assert "times by an ACK for that alone" in host.say("status")
    host.say("disable")
    assert enabled.wait(timeout=30) == 0


@pytest.fixture
def below(bottleneck: Bottleneck) -> Iterator[Path]:
    """Make a cgroup in the bottleneck's."""
    directory = bottleneck.cgroup / "below"
    directory.mkdir()
    yield directory
    for process in bottleneck.processes:
        close(process)
    directory.rmdir()


@pytest.mark.parametrize("killed", [False, True], ids=["ended", "killed"])
def test_windows_come_back_in_other_namespaces(host: Host, bottleneck: Bottleneck, below: Path, killed: bool) -> None:
    """The process is at the switch, and the connection's end at another host, in a cgroup below."""
    inside = ("nsenter", f"--net=/run/netns/{bottleneck.netns('switch')}")
    above = bottleneck.cgroup
    enabled, _ = host.start(
        "enable", "static-window", "--cgroup", str(above), "--dev", "b", "--rate", "50Mbps", "--set", "window=3000B",
        wrapper=inside,
    )  # fmt: skip
    bottleneck.cgroup = below
    port = bottleneck.receiver("reno")
    bottleneck.cgroup = above
    transfer = bottleneck.send("reno", port, 6 * MEGABYTE, inside=False)
    # The kernel chooses anew with the first segments that come.
    eventually(lambda: host.status()[0]["counts"]["windows_set"] > 100)
    if killed:
        enabled.kill()
        enabled.wait()
        said = host.say("restore", "--windows", str(above))
        # The socket that listens is one, too.
        assert said.split(" connections have their windows back")[0] in ("1", "2")
    else:
        host.say("restore")
        assert enabled.wait(timeout=30) == 0
    result = transfer.result()
    assert result["arrived"] == 6 * MEGABYTE
    assert result["announced"][0] < LARGEST_UNIT
    assert result["announced"][-1] > 2 * LARGEST_UNIT


def test_windows_of_other_cgroups_stay_as_they_are(host: Host, bottleneck: Bottleneck, below: Path) -> None:
    # Otherwise the kernel raises the window by itself, with the buffer, once the application reads more at a time.
    bottleneck.set_sysctls("b", "net.ipv4.tcp_moderate_rcvbuf=0")
    inside = ("nsenter", f"--net=/run/netns/{bottleneck.netns('b')}")
    enabled, _ = host.start(
        "enable", "static-window", "--cgroup", str(bottleneck.cgroup), "--dev", "eth0", "--rate", "50Mbps",
        "--set", "window=3000B", wrapper=inside,
    )  # fmt: skip
    transfer = bottleneck.send("reno", bottleneck.receiver("reno"), 6 * MEGABYTE, inside=False)
    eventually(lambda: host.status()[0]["counts"]["windows_set"] > 100)
    enabled.kill()
    enabled.wait()
    said = host.say("restore", "--windows", str(below))
    assert said == "0 connections have their windows back\nnothing is enabled\n"
    result = transfer.result()
    assert result["arrived"] == 6 * MEGABYTE
    assert max(result["announced"]) < LARGEST_UNIT


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["ictcp", "--dev", "lo"], "ictcp needs --cgroup PATH"),
        (["ictcp", "--cgroup", "/proc"], "ictcp needs --dev IFACE"),
        (["ictcp", "--cgroup", "/proc", "--dev", "lo"], "add --rate"),
        (["ictcp", "--cgroup", "/proc", "--dev", "lo", "--rate", "1Gbps"], "no cgroup of version 2"),
        (["rdtcp", "--receiver", "--cgroup", "/proc", "--dev", "lo", "--rate", "1Gbps", "--set", "strict=true"],
         "strict is true; allowed: "),
        (["credit", "--cgroup", "/proc", "--dev", "lo", "--rate", "1Gbps", "--set", "gives_up=true"],
         "gives_up is true; allowed: false"),
        (["ictcp", "--cgroup", "/proc", "--dev", "lo", "--port", "::/0"], "--port is not for ictcp"),
    ],
)  # fmt: skip
def test_what_cannot_be_enabled_is_said_in_one_line(arguments: list[str], error: str) -> None:
    done = subprocess.run([HOST, "enable", *arguments], stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert error in done.stderr
    assert done.stderr.count("\n") == 1
