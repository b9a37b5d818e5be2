"""The few numbers of a run that people look at first."""

from __future__ import annotations

from typing import Any

from incast import text

HEAD = ("class", "messages", "complete", "goodput", "FCT p50", "FCT p99", "timeouts")


def rows(summary: dict[str, Any]) -> list[list[str]]:
    """Return a row for each class of traffic, and one for all if there are several."""
    classes: dict[str, dict[str, Any]] = summary["classes"]
    named = {**classes, "all": summary} if len(classes) != 1 else classes
    return [row(name, of) for name, of in named.items()]


def row(name: str, of: dict[str, Any]) -> list[str]:
    """Return the row of a class, from its part of the summary."""
    return [
        name,
        f"{of['flows']:,}",
        f"{of['flows_complete']:,}",
        text.rate(of["goodput_total_bps"]),
        text.seconds(of["fct_p50_s"]),
        text.seconds(of["fct_p99_s"]),
        f"{of['timeouts']:,}",
    ]
