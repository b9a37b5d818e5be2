"""Where pytest looks for fixtures. The types of one conftest.py only can be checked."""

from kernel_fixtures import attach, bottleneck, host, kernel, pytest_collection_modifyitems

__all__ = ["attach", "bottleneck", "host", "kernel", "pytest_collection_modifyitems"]
