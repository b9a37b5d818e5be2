"""A part from an extension of one's own runs from Python without a change to incast."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Where `cargo test` has not run before, the whole engine is built here.
pytestmark = pytest.mark.timeout(1800)

RUN = """
import own_part
import incast

sender = {"name": "fixed-window", "segments": 4}
fixed = incast.run("incast", set={"traffic.requests.workers": 4, "stack.sender": sender})
print(incast.schema()["definitions"]["SenderChoice"]["oneOf"][-1]["properties"]["segments"]["maximum"])
print(max(fixed.windows["cwnd_bytes"]))
"""


@pytest.fixture(scope="module")
def extension(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the example, which `cargo test` has built already, and lay it where Python finds it."""
    build = ["cargo", "build", "--quiet", "--workspace", "--all-features", "--locked", "--profile", "test"]
    build += ["--example", "own_part", "--message-format", "json"]
    built = subprocess.run(build, cwd=ROOT, check=True, capture_output=True, text=True)
    artifacts = [json.loads(line) for line in built.stdout.splitlines()]
    (library,) = [
        file
        for artifact in artifacts
        if artifact.get("target", {}).get("name") == "own_part"
        for file in artifact.get("filenames", [])
        if file.endswith((".so", ".dylib"))
    ]
    folder = tmp_path_factory.mktemp("extension")
    shutil.copy(library, folder / "own_part.abi3.so")
    return folder


def python(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": str(folder)}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)


def test_a_scenario_chooses_it_by_name(extension: Path) -> None:
    done = python(extension, RUN)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["10000", str(4 * 1024)]


def test_it_has_to_be_imported_first(extension: Path) -> None:
    done = python(extension, "import incast; incast.schema(); import own_part")
    assert "ImportError: import own_part before incast" in done.stderr
