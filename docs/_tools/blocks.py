"""Reads the fenced blocks of a page.

The language of a block says what it is:

- `console`: commands after `$ `, each followed by its output.
- `sh`: commands whose output is not shown.
- `python`: one program per page, block by block. A `text` block directly after it is its output.
- `toml`: a scenario. The first line `# name.toml` names the file; without it the block is merged into the last complete
  scenario of the page.
- `text` with a caption: a file of that name.
- `rust`: a file of this project, named by the first line `// path`, or a line to add to one, `// path, after: line`.

In an output `…` matches any text on a line, and alone on a line any number of lines. `<!-- not run: reason -->` before
a block skips it, `<!-- exits with 2 -->` says that its commands fail, `<!-- as root -->` that it needs Linux and root,
and `<!-- with incast-host -->` that it needs these and what `make linux` builds.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

LANGUAGES = ("console", "sh", "python", "toml", "text", "rust")
_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>```+)(?P<info>[^`]*)$")
_MARK = re.compile(r"^<!-- (?P<text>.*) -->$")


class PageError(Exception):
    """An error in a page, with file and line."""


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    page: Path
    line: int
    """Number of its first line, from 1."""
    language: str
    lines: tuple[str, ...]
    indent: str
    caption: str | None
    not_run: str | None
    exit_code: int
    follows: bool
    """Whether only empty lines separate it from the previous block."""

    @property
    def text(self) -> str:
        """Its lines with line ends."""
        return "".join(f"{line}\n" for line in self.lines)

    def error(self, message: str) -> PageError:
        """Return an error with the place of this block."""
        return PageError(f"{self.page}:{self.line}: {message}")


def _is_root() -> bool:
    return sys.platform == "linux" and os.geteuid() == 0


def _has_incast_host() -> bool:
    built = Path(sys.executable).parent / "incast-host"
    return _is_root() and built.exists() and Path("/sys/kernel/btf/vmlinux").exists()


_NEEDS = {
    "as root": ("Linux and root", _is_root),
    "with incast-host": ("root, a kernel with BTF, and make linux", _has_incast_host),
}
"""What a block says that it needs -> for people, and whether that is there."""


@dataclass
class _Marks:
    not_run: str | None = None
    exit_code: int = 0

    def read(self, page: Path, number: int, text: str) -> None:
        if text.startswith("not run"):
            reason = text.removeprefix("not run").removeprefix(":").strip()
            if not reason:
                raise PageError(f"{page}:{number}: a block that is not run needs a reason: <!-- not run: reason -->")
            self.not_run = reason
        elif (what := _NEEDS.get(text)) and not what[1]():
            if os.environ.get("INCAST_KERNEL_TESTS") == "required":
                raise PageError(f"{page}:{number}: the block needs {what[0]}, and INCAST_KERNEL_TESTS=required")
            self.not_run = f"it needs {what[0]}"
        elif found := re.fullmatch(r"exits with (\d+)", text):
            self.exit_code = int(found[1])


def read(page: Path, text: str | None = None) -> list[Block]:
    """Return the blocks of a page in order, without directives of the site."""
    lines = (page.read_text(encoding="utf-8") if text is None else text).splitlines()
    blocks: list[Block] = []
    marks, follows, at = _Marks(), False, 0
    while at < len(lines):
        found = _FENCE.match(lines[at])
        if found is None:
            if mark := _MARK.match(lines[at].strip()):
                marks.read(page, at + 1, mark["text"])
            elif lines[at].strip():
                marks, follows = _Marks(), False
            at += 1
            continue
        end = next((i for i in range(at + 1, len(lines)) if lines[i].strip() == found["fence"]), None)
        if end is None:
            raise PageError(f"{page}:{at + 1}: the block has no end")
        block = _block(page, at, lines[at + 1 : end], found["info"].strip(), found["indent"], marks, follows)
        if block is not None:
            blocks.append(block)
        marks, follows, at = _Marks(), block is not None, end + 1
    return blocks


def _block(page: Path, at: int, lines: list[str], info: str, indent: str, marks: _Marks, follows: bool) -> Block | None:
    first, caption = at + 2, None
    if info.startswith("{"):
        directive, _, language = info[1:].partition("}")
        if directive != "code-block":
            return None
        info = language.strip()
        while lines and (option := re.match(r"^:(\w+): (.*)$", lines[0])):
            caption = option[2] if option[1] == "caption" else caption
            lines, first = lines[1:], first + 1
    if info not in LANGUAGES:
        raise PageError(f"{page}:{at + 1}: a block must be one of {', '.join(LANGUAGES)}, not {info!r}")
    body = tuple(line.removeprefix(indent) for line in lines)
    return Block(page, first, info, body, indent, caption, marks.not_run, marks.exit_code, follows)


@dataclass
class Command:
    """A command in a terminal and its output."""

    text: str
    lines: tuple[str, ...]
    output: list[str]


def commands(block: Block) -> list[Command]:
    """Return the commands of a `console` block. A backslash at the end of a line continues a command."""
    found: list[Command] = []
    goes_on = False
    for line in block.lines:
        if goes_on:
            found[-1].text += f"\n{line}"
            found[-1].lines += (line,)
            goes_on = line.endswith("\\")
        elif line.startswith("$ "):
            found.append(Command(line[2:], (line,), []))
            goes_on = line.endswith("\\")
        elif found:
            found[-1].output.append(line)
        else:
            raise block.error("the first line must be a command, `$ ...`")
    return found


def renewed(shown: list[str], printed: list[str]) -> list[str]:
    """Return the printed lines, but keep shown lines with an omission if they still match."""
    elided = [line for line in shown if "…" in line.strip("… ")]
    return [next((line for line in elided if matches([line], [new])), new) for new in printed]


def matches(shown: list[str], printed: list[str]) -> bool:
    """Whether the output matches what is shown, ignoring spaces at the ends of lines."""
    patterns = [
        r"(.*\n)*" if line.strip() == "…" else ".*".join(map(re.escape, line.rstrip().split("…"))) + r"\n"
        for line in shown
    ]
    return re.fullmatch("".join(patterns), "".join(f"{line.rstrip()}\n" for line in printed)) is not None
