"""Says what programs the kernel has at a cgroup or a device, for the tests beside it, without what put them there.

`cgroup PATH` or `device NAME`, the latter in this process's network namespace.
"""

from __future__ import annotations

import ctypes
import os
import platform
import socket
import struct
import sys

# The system call bpf, and the numbers of its interface.
BPF = {"x86_64": 321, "aarch64": 280}[platform.machine()]
PROG_QUERY = 16
AT_CGROUP = {"ingress": 0, "egress": 1, "sock_ops": 3, "setsockopt": 22}
AT_DEVICE = {"tcx_ingress": 46, "tcx_egress": 47}


def query(target: int, kind: int) -> int:
    """Count programs."""
    attributes = bytearray(64)
    struct.pack_into("II", attributes, 0, target, kind)
    buffer = (ctypes.c_char * len(attributes)).from_buffer(attributes)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(BPF, PROG_QUERY, buffer, len(attributes)) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(struct.unpack_from("I", attributes, 24)[0])


if __name__ == "__main__":
    if sys.argv[1] == "cgroup":
        directory = os.open(sys.argv[2], os.O_RDONLY)
        print(sum(query(directory, kind) for kind in AT_CGROUP.values()))
    else:
        print(sum(query(socket.if_nametoindex(sys.argv[2]), kind) for kind in AT_DEVICE.values()))
