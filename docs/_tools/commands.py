"""Generates the reference of the command line from the help texts."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from incast.cli import app

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cyclopts import App

COLUMNS = "76"


def page() -> str:
    """Write a section for every command."""
    commands = list(_commands(app, ()))
    # Each help text comes from its own process, as for a user.
    with ThreadPoolExecutor() as pool:
        texts = list(pool.map(_help, commands))
    lines = []
    for command, text in zip(commands, texts, strict=True):
        if command:
            lines += [f"## `{' '.join(('incast', *command))}`", ""]
        lines += ["```text", text.strip(), "```", ""]
    return "\n".join(lines)


def _commands(parent: App, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield path
    for name in sorted(name for name in parent if not name.startswith("-")):
        yield from _commands(parent[name], (*path, name))


def _help(command: tuple[str, ...]) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "incast", *command, "--help"],
        env={**os.environ, "COLUMNS": COLUMNS},
        capture_output=True,
        text=True,
        check=True,
    )
    # Only the width of a box changes the ends of its lines.
    return "\n".join(line.rstrip() for line in done.stdout.splitlines())
