"""Generates the references of workloads and TCP profiles from the program's catalog."""

from __future__ import annotations

from typing import Any


def workloads(entries: list[dict[str, Any]]) -> str:
    """Write one row per distribution of flow sizes."""
    rows = [f"| `{entry['name']}` | {entry['mean_bytes']:,.0f} | {entry['lineage']} |" for entry in entries]
    return "\n".join(["| name | mean (bytes) | lineage |", "|---|---:|---|", *rows])


def profiles(entries: list[dict[str, Any]]) -> str:
    """Write one row per key of the table `tcp`, one column per profile."""
    columns = [{one["key"]: one["value"] for one in entry["settings"]} for entry in entries]
    rows = [f"| `{key}` | {' | '.join(f'`{column[key]}`' for column in columns)} |" for key in columns[0]]
    names = " | ".join(f"`{entry['name']}`" for entry in entries)
    return "\n".join([f"| key of `[tcp]` | {names} |", f"|---|{'---|' * len(entries)}", *rows])
