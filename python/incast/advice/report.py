"""The advice as text."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from incast import text
from incast.advice import judging

if TYPE_CHECKING:
    from incast.advice.judging import Advice, Result
    from incast.advice.remedies import Proposal, Step

_WIDTH = 110


def report(advice: Advice) -> str:
    """Say what came out of the runs."""
    lines = [textwrap.fill(sentence, _WIDTH) for sentence in judging.verdict(advice)]
    lines += ["", text.table(head(advice), [row(advice, one) for one in (advice.today, *advice.results)])]
    lines += ["", *(textwrap.fill(sentence, _WIDTH) for sentence in recommendation(advice))]
    for one in advice.results:
        if one.judged == "better" and one.candidate.proposal:
            lines += ["", *_details(one, one.candidate.proposal)]
    if advice.plan.left_out:
        lines += ["", "Left out:", *(f"  {id_}: {why}" for id_, why in advice.plan.left_out)]
    return "\n".join(lines)


def head(advice: Advice) -> list[str]:
    """Return the head of the table."""
    columns = ["remedy", "p50", "p99", "p99 / today (95 %)", "", "timeouts/query"]
    if advice.plan.cluster.deadline_ps is not None:
        columns.append("late")
    return [*columns, "long flows keep"] if advice.plan.cluster.long_flows else columns


def row(advice: Advice, one: Result) -> list[str]:
    """Return a row of the table."""
    is_today = one.candidate.id == judging.TODAY
    cells = [
        one.candidate.id + ("" if one.candidate.can_be_applied else " *"),
        text.seconds(one.p50_s),
        at_least(one) + text.seconds(one.p99_s),
        "1" if is_today else one.p99.said(),
        "" if is_today else one.judged,
        judging.factor(one.timeouts_per_query),
    ]
    if one.missed_share is not None:
        cells.append(f"{100 * one.missed_share:.1f} %")
    return (
        [*cells, f"{100 * one.long_share:.0f} %"]
        if advice.plan.cluster.long_flows and one.long_share is not None
        else cells
    )


def at_least(one: Result) -> str:
    """Return the sign of a lower bound."""
    return ">= " if one.is_bound else ""


def recommendation(advice: Advice) -> list[str]:
    """Say what to do, and what could change that."""
    results = {one.candidate.id: one for one in advice.results}
    if advice.choice == judging.TODAY:
        best = (
            "No remedy that is allowed is certainly better: leave it as it is."
            if results
            else "Nothing may be changed."
        )
        lines = [best]
    else:
        one = results[advice.choice]
        keep = _keep(one.long_share, advice.today.long_share)
        others = f" As good within {100 * judging.WORTH:.0f} %: {', '.join(advice.as_good)}." if advice.as_good else ""
        lines = [f"Take {advice.choice}: p99 becomes {one.p99.said()} times today's{keep}.{others}"]
    if any(not one.candidate.can_be_applied for one in advice.results):
        lines.append("* simulated only: ranked apart, and not proposed.")
    if any(one.is_bound for one in (advice.today, *advice.results)):
        lines.append(
            ">= p99 is at least that: queries that had not finished when the run ended count with their age. A remedy "
            "with such a p99 is not called better."
        )
    lines += [f"Warning: {one.said()}" for one in advice.warnings]
    if not advice.warnings:
        lines.append(f"None of these would change the choice: {', '.join(advice.plan.neighbours)}.")
    return lines


def _keep(then: float | None, today: float | None) -> str:
    if then is None or today is None:
        return ""
    return f", and long flows keep {100 * then:.0f} % of the line (today {100 * today:.0f} %)"


def _details(one: Result, proposal: Proposal) -> list[str]:
    said = [
        ("today", proposal.today),
        ("proposed", proposal.proposed),
        ("needs", ", ".join(one.candidate.places)),
        ("why", judging.why(one, proposal.follows)),
        ("gain", gain(one)),
        *(("apply", line) for line in _steps(proposal.apply)),
        *(("undo", line) for line in _steps(proposal.undo)),
        *([("note", proposal.note)] if proposal.note else []),
    ]
    lines, before = [one.candidate.id], ""
    for name, line in said:
        shown = "" if name == before else name
        if name in ("apply", "undo"):
            lines.append(f"  {shown:<9} {line}")
        else:
            lines += textwrap.wrap(line, _WIDTH, initial_indent=f"  {shown:<9} ", subsequent_indent=" " * 12)
        before = name
    return lines


def gain(one: Result) -> str:
    """Say what it changes."""
    return f"p50 {one.p50.said()} times today's, p99 {one.p99.said()} times: {one.judged}"


def _steps(steps: tuple[Step, ...]) -> list[str]:
    return [line for step in steps for line in (f"# {step.where}", *step.code.splitlines())]
