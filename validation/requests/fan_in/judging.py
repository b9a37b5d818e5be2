"""The repetitions of a grid as a table, and the verdicts by the rules in `tolerances.toml`."""

from __future__ import annotations

import csv
import math
import tomllib
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fan_in.cells import USUAL, Cell, measured_in
from fan_in.policies import OURS, POLICIES
from incast.estimates import Estimate, estimate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_FILE = Path(__file__).resolve().parents[1] / "tolerances.toml"


@dataclass(frozen=True)
class Machine:
    """When the machine is too busy to measure."""

    waiting: float
    wait_us: float
    softirq_waiting: float
    softirq_wait_us: float
    stolen: float

    def refuse(self, quality: Mapping[str, float]) -> str | None:
        """Return why a repetition does not count, if so."""
        for name, share, turn_us in (
            ("client", self.waiting, self.wait_us),
            ("servers", self.waiting, self.wait_us),
            ("softirq", self.softirq_waiting, self.softirq_wait_us),
        ):
            waited = quality[f"{name}_waiting"]
            if waited > share and quality[f"{name}_wait_us"] > turn_us:
                return f"{name} waited for a CPU {waited:.1%} of the time"
        if quality["stolen"] > self.stolen:
            return f"the host of this machine took {quality['stolen']:.1%} of its time"
        return None


@dataclass(frozen=True)
class Rules:
    """The file `tolerances.toml`."""

    late_after_ms: float
    collapse_late_share: float
    collapse_of_ideal: float
    gone_late_share: float
    gone_of_best: float
    cost_within: float
    long_flows_within: float
    least_repetitions: int
    machine: Machine


def read_rules(file: Path = _FILE) -> Rules:
    """Read what is judged and how."""
    document = tomllib.loads(file.read_text(encoding="utf-8"))
    return Rules(
        late_after_ms=document["late"]["after_ms"],
        collapse_late_share=document["collapse"]["late_share"],
        collapse_of_ideal=document["collapse"]["of_ideal"],
        gone_late_share=document["gone"]["late_share"],
        gone_of_best=document["gone"]["of_best"],
        cost_within=document["cost"]["within"],
        long_flows_within=document["long_flows"]["within"],
        least_repetitions=document["repetitions"]["least"],
        machine=Machine(**document["machine"]),
    )


@dataclass(frozen=True)
class Row:
    """A repetition of a cell with a policy."""

    cell: Cell
    policy: str
    repetition: int
    goodput_mbps: float
    query_p50_ms: float
    query_p99_ms: float
    response_p50_ms: float
    response_p99_ms: float
    timeouts: int
    probes_sent: int
    retransmitted: int
    drops: int
    long_mbps: float
    warm_up_ms: float
    """The longest query before those that count."""
    budget_bytes: int | None
    """Of credit, at the end; `None`: it has none, or went without."""
    refused: int
    """How often it was done again because the machine was busy."""
    waiting: float
    softirq_waiting: float
    queries_ms: tuple[float, ...]
    query_timeouts: tuple[int, ...]

    def late(self, rules: Rules) -> int:
        """Return how many queries were late."""
        limit = self.cell.ideal_s * 1e3 + rules.late_after_ms
        return sum(count > 0 or ms > limit for ms, count in zip(self.queries_ms, self.query_timeouts, strict=True))


def row(cell: Cell, policy: str, repetition: int, kept: Mapping[str, Any]) -> Row:
    """Return the numbers of a repetition."""
    found, quality = kept["found"], kept["found"]["quality"]
    queries, responses = found["queries_s"], found["responses_s"]
    return Row(
        cell=cell,
        policy=policy,
        repetition=repetition,
        goodput_mbps=round(sum(cell.sizes) * 8e-6 * len(queries) / math.fsum(queries), 3),
        query_p50_ms=_ms(quantile(queries, 50)),
        query_p99_ms=_ms(quantile(queries, 99)),
        response_p50_ms=_ms(quantile(responses, 50)),
        response_p99_ms=_ms(quantile(responses, 99)),
        timeouts=sum(found["timeouts"]),
        probes_sent=sum(found["probes"]),
        retransmitted=found["retransmitted"],
        drops=found["drops"],
        long_mbps=round(found["long_bytes"] * 8e-6 / found["elapsed_s"], 3),
        warm_up_ms=_ms(max(found["warm_up_s"])),
        budget_bytes=found["state"].get("budget_bytes"),
        refused=len(kept["refused"]),
        waiting=round(max(quality["client_waiting"], quality["servers_waiting"]), 5),
        softirq_waiting=round(quality["softirq_waiting"], 5),
        queries_ms=tuple(map(_ms, queries)),
        query_timeouts=tuple(found["timeouts"]),
    )


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 3)


def quantile(values: Sequence[float], percent: float) -> float:
    """Return a percentile by nearest rank."""
    ascending = sorted(values)
    return ascending[max(1, math.ceil(percent / 100 * len(ascending) - 1e-9)) - 1]


_CELL = [field.name for field in fields(Cell)]
_OWN = [field.name for field in fields(Row) if field.name != "cell"]


def write_rows(file: Path, rows: Iterable[Row]) -> None:
    """Write repetitions as CSV."""
    with file.open("w", encoding="utf-8", newline="") as to:
        out = csv.writer(to, lineterminator="\n")
        out.writerow([*_CELL, *_OWN])
        for one in rows:
            cell = asdict(one.cell)
            values = [getattr(one, name) for name in _OWN]
            out.writerow(
                [*(cell[name] for name in _CELL)]
                + [" ".join(map(str, value)) if isinstance(value, tuple) else value for value in values]
            )


def read_rows(file: Path) -> list[Row]:
    """Read what `write_rows` wrote.

    Raises:
        ValueError: it is something else.

    """
    with file.open(encoding="utf-8", newline="") as source:
        reader = csv.DictReader(source)
        if reader.fieldnames != [*_CELL, *_OWN]:
            raise ValueError(f"{file}: the columns are not those of this version")
        return [_row(record) for record in reader]


def _row(record: Mapping[str, str]) -> Row:
    cell: dict[str, Any] = {}
    for name in _CELL:
        text = record[name]
        if name in {"server", "client", "control"}:
            cell[name] = text
        elif name == "probes":
            cell[name] = text == "True"
        else:
            cell[name] = text if text == "mixed" else int(text)
    own: dict[str, Any] = {}
    whole = {"repetition", "timeouts", "probes_sent", "retransmitted", "drops", "refused"}
    for name in _OWN:
        text = record[name]
        if name == "policy":
            own[name] = text
        elif name == "queries_ms":
            own[name] = tuple(map(float, text.split()))
        elif name == "query_timeouts":
            own[name] = tuple(map(int, text.split()))
        elif name == "budget_bytes":
            own[name] = int(text) if text else None
        else:
            own[name] = int(text) if name in whole else float(text)
    return Row(cell=Cell(**cell), **own)


@dataclass(frozen=True)
class Measured:
    """All repetitions of a cell with a policy."""

    rows: tuple[Row, ...]
    goodput: Estimate
    late: int
    queries: int

    @property
    def late_share(self) -> float:
        """Part of all queries that was late."""
        return self.late / self.queries


@dataclass(frozen=True)
class Place:
    """A cell and what was measured in it, by policy."""

    cell: Cell
    by: dict[str, Measured]

    @property
    def best(self) -> float:
        """Mean goodput of the best policy."""
        return max(one.goodput.mean for one in self.by.values())

    def ratio(self, policy: str) -> Estimate:
        """Goodput of a policy over that of all at once, repetition by repetition."""
        plain = {row.repetition: row.goodput_mbps for row in self.by["all"].rows}
        return estimate(
            [row.goodput_mbps / plain[row.repetition] for row in self.by[policy].rows if row.repetition in plain]
        )


def places(rows: Sequence[Row], rules: Rules) -> list[Place]:
    """Gather repetitions by cell and policy, in the order in which they come."""
    found: dict[Cell, dict[str, list[Row]]] = {}
    for one in rows:
        found.setdefault(one.cell, {}).setdefault(one.policy, []).append(one)
    return [
        Place(cell, {policy: _measured(by[policy], rules) for policy in POLICIES if policy in by})
        for cell, by in found.items()
    ]


def _measured(rows: Sequence[Row], rules: Rules) -> Measured:
    goodput = estimate([one.goodput_mbps for one in rows])
    return Measured(
        tuple(rows), goodput, sum(one.late(rules) for one in rows), sum(len(one.queries_ms) for one in rows)
    )


@dataclass(frozen=True)
class Verdict:
    """What a rule says of one of our policies in a cell."""

    rule: str
    cell: Cell
    policy: str
    holds: bool
    says: str


def complete(place: Place, rules: Rules, wanted: Iterable[str] = USUAL) -> bool:
    """Whether all policies have enough repetitions."""
    return all(
        policy in place.by and len(place.by[policy].rows) >= rules.least_repetitions
        for policy in measured_in(place.cell, wanted)
    )


def collapses(place: Place, rules: Rules) -> bool:
    """Whether all at once collapses."""
    plain = place.by["all"]
    too_late = plain.late_share > rules.collapse_late_share
    return too_late or plain.goodput.mean < rules.collapse_of_ideal * place.cell.ideal_mbps


def judge(found: Sequence[Place], rules: Rules, wanted: Iterable[str] = USUAL) -> list[Verdict]:
    """Judge all cells that are complete."""
    verdicts = []
    for place in found:
        if not complete(place, rules, wanted):
            continue
        for policy in filter(place.by.__contains__, OURS):
            verdicts += _judged(place, policy, rules)
    return verdicts


def _judged(place: Place, policy: str, rules: Rules) -> list[Verdict]:
    ours = place.by[policy]
    if place.cell.long_flows:
        if policy != "learned":
            return []
        return [_against_all("long flows", place, policy, rules.long_flows_within)]
    of_best = ours.goodput.mean / place.best
    holds = ours.late_share <= rules.gone_late_share and of_best >= rules.gone_of_best
    says = f"{ours.late} of {ours.queries} queries late, goodput {of_best:.1%} of the best"
    verdicts = [Verdict("gone", place.cell, policy, holds, says)]
    if not collapses(place, rules):
        verdicts.append(_against_all("cost", place, policy, rules.cost_within))
    return verdicts


def _against_all(rule: str, place: Place, policy: str, within: float) -> Verdict:
    ratio = place.ratio(policy)
    says = f"goodput {ratio.mean:.1%} ({ratio.low:.1%} to {ratio.high:.1%}) of that of all at once"
    return Verdict(rule, place.cell, policy, ratio.mean >= 1 - within, says)
