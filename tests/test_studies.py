"""The committed tables of studies are what the program gives: samples are computed anew."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

STUDIES = Path(__file__).parents[1] / "studies"


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def test_a_burst_at_shared_memory_is_taken_as_the_table_says() -> None:
    study = load(STUDIES / "shared-buffer" / "tolerance.py")
    table = study.read()
    assert len(table) == len(study.points())
    for point in (study.Point("newreno", 0, 0.5), study.Point("dctcp", 1, 0.25)):
        assert point.is_taken(table[point])
        assert not point.is_taken(table[point] + 1)
