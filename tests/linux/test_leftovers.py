"""Nothing of `incast-host` is left in the kernel however it ends, while its connections go on."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import loaded
from slow_port import RATE_BPS, Bottleneck, Host, eventually

MEGABYTE = 1_000_000


def settings(bottleneck: Bottleneck) -> dict[str, str]:
    """Return queues, filters and settings of TCP of all hosts and of this machine, and what is pinned."""
    found = {}
    for netns in (None, *(bottleneck.netns(host) for host in ("a", "switch", "b"))):
        inside = ["ip", "netns", "exec", netns] if netns else []
        tc = ["tc", "-n", netns] if netns else ["tc"]
        commands = ([*tc, "qdisc", "show"], [*inside, "sysctl", "net.ipv4", "net.core"])
        for command in commands:
            # Some settings cannot be read.
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
            lines = done.stdout.splitlines()
            # Other tests may register some meanwhile.
            found[" ".join(command)] = "\n".join(line for line in lines if "_congestion_control = " not in line)
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    for place in (fields[1] for fields in mounts if fields[2] == "bpf"):
        found[place] = "\n".join(sorted(str(path) for path in Path(place).rglob("*")))
    return found


@pytest.mark.parametrize("end", ["disable", "restore", "kill -9", "kill -9 and the next start"])
def test_no_program_map_link_pin_queue_or_setting_is_left(host: Host, bottleneck: Bottleneck, end: str) -> None:
    before, held_before = settings(bottleneck), loaded.held_by_nobody()
    cgroup = ("--cgroup", str(bottleneck.cgroup))
    at_switch = ("nsenter", f"--net=/run/netns/{bottleneck.netns('switch')}")
    at_receiver = ("nsenter", f"--net=/run/netns/{bottleneck.netns('b')}")
    sender = ("enable", "pulser", *cgroup, "--port", "10.0.0.0/8")
    line = ("--dev", "eth0", "--rate", f"{RATE_BPS}bps")
    started = [
        host.start(*sender)[0],
        host.start("enable", "ictcp", *cgroup, *line, wrapper=at_receiver)[0],
        host.start("enable", "ein", "--dev", "b", "--ce", "20KB", wrapper=at_switch)[0],
    ]
    made = loaded.everything()
    # It lasts longer than this test.
    transfer = bottleneck.send("reno", bottleneck.receiver("reno"), 1000 * MEGABYTE)
    transfer.wait_for_handshake()
    eventually(lambda: any(status["counts"].get("windows_set", 0) > 100 for status in host.status()))
    if end == "disable":
        # What `incast advise` prints to undo a receiver; the sender stays.
        assert host.say("disable", *cgroup, "--dev", "eth0").count("ended: ictcp") == 1
        host.start("enable", "ictcp", *cgroup, *line, wrapper=at_receiver)
        # The sender and the receiver of the cgroup.
        assert host.say("disable", *cgroup).count("ended: ") == 2
        host.say("disable", "--dev", "b")
    elif end == "restore":
        host.say("restore")
    else:
        for process in started:
            process.kill()
    for process in started:
        process.wait(timeout=30)
    if end == "kill -9 and the next start":
        again = host.start(*sender)[0]
        host.say("disable", *cgroup)
        again.wait(timeout=30)
    # Open connections hold what a killed process had put under them; the others have been given something else.
    if end.startswith("kill"):
        assert loaded.held_by_nobody() - held_before
        host.say("restore")
    eventually(lambda: not (loaded.held_by_nobody() - held_before) & made)
    assert settings(bottleneck) == before
    assert transfer.sender.poll() is None
