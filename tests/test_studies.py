"""The committed tables of studies are what the program gives: samples are computed anew."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from string import ascii_lowercase
from types import ModuleType

import pytest

from conftest import Command
from incast.studies import claims, paper, reading, replication, table
from incast.studies.claims import RECORD, whole
from incast.studies.study import Curve

STUDIES = Path(__file__).parents[1] / "studies"
CLAIMS = {
    "arena": [],
    "ars": [f"A{number:02}" for number in range(1, 21)],
    "beyond": [],
    "linux": ["A13", "A14", "A15", "A16", "A17", "A18", "P15", "P16", "P17"],
    "incast-bursts": [],
    "dcmrg": [f"D{number:02}" for number in range(1, 30)],
    "ours": ["C1", "D1", "D2", "O1", "O2", "O3", "O4"],
    "pulser": [f"P{number:02}" for number in range(1, 24)],
    "rdtcp": [f"R{number:02}" for number in range(1, 22)],
    "ties": [],
}
PAPERS = sorted(about.parent.name for about in STUDIES.glob("*/paper.toml"))
# Those whose tables are kept.
REPRODUCED = sorted(record.parent.name for record in STUDIES.glob(f"*/{RECORD}"))


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def test_a_burst_at_shared_memory_is_taken_as_the_table_says() -> None:
    study = load(STUDIES / "shared-buffer" / "tolerance.py")
    tolerances = study.read()
    assert len(tolerances) == len(study.points())
    for point in (study.Point("newreno", 0, 0.5), study.Point("dctcp", 1, 0.25)):
        assert point.is_taken(tolerances[point])
        assert not point.is_taken(tolerances[point] + 1)


ARENA = STUDIES / "arena"


@pytest.mark.parametrize("half", [1, 2])
def test_the_settings_of_the_arena_are_those_that_are_drawn(half: int) -> None:
    drawn = load(ARENA / "draw.py").text(half)
    assert (ARENA / f"settings-{half}.csv").read_text(encoding="utf-8") == drawn
    assert len(drawn.splitlines()) == 2 + 60


@pytest.mark.parametrize(("study", "count"), [("gives-up", 40), ("deadlines", 36)])
def test_the_settings_of_studies_of_credit_are_those_that_are_drawn(study: str, count: int) -> None:
    drawn = load(STUDIES / "ours" / f"{study.replace('-', '_')}_draw.py").text()
    assert (STUDIES / "ours" / f"{study}-settings.csv").read_text(encoding="utf-8") == drawn
    assert len(drawn.splitlines()) == 2 + count


def needed(curve: Curve) -> set[str]:
    """Return what has to be changed to deploy a stack, from what it changes."""
    choices = {key: value["name"] if isinstance(value, dict) else value for key, value in curve.changes.items()}
    found = set()
    if choices.get("stack.sender") != "cubic":
        found.add("senders")
    if "switch.marker" in choices:
        found |= {"switches", "hosts"}
    if "stack.receiver" in choices:
        found.add("buffers" if choices["stack.receiver"] == "static-window" else "hosts")
    if "stack.application" in choices:
        found |= {"application", "buffers"} if choices["stack.application"] == "credit" else {"application"}
    if "tcp.delayed_ack" in choices:
        found.add("hosts")
    return found


def test_a_stack_of_the_arena_needs_what_it_changes_and_none_is_there_twice() -> None:
    study = reading.read(ARENA / "arena.toml")
    assert len(study.curves) >= 40
    assert {curve.name: set(curve.needs) for curve in study.curves} == {
        curve.name: needed(curve) for curve in study.curves
    }
    assert len({repr(curve.changes) for curve in study.curves}) == len(study.curves)
    assert len({curve.label for curve in study.curves}) == len(study.curves)


def test_the_settings_of_the_arena_are_wide() -> None:
    told = reading.read(ARENA / "arena.toml").parameters()
    assert len(told) >= 120
    for name, low, high in (("$rate_gbps", 1, 100), ("$rto_ms", 1, 200), ("$fan_in", 8, 1000)):
        numbers = [float(str(one[name])) for one in told]
        assert low <= min(numbers) <= 2 * low
        assert high / 2 <= max(numbers) <= high
    for name, values in (
        ("$traffic", {"alone", "beside long flows", "jobs of one host", "jobs of four hosts"}),
        ("$region", {"T <= 1", "F <= 1 < T", "M <= 1 < F", "M > 1"}),
    ):
        assert {str(one[name]) for one in told} == values
    assert {str(one["$port"]).split(",")[0] for one in told} == {"shallow", "deep", "shared"}


@pytest.mark.parametrize("name", PAPERS)
def test_every_claim_of_a_paper_has_one_row_or_one_for_each_atom(name: str) -> None:
    about = paper.read(name, STUDIES)
    ids = sorted(claim.id for study in about.studies for claim in study.claims)
    assert sorted({whole(id_) for id_ in ids}) == CLAIMS[name]
    # Atoms are lettered without gaps, and a claim with atoms has no row of its own.
    for claim in CLAIMS[name]:
        atoms = [id_ for id_ in ids if whole(id_) == claim]
        assert atoms in ([claim], [f"{claim}{letter}" for letter in ascii_lowercase[: len(atoms)]])


@pytest.mark.parametrize("name", ["ars", "dcmrg", "pulser", "rdtcp"])
def test_every_claim_has_its_share_of_the_open_settings_or_a_reason_why_none_can_change_it(name: str) -> None:
    studies = paper.read(name, STUDIES).studies
    in_a_grid = {one.claim for study in studies for one in study.judged}
    for claim in (claim for study in studies for claim in (*study.claims, *study.baselines)):
        assert (claim.id in in_a_grid) != bool(claim.closed), claim.id


@pytest.mark.parametrize("name", [name for name in REPRODUCED if CLAIMS.get(name)])
def test_the_record_of_a_replication_is_that_of_its_tables(name: str) -> None:
    about = paper.read(name, STUDIES)
    judged = claims.of_paper(about.studies, {study.name: table.read(study) for study in about.studies})
    assert (about.directory / replication.RECORD).read_text(encoding="utf-8") == replication.record(about, judged)
    assert about.questions


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", REPRODUCED)
def test_the_tables_of_a_paper_are_what_the_program_gives(incast: Command, name: str) -> None:
    # That figures and reports of studies are drawn is tested elsewhere, on small ones.
    report = () if name in ("arena", "incast-bursts", "ties") else ("--no-report",)
    done = incast("reproduce", name, "--quick", "--check", *report, "--studies", STUDIES)
    assert done.returncode == 0, done.stderr
