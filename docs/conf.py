"""How Sphinx builds this site: `make docs`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent / "_tools"))

import catalog
import commands
import incast
import parts
import scenario_keys
from incast import _native

if TYPE_CHECKING:
    from collections.abc import Callable

    from sphinx.application import Sphinx

project = "incast"
author = "The incast authors"
project_copyright = author
version = release = incast.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_tools"]
# Single backticks in the docstrings are code.
default_role = "literal"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"

myst_enable_extensions = ["attrs_inline", "deflist"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = "incast"
html_static_path = ["_static"]
html_css_files = ["incast.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
# Furo's own fonts are those of the reader's system: nothing is fetched from elsewhere.
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#00609c",
        "color-brand-content": "#00609c",
        "color-brand-visited": "#00609c",
    },
    "dark_css_variables": {
        "color-brand-primary": "#56b4e9",
        "color-brand-content": "#56b4e9",
        "color-brand-visited": "#56b4e9",
    },
}
pygments_style = "friendly"
pygments_dark_style = "native"

# What the program says about itself takes the place of these lines.
MADE: dict[str, Callable[[], str]] = {
    "scenario keys": lambda: scenario_keys.page(incast.schema()),
    "protocols": lambda: parts.page(json.loads(_native.catalog())["protocols"], incast.schema()),
    "profiles": lambda: catalog.profiles(json.loads(_native.catalog())["profiles"]),
    "workloads": lambda: catalog.workloads(json.loads(_native.catalog())["workloads"]),
    "commands": commands.page,
}


def _make(_app: Sphinx, _page: str, source: list[str]) -> None:
    for what, make in MADE.items():
        line = f"<!-- made by the program: {what} -->"
        if line in source[0]:
            source[0] = source[0].replace(line, make())


def setup(app: Sphinx) -> None:
    """Register what makes the reference."""
    app.connect("source-read", _make)
