"""The command line: exit codes, messages, and what is on which stream."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

import incast as package
from conftest import SMALL, Command, Completed, small_paper
from incast import __main__ as main_module
from incast import bench, ends, output, scenarios

TABLES = ["flows", "coflows", "ports", "queues", "windows", "events", "summary"]
DETECTORS = ["incasts", "alarms"]


def refused(done: Completed) -> str:
    """Check that the command refused its input with a message on stderr alone, and return it."""
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("incast: ")
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_run_writes_every_table_where_it_says(incast: Command, small: Path, tmp_path: Path) -> None:
    done = incast("run", small)
    assert done.returncode == 0, done.stderr
    assert "out/small" in done.stdout
    for name in TABLES:
        path = tmp_path / "out" / "small" / f"{name}.parquet"
        by_arrow, by_polars = pq.read_table(path), pl.read_parquet(path)
        assert by_arrow.column_names == by_polars.columns
        assert by_arrow.num_rows == by_polars.height > 0, name


def test_a_run_with_a_detector_says_how_good_it_was(incast: Command, small: Path, tmp_path: Path) -> None:
    change = ("--set", "switch.marker=ein", "--set", "stack.sender=pulser", "--set", "traffic.burst.response=64KiB")
    done = incast("run", small, *change)
    assert done.returncode == 0, done.stderr
    said = re.search(r"EIN: (\d+) of (\d+) incasts detected.*; (\d+) of (\d+) alarms false, (\d+) packets", done.stdout)
    assert said, done.stdout
    seen, incasts, false, alarms, innocent = map(int, said.groups())
    tables = {name: pl.read_parquet(tmp_path / "out" / "small" / f"{name}.parquet") for name in DETECTORS}
    assert incasts == tables["incasts"].height > 0
    assert seen == tables["incasts"]["detected"].sum() > 0
    assert alarms == tables["alarms"].height > 0
    assert false == (tables["alarms"]["cause"] != "incast").sum()
    assert innocent == tables["alarms"]["packets_innocent"].sum()
    # Without one it says nothing.
    assert "EIN" not in incast("run", small).stdout


def test_json_is_one_object_and_nothing_else(incast: Command, small: Path) -> None:
    done = incast("run", small, "--json", "--out", "here")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["class"] == "all"
    assert summary["outcome"] == "complete"
    assert summary["flows"] == summary["flows_complete"] == 16
    assert summary["classes"]["burst"]["flows"] == 16
    assert summary["warnings"] == []


def test_a_run_that_meets_its_end_time_is_done_and_says_so(incast: Command, small: Path) -> None:
    done = incast("run", small, "--set", "run.stop_at=1ms", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["outcome"] == "time-up"
    assert "end time" in done.stderr


def test_repetitions_have_seeds_of_their_own_and_intervals(incast: Command, small: Path, tmp_path: Path) -> None:
    done = incast("run", small, "--repetitions", "3", "--seed", "7", "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    alone = [json.loads(incast("run", small, "--seed", str(seed), "--json", "--out", "o").stdout) for seed in (7, 8, 9)]
    assert said["repetitions"] == alone
    goodput = [one["goodput_total_bps"] for one in alone]
    one = said["intervals"]["goodput_total_bps"]
    assert one["mean"] == pytest.approx(sum(goodput) / 3)
    # Two degrees of freedom: a third of 4.303^2 times the variance.
    half_width = 4.303 * (sum((value - one["mean"]) ** 2 for value in goodput) / 2 / 3) ** 0.5
    assert (one["high"] - one["mean"], one["mean"] - one["low"]) == pytest.approx((half_width, half_width))
    for number, summary in enumerate(alone, 1):
        directory = tmp_path / "out" / "small" / str(number)
        assert json.loads((directory / "summary.json").read_text(encoding="utf-8"))["seed"] == summary["seed"]
        assert {file.stem for file in directory.glob("*.parquet")} >= set(TABLES)
    shown = incast("run", small, "--repetitions", "3", "--seed", "7").stdout.splitlines()
    assert re.match(r"burst +16 +16 +[\d.]+ Mbit/s ± [\d.]+ [kM]bit/s ", shown[-1]), shown
    # Where all are the same there is nothing to tell.
    once = incast("run", small, "--repetitions", "2", "--set", "run.stop_at=1us")
    assert (once.returncode, "±" in once.stdout) == (0, False)
    assert "--repetitions 0: must be 1 or more" in refused(incast("run", small, "--repetitions", "0"))


def test_set_and_seed_change_the_run(incast: Command, small: Path) -> None:
    def summary(*arguments: str) -> dict[str, object]:
        done = incast("run", small, "--json", *arguments)
        assert done.returncode == 0, done.stderr
        loaded: dict[str, object] = json.loads(done.stdout)
        return loaded

    assert summary("--set", "traffic.burst.workers=3", "--set", "traffic.burst.rounds=1")["flows"] == 3
    assert summary("--seed", "5")["seed"] == 5
    assert summary("--seed", "5") == summary("--seed", "5") != summary("--seed", "6")


def test_an_example_runs_by_its_name(incast: Command, tmp_path: Path) -> None:
    done = incast("run", "incast")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "incast" / "flows.parquet").is_file()


def test_an_unknown_key_is_named_with_its_line_and_the_nearest_key(incast: Command, small: Path) -> None:
    small.write_text(SMALL.replace("rto_min", "rto_mni"), encoding="utf-8")
    line = SMALL[: SMALL.index("rto_min")].count("\n") + 1
    message = refused(incast("run", small))
    assert f"small.toml:{line}:" in message
    assert "rto_mni" in message
    assert "rto_min" in message


def test_a_number_without_its_unit_is_refused_with_what_is_allowed(incast: Command, small: Path) -> None:
    small.write_text(SMALL.replace('"1Gbps"', '"1Gb"'), encoding="utf-8")
    message = refused(incast("run", small))
    assert "1Gb" in message
    assert "Gbps" in message


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "nowhere.toml"], "no such file"),
        (["run", "."], "directory"),
        (["check", "nowhere.toml"], "no such file"),
        (["plot", "nowhere"], "no such directory"),
        (["plot", "."], "no results here"),
        (["run"], "SCENARIO"),
        (["walk"], "walk"),
        (["run", "incast", "--set", "traffic.requests.workers"], "key=value"),
        (["run", "incast", "--set", "traffic.requests.wrokers=3"], "workers"),
        (["run", "incast", "--set"], "--set"),
        (["run", "incast", "--seed", "many"], "many"),
        (["run", "incast", "--seed", "-1"], "seed"),
        (["run", "incast", "--seed", "99999999999999999999"], "seed"),
        (["run", "incast", "--out", "file/below"], "cannot write"),
        (["list", "people"], "people"),
        (["example", "nothing"], "nothing"),
        (["demo", "--senders", "1"], "senders"),
        (["run", "incast", "--threads", "0"], "--threads 0: must be 1 or more"),
        (["bench", "leaf-spine", "--flows", "0"], "flows"),
        (["bench", "leaf-spine", "--threads", "0"], "--threads 0: must be 1 or more"),
        (["bench", "leaf-spine", "--flows", "1", "--against", "nowhere --flows 1"], "nowhere: No such file"),
        (["bench", "leaf-spine", "--flows", "1", "--against", "'"], "No closing quotation"),
        (["bench", "leaf-spine", "--flows", "1", "--against", "nowhere", "--json"], "--json"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(
    incast: Command, tmp_path: Path, arguments: list[str], said: str
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert said in refused(incast(*arguments))


def test_bad_input_leaves_no_directory_behind(incast: Command, tmp_path: Path) -> None:
    refused(incast("run", "incast", "--set", "nothing=1"))
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_no_text_is_refused(incast: Command, tmp_path: Path) -> None:
    (tmp_path / "binary.toml").write_bytes(b"name = \xff\xfe")
    assert "UTF-8" in refused(incast("run", "binary.toml"))


def test_check_says_what_would_run_and_warns_on_stderr(incast: Command, small: Path) -> None:
    done = incast("check", small)
    assert (done.returncode, done.stderr) == (0, "")
    assert "9 hosts" in done.stdout


@pytest.mark.parametrize("what", ["protocols", "profiles", "workloads", "topologies", "examples"])
def test_lists_are_for_people_and_for_programs(incast: Command, what: str) -> None:
    people, programs = incast("list", what), incast("list", what, "--json")
    assert people.returncode == programs.returncode == 0
    entries = json.loads(programs.stdout)
    assert entries
    for entry in entries:
        assert (entry if isinstance(entry, str) else entry["name"]) in people.stdout


def test_what_deviates_from_its_source_says_so(incast: Command) -> None:
    people, programs = incast("list", "protocols", "dctcp"), incast("list", "protocols", "--json")
    told = {entry["name"]: entry["deviations"] for entry in json.loads(programs.stdout) if entry["place"] == "sender"}
    assert any("WindowEnd" in sentence for sentence in told["dctcp"])
    for sentence in told["dctcp"]:
        assert sentence.endswith(".")
        assert sentence.replace("`", "") in " ".join(people.stdout.split())


def test_an_example_is_printed_as_a_scenario_that_checks(incast: Command, tmp_path: Path) -> None:
    printed = incast("example", "incast")
    (tmp_path / "mine.toml").write_text(printed.stdout, encoding="utf-8")
    assert incast("check", "mine.toml").returncode == 0


def test_version_and_help_answer(incast: Command) -> None:
    version = incast("--version").stdout.strip()
    assert re.fullmatch(rf"{re.escape(package.__version__)} \(commit ([0-9a-f]{{12}}(, modified)?|unknown)\)", version)
    for arguments in ([], ["run"], ["bench", "leaf-spine"]):
        done = incast(*arguments, "--help")
        assert done.returncode == 0
        assert "Usage" in done.stdout


def test_another_program_runs_in_turns_with_ours(incast: Command) -> None:
    theirs = "echo packet_hops=1000 setup_wall_s=7 run_wall_s=1"
    done = incast("bench", "leaf-spine", "--flows", "1", "--repeat", "2", "--against", theirs)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert [row[0] for row in rows[:4]] == ["round", "1", "2", "median"]
    assert {row[2] for row in rows[1:4]} == {"1000000.0"}
    assert "1,000 of theirs" in done.stdout
    silent = incast("bench", "leaf-spine", "--flows", "1", "--repeat", "1", "--against", "echo nothing")
    assert (silent.returncode, "no packet_hops" in silent.stderr) == (1, True)


def test_memory_is_for_what_is_alive() -> None:
    """At most 30 MB for 20,000 flows on 400 hosts, and 300 MB for 2 million, of which Python and the program have 18.

    That is so as the program is installed; one that is built more quickly is larger, so only what is added counts.
    """
    of_one, of_few, of_many = (
        bench.best(bench.Case("", flows, bench.LeafSpine(), "sweep"), 1)["peak_rss_mb"]
        for flows in (1, 20_000, 200_000)
    )
    assert of_few - of_one <= 30 - 18
    assert of_few - of_one + (of_many - of_few) / 180_000 * 1_980_000 < 300 - 18


def test_the_cost_of_more_flows_and_hosts_is_relative_to_the_smallest_case(incast: Command, tmp_path: Path) -> None:
    picture = tmp_path / "new" / "scale.png"
    done = incast("bench", "scale", "--up-to", "2000", "--json", "--plot", str(picture))
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    assert (row["hosts"], row["flows"], row["ratio"]) == (400, 2000, 1.0)
    assert row["cpu_ns_per_hop"] == pytest.approx(row["cpu_s"] * 1e9 / row["packet_hops"])
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "at least 2,000 flows" in refused(incast("bench", "scale", "--up-to", "1999"))
    assert "must end in .png" in refused(incast("bench", "scale", "--up-to", "2000", "--plot", "scale.txt"))


def test_what_another_program_says_may_be_json_or_text() -> None:
    text = "data_hops=5\npacket_hops=20\nsetup_wall_s=9.5\nrun_wall_s=1.5e-1\npacket_hops_per_s=3\n"
    assert bench.said("theirs", text, 8.0) == (20, 0.15)
    assert bench.said("theirs", '{"packet_hops": 30, "wall_s": 0.25, "packet_hops_per_s": 120.0}', 8.0) == (30, 0.25)
    assert bench.said("theirs", "packet_hops = 4", 8.0) == (4, 8.0)
    with pytest.raises(package.RunError, match="theirs does not say"):
        bench.said("theirs", "packet_hops_per_s=3", 8.0)


def test_the_command_line_loads_no_table_or_picture_library(tmp_path: Path) -> None:
    heavy = "{'polars', 'pandas', 'numpy', 'pyarrow', 'matplotlib', 'rich'}"
    code = f"import sys, incast.__main__ as m; m.invoke(['list', 'examples']); print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"


def test_a_run_is_measured_beside_little_of_python(tmp_path: Path) -> None:
    heavy = "{'json', 're', 'typing'}"
    code = f"import sys; before = set(sys.modules); import incast._native; print({heavy} & set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_a_reader_that_goes_away_is_no_error_of_ours(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "incast", "schema"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "interrupted by SIGTERM"),
        (signal.SIGHUP, 129, "interrupted by SIGHUP"),
    ],
)
def test_a_run_that_is_ended_early_leaves_readable_tables(
    number: signal.Signals, code: int, said: str, endless: Path, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "incast", "run", endless, "--set", "traffic.burst.rounds=50000", "--out", "cut"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        # The directory is made when the run begins; all of it takes ten times as much of a processor.
        while not (tmp_path / "cut").is_dir() or _processor_s(process.pid) < 2:
            assert process.poll() is None
        process.send_signal(number)
        _, stderr = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == code
    assert f"incast: {said} at " in stderr
    assert "are in cut\n" in stderr
    assert "Traceback" not in stderr
    for name in TABLES:
        pq.read_table(tmp_path / "cut" / f"{name}.parquet")
    summary = json.loads((tmp_path / "cut" / "summary.json").read_text(encoding="utf-8"))
    assert summary["outcome"] == "interrupted"
    assert 0 < summary["flows_complete"] < 8 * 50_000


def test_a_run_that_ended_early_never_replaces_one_that_did_not(incast: Command, small: Path, tmp_path: Path) -> None:
    out = tmp_path / "out" / "small"
    assert output.beside(out) == out
    assert incast("run", small).returncode == 0
    assert output.beside(out) == tmp_path / "out" / "small.partial"
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    (out / "summary.json").write_text(json.dumps(summary | {"outcome": "interrupted"}), encoding="utf-8")
    assert output.beside(out) == out
    (out / "summary.json").write_text("not ours", encoding="utf-8")
    assert output.beside(out) == tmp_path / "out" / "small.partial"
    assert output.beside(Path()) == Path()


def test_check_and_a_dry_run_say_what_a_run_takes(incast: Command, small: Path, tmp_path: Path) -> None:
    told = incast("check", small).stdout.splitlines()
    assert told[0].startswith("small: ")
    assert re.fullmatch(r"4,345 packet-hops, 3\d MB of memory, less than a second on one core", told[1]), told[1]
    assert incast("run", small, "--dry-run").stdout.splitlines() == told
    assert not (tmp_path / "out").exists()
    ideal = incast("check", small, "--world", "ideal", "--set", "record={}").stdout.splitlines()
    assert re.fullmatch(r"3\d MB of memory, less than a second on one core", ideal[1]), ideal[1]


# Written out, its messages take seconds and 1.4 GB.
MANY = ("--set", "traffic.burst.rounds=2500000")


@pytest.mark.parametrize(
    ("command", "number", "code", "said"),
    [
        (["check", "small.toml", *MANY], signal.SIGINT, 130, "interrupted"),
        (["run", "small.toml", "--dry-run", *MANY], signal.SIGTERM, 143, "interrupted by SIGTERM"),
        (["run", "small.toml", *MANY], signal.SIGINT, 130, "interrupted"),
        (["sweep", "study.toml", "--dry-run"], signal.SIGHUP, 129, "interrupted by SIGHUP"),
        (["sweep", "study.toml"], signal.SIGINT, 130, "interrupted"),
        (["reproduce", "paper"], signal.SIGTERM, 143, "interrupted by SIGTERM"),
    ],
)
def test_planning_hears_signals(
    command: list[str], number: signal.Signals, code: int, said: str, small: Path, tmp_path: Path
) -> None:
    many = MANY[1].replace("=", '" = ')
    figure = small_paper(tmp_path) / "figure-1.toml"
    study = figure.read_text(encoding="utf-8").replace('"tcp.initial_window" = 4', f'"{many}')
    study = study.replace("values = [2, 5, 8]", "values = [8]")
    figure.write_text(study, encoding="utf-8")
    (tmp_path / "study.toml").write_text(study.replace("scenarios/small.toml", small.name), encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "incast", *command],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        while _resident_mb(process.pid) < 200:
            assert process.poll() is None
        process.send_signal(number)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    finally:
        process.kill()
    assert process.returncode == code
    assert process.communicate() == ("", f"incast: {said}\n")
    assert used.ru_maxrss < 1_000_000, "it went on"
    assert not (tmp_path / "out").exists()


def test_a_signal_while_the_program_is_loaded_ends_it_with_a_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def loading(_: list[str]) -> int:
        raise ends.Ended(signal.SIGTERM)

    monkeypatch.setattr(main_module, "invoke", loading)
    monkeypatch.setattr(ends, "listen", lambda: None)
    with pytest.raises(SystemExit) as ended:
        main_module.main()
    assert ended.value.code == 143
    assert capsys.readouterr().err == "incast: interrupted by SIGTERM\n"


def _processor_s(pid: int) -> float:
    after_name = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def _resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    return int(found[1]) / 1000 if found else 0.0


def test_a_run_that_nobody_wants_any_more_is_not_planned_to_its_end(small: Path) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(package.RunError, match="interrupted"):
        scenarios.start(scenarios.read(small), [*MANY[1::2]], 1, stop=stop)


def test_what_does_not_fit_into_memory_is_refused_with_the_number(small: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "incast", "check", small, *MANY],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)),
        check=False,
    )
    assert re.search(r"traffic: the 20000000 messages, .* do not fit .*; allowed: at most \d+ on this", refused(done))


@pytest.fixture
def groups() -> Iterator[Callable[[int], Path]]:
    """Return a function that makes a control group without a limit inside one with a limit in bytes."""
    mine = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()]
    root, file, group = Path("/sys/fs/cgroup"), "memory.max", ""
    for _, controllers, path in mine:
        if "memory" in controllers.split(","):
            root, file, group = root / "memory", "memory.limit_in_bytes", path
        elif not controllers and not group:
            group = path
    outer = root / group.lstrip("/") / f"incast-test-{os.getpid()}"

    def make(limit: int) -> Path:
        try:
            (outer / "inner").mkdir(parents=True)
            (outer / file).write_text(str(limit), encoding="utf-8")
        except OSError as error:
            pytest.skip(f"needs control groups of memory: {error}")
        return outer / "inner"

    yield make
    for folder in (outer / "inner", outer):
        if folder.is_dir():
            folder.rmdir()


def test_the_limit_of_a_group_around_ours_is_one_for_us(
    groups: Callable[[int], Path], small: Path, tmp_path: Path
) -> None:
    inner = groups(500_000_000)

    def enter() -> None:
        (inner / "cgroup.procs").write_text(str(os.getpid()), encoding="utf-8")

    def inside(*command: str | Path) -> Completed:
        return subprocess.run(
            [sys.executable, "-m", "incast", *command],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            preexec_fn=enter,
            check=False,
            timeout=600,
        )

    told = re.search(
        r"traffic: the 20000000 messages, .* allowed: at most (\d+) on this", refused(inside("check", small, *MANY))
    )
    assert told
    # As many as have room in the group, rather than in the machine.
    assert int(told[1]) < 500_000_000 // 50
    ends_with_what_it_has(inside("run", crowd(tmp_path), "--out", "out"), tmp_path / "out")


def crowd(folder: Path) -> Path:
    """Write a scenario of connections that open faster than a link between switches serves them.

    The estimate looks at the links of receivers, so that it is not refused.
    """
    path = folder / "crowd.toml"
    traffic = 'kind = "poisson"\nrate_per_s = 1e6\nsizes = { kind = "constant", size = "64KiB" }\nflows = 400000\n'
    topology = 'kind = "dumbbell"\nleft = 4\nright = 4\nedge_link = { rate = "1Tbps", delay = "5us" }\n'
    topology += 'core_link = { rate = "10Gbps", delay = "5us" }\n\n'
    rest = SMALL.split("[traffic.burst]")[0].split("[switch]")[1]
    text = f'name = "crowd"\n[topology]\n{topology}[switch]{rest}[traffic.crowd]\n{traffic}'
    path.write_text(text, encoding="utf-8")
    return path


def limited(folder: Path, *arguments: str | Path) -> Completed:
    """Run the command with an address space of 768 MiB."""
    return subprocess.run(
        [sys.executable, "-m", "incast", *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (768 << 20, 768 << 20)),
        check=False,
        timeout=600,
    )


def ends_with_what_it_has(done: Completed, out: Path) -> None:
    assert done.returncode == 1, done.stderr
    (said,) = [line for line in done.stderr.splitlines() if line.startswith("incast: ")]
    assert re.match(r"incast: stopped because memory ran short at .* of the run; partial results .* are in ", said)
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    assert summary["outcome"] == "interrupted"
    flows = pl.read_parquet(out / "flows.parquet")
    assert flows.height == summary["flows"] == 400_000
    assert flows["end_s"].is_not_null().sum() == summary["flows_complete"] > 1000


def test_a_run_under_a_limit_of_its_address_space_ends_with_what_it_has(tmp_path: Path) -> None:
    ends_with_what_it_has(limited(tmp_path, "run", crowd(tmp_path), "--out", "out"), tmp_path / "out")


def test_a_run_that_memory_ended_does_not_replace_one_that_was_not(
    incast: Command, small: Path, tmp_path: Path
) -> None:
    assert incast("run", small, "--out", "out").returncode == 0
    before = {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()}
    ends_with_what_it_has(limited(tmp_path, "run", crowd(tmp_path), "--out", "out"), tmp_path / "out.partial")
    assert {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()} == before


def test_recordings_are_on_disk_and_not_in_memory(small: Path, tmp_path: Path) -> None:
    """A run whose recordings were too much for this limit has room: only what is being written is in memory."""
    changes = ("--set", "traffic.burst.rounds=1500", "--set", 'record.packets=["all"]')
    done = limited(tmp_path, "run", small, *changes, "--out", "out")
    assert done.returncode == 0, done.stderr
    assert pq.read_metadata(tmp_path / "out" / "packets.parquet").num_rows > 1_500_000
    assert pl.read_parquet(tmp_path / "out" / "summary.parquet")["outcome"][0] == "complete"


def test_pictures_are_drawn_with_the_run_and_after_it(incast: Command, small: Path, tmp_path: Path) -> None:
    assert incast("run", small, "--out", "one", "--plots").returncode == 0
    assert incast("run", small, "--out", "two").returncode == 0
    assert not list((tmp_path / "two").glob("*.png"))
    assert incast("plot", "two").returncode == 0
    pictures = sorted(path.name for path in (tmp_path / "one").glob("*.png"))
    assert pictures == ["completion-times.png", "queues.png", "windows.png"]
    for name in pictures:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_no_picture_of_an_earlier_run_stays_beside_new_tables(incast: Command, small: Path, tmp_path: Path) -> None:
    assert incast("run", small, "--out", "out", "--plots").returncode == 0
    (tmp_path / "out" / "mine.png").touch()
    assert incast("run", small, "--out", "out").returncode == 0
    assert [path.name for path in (tmp_path / "out").glob("*.png")] == ["mine.png"]
    assert incast("plot", "out").returncode == 0
    nothing = ("--set", "record.queue_series=[]", "--set", "record.window_series=[]")
    assert incast("run", small, "--out", "out", "--plots", *nothing).returncode == 0
    assert sorted(path.name for path in (tmp_path / "out").glob("*.png")) == ["completion-times.png", "mine.png"]
    assert incast("run", small, "--out", "out", "--plots").returncode == 0
    package.run(small, seed=2).write(tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").glob("*.png")] == ["mine.png"]


def test_a_damaged_table_is_named(incast: Command, tmp_path: Path) -> None:
    (tmp_path / "flows.parquet").write_bytes(b"PAR1 no more")
    done = incast("plot", ".")
    assert done.returncode != 0
    assert "flows.parquet" in done.stderr
    assert "Traceback" not in done.stderr
