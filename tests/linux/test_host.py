"""The remedies on the kernel: real connections through a real bottleneck, with what `incast-host attach` attaches.

They need root, a kernel with BTF and `make linux`. Where something is missing they are left out, in one line that says
what; `INCAST_KERNEL_TESTS=required` makes that a failure.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

import frames
from slow_port import HOST, RATE_BPS, RECEIVER, RECEIVER_V6, Attach, Bottleneck, Connection, run

ALGORITHMS = ["dctcp", "d2tcp", "mrg", "dcmrg", "pulser", "rdtcp", "swift"]
THRESHOLD_BYTES = 20_000
MEGABYTE = 1_000_000


Test: TypeAlias = Callable[..., None]


def again_if_programs_were_left_out(test: Test) -> Test:
    """Give a test three more chances where the kernel did not run the programs that it is about."""

    @functools.wraps(test)
    def tried(attach: Attach, bottleneck: Bottleneck, **others: object) -> None:
        for _ in range(3):
            try:
                return test(attach=attach, bottleneck=bottleneck, **others)
            except AssertionError:
                if not any(attached.left_out() for attached in attach.every):
                    raise
                attach.end()
            # A port that has counted nothing yet.
            bottleneck.stop()
            bottleneck.processes.clear()
            bottleneck.start()
        return test(attach=attach, bottleneck=bottleneck, **others)

    return tried


def named(algorithm: str) -> str:
    """Return a name that no other run registers."""
    return f"{algorithm[:6]}_{os.getpid()}"


def sender(algorithm: str, **parameters: object) -> dict[str, object]:
    return {"algorithm": algorithm, "name": named(algorithm), "parameters": parameters}


def request(bottleneck: Bottleneck, senders: list[dict[str, object]], **port: object) -> dict[str, object]:
    ports = [bottleneck.port(**port)] if port else []
    return {"cgroup": str(bottleneck.cgroup), "senders": senders, "ports": ports, "receivers": []}


def registered() -> list[str]:
    return Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()


@again_if_programs_were_left_out
def test_dctcp_cuts_by_the_share_of_marks_and_fills_no_buffer(attach: Attach, bottleneck: Bottleneck) -> None:
    attached = attach(request(bottleneck, [sender("dctcp")], ce_threshold_bytes=THRESHOLD_BYTES))
    assert attached.answer == {"ready": {"senders": [named("dctcp")]}}
    port = bottleneck.receiver(named("dctcp"))
    result = bottleneck.send(named("dctcp"), port, 6 * MEGABYTE).result()
    marks = attached.report()["ports"][0]["ce_marks"]
    assert (result["arrived"], result["ecn"]) == (6 * MEGABYTE, True)
    # A program that the kernel leaves out unseen costs a packet; a full buffer costs dozens.
    assert result["retransmitted"] <= 2
    assert bottleneck.drops() <= 2
    # Each mark is told of exactly, but for what the last delayed ACK mixes.
    assert marks > 50
    assert abs(result["delivered_ce"] - marks) <= 0.05 * marks
    # Alpha has settled: no cut takes nearly half, and the window is that of the pipe and the threshold.
    # One window in ten may be anything, for the machine has other work.
    settled = sorted(result["windows"][len(result["windows"]) // 2 :])
    low, high = settled[len(settled) // 10], settled[-1 - len(settled) // 10]
    assert low > 0.6 * high
    assert 8 <= low <= high <= 30
    assert attached.detach() == 0


def test_reno_on_the_same_port_fills_the_buffer(bottleneck: Bottleneck) -> None:
    """Without this the test above would show nothing."""
    port = bottleneck.receiver("reno")
    result = bottleneck.send("reno", port, 6 * MEGABYTE).result()
    assert result["arrived"] == 6 * MEGABYTE
    assert bottleneck.drops() > 10
    assert max(result["windows"]) > 40


@again_if_programs_were_left_out
def test_parameters_reach_the_kernel(attach: Attach, bottleneck: Bottleneck) -> None:
    """With an alpha of nothing that moves by 1/1024, marks end slow start and cut nothing."""
    middle = {}
    for name, parameters in (("as usual", {}), ("deaf", {"initial_alpha": 0, "shift": 10})):
        attached = attach(request(bottleneck, [sender("dctcp", **parameters)], ce_threshold_bytes=THRESHOLD_BYTES))
        port = bottleneck.receiver(named("dctcp"))
        result = bottleneck.send(named("dctcp"), port, 4 * MEGABYTE).result()
        assert (result["arrived"], result["ecn"]) == (4 * MEGABYTE, True)
        assert attached.report()["ports"][0]["ce_marks"] > 50
        assert attached.detach() == 0
        windows = sorted(result["windows"])
        middle[name] = windows[len(windows) // 2]
    assert middle["deaf"] > 1.3 * middle["as usual"]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@again_if_programs_were_left_out
def test_every_sender_delivers_every_byte_while_others_do_too(
    attach: Attach, bottleneck: Bottleneck, algorithm: str
) -> None:
    marking = {"ce_threshold_bytes": THRESHOLD_BYTES, "ein": {}}
    # Beside one that fills the buffer it would wait for a second before each segment.
    parameters = {"base_target": "5ms", "min_window": 1.0} if algorithm == "swift" else {}
    attached = attach(request(bottleneck, [sender(algorithm, **parameters)], **marking))
    ours, others = bottleneck.receiver(named(algorithm)), bottleneck.receiver("cubic")
    sent = [bottleneck.send(named(algorithm), ours, MEGABYTE) for _ in range(4)]
    sent.append(bottleneck.send("cubic", others, MEGABYTE))
    results = [each.result() for each in sent]
    assert [result["arrived"] for result in results] == 5 * [MEGABYTE]
    assert [result["ecn"] for result in results] == 4 * [algorithm not in ("mrg", "swift")] + [False]
    runs = {program["name"]: program["runs"] for program in attached.report()["programs"]}
    grows = "incast_swift_control" if algorithm == "swift" else "incast_cc_cong_avoid"
    assert runs[f"{named(algorithm)}.{grows}"] > 0
    attached.detach()


def acknowledge_at_once(bottleneck: Bottleneck) -> None:
    """Have the receiver's host delay no ACK, which with a window of one segment would be the round trip."""
    via = ("default", "via", "10.0.2.1", "quickack", "1")
    subprocess.run(["ip", "-n", bottleneck.netns("b"), "route", "replace", *via], check=True)


def waiting(bottleneck: Bottleneck, transfers: list[Connection]) -> int:
    """Look at the port's queue again and again while connections send; the packets in it, in the median."""
    command = ["tc", "-n", bottleneck.netns("switch"), "-s", "-j", "qdisc", "show", "dev", "b"]
    found = []
    for transfer in transfers:
        transfer.wait_for_handshake()
    while sum(transfer.sender.poll() is None for transfer in transfers) > len(transfers) // 2:
        found.append(int(json.loads(subprocess.check_output(command))[0]["qlen"]))
    return sorted(found)[len(found) // 2]


def test_swift_keeps_the_round_trip_at_its_target(attach: Attach, bottleneck: Bottleneck) -> None:
    """5 ms at 50 Mbit/s are 20 packets, and half of the buffer."""
    parameters = {"base_target": "5ms", "scaling_range": "0s"}
    attached = attach(request(bottleneck, [sender("swift", **parameters)]))
    assert attached.answer == {"ready": {"senders": [named("swift")]}}
    result = bottleneck.send(named("swift"), bottleneck.receiver("reno"), 6 * MEGABYTE).result()
    assert (result["arrived"], result["retransmitted"], bottleneck.drops()) == (6 * MEGABYTE, 0, 0)
    settled = sorted(result["windows"][len(result["windows"]) // 2 :])
    assert 12 <= settled[len(settled) // 10] <= settled[-1 - len(settled) // 10] <= 26
    assert attached.detach() == 0


def test_swift_has_windows_of_less_than_a_segment(attach: Attach, bottleneck: Bottleneck) -> None:
    """16 flows at 1 ms, which is the time of four packets: with a segment each there are always more in the queue."""
    acknowledge_at_once(bottleneck)
    found = []
    for least in (1.0, 0.01):
        parameters = {"base_target": "1ms", "scaling_range": "0s", "min_window": least}
        attached = attach(request(bottleneck, [sender("swift", **parameters)]))
        port = bottleneck.receiver("reno")
        transfers = [bottleneck.send(named("swift"), port, MEGABYTE // 2) for _ in range(16)]
        found.append(waiting(bottleneck, transfers))
        assert [transfer.result()["arrived"] for transfer in transfers] == 16 * [MEGABYTE // 2]
        assert attached.detach() == 0
    assert found[0] >= 10
    assert found[1] <= 7


@pytest.mark.parametrize("address", [RECEIVER, RECEIVER_V6])
@again_if_programs_were_left_out
def test_incast_marks_reach_the_senders_one_by_one(attach: Attach, bottleneck: Bottleneck, address: str) -> None:
    """Decided at dequeue, set at the other end of the wire, counted, told of in options, heard of by Pulser."""
    attached = attach(request(bottleneck, [sender("pulser")], ce_threshold_bytes=THRESHOLD_BYTES, ein={}))
    port = bottleneck.receiver(named("pulser"), address=address)
    transfers = [bottleneck.send(named("pulser"), port, MEGABYTE // 2, address=address) for _ in range(8)]
    results = [transfer.result() for transfer in transfers]
    assert [result["arrived"] for result in results] == 8 * [MEGABYTE // 2]
    report = attached.report()
    marks, sockets = report["ports"][0]["ein_marks"], report["sockets"]
    assert marks > 100
    # Handshakes and the ends of connections have no data, and what was lost behind the port is not here.
    assert 0.95 * marks <= sockets["marks_seen"] <= marks
    # The last ones may find their socket closed.
    assert sockets["options_written"] > 0
    assert sockets["options_written"] - 8 <= sockets["options_parsed"] <= sockets["options_written"]
    assert 0.95 * sockets["marks_seen"] <= sockets["marks_heard"] <= sockets["marks_seen"]
    assert sockets["acks_hurried"] <= sockets["marks_seen"]
    # Somebody has braked to the safe window.
    assert min(window for result in results for window in result["windows"]) <= 4


@again_if_programs_were_left_out
def test_marks_are_heard_of_late_and_not_lost_while_sack_blocks_fill_the_options(
    attach: Attach, bottleneck: Bottleneck
) -> None:
    """Without timestamps four blocks leave four bytes, and the count needs eight: it goes with an ACK that has room."""
    for host in ("a", "b"):
        bottleneck.set_sysctls(host, "net.ipv4.tcp_timestamps=0")
    # A small buffer, in which a growing window loses packets here and there.
    small = ("burst", "3200", "rate", str(RATE_BPS), "limit", "15000")
    run("tc", "-n", bottleneck.netns("switch"), "qdisc", "replace", "dev", "b", "root", "handle", "1:", "tbf", *small)
    # Marks while the queue grows, and a sender that does not brake for them.
    grows = {"growth": 0.01, "samples": 2, "high_water": 100}
    attached = attach(request(bottleneck, [sender("pulser", safe_window=1000)], ein=grows))
    port = bottleneck.receiver("reno")
    transfers = [bottleneck.send(named("pulser"), port, MEGABYTE // 2) for _ in range(8)]
    assert [transfer.result()["arrived"] for transfer in transfers] == 8 * [MEGABYTE // 2]
    sockets = attached.report()["sockets"]
    assert sockets["options_refused"] > 20
    assert sockets["marks_seen"] > 100
    # The last ones may find their socket closed.
    assert sockets["marks_seen"] - len(transfers) <= sockets["marks_heard"] <= sockets["marks_seen"]


@pytest.mark.parametrize("unaware", ["receiver", "sender"])
@again_if_programs_were_left_out
def test_a_peer_that_knows_nothing_of_incast_marks_is_not_harmed(
    attach: Attach, bottleneck: Bottleneck, unaware: str
) -> None:
    attached = attach(request(bottleneck, [sender("pulser")], ce_threshold_bytes=THRESHOLD_BYTES, ein={}))
    algorithms = {"sender": named("pulser"), "receiver": named("pulser"), unaware: "reno"}
    port = bottleneck.receiver(algorithms["receiver"], inside=unaware != "receiver")
    transfers = [
        bottleneck.send(algorithms["sender"], port, MEGABYTE // 2, inside=unaware != "sender") for _ in range(8)
    ]
    results = [transfer.result() for transfer in transfers]
    assert [(result["arrived"], result["ecn"]) for result in results] == 8 * [(MEGABYTE // 2, False)]
    report = attached.report()
    assert report["ports"][0]["ein_marks"] > 0
    assert (report["sockets"]["options_written"] > 0) == (unaware == "sender")
    assert report["sockets"]["options_parsed"] == 0


@pytest.mark.parametrize("algorithm", ["d2tcp", "dcmrg"])
@again_if_programs_were_left_out
def test_a_near_deadline_gets_more_than_a_distant_one(attach: Attach, bottleneck: Bottleneck, algorithm: str) -> None:
    """Both send 8 MB, which takes 2.6 s for both: one within 1.4 s, the other within a minute."""
    attached = attach(request(bottleneck, [sender(algorithm)], ce_threshold_bytes=THRESHOLD_BYTES))
    port = bottleneck.receiver(named(algorithm))
    deadlines = (1_400_000, 60_000_000)
    near, distant = (bottleneck.send(named(algorithm), port, 8 * MEGABYTE, within_us) for within_us in deadlines)
    shares = []
    for transfer in (near, distant):
        # While both send.
        windows = transfer.result()["windows"][100:500]
        shares.append(sum(windows) / len(windows))
    assert shares[0] > 1.15 * shares[1], shares
    attached.detach()


def test_a_message_is_told_by_a_socket_option(attach: Attach, bottleneck: Bottleneck) -> None:
    """Of the right size, at the right level, and where it is attached."""
    code = """if True:
        import errno, socket, struct
        def told(level, name, value):
            with socket.socket() as tried:
                try:
                    tried.setsockopt(level, name, value)
                except OSError as error:
                    return errno.errorcode[error.errno]
                return "told"
        message = struct.pack("QQ", 1, 1)
        print(told(0x1ca5, 1, message), told(0x1ca5, 2, message), told(0x1ca5, 1, message[1:]))
        print(told(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1))
    """
    enter = f'echo $$ > {bottleneck.cgroup}/cgroup.procs && exec "$@"'
    command = ["sh", "-c", enter, "sh", sys.executable, "-c", code]
    assert subprocess.check_output(command, text=True).split() == ["ENOPROTOOPT"] * 3 + ["told"]
    attached = attach(request(bottleneck, []))
    # Number 2 is a receiver's.
    assert subprocess.check_output(command, text=True).split() == ["told", "ENOPROTOOPT", "EINVAL", "told"]
    assert attached.detach() == 0


def test_what_is_no_ip_packet_passes_the_port_without_a_mark(attach: Attach, bottleneck: Bottleneck) -> None:
    """Once its queue has grown this port marks all that it can: datagrams, and those with a VLAN's tag."""
    everything = {"growth": 0, "samples": 1, "high_water": 0}
    attached = attach(request(bottleneck, [], ein=everything))
    counting = bottleneck.start_program("b", "frames.py", "count", RECEIVER)
    assert counting.stdout is not None
    port = counting.stdout.readline().strip()
    sending = bottleneck.start_program("switch", "frames.py", "send", "b", port)
    assert sending.wait() == 0
    counted = json.loads(counting.stdout.read())
    assert counted["came"] == frames.DATAGRAMS + 1
    assert counted["marked"] > frames.DATAGRAMS // 2
    marks = attached.report()["ports"][0]["ein_marks"]
    # A few packets are the kernel's own, and fewer than there are of any kind of frame.
    others = marks - counted["marked"] - frames.EACH
    assert 0 <= others < frames.EACH, (counted, marks)


def test_what_was_attached_goes_with_the_process_in_mid_transfer(attach: Attach, bottleneck: Bottleneck) -> None:
    wanted = request(bottleneck, [sender("pulser")], ce_threshold_bytes=THRESHOLD_BYTES, ein={})
    attached = attach(wanted)
    assert named("pulser") in registered()
    port = bottleneck.receiver(named("pulser"))
    transfers = [bottleneck.send(named("pulser"), port, 2 * MEGABYTE) for _ in range(4)]
    for transfer in transfers:
        transfer.wait_for_handshake()
    while attached.report()["ports"][0]["ein_marks"] == 0:
        time.sleep(0.01)
    attached.process.send_signal(signal.SIGKILL)
    attached.process.wait()
    assert named("pulser") not in registered()
    # Connections keep what they began with, and end well.
    assert [transfer.result()["arrived"] for transfer in transfers] == 4 * [2 * MEGABYTE]
    again = attach(wanted)
    assert again.answer == {"ready": {"senders": [named("pulser")]}}
    assert again.report()["ports"] == [{"ce_marks": 0, "ein_marks": 0}]
    assert again.detach() == 0
    assert named("pulser") not in registered()


def test_the_doctor_names_what_is_missing_and_what_to_do() -> None:
    def doctor(*wrapper: str) -> tuple[int, dict[str, str]]:
        done = subprocess.run([*wrapper, HOST, "doctor"], stdout=subprocess.PIPE, text=True, check=False)
        split = (line.split(maxsplit=1) for line in done.stdout.splitlines())
        return done.returncode, {found.partition(":")[0]: verdict for verdict, found in split}

    status, found = doctor()
    assert (status, set(found.values())) == (0, {"ok"})
    status, without = doctor("setpriv", "--bounding-set", "-all")
    assert (status, without["rights"], without["kernel"]) == (1, "MISSING", "ok")
    assert without.keys() == found.keys()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"cgroup": "/nowhere"}, "cgroup /nowhere: No such file or directory"),
        ({"cgroup": "/proc"}, "/proc is no cgroup of version 2"),
        ({"senders": [{"algorithm": "hpcc", "name": "h"}]}, 'senders[0].algorithm is "hpcc"; allowed: dctcp, '),
        ({"senders": [{"algorithm": "dctcp", "name": "cubic"}]}, 'the kernel has a congestion control "cubic" already'),
        ({"ports": [{"netns": "/nowhere"}]}, "missing field"),
    ],
)
def test_a_request_that_cannot_be_met_is_answered_by_one_line(
    attach: Attach, change: dict[str, object], error: str
) -> None:
    attached = attach({"cgroup": None, "senders": [], "ports": [], "receivers": [], **change})
    assert error in attached.answer["error"]
    assert attached.process.wait() == 1
