"""The expressions that measure claims: a subset of Python's, over arrays along the axes.

A value has one row per resampling of the seeds and one column per point of the grid, or a single column once it has
been reduced. `metric.curve` is a mean over seeds, taken before any other operation. Truth values are 1 and 0, and
anything that depends on a missing number is missing.
"""

from __future__ import annotations

import ast
import difflib
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from incast import analysis

if TYPE_CHECKING:
    from collections.abc import Callable

    from incast.studies.study import Value

Numbers: TypeAlias = NDArray[np.float64]
# Numbers, or texts along an axis.
Operand: TypeAlias = NDArray[Any]


class ExpressionError(ValueError):
    """An expression that cannot be evaluated; the text says why."""


@dataclass(frozen=True)
class Expression:
    """An expression as written, and its tree."""

    text: str
    tree: ast.expr


class _Chosen(Mapping[str, Numbers]):
    """By curve, some of the columns. They are cut out when they are asked for: an expression names few curves."""

    def __init__(self, curves: Mapping[str, Numbers], places: Sequence[int]) -> None:
        self._curves = curves
        self._places = places

    def __getitem__(self, curve: str) -> Numbers:
        return self._curves[curve][:, self._places]

    def __iter__(self) -> Iterator[str]:
        return iter(self._curves)

    def __len__(self) -> int:
        return len(self._curves)


@dataclass(frozen=True)
class Scope:
    """The names that an expression may use."""

    axes: Mapping[str, Operand]
    """By name, the value at each point of the grid."""
    metrics: Mapping[str, Mapping[str, Numbers]]
    """By metric and curve: a row per resampling, a column per point."""

    @property
    def places(self) -> int:
        """Number of points of the grid."""
        return next((len(values) for values in self.axes.values()), 1)

    def chosen(self, places: Sequence[int]) -> Scope:
        """Return the same names at some of the points."""
        metrics = {metric: _Chosen(curves, places) for metric, curves in self.metrics.items()}
        return Scope({name: values[places] for name, values in self.axes.items()}, metrics)


def parse(text: str) -> Expression:
    """Read an expression.

    Raises:
        ExpressionError: it is not a valid Python expression.

    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        # What is nested too deeply for this is so for all that follows.
        ast.unparse(tree)
    except SyntaxError as error:
        raise ExpressionError(f"{text!r} is not a valid expression: {error.msg}") from error
    except ValueError as error:
        raise ExpressionError(f"{text!r:.80} is not a valid expression: {error}") from error
    except (RecursionError, MemoryError) as error:
        raise ExpressionError(f"{text!r:.80} is nested too deeply, or has too many terms") from error
    return Expression(text, tree)


def evaluate(expression: Expression, scope: Scope) -> Numbers:
    """Return one number per resampling.

    Raises:
        ExpressionError: it uses an unknown name, or does not reduce to one number.

    """
    value = everywhere(expression, scope)
    if value.shape[1] != 1:
        raise ExpressionError(
            f"{expression.text!r} has a number for each of {value.shape[1]} points; "
            "reduce them to one number with mean(), all() or at()"
        )
    return np.asarray(value[:, 0], dtype=np.float64)


def everywhere(expression: Expression, scope: Scope) -> Numbers:
    """Return a row per resampling: a number for each point of the grid, or one for all of them.

    Raises:
        ExpressionError: it uses an unknown name.

    """
    try:
        with np.errstate(all="ignore"):  # a division by zero gives infinity or a missing number
            value = _Evaluation(scope).of(expression.tree)
    except RecursionError as error:
        raise ExpressionError(f"{expression.text!r:.80} is nested too deeply, or has too many terms") from error
    if value.dtype.kind not in "fiu":
        raise ExpressionError(f"{expression.text!r} is text, not a number")
    return np.asarray(value, dtype=np.float64)


def is_truth(expression: Expression) -> bool:
    """Whether an expression is true or false, rather than a quantity."""
    match expression.tree:
        case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
            return True
        case ast.Call(func=ast.Name(id="all" | "any")):
            return True
    return False


def parts(expression: Expression) -> list[Expression]:
    """Return the separate conditions of an expression: the operands of its `and`, or itself."""
    tree = expression.tree
    if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And):
        return [Expression(ast.unparse(value), value) for value in tree.values]
    return [expression]


def _reduced(reduce: Callable[..., Any]) -> Callable[[Numbers], Numbers]:
    return lambda value: np.asarray(reduce(value, axis=1, keepdims=True), dtype=np.float64)


def _truth(value: Operand) -> Numbers:
    numbers = np.asarray(value, dtype=np.float64)
    return np.where(np.isnan(numbers), np.nan, (numbers != 0).astype(np.float64))


_ONE: dict[str, Callable[[Numbers], Numbers]] = {
    "mean": _reduced(np.mean),
    "median": _reduced(np.median),
    "min": _reduced(np.min),
    "max": _reduced(np.max),
    "sum": _reduced(np.sum),
    "all": lambda value: _reduced(np.min)(_truth(value)),
    "any": lambda value: _reduced(np.max)(_truth(value)),
    "share": lambda value: _reduced(np.mean)(_truth(value)),
    "abs": np.abs,
    "exp": np.exp,
    "log": np.log,
    "floor": np.floor,
}
_MANY: dict[str, Callable[..., Numbers]] = {"least": np.minimum, "most": np.maximum}
_CLOSED_FORMS: dict[str, Callable[..., Any]] = {
    "timeout_probability": analysis.timeout_probability,
    "incast_probability": analysis.incast_probability,
    "slow_start_incast_probability": analysis.slow_start_incast_probability,
    "largest_window": analysis.largest_window,
}
FUNCTIONS = (*_ONE, *_MANY, *_CLOSED_FORMS, "at", "where")

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.Mod: operator.mod,
}
_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


class _Evaluation:
    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def of(self, tree: ast.expr) -> Operand:
        match tree:
            case ast.Constant(value=bool() | int() | float() as value):
                return np.array([[_as_float(value)]])
            case ast.Constant(value=str() as value):
                return np.array([[value]])
            case ast.Name(id=name):
                return self._axis(name)
            case ast.Attribute(value=ast.Name(id=metric), attr=curve):
                return self._metric(metric, curve)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._numbers(operand)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return 1 - _truth(self._numbers(operand))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                return self._elementwise(_BINARY[type(op)], self._numbers(left), self._numbers(right))
            case ast.BoolOp(op=op, values=values):
                both = np.minimum if isinstance(op, ast.And) else np.maximum
                return self._joined(both, [_truth(self._numbers(value)) for value in values])
            case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in _COMPARED for op in ops):
                operands = [self.of(left), *map(self.of, others)]
                pairs = zip(ops, operands[:-1], operands[1:], strict=True)
                return self._joined(np.minimum, [self._compared(_COMPARED[type(op)], a, b) for op, a, b in pairs])
            case ast.Call(func=ast.Name(id=name)):
                return self._call(name, tree)
        raise ExpressionError(
            f"{ast.unparse(tree)!r} is not supported; use numbers, axes, metric.curve, + - * / % **, "
            f"comparisons, and, or, not, and the functions {', '.join(FUNCTIONS)}"
        )

    def _numbers(self, tree: ast.expr) -> Numbers:
        value = self.of(tree)
        if value.dtype.kind not in "fiu":
            raise ExpressionError(f"{ast.unparse(tree)!r} is text; it can only be compared with == and !=")
        return value

    def _axis(self, name: str) -> Operand:
        if name in self.scope.axes:
            return self.scope.axes[name][np.newaxis, :]
        if name in self.scope.metrics:
            curve = next(iter(self.scope.metrics[name]))
            raise ExpressionError(f"{name!r} is a metric: add the curve, as in {name}.{curve}")
        raise ExpressionError(missing("axis or metric", name, [*self.scope.axes, *self.scope.metrics]))

    def _metric(self, metric: str, curve: str) -> Operand:
        if metric not in self.scope.metrics:
            raise ExpressionError(missing("metric", metric, list(self.scope.metrics)))
        curves = self.scope.metrics[metric]
        if curve not in curves:
            raise ExpressionError(missing("curve", curve, list(curves)))
        return curves[curve]

    def _elementwise(self, apply: Callable[[Any, Any], Any], a: Operand, b: Operand) -> Operand:
        if 1 not in (a.shape[1], b.shape[1]) and a.shape[1] != b.shape[1]:
            raise ExpressionError(f"cannot combine {a.shape[1]} points with {b.shape[1]}")
        return np.asarray(apply(a, b))

    def _joined(self, apply: Callable[[Any, Any], Any], values: list[Numbers]) -> Numbers:
        joined = values[0]
        for value in values[1:]:
            joined = self._elementwise(apply, joined, value)
        return joined

    def _compared(self, apply: Callable[[Any, Any], Any], a: Operand, b: Operand) -> Numbers:
        if (a.dtype.kind in "fiu") != (b.dtype.kind in "fiu"):
            raise ExpressionError("cannot compare text with a number")
        if a.dtype.kind not in "fiu" and apply not in (operator.eq, operator.ne):
            raise ExpressionError("text can only be compared with == and !=")
        truth = self._elementwise(apply, a, b).astype(np.float64)
        if a.dtype.kind in "fiu":
            truth = np.where(np.isnan(a) | np.isnan(b), np.nan, truth)
        return truth

    def _call(self, name: str, tree: ast.Call) -> Operand:
        if name not in FUNCTIONS:
            raise ExpressionError(missing("function", name, FUNCTIONS))
        if name == "at":
            return self._at(tree)
        if tree.keywords:
            raise ExpressionError(f"{name}() takes no named arguments")
        if name == "where":
            return self._where(tree)
        if name in _ONE:
            if len(tree.args) != 1:
                raise ExpressionError(f"{name}() takes one argument, not {len(tree.args)}")
            return np.asarray(_ONE[name](self._numbers(tree.args[0])))
        if name in _CLOSED_FORMS:
            return self._closed_form(name, [self._numbers(value) for value in tree.args])
        if len(tree.args) < 2:
            raise ExpressionError(f"{name}() needs at least two arguments")
        return self._joined(_MANY[name], [self._numbers(value) for value in tree.args])

    def _closed_form(self, name: str, values: list[Numbers]) -> Operand:
        try:
            together = np.broadcast_arrays(*values)
            missing_here = np.any([np.isnan(value) for value in together], axis=0)
            # The closed forms reject missing numbers: compute with 1 and mark the result as missing.
            known = [np.where(missing_here, 1.0, value) for value in together]
            return np.where(missing_here, np.nan, np.asarray(_CLOSED_FORMS[name](*known), dtype=np.float64))
        except (TypeError, ValueError) as error:
            raise ExpressionError(f"{name}(): {error}") from error

    def _at(self, tree: ast.Call) -> Operand:
        if len(tree.args) != 1 or not tree.keywords:
            raise ExpressionError("at() takes a value and a point, as in at(x, senders=30)")
        chosen = np.ones(self.scope.places, dtype=bool)
        for keyword in tree.keywords:
            if keyword.arg is None or keyword.arg not in self.scope.axes:
                raise ExpressionError(missing("axis", str(keyword.arg), list(self.scope.axes)))
            values = self.scope.axes[keyword.arg]
            wanted = self.of(keyword.value)
            here = values == wanted[0, 0] if wanted.shape == (1, 1) else np.zeros(0, dtype=bool)
            if not here.any():
                there = ", ".join(map(_written, dict.fromkeys(values.tolist())))
                raise ExpressionError(f"no point has {keyword.arg} = {ast.unparse(keyword.value)}; allowed: {there}")
            chosen &= here
        return self._chosen("at", tree.args[0], chosen)

    def _where(self, tree: ast.Call) -> Operand:
        if len(tree.args) != 2:
            raise ExpressionError("where() takes a value and a condition, as in where(x, senders >= 50)")
        condition = self._numbers(tree.args[1])
        if condition.shape != (1, self.scope.places):
            raise ExpressionError("the condition of where() may use only axes")
        if not (condition[0] == 1).any():
            raise ExpressionError(f"no point satisfies {ast.unparse(tree.args[1])!r}")
        return self._chosen("where", tree.args[0], condition[0] == 1)

    def _chosen(self, function: str, tree: ast.expr, chosen: NDArray[np.bool_]) -> Operand:
        value = self.of(tree)
        if value.shape[1] != len(chosen):
            raise ExpressionError(
                f"{function}() selects from all points, but {ast.unparse(tree)!r} does not have all of them"
            )
        return value[:, chosen]


def missing(what: str, name: str, allowed: list[str] | tuple[str, ...]) -> str:
    """Say that a name is unknown, which one may be meant, and which are allowed."""
    near = difflib.get_close_matches(name, allowed, n=1)
    meant = f'; did you mean "{near[0]}"?' if near else ";"
    return f'unknown {what} "{name}"{meant} allowed: {", ".join(allowed) or "none"}'


def axes_of(names: list[str], grid: list[tuple[Value, ...]]) -> dict[str, Operand]:
    """Return by axis the value at each point of the grid."""
    found = {name: np.array([place[index] for place in grid]) for index, name in enumerate(names)}
    # A product or power of whole numbers could be too large for one, and would silently be another.
    return {name: values.astype(np.float64) if values.dtype.kind in "iu" else values for name, values in found.items()}


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise ExpressionError(f"{value!s:.20}... is too large a number") from error


def _written(value: Value) -> str:
    """Write a value of an axis as people do: a whole number without a point."""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)
