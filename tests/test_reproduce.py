"""Sweeps that resume and papers that are reproduced, with a study small enough to run at once."""

from __future__ import annotations

import csv
import json
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from conftest import Command, command_in, small_paper
from incast import api
from incast.studies import cost, execution, page_charts, plan, reading, sample, sweep, table
from incast.studies.claims import RECORD
from incast.studies.store import Store

RUNS = 2 * 3 * 3


@pytest.fixture
def paper(tmp_path: Path) -> Path:
    return small_paper(tmp_path)


@pytest.fixture(scope="module")
def computed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory in which the tables of a paper have been computed."""
    folder = tmp_path_factory.mktemp("computed")
    small_paper(folder)
    done = command_in(folder)("reproduce", "paper", "--update")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def kept(tmp_path: Path, computed: Path) -> Path:
    """Return a paper whose tables have been computed, in the directory of the command."""
    shutil.copytree(computed, tmp_path, dirs_exist_ok=True)
    return tmp_path / "studies" / "paper"


def contents(directory: Path) -> dict[str, bytes]:
    return {str(file.relative_to(directory)): file.read_bytes() for file in directory.rglob("*") if file.is_file()}


def runs(directory: Path) -> dict[str, float]:
    """Return every finished run and when it was finished."""
    return {entry.name: entry.stat().st_ctime_ns for entry in (directory / "runs").glob("??/*")}


def test_a_sweep_writes_one_row_per_run_and_computes_nothing_twice(
    incast: Command, paper: Path, tmp_path: Path
) -> None:
    done = incast("sweep", paper / "figure-1.toml")
    assert done.returncode == 0, done.stderr
    first, *rows = (tmp_path / "out" / "figure-1.csv").read_text(encoding="utf-8").splitlines()
    assert re.fullmatch(r"# incast [\d.]+: 18 runs, [\d,]+ packet-hops", first)
    read = list(csv.DictReader(rows))
    assert len(read) == RUNS
    assert [row["seed"] for row in read[:4]] == ["1", "2", "3", "1"]
    assert all(0 < float(row["goodput"]) < 1000 for row in read)
    before = runs(tmp_path / "out")
    assert len(before) == RUNS
    again = incast("sweep", paper / "figure-1.toml")
    assert "0 runs computed; 18 of 18" in again.stderr
    assert runs(tmp_path / "out") == before


def test_a_scaled_down_study_runs_in_full_size_and_its_saved_table_stays(
    incast: Command, kept: Path, tmp_path: Path
) -> None:
    study = kept / "figure-1.toml"
    full = 'full = { seeds = 4, set = { "tcp.initial_window" = 2 } }\n'
    study.write_text(full + study.read_text(encoding="utf-8"), encoding="utf-8")
    saved = contents(kept)
    done = incast("reproduce", "paper", "--figure", "figure-1", "--full", "--no-report")
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader((tmp_path / "out/paper/figure-1.csv").read_text(encoding="utf-8").splitlines()[1:]))
    assert {row["seed"] for row in rows} == {"1", "2", "3", "4"}
    small = {tuple(row.values()) for row in csv.DictReader(saved["figure-1.csv"].decode().splitlines()[1:])}
    assert not any(tuple(row.values()) in small for row in rows if row["curve"] == "newreno")
    assert contents(kept) == saved


@pytest.mark.usefixtures("kept")
def test_what_has_no_full_size_and_what_it_would_overwrite_are_named(incast: Command) -> None:
    done = incast("reproduce", "paper", "--figure", "figure-1", "--full")
    assert (done.returncode, done.stderr) == (2, "incast: --full: no study here has a table [full]: figure-1\n")
    done = incast("reproduce", "paper", "--full", "--update")
    assert done.returncode == 2
    assert "--full: the saved tables are of another size" in done.stderr
    done = incast("reproduce", "paper", "--keep-linux")
    assert (done.returncode, done.stderr) == (2, "incast: --keep-linux: no effect without --update\n")


def test_numbers_are_those_of_single_runs(incast: Command, paper: Path, tmp_path: Path) -> None:
    incast("sweep", paper / "figure-1.toml")
    rows = list(csv.DictReader((tmp_path / "out" / "figure-1.csv").read_text(encoding="utf-8").splitlines()[1:]))
    row = next(row for row in rows if (row["curve"], row["workers"], row["seed"]) == ("dctcp", "8", "2"))
    single = incast(
        "run", paper / "scenarios" / "small.toml", "--json", "--seed", "2", "--set", "traffic.burst.workers=8",
        "--set", "tcp.initial_window=4", "--set", 'stack.sender={ name = "dctcp", initial_alpha = 0 }',
    )  # fmt: skip
    summary = json.loads(single.stdout)
    assert float(row["goodput"]) == summary["goodput_total_bps"] / 1e6
    assert int(row["drops"]) == summary["drops"]
    assert int(row["packet_hops"]) == summary["packet_hops"]


def test_a_sweep_killed_at_any_moment_resumes_to_the_same_bytes(incast: Command, paper: Path, tmp_path: Path) -> None:
    # Longer runs, so that most kills meet some of them.
    scenario = paper / "scenarios" / "small.toml"
    scenario.write_text(scenario.read_text(encoding="utf-8").replace("rounds = 2", "rounds = 400"), encoding="utf-8")
    study = paper / "figure-1.toml"
    whole = incast("sweep", study, "--out", "whole")
    assert whole.returncode == 0, whole.stderr
    draw, kept_before, met = random.Random(7), dict[str, float](), 0  # noqa: S311
    for _ in range(12):
        process = subprocess.Popen(
            [sys.executable, "-m", "incast", "sweep", str(study), "--out", "killed"],
            cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        wanted = len(kept_before) + draw.randint(0, 2)
        pause = draw.random() * 0.05
        while process.poll() is None and len(runs(tmp_path / "killed")) < wanted:
            time.sleep(0.002)
        time.sleep(pause)
        process.send_signal(signal.SIGKILL)
        met += process.wait() == -signal.SIGKILL
        now = runs(tmp_path / "killed")
        # What was finished is not touched again.
        assert now.items() >= kept_before.items()
        kept_before = now
    assert met, "every sweep was over before it could be killed"
    done = incast("sweep", study, "--out", "killed")
    assert done.returncode == 0, done.stderr
    assert f"{RUNS - len(kept_before)} runs computed; 18 of 18" in done.stderr
    assert runs(tmp_path / "killed").items() >= kept_before.items()
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


def test_shards_in_any_order_and_at_once_are_the_runs_of_an_undisturbed_sweep(
    incast: Command, paper: Path, tmp_path: Path
) -> None:
    study = paper / "figure-1.toml"
    incast("sweep", study, "--out", "whole")
    begun = [
        subprocess.Popen(
            [sys.executable, "-m", "incast", "sweep", study, "--out", "shards", "--shard", shard],
            cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        for shard in ("4/4", "2/4")
    ]  # fmt: skip
    said = [process.communicate(timeout=60)[1] for process in begun]
    for shard in ("3/4", "1/4"):
        done = incast("sweep", study, "--out", "shards", "--shard", shard)
        said.append(done.stderr)
        assert not (tmp_path / "shards" / "figure-1.csv").exists()
    counts = [int(lines.splitlines()[-1].split()[0]) for lines in said]
    assert sum(counts) == RUNS, said
    assert max(counts) - min(counts) <= 4, said
    done = incast("sweep", study, "--out", "shards")
    assert "0 runs computed; 18 of 18" in done.stderr
    assert contents(tmp_path / "shards") == contents(tmp_path / "whole")


def test_shards_are_balanced_by_what_their_runs_take_and_have_each_run_once(paper: Path) -> None:
    study = reading.read(paper / "figure-1.toml")
    rows = plan.rows(study)
    tasks = execution.distinct(plan.runs(rows))
    seconds = {task.key: 1.0 + number % 7 for number, task in enumerate(tasks)}
    for parts in (1, 2, 5, RUNS, 1_000_000_000):
        shares = sweep.split(tasks, seconds, parts)
        assert sorted(task.key for share in shares for task in share) == sorted(seconds)
        assert shares == sweep.split(tasks[::-1], seconds, parts)
        sums = [sum(seconds[task.key] for task in share) for share in shares]
        assert max(sums) - min(sums) <= max(seconds.values())
    # What takes longest is weighed by the plans of the runs: those with more workers take longer.
    planned = cost.by_run(study, rows, plan.check(study))
    assert planned[rows[0].task.key] < planned[rows[2 * study.seeds].task.key]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("number", "code", "why"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "interrupted by SIGTERM"),
        (signal.SIGHUP, 129, "interrupted by SIGHUP"),
    ],
)
def test_a_sweep_that_is_ended_early_keeps_what_is_finished(
    number: signal.Signals, code: int, why: str, paper: Path, tmp_path: Path
) -> None:
    scenario = paper / "scenarios" / "small.toml"
    scenario.write_text(scenario.read_text(encoding="utf-8").replace("rounds = 2", "rounds = 4000"), encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "incast", "sweep", str(paper / "figure-1.toml")],
        cwd=tmp_path, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while process.poll() is None and not runs(tmp_path / "out"):
        time.sleep(0.01)
    process.send_signal(number)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == code, said
    assert "Traceback" not in said
    assert f"{why}; {len(runs(tmp_path / 'out'))} of 18 runs are kept" in said
    assert not (tmp_path / "out" / "figure-1.csv").exists()


def test_a_change_of_the_scenario_or_of_a_file_it_names_makes_other_runs(
    incast: Command, paper: Path, tmp_path: Path
) -> None:
    incast("sweep", paper / "figure-1.toml")
    scenario = paper / "scenarios" / "small.toml"
    scenario.write_text(scenario.read_text(encoding="utf-8").replace('"25us"', '"26us"'), encoding="utf-8")
    assert "18 runs computed" in incast("sweep", paper / "figure-1.toml").stderr
    # A comment changes nothing.
    scenario.write_text("# new\n" + scenario.read_text(encoding="utf-8"), encoding="utf-8")
    assert "0 runs computed" in incast("sweep", paper / "figure-1.toml").stderr
    assert len(runs(tmp_path / "out")) == 2 * RUNS


def test_the_cost_is_said_before_anything_is_run(incast: Command, paper: Path, tmp_path: Path) -> None:
    for command in (["sweep", str(paper / "figure-1.toml")], ["reproduce", "paper"]):
        done = incast(*command, "--dry-run")
        assert done.returncode == 0, done.stderr
        takes = r"[\d.]+ million packet-hops, up to \d+ MB of memory each, \d+ s of one core \(estimated\)"
        assert re.search(rf"figure-1: 18 runs, {takes}", done.stdout)
    assert not (tmp_path / "out").exists()


def test_the_memory_of_a_study_is_that_of_its_largest_run(incast: Command, paper: Path) -> None:
    study = reading.read(paper / "figure-1.toml")
    each = [point["memory_bytes"] for point in plan.check(study)]
    assert min(each) < max(each)
    told = json.loads(incast("sweep", paper / "figure-1.toml", "--dry-run", "--json").stdout)
    assert told["cost"]["memory_bytes"] == max(each)
    one, other = (cost.Cost(1, 1, 1.0, memory, was_measured=False) for memory in (2_000_000, None))
    assert cost.total([one, other]).memory_bytes == 2_000_000
    # Nobody has asked the plans.
    assert "memory" not in other.line()


def test_a_dry_run_says_how_many_runs_are_done_already(incast: Command, paper: Path, tmp_path: Path) -> None:
    def dry() -> str:
        return incast("reproduce", "paper", "--dry-run", "--json", "cost.json").stdout

    assert "done already" not in dry()
    incast("sweep", paper / "figure-1.toml", "--shard", "1/3", "--out", tmp_path / "out" / "paper")
    assert "; 6 of them done already\n" in dry()
    (study, *_) = json.loads((tmp_path / "cost.json").read_text(encoding="utf-8"))["studies"]
    assert (study["study"], study["runs"], study["done"], study["was_measured"]) == ("figure-1", 18, 6, False)


def test_a_percentile_of_all_seeds_is_that_of_the_messages_of_its_runs(
    incast: Command, paper: Path, tmp_path: Path
) -> None:
    figure = paper / "figure-1.toml"
    panel = """[[panels]]
kind = "percentile"
title = "Slow"
x = "workers"
sql = "SELECT fct_s * 1e6 FROM flows"
percentile = 90
unit = "us"

[[claims]]"""
    figure.write_text(figure.read_text(encoding="utf-8").replace("[[claims]]", panel, 1), encoding="utf-8")
    assert incast("reproduce", "paper", "--update").returncode == 0
    page = (tmp_path / "out" / "paper" / "report.html").read_text(encoding="utf-8")
    assert "Lines are p90 of all values of 3 seeds together, bands are 95 % bootstrap intervals over seeds." in page
    changes = {"tcp.initial_window": 4, "stack.sender": "newreno", "traffic.burst.workers": 8}
    runs = [api.run(paper / "scenarios" / "small.toml", set=changes, seed=seed) for seed in (1, 2, 3)]
    times = np.concatenate([run.flows["fct_s"].to_numpy() for run in runs]) * 1e6
    said = page_charts.quantity(float(np.quantile(times, 0.9, method="inverted_cdf")))
    slow = page[page.index("<h3>Slow</h3>") :]
    assert re.search(rf'data-at="workers: 8" data-said="{re.escape(said)}[ "]', slow)
    # The saved table has no messages: their runs are computed again.
    shutil.rmtree(tmp_path / "out")
    assert incast("reproduce", "paper", "--quick").returncode == 0
    assert (tmp_path / "out" / "paper" / "report.html").read_text(encoding="utf-8").count(said) == page.count(said)


def test_slowdowns_over_sizes_are_those_of_the_messages_of_all_seeds(
    incast: Command, paper: Path, tmp_path: Path
) -> None:
    figure = paper / "figure-1.toml"
    # Sizes that differ, among which one is as frequent as all in a bin.
    panel = """[[panels]]
kind = "slowdown"
percentile = 90
bins = 4
at = { workers = 8 }
sql = "SELECT CASE WHEN id % 3 = 0 THEN 500 ELSE 1000 + connection * 100 + id END, slowdown FROM flows"

[[claims]]"""
    figure.write_text(figure.read_text(encoding="utf-8").replace("[[claims]]", panel, 1), encoding="utf-8")
    assert incast("reproduce", "paper", "--update").returncode == 0
    page = (tmp_path / "out" / "paper" / "report.html").read_text(encoding="utf-8")
    slow = page[page.index("<h3>p90 of the slowdown</h3>") :]
    changes = {"tcp.initial_window": 4, "stack.sender": "newreno", "traffic.burst.workers": 8}
    runs = [api.run(paper / "scenarios" / "small.toml", set=changes, seed=seed).flows for seed in (1, 2, 3)]
    sizes = np.concatenate(
        [np.where(run["id"].to_numpy() % 3 == 0, 500, 1000 + run["connection"].to_numpy() * 100 + run["id"].to_numpy())
         for run in runs]
    )  # fmt: skip
    slowdowns = np.concatenate([run["slowdown"].to_numpy() for run in runs])
    ends = sorted(set(np.quantile(sizes, [0.25, 0.5, 0.75, 1], method="inverted_cdf")))
    assert ends[0] == 500
    said = re.findall(r'data-at="size of the message \(bytes\): ([\d,]+)" data-said="([\d.]+)', slow)
    for low, high, (at, value) in zip([0, *ends], ends, said, strict=False):
        within = slowdowns[(sizes > low) & (sizes <= high)]
        assert at == page_charts.quantity(float(high))
        assert value == page_charts.quantity(float(np.quantile(within, 0.9, method="inverted_cdf")))
    assert len(said) == 2 * len(ends), "both curves"
    assert f"Points are p90 of all values of 3 seeds together, in {len(ends)} bins of sizes with " in slow


def test_the_estimate_of_packet_hops_is_what_a_run_without_loss_has(
    incast: Command, paper: Path, tmp_path: Path
) -> None:
    from incast import scenarios

    incast("sweep", paper / "figure-1.toml")
    rows = list(csv.DictReader((tmp_path / "out" / "figure-1.csv").read_text(encoding="utf-8").splitlines()[1:]))
    hops = {int(row["packet_hops"]) for row in rows if row["curve"] == "tcp" and row["workers"] == "2"}
    source = scenarios.read(paper / "scenarios" / "small.toml")
    estimated = scenarios.check(source, ["traffic.burst.workers=2"], None)["packet_hops"]
    assert all(0.8 * estimated < found < 1.2 * estimated for found in hops)


def test_a_reproduction_writes_figures_report_and_claims(incast: Command, paper: Path, tmp_path: Path) -> None:
    done = incast("reproduce", "paper", "--update", "--json", "claims.json")
    assert done.returncode == 0, done.stderr
    out = tmp_path / "out" / "paper"
    assert (out / "figure-1.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "figure-1.pdf").read_bytes().startswith(b"%PDF")
    page = (out / "report.html").read_text(encoding="utf-8")
    assert page.count('class="chart"') == 2
    assert "Goodput &lt;of all&gt;" in page
    assert not re.search(r'(?:src|href)="(?!#|data:)', page)
    assert "1 to 3, the same everywhere" in page
    found = json.loads((tmp_path / "claims.json").read_text(encoding="utf-8"))
    assert found["paper"] == "paper"
    assert [claim["id"] for claim in found["claims"]] == ["T01", "T02"]
    first, second = found["claims"]
    assert set(first) == {"id", "text", "paper_value", "measured", "low", "high", "met", "verdict", "why", "badge",
                          "unmatched", "otherwise", "sign", "size", "share", "flips", "closed"}  # fmt: skip
    assert first["verdict"] == "holds"
    assert first["low"] <= first["measured"] <= first["high"]
    assert second["paper_value"] == "fewer"
    assert second["why"] == ("" if second["verdict"] == "holds" else "The buffer is small.")
    kept = (paper / RECORD).read_text(encoding="utf-8").splitlines()
    assert kept[0] == "id,verdict,measured,low,high"
    assert kept[1].startswith("T01,holds,")
    assert re.match(
        r"# incast [\d.]+: 18 runs, [\d,]+ packet-hops, [\d.]+ CPU minutes\n", (paper / "figure-1.csv").read_text()
    )


def test_a_page_says_what_was_calibrated_and_which_explanations_are_measured(
    incast: Command, paper: Path, tmp_path: Path
) -> None:
    study = paper / "figure-1.toml"
    text = study.read_text(encoding="utf-8").replace("[[claims]]", "[[baselines]]", 1).replace("T02", "C7b")
    text = text.replace("within = 100", "at_least = 100").replace("at_most = 0", 'at_most = -1e9\nbaselines = ["T01"]')
    text = text.replace("why =", 'shown_by = ["figure-1"]\nwhy =')
    text += text[text.index("[[claims]]") :].replace("C7b", "C7a").replace("drops <", "drops >")
    study.write_text(text, encoding="utf-8")
    done = incast("reproduce", "paper", "--update")
    assert done.returncode == 0, done.stderr
    assert "baseline  verdict" in done.stdout
    assert "1 claim, 2 atoms: baseline not matched: 2" in done.stdout
    page = (tmp_path / "out" / "paper" / "report.html").read_text(encoding="utf-8")
    assert page.index("Baselines: what was calibrated") < page.index('<tr id="T01">') < page.index('<h2 id="claims">')
    # Atoms stand together.
    (group,) = re.findall(r'<tbody>(<tr id="C7a">.*?)</tbody>', page, re.DOTALL)
    assert group.index('"C7a"') < group.index('"C7b"')
    said = 'Does not match the paper: <a href="#T01">T01</a>. Otherwise the verdict would be: does not hold.'
    assert group.count(said) == 2
    assert (
        group.count('<span class="badge">measured: <a href="#figure-1">figure-1</a></span> The buffer is small.') == 2
    )
    assert "T01,direction," in (paper / RECORD).read_text(encoding="utf-8")


def test_pictures_and_pages_are_the_same_every_time(incast: Command, kept: Path, tmp_path: Path) -> None:
    for out in ("one", "two"):
        assert incast("reproduce", "paper", "--quick", "--out", out).returncode == 0
    for name in ("report.html", "figure-1.png", "figure-1.pdf"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert kept.is_dir()


def test_a_quick_look_finds_a_number_that_is_no_longer_given_and_update_renews_it(incast: Command, kept: Path) -> None:
    file = kept / "figure-1.csv"
    right = file.read_text(encoding="utf-8")
    assert incast("reproduce", "paper", "--quick", "--check").returncode == 0
    lines = right.splitlines()
    cells = lines[2].split(",")
    lines[2] = ",".join([*cells[:-2], "1.5", cells[-1]])
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = incast("reproduce", "paper", "--quick")
    assert done.returncode == 1
    assert (
        f"figure-1.csv:3: goodput (curve tcp, workers 2, seed 1): the table has 1.5, this program computes {cells[-2]}"
        in done.stderr
    )
    assert "--update" in done.stderr
    renewed = incast("reproduce", "paper", "--quick", "--update")
    assert renewed.returncode == 0, renewed.stderr
    assert file.read_text(encoding="utf-8").splitlines()[1:] == right.splitlines()[1:]
    assert incast("reproduce", "paper", "--quick", "--check").returncode == 0


def test_a_full_reproduction_compares_every_row(incast: Command, kept: Path) -> None:
    file = kept / "figure-1.csv"
    lines = file.read_text(encoding="utf-8").splitlines()
    for number in (3, 8, 19):
        lines[number] = lines[number].rsplit(",", 1)[0] + ",12345"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = incast("reproduce", "paper")
    assert done.returncode == 1
    assert done.stderr.count("the table has 12345") == 3


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [("seeds = 3", "seeds = 4", "does not match figure-1.toml"),
     ("[2, 5, 8]", "[2, 5, 7]", "does not match figure-1.toml"),
     ("[metrics.drops]", "[metrics.losses]", "does not match figure-1.toml")],
)  # fmt: skip
def test_a_table_of_another_study_is_refused(incast: Command, kept: Path, old: str, new: str, said: str) -> None:
    study = kept / "figure-1.toml"
    text = study.read_text(encoding="utf-8").split("[[panels]]")[0].replace(old, new)
    study.write_text(text, encoding="utf-8")
    done = incast("reproduce", "paper", "--quick")
    assert done.returncode == 2
    assert said in done.stderr
    assert "--update" in done.stderr
    assert incast("reproduce", "paper", "--update").returncode == 0


@pytest.mark.parametrize("broken", ["", "nonsense\n", "# incast 1: 1 runs, 1 packet-hops\na,b\n"])
def test_a_broken_table_is_refused(incast: Command, kept: Path, broken: str) -> None:
    (kept / "figure-1.csv").write_text(broken, encoding="utf-8")
    done = incast("reproduce", "paper", "--quick")
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert "figure-1.csv" in done.stderr


def test_without_a_table_nothing_is_judged_and_that_is_said(incast: Command, paper: Path) -> None:
    done = incast("reproduce", "paper", "--quick", "--json", "claims.json")
    assert done.returncode == 1
    assert "figure-1.csv: missing table; --update computes it" in done.stderr
    claims = json.loads((paper.parents[1] / "claims.json").read_text(encoding="utf-8"))["claims"]
    assert [claim["verdict"] for claim in claims] == ["not-judged", "not-judged"]
    assert all(claim["measured"] is None and claim["why"] for claim in claims)


def test_check_fails_when_a_claim_recorded_as_holding_holds_no_more(incast: Command, kept: Path) -> None:
    study = kept / "figure-1.toml"
    text = study.read_text(encoding="utf-8")
    study.write_text(text.replace("within = 100", "within = 0.000001"), encoding="utf-8")
    assert incast("reproduce", "paper", "--quick").returncode == 0
    done = incast("reproduce", "paper", "--quick", "--check")
    assert done.returncode == 1
    assert "T01 is recorded as holding; now: " in done.stderr


def test_a_sample_begins_with_one_run_then_takes_both_ends_of_every_curve(kept: Path, tmp_path: Path) -> None:
    study = reading.read(kept / "figure-1.toml")
    known = table.read(study)
    assert known is not None
    rows = plan.rows(study)
    store = Store(tmp_path / "samples")

    def chosen(budget_s: float, *sampled: str) -> list[int]:
        return sample.choose(study, rows, known, sample.Budget(budget_s, 1, set(sampled)), store)

    # Whatever others have spent; and what they have not sampled comes first.
    for name in ("dctcp", "tcp"):
        assert [rows[index].point.curve.name for index in chosen(0.0, *{"dctcp", "tcp"} - {name})] == [name]
    more = chosen(0.05)
    assert sorted({rows[index].point.curve.name for index in more}) == ["dctcp", "tcp"]
    assert set(chosen(0.0)) < set(more)
    assert {rows[index].point.at for index in more} <= {(2,), (8,)}
    assert len(chosen(1e9)) == RUNS


def test_samples_that_are_there_cost_nothing(kept: Path, tmp_path: Path) -> None:
    from incast.studies import execution

    study = reading.read(kept / "figure-1.toml")
    known = table.read(study)
    assert known is not None
    rows = plan.rows(study)
    store = Store(tmp_path / "samples")
    first = sample.choose(study, rows, known, sample.Budget(0.0, 1), store)
    execution.run(plan.runs(rows[index] for index in first), store)
    # Now it is a free one, and the next study would begin with another.
    budget = sample.Budget(1e-9, 1)
    assert sample.choose(study, rows, known, budget, store) == first
    assert budget.left_s == 1e-9
