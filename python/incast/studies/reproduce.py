"""The command `incast reproduce`: the figures and claims of a paper, from all runs or a sample of them."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from incast import ends, output, text
from incast._native import RunError, ScenarioError
from incast.studies import claims, cost, execution, paper, places, plan, replication, report, sample, sweep, table
from incast.studies.store import Store

if TYPE_CHECKING:
    from incast.studies.claims import Judged
    from incast.studies.cost import Cost
    from incast.studies.paper import Paper
    from incast.studies.places import Place
    from incast.studies.plan import Row, Task
    from incast.studies.study import Study
    from incast.studies.table import Table


# Of a claim, in the terminal.
_TEXT_WIDTH = 70


@dataclass(frozen=True)
class Wish:
    """The options of the command line."""

    figures: list[str]
    quick: bool
    full: bool
    check: bool
    report: bool
    update: bool
    keep_linux: bool
    dry_run: bool
    json: Path | None
    out: Path
    workers: int | None
    on: str = "local"


@dataclass
class _State:
    """The tables of the studies while the command runs."""

    known: dict[str, Table | None]
    tables: dict[str, Table | None]
    complaints: list[str] = field(default_factory=list)


def main(name: str, studies: Path | None, wish: Wish) -> int:
    """Reproduce a paper; return the exit code: 1 if results or recorded verdicts have changed."""
    if wish.keep_linux and not wish.update:
        raise ScenarioError("--keep-linux: no effect without --update")
    if wish.full and (wish.quick or wish.check or wish.update):
        raise ScenarioError("--full: the saved tables are of another size; drop --quick, --check or --update")
    if wish.quick and wish.on != "local":
        raise ScenarioError(f"--on {wish.on}: not with --quick, whose few runs are computed here")
    opened = places.of(wish.on, wish.workers)
    about = paper.read(name, studies)
    if wish.update and paper.is_installed(about.directory):
        raise ScenarioError(
            f"--update: {about.directory} belongs to the installed program; "
            "copy that folder and those beside it, and give the copy with --studies DIR"
        )
    enlarged = {study.name for study in about.chosen(wish.figures) if study.full} if wish.full else set()
    if wish.full:
        about = about.at_full_size(about.chosen(wish.figures))
    chosen = about.chosen(wish.figures)
    known = {
        # The table of another size says nothing of this one.
        study.name: None if study.name in enlarged else _known(study, renewing=wish.update and study in chosen)
        for study in about.studies
    }
    store = Store(wish.out / "runs")
    costs = [cost.of(study, known[study.name], trusting=wish.quick) for study in chosen]
    done = _done(chosen, store, wish) if wish.dry_run and not wish.quick else {}
    _say_cost(chosen, costs, done, wish)
    if wish.dry_run:
        if wish.json:
            told = [
                {"study": study.name, **one.as_json(), "done": done.get(study.name)}
                for study, one in zip(chosen, costs, strict=True)
            ]
            output.save(wish.json, json.dumps({"paper": name, "studies": told}, indent=2) + "\n")
        return 0
    output.prepare(wish.out)
    state = _State(known, dict(known))
    try:
        with sweep.place_of(opened, store) as place:
            if wish.quick:
                _quick(chosen, state, store, wish)
            else:
                _full(chosen, state, store, wish, place)
            for study in chosen if wish.report else []:
                of_panels = plan.drawn(study)
                execution.run(of_panels, store, workers=wish.workers, what=f"{study.name}: panels", place=place)
    except (KeyboardInterrupt, RunError, OSError) as error:
        print(
            f"incast: {ends.reason(error)}; finished runs are kept in {store.directory}; "
            "run the same command again to resume",
            file=sys.stderr,
        )
        return ends.code(error)
    judged = claims.of_paper(about.studies, state.tables)
    state.complaints += _no_longer(about, judged) if wish.check else []
    if wish.update:
        _write(about, chosen, state, judged)
    if wish.report:
        page = report.write(about, chosen, state.tables, judged, store, wish.out, is_sample=wish.quick)
    if wish.json:
        output.prepare(wish.json.parent)
        output.write(wish.json, json.dumps(as_json(name, judged), indent=2, ensure_ascii=False) + "\n")
    print(_verdicts(judged))
    if wish.report:
        print(f"\n{page}")
    for complaint in state.complaints:
        print(f"incast: {complaint}", file=sys.stderr)
    return 1 if state.complaints else 0


def as_json(name: str, judged: list[Judged]) -> dict[str, Any]:
    """Return the claims and verdicts for other programs."""
    baselines, counted = claims.split(judged)
    return {
        "paper": name,
        "claims": [_as_json(one) for one in counted],
        "baselines": [_as_json(one) for one in baselines],
    }


def _as_json(one: Judged) -> dict[str, Any]:
    share = one.share
    return {
        "id": one.claim.id,
        "text": one.claim.text,
        "paper_value": one.claim.paper,
        "measured": one.measured,
        "low": one.low,
        "high": one.high,
        "met": one.met,
        "verdict": one.verdict,
        "unmatched": list(one.unmatched),
        "otherwise": one.otherwise,
        "sign": one.sign,
        "size": one.size,
        "share": {"holds": share.holds, "undecided": share.undecided, "of": share.of, "study": share.study.name}
        if share
        else None,
        "flips": [{"setting": flip.axis, "value": flip.value, "holds": flip.holds} for flip in share.flips]
        if share
        else None,
        "closed": one.claim.closed or None,
        "why": one.why,
        "badge": one.badge,
    }


def _known(study: Study, *, renewing: bool) -> Table | None:
    try:
        return table.read(study)
    except ScenarioError:
        if renewing:  # whatever is wrong with the old table
            return None
        raise


def _say_cost(studies: list[Study], costs: list[Cost], done: dict[str, int], wish: Wish) -> None:
    to = sys.stdout if wish.dry_run else sys.stderr
    names = [*(study.name for study in studies), *(["all"] if len(studies) > 1 else [])]
    for name, one in zip(names, [*costs, cost.total(costs)], strict=False):
        already = f"; {done[name]:,} of them done already" if done.get(name) else ""
        print(f"{name}: {one.line()}{already}", file=to)


def _done(studies: list[Study], store: Store, wish: Wish) -> dict[str, int]:
    """Return how many runs of each study the store has, with the tables that are needed, and of all of them."""
    rows = {study.name: plan.rows(study) for study in studies}
    wanted = _wanted(studies, rows, {study.name: _kept(study, rows[study.name], wish) for study in studies})
    there = {name: {task.key for task in tasks if store.has(task.key, task.tables)} for name, tasks in wanted.items()}
    return {name: len(keys) for name, keys in there.items()} | {"all": sum(map(len, there.values()))}


def _wanted(
    studies: list[Study], rows: dict[str, list[Row]], kept: dict[str, dict[int, tuple[str, ...]]]
) -> dict[str, list[Task]]:
    """Return the runs of each study. One that several studies share is kept with the tables of all of them."""
    left = {study.name: [row for index, row in enumerate(rows[study.name]) if index not in kept[study.name]]
            for study in studies}  # fmt: skip
    merged = {task.key: task for task in execution.distinct(task for some in left.values() for task in plan.runs(some))}
    return {
        name: [merged[key] for key in dict.fromkeys(task.key for task in plan.runs(some))]
        for name, some in left.items()
    }


def _full(studies: list[Study], state: _State, store: Store, wish: Wish, place: Place | None = None) -> None:
    """Run everything that is not in the store, and compare it with the saved tables."""
    rows = {study.name: plan.rows(study) for study in studies}
    kept = {study.name: _kept(study, rows[study.name], wish) for study in studies}
    wanted = _wanted(studies, rows, kept)
    seen: set[str] = set()
    for study in studies:
        started = time.process_time()
        own = wanted[study.name]
        count = execution.run(own, store, workers=wish.workers, what=study.name, place=place)
        # The time of other machines is not measured either.
        found_before = len({task.key for task in own} - seen) - (0 if place else count)
        seen.update(task.key for task in own)
        processes = places.processes(wish.on, wish.workers)
        new = sweep.measured(study, rows[study.name], store, 0.0, kept[study.name], processes)
        minutes = (time.process_time() - started) / 60
        new = _with_cost(study, rows[study.name], new, state.known[study.name], minutes, found_before)
        output.write(wish.out / f"{study.name}.csv", new.text())
        state.tables[study.name] = new
        old = state.known[study.name]
        if old and not wish.update:
            computed = {
                index: cells
                for index, (row, cells) in enumerate(zip(rows[study.name], new.rows, strict=True))
                if not (row.task and row.task.measured)
            }
            state.complaints += _differs(study, sample.compare(study, old, computed))


def _kept(study: Study, rows: list[Row], wish: Wish) -> dict[int, tuple[str, ...]]:
    """Return the rows that were measured on a kernel, if they are to stay. New points of a study have none."""
    if not wish.keep_linux:
        return {}
    saved = table.saved_rows(study)
    places = {index: table.labels(row) for index, row in enumerate(rows) if row.task and row.task.measured}
    return {index: saved[place] for index, place in places.items() if place in saved}


def _with_cost(study: Study, rows: list[Row], new: Table, old: Table | None, minutes: float, found: int) -> Table:
    """Record the cost of a table; runs that an earlier command left in the store were not measured this time."""
    if found and old and old.cpu_minutes is not None and old.packet_hops == new.packet_hops:
        minutes = old.cpu_minutes
    elif found:
        minutes += (found * cost.RUN_S + new.packet_hops * found / len(rows) * cost.PACKET_HOP_S) / 60
    return table.of_rows(study, new.rows, minutes)


def _quick(studies: list[Study], state: _State, store: Store, wish: Wish) -> None:
    """Compare a sample of the runs with the saved tables; with --update recompute the tables that differ."""
    stale = []
    # Samples that studies share are computed once, and always anew.
    with tempfile.TemporaryDirectory(prefix="incast-") as directory:
        samples = Store(Path(directory))
        budget = sample.Budget(sample.BUDGET_S, len(studies))
        for study in studies:
            known = state.known[study.name]
            if known is None:
                stale.append(study)
                if not wish.update:
                    state.complaints.append(f"{study.table}: missing table; --update computes it")
                continue
            found = sample.differences(study, known, samples, budget, wish.workers)
            if found:
                stale.append(study)
                if not wish.update:
                    state.complaints += _differs(study, found)
    if wish.update and stale:
        _full(stale, state, store, wish)


def _differs(study: Study, found: list[str]) -> list[str]:
    if not found:
        return []
    renew = f"the results of {study.name} have changed; if that is intended, --update saves the new table"
    return [*sample.shown(found), renew]


def _no_longer(about: Paper, judged: list[Judged]) -> list[str]:
    """Name the claims that are recorded as holding but no longer hold."""
    recorded = claims.recorded(about.directory)
    return [
        f"{one.claim.id} is recorded as holding; now: {report.VERDICTS[one.verdict]} "
        f"(measured {claims.brief(one.measured) or 'nothing'}; {one.claim.place})"
        for one in judged
        if recorded.get(one.claim.id) == "holds" and one.verdict != "holds"
    ]


def _write(about: Paper, studies: list[Study], state: _State, judged: list[Judged]) -> None:
    for study in studies:
        new = state.tables[study.name]
        if new and new is not state.known[study.name]:
            output.write(study.table, new.text())
            print(study.table)
    output.write(about.directory / claims.RECORD, claims.record(judged))
    print(about.directory / claims.RECORD)
    if judged:
        output.write(about.directory / replication.RECORD, replication.record(about, judged))
        print(about.directory / replication.RECORD)


def _verdicts(judged: list[Judged]) -> str:
    baselines, counted = claims.split(judged)
    if not judged:
        return "no claims"
    counts = Counter(one.verdict for one in counted)
    line = ", ".join(f"{name}: {counts[verdict]}" for verdict, name in report.VERDICTS.items() if counts[verdict])
    said = [_table(baselines, "baseline"), _table(counted, "claim"), f"{claims.count(counted)}: {line or 'none'}"]
    return "\n\n".join(filter(None, said))


def _table(judged: list[Judged], what: str) -> str:
    rows = [
        [
            one.claim.id,
            report.VERDICTS[one.verdict],
            report.paper_value(one.claim),
            report.measured(one),
            shorten(one.claim.text, _TEXT_WIDTH, placeholder=" ..."),
        ]
        for one in judged
    ]
    return text.fitting([what, "verdict", "paper", "ours", "what"], rows) if rows else ""
