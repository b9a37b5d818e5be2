"""What a release states agrees with itself, and what would not is found; `make release-check` proves the rest."""

from __future__ import annotations

import json
import shutil
import subprocess
from datetime import date
from pathlib import Path

import pytest

import backend
import incast
import release
from incast._native import ScenarioError
from incast.studies import paper, reproduce

ROOT = Path(__file__).parents[1]
PLACES = (
    "CITATION.cff", "Cargo.lock", "Cargo.toml", "crates/host/Cargo.lock", "crates/host/Cargo.toml", "pyproject.toml",
    "python/incast-requests/pyproject.toml", "uv.lock",
)  # fmt: skip


def test_every_place_states_the_same_version() -> None:
    found = release.versions(ROOT)
    assert {place.split(",")[0] for place in found} == set(PLACES)
    assert set(found.values()) == {incast.__version__}


@pytest.mark.parametrize("place", PLACES)
def test_a_place_that_states_another_version_is_found(place: str, tmp_path: Path) -> None:
    for name in PLACES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    text = (tmp_path / place).read_text(encoding="utf-8")
    own = text.index("version", text.index('name = "incast')) if place.endswith(".lock") else 0
    changed = text[:own] + text[own:].replace(incast.__version__, "9.9.9", 1)
    (tmp_path / place).write_text(changed, encoding="utf-8")
    found = release.versions(tmp_path)
    assert {where.split(",")[0] for where, version in found.items() if version == "9.9.9"} == {place}


@pytest.mark.parametrize("name", release.SHOWN)
def test_links_of_pages_that_are_shown_elsewhere_lead_somewhere_from_there(name: str) -> None:
    page = (ROOT / name).read_text(encoding="utf-8")
    assert release.broken(page, ROOT) == []


def test_relative_links_and_links_to_files_that_are_not_here_are_broken() -> None:
    page = (
        f"[a](docs/index.md) ![b]({release.PICTURES}docs/images/none.png) [c]({release.HOME}docs/index.md#start) "
        "[d](https://example.org/e)\n```python\nf[0](relative)\n```\n"
    )
    assert release.broken(page, ROOT) == [
        "docs/index.md is not absolute",
        f"{release.PICTURES}docs/images/none.png: there is no such file here",
    ]


def test_studies_come_with_the_program_and_those_of_an_installed_one_cannot_be_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert paper.read("ties", None).directory == ROOT / "studies" / "ties"
    installed = tmp_path / "site-packages" / "incast"
    shutil.copytree(ROOT / "studies" / "rdtcp", installed / "data" / "studies" / "rdtcp")
    monkeypatch.setattr(incast, "__file__", str(installed / "__init__.py"))
    wish = reproduce.Wish(
        figures=[], quick=False, full=False, check=False, report=True, update=True, keep_linux=False, dry_run=True,
        json=None, out=tmp_path / "out", workers=1,
    )  # fmt: skip
    with pytest.raises(ScenarioError, match=r"--update: .*site-packages/incast/data/studies/rdtcp belongs to the inst"):
        reproduce.main("rdtcp", None, wish)


def test_a_version_is_set_in_every_place_that_states_it(tmp_path: Path) -> None:
    for name in PLACES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    before = {name: (tmp_path / name).read_text(encoding="utf-8") for name in PLACES}
    with pytest.raises(release.Failed, match="no version"):
        release.set_version(tmp_path, "1.2")
    assert set(release.set_version(tmp_path, "98.76.54")) == set(PLACES)
    found = release.versions(tmp_path)
    assert set(found) == set(release.versions(ROOT))
    assert set(found.values()) == {"98.76.54"}
    # Nothing else has changed: not the versions of what others wrote.
    for name, text in before.items():
        assert (tmp_path / name).read_text(encoding="utf-8").replace("98.76.54", incast.__version__) == text
    (tmp_path / "CITATION.cff").write_text("version: 7.0.0\n", encoding="utf-8")
    with pytest.raises(release.Failed, match=r"CITATION\.cff has 7\.0\.0"):
        release.set_version(tmp_path, "1.2.3")


def test_the_newest_release_of_the_changelog_is_this_version_and_a_wrong_heading_is_found() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    found = release.releases(changelog)
    assert next(iter(found)) == incast.__version__
    newer = release.dated(
        changelog.replace("## [Unreleased]\n", "## [Unreleased]\n\n### Fixed\n\n- It.\n"), "98.7.6", date(2999, 1, 2)
    )
    assert release.releases(newer) == {"98.7.6": date(2999, 1, 2), **found}
    assert "## [Unreleased]\n\n## [98.7.6] - 2999-01-02\n\n### Fixed\n\n- It.\n" in newer
    for wrong, why in (
        (changelog.replace("## [Unreleased]\n", ""), "the first heading"),
        (newer.replace("- 2999", ", 2999"), "is not like"),
        (newer.replace("2999-01-02", "2999-13-02"), "month"),
        (newer.replace("2999-01-02", "1999-01-02"), "not in order"),
        (newer.replace("98.7.6", "0.0.1"), "not in order"),
        (newer.replace("[98.7.6]", f"[{incast.__version__}]"), "not in order"),
    ):
        with pytest.raises(release.Failed, match=why):
            release.releases(wrong)
    with pytest.raises(release.Failed, match="nothing under Unreleased"):
        release.dated(newer, "99.0.0", date(2999, 1, 3))
    with pytest.raises(release.Failed, match=r"98\.7\.6 already"):
        release.dated(newer, "98.7.6", date(2999, 1, 3))


def test_what_is_built_says_its_commit_and_whether_it_was_modified(tmp_path: Path) -> None:
    record = tmp_path / backend.RECORD
    record.parent.mkdir(parents=True)
    # The archive of a tree, without git, keeps what it came with.
    backend.record(tmp_path)
    assert not record.exists()

    def git(*arguments: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        command = ["git", *who, *arguments]
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    git("init", "--quiet")
    (tmp_path / ".gitignore").write_text("commit.txt\n", encoding="utf-8")
    git("add", ".")
    git("commit", "--quiet", "--message", "one")
    backend.record(tmp_path)
    commit = f"commit {git('rev-parse', 'HEAD')[:12]}"
    assert record.read_text(encoding="utf-8") == f"{commit}\n"
    (tmp_path / "more.py").touch()
    backend.record(tmp_path)
    assert record.read_text(encoding="utf-8") == f"{commit}, modified\n"
    # A tree that merely lies in somebody's repository is not at its commit.
    inner = tmp_path / "vendored"
    (inner / backend.RECORD).parent.mkdir(parents=True)
    backend.record(inner)
    assert not (inner / backend.RECORD).exists()


def test_an_sbom_lists_components_with_their_versions() -> None:
    listed = {"bomFormat": "CycloneDX", "components": [{"name": "a", "version": "1"}, {"name": "b", "version": "2"}]}
    assert release.components(json.dumps(listed), "a.json") == 2
    changes: list[dict[str, object]] = [{"bomFormat": "SPDX"}, {"components": []}, {"components": [{"name": "a"}]}]
    for change in changes:
        with pytest.raises(release.Failed, match=r"a\.json is no list"):
            release.components(json.dumps(listed | change), "a.json")
