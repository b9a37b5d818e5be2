"""A worker, in a process that ssh or a sweep starts: takes batches from its input, and writes their reports.

It ends when its input does, whatever is under way: a run is in the store completely or not at all.
"""

from __future__ import annotations

import base64
import functools
import json
import multiprocessing
import os
import pickle
import sys
import threading
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING

from incast.api import cores
from incast.studies import batches, places

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from incast.studies.batches import Report


def main() -> None:
    """Serve until the input ends."""
    # What anything prints must not be taken for a report.
    reports = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    said = threading.Lock()
    processes = int(sys.argv[1]) if len(sys.argv) > 1 else cores()

    def say(number: int, what: object) -> None:
        with said:
            print(json.dumps([number, what]), file=reports, flush=True)

    pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), follow)
    say(0, processes)
    try:
        for line in sys.stdin:
            number, written = json.loads(line)
            future = pool.submit(_carried_out, base64.b64decode(written))
            future.add_done_callback(functools.partial(_tell, number, say))
    finally:
        for child in multiprocessing.active_children():
            child.kill()
        os._exit(0)


def follow() -> None:
    """Have a process of a pool end when the one that made it does, however that ends."""
    parent = multiprocessing.parent_process()

    def end() -> None:
        if parent:
            parent.join()
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()


def _carried_out(written: bytes) -> Report:
    # It comes from whoever may log in here.
    return batches.carry_out(pickle.loads(written), threading.Event(), threads=1)  # noqa: S301


def _tell(number: int, say: Callable[[int, object], None], done: Future[Report]) -> None:
    error = done.exception()
    if error:  # one of the processes was killed; the others cannot go on without it
        print(f"incast: a process of the worker is gone: {error}", file=sys.stderr, flush=True)
        os._exit(1)
    say(number, places.packed(done.result()))


if __name__ == "__main__":
    main()
