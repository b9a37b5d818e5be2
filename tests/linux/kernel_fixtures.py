"""Fixtures of the kernel tests, and how often one that fails is run again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from slow_port import Attach, Bottleneck, Host, built, hosted, require

# A kernel is no simulator: where the machine below it stands still for some ms, a connection times out and a count is
# another. A test that fails for that reason passes when it is run again; one that fails three times has found a fault.
RERUNS = 2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = __file__.removesuffix("kernel_fixtures.py")
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.flaky(reruns=RERUNS))


@pytest.fixture(scope="module", autouse=True)
def kernel() -> None:
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
