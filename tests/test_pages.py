"""The machinery that runs the pages: what differs is found, and nothing is passed over in silence."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

import pytest

import blocks
import own_protocol
import run_pages
from blocks import PageError
from conftest import SMALL
from own_protocol import Author
from run_pages import Runner

FENCE = "```"


def fenced(language: str, *lines: str) -> str:
    return "\n".join([f"{FENCE}{language}", *lines, FENCE, ""])


def run(directory: Path, text: str, *, update: bool = False) -> str:
    """Run a page of this text and return what became of it."""
    page = directory / "page.md"
    page.write_text(text, encoding="utf-8")
    with tempfile.TemporaryDirectory(dir=directory) as reader:
        run_pages.run_page(page, Path(reader), update=update)
    return page.read_text(encoding="utf-8")


@pytest.fixture
def small_page() -> str:
    return fenced("toml", "# small.toml", *SMALL.splitlines())


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("", "", True),
        ("a", "a", True),
        ("a", "b", False),
        ("a", "a\nb", False),
        ("a\nb", "a", False),
        ("a … c", "a b c", True),
        ("a … c", "a b d", False),
        ("…", "", True),
        ("a\n…\nd", "a\nb\nc\nd", True),
        ("a\n…\nd", "a\nb\nc", False),
        ("1 ms (best)", "1 ms (best)  ", True),
        (".*", "anything", False),
    ],
)
def test_output_is_as_shown_or_not(shown: str, printed: str, same: bool) -> None:
    assert blocks.matches(shown.splitlines(), printed.splitlines()) is same


def test_commands_are_compared_line_by_line(tmp_path: Path) -> None:
    run(tmp_path, fenced("console", "$ echo one; \\", "  echo two", "one", "two", "$ echo 3", "3"))
    with pytest.raises(PageError, match=r"page.md:2: shown:\nthree\nprinted:\n3"):
        run(tmp_path, fenced("console", "$ echo 3", "three"))


def test_a_command_fails_only_where_the_page_says_so(tmp_path: Path) -> None:
    with pytest.raises(PageError, match="exit code 2"):
        run(tmp_path, fenced("sh", "exit 2"))
    run(tmp_path, "<!-- exits with 2 -->\n" + fenced("sh", "exit 2"))
    with pytest.raises(PageError, match="exit code 0"):
        run(tmp_path, "<!-- exits with 2 -->\n" + fenced("sh", "true"))
    with pytest.raises(PageError, match="exit code 1"):
        run(tmp_path, fenced("sh", "false", "true"))


def test_python_blocks_are_one_program_whose_output_is_compared(tmp_path: Path) -> None:
    first = fenced("python", "x = 1")
    run(tmp_path, first + "words\n" + fenced("python", "print(x + 1)") + "\n" + fenced("text", "2"))
    with pytest.raises(PageError, match=r"shown:\n3\nprinted:\n2"):
        run(tmp_path, first + fenced("python", "print(x + 1)") + fenced("text", "3"))
    with pytest.raises(PageError, match="ZeroDivisionError"):
        run(tmp_path, fenced("python", "1 / 0"))
    with pytest.raises(PageError, match="DeprecationWarning"):
        run(tmp_path, fenced("python", "import warnings", "warnings.warn('old', DeprecationWarning)"))


def test_a_scenario_is_written_and_checked(tmp_path: Path, small_page: str) -> None:
    run(tmp_path, small_page + fenced("console", "$ incast check small.toml | sed -n '1s/,.*//p'", "small: 9 hosts"))
    with pytest.raises(PageError, match="rto_mni"):
        run(tmp_path, small_page.replace("rto_min", "rto_mni"))


def test_a_part_is_checked_as_part_of_the_scenario_above(tmp_path: Path, small_page: str) -> None:
    part = fenced("toml", "[switch]", 'buffer = { name = "static", limit = "1MB", count_in_service = false }')
    run(tmp_path, small_page + part)
    with pytest.raises(PageError, match="sttaic"):
        run(tmp_path, small_page + part.replace("static", "sttaic"))
    with pytest.raises(PageError, match="no scenario above"):
        run(tmp_path, part)


def test_text_is_a_file_or_the_output_of_the_block_before_it(tmp_path: Path) -> None:
    file = fenced("{code-block} text", ":caption: flow.txt", "1 2 3")
    run(tmp_path, file + fenced("console", "$ cat flow.txt", "1 2 3"))
    for orphan in (fenced("text", "1"), fenced("python", "print(1)") + "words\n" + fenced("text", "1")):
        with pytest.raises(PageError, match="neither a file"):
            run(tmp_path, orphan)
    with pytest.raises(PageError, match="outside its directory"):
        run(tmp_path, file.replace("flow.txt", "../flow.txt"))


def test_what_is_not_run_has_a_reason_and_is_told(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- not run: needs the net -->\n" + fenced("sh", "exit 1"), encoding="utf-8")
    (told,) = run_pages.run_page(page, tmp_path)
    assert (told.line, told.not_run) == (3, "needs the net")
    for mark in ("<!-- not run -->", "<!-- not run:  -->"):
        with pytest.raises(PageError, match="needs a reason"):
            blocks.read(page, mark + "\n" + fenced("sh", "exit 1"))
    # The mark is of the block right behind it alone.
    with pytest.raises(PageError, match="exit code 1"):
        run(tmp_path, "<!-- not run: reason -->\nwords\n" + fenced("sh", "exit 1"))


@pytest.mark.parametrize("mark", ["as root", "with incast-host"])
def test_a_block_whose_needs_are_not_met_is_left_out_or_an_error(mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"<!-- {mark} -->\n" + fenced("sh", "exit 1")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.delenv("INCAST_KERNEL_TESTS", raising=False)
    (block,) = blocks.read(Path("page.md"), text)
    assert str(block.not_run).startswith("it needs ")
    monkeypatch.setenv("INCAST_KERNEL_TESTS", "required")
    with pytest.raises(PageError, match="INCAST_KERNEL_TESTS=required"):
        blocks.read(Path("page.md"), text)


@pytest.mark.parametrize(
    ("mark", "attempts", "works"), [("<!-- as root -->", "2", True), ("<!-- as root -->", "1", False), ("", "2", False)]
)
def test_only_a_page_that_measures_on_the_kernel_is_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: str, attempts: str, works: bool
) -> None:
    monkeypatch.setitem(blocks._NEEDS, "as root", ("nothing", lambda: True))
    monkeypatch.setattr(run_pages, "ROOT", tmp_path)
    monkeypatch.setenv("INCAST_LINUX_ATTEMPTS", attempts)
    page, failed = tmp_path / "page.md", tmp_path / "failed"
    block = fenced("sh", f"test -e {failed} || {{ touch {failed}; exit 1; }}")
    page.write_text(f"# Page\n\n{mark}\n{block}", encoding="utf-8")
    said, is_wrong = run_pages._one(page, update=False)
    assert is_wrong is not works
    assert f"{page}:" in said
    assert ("attempt 1 of 2" in said) is works


@pytest.mark.parametrize("language", ["", "bash", "json", "rust"])
def test_a_block_of_another_language_is_an_error(tmp_path: Path, language: str) -> None:
    with pytest.raises(PageError):
        run(tmp_path, fenced(language, "// crates/protocols/src/lib.rs"))


def test_a_block_without_an_end_and_a_console_without_a_command_are_errors(tmp_path: Path) -> None:
    with pytest.raises(PageError, match="no end"):
        run(tmp_path, f"{FENCE}sh\ntrue\n")
    with pytest.raises(PageError, match="must be a command"):
        run(tmp_path, fenced("console", "output"))


def test_an_update_writes_what_is_printed_and_keeps_what_was_left_out(tmp_path: Path) -> None:
    text = "words\n" + fenced("console", "$ echo new; echo a b c", "old", "a … c", "$ echo same", "same")
    text += fenced("python", "print(5)") + "\n" + fenced("text", "4") + "\nmore words\n"
    updated = run(tmp_path, text, update=True)
    assert updated == text.replace("old", "new").replace("\n4\n", "\n5\n")
    assert run(tmp_path, updated) == updated


def test_a_picture_must_be_drawn_by_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_pages, "MADE", tmp_path / "made")
    text = fenced("sh", "mkdir out; echo picture > out/a.png") + "\n![A](../_made/page/out/a.png)\n"
    run(tmp_path, text)
    assert (tmp_path / "made/page/out/a.png").read_text(encoding="utf-8") == "picture\n"
    with pytest.raises(PageError, match=r"b\.png"):
        run(tmp_path, text.replace("out/a.png)", "out/b.png)"))


def test_every_page_is_run_here_or_by_the_check_of_its_own() -> None:
    found = set(run_pages.DOCS.rglob("*.md")) | {run_pages.ROOT / "README.md", run_pages.ROOT / "CONTRIBUTING.md"}
    assert {*run_pages.pages(), run_pages.ELSEWHERE} == found
    rust = [block for block in blocks.read(run_pages.ELSEWHERE) if block.language == "rust"]
    assert rust[0].lines[0] == f"// crates/protocols/src/sender/{own_protocol.SENDER}.rs"


def rust(*lines: str) -> blocks.Block:
    (block,) = blocks.read(Path("page.md"), fenced("rust", *lines))
    return block


def test_code_becomes_files_and_lines(tmp_path: Path) -> None:
    source = tmp_path / "crates/a/src/lib.rs"
    source.parent.mkdir(parents=True)
    source.write_text("one\n    two,\nthree\n", encoding="utf-8")
    author = Author(tmp_path, update=False)
    author.rust(rust("// crates/a/src/lib.rs, after: two,", "    new,"))
    assert source.read_text(encoding="utf-8") == "one\n    two,\n    new,\nthree\n"
    author.rust(rust("// crates/a/src/b.rs", "//! B.", ""))
    assert (tmp_path / "crates/a/src/b.rs").read_text(encoding="utf-8") == "//! B.\n\n"
    with pytest.raises(PageError, match="already exists"):
        author.rust(rust("// crates/a/src/b.rs", "//! B."))
    with pytest.raises(PageError, match="0 lines `four`"):
        author.rust(rust("// crates/a/src/lib.rs, after: four", "new"))
    with pytest.raises(PageError, match="path of its file"):
        author.rust(rust("fn main() {}"))


def test_a_copy_has_what_git_knows_under_versions_of_its_own(tmp_path: Path) -> None:
    stale = tmp_path / "crates/protocols/src/sender/gentle.rs"
    stale.parent.mkdir(parents=True)
    stale.touch()
    own_protocol.copied(tmp_path)
    assert not stale.exists()
    assert (tmp_path / "crates/protocols/src/lib.rs").is_file()
    assert not (tmp_path / "target").exists()
    lock = (tmp_path / "Cargo.lock").read_text(encoding="utf-8")
    ours = re.findall(r'name = "incast(?:-[\w-]+)?"\nversion = "(.*)"', lock)
    # A crate with a lock file of its own is no part of the workspace.
    crates = [path.parent for path in (tmp_path / "crates").rglob("Cargo.toml")]
    assert len(ours) == len([crate for crate in crates if not (crate / "Cargo.lock").exists()])
    assert all(version.endswith("+copy") for version in ours)
    assert lock.count("+copy") == len(ours)
    assert (tmp_path / "Cargo.toml").read_text(encoding="utf-8").count("+copy") == 1


def test_a_reader_has_the_command_and_no_terminal(tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    (block,) = blocks.read(Path("page.md"), fenced("sh", "true"))
    assert runner.command(block, "incast --version; [ -t 0 ] || echo no terminal")[1:] == ["no terminal"]
