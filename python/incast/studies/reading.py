"""Reads study files, and rejects mistakes before anything is run."""

from __future__ import annotations

import keyword
import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from incast import scenarios
from incast._native import ScenarioError
from incast.studies import document, expressions, measuring, settings
from incast.studies.expressions import ExpressionError, Scope, missing
from incast.studies.study import (
    Axis,
    Claim,
    Curve,
    Direction,
    Full,
    InGrid,
    Lines,
    Map,
    Metric,
    Names,
    Panel,
    Percentile,
    Ranking,
    Slowdown,
    Study,
    Trace,
    Winners,
    World,
    named_in,
    parted,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from incast.studies.document import Table
    from incast.studies.expressions import Expression
    from incast.studies.study import Value

_KINDS = ("lines", "percentile", "slowdown", "trace", "dots", "map", "winners", "ranking")
_KEYS = [
    "axes", "baselines", "claims", "curves", "figure", "frozen", "full", "judged", "like", "metrics", "note", "only",
    "open", "panels", "scenario", "seeds", "set", "title", "use", "worlds",
]  # fmt: skip
_OWN_WORLDS = ("packets", "ideal", "linux")
# More would take days to plan.
_MOST_ROWS = 1_000_000
# Keys of a scenario that a study cannot change, and why.
_FIXED = {
    "seed": "every point has the seeds that the key seeds of the study says",
    "name": "the scenario of all runs of studies has the same name",
}


_NOTHING_RUNS = "a study without a scenario has no runs: its metrics must be formulas of its axes"


def read(path: Path) -> Study:
    """Read a study file.

    Raises:
        ScenarioError: it is invalid; the message says where and why.

    """
    file = document.read(path)
    # First of all: other errors would mislead if the name of a table is misspelt.
    file.only(_KEYS)
    scenario = _scenario(file)
    known = list(file.tables("curves"))
    axes = tuple(_axis(name, table, known, runs=bool(scenario)) for name, table in file.tables("axes").items())
    _few(file, axes, (), 1)
    omitted = _omitted(file, axes)
    worlds = {name: _world(name, table) for name, table in file.tables("worlds").items()}
    curves = tuple(_curve(name, table, worlds, runs=bool(scenario)) for name, table in file.tables("curves").items())
    if not curves:
        file.refuse("", "a study needs at least one curve, [curves.NAME] with label and set")
    metrics = tuple(
        _metric(name, table, axes, curves, runs=bool(scenario)) for name, table in file.tables("metrics").items()
    )
    _distinct(file, axes, metrics)
    seeds = file.whole("seeds", None if scenario else 1, least=1)
    _few(file, axes, curves, seeds)
    scope = _ones(axes, omitted, curves, metrics)
    if scenario is None and "set" in file:
        file.refuse("set", _NOTHING_RUNS)
    study = Study(
        path=path,
        title=file.text("title"),
        figure=file.text("figure", ""),
        note=file.text("note", ""),
        scenario=scenario,
        changes=_changes(file, "set"),
        seeds=seeds,
        worlds=tuple(worlds),
        axes=axes,
        omitted=omitted,
        curves=curves,
        metrics=metrics,
        panels=tuple(_panel(table, axes, metrics, scope, runs=bool(scenario)) for table in file.rows("panels")),
        baselines=tuple(_claim(table, scope, is_baseline=True) for table in file.rows("baselines")),
        claims=tuple(_claim(table, scope) for table in file.rows("claims")),
    )
    study = replace(_opened(file, study), full=_full(file, study))
    for size in (study, study.at_full_size()):
        _parameters(file, size)
    return replace(study, judged=tuple(_in_grid(table, study) for table in file.rows("judged")))


def _parameters(file: Table, study: Study) -> None:
    """Check that every parameter that is named is set, at every point."""
    for curve, place, changes in study.changed():
        keys, parameters = parted(changes)
        unset = sorted(named_in(list(keys.values())) - parameters.keys())
        if unset:
            at = ", ".join(f"{axis.name} {value}" for axis, value in zip(study.axes, place, strict=True))
            is_own = unset[0] in named_in(dict(curve.changes))
            file.refuse(
                f"curves.{curve.name}.set" if is_own else "",
                f"{missing('parameter', unset[0], sorted(parameters))}{at and f' (set at {at})'}",
            )


def _full(file: Table, study: Study) -> Full | None:
    """Read the size of the study in the paper."""
    if "full" not in file:
        return None
    if study.scenario is None:
        file.refuse("full", _NOTHING_RUNS)
    table = file.below("full", file.values("full"))
    full = Full(table.whole("seeds", study.seeds, least=1), _changes(table, "set"))
    _few(table, study.axes, study.curves, full.seeds)
    table.finish()
    return full


def _opened(file: Table, study: Study) -> Study:
    """Read which axes are settings that the paper leaves open, and their values in its other studies."""
    names, frozen = file.texts("open", []), file.values("frozen")
    for name in names:
        if name not in [axis.name for axis in study.axes]:
            file.refuse("open", missing("axis", name, [axis.name for axis in study.axes]))
        if name not in frozen:
            file.refuse(
                "frozen" if "frozen" in file else "open", f'frozen needs the value of "{name}" in other studies'
            )
        if frozen[name] not in study.axis(name).shown:
            allowed = _listed(list(study.axis(name).shown))
            file.refuse(f"frozen.{name}", f"no point has {name} = {frozen[name]!r}; allowed: {allowed}")
    for name in frozen:
        if name not in names:
            file.refuse(f"frozen.{name}", missing("open axis", name, names))
    if len(set(names)) < len(names):
        file.refuse("open", "an axis appears twice")
    study = replace(study, open=tuple(names), frozen=frozen)
    if tuple(frozen[name] for name in names) not in study.cells():
        file.refuse("frozen", "points with these values are omitted by the key only")
    return study


def _in_grid(table: Table, study: Study) -> InGrid:
    if not study.open:
        table.refuse("", "a claim is judged over the settings that the paper leaves open: name their axes in open")
    measure = None
    if "measure" in table:
        try:
            measure = expressions.parse(table.text("measure"))
            _fits(measure, study)
        except ExpressionError as error:
            table.refuse("measure", str(error))
    judged = InGrid(table.text("claim"), measure, table.place("claim"))
    table.finish()
    return judged


def _fits(measure: Expression, study: Study) -> None:
    """Try an expression at every combination of the open settings."""
    scope = _ones(study.axes, study.omitted, study.curves, study.metrics)
    for places in study.cells().values():
        expressions.evaluate(measure, scope.chosen(places))


def _omitted(file: Table, axes: tuple[Axis, ...]) -> frozenset[tuple[Value, ...]]:
    """Return the places at which the expression `only` is not true."""
    if "only" not in file:
        return frozenset()
    grid = Study.grid_of(axes)
    try:
        scope = Scope(expressions.axes_of([axis.name for axis in axes], grid), {})
        chosen = expressions.everywhere(expressions.parse(file.text("only")), scope)[0]
    except ExpressionError as error:
        file.refuse("only", str(error))
    if len(chosen) != len(grid) or not chosen.any():
        file.refuse("only", "expected a condition on the axes that is true at some points")
    return frozenset(place for place, kept in zip(grid, chosen, strict=True) if not kept)


def _world(name: str, table: Table) -> World:
    if name in _OWN_WORLDS:
        table.refuse("", f'"{name}" is a world of this program')
    command = table.texts("command")
    if not command:
        table.refuse("command", "expected the words of a command")
    table.finish()
    return World(name, tuple(command), table.file.parent)


def _few(file: Table, axes: tuple[Axis, ...], curves: tuple[Curve, ...], seeds: int) -> None:
    """Check that the rows of the table of a study can be counted out."""
    points = math.prod(len(axis.shown) for axis in axes)
    if (rows := points * max(1, len(curves)) * seeds) > _MOST_ROWS:
        file.refuse(
            "axes" if points * max(1, len(curves)) > _MOST_ROWS else "seeds",
            f"at most {_MOST_ROWS:,} runs, found {rows:,}: {points:,} points"
            f"{f', {len(curves):,} curves' if curves else ''}{f', {seeds:,} seeds' if seeds > 1 else ''}",
        )


def _scenario(file: Table) -> Path | None:
    if "scenario" not in file:
        return None
    scenario = file.file.parent / file.text("scenario")
    if not scenarios.is_file(scenario):
        file.refuse("scenario", f"no such file: {scenario}")
    return scenario


def _name(name: str, table: Table) -> str:
    if not name.isidentifier():
        table.refuse("", f'"{name}" cannot be used in expressions; use letters, digits and underscores')
    if keyword.iskeyword(name) or name in expressions.FUNCTIONS:
        table.refuse("", f'"{name}" has another meaning in expressions; use another name')
    return name


def _distinct(file: Table, axes: tuple[Axis, ...], metrics: tuple[Metric, ...]) -> None:
    taken = {"curve", "seed", "packet_hops"}
    for kind, name in [("axes", axis.name) for axis in axes] + [("metrics", metric.name) for metric in metrics]:
        if name in taken:
            file.refuse(f"{kind}.{name}", f'the name "{name}" is already used')
        taken.add(name)


def _axis(name: str, table: Table, known: list[str], *, runs: bool) -> Axis:
    if not runs:
        for key in ("key", "keys", "points"):
            if key in table:
                table.refuse(key, _NOTHING_RUNS)
    elif sum(key in table for key in ("key", "keys", "set", "points")) != 1:
        table.refuse(
            "",
            "an axis needs either key, or keys that change together, or set, a table of keys per point, or points, a "
            "file of them",
        )
    place = next((key for key in ("set", "points") if key in table), "values")
    given = settings.read(name, _files(table, "points")) if place == "points" else None
    values: list[Any] = given[0] if given else table.items(place)
    shown = values
    changes: list[dict[str, object]] = given[1] if given else [{} for _ in values]
    if "keys" in table:
        keys = table.texts("keys")
        if not all(isinstance(value, list) and len(value) == len(keys) for value in values):
            table.refuse("values", f"expected lists of {len(keys)} values, one per key")
        changes = [dict(zip(keys, value, strict=True)) for value in values]
        shown = [value[0] for value in values]
    elif "set" in table:
        if not all(isinstance(value, dict) for value in values):
            table.refuse("set", "expected a table of keys per point")
        changes = values
    elif runs and place == "values":
        changes = [{table.text("key"): value} for value in values]
    for key in (key for change in changes for key in change if key in _FIXED):
        table.refuse(place if place != "values" else "keys" if "keys" in table else "key", _fixed(key))
    if "shown" in table:
        if given:
            table.refuse("shown", f'the first column of the file of points, "{name}", names them')
        shown, place = table.items("shown"), "shown"
        if len(shown) != len(values):
            table.refuse("shown", f"expected {len(values)} names, one per value, found {len(shown)}")
    if not all(isinstance(value, str | int | float) for value in shown):
        table.refuse(
            place,
            "axis labels must be numbers or text: with keys, the first value is the label unless shown is given, "
            "and set needs shown",
        )
    if len({isinstance(value, str) for value in shown}) > 1:
        table.refuse(place, "text and numbers are mixed")
    if len(set(shown)) < len(shown):
        table.refuse(place, "a value appears twice")
    curves = tuple(table.texts("curves")) if "curves" in table else None
    if unknown := [curve for curve in curves or () if curve not in known]:
        table.refuse("curves", f'no such curve: "{unknown[0]}"; the curves are {", ".join(known)}')
    axis = Axis(_name(name, table), table.text("label", name), tuple(changes), tuple(shown), curves)
    table.finish()
    return axis


def _changes(table: Table, key: str) -> dict[str, object]:
    """Read changes to the scenario."""
    changes = table.values(key)
    for one in changes:
        if one in _FIXED:
            table.refuse(f"{key}.{one}", _fixed(one))
    return changes


def _fixed(key: str) -> str:
    return f'"{key}" cannot be set here: {_FIXED[key]}'


def _files(table: Table, key: str) -> list[Path]:
    """Return the file or files that a key names, beside the study."""
    given = table.any(key)
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list) or not names or not all(isinstance(one, str) for one in names):
        table.refuse(key, f"expected the name of a file, or a list of them, found {given!r}")
    files = [table.origin(key).file.parent / one for one in names]
    for file in files:
        if not scenarios.is_file(file):
            table.refuse(key, f"no such file: {file}")
    return files


def _curve(name: str, table: Table, worlds: dict[str, World], *, runs: bool) -> Curve:
    for key in ("set", "world"):
        if not runs and key in table:
            table.refuse(key, _NOTHING_RUNS)
    changes, world = dict(_changes(table, "set")), table.text("world", "")
    if world in _OWN_WORLDS:
        changes["run.world"] = world
    elif world and world not in worlds:
        table.refuse("world", missing("world", world, [*_OWN_WORLDS, *worlds]))
    needs = tuple(table.texts("needs", []))
    if len(set(needs)) < len(needs):
        table.refuse("needs", "a change appears twice")
    curve = Curve(_name(name, table), table.text("label", name), changes, worlds.get(world), needs)
    table.finish()
    return curve


def _metric(
    name: str, table: Table, axes: tuple[Axis, ...], curves: tuple[Curve, ...], *, runs: bool
) -> Metric:  # fmt: skip
    formulas = _formulas(table, axes, curves) if "formula" in table or not runs else {}
    if formulas and "sql" in table:
        table.refuse("sql", "a metric has either sql or formula, not both")
    place = table.place("formula" if formulas else "sql")
    sql = "" if formulas else table.text("sql")
    metric = Metric(_name(name, table), sql, formulas, table.text("about", name), table.text("unit", ""), place)
    table.finish()
    if not formulas:
        measuring.check(sql, place, columns=1)
    return metric


def _formulas(table: Table, axes: tuple[Axis, ...], curves: tuple[Curve, ...]) -> dict[str, Expression]:
    """Read the formula of every curve: one for all, or a table of them."""
    if "formula" not in table:
        table.refuse("", f'missing key "formula": {_NOTHING_RUNS}')
    given = table.any("formula")
    names = [curve.name for curve in curves]
    texts = dict.fromkeys(names, given) if isinstance(given, str) else given
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        table.refuse("formula", f"expected text, or a table with one text per curve, found {given!r}")
    for name in texts:
        if name not in names:
            table.refuse(f"formula.{name}", missing("curve", name, names))
    for name in names:
        if name not in texts:
            table.refuse("formula", f'missing formula for the curve "{name}"')
    grid = Study.grid_of(axes)
    scope = Scope(expressions.axes_of([axis.name for axis in axes], grid[:1]), {})
    found = {}
    for name, text in texts.items():
        try:
            found[name] = expressions.parse(text)
            expressions.evaluate(found[name], scope)
        except ExpressionError as error:
            table.refuse("formula", str(error))
    return found


def _panel(
    table: Table, axes: tuple[Axis, ...], metrics: tuple[Metric, ...], scope: Scope, *, runs: bool
) -> Panel:  # fmt: skip
    kind = table.text("kind", "lines")
    panel: Panel
    if kind == "lines":
        panel = _lines(table, axes, metrics, scope)
    elif kind == "percentile":
        if not runs:
            table.refuse("kind", _NOTHING_RUNS)
        panel = _percentile(table, axes, scope)
    elif kind == "slowdown":
        if not runs:
            table.refuse("kind", _NOTHING_RUNS)
        panel = _slowdown(table, axes, scope)
    elif kind in ("trace", "dots"):
        if not runs:
            table.refuse("kind", _NOTHING_RUNS)
        panel = _trace(table, axes, scope, dots=kind == "dots")
    elif kind == "map":
        panel = _map(table, axes, scope)
    elif kind == "winners":
        panel = _winners(table, axes, metrics, scope)
    elif kind == "ranking":
        if not runs:
            table.refuse("kind", _NOTHING_RUNS)
        panel = _ranking(table, axes, metrics)
    else:
        table.refuse("kind", missing("kind of panel", kind, _KINDS))
    table.finish()
    return panel


def _lines(table: Table, axes: tuple[Axis, ...], metrics: tuple[Metric, ...], scope: Scope) -> Lines:
    names = [metric.name for metric in metrics]
    (x, at), y, whiskers = _one_axis(table, axes, scope), table.text("y"), table.texts("whiskers", [])
    for key, name in [("y", y), *(("whiskers", name) for name in whiskers)]:
        if name not in names:
            table.refuse(key, missing("metric", name, names))
    if len(whiskers) not in (0, 2):
        table.refuse("whiskers", "expected two metrics, the lower and the upper end")
    ends = (whiskers[0], whiskers[1]) if whiskers else None
    metric = metrics[names.index(y)]
    title, label = table.text("title", metric.about), table.text("y_label", metric.unit or metric.about)
    return Lines(x, y, title, label, _log(table), ends, at)


def _percentile(table: Table, axes: tuple[Axis, ...], scope: Scope) -> Percentile:
    x, at = _one_axis(table, axes, scope)
    percent, unit = table.number("percentile"), table.text("unit", "")
    if percent is None or not 0 < percent < 100:
        table.refuse("percentile", f"expected a number between 0 and 100, found {percent}")
    title = table.text("title")
    panel = Percentile(
        x, table.text("sql"), percent, title, table.text("y_label", unit or title), unit, _log(table), at,
        table.place("sql"),
    )  # fmt: skip
    measuring.check(panel.sql, panel.place, columns=1)
    return panel


def _slowdown(table: Table, axes: tuple[Axis, ...], scope: Scope) -> Slowdown:
    percent, bins = table.number("percentile"), table.number("bins") if "bins" in table else 10
    if percent is None or not 0 < percent < 100:
        table.refuse("percentile", f"expected a number between 0 and 100, found {percent}")
    if bins is None or bins != int(bins) or not 2 <= bins <= 100:
        table.refuse("bins", f"expected a whole number from 2 to 100, found {bins}")
    at = _at(table, axes, (), scope, "slowdowns over sizes show one point")
    sql = table.text("sql", "SELECT size_bytes, slowdown FROM flows")
    place = table.place("sql" if "sql" in table else "kind")
    measuring.check(sql, place, columns=2)
    return Slowdown(sql, percent, int(bins), table.text("title", f"p{percent:g} of the slowdown"), at, place)


def _one_axis(table: Table, axes: tuple[Axis, ...], scope: Scope) -> tuple[str, dict[str, Value]]:
    x = table.text("x")
    if x not in [axis.name for axis in axes]:
        table.refuse("x", missing("axis", x, [axis.name for axis in axes]))
    return x, _at(table, axes, (x,), scope, "lines are drawn over one axis")


def _log(table: Table) -> tuple[str, ...]:
    log = table.texts("log", [])
    for name in log:
        if name not in ("x", "y"):
            table.refuse("log", missing("axis", name, ["x", "y"]))
    return tuple(log)


def _at(
    table: Table, all_axes: Sequence[Axis], drawn: tuple[str, ...], scope: Scope, reason: str
) -> dict[str, Value]:  # fmt: skip
    """Read the value at which a panel fixes each axis over which it is not drawn."""
    at = dict(table.values("at"))
    axes = [axis for axis in all_axes if axis.name not in drawn]
    for name in at:
        if name not in [axis.name for axis in axes]:
            table.refuse(f"at.{name}", missing("axis", name, [axis.name for axis in axes]))
    for axis in axes:
        if axis.name not in at and len(axis.shown) == 1:
            at[axis.name] = axis.shown[0]
        if axis.name not in at:
            table.refuse("at", f'{reason}: give a value of the axis "{axis.name}"')
        if at[axis.name] not in axis.shown:
            table.refuse("at", f"no point has {axis.name} = {at[axis.name]!r}; allowed: {_listed(list(axis.shown))}")
    shown = np.logical_and.reduce([scope.axes[name] == value for name, value in at.items()])
    if at and np.sum(shown) < math.prod(len(axis.shown) for axis in all_axes if axis.name in drawn):
        table.refuse("at", "points of this panel are omitted by the key only")
    return {name: cast("Value", value) for name, value in at.items()}


def _map(table: Table, axes: tuple[Axis, ...], scope: Scope) -> Map:
    x, y, at = _two_axes(table, axes, scope)
    try:
        value = expressions.parse(table.text("value"))
        if expressions.everywhere(value, scope).shape[1] not in (1, scope.places):
            table.refuse("value", "a map needs a number at every point; at() and where() omit some")
    except ExpressionError as error:
        table.refuse("value", str(error))
    return Map(x, y, value, table.text("title", value.text), table.text("label", ""), table.number("within"), at)


def _two_axes(table: Table, axes: tuple[Axis, ...], scope: Scope) -> tuple[str, str, dict[str, Value]]:
    names = [axis.name for axis in axes]
    x, y = table.text("x"), table.text("y")
    for key, name in (("x", x), ("y", y)):
        if name not in names:
            table.refuse(key, missing("axis", name, names))
    if x == y:
        table.refuse("y", "a map is drawn over two axes")
    return x, y, _at(table, axes, (x, y), scope, "a map is drawn over two axes")


def _winners(table: Table, axes: tuple[Axis, ...], metrics: tuple[Metric, ...], scope: Scope) -> Winners:
    x, y, at = _two_axes(table, axes, scope)
    name, best = table.text("metric"), table.text("best")
    if name not in scope.metrics:
        table.refuse("metric", missing("metric", name, list(scope.metrics)))
    if best not in ("lowest", "highest"):
        table.refuse("best", missing("order", best, ["lowest", "highest"]))
    known = list(scope.metrics[name])
    chosen = table.texts("curves", known)
    for curve in chosen:
        if curve not in known:
            table.refuse("curves", missing("curve", curve, known))
    if len(set(chosen)) < 2:
        table.refuse("curves", "a map of winners compares two curves at least")
    about = next(metric.about for metric in metrics if metric.name == name)
    curves = tuple(curve for curve in known if curve in chosen)
    return Winners(x, y, name, best == "lowest", curves, table.text("title", f"{best.capitalize()} {about}"), at)


def _ranking(table: Table, axes: tuple[Axis, ...], metrics: tuple[Metric, ...]) -> Ranking:
    names = [metric.name for metric in metrics]
    metric, beside, means = table.text("metric"), table.values("beside"), table.texts("means", [])
    for key, name in [("metric", metric), *(("beside", name) for name in beside), *(("means", name) for name in means)]:
        if name not in names:
            table.refuse(key, missing("metric", name, names))
    for name, best in [("best", table.text("best")), *((f"beside.{name}", best) for name, best in beside.items())]:
        if best not in ("lowest", "highest"):
            table.refuse(name, missing("order", str(best), ["lowest", "highest"]))
    by, chart = table.texts("by", []), table.texts("map", [])
    if len(chart) not in (0, 2):
        table.refuse("map", "expected two parameters, that of the rows and that of the columns")
    # A parameter tells points apart if it is set at all of them.
    told = [key for axis in axes for key in axis.keys if all(key in move for move in axis.changes)]
    for key, name in [*(("by", name) for name in by), *(("map", name) for name in chart)]:
        if name not in parted(dict.fromkeys(told))[1]:
            known = sorted(parted(dict.fromkeys(told))[1])
            table.refuse(key, f"{missing('parameter', name, known)} (those that are set at every point)")
    return Ranking(
        metric, table.text("best") == "lowest", {name: best == "lowest" for name, best in beside.items()},
        tuple(means), tuple(by), (chart[0], chart[1]) if chart else None,
        table.text("title", f"{next(one.about for one in metrics if one.name == metric)}: always the same curve"),
    )  # fmt: skip


def _trace(table: Table, axes: tuple[Axis, ...], scope: Scope, *, dots: bool) -> Trace:
    at = _at(table, axes, (), scope, "a trace shows one point")
    limits = None
    if "limits" in table:
        limits = table.items("limits")
        if len(limits) != 2 or not all(type(one) in (int, float) for one in limits) or limits[0] >= limits[1]:
            table.refuse("limits", f"expected two numbers, from and to, found {limits}")
    trace = Trace(
        table.text("sql"), table.text("title", ""), table.text("x_label", "time (s)"), table.text("y_label"), at,
        (float(limits[0]), float(limits[1])) if limits else None, dots, table.place("sql"),
    )  # fmt: skip
    measuring.check(trace.sql, trace.place, columns=2)
    return trace


def _claim(table: Table, scope: Scope, *, is_baseline: bool = False) -> Claim:
    claim = Claim(
        id=table.text("id"),
        text=table.text("text"),
        measure=_expression(table, scope),
        paper=_paper(table),
        within=table.number("within"),
        at_least=table.number("at_least"),
        at_most=table.number("at_most"),
        direction=_direction(table),
        why=table.text("why", ""),
        unit=table.text("unit", ""),
        place=table.place(),
        is_baseline=is_baseline,
        shown_by=_names(table, "shown_by"),
        baselines=Names() if is_baseline else _names(table, "baselines"),
        closed=table.text("closed", ""),
    )
    if claim.shown_by.names and not claim.why:
        table.refuse("shown_by", "studies show an explanation: write it in why")
    if claim.within is not None and isinstance(claim.paper, str):
        table.refuse("within", "a tolerance around the paper's value needs a number in paper")
    if claim.within is None and claim.at_least is None and claim.at_most is None:
        table.refuse("", "a claim needs within, at_least or at_most, which say when it holds")
    if "closed" in table and not claim.closed:
        table.refuse("closed", "say why no open setting could change it")
    if claim.unit and expressions.is_truth(claim.measure):
        table.refuse("unit", "a measure that is true or false has no unit")
    table.finish()
    return claim


def _names(table: Table, key: str) -> Names:
    return Names(tuple(table.texts(key, [])), table.place(key))


def _paper(table: Table) -> float | str:
    value = table.any("paper")
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        table.refuse("paper", f"expected a number or text, found {value!r}")
    return value if isinstance(value, str) else float(value)


def _expression(table: Table, scope: Scope) -> expressions.Expression:
    try:
        expression = expressions.parse(table.text("measure"))
        expressions.evaluate(expression, scope)
    except ExpressionError as error:
        table.refuse("measure", str(error))
    return expression


def _direction(table: Table) -> Direction | None:
    text = table.text("direction", "")
    if not text:
        return None
    found = re.fullmatch(r"(below|above) ([+-]?\d+(?:\.\d+)?)", text)
    if not found:
        table.refuse("direction", f'expected "below" or "above" and a number, found {text!r}')
    return Direction(found[1], float(found[2]))


def _ones(
    axes: tuple[Axis, ...],
    omitted: frozenset[tuple[Value, ...]],
    curves: tuple[Curve, ...],
    metrics: tuple[Metric, ...],
) -> Scope:
    """Return a scope in which every metric is 1, for trying expressions."""
    grid = [place for place in Study.grid_of(axes) if place not in omitted]
    ones = np.ones((1, len(grid)))
    return Scope(
        expressions.axes_of([axis.name for axis in axes], grid),
        {metric.name: {curve.name: ones for curve in curves} for metric in metrics},
    )


def _listed(values: list[Any]) -> str:
    return ", ".join(str(value) for value in values)


def folder(directory: Path, *, leaving_out: str) -> list[Study]:
    """Read all studies of a paper: every TOML file in a folder that is not the scenario of another.

    Raises:
        ScenarioError: one is invalid, two claims have the same id, or a claim names what is not there.

    """
    # By names without ".toml", so that "figure-6" comes before "figure-6-ideal".
    paths = sorted(directory.glob("*.toml"), key=lambda path: path.stem)
    files = {path: document.read(path) for path in paths if path.name != leaving_out}
    scenarios = {path.parent / file.text("scenario") for path, file in files.items() if "scenario" in file}
    studies = [read(path) for path in files if path not in scenarios]
    if not studies:
        raise ScenarioError(f"{directory}: no studies here (*.toml)")
    # In the order of the paper, followed by studies without a figure number.
    studies.sort(key=lambda study: (not study.figure, study.figure))
    seen: dict[str, Claim] = {}
    for claim in (claim for study in studies for claim in (*study.baselines, *study.claims)):
        if claim.id in seen:
            raise ScenarioError(f'{claim.place}: the id "{claim.id}" is already used: {seen[claim.id].place}')
        seen[claim.id] = claim
    for claim in seen.values():
        _exist(claim.shown_by, "study", [study.name for study in studies])
        _exist(claim.baselines, "baseline", [one.id for one in seen.values() if one.is_baseline])
    _in_one_grid(studies, seen)
    return studies


def _in_one_grid(studies: list[Study], claims: dict[str, Claim]) -> None:
    places: dict[str, str] = {}
    for study in studies:
        for one in study.judged:
            _exist(Names((one.claim,), one.place), "claim", list(claims))
            if claims[one.claim].closed:
                raise ScenarioError(f'{one.place}: "{one.claim}" is closed, but judged here: {claims[one.claim].place}')
            if one.claim in places:
                raise ScenarioError(f'{one.place}: "{one.claim}" is already judged: {places[one.claim]}')
            places[one.claim] = one.place
            try:
                _fits(one.measure or claims[one.claim].measure, study)
            except ExpressionError as error:
                why = f"give measure, as that of {one.claim} does not fit here: {error}"
                raise ScenarioError(f"{one.place}: {why}") from error


def _exist(named: Names, what: str, allowed: list[str]) -> None:
    for name in named.names:
        if name not in allowed:
            raise ScenarioError(f"{named.place}: {missing(what, name, allowed)}")
