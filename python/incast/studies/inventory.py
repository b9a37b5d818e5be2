"""The command `incast store`: what a store of runs has, whether it can be trusted, and what no sweep will use."""

from __future__ import annotations

import json
import shutil
import sys
from collections import defaultdict
from typing import TYPE_CHECKING

from incast import text
from incast._native import ScenarioError
from incast.studies import plan, store
from incast.studies.store import DamagedError, Entry, Store

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path


def ls(directory: Path, *, as_json: bool) -> int:
    """Print what runs a store has; return the exit code."""
    found = _opened(directory)
    entries = [entry for _, entry in found.entries() if isinstance(entry, Entry)]
    useless = {what: len(files) for what, files in _useless(found).items() if files}
    if as_json:
        runs = [
            {"key": entry.key, **entry.about, "tables": sorted(entry.tables), "bytes": _bytes(entry.file)}
            for entry in entries
        ]
        print(json.dumps({"directory": str(found.directory), "runs": runs, "useless": useless}))
        return 0
    groups: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    for entry in entries:
        groups[str(entry.about.get("scenario")), ", ".join(sorted(entry.tables))].append(entry)
    rows = [
        [scenario, f"{len(some):,}", _megabytes(sum(_bytes(entry.file) for entry in some)), tables]
        for (scenario, tables), some in sorted(groups.items())
    ]
    print(text.fitting(["scenario", "runs", "size", "tables"], rows))
    if useless:
        what = ", ".join(f"{count:,} {what}" for what, count in useless.items())
        print(f"\nof no use any more: {what}; incast store gc removes them")
    return 0


def verify(directory: Path, *, as_json: bool) -> int:
    """Read every run completely; return 1 if one is damaged."""
    found, count, damaged = _opened(directory), 0, {}
    for file, _ in found.entries():
        try:
            store.verify(file)
        except FileNotFoundError:
            continue  # set aside meanwhile
        except DamagedError as error:
            damaged[str(file)] = str(error)
        count += 1
    if as_json:
        print(json.dumps({"directory": str(found.directory), "runs": count, "damaged": damaged}))
    else:
        print(f"{found.directory}: {count:,} runs, {len(damaged):,} of them damaged")
    for name, why in damaged.items():
        print(f"incast: {name}: damaged ({why}); a sweep that needs it computes it anew", file=sys.stderr)
    return 1 if damaged else 0


def gc(directory: Path, *, dry_run: bool, as_json: bool) -> int:
    """Remove what no sweep of this program will use; return the exit code."""
    found = _opened(directory)
    useless = _useless(found)
    sizes = {file: _bytes(file) for files in useless.values() for file in files}
    if not dry_run:
        aside = {*found.damaged()}
        useless = {what: [file for file in files if _removed(found, file, aside)] for what, files in useless.items()}
    freed = sum(sizes[file] for files in useless.values() for file in files)
    counts = {what: len(files) for what, files in useless.items()}
    if as_json:
        print(json.dumps({"directory": str(found.directory), "removed": counts, "bytes": freed, "dry_run": dry_run}))
        return 0
    for what, count in counts.items():
        print(f"{count:,} {what}")
    print(f"{_megabytes(freed)} {'can be freed' if dry_run else 'freed'}")
    return 0


def _removed(found: Store, file: Path, aside: Collection[Path]) -> bool:
    """Remove a file or folder unless a sweep is using it or has since replaced it; return whether it was removed."""
    if file.is_dir():
        shutil.rmtree(file, ignore_errors=True)
        return True
    if file in aside:
        file.unlink(missing_ok=True)
        return True
    # An unfinished run has no suffix, and is removed when the claim on it ends.
    with found.claim(file.stem) as claim:
        if not claim or (file.suffix and _is_of_use(found.look(file))):
            return False
        if file.suffix:
            file.unlink(missing_ok=True)
        return True


def _is_of_use(one: Entry | DamagedError | None) -> bool:
    return isinstance(one, Entry) and one.about.get("program") == plan.program()


def _useless(found: Store) -> dict[str, list[Path]]:
    useless = [(file, one) for file, one in found.entries() if not _is_of_use(one)]
    return {
        "runs of other versions": [file for file, one in useless if isinstance(one, Entry)] + found.earlier(),
        "damaged runs": [file for file, one in useless if isinstance(one, DamagedError)] + found.damaged(),
        "unfinished runs of killed processes": found.unfinished(),
    }


def _opened(directory: Path) -> Store:
    """Open a store: a folder, or its folder `runs`, where sweeps keep what is finished."""
    for folder in (directory / "runs", directory):
        if folder.is_dir():
            return Store(folder)
    raise ScenarioError(f"{directory}: no such directory")


def _bytes(file: Path) -> int:
    files = file.rglob("*") if file.is_dir() else [file]
    return sum(one.stat().st_size for one in files if one.is_file())


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"
