"""The servers: nginx, Redis and memcached as packaged, and `echo`. Each runs once, on all addresses of the servers."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from fan_in import echo, fabric
from kernel_world.namespaces import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from fan_in.fabric import Fabric

PRIORITY = 50
PORTS = {
    "nginx": 80, "nginx-uncorked": 81, "nginx-tls": 443, "nginx-h2": 444,
    "redis": 6379, "memcached": 11211, "echo": echo.PORT,
}  # fmt: skip
TLS = ("nginx-tls", "nginx-h2")
# Ports of one nginx: with `tcp_nopush off`, with HTTP/1.1 over TLS, and with HTTP/2.
_PROCESSES = dict.fromkeys(("nginx-uncorked", *TLS), "nginx")
_PACKAGES = {"nginx": ("nginx", "nginx-light"), "redis": ("redis-server", "redis-server"),
             "memcached": ("memcached", "memcached")}  # fmt: skip
# Debian's nginx.conf, without what writes to the disk, and with connections that last.
_NGINX = """
daemon off; master_process off; user root; pid {home}/nginx.pid; error_log {home}/nginx.log;
events {{ worker_connections 1024; }}
http {{
    sendfile on; tcp_nopush on; access_log off; keepalive_requests 1000000; keepalive_timeout 1h;
    client_body_temp_path {home}; proxy_temp_path {home}; fastcgi_temp_path {home};
    uwsgi_temp_path {home}; scgi_temp_path {home};
    server {{ listen 0.0.0.0:80 backlog=256; root {home}/files; }}
    server {{ listen 0.0.0.0:81 backlog=256; root {home}/files; tcp_nopush off; }}
    ssl_certificate {home}/certificate.pem; ssl_certificate_key {home}/key.pem;
    server {{ listen 0.0.0.0:443 ssl backlog=256; root {home}/files; }}
    server {{ listen 0.0.0.0:444 ssl http2 backlog=256; root {home}/files; }}
}}
"""


def missing(servers: Sequence[str]) -> list[str]:
    """Return the Debian packages that these servers and the harness need and that are not there."""
    wanted = [_PACKAGES[name] for name in _processes(servers) if name in _PACKAGES]
    wanted += [("openssl", "openssl")] if "nginx" in _processes(servers) else []
    wanted += [("ip", "iproute2"), ("tc", "iproute2"), ("ss", "iproute2"), ("chrt", "util-linux")]
    found = [package for command, package in wanted if shutil.which(command, path=_path()) is None]
    return list(dict.fromkeys(found))


def _path() -> str:
    # Where Debian has servers, which users' paths leave out.
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


def _processes(servers: Sequence[str]) -> list[str]:
    return [_PROCESSES.get(name, name) for name in servers]


class Servers:
    """The processes of the servers."""

    def __init__(self, of: Fabric, names: Sequence[str], sizes: Sequence[int], home: Path) -> None:
        self._home = home
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        # `echo` sends long flows beside any server.
        for name in dict.fromkeys([*_processes(names), "echo"]):
            command = self._command(name, sizes)
            found = shutil.which(command[0], path=_path())
            if found is None:
                self.close()
                raise UnavailableError(f"{command[0]} not found (Debian, Ubuntu: apt-get install {_PACKAGES[name][1]})")
            # They end with this process, however it ends.
            ahead = ["setpriv", "--pdeathsig", "KILL", "chrt", "--fifo", str(PRIORITY)]
            with of.inside(fabric.SERVERS), (home / f"{name}.out").open("wb") as log:
                self._processes[name] = subprocess.Popen(
                    [*ahead, found, *command[1:]], cwd=home, stdout=log, stderr=subprocess.STDOUT
                )
        try:
            for name in self._processes:
                self._wait_for(of, name)
                if name in {"redis", "memcached"}:
                    with of.inside(fabric.CLIENT):
                        _store(name, sizes)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End them."""
        for process in self._processes.values():
            process.kill()
            process.wait()
        self._processes = {}

    def pid(self, name: str) -> int:
        """Return the process of a server."""
        return self._processes[_PROCESSES.get(name, name)].pid

    def check(self) -> None:
        """Check that all still run.

        Raises:
            UnavailableError: one has ended.

        """
        for name, process in self._processes.items():
            if (status := process.poll()) is not None:
                said = (self._home / f"{name}.out").read_text(encoding="utf-8", errors="replace").splitlines()
                raise UnavailableError(f"{name} has ended with status {status}: {said[-1] if said else 'no message'}")

    def _command(self, name: str, sizes: Sequence[int]) -> list[str]:
        if name == "nginx":
            files = self._home / "files"
            files.mkdir(parents=True, exist_ok=True)
            for size in {1, *sizes}:
                (files / f"s{size}").write_bytes(bytes(size))
            _certify(self._home)
            configuration = self._home / "nginx.conf"
            configuration.write_text(_NGINX.format(home=self._home), encoding="utf-8")
            return ["nginx", "-c", str(configuration), "-e", str(self._home / "nginx.log")]
        if name == "redis":
            return ["redis-server", "--bind", "0.0.0.0", "--protected-mode", "no",  # noqa: S104
                    "--save", "", "--appendonly", "no", "--port", str(PORTS[name])]  # fmt: skip
        if name == "memcached":
            return ["memcached", "-u", "root", "-t", "1", "-c", "1024", "-p", str(PORTS[name]), "-l", "0.0.0.0"]  # noqa: S104
        return [sys.executable, echo.__file__]

    def _wait_for(self, of: Fabric, name: str) -> None:
        end = time.monotonic() + 20
        with of.inside(fabric.CLIENT):
            while True:
                self.check()
                try:
                    socket.create_connection((fabric.address(0), PORTS[name]), timeout=1).close()
                except OSError as error:
                    if time.monotonic() > end:
                        raise UnavailableError(f"{name} does not answer: {error}") from error
                    time.sleep(0.05)
                else:
                    return


def _certify(home: Path) -> None:
    """Make a certificate. Clients do not check it, as nothing of a handshake is measured."""
    done = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",  # noqa: S607
         "-subj", "/CN=servers", "-days", "2", "-keyout", "key.pem", "-out", "certificate.pem"],
        cwd=home, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise UnavailableError(f"openssl made no certificate: {done.stderr.strip()}")


def _store(name: str, sizes: Sequence[int]) -> None:
    """Give a store the values that are asked for."""
    with socket.create_connection((fabric.address(0), PORTS[name]), timeout=10) as to, to.makefile("rb") as answers:
        for size in sorted({1, *sizes}):
            key, value = b"s%d" % size, bytes(size)
            if name == "redis":
                to.sendall(b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % (len(key), key, size, value))
                wanted = b"+OK\r\n"
            else:
                to.sendall(b"set %s 0 0 %d\r\n%s\r\n" % (key, size, value))
                wanted = b"STORED\r\n"
            if (answer := answers.readline()) != wanted:
                raise UnavailableError(f"{name} did not store {size} bytes: {answer!r}")
