"""How commands end before their work is done, by one rule.

Ctrl-C (SIGINT), SIGTERM, which schedulers of jobs send, and SIGHUP end any command within a second with one message.
What is done is kept. The exit code is 128 and the number of the signal, as shells count: 130, 143, 129.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")


class Ended(KeyboardInterrupt):
    """A signal asks the program to end. Whoever handles Ctrl-C handles it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def listen() -> None:
    """Have the signals raise `Ended`, but for those that whoever started the program has it ignore, as `nohup` does."""
    for name in _NAMES:
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)


def _end(number: int, _frame: FrameType | None) -> None:
    raise Ended(number)


def reason(error: BaseException) -> str:
    """Say why a command ended: the signal, or the error."""
    if not isinstance(error, KeyboardInterrupt):
        return str(error)
    number = _number(error)
    return "interrupted" if number == signal.SIGINT else f"interrupted by {signal.Signals(number).name}"


def code(error: BaseException) -> int:
    """Return the exit code of a command that ended so."""
    return 128 + _number(error) if isinstance(error, KeyboardInterrupt) else 1


def _number(error: KeyboardInterrupt) -> int:
    return error.number if isinstance(error, Ended) else int(signal.SIGINT)
