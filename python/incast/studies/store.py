"""The store of finished runs: each is kept under the key of its task, complete or not at all."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from incast import output

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import pyarrow as pa

_UNFINISHED = ".unfinished"


class Store:
    """A directory of runs, safe for several processes at once."""

    def __init__(self, directory: Path) -> None:
        self.directory = output.prepare(directory)
        self._unfinished = output.prepare(directory / _UNFINISHED)
        self._owner = f"{socket.gethostname()}-{os.getpid()}-"
        self._sweep_up()

    def has(self, key: str, tables: Collection[str]) -> bool:
        """Whether a run is stored with these tables."""
        return all(self._file(key, table).is_file() for table in tables)

    def put(self, key: str, tables: Mapping[str, pa.Table]) -> None:
        """Store a run. It appears under its key once it is completely written."""
        written = Path(tempfile.mkdtemp(prefix=self._owner, dir=self._unfinished))
        for name, table in sorted(tables.items()):
            pq.write_table(table, written / f"{name}.parquet")
        written.chmod(0o755)
        entry = self._entry(key)
        entry.parent.mkdir(exist_ok=True)
        if entry.is_dir() and not self.has(key, tables):
            # An earlier study asked for other tables of this run.
            entry.rename(written.with_name(f"{written.name}-old"))
        try:
            written.rename(entry)
        except OSError:
            if not self.has(key, tables):
                raise
            # Another process has finished the same run meanwhile, with the same bytes.
            shutil.rmtree(written)
        shutil.rmtree(written.with_name(f"{written.name}-old"), ignore_errors=True)

    def table(self, key: str, table: str) -> pa.Table:
        """Return one table of a run."""
        return pq.read_table(self._file(key, table), partitioning=None)

    def kept(self, key: str) -> frozenset[str]:
        """Return the names of the stored tables of a run."""
        return frozenset(file.stem for file in self._entry(key).glob("*.parquet"))

    def _entry(self, key: str) -> Path:
        return self.directory / key[:2] / key

    def _file(self, key: str, table: str) -> Path:
        return self._entry(key) / f"{table}.parquet"

    def _sweep_up(self) -> None:
        """Remove unfinished runs of killed processes on this machine."""
        here = f"{socket.gethostname()}-"
        for left in self._unfinished.iterdir():
            if left.name.startswith(here):
                pid = left.name.removeprefix(here).split("-")[0]
                if pid.isdigit() and not _is_alive(int(pid)):
                    shutil.rmtree(left, ignore_errors=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
