"""Fuzzes the program: `fuzz.py [--seconds N] [TARGET ...]`, or `fuzz.py --replay TARGET FILE` for one input.

What fails is shrunk by Hypothesis, written to out/fuzz, and printed with the command that replays it. Put the file into
tests/fuzz/found, under the name of its target, when it is mended: the tests replay what is there.
"""

from __future__ import annotations

import argparse
import faulthandler
import random
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import hypothesis  # noqa: E402

from targets import ROOT, TARGETS, Target  # noqa: E402

OUT = ROOT / "out" / "fuzz"
# No check of one input takes as long.
_LONGEST_S = 60
_EXAMPLES = 200


class FoundError(AssertionError):
    """An input for which the program fails; the text says how to replay it."""


def replay(target: Target, text: str) -> None:
    """Check one input. Whatever comes out of it, but a refusal, comes out of this."""
    with tempfile.TemporaryDirectory(prefix="incast-") as folder, warnings.catch_warnings():
        warnings.simplefilter("error")
        target.check(text, Path(folder))


def hunt(target: Target, examples: int, *, seed: int | None, tried: Callable[[str], bool] = lambda _: True) -> None:
    """Check mutations until one fails; without a seed always the same ones.

    Raises:
        FoundError: the smallest input for which it fails, and why.

    """
    failing = OUT / f"{target.name}.{target.suffix}"

    def one(text: str) -> None:
        if not tried(text):
            return
        try:
            replay(target, text)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            # The last one that Hypothesis tries is the smallest.
            OUT.mkdir(parents=True, exist_ok=True)
            failing.write_bytes(text.encode("utf-8", "surrogatepass"))
            # Panics of the simulator are not exceptions that Hypothesis would catch.
            again = f"{Path(sys.executable)} {Path(__file__).relative_to(ROOT)} --replay {target.name} {failing}"
            raise FoundError(f"{type(error).__name__}: {error}\nreplay: {again}") from error

    settings = hypothesis.settings(
        max_examples=examples, deadline=None, database=None, derandomize=seed is None, report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck), print_blob=False,
    )  # fmt: skip
    test = settings(hypothesis.given(target.mutated(target.seeds()))(one))
    (test if seed is None else hypothesis.seed(seed)(test))()


def _hunted(target: Target, end: float, seed: int) -> int:
    """Hunt in this process, which may not survive it."""
    count, last = 0, OUT / f"{target.name}.last.{target.suffix}"
    OUT.mkdir(parents=True, exist_ok=True)

    def tried(text: str) -> bool:
        nonlocal count
        if time.time() > end:
            return False
        count += 1
        last.write_bytes(text.encode("utf-8", "surrogatepass"))
        faulthandler.dump_traceback_later(_LONGEST_S, exit=True)
        return True

    try:
        hunt(target, _EXAMPLES, seed=seed, tried=tried)
    except FoundError as found:
        print(f"{target.name}: {found}", file=sys.stderr)
        return 1
    faulthandler.cancel_dump_traceback_later()
    last.unlink(missing_ok=True)
    print(f"{target.name}: {count} inputs, no failure")
    return 0


def main() -> int:
    """Fuzz for some time, or replay one input; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600, help="how long [default: 600]")
    parser.add_argument("--replay", nargs=2, metavar=("TARGET", "FILE"), help="check one input")
    parser.add_argument("--within", nargs=3, metavar=("TARGET", "END", "SEED"), help=argparse.SUPPRESS)
    parser.add_argument("targets", nargs="*", help=f"of {', '.join(TARGETS)} [default: all]")
    asked = parser.parse_args()
    if asked.replay:
        name, file = asked.replay
        replay(TARGETS[name], Path(file).read_bytes().decode("utf-8", "surrogatepass"))
        print(f"{name}: accepted, or refused properly")
        return 0
    if asked.within:
        name, end, seed = asked.within
        return _hunted(TARGETS[name], float(end), int(seed))
    failed: set[str] = set()
    names = asked.targets or list(TARGETS)
    end = time.time() + asked.seconds
    while time.time() < end and (left := [name for name in names if name not in failed]):
        for name in left:
            if time.time() > end:
                break
            seed = random.SystemRandom().randrange(2**32)
            done = subprocess.run([sys.executable, __file__, "--within", name, str(end), str(seed)], check=False)
            if done.returncode:
                failed.add(name)
            if done.returncode not in (0, 1):
                last = OUT / f"{name}.last.{TARGETS[name].suffix}"
                print(f"{name}: ended with status {done.returncode}\nreplay: {sys.executable} "
                      f"{Path(__file__).relative_to(ROOT)} --replay {name} {last}", file=sys.stderr)  # fmt: skip
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
