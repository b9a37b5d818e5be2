"""The store of finished runs: one file per run, under the key of its task, complete or not at all.

A run's file is a ZIP archive without compression of its tables, as Arrow streams, and of what the run was. A checksum
stands beside the name of each and is compared whenever that is read. A long table is several members, so that neither
who writes nor who verifies it needs memory for all of it.

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
import itertools
import json
import os
import re
import sys
import uuid
import zipfile
import zlib
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import polars as pl

from incast import output
from incast._native import RunError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from pathlib import Path

    Stored: TypeAlias = pl.DataFrame | Callable[[Callable[[pl.DataFrame], None]], None]
    """A table that is to be stored: whole, or as a function that hands over one part after the other."""

_UNFINISHED, _DAMAGED, _MARK = ".unfinished", ".damaged", ".mark"
# What runs put there while memory is short. A file system over a network keeps a name for what is deleted while open.
_SPILLED = ".spilled"
_KEY = re.compile(r"[0-9a-f]{32}")
_ABOUT = "run.json"
_TABLE = ".arrow"
# The parts of a table after its first.
_PART = re.compile(r".*\.arrow\.[0-9]+")
# Larger parts are compressed. With small ones that takes longer than all else, and so does Parquet.
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
        output.prepare(self.spilled)
        self.remove_unfinished()

    @property
    def spilled(self) -> Path:
        """Where runs keep what does not fit into memory; none of it has a name."""
        return self.directory / _SPILLED

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
        file = self._file(key)
        # A sweep begins with asking for all its runs, of which most are not there.
        if not file.exists():
            return frozenset()
        try:
            return _entry(file).tables
        except (FileNotFoundError, DamagedError):
            return frozenset()

    def table(self, key: str, table: str, choose: Callable[[list[str]], list[str]] = lambda all_: all_) -> pl.DataFrame:
        """Return one table of a run, or those of its columns that `choose` names.

        Raises:
            DamagedError: what is stored is not what was written.

        """
        try:
            with _opened(self._file(key)) as archive:
                parts = map(pl.read_ipc_stream, _parts(archive, table + _TABLE))
                return pl.concat([part.select(choose(part.columns)) for part in parts])
        except FileNotFoundError as error:
            raise DamagedError("no longer there") from error

    @contextlib.contextmanager
    def claim(self, key: str) -> Iterator[Claim | None]:
        """Claim the right to compute a run, for as long as the context lasts; `None` if another has it."""
        # Who copies a store may leave its empty folders out.
        self._unfinished.mkdir(exist_ok=True)
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
        return sorted(file for file in self._unfinished.glob("*") if _KEY.fullmatch(file.name) and file.is_file())

    def entries(self) -> Iterator[tuple[Path, Entry | DamagedError]]:
        """Yield every stored run, or what is wrong with its file, by the names of the files."""
        for file in sorted(self.directory.glob("??/*.zip")):
            if (found := self.look(file)) is not None:
                yield file, found

    def look(self, file: Path) -> Entry | DamagedError | None:
        """Return a stored run, or what is wrong with its file; `None` if it was removed or set aside meanwhile."""
        try:
            return _entry(file)
        except FileNotFoundError:
            return None
        except DamagedError as error:
            return error

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

    def put(self, tables: Mapping[str, Stored], about: Mapping[str, Any]) -> None:
        """Store the run. It appears under its key once it is completely written."""
        self._empty()
        _write(self.file, self.entry.stem, tables, about)
        self._settle()

    def accept(self, content: bytes) -> bool:
        """Store the run, as `packed` made it elsewhere, unless another has put tables there that it lacks.

        Raises:
            DamagedError: it is not what was packed.

        """
        verify(io.BytesIO(content))
        brought = _entry(self.entry, io.BytesIO(content)).tables
        with contextlib.suppress(FileNotFoundError, DamagedError):
            if not _entry(self.entry).tables <= brought:
                return False
        self._empty()
        self.file.write(content)
        self._settle()
        return True

    def _empty(self) -> None:
        self.file.seek(0)
        self.file.truncate()

    def _settle(self) -> None:
        folder = self.entry.parent
        if not folder.is_dir():
            folder.mkdir(exist_ok=True)
            output.sync(folder.parent)
        output.settle(self.file, self.unfinished, self.entry)


def packed(key: str, tables: Mapping[str, Stored], about: Mapping[str, Any]) -> bytes:
    """Return a run as the content of its file: the same run is the same bytes."""
    written = io.BytesIO()
    _write(written, key, tables, about)
    return written.getvalue()


def verify(file: Path | IO[bytes]) -> None:
    """Read a stored run completely.

    Raises:
        DamagedError: what is stored is not what was written.

    """
    with _opened(file) as archive:
        for name in archive.namelist():
            if not _PART.fullmatch(name):
                for _ in _parts(archive, name):
                    pass


def _entry(file: Path, content: IO[bytes] | None = None) -> Entry:
    with _opened(content or file) as archive:
        tables = frozenset(name.removesuffix(_TABLE) for name in archive.namelist() if name.endswith(_TABLE))
        about = json.loads(b"".join(_parts(archive, _ABOUT)))
    if not isinstance(about, dict) or about.get("key") != file.stem:
        raise DamagedError("not the run that its name says")
    return Entry(file.stem, file, tables, about)


@contextlib.contextmanager
def _opened(file: Path | IO[bytes]) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(file) as archive:
            yield archive
    except OSError as error:
        if error.errno not in (None, errno.EIO, errno.EINVAL):
            raise
        raise DamagedError(str(error)) from error
    except _BROKEN as error:
        raise DamagedError(str(error).lower() or type(error).__name__) from error


def _parts(archive: zipfile.ZipFile, name: str) -> Iterator[bytes]:
    """Yield what is under a name, part by part, and find in the end whether it is what was written."""
    checksum = hashlib.sha256()
    for part in _named(name):
        if part != name and part not in archive.NameToInfo:
            break
        content = archive.read(part)
        checksum.update(content)
        yield content
    # It covers all parts: without one of them the table would be shorter and still make sense.
    if checksum.hexdigest().encode() != archive.getinfo(name).comment:
        raise zipfile.BadZipFile(f"bad checksum of {name}")


def _write(file: IO[bytes], key: str, tables: Mapping[str, Stored], about: Mapping[str, Any]) -> None:
    """Write a run as an archive."""
    with zipfile.ZipFile(file, "w") as archive:
        _Member(archive, _ABOUT).add(json.dumps({"key": key, **about}).encode())
        for name, table in sorted(tables.items()):
            member = _Member(archive, name + _TABLE)
            if isinstance(table, pl.DataFrame):
                member.take(table)
            else:
                table(member.take)


class _Member:
    """What is written under one name, part by part, into an archive that is open for no other meanwhile."""

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        self._archive, self._names, self._checksum = archive, _named(name), hashlib.sha256()
        self._first: zipfile.ZipInfo | None = None

    def take(self, part: pl.DataFrame) -> None:
        self.add(_as_stream(part))

    def add(self, content: bytes) -> None:
        about = zipfile.ZipInfo(next(self._names), _TIME)
        about.external_attr = 0o644 << 16
        self._archive.writestr(about, content)
        self._checksum.update(content)
        # Comments are written last.
        self._first = self._first or about
        self._first.comment = self._checksum.hexdigest().encode()


def _named(name: str) -> Iterator[str]:
    """Yield the names of the parts of what is under a name."""
    return itertools.chain([name], (f"{name}.{number}" for number in itertools.count(1)))


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
