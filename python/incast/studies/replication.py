"""The record of a replication: settings, questions to the authors, and every claim with its verdict, as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from incast.studies import claims, report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from incast.studies.claims import Judged
    from incast.studies.grids import Share
    from incast.studies.paper import Paper

# The file next to the studies of a paper.
RECORD = "replication.md"


def record(paper: Paper, judged: Sequence[Judged]) -> str:
    """Return the record; it follows from the studies and their tables."""
    baselines, counted = claims.split(judged)
    parts = [
        f"# Replication: {paper.title}",
        paper.cite,
        f"Made by `incast reproduce {paper.name} --update`. The studies of this folder are the frozen setting.",
        "## Setting",
        paper.note.strip(),
    ]
    if paper.questions:
        parts += ["## Questions to the authors", "\n".join(f"- {question}" for question in paper.questions)]
    if baselines:
        parts += ["## What the paper says of its baselines", _table(baselines)]
    parts += [f"## Claims: {claims.count(counted)}", _table(counted)]
    explained = [one for one in (*baselines, *counted) if one.badge]
    if explained:
        parts += ["## Explanations", "\n".join(_explanation(one) for one in explained)]
    return "\n\n".join(parts) + "\n"


def _table(judged: Sequence[Judged]) -> str:
    head = ["| id | what | paper | here | sign, size | verdict | open settings |", "|---|---|---|---|---|---|---|"]
    return "\n".join([*head, *(_row(one) for one in judged)])


def _row(one: Judged) -> str:
    verdict = report.VERDICTS[one.verdict]
    if one.otherwise:
        verdict += f" ({', '.join(one.unmatched)}); otherwise: {report.VERDICTS[one.otherwise]}"
    share = of_share(one.share) if one.share else one.claim.closed
    ours = (report.measured(one), report.compared(one))
    cells = (one.claim.id, one.claim.text, report.paper_value(one.claim), *ours, verdict, share)
    return f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in cells)} |"


def of_share(share: Share) -> str:
    """Say in which part of the grid of open settings a claim holds."""
    undecided = f", undecided in {share.undecided}" if share.undecided else ""
    return f"holds in {share.holds} of {share.of}{undecided}. With the frozen setting {report.with_frozen(share)}"


def _explanation(one: Judged) -> str:
    tables = ", ".join(f"[{name}]({name}.csv)" for name in one.claim.shown_by.names)
    shown = f": {tables}" if one.badge == "measured" else ""
    return f"- **{one.claim.id}** ({one.badge}{shown}) {' '.join(one.why.split())}"
