"""`incast-host enable` and the commands beside it, on real connections."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import frames
import tunnel
from slow_port import (
    BUFFER_BYTES,
    HERE,
    HOST,
    RATE_BPS,
    RECEIVER,
    RECEIVER_V6,
    Bottleneck,
    Host,
    attach,
    built,
    cgroup_root,
    close,
    eventually,
)

THRESHOLD_BYTES = 20_000
MEGABYTE = 1_000_000
# How often the process is killed: 100 for `make test-kills`.
KILLS = int(os.environ.get("INCAST_KILLS", "10"))


@pytest.fixture
def marking(bottleneck: Bottleneck) -> Iterator[None]:
    """Have the port set CE."""
    port = bottleneck.port(ce_threshold_bytes=THRESHOLD_BYTES)
    attached = attach({"cgroup": None, "senders": [], "ports": [port], "receivers": []})
    yield
    close(attached.process)


def registered() -> str:
    return Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text()


def programs(*of: str, inside: str | None = None) -> int:
    """Count what is attached to a cgroup or a device."""
    enter = ["ip", "netns", "exec", inside] if inside else []
    return int(subprocess.check_output([*enter, sys.executable, str(HERE / "attached.py"), *of]))


def left(host: Host) -> list[Path]:
    """List the sockets."""
    return list(Path(host.directory).iterdir())


@pytest.mark.usefixtures("marking")
def test_a_cgroup_is_under_one_sender_as_long_as_the_process_lives(host: Host, bottleneck: Bottleneck) -> None:
    """Applications choose reno; one of them listened before."""
    before = bottleneck.receiver("reno")
    command = ["enable", "dctcp", "--cgroup", str(bottleneck.cgroup)]
    process, line = host.start(*command)
    name = host.status()[0]["name"]
    assert f"{bottleneck.cgroup} use {name};" in line
    after = bottleneck.receiver("reno")
    for port in (before, after):
        result = bottleneck.send("reno", port, 2 * MEGABYTE).result()
        assert (result["arrived"], result["ecn"]) == (2 * MEGABYTE, True)
        assert result["delivered_ce"] > 0
    again = host.run(*command)
    assert (again.returncode, again.stderr.split(" has ")[0]) == (1, str(bottleneck.cgroup))
    assert f"{name} already, by process {process.pid}" in again.stderr
    assert programs("cgroup", str(bottleneck.cgroup)) == 3
    process.kill()
    process.wait()
    assert name not in registered().split()
    assert programs("cgroup", str(bottleneck.cgroup)) == 0
    # Those that listened meanwhile are as before, too.
    for port in (before, after):
        result = bottleneck.send("reno", port, MEGABYTE).result()
        assert (result["arrived"], result["ecn"], result["delivered_ce"]) == (MEGABYTE, False, 0)
    # The socket that is left is removed with the next look.
    assert left(host) != []
    assert host.say("status") == "nothing is enabled\n"
    assert left(host) == []


def test_only_connections_with_named_peers_are_put_under_a_sender(host: Host, bottleneck: Bottleneck) -> None:
    ports = {
        (address, n): bottleneck.receiver("reno", address=address)
        for address in (RECEIVER, RECEIVER_V6)
        for n in (0, 1)
    }
    tail = ("--port", "10.0.0.0/16", "--port", f"[fd00::/16]:{ports[RECEIVER_V6, 1]}")
    host.start("enable", "dctcp", "--cgroup", str(bottleneck.cgroup), *tail)
    with_ecn = {}
    for (address, n), port in ports.items():
        result = bottleneck.send("reno", port, 10_000, address=address).result()
        assert result["arrived"] == 10_000
        with_ecn[address, n] = result["ecn"]
    assert with_ecn == {(RECEIVER, 0): True, (RECEIVER, 1): True, (RECEIVER_V6, 0): False, (RECEIVER_V6, 1): True}
    # Both ends of three connections.
    assert host.status()[0]["counts"]["connections_begun"] == 6


def test_incast_marks_are_believed_only_from_named_peers(host: Host, bottleneck: Bottleneck) -> None:
    port = bottleneck.port(ein={"growth": 0, "samples": 1, "high_water": 0})
    marking = attach({"cgroup": None, "senders": [], "ports": [port], "receivers": []})
    host.start("enable", "pulser", "--cgroup", str(bottleneck.cgroup), "--port", "10.0.0.0/8")
    seen = []
    for address in (RECEIVER_V6, RECEIVER):
        listening = bottleneck.receiver("reno", address=address)
        transfers = [bottleneck.send("reno", listening, MEGABYTE // 2, address=address) for _ in range(4)]
        assert [transfer.result()["arrived"] for transfer in transfers] == 4 * [MEGABYTE // 2]
        counts = host.status()[0]["counts"]
        seen.append((marking.report()["ports"][0]["ein_marks"], counts["marks_seen"], counts["marks_heard"]))
    close(marking.process)
    assert seen[0][0] > 100
    assert seen[0][1:] == (0, 0)
    assert seen[1][1] > 100
    assert seen[1][2] > 0.9 * seen[1][1]


@pytest.mark.usefixtures("marking")
def test_switching_moves_connections_and_loses_none(host: Host, bottleneck: Bottleneck) -> None:
    host.start("enable", "dctcp", "--cgroup", str(bottleneck.cgroup), "--port", "10.0.0.0/8")
    port = bottleneck.receiver("reno")
    transfers = [bottleneck.send("reno", port, 4 * MEGABYTE) for _ in range(4)]
    for transfer in transfers:
        transfer.wait_for_handshake()
    for algorithm, more in (("pulser", ()), ("pulser", ("--set", "safe_window=4")), ("mrg", ()), ("d2tcp", ())):
        before = host.status()[0]["name"]
        assert f" instead of {before};" in host.say("switch", algorithm, *more)
        now = host.status()[0]
        assert (now["algorithm"], now["name"] != before) == (algorithm, True)
        assert before not in registered().split()

        def all_have_moved(name: str = now["name"]) -> bool:
            flows = host.status()[0]["flows"]
            # Receivers send nothing, so they have no round trips.
            sending = [flow for flow in flows if flow["remote"].endswith(f":{port}")]
            return len(sending) == 4 and all(flow["algorithm"] == name for flow in sending)

        eventually(all_have_moved)
    assert [transfer.result()["arrived"] for transfer in transfers] == 4 * [4 * MEGABYTE]
    assert host.status()[0]["counts"]["connections_moved"] >= 16


def test_a_connection_without_ecn_is_not_moved_to_a_sender_that_needs_it(host: Host, bottleneck: Bottleneck) -> None:
    host.start("enable", "mrg", "--cgroup", str(bottleneck.cgroup))
    name = host.status()[0]["name"]
    port = bottleneck.receiver("reno")
    transfer = bottleneck.send("reno", port, 3 * MEGABYTE)
    transfer.wait_for_handshake()
    host.say("switch", "dctcp")
    later = bottleneck.send("reno", port, MEGABYTE).result()
    assert (later["arrived"], later["ecn"]) == (MEGABYTE, True)
    flows = host.status()[0]["flows"]
    assert [flow["algorithm"] for flow in flows if flow["remote"].endswith(f":{port}")] in ([name], [])
    result = transfer.result()
    assert (result["arrived"], result["ecn"]) == (3 * MEGABYTE, False)
    assert host.status()[0]["counts"]["connections_moved"] == 0


@pytest.mark.usefixtures("marking")
def test_every_byte_arrives_however_often_the_process_is_killed(host: Host, bottleneck: Bottleneck) -> None:
    """There are always transfers while the process is killed and begins again, with connections of the one before."""
    port = bottleneck.receiver("reno")
    size = MEGABYTE // 4
    running = [bottleneck.send("reno", port, size) for _ in range(3)]
    for count in range(KILLS):
        algorithm = ("dctcp", "pulser")[count % 2]
        process, _ = host.start("enable", algorithm, "--cgroup", str(bottleneck.cgroup), "--port", "10.0.0.0/8")
        running.append(bottleneck.send("reno", port, size))
        running[-1].wait_for_handshake()
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert programs("cgroup", str(bottleneck.cgroup)) == 0
        result = running.pop(0).result()
        assert result["arrived"] == size
        if result["ecn"]:
            assert result["windows"][-1] >= 1
    assert [transfer.result()["arrived"] for transfer in running] == 3 * [size]


def test_restore_frees_connections_from_what_was_killed(host: Host, bottleneck: Bottleneck) -> None:
    """They would keep its programs in the kernel to their end."""

    def shown() -> str:
        inside = ["ip", "netns", "exec", bottleneck.netns("a")]
        return subprocess.check_output([*inside, "ss", "-Htin", "state", "established"], text=True)

    process, _ = host.start("enable", "dctcp", "--cgroup", str(bottleneck.cgroup))
    name = host.status()[0]["name"]
    transfer = bottleneck.send("reno", bottleneck.receiver("reno"), 8 * MEGABYTE)
    transfer.wait_for_handshake()
    assert name in shown()
    process.kill()
    process.wait()
    assert host.say("restore").splitlines()[-1] == "nothing is enabled"
    assert name not in shown()
    assert transfer.result()["arrived"] == 8 * MEGABYTE


def test_status_can_be_watched(host: Host, bottleneck: Bottleneck) -> None:
    host.start("enable", "mrg", "--cgroup", str(bottleneck.cgroup))
    command = [str(HOST), "status", "--watch", "0.05", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=host.env) as watching:
        assert watching.stdout is not None
        shown = (json.loads(line)["enabled"][0]["algorithm"] for line in watching.stdout)
        assert [next(shown), next(shown)] == ["mrg", "mrg"]
        host.say("switch", "dctcp")
        # Some were shown before, and wait to be read.
        assert "dctcp" in itertools.islice(shown, 200)
        watching.kill()


CAPABILITIES = "+cap_12,+cap_38,+cap_39"
# As root, and as somebody else, with three rights.
WITH_RIGHTS = {
    "root": ("setpriv", "--bounding-set", f"-all,{CAPABILITIES}", "--inh-caps", f"-all,{CAPABILITIES}"),
    "nobody": ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps",
               f"-all,{CAPABILITIES}", "--ambient-caps", CAPABILITIES),
}  # fmt: skip


def test_the_doctor_wants_no_more_than_three_rights() -> None:
    done = subprocess.run([*WITH_RIGHTS["nobody"], str(HOST), "doctor"], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert all(line.startswith("ok ") for line in done.stdout.splitlines())


@pytest.mark.usefixtures("marking")
@pytest.mark.parametrize("who", WITH_RIGHTS)
def test_three_rights_are_enough_and_are_given_up(host: Host, bottleneck: Bottleneck, who: str) -> None:
    Path(host.directory).chmod(0o777)
    command = ("enable", "dctcp", "--cgroup", str(bottleneck.cgroup), "--metrics", "0")
    process, _ = host.start(*command, wrapper=WITH_RIGHTS[who])
    own = Path(f"/proc/{process.pid}/status").read_text()
    for line in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert f"{line}:\t0000000000000000\n" in own, own
    assert "NoNewPrivs:\t1\n" in own
    for thread in Path(f"/proc/{process.pid}/task").iterdir():
        assert "CapEff:\t0000000000000000\n" in (thread / "status").read_text()
    result = bottleneck.send("reno", bottleneck.receiver("reno"), MEGABYTE).result()
    assert (result["arrived"], result["ecn"]) == (MEGABYTE, True)
    assert host.status()[0]["counts"]["connections_begun"] == 2
    # Who switches needs the rights again.
    switched = subprocess.run(
        [*WITH_RIGHTS[who], str(HOST), "switch", "d2tcp"], env=host.env, check=False, capture_output=True, text=True
    )
    assert switched.returncode == 0, switched.stderr
    assert host.status()[0]["algorithm"] == "d2tcp"
    assert host.say("restore").splitlines()[-1] == "nothing is enabled"
    assert process.wait() == 0
    assert left(host) == []
    assert programs("cgroup", str(bottleneck.cgroup)) == 0


def test_three_rights_are_enough_for_ports_too(host: Host, bottleneck: Bottleneck) -> None:
    Path(host.directory).chmod(0o777)
    inside = ("ip", "netns", "exec", bottleneck.netns("switch"), *WITH_RIGHTS["nobody"])
    enabled, _ = host.start("enable", "ein", "--dev", "b", "--ce", "20KB", wrapper=inside)
    out = tempfile.mkdtemp(dir=host.directory)
    Path(out).chmod(0o777)
    sampling = subprocess.Popen(
        [*inside, str(HOST), "sample", "--dev", "b", "--out", f"{out}/s"], stdout=subprocess.PIPE, text=True
    )
    host.processes.append(sampling)
    assert sampling.stdout is not None
    assert sampling.stdout.readline().startswith("sampling b every ")
    for process in (enabled, sampling):
        assert "CapEff:\t0000000000000000\n" in Path(f"/proc/{process.pid}/status").read_text()
    assert bottleneck.send("reno", bottleneck.receiver("reno"), MEGABYTE).result()["arrived"] == MEGABYTE
    assert host.status()[0]["counts"]["ein_marks"] > 0
    sampling.send_signal(signal.SIGINT)
    assert sampling.wait() == 130
    (_, outgoing) = json.loads(Path(f"{out}/s/summary.json").read_text())["directions"]
    assert outgoing["bytes"] > MEGABYTE
    shutil.rmtree(out)


def test_a_service_manager_is_told_when_all_is_attached(host: Host, bottleneck: Bottleneck) -> None:
    path = f"{host.directory}/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.bind(path)
        command = ("enable", "dctcp", "--cgroup", str(bottleneck.cgroup))
        host.start(*command, wrapper=("env", f"NOTIFY_SOCKET={path}"))
        notified.settimeout(10)
        assert notified.recv(100).decode().strip() == "READY=1"
    Path(path).unlink()


def test_the_unit_of_systemd_is_sound(tmp_path: Path) -> None:
    unit = (HERE.parents[1] / "packaging" / "incast-host@.service").read_text()
    assert "CapabilityBoundingSet=CAP_BPF CAP_NET_ADMIN CAP_PERFMON\n" in unit
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("there is no systemd-analyze (Debian, Ubuntu: apt-get install systemd)")
    # What it starts has to be there.
    installed = tmp_path / "incast-host@.service"
    installed.write_text(unit.replace("/usr/local/bin/incast-host", "/bin/true"))
    done = subprocess.run([analyze, "verify", installed], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def said_under_systemd(probe: str, folder: Path) -> list[str]:
    """Return the lines that a script says under a systemd that has the unit, in namespaces of its own."""
    if not Path("/lib/systemd/systemd").exists():
        pytest.skip("there is no systemd (Debian, Ubuntu: apt-get install systemd)")
    (folder / "probe").write_text(probe)
    root = cgroup_root()
    assert root is not None
    # Cgroups of systemd and of the unit are below one that goes with the test.
    group = root / f"incast-unit-{os.getpid()}"
    group.mkdir()
    script = f'echo $$ > {group}/cgroup.procs; exec unshare -m -p -f -n -C --mount-proc --kill-child bash "$@"'
    unit = HERE.parents[1] / "packaging/incast-host@.service"
    command = ["bash", "-c", script, "-", str(HERE / "unit.sh"), str(unit), str(HOST), str(folder)]
    try:
        subprocess.run(command, check=False, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    finally:
        eventually(lambda: removed(group))
    return (folder / "said").read_text().splitlines()


def test_systemd_starts_the_unit_restarts_it_after_a_kill_and_ends_it(tmp_path: Path) -> None:
    """As the unit stands, with all that it forbids."""
    said = said_under_systemd(
        """
        show() { systemctl show incast-host@search --value -p "$1"; }
        systemctl start incast-host@search
        echo "started $(show ActiveState)"
        grep CapEff "/proc/$(show MainPID)/status"
        /usr/local/bin/incast-host status
        kill -9 "$(show MainPID)"
        for _ in {1..100}; do
          [ "$(show NRestarts) $(show ActiveState)" = "1 active" ] && break
          sleep 0.1
        done
        echo "restarted $(show NRestarts) $(show ActiveState)"
        systemctl stop incast-host@search
        echo "stopped $(show ActiveState) $(show Result) $(ls /run/incast | wc -l)"
        """,
        tmp_path,
    )
    assert said[0] == "started active"
    assert said[1].split() == ["CapEff:", 16 * "0"]
    assert said[2].startswith("incast_dctcp for /sys/fs/cgroup/search")
    assert said[-2:] == ["restarted 1 active", "stopped inactive success 0"]


def test_the_unit_waits_for_a_cgroup(tmp_path: Path) -> None:
    """Otherwise systemd gives up after five failures."""
    said = said_under_systemd(
        """
        show() { systemctl show incast-host@search --value -p "$1"; }
        mkdir /etc/systemd/system/incast-host@search.service.d
        printf '[Service]\nRestartSec=100ms\n' > /etc/systemd/system/incast-host@search.service.d/sooner.conf
        rmdir /sys/fs/cgroup/search
        systemctl daemon-reload
        systemctl start --no-block incast-host@search
        for _ in {1..200}; do [ "$(show NRestarts)" -ge 8 ] && break; sleep 0.1; done
        echo "$(( $(show NRestarts) >= 8 )) $(show ActiveState)"
        mkdir /sys/fs/cgroup/search
        for _ in {1..100}; do [ "$(show ActiveState)" = active ] && break; sleep 0.1; done
        /usr/local/bin/incast-host status
        """,
        tmp_path,
    )
    assert said[0] == "1 activating"
    assert said[1].startswith("incast_dctcp for /sys/fs/cgroup/search")


def test_the_unit_comes_and_goes_with_a_service(tmp_path: Path) -> None:
    """Tied to it as docs/how-to/linux-host.md has it."""
    said = said_under_systemd(
        """
        show() { systemctl show "$1" --value -p "$2"; }
        is_now() {
          for _ in {1..100}; do [ "$(show incast-host@search ActiveState)" = "$1" ] && return; sleep 0.1; done
          false
        }
        follows() { is_now "$1" && echo "$2: $1"; }
        made=/etc/systemd/system
        mkdir $made/incast-host@search.service.d $made/search.service.d
        printf '[Service]\nExecStart=/bin/sleep 1000\n' > $made/search.service
        printf '[Unit]\nWants=incast-host@search.service\n' > $made/search.service.d/tie.conf
        printf '[Unit]\nBindsTo=search.service\nAfter=search.service\n' > $made/incast-host@search.service.d/tie.conf
        echo 'ARGUMENTS=dctcp --cgroup /sys/fs/cgroup/system.slice/search.service' > /etc/incast/search.conf
        systemctl daemon-reload
        systemctl start search
        follows active start
        first=$(show incast-host@search MainPID)
        systemctl restart search
        follows active restart
        [ "$(show incast-host@search MainPID)" != "$first" ] && echo anew
        systemctl stop search
        follows inactive stop
        systemctl start search
        follows active start
        kill -9 "$(show search MainPID)"
        follows inactive kill
        systemctl start search
        follows active start
        /usr/local/bin/incast-host status
        """,
        tmp_path,
    )
    assert said[:7] == [
        "start: active", "restart: active", "anew", "stop: inactive", "start: active", "kill: inactive", "start: active"
    ]  # fmt: skip
    assert said[7].startswith("incast_dctcp for /sys/fs/cgroup/system.slice/search.service")


def removed(group: Path) -> bool:
    """Remove a cgroup with all below it, unless a process that is about to end is in one yet."""
    try:
        for inner in sorted(group.glob("**/"), reverse=True):
            inner.rmdir()
    except OSError:
        return False
    return True


def test_without_rights_the_error_names_them(host: Host, bottleneck: Bottleneck) -> None:
    command = ["setpriv", "--bounding-set", "-all", str(HOST), "enable", "dctcp", "--cgroup", str(bottleneck.cgroup)]
    done = subprocess.run(command, env=host.env, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert "CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON" in done.stderr
    assert left(host) == []


@pytest.mark.usefixtures("marking")
def test_status_and_metrics_show_connections_windows_and_timeouts(host: Host, bottleneck: Bottleneck) -> None:
    process, _ = host.start("enable", "dctcp", "--cgroup", str(bottleneck.cgroup), "--metrics", "0")
    assert process.stdout is not None
    url = process.stdout.readline().split()[1]
    assert url.startswith("http://127.0.0.1:")
    port = bottleneck.receiver("reno")
    transfer = bottleneck.send("reno", port, 2 * MEGABYTE)
    transfer.wait_for_handshake()
    eventually(lambda: any(flow["segments_delivered_ce"] for flow in host.status()[0]["flows"]))
    status = host.status()[0]
    (flow,) = (flow for flow in status["flows"] if flow["remote"] == f"{RECEIVER}:{port}")
    assert flow["algorithm"] == status["name"]
    assert 1 <= flow["cwnd_segments"] <= 200
    assert flow["srtt_us"] > 0
    text = host.say("status", "--flows")
    assert f"{status['name']} for {bottleneck.cgroup} (process {process.pid})" in text
    assert f"{RECEIVER}:{port}" in text
    with urllib.request.urlopen(url) as answer:  # noqa: S310 - it begins with http.
        lines = answer.read().decode().splitlines()
    assert f'incast_host_connections_open{{cgroup="{bottleneck.cgroup}",kind="sender"}} 2' in lines
    assert f'incast_host_timeouts_total{{cgroup="{bottleneck.cgroup}",kind="sender"}} 0' in lines
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(url.removesuffix("metrics"))  # noqa: S310 - likewise.
    assert transfer.result()["arrived"] == 2 * MEGABYTE
    # A host that has gone answers nobody: the timer expires.
    silent = bottleneck.send("reno", port, 2 * MEGABYTE)
    silent.wait_for_handshake()
    subprocess.run(["ip", "-n", bottleneck.netns("b"), "link", "set", "dev", "eth0", "down"], check=True)
    eventually(lambda: host.status()[0]["counts"]["timeouts"] > 0)
    assert any(flow["timeouts"] for flow in host.status()[0]["flows"])
    process.terminate()
    assert process.wait() == 143
    assert left(host) == []


def test_the_detector_marks_at_a_port_of_this_machine(host: Host, bottleneck: Bottleneck) -> None:
    """In the namespace of the switch, whose queue says its rate; nothing at the other end of the cable."""
    switch = bottleneck.netns("switch")
    inside = ("ip", "netns", "exec", switch)
    before = subprocess.check_output(["tc", "-n", switch, "qdisc", "show"])
    process, line = host.start("enable", "ein", "--dev", "b", "--ce", "20KB", wrapper=inside)
    assert line.startswith(f"b marks incast at {RATE_BPS // MEGABYTE} Mbit/s; ")
    host.start("enable", "pulser", "--cgroup", str(bottleneck.cgroup), "--port", "10.0.0.0/8", "--port", "fd00::/8")
    for address in (RECEIVER, RECEIVER_V6):
        port = bottleneck.receiver("reno", address=address)
        transfers = [bottleneck.send("reno", port, MEGABYTE // 2, address=address) for _ in range(8)]
        results = [transfer.result() for transfer in transfers]
        assert [result["arrived"] for result in results] == 8 * [MEGABYTE // 2]
        # Somebody has braked.
        assert min(window for result in results for window in result["windows"]) <= 4
    port_status, sender_status = sorted(host.status(), key=lambda status: str(status["kind"]))
    marks, seen = port_status["counts"]["ein_marks"], sender_status["counts"]["marks_seen"]
    assert marks > 200
    assert port_status["counts"]["ce_marks"] > 0
    # Marked before it was queued, some of it was dropped.
    assert 0.9 * marks <= seen + bottleneck.drops()
    assert seen <= marks
    assert programs("device", "b", inside=switch) == 2
    assert host.say("disable", "--dev", "b").startswith("ended: b marks incast")
    assert process.wait() == 0
    assert programs("device", "b", inside=switch) == 0
    assert subprocess.check_output(["tc", "-n", switch, "qdisc", "show"]) == before


def test_the_other_end_of_a_cable_marks_the_packets_that_leave(host: Host, bottleneck: Bottleneck) -> None:
    switch, receiver = bottleneck.netns("switch"), bottleneck.netns("b")
    inside = ("ip", "netns", "exec", switch)
    wrong = subprocess.run(
        [*inside, str(HOST), "enable", "ein", "--dev", "b", "--peer", "lo", "--peer-netns", receiver],
        env=host.env, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert (wrong.returncode, wrong.stderr.startswith("--peer is lo, which has number 1; b is linked to ")) == (1, True)
    host.start("enable", "ein", "--dev", "b", "--peer", "eth0", "--peer-netns", receiver, wrapper=inside)
    assert (programs("device", "b", inside=switch), programs("device", "eth0", inside=receiver)) == (0, 1)
    host.start("enable", "pulser", "--cgroup", str(bottleneck.cgroup), "--port", "10.0.0.0/8")
    port = bottleneck.receiver("reno")
    transfers = [bottleneck.send("reno", port, MEGABYTE // 2) for _ in range(8)]
    assert [transfer.result()["arrived"] for transfer in transfers] == 8 * [MEGABYTE // 2]
    port_status, sender_status = sorted(host.status(), key=lambda status: str(status["kind"]))
    marks, seen = port_status["counts"]["ein_marks"], sender_status["counts"]["marks_seen"]
    assert seen > 20
    # Nothing is dropped behind the queue. A mark without data is not counted at the receiver: SYN, ACK, FIN.
    assert seen <= marks <= seen + 3 * len(transfers)


@pytest.mark.parametrize("cabled", [False, True], ids=["at the port", "at the other end"])
def test_the_queues_of_a_device_are_one_port(host: Host, cabled: bool) -> None:
    """A threshold of more than any of them holds is reached by what they hold together."""
    queues = 4
    threshold = BUFFER_BYTES // queues + 4_000
    with built(queues) as bottleneck:
        inside = ("ip", "netns", "exec", bottleneck.netns("switch"))
        peer = ("--peer", "eth0", "--peer-netns", bottleneck.netns("b")) if cabled else ()
        growth = ("--set", "growth=0", "--set", "samples=4")
        _, line = host.start("enable", "ein", "--dev", "b", "--ce", f"{threshold}B", *growth, *peer, wrapper=inside)
        assert line.startswith(f"b marks incast at {RATE_BPS // MEGABYTE} Mbit/s; ")
        host.start("enable", "pulser", "--cgroup", str(bottleneck.cgroup), "--port", "10.0.0.0/8")
        port = bottleneck.receiver("reno")
        transfers = [bottleneck.send("reno", port, MEGABYTE // 4) for _ in range(16)]
        assert [transfer.result()["arrived"] for transfer in transfers] == 16 * [MEGABYTE // 4]
        # The connections have been spread.
        assert sum(each["packets"] > 100 for each in bottleneck.shapers()) > 1
        port_status, sender_status = sorted(host.status(), key=lambda status: str(status["kind"]))
        marks, seen = port_status["counts"]["ein_marks"], sender_status["counts"]["marks_seen"]
        assert port_status["counts"]["ce_marks"] > 100
        assert seen > 20
        assert 0.9 * marks - 3 * len(transfers) <= seen + bottleneck.drops()
        assert seen <= marks


def test_a_queue_of_a_device_that_keeps_no_count_is_named(host: Host) -> None:
    with built(2) as bottleneck:
        switch = bottleneck.netns("switch")
        subprocess.run(["tc", "-n", switch, "qdisc", "del", "dev", "b", "parent", "1:2"], check=True)
        subprocess.run(["tc", "-n", switch, "qdisc", "add", "dev", "b", "parent", "1:2", "pfifo_fast"], check=True)
        command = ["ip", "netns", "exec", switch, str(HOST), "enable", "ein", "--dev", "b", "--rate", "50Mbps"]
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=host.env)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert done.stderr.startswith("queue 1:2 of b has pfifo_fast, which keeps no count of what waits in it; ")
        assert done.stderr.endswith("tc qdisc replace dev b parent 1:2 fq_codel\n")


def test_what_is_no_ip_packet_passes_the_port_without_a_mark(host: Host, bottleneck: Bottleneck) -> None:
    """While there is a queue this port marks all that it can: datagrams, and those with a VLAN's tag."""
    switch = bottleneck.netns("switch")
    inside = ("ip", "netns", "exec", switch)
    # So slow that the queue lasts until the last frame has come, on a busy machine too.
    shape = f"tc -n {switch} qdisc replace dev b root handle 1: tbf rate 2mbit burst 3200 limit 1000000"
    subprocess.run(shape.split(), check=True)
    everything = ("--set", "growth=0", "--set", "samples=1", "--set", "high_water=0")
    host.start("enable", "ein", "--dev", "b", *everything, wrapper=inside)
    counting = bottleneck.start_program("b", "frames.py", "count", RECEIVER)
    assert counting.stdout is not None
    sending = bottleneck.start_program("switch", "frames.py", "send", "b", counting.stdout.readline().strip())
    assert sending.wait() == 0
    counted = json.loads(counting.stdout.read())
    assert counted["came"] == frames.DATAGRAMS + 1
    assert counted["marked"] > frames.DATAGRAMS // 2
    others = host.status()[0]["counts"]["ein_marks"] - counted["marked"] - frames.EACH
    # A few packets are the kernel's own, and fewer than there are of any kind of frame.
    assert 0 <= others < frames.EACH


@pytest.mark.skipif(not Path("/dev/net/tun").exists(), reason="the kernel has no tunnels (CONFIG_TUN)")
def test_the_detector_works_at_a_device_without_frames(host: Host, bottleneck: Bottleneck) -> None:
    """A tunnel of IP packets has no Ethernet header, and no other end that a program could be at."""
    switch = bottleneck.netns("switch")
    making = ["ip", "netns", "exec", switch, sys.executable, str(HERE / "tunnel.py"), "tried"]
    process = subprocess.Popen(making, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    host.processes.append(process)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "made\n"
    shape = f"tc -n {switch} qdisc replace dev tried root handle 1: tbf rate 2mbit burst 3200 limit 1000000"
    subprocess.run(shape.split(), check=True)
    everything = ("--set", "growth=0", "--set", "samples=1", "--set", "high_water=0")
    _, line = host.start("enable", "ein", "--dev", "tried", *everything, wrapper=("ip", "netns", "exec", switch))
    assert "tried marks incast at 2 Mbit/s" in line
    process.stdin.write("send\n")
    process.stdin.flush()
    counted = json.loads(process.stdout.readline())
    assert (counted["came"], counted["wrong"]) == ([tunnel.EACH, tunnel.EACH], 0)
    assert min(counted["marked"]) > tunnel.EACH // 2
    marks = host.status()[0]["counts"]["ein_marks"]
    assert 0 <= marks - sum(counted["marked"]) < 20


@pytest.mark.parametrize(
    ("arguments", "status", "error"),
    [
        (["enable", "dctcp"], 1, "dctcp needs --cgroup PATH"),
        (["enable", "ein"], 1, "ein needs --dev IFACE"),
        (["enable", "ein", "--dev", "nowhere"], 1, "device nowhere: No such device"),
        (["enable", "ein", "--dev", "lo"], 1, "the root queueing discipline of lo is noqueue"),
        (["enable", "ein", "--dev", "lo", "--cgroup", "/"], 1, "--cgroup is not for ein; allowed: --dev, "),
        (["enable", "hpcc", "--cgroup", "/sys"], 1, 'algorithm is "hpcc"; allowed: dctcp, '),
        (["enable", "dctcp", "--cgroup", "/nowhere"], 1, "cgroup /nowhere: No such file or directory"),
        (["enable", "dctcp", "--cgroup", "/proc"], 1, "/proc is no cgroup of version 2"),
        (["enable", "dctcp", "--cgroup", "/sys", "--dev", "lo"], 1, "--dev is not for dctcp; allowed: --cgroup, "),
        (["enable", "dctcp", "--cgroup", "/sys", "--set", "shift=0"], 1, "parameters.shift is 0; allowed: 1 to 10"),
        (["enable", "dctcp", "--cgroup", "/sys", "--port", "10.0.0.0/33"], 2, 'the length is "33", and not 0 to 32'),
        (["enable", "pulser", "--cgroup", "/sys"], 1, "believed only on connections with peers that are named"),
        (["status", "--watch", "0"], 2, "0 s; allowed: 0.01 to 86400"),
        (["switch", "dctcp"], 1, "no cgroup is under a sender"),
        (["disable", "--dev", "eth7"], 1, "nothing is enabled at eth7"),
        (["disable"], 1, "nothing is enabled"),
        (["enable"], 2, "<NAME>"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(host: Host, arguments: list[str], status: int, error: str) -> None:
    done = host.run(*arguments)
    assert (done.returncode, done.stdout) == (status, "")
    assert error in done.stderr
    assert status == 2 or done.stderr.count("\n") == 1
    assert left(host) == []
