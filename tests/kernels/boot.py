"""Boots kernels of Debian in an emulator and runs the tests of `incast-host` on them: `make test-kernels`.

The processor is emulated, so nothing here says how fast anything is. The binary is the one that was built on this
machine: that it loads elsewhere is what is tested.
"""

from __future__ import annotations

import argparse
import lzma
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Releases of Debian, and what each kernel is there for.
RELEASES = ("trixie", "sid")
PACKAGE = "linux-image-cloud-amd64"
# What a kernel is split into.
PARTS = re.compile(r"linux-(?:image|binary|modules)-\d\S*")
TOOLS = {
    "qemu-system-x86_64": "qemu-system-x86", "busybox": "busybox-static", "cpio": "cpio", "depmod": "kmod",
    "dpkg-deb": "dpkg", "ip": "iproute2", "tc": "iproute2", "ss": "iproute2", "setpriv": "util-linux",
    "nsenter": "util-linux",
}  # fmt: skip
# Of the modules; everything else that Debian's kernels have as modules stays out.
MODULES = ("kernel/net", "kernel/drivers/net/veth.ko*", "kernel/lib", "kernel/crypto", "kernel/arch/x86/crypto")
# What is loaded is used once, and no more, since a test takes long here. Without what needs a compiler, a service
# manager, or the clock.
TESTS = (
    "test_host.py::test_every_sender_delivers_every_byte_while_others_do_too[dctcp]",
    "test_host.py::test_every_sender_delivers_every_byte_while_others_do_too[swift]",
    "test_host.py::test_incast_marks_reach_the_senders_one_by_one[10.0.2.2]",
    "test_host.py::test_a_peer_that_knows_nothing_of_incast_marks_is_not_harmed[receiver]",
    "test_receivers.py::test_the_verifier_has_room_for_every_receiver",
    "test_receivers.py::test_a_sender_and_a_receiver_work_together[rdtcp-rdtcp]",
    "test_receivers.py::test_a_receiver_is_enabled_and_gives_windows_back_when_it_ends",
    "test_receivers.py::test_credit_that_closes_windows_is_enabled_and_shown_and_knows_ipv6",
    "test_enable.py::test_a_cgroup_is_under_one_sender_as_long_as_the_process_lives",
    "test_enable.py::test_the_detector_marks_at_a_port_of_this_machine",
    "test_sample.py::test_marks_and_retransmissions_are_those_that_others_count",
    "test_events.py",
    "test_leftovers.py::test_no_program_map_link_pin_queue_or_setting_is_left[restore]",
)
# A kernel that does not come up ends nowhere.
LONGEST_S = 3600
INIT = """#!/bin/sh
export PATH=/bin:/sbin:/usr/bin:/usr/sbin HOME=/ TMPDIR=/tmp PYTHONDONTWRITEBYTECODE=1
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mount -t tmpfs none /run
mount -t tmpfs none /tmp
mkdir -p /sys/fs/cgroup /dev/shm /run/netns
mount -t cgroup2 none /sys/fs/cgroup
mount -t bpf none /sys/fs/bpf
for module in veth sch_tbf sch_fifo sch_ingress; do modprobe $module 2>/dev/null; done
ip link set lo up
cd /tests/linux
incast-host doctor
options="-v --no-header --color=no --durations=3 -p no:cacheprovider -p pytest_rerunfailures -p kernel_fixtures"
INCAST_KERNEL_TESTS=required INCAST_HOST=/bin/incast-host python3 -m pytest $options {tests}
echo "the tests ended with $?"
poweroff -f
"""


class MissingError(Exception):
    """Something that this needs is not there."""


def run(*command: str | Path, **keys: object) -> str:
    """Run a command and return what it prints."""
    done = subprocess.run(command, check=False, capture_output=True, text=True, **keys)  # type: ignore[call-overload]
    if done.returncode != 0:
        raise MissingError(f"{' '.join(map(str, command))}: {done.stderr.strip() or done.stdout.strip()}")
    out: str = done.stdout
    return out


def apt(folder: Path) -> list[str]:
    """Return options by which apt keeps all it knows in a folder, and knows the releases."""
    sites = run("apt-get", "indextargets", "--format", "$(SITE) $(RELEASE)").split("\n")
    site = next((line.split()[0] for line in sites if line.endswith(("bookworm", "trixie", "sid", "stable"))), None)
    if site is None:
        raise MissingError("apt knows no archive of Debian here")
    for part in ("lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    key = "signed-by=/usr/share/keyrings/debian-archive-keyring.gpg"
    lines = [f"deb [{key}] {site} {release} main\n" for release in RELEASES]
    (folder / "sources.list").write_text("".join(lines), encoding="utf-8")
    places = {
        "Dir::Etc::sourcelist": folder / "sources.list", "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": folder / "lists", "Dir::Cache": folder / "cache",
    }  # fmt: skip
    return [part for key, value in places.items() for part in ("-o", f"{key}={value}")]


def unpacked(release: str, folder: Path, options: list[str]) -> Path:
    """Fetch the kernel of a release, and return the folder in which it lies as it would be installed."""
    shown = run("apt-cache", *options, "show", f"{PACKAGE}/{release}")
    wanted = set(PARTS.findall(next(line for line in shown.splitlines() if line.startswith("Depends:"))))
    found: set[str] = set()
    while wanted - found:
        name = (wanted - found).pop()
        found.add(name)
        wanted |= set(PARTS.findall(run("apt-cache", *options, "depends", name)))
    place = folder / release
    if not place.exists():
        (folder / "packages").mkdir(exist_ok=True)
        run("apt-get", *options, "download", *sorted(found), cwd=folder / "packages")
        for name in sorted(found):
            for package in (folder / "packages").glob(f"{name}_*.deb"):
                run("dpkg-deb", "-x", package.resolve(), place)
    return place


def libraries(program: Path) -> list[Path]:
    """Return what a program is linked to."""
    shown = run("ldd", program)
    return [Path(path) for path in re.findall(r"(/\S+) \(0x", shown)]


def add(root: Path, program: Path, name: str) -> None:
    """Put a program and its libraries into the file system."""
    shutil.copy(program.resolve(), root / "bin" / name)
    for library in libraries(program):
        target = root / library.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            shutil.copy(library.resolve(), target)


def file_system(root: Path) -> None:
    """Make what is the same for every kernel: Python, pytest, the tests, and the commands that they use."""
    for folder in ("bin", "sbin", "proc", "sys", "dev", "run", "tmp", "etc", "usr/bin", "usr/sbin", "lib", "lib64"):
        (root / folder).mkdir(parents=True)
    busybox = shutil.which("busybox")
    assert busybox is not None
    shutil.copy(busybox, root / "bin/busybox")
    for applet in set(run(busybox, "--list").split()) - {"busybox"}:
        (root / "bin" / applet).symlink_to("busybox")
    (root / "sbin/modprobe").symlink_to("/bin/busybox")
    # Shell and nsenter of busybox would run its own ip and setpriv, and that knows no bounding set.
    for name in ("sh", "nsenter", "ip", "tc", "ss", "setpriv"):
        (root / "bin" / name).unlink(missing_ok=True)
        add(root, Path(shutil.which(name) or ""), name)
    add(root, Path(sys.executable).with_name("incast-host"), "incast-host")
    add(root, Path(sys.executable), "python3")
    base = Path(sys.base_prefix)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    library = root / base.relative_to("/") / "lib"
    skipped = ("test", "idlelib", "tkinter", "ensurepip", "lib2to3", "site-packages", "__pycache__", "config-*", "*.a")
    shutil.copytree(base / "lib" / version, library / version, ignore=shutil.ignore_patterns(*skipped))
    for extension in (library / version / "lib-dynload").glob("*.so"):
        for needed in libraries(extension):
            target = root / needed.relative_to("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                shutil.copy(needed.resolve(), target)
    for shared in (base / "lib").glob("libpython*.so*"):
        shutil.copy(shared.resolve(), library / shared.name)
    (root / base.relative_to("/") / "bin").mkdir()
    (root / base.relative_to("/") / "bin/python3").symlink_to("/bin/python3")
    packages = Path(sys.prefix) / "lib" / version / "site-packages"
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments"):
        if (packages / name).is_dir():
            shutil.copytree(packages / name, library / version / "site-packages" / name, ignore=ignored)
    for name in ("py.py", "pytest_rerunfailures.py"):
        shutil.copy(packages / name, library / version / "site-packages")
    shutil.copytree(ROOT / "tests/linux", root / "tests/linux", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "etc/passwd").write_text("root:x:0:0:root:/:/bin/sh\n", encoding="utf-8")
    (root / "etc/iproute2").mkdir()


def image(root: Path, kernel: Path, tests: tuple[str, ...], folder: Path) -> Path:
    """Pack the file system with a kernel's modules."""
    modules = next(iter([*kernel.glob("usr/lib/modules/*"), *kernel.glob("lib/modules/*")]))
    target = root / "lib/modules" / modules.name
    shutil.rmtree(root / "lib/modules", ignore_errors=True)
    for part in MODULES:
        for found in modules.glob(part):
            place = target / found.relative_to(modules)
            place.parent.mkdir(parents=True, exist_ok=True)
            if found.is_dir():
                shutil.copytree(found, place)
            else:
                shutil.copy(found, place)
    # Not every modprobe knows compressed ones.
    for compressed in target.rglob("*.ko.xz"):
        compressed.with_suffix("").write_bytes(lzma.decompress(compressed.read_bytes()))
        compressed.unlink()
    for listing in modules.glob("modules.*"):
        shutil.copy(listing, target)
    run("depmod", "-b", root, modules.name)
    (root / "init").write_text(INIT.format(tests=" ".join(tests)), encoding="utf-8")
    (root / "init").chmod(0o755)
    packed = folder / "initramfs"
    names = sorted(str(path.relative_to(root)) for path in root.rglob("*"))
    run("cpio", "--quiet", "-o", "-H", "newc", "-O", packed, cwd=root, input="\n".join(names))
    return packed


def boot(kernel: Path, packed: Path) -> bool:
    """Run everything on a kernel, show what it prints, and return whether all tests passed."""
    binary = next(iter([*kernel.glob("boot/vmlinuz-*"), *kernel.glob("usr/lib/modules/*/vmlinuz")]))
    print(f"== {binary.name if binary.name != 'vmlinuz' else binary.parent.name}", flush=True)
    command = [
        "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "2G",
        "-nographic", "-no-reboot", "-nic", "none", "-kernel", str(binary), "-initrd", str(packed),
        "-append", "console=ttyS0 panic=-1 no_timer_check quiet",
    ]  # fmt: skip
    ended = ""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace") as vm:
        assert vm.stdout is not None
        patience = threading.Timer(LONGEST_S, vm.kill)
        patience.start()
        for line in vm.stdout:
            print(line, end="", flush=True)
            ended = line if line.startswith("the tests ended with") else ended
        patience.cancel()
    return ended.strip() == "the tests ended with 0"


def main() -> int:
    """Boot every kernel; return 1 if something fails on one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("releases", nargs="*", default=RELEASES, help=f"of Debian [default: {' '.join(RELEASES)}]")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="what pytest runs in tests/linux")
    wish = parser.parse_args()
    lacking = sorted({package for tool, package in TOOLS.items() if shutil.which(tool) is None})
    if lacking:
        print(f"test-kernels needs {' '.join(lacking)} (Debian: apt-get install {' '.join(lacking)})", file=sys.stderr)
        return 2
    folder = ROOT / "out/kernels"
    root = folder / "root"
    shutil.rmtree(root, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        options = apt(folder)
        run("apt-get", *options, "update", "-qq")
        file_system(root)
        passed = [
            boot(kernel, image(root, kernel, tuple(wish.tests), folder))
            for kernel in (unpacked(release, folder, options) for release in wish.releases)
        ]
    except MissingError as why:
        print(f"test-kernels: {why}", file=sys.stderr)
        return 2
    return 0 if all(passed) else 1


if __name__ == "__main__":
    os.environ.setdefault("DEBIAN_FRONTEND", "noninteractive")
    sys.exit(main())
