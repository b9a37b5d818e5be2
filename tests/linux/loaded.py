"""What eBPF the kernel holds, whoever has put it there: programs, maps and links, by number."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path

from attached import BPF

GET_FD_BY_ID, OBJ_GET_INFO_BY_FD = 13, 15
# How to ask for the next number of each kind.
NEXT = {"prog": 11, "map": 12, "link": 31}
# Of a name the kernel keeps no more.
LETTERS = 15
# Offsets in struct bpf_prog_info.
NAME, RUN_TIME_NS, RUN_COUNT, VERIFIED, INFO_LENGTH = 64, 192, 200, 216, 224


def bpf(command: int, attributes: bytearray) -> int:
    """Call the kernel; the result is not negative."""
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = (ctypes.c_char * len(attributes)).from_buffer(attributes)
    result = int(libc.syscall(BPF, command, buffer, len(attributes)))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def numbers(kind: str) -> Iterator[int]:
    number = 0
    while True:
        attributes = bytearray(struct.pack("II24x", number, 0))
        try:
            bpf(NEXT[kind], attributes)
        except FileNotFoundError:
            return
        number = struct.unpack_from("I", attributes, 4)[0]
        yield number


def programs() -> Iterator[tuple[int, str, bytearray]]:
    """Find incast-host's programs: number, name, of which the kernel keeps 15 letters, and struct bpf_prog_info."""
    for number in numbers("prog"):
        # It may have gone meanwhile.
        with contextlib.suppress(FileNotFoundError):
            program = bpf(GET_FD_BY_ID, bytearray(struct.pack("I28x", number)))
            try:
                info = bytearray(INFO_LENGTH)
                place = ctypes.addressof((ctypes.c_char * len(info)).from_buffer(info))
                bpf(OBJ_GET_INFO_BY_FD, bytearray(struct.pack("IIQ16x", program, len(info), place)))
            finally:
                os.close(program)
            name = info[NAME : NAME + 16].split(b"\0")[0].decode()
            if name.startswith("incast_"):
                yield number, name, info


def everything() -> set[tuple[str, int]]:
    return {(kind, number) for kind in NEXT for number in numbers(kind)}


def held() -> set[tuple[str, int]]:
    """Find what processes have open, by whatever: it goes with them, unless something else holds it too."""
    found = set()
    for file in Path("/proc").glob("[0-9]*/fdinfo/*"):
        # The process has ended, or closed it.
        with contextlib.suppress(OSError):
            for kind, number in re.findall(r"^(prog|map|link)_id:\t(\d+)$", file.read_text(), re.MULTILINE):
                found.add((kind, int(number)))
    return found


def held_by_nobody() -> set[tuple[str, int]]:
    """Find what would be left if all processes ended. Others may load something while this looks."""
    before = everything()
    return (before - held()) & everything()
