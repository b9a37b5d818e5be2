"""Fixtures of the kernel tests, what these need, and how often one that fails is run again.

It is a plugin that the conftest.py above names: two modules of that name would be one to Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from slow_port import Attach, Bottleneck, Host, built, hosted, require

# A kernel is no simulator: where the machine below it stands still for some ms, a connection times out and a count is
# another. A test that fails for that reason passes when it is run again; one that fails three times has found a fault.
RERUNS = 2


def _is_of_the_kernel(item: pytest.Item) -> bool:
    return item.path.parent == Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in filter(_is_of_the_kernel, items):
        item.add_marker(pytest.mark.flaky(reruns=RERUNS))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if _is_of_the_kernel(item):
        require()


@pytest.fixture
def bottleneck() -> Iterator[Bottleneck]:
    with built() as bottleneck:
        yield bottleneck


@pytest.fixture
def host() -> Iterator[Host]:
    with hosted() as host:
        yield host


@pytest.fixture
def attach() -> Iterator[Attach]:
    """Return what attaches, until the test ends at the latest."""
    attach = Attach()
    yield attach
    attach.end()
