"""What the scheduler says of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["waits", "granted", "returned", "draining", "withdrawn", "budget"]


@dataclass(frozen=True, slots=True)
class Decision:
    """Something that the scheduler decided, for a hook."""

    kind: Kind
    """`waits`, `granted`, `returned` (the response is over), `draining` (it was given up and may still come),
    `withdrawn` (given up before it was sent, or cut off when the scheduler was closed), `budget` (the budget
    changed)."""
    request: int | None
    """The number of the request; `None` if the budget changed."""
    at_ns: int
    """When, by `time.monotonic_ns`."""
    cost_bytes: int | None
    """What the request costs of the budget, once that is granted."""
    budget_bytes: int | None
    """Bytes that may be under way, and what requests of servers that think hold; `None`: no limit."""
    in_use_bytes: int
    """What the granted requests cost."""
    waiting: int
    """Requests that wait."""
    why: str | None
    """Why the budget changed: `more` (it is tried, or pays), `back` (more did not pay), `less` (it is tried),
    `out-of-order` or `stall` (a cut after a loss), `free` (no limit for a while), `limited` (the limit is back)."""


@dataclass(frozen=True, slots=True)
class Status:
    """How a scheduler stands."""

    budget_bytes: int | None
    """Bytes that may be under way, and what requests of servers that think hold; `None`: no limit, or the scheduler
    does not count bytes."""
    in_use_bytes: int
    """What the granted requests cost."""
    window_bytes: int | None
    """To how much the receive windows of connections are limited: in whole steps of the kernel, and to four segments of
    the connection at least unless the plan says how large they are."""
    waiting: int
    """Requests that wait."""
    outstanding: int
    """Requests with a grant."""
    draining: int
    """Of these, those that were given up and whose response may still come."""
    asked: int
    """Requests so far."""
    completed: int
    """Of these, those whose slot was left without an error and was not abandoned."""
    failed: int
    """Of these, those that were granted and whose slot was abandoned, or left with an error, a time-out or a
    cancellation."""
    withdrawn: int
    """Of these, those that were given up while they waited, or waited when the scheduler was closed."""
    changes: dict[str, int]
    """How often the budget has changed for what reason."""
    losses_of_others: bool
    """Less has not helped against losses: they are those of others, such as long flows at the same port. A scheduler
    that learns then goes by goodput alone, and may do without a limit."""
    think_ms: float
    """How long servers are taken to think before they answer: what the plan says, or what was found out."""

    @property
    def cuts(self) -> dict[str, int]:
        """How often the budget was cut because of losses, and how they showed."""
        return {why: count for why, count in self.changes.items() if why in ("out-of-order", "stall")}
