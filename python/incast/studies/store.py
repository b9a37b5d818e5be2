"""The store of finished runs: one file per run, under the key of its task, complete or not at all.

A run's file is a ZIP archive without compression of its tables, as Arrow streams, and of what the run was. The checksum
of each member stands beside its name and is compared whenever the member is read.

While a run is computed its file is made in the folder `.unfinished`, and whoever makes it holds a lock on it. The lock
ends with the process, however that ends. So one run is never computed twice at the same time, and what a killed process
left behind is told from what a living one is about to finish, on other machines and in other containers too.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import io
import json
import os
import sys
import uuid
import zipfile
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from incast import output
from incast._native import RunError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

_UNFINISHED, _DAMAGED, _MARK = ".unfinished", ".damaged", ".mark"
_ABOUT = "run.json"
_TABLE = ".arrow"
# Larger tables are compressed. With small ones that takes longer than all else, and so does Parquet.
_LARGE_BYTES = 1 << 20
# So that the same run is the same bytes, whenever it was computed: the least time that an archive can have.
_TIME = (1980, 1, 1, 0, 0, 0)
# What a damaged archive makes of its reader: an offset, a method or a flag that cannot be.
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, KeyError)


class DamagedError(Exception):
    """A stored run that cannot be trusted; the text says what is wrong with it."""


@dataclass(frozen=True)
class Entry:
    """One stored run."""

    key: str
    file: Path
    tables: frozenset[str]
    about: Mapping[str, Any]
    """What was run, for people: the program, the scenario and the seed."""


class Store:
    """A directory of runs, safe for several processes at once."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._unfinished = directory / _UNFINISHED

    def prepare(self) -> None:
        """Create the directory, check that it is writable, and remove what killed processes left there.

        Raises:
            ScenarioError: it cannot be written to.

        """
        output.prepare(self._unfinished)
        self.remove_unfinished()

    def mark(self, *, create: bool = True) -> str | None:
        """Return what tells this folder from others of the same name on other machines; made if there is none yet."""
        mark = self.directory / _MARK
        try:
            return mark.read_text(encoding="ascii")
        except FileNotFoundError:
            if not create:
                return None
            # Complete or not at all, and the first of several that do so at once counts.
            made = self.directory / f"{_MARK}.{uuid.uuid4().hex}"
            made.write_text(made.suffix[1:], encoding="ascii")
            with contextlib.suppress(FileExistsError):
                mark.hardlink_to(made)
            made.unlink()
            return self.mark()

    def has(self, key: str, tables: Collection[str]) -> bool:
        """Whether a run is stored with these tables."""
        return self.kept(key) >= frozenset(tables)

    def kept(self, key: str) -> frozenset[str]:
        """Return the names of the stored tables of a run; none if it is not stored or its file is not one of a run."""
        try:
            return _entry(self._file(key)).tables
        except (FileNotFoundError, DamagedError):
            return frozenset()

    def table(self, key: str, table: str) -> pl.DataFrame:
        """Return one table of a run.

        Raises:
            DamagedError: what is stored is not what was written.

        """
        try:
            with _opened(self._file(key)) as archive:
                return pl.read_ipc_stream(_read(archive, table + _TABLE))
        except FileNotFoundError as error:
            raise DamagedError("no longer there") from error

    @contextlib.contextmanager
    def claim(self, key: str) -> Iterator[Claim | None]:
        """Claim the right to compute a run, for as long as the context lasts; `None` if another has it."""
        with _locked(self._unfinished / key) as file:
            yield Claim(self._file(key), self.directory / _DAMAGED, self._unfinished / key, file) if file else None

    def inspect(self, key: str) -> None:
        """Set a run aside and say so if it is damaged, unless another process is about to replace it."""
        with self.claim(key) as claim:
            if claim:
                claim.inspect()

    def unfinished(self) -> list[Path]:
        """Return what killed processes left unfinished; what is locked belongs to a living one."""
        return [left for left in self._begun() if not _is_locked(left)]

    def remove_unfinished(self) -> None:
        """Remove what killed processes left unfinished."""
        for left in self._begun():
            with _locked(left):  # which removes it in the end
                pass

    def _begun(self) -> list[Path]:
        return sorted(file for file in self._unfinished.glob("*") if file.is_file())

    def entries(self) -> Iterator[tuple[Path, Entry | DamagedError]]:
        """Yield every stored run, or what is wrong with its file, by the names of the files."""
        for file in sorted(self.directory.glob("??/*.zip")):
            try:
                yield file, _entry(file)
            except FileNotFoundError:
                continue  # removed or set aside meanwhile
            except DamagedError as error:
                yield file, error

    def earlier(self) -> list[Path]:
        """Return the runs that an earlier version of this program stored, in another form that is not read."""
        folders = [*self.directory.glob("??/*"), *self._unfinished.glob("*")]
        return sorted(folder for folder in folders if folder.is_dir())

    def damaged(self) -> list[Path]:
        """Return the damaged runs that have been set aside."""
        return sorted((self.directory / _DAMAGED).glob("*"))

    def _file(self, key: str) -> Path:
        return self.directory / key[:2] / f"{key}.zip"


@dataclass(frozen=True)
class Claim:
    """The right to compute a run."""

    entry: Path
    """Where the run will be."""
    aside: Path
    """Where damaged runs are kept."""
    unfinished: Path
    file: io.BufferedRandom
    """What it is written to, which is locked."""

    def inspect(self) -> None:
        """Set what is stored so far aside and say so if it is damaged."""
        try:
            verify(self.entry)
        except FileNotFoundError:
            pass
        except DamagedError as error:
            aside = output.prepare(self.aside) / self.entry.name
            self.entry.replace(aside)
            print(f"incast: {self.entry}: damaged ({error}); kept as {aside}, and computed anew", file=sys.stderr)

    def put(self, tables: Mapping[str, pl.DataFrame], about: Mapping[str, Any]) -> None:
        """Store the run. It appears under its key once it is completely written."""
        self.accept(packed(self.entry.stem, tables, about))

    def accept(self, content: bytes) -> None:
        """Store the run, as `packed` made it here or elsewhere."""
        self.file.seek(0)
        self.file.truncate()
        self.file.write(content)
        folder = self.entry.parent
        if not folder.is_dir():
            folder.mkdir(exist_ok=True)
            output.sync(folder.parent)
        output.settle(self.file, self.unfinished, self.entry)


def packed(key: str, tables: Mapping[str, pl.DataFrame], about: Mapping[str, Any]) -> bytes:
    """Return a run as the content of its file: the same run is the same bytes."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        _write(archive, _ABOUT, json.dumps({"key": key, **about}).encode())
        for name, table in sorted(tables.items()):
            _write(archive, name + _TABLE, _as_stream(table))
    return written.getvalue()


def verify(file: Path) -> None:
    """Read a stored run completely.

    Raises:
        DamagedError: what is stored is not what was written.

    """
    with _opened(file) as archive:
        for name in archive.namelist():
            _read(archive, name)


def _entry(file: Path) -> Entry:
    with _opened(file) as archive:
        tables = frozenset(name.removesuffix(_TABLE) for name in archive.namelist() if name.endswith(_TABLE))
        about = json.loads(_read(archive, _ABOUT))
    if not isinstance(about, dict) or about.get("key") != file.stem:
        raise DamagedError("not the run that its name says")
    return Entry(file.stem, file, tables, about)


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(file) as archive:
            yield archive
    except OSError as error:
        if error.errno not in (None, errno.EIO, errno.EINVAL):
            raise
        raise DamagedError(str(error)) from error
    except _BROKEN as error:
        raise DamagedError(str(error).lower() or type(error).__name__) from error


def _read(archive: zipfile.ZipFile, name: str) -> bytes:
    about = archive.getinfo(name)
    content = archive.read(about)
    if hashlib.sha256(content).hexdigest().encode() != about.comment:
        raise zipfile.BadZipFile(f"bad checksum of {name}")
    return content


def _write(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    about = zipfile.ZipInfo(name, _TIME)
    about.comment = hashlib.sha256(content).hexdigest().encode()
    about.external_attr = 0o644 << 16
    archive.writestr(about, content)


def _as_stream(table: pl.DataFrame) -> bytes:
    written = io.BytesIO()
    table.write_ipc_stream(written, compression="zstd" if table.estimated_size() > _LARGE_BYTES else "uncompressed")
    return written.getvalue()


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[io.BufferedRandom | None]:
    """Lock a file, made if there is none, and remove it in the end unless it has got another name.

    Yields nothing if another holds the lock.
    """
    while True:
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644), "r+b") as file:
            if not _lock(file, path):
                yield None
                return
            if not _is_still(file, path):
                continue  # its owner was done with it between our opening and our locking it
            try:
                yield file
            finally:
                if _is_still(file, path):
                    path.unlink()
            return


def _is_locked(path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError), path.open("r+b") as file:
        return not _lock(file, path)
    return True


def _lock(file: io.BufferedRandom, path: Path) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        reason = os.strerror(error.errno or errno.EIO).lower()
        raise RunError(f"{path.parent}: files cannot be locked here ({reason}), so several sweeps could disturb one "
                       "another; choose a directory on another file system with --out") from error  # fmt: skip
    return True


def _is_still(file: io.BufferedRandom, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
