"""The command `incast`. Exit codes: 0 success, 1 the run failed, 2 bad input, more than 128 ended by a signal."""

from __future__ import annotations

import contextlib
import os
import sys

from incast import ends, streams

DONE, FAILED, BAD_INPUT = 0, 1, 2


def main() -> None:
    """Run the command line and exit."""
    try:
        ends.listen()
        streams.prepare()
        code = invoke(sys.argv[1:])
    except KeyboardInterrupt as end:  # while the program was being loaded, or an error was being said
        code = _say(ends.reason(end), ends.code(end))
    sys.exit(code)


def invoke(arguments: list[str]) -> int:
    """Run one command and return its exit code; expected failures print one message on stderr."""
    from cyclopts import CycloptsError

    from incast._native import RunError, ScenarioError
    from incast.cli import app

    try:
        code = app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except CycloptsError as error:
        command = " ".join(("incast", *(error.command_chain or ())))
        return _say(f"{error} (see {command} --help)", BAD_INPUT)
    except ScenarioError as error:
        from incast import carets

        return _say(carets.shown(str(error)), BAD_INPUT)
    except RunError as error:
        return _say(str(error), FAILED)
    except BrokenPipeError:
        # The reader of our output has seen enough; nothing more can or need be told to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        return _say(str(error), FAILED)
    except KeyboardInterrupt as end:
        return _say(ends.reason(end), ends.code(end))
    return code if isinstance(code, int) else DONE


def _say(message: str, code: int) -> int:
    with contextlib.suppress(BrokenPipeError):  # nobody reads it
        print(f"incast: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
