"""`incast advise`: reads, computes, runs, and says what came out."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

import tomli_w

from incast import output
from incast.advice import closed_form, cluster, judging, page, report, simulation
from incast.studies import execution
from incast.studies.store import Store

if TYPE_CHECKING:
    from pathlib import Path


def main(file: Path, *, out: Path, json_file: Path | None, workers: int | None) -> None:
    """Advise on a cluster.

    Raises:
        ScenarioError: the file is wrong, or results cannot be written.
        KeyboardInterrupt: Ctrl-C; finished runs are kept.

    """
    described = cluster.read(file)
    form = closed_form.compute(described)
    planned = judging.plan(described, form)
    output.prepare(out)
    if json_file is not None:
        output.prepare(json_file.parent)
    print(closed_form.report(described, form), flush=True)
    store = Store(out / "runs")
    execution.run(planned.tasks(), store, workers=workers, what="advise")
    advice = judging.judge(planned, store)
    print("\n" + report.report(advice))
    (out / "today.toml").write_text(tomli_w.dumps(simulation.scenario(described)), encoding="utf-8")
    again = f"incast advise {shlex.quote(str(file))}"
    (out / "index.html").write_text(page.build(advice, again, file.read_text(encoding="utf-8")), encoding="utf-8")
    if json_file is not None:
        json_file.write_text(json.dumps(judging.as_json(advice), indent=2) + "\n", encoding="utf-8")
    print(f"\n{out / 'index.html'}: the same as a page; today.toml beside it is the scenario ({advice.runs:,} runs)")
