"""The Python package: frames, determinism, many runs at once."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import incast
from conftest import ENDLESS, SMALL
from incast import overview, scenarios

ROOT = Path(__file__).parents[1]


def written(result: incast.Result, directory: Path) -> dict[str, bytes]:
    """Return the bytes of all files of a result."""
    return {path.name: path.read_bytes() for path in result.write(directory)}


def test_tables_do_not_depend_on_the_number_of_threads(tmp_path: Path) -> None:
    few = {"traffic.background.until": "4ms", "traffic.queries.repetitions": 2, "traffic.shuffle.flows": 4}
    one, two, four = (
        written(incast.run("poisson", set=few, threads=threads), tmp_path / str(threads)) for threads in (1, 2, 4)
    )
    assert one == two == four


def test_threads_that_a_run_cannot_use_are_explained(small: Path) -> None:
    with pytest.warns(UserWarning, match="on 1 thread and not on 2: all hosts are at one switch"):
        incast.run(small, threads=2)
    with pytest.raises(incast.ScenarioError, match="0 threads: there must be 1 or more"):
        incast.run(small, threads=0)


def test_tables_are_polars_frames_with_units_in_their_names(small: Path) -> None:
    result = incast.run(small)
    assert result.outcome == "complete"
    for frame in (result.flows, result.ports, result.queues, result.windows, result.events, result.summary):
        assert isinstance(frame, pl.DataFrame)
        assert frame.height > 0
    assert result.flows.height == 16
    assert {"fct_s", "size_bytes", "slowdown"} <= set(result.flows.columns)
    assert result.flows is result.flows


def test_tables_go_to_pandas_and_arrow(small: Path) -> None:
    result = incast.run(small)
    assert isinstance(result.to_arrow("flows"), pa.Table)
    frame = result.to_pandas("flows")
    assert isinstance(frame, pd.DataFrame)
    assert frame["fct_s"].tolist() == result.flows["fct_s"].to_list()
    with pytest.raises(KeyError, match="summary"):
        result.table("nothing")


def test_only_tables_of_arrow_and_pandas_need_pyarrow(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    result = incast.run(small)
    assert result.flows.height == 16
    for needs in (result.to_arrow, result.to_pandas):
        with pytest.raises(ImportError, match=r"need pyarrow: pip install 'incast\[arrow\]'"):
            needs("flows")


def test_a_file_its_path_and_its_keys_as_a_dictionary_are_the_same_run(small: Path, tmp_path: Path) -> None:
    runs = [incast.run(small), incast.run(str(small)), incast.run(tomllib.loads(SMALL))]
    first, *others = [written(run, tmp_path / str(i)) for i, run in enumerate(runs)]
    assert all(other == first for other in others)


def test_changes_are_a_mapping_or_what_the_command_line_takes(small: Path) -> None:
    by_mapping = incast.run(small, set={"traffic.burst.workers": 3, "stack.sender": "newreno"})
    by_text = incast.run(small, set=["traffic.burst.workers=3", "stack.sender=newreno"])
    assert by_mapping.flows.equals(by_text.flows)
    marker = {"name": "ecn-threshold", "threshold": "5packets"}
    assert incast.run(small, set={"switch.marker": marker, "stack.sender": "dctcp"}).summary_dict["ce_marks"] > 0


def test_numbers_and_arrays_of_numpy_are_numbers_and_lists(small: Path) -> None:
    buffer = {"name": "static", "limit": "20packets", "count_in_service": True}
    plain = {"traffic.burst.workers": 5, "switch.buffer": buffer, "traffic.burst.rounds": 1}
    alike = {
        "traffic.burst.workers": np.int64(5),
        "switch.buffer": {**buffer, "count_in_service": np.bool_(buffer["count_in_service"])},
        "traffic.burst.rounds": np.array(1),
    }
    assert scenarios.overrides(alike) == scenarios.overrides(plain)
    assert scenarios.overrides({"x": np.float64(0.1), "y": np.arange(3), "z": np.float32(0.5)}) == [
        "x=0.1", "y=[0, 1, 2]", "z=0.5",
    ]  # fmt: skip
    seed: Any = np.int64(7)
    assert incast.run(small, set=alike, seed=seed).summary_dict == incast.run(small, set=plain, seed=7).summary_dict
    keys = tomllib.loads(small.read_text(encoding="utf-8"))
    keys["traffic"]["burst"]["workers"] = np.int64(5)
    assert incast.run(keys, seed=7).summary_dict["flows"] == 10


def test_what_is_imported_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    # Extras are imported where they are asked for.
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    declared = {"incast"} | {re.split(r"[^\w-]", one)[0].replace("-", "_") for one in wanted}
    imported = set()
    for file in (ROOT / "python" / "incast").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                imported.add(node.module.split(".")[0])
    assert {name.lower() for name in imported} - declared - sys.stdlib_module_names == set()


def test_a_wrong_scenario_is_a_value_error_that_names_the_key(small: Path) -> None:
    with pytest.raises(incast.ScenarioError, match="workers") as caught:
        incast.run(small, set={"traffic.burst.workers": 0})
    assert isinstance(caught.value, ValueError)
    with pytest.raises(incast.ScenarioError, match="no such file"):
        incast.check("nowhere")
    with pytest.raises(incast.ScenarioError, match="TOML"):
        incast.run({"name": None})
    assert incast.check(small) == []


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(small: Path, tmp_path: Path) -> None:
    one, two, other = (written(incast.run(small, seed=seed), tmp_path / str(i)) for i, seed in enumerate((3, 3, 4)))
    assert one == two
    assert one["flows.parquet"] != other["flows.parquet"]


def test_the_number_of_workers_changes_nothing(small: Path, tmp_path: Path) -> None:
    marker = {"name": "ecn-threshold", "threshold": "5packets"}
    cases = [(n, sender, seed) for n in (1, 3, 8) for sender in ("newreno", "dctcp") for seed in (1, 2)]
    jobs: list[incast.Job] = [
        (small, {"traffic.burst.workers": n, "stack.sender": sender, "switch.marker": marker}, seed)
        for n, sender, seed in cases
    ]
    by_one = incast.run_many(jobs, workers=1)
    by_two = incast.run_many(jobs, workers=2)
    assert len(by_one) == len(by_two) == len(jobs)
    for i, (a, b) in enumerate(zip(by_one, by_two, strict=True)):
        assert written(a, tmp_path / f"a{i}") == written(b, tmp_path / f"b{i}")
        assert a.flows.height == 2 * cases[i][0]


def test_results_of_endless_jobs_come_one_after_the_other(small: Path) -> None:
    taken = []

    def jobs() -> Iterator[incast.Job]:
        for seed in count():
            taken.append(seed)
            yield small, {}, seed

    results = incast.run_each(jobs(), workers=2)
    for seed in range(3):
        assert next(results).summary_dict["seed"] == seed
    # Two runs per worker are ahead, and no more.
    assert len(taken) == 2 + 2 * 2
    results.close()
    with pytest.raises(StopIteration):
        next(results)


def test_a_notebook_shows_the_summary_and_figures_of_a_result(small: Path) -> None:
    result = incast.run(small, set={"record.queue_series": ["all"], "record.window_series": []})
    shown = result._repr_html_()
    for cell in overview.rows(result.summary_dict)[0]:
        assert f"<td>{cell}</td>" in shown
    assert all(name in shown for name in result.tables())
    drawn = [result.plot.queues(), result.plot.completion_times()]
    assert [figure.axes[0].get_xlabel().split(" ")[0] for figure in drawn] == ["time", "completion"]
    with pytest.raises(incast.ScenarioError, match=r"record\.window_series"):
        result.plot.windows()


def test_the_notebook_of_the_tutorial_runs_and_shows_what_its_words_say(tmp_path: Path) -> None:
    notebook: Any = nbformat.read(ROOT / "docs" / "tutorial" / "notebook.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in cells), "outputs are made, not kept"
    nbclient.NotebookClient(notebook, timeout=60, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in cells for output in cell.outputs]
    assert not [output.text for output in outputs if output.get("name") == "stderr"]
    pictures = [output for output in outputs if "image/png" in output.get("data", {})]
    tables = [output for output in outputs if "<table" in output.get("data", {}).get("text/html", "")]
    assert (len(pictures), len(tables)) == (3, 5)
    assert (tmp_path / "collapse.html").stat().st_size > 10_000
    said = "".join(output.get("text", "") for output in outputs)
    assert 'did you mean "dctcp"?' in said
    # What the sentences between the cells say.
    result = incast.run("incast", set={"traffic.requests.workers": 40, "traffic.requests.rounds": 5}, seed=1)
    assert result.summary_dict["goodput_total_bps"] < 0.05e9
    assert result.flows.filter(pl.col("timeouts") > 0).height > result.flows.height / 2
    cured = incast.run("incast", set=["traffic.requests.workers=40", "stack.sender=dctcp"], seed=1)
    assert cured.summary_dict["timeouts"] == 0


def test_one_wrong_job_among_many_is_told_and_stops_the_others(small: Path) -> None:
    endless = tomllib.loads(ENDLESS)
    del endless["record"]
    with pytest.raises(incast.ScenarioError, match="workers"):
        incast.run_many([(small, {"traffic.burst.workers": 0}, 1), (endless, None, 1)], workers=2)


def test_the_module_lists_what_it_has() -> None:
    assert {"run", "run_many", "check", "schema", "Result", "ScenarioError", "RunError"} <= set(dir(incast))
    with pytest.raises(AttributeError, match="walk"):
        incast.walk  # noqa: B018


def test_the_stubs_say_what_the_native_module_has() -> None:
    command = [sys.executable, "-m", "mypy.stubtest", "incast._native"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
