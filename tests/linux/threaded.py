"""Has a device of this network namespace hand over packets in a thread of the kernel: `threaded.py DEVICE`."""

from __future__ import annotations

import array
import fcntl
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

SIOCETHTOOL = 0x8946
ETHTOOL_SGRO = 0x2C
PRIORITY = 60


def receiving() -> set[int]:
    """Return the threads of the kernel that receive packets."""
    threads = (int(process.name) for process in Path("/proc").glob("[0-9]*"))
    return {thread for thread in threads if name(thread).startswith("napi/")}


def name(thread: int) -> str:
    try:
        return Path(f"/proc/{thread}/comm").read_text(encoding="ascii")
    except OSError:  # it has ended
        return ""


def main(device: str) -> None:
    before = receiving()
    # A virtual device has such a thread only if it may join packets; a size that none has keeps them apart.
    subprocess.run(["ip", "link", "set", device, "gro_max_size", "1"], check=True)
    value = array.array("I", [ETHTOOL_SGRO, 1])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCETHTOOL, struct.pack("16sP", device.encode(), value.buffer_info()[0]) + bytes(16))
    Path(f"/sys/class/net/{device}/threaded").write_text("1", encoding="ascii")
    for thread in receiving() - before:
        os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(PRIORITY))


if __name__ == "__main__":
    main(sys.argv[1])
