"""The streams of the command and the files that it is given, also if they are not what one expects."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import SMALL, Command, small_paper

COMMAND = [sys.executable, "-m", "incast"]


def run(*arguments: str, redirected: str = "", **changes: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command with what the shell does to its streams."""
    return subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {redirected}', "sh", *COMMAND, *arguments],
        capture_output=True, check=False, timeout=120, env={**os.environ, **changes},
    )  # fmt: skip


@pytest.mark.parametrize("redirected", [">&-", "2>&-", ">&- 2>&-", "<&-"])
def test_closed_streams_are_no_error(redirected: str) -> None:
    done = run("list", "worlds", redirected=redirected)
    assert (done.returncode, done.stderr) == (0, b"")


def test_with_closed_streams_tables_are_written_to_their_files(small: Path, tmp_path: Path) -> None:
    done = run("run", str(small), "--out", str(tmp_path / "out"), redirected=">&- 2>&- <&-")
    assert done.returncode == 0
    assert (tmp_path / "out" / "flows.parquet").read_bytes().startswith(b"PAR1")


def test_a_reader_of_errors_that_goes_away_changes_nothing(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([*COMMAND, "sweep", "nowhere.toml"], cwd=tmp_path, stderr=writing, check=False, timeout=120)
    os.close(writing)
    assert done.returncode == 2


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_what_an_encoding_does_not_have_is_written_otherwise(small: Path, tmp_path: Path, encoding: str) -> None:
    done = run("run", str(small), "--out", str(tmp_path / "日本"), PYTHONIOENCODING=encoding)
    assert done.returncode == 0, done.stderr
    assert b"\\u65e5\\u672c" in done.stdout
    done = run("run", str(tmp_path / "日.toml"), PYTHONIOENCODING=encoding)
    assert (done.returncode, b"Traceback" in done.stderr) == (2, False)


def test_names_of_files_may_be_any_bytes(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"b\xffd")
    folder.mkdir()
    study = small_paper(folder) / "figure-1.toml"
    study = study.rename(study.with_name(os.fsdecode(b"f\xff.toml")))
    scenario = folder / os.fsdecode(b"s\xff.toml")
    scenario.write_text(SMALL, encoding="utf-8")
    for arguments, code in (
        (["run", str(scenario), "--out", str(folder / "run")], 0),
        (["check", str(scenario)], 0),
        (["check", str(scenario), "--set", "topology.hosts=x"], 2),
        (["sweep", str(study), "--out", str(folder / "out")], 0),
        (["sweep", str(scenario), "--out", str(folder / "out")], 2),
        (["reproduce", "paper", "--studies", str(study.parents[1]), "--out", str(folder / "report")], 0),
        (["store", "ls", str(folder / "out")], 0),
        (["store", "ls", str(folder / "out"), "--json"], 0),
        (["conform", str(folder / os.fsdecode(b"\xff.pkt"))], 2),
    ):
        done = run(*arguments)
        assert (done.returncode, b"Traceback" in done.stderr) == (code, False), done.stderr
        assert not code or b"f" in done.stderr


@pytest.mark.parametrize("columns", ["0", "1", "2", "5"])
def test_help_ends_in_a_narrow_terminal(columns: str) -> None:
    done = run("sweep", "--help", COLUMNS=columns)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"STUDY" in done.stdout


@pytest.mark.parametrize("command", ["run", "check", "sweep", "advise", "conform"])
def test_what_has_no_end_is_not_read(incast: Command, tmp_path: Path, command: str) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path in ("/dev/zero", str(fifo)):
        done = incast(command, path)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert f"{path}: " in done.stderr
        assert "not a file" in done.stderr


def test_what_is_too_large_is_not_read(incast: Command, tmp_path: Path) -> None:
    large = tmp_path / "large.toml"
    with large.open("wb") as file:
        file.truncate(65 << 20)
    done = incast("check", large)
    assert (done.returncode, done.stderr) == (2, f"incast: {large}: cannot be read: larger than 64 MiB\n")


def test_what_the_shell_hands_over_is_read(small: Path) -> None:
    whole = run("check", str(small))
    for path in ("/dev/stdin", "/dev/fd/3"):
        piped = run("check", path, redirected=f'3< "{small}" < "{small}"')
        assert (piped.returncode, piped.stdout) == (0, whole.stdout), piped.stderr
