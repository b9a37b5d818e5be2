"""`incast conform`: rows, exit codes, and the file of verdicts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import Command

SCRIPTS = Path(__file__).parents[1] / "crates" / "conform" / "scripts"
OPEN = """\
`./defaults.sh`
`sysctl -q net.ipv4.tcp_congestion_control=reno net.ipv4.tcp_unheard_of=1`
0  socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 bind(3, ..., ...) = 0
+0 listen(3, 1) = 0
+0 < S 0:0(0) win 65535 <mss 1000>
+0 > S. 0:0(0) ack 1 <mss 1460>
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a script for every verdict, and what one of them reads."""
    scripts = {
        "a": OPEN,
        "deep/b": OPEN + "+0 > . 1:1(0) ack 1\n",
        "c": OPEN + "+0 < R 1:1(0)\n",
        "d": OPEN + "+0 nonsense\n",
    }
    for name, script in scripts.items():
        path = tmp_path / "scripts" / f"{name}.pkt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script, encoding="utf-8")
    (tmp_path / "scripts" / "defaults.sh").write_text("sysctl net.ipv4.tcp_also_unheard_of=2\n", encoding="utf-8")
    return tmp_path / "scripts"


def test_every_script_has_a_row_with_its_verdict(incast: Command, folder: Path, tmp_path: Path) -> None:
    verdicts = tmp_path / "verdicts.json"
    done = incast("conform", folder, "--json", verdicts)
    assert done.returncode == 1
    rows = {line.split()[0]: line.split(maxsplit=1)[1] for line in done.stdout.splitlines()[1:5]}
    assert list(rows) == [str(folder / name) for name in ("a.pkt", "c.pkt", "d.pkt", "deep/b.pkt")]
    a, c, d, b = rows.values()
    assert a == "passes"
    assert c.split(maxsplit=2)[2] == "resets, line 8"
    assert d.split(maxsplit=1)[1] == "line 8: expected `(` after `nonsense`, found the end of the line"
    assert b.startswith("fails")
    assert "line 8: expected . 1:1(0) ack 1; found nothing by 0.004000" in b
    assert done.stdout.splitlines()[-1] == "4 scripts: 1 pass, 1 fail, 1 not applicable, 1 unreadable"
    # The folder deep/ has no defaults.sh of its own, and what is no script was not carried out.
    warnings = done.stderr.splitlines()
    assert "warning: the setting tcp_also_unheard_of is not understood (in 1 of 4 scripts)" in warnings
    assert "warning: the setting tcp_unheard_of is not understood (in 2 of 4 scripts)" in warnings
    found = json.loads(verdicts.read_text(encoding="utf-8"))
    assert [report["verdict"] for report in found] == ["passes", "not-applicable", "unreadable", "fails"]
    assert found[3]["line"] == 8
    only = incast("conform", folder, "--json", "-")
    assert (only.returncode, json.loads(only.stdout)) == (1, found)


def test_scripts_that_do_not_fail_exit_with_zero(incast: Command, folder: Path) -> None:
    assert incast("conform", folder / "a.pkt", folder / "c.pkt").returncode == 0
    assert incast("conform", folder / "d.pkt").returncode == 1
    assert incast("conform", SCRIPTS / "rfc5681" / "third-duplicate-retransmits.pkt").returncode == 0


def test_what_is_no_script_is_bad_input(incast: Command, tmp_path: Path) -> None:
    for arguments, message in [
        ([], "name a script or a folder of scripts"),
        ([tmp_path / "none.pkt"], "none.pkt: no such file or directory"),
        ([tmp_path], "a folder without scripts (*.pkt)"),
    ]:
        done = incast("conform", *arguments)
        assert done.returncode == 2
        assert message in done.stderr
