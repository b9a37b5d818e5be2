"""How far the program can be trusted, as numbers: `docs/reference/trust.md`.

Usage: `trust.py --update` writes the page from `docs/reference/trust.json` and from what else is in the project;
`trust.py --measure NAME...` measures anew first, which takes minutes, and dates what it finds.
"""

from __future__ import annotations

import argparse
import csv
import datetime as dt
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ROOT = Path(__file__).resolve().parents[2]
PAGE, DATA = ROOT / "docs/reference/trust.md", ROOT / "docs/reference/trust.json"
MUTANTS = ROOT / "docs/explanation/mutants.md"
RESULTS = ROOT / "validation/linux/results"
HOST_TESTS = "cargo test --release --manifest-path crates/host/Cargo.toml --target-dir target/host mutated"

HEAD = """\
# Trust

What the tests have tried, and what came of it. A number stands beside the command that measures it and the day on which
it last did. This page is written by a program (`docs/_tools/trust.py`).

"""


def measured(command: str, **changes: str) -> str:
    """Run a command of this project in its folder, and return what it says, whatever its exit code."""
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, env={**os.environ, **changes}, capture_output=True, text=True, check=False  # noqa: S607
    )  # fmt: skip
    return done.stdout + done.stderr


def fuzz(said: str) -> dict[str, Any]:
    """Read what `make fuzz` says: inputs by target, and the targets that failed."""
    inputs: Counter[str] = Counter()
    for name, count in re.findall(r"^(\S+): (\d+) inputs, no failure$", said, re.MULTILINE):
        inputs[name] += int(count)
    return {
        "inputs": dict(sorted(inputs.items())),
        "failed": sorted(set(re.findall(r"^(\S+): .*\nreplay:", said, re.MULTILINE))),
    }


def host(said: str) -> dict[str, Any]:
    """Read what the properties of incast-host say."""
    found = re.search(r"(\d+) passed; (\d+) failed", said)
    if not found:
        raise SystemExit(said[-2000:])
    return {"passed": int(found[1]), "failed": int(found[2])}


def conform(said: str) -> dict[str, Any]:
    """Read the last line of `incast conform`."""
    found = re.search(r"^(\d+) scripts: (\d+) pass", said, re.MULTILINE)
    if not found:
        raise SystemExit(said[-2000:])
    return {"scripts": int(found[1]), "pass": int(found[2])}


def coverage(said: str) -> dict[str, Any]:
    """Read what tests reach, by crate, from the JSON of llvm-cov, and what runs have simulated meanwhile."""
    reached: dict[str, dict[str, list[int]]] = {"lines": {}, "regions": {}, "branches": {}}
    start = said.find('{"data"')
    if start < 0:
        raise SystemExit(said[-2000:])
    for file in json.JSONDecoder().raw_decode(said[start:])[0]["data"][0]["files"]:
        inside = Path(file["filename"]).relative_to(ROOT / "crates").parts
        crate = "/".join(inside[: inside.index("src")]) if "src" in inside else ""
        if not crate:
            continue
        for kind, crates in reached.items():
            of = crates.setdefault(crate, [0, 0])
            of[0] += file["summary"][kind]["covered"]
            of[1] += file["summary"][kind]["count"]
    runs = [tuple(map(int, run)) for run in re.findall(r"^tally: (\d+) (\d+)$", said[:start], re.MULTILINE)]
    return {
        **{kind: dict(sorted(crates.items())) for kind, crates in reached.items()},
        "runs": len(runs),
        "simulated_s": round(sum(run[0] for run in runs) / 1e12, 1),
        "packet_hops": sum(run[1] for run in runs),
    }


#: By name: the command, and what reads its output.
MEASURES: dict[str, tuple[str, Callable[[str], dict[str, Any]]]] = {
    "fuzz": ("make fuzz SECONDS=240", fuzz),
    "host": (f"PROPTEST_CASES=20000 {HOST_TESTS}", host),
    "conform": ("incast conform crates/conform/scripts", conform),
    # The simulator alone: all crates take longer than there was time for, and some tests of others need a kernel.
    "coverage": ('make coverage CRATES="protocols world packets ideal scenario plan"', coverage),
}


def agreeing(file: Path) -> tuple[int, int]:
    """Return how many comparisons of a table with the kernel agree, and of how many."""
    with file.open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    return sum(row["agrees"] == "1" for row in rows), len(rows)


def page(data: dict[str, Any]) -> str:
    """Write the page."""
    sections = [_inputs(data), _found(), _mutants(), _coverage(data), _others(data)]
    return HEAD + "\n".join(sections)


def _inputs(data: dict[str, Any]) -> str:
    tried, of_host = data["fuzz"], data["host"]
    cases = int(re.search(r"PROPTEST_CASES=(\d+)", of_host["command"])[1])  # type: ignore[index]
    rows = [(name, count, "yes" if name in tried["failed"] else "none") for name, count in tried["inputs"].items()]
    rows.append(("`incast-host`", cases * of_host["passed"], "yes" if of_host["failed"] else "none"))
    return (
        "## Inputs that were mutated\n\nAn input fails if it ends in anything but a result or a clear error.\n\n"
        + _table(("input", "tried", "failures"), ((name, f"{count:,}", failed) for name, count, failed in rows))
        + f"\n{_by(tried)} {_by(of_host)}\n"
    )


def _found() -> str:
    """Return the inputs that failed once; the tests try them again."""
    rows = []
    for file in sorted((ROOT / "tests/fuzz/found").iterdir()):
        target = file.name.split("-")[0]
        rows.append((file.name, f"`python tests/fuzz/fuzz.py --replay {target} {file.relative_to(ROOT)}`"))
    for file in sorted((ROOT / "crates").rglob("proptest-regressions/**/*.txt")):
        seeds = sum(line.startswith("cc ") for line in file.read_text(encoding="utf-8").splitlines())
        crate = file.relative_to(ROOT).parts[1]
        how = HOST_TESTS if crate == "host" else f"cargo test -p incast-{crate}"
        rows.append((f"{seeds} of {crate}, {file.stem}", f"`{how}`"))
    return "## What failed once\n\nEach is mended, and tried again in every run of the tests.\n\n" + _table(
        ("input", "command that replays it"), rows
    )


def _mutants() -> str:
    text = MUTANTS.read_text(encoding="utf-8")
    table = re.search(r"^\| \| mutants .*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    if not table:
        raise SystemExit(f"{MUTANTS}: no table of results found")
    rows = []
    for line in table[1].splitlines():
        what, mutants, _, broken, _, _, removed, explained, left = (cell.strip() for cell in line.strip("|").split("|"))
        judged = int(mutants) - int(broken)
        noticed = judged - int(removed) - int(explained) - int(left)
        rows.append((what, f"{judged:,}", f"{noticed:,}", explained, left))
    last = re.search(r"^On \d{4}-\d\d-\d\d .* tried,", text, re.MULTILINE)
    if not last:
        raise SystemExit(f"{MUTANTS}: no date of what was tried last")
    return (
        "## Mutants\n\n[Mutation testing](../explanation/mutants.md) changes the code in one place. Those that do not "
        "compile do not count; the rest was noticed, had no effect and was removed, is explained, or is unnoticed.\n\n"
        + _table(("code", "mutants", "noticed", "explained", "unnoticed"), rows)
        + "\nBy `make mutants`, those of TCP, and of ICTCP and all below it, by programs of their own, when these "
        f"parts were written or later. {last[0].removesuffix(',')}. What the table does not name has not been tested "
        "so.\n"
    )


def _coverage(data: dict[str, Any]) -> str:
    head = "## Lines and branches that tests reach\n\n"
    if "coverage" not in data:
        return (
            head
            + "Not measured. Nor is how much time and how many packet-hops tests simulate with all assertions on.\n"
        )
    measured = data["coverage"]
    rows = []
    for crate, (lines, of_lines) in measured["lines"].items():
        cells = [f"{100 * lines / of_lines:.1f} %", f"{of_lines:,}"]
        for kind in ("regions", "branches"):
            reached, of = measured[kind][crate]
            cells += [f"{100 * reached / of:.1f} %" if of else "", f"{of:,}"]
        rows.append((f"`crates/{crate}`", *cells))
    return (
        head + "By the tests in Rust of these crates alone; the other crates are not measured. Nor "
        "are tests in Python counted, which run most commands. A region is a piece "
        "of code without a branch in it. A branch has two ways, which count as two.\n\n"
        + _table(("crate", "lines reached", "of", "regions reached", "of", "ways of branches taken", "of"), rows)
        + f"\nWith every assertion and overflow check on, {measured['runs']:,} runs of the packet simulator simulated "
        f"{measured['simulated_s']:,} s and {measured['packet_hops']:,} packet-hops meanwhile. {_by(measured)}"
        # What was different that once; the next measurement has none of it.
         + (f" {measured['note']}" if "note" in measured else "") + "\n"
    )


def _others(data: dict[str, Any]) -> str:
    scripts = data["conform"]
    grid, mechanisms = agreeing(RESULTS / "grid.csv"), agreeing(RESULTS / "mechanisms.csv")
    linux = "By `make validate-linux`."
    rows = [
        ("scripts of [conformance](../how-to/conform.md)", f"{scripts['pass']} of {scripts['scripts']}", _by(scripts)),
        ("comparisons with Linux, over a grid of incasts", f"{grid[0]} of {grid[1]}", linux),
        ("comparisons with Linux, one mechanism at a time", f"{mechanisms[0]} of {mechanisms[1]}", linux),
    ]
    return (
        "## Against standards and the kernel\n\n"
        + _table(("what", "pass or agree", "measured"), rows)
        + "\nWhat agreeing means, and where and why the simulator does not: [validation](../validation.md).\n"
    )


def _by(one: dict[str, Any]) -> str:
    return f"By `{one['command']}` on {one['date']}."


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def main() -> int:
    """Measure what is asked for, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write the page")
    parser.add_argument("--measure", nargs="*", default=[], choices=MEASURES, metavar="NAME", help=", ".join(MEASURES))
    asked = parser.parse_args()
    data = json.loads(DATA.read_text(encoding="utf-8")) if DATA.exists() else {}
    for name in asked.measure:
        command, read = MEASURES[name]
        said = measured(command, PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        data[name] = {"command": command, "date": dt.datetime.now(dt.UTC).date().isoformat(), **read(said)}
        DATA.write_text(json.dumps(dict(sorted(data.items())), indent=2) + "\n", encoding="utf-8")
    if asked.update:
        PAGE.write_text(page(data), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
