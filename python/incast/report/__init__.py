"""What happened inside a run: in words, as a page, and as traces for other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def write(
    directories: Sequence[Path], out: Path, *, port: str | None = None, labels: Sequence[str] | None = None
) -> Path:
    """Write the report of one run, or of two on one axis, and return the file.

    Raises:
        ScenarioError: the tables are not there or do not hold what is needed, or the file cannot be written.

    """
    # What draws takes long to load.
    from incast import output
    from incast.report import page
    from incast.report.recorded import Recorded

    runs = [Recorded.read(directory, outline=True) for directory in directories]
    return output.save(out, page.build(runs, port=port, labels=labels))
