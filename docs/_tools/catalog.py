"""The reference of published workloads, made of the program's catalog."""

from __future__ import annotations

from typing import Any


def workloads(entries: list[dict[str, Any]]) -> str:
    """Write one row per distribution of flow sizes."""
    rows = [f"| `{entry['name']}` | {entry['mean_bytes']:,.0f} | {entry['lineage']} |" for entry in entries]
    return "\n".join(["| name | mean (bytes) | lineage |", "|---|---:|---|", *rows])
