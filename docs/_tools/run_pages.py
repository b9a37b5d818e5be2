"""Runs the examples of the pages, and compares their output with what the pages show.

Usage: run_pages.py [--update] [PAGE ...], by default every page. With --update, outputs that differ are written into
the page. `blocks.py` describes the blocks. A page that measures on the kernel is run anew if it fails, up to
INCAST_LINUX_ATTEMPTS times in all, as tests on the kernel are. Figures that a page draws are kept for the site under
`docs/_made`: the image `_made/PAGE/FILE` is the FILE written by the blocks of PAGE.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import traceback
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import tomli_w

import blocks
from blocks import Block, PageError

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MADE = DOCS / "_made"
# Needs its own copy of the project: own_protocol.py runs it.
ELSEWHERE = DOCS / "how-to" / "own-protocol.md"
# What a reader finds in the directory in which `make install` was called.
AROUND = (".venv", "scenarios")


def pages() -> list[Path]:
    """Return every page whose blocks are run here."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
    return [page for page in found if page != ELSEWHERE]


class Runner:
    """A reader who works through one page from top to bottom, in a separate directory."""

    timeout_s = 300

    def __init__(self, directory: Path, *, path: Path | None = None, update: bool = False) -> None:
        first = path or Path(sys.executable).parent
        self.directory = directory
        self.environment = {
            **os.environ,
            "PATH": f"{first}{os.pathsep}{os.environ['PATH']}",
            "COLUMNS": "100",
            "LC_ALL": "C.UTF-8",
            "MPLBACKEND": "Agg",
        }
        self.update = update
        self.replaced: dict[int, list[str]] = {}
        """Line of a block -> its new lines."""
        self.not_run: list[Block] = []
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._printed: list[str] | None = None
        self._scenario: dict[str, Any] | None = None

    def run(self, page: list[Block]) -> None:
        """Run all blocks.

        Raises:
            PageError: a block fails or prints something different.

        """
        for block in page:
            if block.not_run:
                self.not_run.append(block)
                self._printed = None
            else:
                self._run(block)

    def _run(self, block: Block) -> None:
        printed, self._printed = self._printed, None
        match block.language:
            case "console":
                self._console(block)
            case "sh":
                self.command(block, block.text)
            case "python":
                self._printed = self._python(block)
            case "toml":
                self._toml(block)
            case "text" if block.caption:
                self._write(block, block.caption)
            case "text" if block.follows and printed is not None:
                self._compare(block, list(block.lines), printed, blocks.renewed(list(block.lines), printed))
            case "rust":
                self.rust(block)
            case _:
                raise block.error("this is neither a file (with a caption) nor the output of the previous block")

    def rust(self, block: Block) -> None:
        """Reject Rust, which is allowed only on the page that own_protocol.py runs."""
        raise block.error("Rust is not allowed on this page")

    def command(self, block: Block, text: str) -> list[str]:
        """Run a command of a page and return the lines it prints."""
        done = subprocess.run(
            ["bash", "-e", "-c", text],  # noqa: S607 - the pages speak to a shell
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            timeout=self.timeout_s,
            check=False,
        )
        if done.returncode != block.exit_code:
            raise block.error(f"exit code {done.returncode} of: {text}\n{done.stdout}")
        return done.stdout.splitlines()

    def _console(self, block: Block) -> None:
        shown: list[str] = []
        new: list[str] = []
        printed: list[str] = []
        for command in blocks.commands(block):
            found = self.command(block, command.text)
            as_it_is = blocks.matches(command.output, found)
            shown += [*command.lines, *command.output]
            printed += [*command.lines, *found]
            new += [*command.lines, *(command.output if as_it_is else blocks.renewed(command.output, found))]
            if not as_it_is:
                self._compare(block, command.output, found, None)
        if new != shown:
            self.replaced[block.line] = new

    def _compare(self, block: Block, shown: list[str], printed: list[str], new: list[str] | None) -> None:
        if blocks.matches(shown, printed):
            return
        if not self.update:
            raise block.error("\n".join(["shown:", *shown, "printed:", *printed]))
        if new is not None:
            self.replaced[block.line] = new

    def _python(self, block: Block) -> list[str]:
        # Errors show line numbers of the page.
        code = compile("\n" * (block.line - 1) + block.text, str(block.page), "exec")
        output = io.StringIO()
        before = dict(os.environ)
        os.environ.update(self.environment)
        try:
            with contextlib.chdir(self.directory), contextlib.redirect_stdout(output), warnings.catch_warnings():
                warnings.simplefilter("error")
                exec(code, self._names)  # noqa: S102 - this is what the page tells its reader to do
        except Exception as error:
            raise block.error(traceback.format_exc()) from error
        finally:
            os.environ.clear()
            os.environ.update(before)
        return output.getvalue().splitlines()

    def _toml(self, block: Block) -> None:
        try:
            scenario = tomllib.loads(block.text)
        except tomllib.TOMLDecodeError as error:
            raise block.error(str(error)) from error
        first = block.lines[0]
        if first.startswith("# ") and first.endswith(".toml"):
            name = first[2:]
            self._write(block, name)
            self._scenario = scenario
        elif self._scenario is None:
            raise block.error(
                "the first line of a scenario must be `# name.toml`; there is no scenario above to merge this into"
            )
        else:
            name = f"part-{block.line}.toml"
            (self.directory / name).write_text(tomli_w.dumps(_laid_over(self._scenario, scenario)), encoding="utf-8")
        self.command(block, f"incast check {name}")

    def write(self, path: Path, page: list[Block]) -> None:
        """Write new outputs into the page, if requested."""
        if self.replaced:
            text = path.read_text(encoding="utf-8")
            path.write_text(with_replaced(text, page, self.replaced), encoding="utf-8")

    def _write(self, block: Block, name: str) -> None:
        path = self.directory / name
        if path.resolve().parent != self.directory.resolve():
            raise block.error(f"a page must not write files outside its directory: {name}")
        path.write_text(block.text, encoding="utf-8")


def _laid_over(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        # A table with a kind or name replaces the previous one.
        merge = isinstance(old, dict) and isinstance(value, dict) and not {"kind", "name"} & value.keys()
        merged[key] = _laid_over(old, value) if merge and isinstance(old, dict) else value
    return merged


def with_replaced(text: str, page: list[Block], replaced: dict[int, list[str]]) -> str:
    """Return the text of a page with some blocks replaced."""
    lines = text.splitlines()
    for block in reversed(page):
        if block.line in replaced:
            start = block.line - 1
            lines[start : start + len(block.lines)] = [(block.indent + line).rstrip() for line in replaced[block.line]]
    return "".join(f"{line}\n" for line in lines)


def run_page(path: Path, directory: Path, *, update: bool = False) -> list[Block]:
    """Run one page and return the blocks that were not run.

    Raises:
        PageError: a block fails or prints something different.

    """
    page = blocks.read(path)
    for name in AROUND:
        (directory / name).symlink_to(ROOT / name)
    runner = Runner(directory, update=update)
    runner.run(page)
    runner.write(path, page)
    _keep_pictures(path, directory)
    return runner.not_run


def _keep_pictures(path: Path, directory: Path) -> None:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        for page, file in re.findall(r"\]\([./]*_made/([^/)]+)/([^)]+)\)", line):
            if page != path.stem or not (directory / file).is_file():
                raise PageError(f"{path}:{number}: no block of this page draws {file}")
            (MADE / page / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(directory / file, MADE / page / file)


def main(arguments: list[str]) -> None:
    """Run pages and list the blocks that were not run."""
    update = "--update" in arguments
    wanted = [Path(argument).resolve() for argument in arguments if argument != "--update"]
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for said, is_wrong in pool.map(partial(_one, update=update), wanted or pages()):
            if is_wrong:
                pool.shutdown(cancel_futures=True)
                sys.exit(said)
            print(said, end="")


def _one(path: Path, *, update: bool) -> tuple[str, bool]:
    """Run one page; return its blocks that were not run, or what is wrong with it, and which of them that is."""
    is_measured = "\n<!-- as root -->\n" in path.read_text(encoding="utf-8")
    attempts = int(os.environ.get("INCAST_LINUX_ATTEMPTS", "1")) if is_measured else 1
    said = ""
    for attempt in range(1, attempts + 1):
        try:
            with tempfile.TemporaryDirectory() as directory:
                not_run = run_page(path, Path(directory), update=update)
        except PageError as error:
            said += f"{error}\n"
            if attempt < attempts:
                said += f"attempt {attempt} of {attempts}: {path.name} is run again\n"
        else:
            name = path.relative_to(ROOT)
            return said + "".join(f"{name}:{block.line}: not run: {block.not_run}\n" for block in not_run), False
    return said.rstrip(), True


if __name__ == "__main__":
    main(sys.argv[1:])
