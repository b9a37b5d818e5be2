"""The fenced blocks of a page, and what a reader is told about them.

A page says how its blocks are meant, in ways a reader sees or can look up:

- `console`: commands after `$ `, each followed by what it prints.
- `sh`: commands whose output is not shown.
- `python`: one program per page, block by block. A `text` block right behind one is what it prints.
- `toml`: a scenario. Its first line `# name.toml` names the file; without one it is a part that is laid over the last
  whole scenario of the page.
- `text` with a caption: a file of that name.
- `rust`: a file of this project, named by its first line `// path`, or a line of one, `// path, after: line`.

In output, `…` stands for anything on a line, and on a line of its own for any lines. `<!-- not run: reason -->` before
a block keeps it from being run, `<!-- exits with 2 -->` says that its commands fail.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LANGUAGES = ("console", "sh", "python", "toml", "text", "rust")
_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>```+)(?P<info>[^`]*)$")
_MARK = re.compile(r"^<!-- (?P<text>.*) -->$")


class PageError(Exception):
    """What is wrong with a page, with file and line."""


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    page: Path
    line: int
    """Of its first line, from 1."""
    language: str
    lines: tuple[str, ...]
    indent: str
    caption: str | None
    not_run: str | None
    exit_code: int
    follows: bool
    """Nothing but empty lines is between it and the block before it."""

    @property
    def text(self) -> str:
        """Its lines, each with its end."""
        return "".join(f"{line}\n" for line in self.lines)

    def error(self, message: str) -> PageError:
        """Return an error that says where."""
        return PageError(f"{self.page}:{self.line}: {message}")


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
        elif found := re.fullmatch(r"exits with (\d+)", text):
            self.exit_code = int(found[1])


def read(page: Path, text: str | None = None) -> list[Block]:
    """Return the blocks of a page in order; directives of the site are not blocks."""
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
            raise PageError(f"{page}:{at + 1}: this block has no end")
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
        raise PageError(f"{page}:{at + 1}: a block is one of {', '.join(LANGUAGES)}, not {info!r}")
    body = tuple(line.removeprefix(indent) for line in lines)
    return Block(page, first, info, body, indent, caption, marks.not_run, marks.exit_code, follows)


@dataclass
class Command:
    """A command in a terminal and what it prints."""

    text: str
    lines: tuple[str, ...]
    output: list[str]


def commands(block: Block) -> list[Command]:
    """Return the commands of a `console` block. One goes on after a line that ends in a backslash."""
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
            raise block.error("it begins with a command, `$ ...`")
    return found


def renewed(shown: list[str], printed: list[str]) -> list[str]:
    """Return the lines printed, but lines shown with something left out as they are where they still hold."""
    elided = [line for line in shown if "…" in line.strip("… ")]
    return [next((line for line in elided if matches([line], [new])), new) for new in printed]


def matches(shown: list[str], printed: list[str]) -> bool:
    """Tell whether output is as shown. Spaces at the ends of lines do not count."""
    if not shown:
        return not printed
    if shown[0].strip() == "…":
        return any(matches(shown[1:], printed[skip:]) for skip in range(len(printed) + 1))
    if not printed:
        return False
    pattern = ".*".join(map(re.escape, shown[0].rstrip().split("…")))
    return re.fullmatch(pattern, printed[0].rstrip()) is not None and matches(shown[1:], printed[1:])
