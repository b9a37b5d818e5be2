"""Checks that what the lock files pin has a licence and a source that `deny.toml` allows.

cargo-deny would do the same for crates, but refuses paths without a version in incast-host, which is not published.
It looks for known vulnerabilities (`make audit`). Licences of Python packages are those that the installed ones state,
since uv.lock has none.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from license_expression import ExpressionError, get_spdx_licensing

if TYPE_CHECKING:
    from collections.abc import Iterable
    from email.message import Message

ROOT = Path(__file__).parents[1]
# incast-host is a workspace of its own.
WORKSPACES = ("Cargo.toml", "crates/host/Cargo.toml")
PYPI = "https://pypi.org/simple"
# Besides those of deny.toml: as permissive; or of works that are used as they are, and not passed on (MPL-2.0).
PYTHON_LICENCES = ["0BSD", "ISC", "MIT-0", "MIT-CMU", "MPL-2.0", "PSF-2.0", "Zlib"]
# What packages say that do not use SPDX yet.
_CLASSIFIERS = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
_WORDS = {"Apache 2.0": "Apache-2.0", "BSD": "BSD-3-Clause", "MIT License": "MIT"}
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


def licence(about: Message) -> str:
    """Return the licence that a Python package states, as SPDX; of several classifiers one is enough."""
    if expression := about["License-Expression"]:
        return str(expression)
    classifiers = [
        line.rpartition(" :: ")[2] for line in about.get_all("Classifier", []) if line.startswith("License ::")
    ]
    if known := [_CLASSIFIERS[one] for one in classifiers if one in _CLASSIFIERS]:
        return " OR ".join(known)
    said = str(about["License"] or "none")
    return _WORDS.get(said, said)


def wrong_licences(installed: Iterable[Message], lock: dict[str, Any], allowed: list[str]) -> list[str]:
    """Name the installed Python packages of a lock file whose licence is not allowed."""
    locked = {canonical(package["name"]) for package in lock["package"]}
    return [
        f"{about['Name']} {about['Version']}: the licence {licence(about).splitlines()[0]} is not allowed; "
        f"allowed: {', '.join(allowed)}"
        for about in installed
        if canonical(about["Name"]) in locked and not is_allowed(licence(about), allowed)
    ]


def canonical(name: str) -> str:
    """Return the name of a package as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> int:
    """Check all lock files; return the exit code."""
    allowed = tomllib.loads((ROOT / "deny.toml").read_text(encoding="utf-8"))
    lock = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))
    wrong = wrong_distributions(lock)
    installed = (cast("Message", distribution.metadata) for distribution in importlib.metadata.distributions())
    wrong += wrong_licences(installed, lock, [*allowed["licenses"]["allow"], *PYTHON_LICENCES])
    for manifest in WORKSPACES:
        wrong += wrong_crates(metadata(ROOT / manifest), allowed)
    for line in dict.fromkeys(wrong):
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
