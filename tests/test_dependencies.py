"""What the lock files pin is allowed, and a vulnerability fails the audit where one is known."""

from __future__ import annotations

import email.message
import os
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

import dependencies

ROOT = Path(__file__).parents[1]
ALLOWED = tomllib.loads((ROOT / "deny.toml").read_text(encoding="utf-8"))
CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"


@pytest.mark.parametrize(
    ("licence", "source", "said"),
    [
        ("MIT OR Apache-2.0", CRATES_IO, ""),
        ("MIT/Apache-2.0", CRATES_IO, ""),
        ("(MIT OR GPL-3.0-only) AND Unicode-3.0", CRATES_IO, ""),
        ("Apache-2.0 WITH LLVM-exception", None, ""),
        ("GPL-3.0-only", CRATES_IO, "one 1.2.3: the licence GPL-3.0-only is not allowed; allowed: Apache-2.0, "),
        ("MIT AND GPL-3.0-only", CRATES_IO, "one 1.2.3: the licence MIT AND GPL-3.0-only is not allowed"),
        ("GPL-2.0-only WITH LLVM-exception", CRATES_IO, "is not allowed"),
        (None, CRATES_IO, "one 1.2.3: the licence none is not allowed"),
        ("MIT AND", CRATES_IO, "the licence MIT AND is not allowed"),
        ("MIT", "git+https://example.org/one", "one 1.2.3: the source git+https://example.org/one is not allowed"),
        ("MIT", "registry+https://example.org/index", "the source registry+https://example.org/index is not allowed"),
    ],
)
def test_a_crate_has_a_licence_and_a_source_that_are_allowed(
    licence: str | None, source: str | None, said: str
) -> None:
    package = {"name": "one", "version": "1.2.3", "license": licence, "source": source}
    found = dependencies.wrong_crates([package], ALLOWED)
    assert len(found) == bool(said)
    assert said in "".join(found)


def test_a_distribution_is_from_pypi_and_has_hashes() -> None:
    good = {"name": "a", "version": "1", "source": {"registry": dependencies.PYPI}, "sdist": {"hash": "sha256:00"}}
    own = {"name": "b", "version": "1", "source": {"editable": "."}}
    assert dependencies.wrong_distributions({"package": [good, own]}) == []
    for change, said in (
        ({"source": {"registry": "https://example.org"}}, "the source {'registry': 'https://example.org'} is not"),
        ({"source": {"git": "https://example.org/a"}}, "is not allowed"),
        ({"wheels": [{"url": "https://example.org/a.whl"}]}, "not every file has a hash"),
        ({"sdist": {"hash": "md5:00"}}, "not every file has a hash"),
    ):
        (found,) = dependencies.wrong_distributions({"package": [{**good, **change}]})
        assert said in found


def test_what_the_python_lock_pins_is_allowed() -> None:
    lock = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))
    assert len(lock["package"]) > 50
    assert dependencies.wrong_distributions(lock) == []


@pytest.mark.parametrize(
    ("stated", "spdx", "allowed"),
    [
        (
            {"License-Expression": "Apache-2.0 OR BSD-2-Clause", "License": "ignored"},
            "Apache-2.0 OR BSD-2-Clause",
            True,
        ),
        ({"License": "MIT License"}, "MIT", True),
        ({"License": "BSD"}, "BSD-3-Clause", True),
        ({"Classifier": "License :: OSI Approved :: ISC License (ISCL)"}, "ISC", True),
        ({"Classifier": "License :: OSI Approved :: GNU General Public License (GPL)"}, "none", False),
        ({"License-Expression": "GPL-3.0-only"}, "GPL-3.0-only", False),
        ({}, "none", False),
    ],
)
def test_a_python_package_has_a_licence_that_is_allowed(stated: dict[str, str], spdx: str, allowed: bool) -> None:
    about: Any = email.message.Message()
    for key, value in {"Name": "Some_Thing", "Version": "1", **stated}.items():
        about[key] = value
    assert dependencies.licence(about) == spdx
    licences = [*ALLOWED["licenses"]["allow"], *dependencies.PYTHON_LICENCES]
    lock = {"package": [{"name": "some-thing"}]}
    assert bool(dependencies.wrong_licences([about], lock, licences)) != allowed
    # What is installed besides is nobody's dependency.
    assert dependencies.wrong_licences([about], {"package": []}, licences) == []


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        ("exit 0", 0, "uv.lock: no known vulnerability"),
        ("echo 'error sending request for url'; exit 2", 0, "uv.lock: NOT AUDITED, as the list"),
        ("echo 'aiohttp 3.11 has CVE-2026-1'; exit 1", 1, "CVE-2026-1"),
    ],
)
def test_an_audit_fails_for_a_vulnerability_and_not_for_a_server(
    tmp_path: Path, answer: str, code: int, said: str
) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "audit", tmp_path / ".ci" / "audit")
    tools = tmp_path / ".venv" / "bin"
    tools.mkdir(parents=True)
    for name in ("uv", "cargo-deny", "cargo"):
        (tools / name).write_text(f"#!/bin/sh\n{answer}\n", encoding="utf-8")
        (tools / name).chmod(0o755)
    done = subprocess.run(
        [tmp_path / ".ci" / "audit"], capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"}
    )
    assert done.returncode == code
    assert said in done.stdout + done.stderr
    assert "Cargo.lock" in done.stdout + done.stderr
