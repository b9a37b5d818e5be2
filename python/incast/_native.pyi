"""The native module (crates/python)."""

from collections.abc import Callable
from os import PathLike
from threading import Event
from typing import Literal, TypedDict, final, type_check_only

__all__ = [
    "Result",
    "Run",
    "RunError",
    "ScenarioError",
    "Table",
    "batch_sizes",
    "bench_leaf_spine",
    "catalog",
    "check",
    "conform",
    "example",
    "examples",
    "incast_probability",
    "largest_window",
    "quantity",
    "schema",
    "slow_start_incast_probability",
    "tables_version",
    "timeout_probability",
    "version",
    "water_level",
]

@final
class Table:
    """A table that exports its columns without copying (Arrow C stream interface)."""

    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def in_parts(self, take: Callable[[Part], object]) -> None:
        """Call `take` with one part of the rows after the other, so that memory holds a part at a time."""

@final
@type_check_only
class Part:
    """Some rows of a table, which it hands over as the table does."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@type_check_only
class Checked(TypedDict):
    warnings: list[str]
    summary: str
    world: str
    packet_hops: int
    """The packet-hops if nothing is lost."""
    seconds: float
    """The time that the run takes on one core: an estimate."""
    memory_bytes: int
    """The memory that it takes at most: an estimate."""

@type_check_only
class Progress(TypedDict):
    simulated_s: float
    stop_at_s: float | None
    packet_hops: int
    share: float
    """What is done of it, by payload or by its end time; zero in a world without packets that has no end time."""
    open_ends: int
    """The most ends of connections that were open at once."""
    messages_done: int
    messages_total: int
    finished: bool

class ScenarioError(ValueError):
    """An invalid scenario; the message may have several lines."""

class RunError(RuntimeError):
    """A run of a valid scenario that failed."""

@final
class Result:
    @property
    def outcome(self) -> Literal["complete", "time-up", "interrupted"]: ...
    @staticmethod
    def tables() -> list[str]: ...
    def table(self, name: str) -> Table: ...
    def write(self, dir: str | PathLike[str]) -> list[str]: ...
    def summary_json(self) -> str: ...

@final
@type_check_only
class Told:
    """What a pilot tells of its run."""

    packet_hops: int
    memory_bytes: int
    packet_hops_of_part: int
    """Of what the pilot has run a part of."""
    times: float
    """How many times as long as that the run takes."""
    is_guess: bool
    """It saw neither all connections that are open at once nor the end."""

@final
class Run:
    @staticmethod
    def start(
        text: str,
        file: str,
        overrides: list[str],
        seed: int | None,
        world: str | None,
        stop: Event | None = None,
        spill: str | PathLike[str] | None = None,
        threads: int | None = None,
    ) -> Run: ...
    @staticmethod
    def pilot(
        text: str,
        file: str,
        overrides: list[str],
        seed: int | None,
        world: str | None,
        spill: str | PathLike[str],
    ) -> Run | None: ...
    def told(self) -> Told | None: ...
    @property
    def expected(self) -> tuple[int, int]: ...
    @property
    def threads(self) -> tuple[int, str | None] | None: ...
    def progress(self) -> Progress: ...
    def cancel(self) -> None: ...
    def wait(self, timeout_s: float) -> bool: ...
    def result(self) -> Result: ...

def check(text: str, file: str, overrides: list[str], seed: int | None, world: str | None) -> Checked: ...
def conform(text: str, folder: str) -> str: ...
def schema() -> str: ...
def catalog() -> str: ...
def example(name: str) -> str: ...
def examples() -> list[str]: ...
def version() -> str: ...
def tables_version() -> int: ...
def bench_leaf_spine(changes: list[str], driver: Literal["sweep", "event-loop"], threads: int) -> str: ...
def timeout_probability(flows: list[float], window: list[float], capacity: list[float]) -> list[float]: ...
def incast_probability(flows: list[float], window: list[float], capacity: list[float]) -> list[float]: ...
def slow_start_incast_probability(flows: list[float], capacity: list[float]) -> list[float]: ...
def largest_window(packets: list[int], initial_window: int | None) -> list[int]: ...
def batch_sizes(rows: list[tuple[int, int, int, int, int]]) -> list[tuple[float, float, int, int]]: ...
def quantity(kind: Literal["rate", "bytes", "time"], text: str) -> int: ...
def water_level(
    capacity: float, minimum_rates: list[float], elastic_flows: int
) -> tuple[float, list[float]] | None: ...
