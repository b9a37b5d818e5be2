"""Holds the simulator's TCP to scripts in packetdrill's language, and reports script by script."""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from incast import _native, output, scenarios, text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# How a verdict reads in a row, and in the count below the rows: one script, several.
_VERDICTS = {
    "passes": ("passes", "pass"),
    "fails": ("fails", "fail"),
    "not-applicable": ("not applicable", "not applicable"),
    "unreadable": ("unreadable", "unreadable"),
}
_BAD = ("fails", "unreadable")


def main(paths: Sequence[Path], json_file: Path | None) -> int:
    """Judge the scripts, print a row for each, and return the exit code: 1 if one fails or is no script.

    Raises:
        ScenarioError: a path does not exist, or a folder has no script.

    """
    reports: list[dict[str, Any]] = [
        {"script": text.name(script), **json.loads(_native.conform(_read(script), text.name(script.parent)))}
        for path in paths
        for script in _scripts(path)
    ]
    counts = Counter(report["verdict"] for report in reports)
    written = json.dumps(reports, indent=1)
    if json_file == output.STDOUT:
        print(written)
        return int(any(counts[verdict] for verdict in _BAD))
    rows = [[report["script"], _VERDICTS[report["verdict"]][0], _reason(report)] for report in reports]
    print(text.fitting(["script", "verdict", "reason"], rows))
    said = ", ".join(f"{counts[verdict]} {plural}" for verdict, (_, plural) in _VERDICTS.items() if counts[verdict])
    print(f"\n{len(reports)} scripts: {said}")
    not_understood = Counter(setting for report in reports for setting in report["not_understood"])
    for setting, count in sorted(not_understood.items()):
        where = f"in {count} of {len(reports)} scripts"
        print(f"warning: the setting {setting} is not understood ({where})", file=sys.stderr)
    if json_file:
        json_file.write_text(written + "\n", encoding="utf-8")
    return int(any(counts[verdict] for verdict in _BAD))


def _scripts(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    scripts = sorted(path.rglob("*.pkt"))
    if not scripts:
        raise _native.ScenarioError(f"{path}: a folder without scripts (*.pkt)")
    return scripts


def _read(script: Path) -> str:
    try:
        return scenarios.read_text(script, errors="replace")
    except OSError as error:
        raise _native.ScenarioError(f"{script}: {(error.strerror or '').lower() or error}") from error


def _reason(report: dict[str, Any]) -> str:
    match report["verdict"]:
        case "fails":
            return f"line {report['line']}: expected {report['expected']}; found {report['found']}"
        case "not-applicable":
            return f"{report['feature']}, line {report['line']}"
        case "unreadable":
            return f"line {report['line']}: {report['message']}"
        case _:
            return ""
