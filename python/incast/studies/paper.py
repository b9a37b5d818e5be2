"""A paper: a folder of studies, and how to find it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import incast
from incast._native import ScenarioError
from incast.studies import document, reading
from incast.studies.expressions import missing

if TYPE_CHECKING:
    from incast.studies.study import Study

#: The file that describes the paper; every other TOML file in the folder is a study or its scenario.
ABOUT = "paper.toml"


@dataclass(frozen=True)
class Paper:
    """A paper and its studies."""

    name: str
    title: str
    cite: str
    note: str
    questions: tuple[str, ...]
    """What one would ask the authors."""
    directory: Path
    studies: tuple[Study, ...]

    def chosen(self, figures: list[str]) -> list[Study]:
        """Return the studies of these figures, by number or file name; without any, all studies.

        Raises:
            ScenarioError: there is no such figure.

        """
        names = [name for study in self.studies for name in (study.name, study.figure) if name]
        for figure in figures:
            if figure not in names:
                raise ScenarioError(f"--figure: {missing('figure', figure, names)}")
        return [study for study in self.studies if not figures or {study.name, study.figure} & set(figures)]

    def at_full_size(self, chosen: list[Study]) -> Paper:
        """Return the paper with these studies in the size of the paper.

        Raises:
            ScenarioError: none of them has another size.

        """
        if not any(study.full for study in chosen):
            names = ", ".join(study.name for study in chosen)
            raise ScenarioError(f"--full: no study here has a table [full]: {names}")
        studies = (study.at_full_size() if study in chosen else study for study in self.studies)
        return replace(self, studies=tuple(studies))


def is_installed(folder: Path) -> bool:
    """Whether a folder belongs to the installed program, in which nothing may be changed."""
    return folder.resolve().is_relative_to(_package())


def _package() -> Path:
    return Path(incast.__file__).resolve().parent


def read(name: str, directory: Path | None) -> Paper:
    """Find a paper's folder and read its studies.

    Raises:
        ScenarioError: there is none, or a file in it is invalid.

    """
    folder = _folder(name, directory)
    about = document.read(folder / ABOUT)
    title, cite, note = about.text("title"), about.text("cite"), about.text("note", "")
    questions = tuple(about.texts("questions")) if "questions" in about else ()
    about.finish()
    return Paper(name, title, cite, note, questions, folder, tuple(reading.folder(folder, leaving_out=ABOUT)))


def _folder(name: str, directory: Path | None) -> Path:
    # The current directory, then what comes with the program: links to the source tree, unless it was installed.
    places = [directory] if directory else [Path("studies"), _package() / "data" / "studies"]
    names = sorted({about.parent.name for place in places for about in place.glob(f"*/{ABOUT}")})
    for place in places:
        if name in names and (place / name / ABOUT).is_file():
            return (place / name).resolve() if place.is_relative_to(_package()) else place / name
    looked = ", ".join(str(place) for place in places)
    if not names:
        raise ScenarioError(f"no studies in {looked}; give their directory with --studies DIR")
    raise ScenarioError(f"{missing('paper', name, names)} (looked in {looked}; --studies DIR looks elsewhere)")
