"""Follows the page on adding a protocol, in a copy of the project.

Usage: own_protocol.py COPY [--update]. COPY is recreated from the files that git knows. The Rust blocks of the page
become files and lines in it, its commands run in it, and its scenario shows that the new sender behaves differently
from the existing ones. Build results go to the project's own target directory, so that only the project's crates are
rebuilt. With --update, outputs that differ are written into the page.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import blocks
from blocks import Block, PageError
from run_pages import ELSEWHERE, ROOT, Runner

# The sender that the page adds first, and the scenario that runs it.
SENDER, SCENARIO = "gentle", "gentle.toml"
TIMEOUT_S = 600


def copied(copy: Path) -> None:
    """Copy the files that git knows, in their current state; unchanged files keep their modification time."""
    known = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    names = {
        name for name in known.stdout.split("\0") if name and ((ROOT / name).is_file() or (ROOT / name).is_symlink())
    }
    if copy.exists():
        for path in [path for path in copy.rglob("*") if path.is_file() or path.is_symlink()]:
            if str(path.relative_to(copy)) not in names:
                path.unlink()
    for name in names:
        source, target = ROOT / name, copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            if not target.is_symlink():
                target.symlink_to(source.readlink())
        elif not target.is_file() or target.read_bytes() != source.read_bytes():
            shutil.copyfile(source, target)
    _rename(copy)


def _rename(copy: Path) -> None:
    """Give the crates of the copy another version, so that cargo tells them from those of the project.

    In a shared target directory it would otherwise rebuild the project's crates, or link the copy's into its module.
    """
    manifest, lock = copy / "Cargo.toml", copy / "Cargo.lock"
    text = manifest.read_text(encoding="utf-8")
    text = re.sub(r'^version = "(.*)"$', r'version = "\1+copy"', text, flags=re.MULTILINE)
    manifest.write_text(text, encoding="utf-8")
    text = lock.read_text(encoding="utf-8")
    ours = r'^(name = "incast(?:-[\w-]+)?"\nversion = ".*)"$'
    lock.write_text(re.sub(ours, r'\1+copy"', text, flags=re.MULTILINE), encoding="utf-8")


class Author(Runner):
    """A reader who adds the code of the page to a copy of the project."""

    timeout_s = TIMEOUT_S

    def __init__(self, copy: Path, *, update: bool) -> None:
        super().__init__(copy, update=update)
        self._bin = copy / ".bin"
        target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
        self.environment["PATH"] = f"{self._bin}{os.pathsep}{self.environment['PATH']}"
        self.environment["CARGO_TARGET_DIR"] = str(target)
        # What the copy simulates is small, and half of the time would go to making it fast. The two crates that
        # simulate have a level of their own in Cargo.toml.
        self.environment["CARGO_PROFILE_DEV_OPT_LEVEL"] = "0"
        self._built = False

    def run(self, page: list[Block]) -> None:
        """Write all code first, so that it is built only once, then run the other blocks in order."""
        for block in page:
            if block.language == "rust":
                self.rust(block)
        super().run([block for block in page if block.language != "rust"])

    def rust(self, block: Block) -> None:
        """Create a file, or add a line after another."""
        head, rest = block.lines[0], "".join(f"{line}\n" for line in block.lines[1:])
        name, _, after = head.removeprefix("// ").partition(", after: ")
        path = self.directory / name
        if not head.startswith("// ") or not name.startswith("crates/"):
            raise block.error("the first line of Rust must be the path of its file, `// crates/...`")
        if not after:
            if path.exists():
                raise block.error(f"{name} already exists")
            path.write_text(rest, encoding="utf-8")
            return
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        places = [number for number, line in enumerate(lines) if line.strip() == after.strip()]
        if len(places) != 1:
            raise block.error(f"{name} has {len(places)} lines `{after}`, expected one")
        lines.insert(places[0] + 1, rest)
        path.write_text("".join(lines), encoding="utf-8")

    def command(self, block: Block, text: str) -> list[str]:
        """Run a command of the page; the first one that needs the program builds it."""
        if text.startswith("incast ") and not self._built:
            self._built = True
            self._build(block)
        return super().command(block, text)

    def _build(self, block: Block) -> None:
        """Build the program without changing the installed one.

        In the profile of the tests, for which the dependencies have been built if `make test` came this far. How much
        these are optimized is in Cargo.toml.
        """
        wheels, package = self._bin / "wheels", self._bin / "package"
        for old in (wheels, package):
            shutil.rmtree(old, ignore_errors=True)
        build = "maturin build --quiet --profile dev --features as-tests --locked"
        super().command(block, f'{build} -i "{sys.executable}" --out "{wheels}"')
        # Cargo puts the modules of the project and the copy into the same places. Without the files it writes the
        # project's again.
        for laid_down in Path(self.environment["CARGO_TARGET_DIR"]).glob("*/**/lib_native.*"):
            laid_down.unlink()
        (wheel,) = wheels.glob("*.whl")
        with zipfile.ZipFile(wheel) as files:
            files.extractall(package)
        program = self._bin / "incast"
        # -P: the sources in the current directory have no native module.
        run = f'PYTHONPATH="{package}" exec "{sys.executable}" -P -m incast "$@"'
        program.write_text(f"#!/bin/sh\n{run}\n", encoding="utf-8")
        program.chmod(0o755)


def shown(author: Author, block: Block) -> None:
    """Check that the sender of the page exists and behaves differently from the others.

    Raises:
        PageError: it does not.

    """

    def json_of(text: str) -> Any:  # noqa: ANN401 - any output of the program
        return json.loads("\n".join(author.command(block, text)))

    listed = json_of("incast list protocols --json")
    if not any((part["place"], part["name"]) == ("sender", SENDER) for part in listed):
        raise block.error(f"the sender {SENDER} is not listed")
    goodput = {}
    for sender in (SENDER, "newreno", "dctcp"):
        change = "" if sender == SENDER else f" --set stack.sender={sender}"
        summary = json_of(f"incast run {SCENARIO} --json --out out/{sender}{change}")
        if summary["outcome"] != "complete":
            raise block.error(f"with {sender} the run ended as {summary['outcome']}")
        goodput[sender] = summary["goodput_total_bps"]
    if len(set(goodput.values())) != len(goodput):
        raise block.error(f"{SENDER} does not behave differently: {goodput}")
    print(", ".join(f"{sender} {bps / 1e6:.1f} Mbit/s" for sender, bps in goodput.items()))


def main() -> None:
    """Follow the page, and fail if it fails."""
    copy, *options = sys.argv[1:]
    author = Author(Path(copy).resolve(), update=options == ["--update"])
    copied(author.directory)
    page = blocks.read(ELSEWHERE)
    try:
        author.run(page)
        shown(author, page[-1])
    except PageError as error:
        sys.exit(str(error))
    author.write(ELSEWHERE, page)
    for block in author.not_run:
        print(f"{ELSEWHERE.relative_to(ROOT)}:{block.line}: not run: {block.not_run}")


if __name__ == "__main__":
    main()
