"""incast: a packet-level simulator and toolbox for TCP incast.

import incast

result = incast.run("incast", set={"stack.sender": "dctcp"}, seed=7)
result.flows  # a polars frame
"""

from __future__ import annotations

# What `typing` calls so: it takes a megabyte, and `incast bench` measures memory.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from incast import analysis, requests
    from incast._native import RunError, ScenarioError
    from incast.api import Job, Result, check, examples, run, run_each, run_many, schema

__all__ = [
    "Job",
    "Result",
    "RunError",
    "ScenarioError",
    "analysis",
    "check",
    "examples",
    "requests",
    "run",
    "run_each",
    "run_many",
    "schema",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - the types are those of the imports above
    # Loaded on first use: `incast bench` measures memory, and `incast --help` should answer at once.
    if name in ("analysis", "requests"):
        import importlib

        return importlib.import_module(f"incast.{name}")
    if name in __all__:
        from incast import api

        value = getattr(api, name)
        globals()[name] = value
        return value
    if name == "__version__":
        from incast._native import version

        return version()
    raise AttributeError(f"module 'incast' has no attribute '{name}'")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
