"""`incast advise`: reads, computes, runs, and says what came out."""

from __future__ import annotations

import json
import shlex
import sys
from typing import TYPE_CHECKING

import tomli_w

from incast import ends, output
from incast._native import RunError
from incast.advice import closed_form, cluster, judging, page, report, simulation
from incast.studies import execution
from incast.studies.store import Store

if TYPE_CHECKING:
    from pathlib import Path

    from incast.advice.cluster import Cluster
    from incast.advice.judging import Advice


def advise(described: Cluster, store: Store, *, workers: int | None = None) -> Advice:
    """Run what the store lacks, with progress on stderr, and judge it.

    Raises:
        RunError: a run failed.
        KeyboardInterrupt: Ctrl-C; finished runs are kept.

    """
    planned = judging.plan(described, closed_form.compute(described))
    execution.run(planned.tasks(), store, workers=workers, what="advise")
    return judging.judge(planned, store)


def main(file: Path, *, out: Path, json_file: Path | None, workers: int | None) -> int:
    """Advise on a cluster, and return the exit code.

    Raises:
        ScenarioError: the file is wrong, or results cannot be written.

    """
    described = cluster.read(file)
    output.prepare(out)
    if json_file is not None:
        output.prepare(json_file.parent)
    only_json = json_file == output.STDOUT
    if not only_json:
        print(closed_form.report(described, closed_form.compute(described)), flush=True)
    try:
        advice = advise(described, Store(out / "runs"), workers=workers)
    except (KeyboardInterrupt, RunError, OSError) as error:
        print(
            f"incast: {ends.reason(error)}; finished runs are kept: run the same command again to resume",
            file=sys.stderr,
        )
        return ends.code(error)
    if not only_json:
        print("\n" + report.report(advice))
    (out / "today.toml").write_text(tomli_w.dumps(simulation.scenario(described)), encoding="utf-8")
    again = f"incast advise {shlex.quote(str(file))}"
    (out / "index.html").write_text(page.build(advice, again, file.read_text(encoding="utf-8")), encoding="utf-8")
    written = json.dumps(judging.as_json(advice), indent=2)
    if only_json:
        print(written)
        return 0
    if json_file is not None:
        json_file.write_text(written + "\n", encoding="utf-8")
    print(f"\n{out / 'index.html'}: the same as a page; today.toml beside it is the scenario ({advice.runs:,} runs)")
    return 0
