"""A share of the fuzzing for every day, always the same, and what fuzzing has found."""

from __future__ import annotations

from pathlib import Path

import pytest

import fuzz
import mutations
import targets
from targets import TARGETS, Target

FOUND = sorted(Path(__file__).with_name("found").iterdir())
EXAMPLES = 25


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", TARGETS)
def test_mutations_are_accepted_or_refused_properly(name: str) -> None:
    fuzz.hunt(TARGETS[name], EXAMPLES, seed=None)


@pytest.mark.parametrize("name", TARGETS)
def test_what_is_mutated_is_good(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*said: object) -> None:
        raise AssertionError(said)

    monkeypatch.setattr(targets, "refused", refused)
    for text in TARGETS[name].seeds():
        fuzz.replay(TARGETS[name], text)


@pytest.mark.parametrize("file", FOUND, ids=lambda file: file.name)
def test_what_was_found_is_mended(file: Path) -> None:
    fuzz.replay(TARGETS[file.name.split("-")[0]], file.read_bytes().decode("utf-8", "surrogatepass"))


def test_a_failure_is_shrunk_and_can_be_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(text: str, _folder: Path) -> None:
        if "[]" in text:
            raise TypeError("of course")

    monkeypatch.setattr(fuzz, "OUT", tmp_path)
    target = Target("scenario", "toml", TARGETS["override"].seeds, mutations.edited, check)
    with pytest.raises(
        fuzz.FoundError, match=r"TypeError: of course\nreplay: .*fuzz.py --replay scenario .*scenario.toml"
    ):
        fuzz.hunt(target, 2000, seed=1)
    smallest = (tmp_path / "scenario.toml").read_text(encoding="utf-8")
    assert "[]" in smallest
    assert len(smallest) < 40
    with pytest.raises(TypeError):
        fuzz.replay(target, smallest)
