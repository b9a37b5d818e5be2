"""Checks the links of the built site, and those of the pages at the root of the repository.

Usage: links.py SITE. Every link within the site must lead to a file and, where it names a place on the page, to an
element with that id. Links to other hosts are checked by `make docs-links`.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[2]
# What Sphinx writes itself and nobody links into.
OWN = ("genindex.html", "search.html")


class _Page(HTMLParser):
    """The ids of a page and what it links to."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            elif name in {"href", "src"} and value and tag != "base":
                self.links.append(value)


@cache
def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def broken_in_site(site: Path) -> list[str]:
    """Return one sentence for each link that leads nowhere."""
    broken = []
    for path in sorted(site.rglob("*.html")):
        if path.name in OWN:
            continue
        for link in _read(path).links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                broken.append(f"{path.relative_to(site)}: there is no {link}")
            elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in _read(target).ids:
                broken.append(f"{path.relative_to(site)}: there is no such place: {link}")
    return broken


def broken_in_repository(root: Path) -> list[str]:
    """Return one sentence for each link of a page outside `docs` that leads to no file."""
    broken = []
    for path in sorted(root.glob("*.md")):
        for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
            parts = urlsplit(link)
            if not parts.scheme and parts.path and not (root / unquote(parts.path)).exists():
                broken.append(f"{path.name}: there is no {link}")
    return broken


def main() -> None:
    """Say what is broken and fail if anything is."""
    site = Path(sys.argv[1])
    if not (site / "index.html").is_file():
        sys.exit(f"{site}: there is no site here")
    broken = broken_in_site(site.resolve()) + broken_in_repository(ROOT)
    if broken:
        sys.exit("\n".join(broken))


if __name__ == "__main__":
    main()
