"""`incast advise`: the description of a cluster, the closed form, the runs, and what is made of them."""

from __future__ import annotations

import html
import json
import re
import signal
import socket
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import incast.requests
from conftest import Command
from incast import ScenarioError
from incast.advice import closed_form, cluster, command, judging, remedies, report, simulation
from incast.advice.cluster import Buffer, Cluster, Size
from incast.studies.store import Store

ROOT = Path(__file__).parents[1]

# Four servers whose responses fit easily, so that runs are short.
FITS = """\
rate = "1Gbps"
rtt = "100us"
fan_in = 4
response = "5KB"
buffer = { limit = "200KB" }
may_change = ["receiver"]
"""


def described(text: str, folder: Path) -> Cluster:
    path = folder / "cluster.toml"
    path.write_text(text, encoding="utf-8")
    return cluster.read(path)


def errors(text: str, folder: Path) -> list[str]:
    with pytest.raises(ScenarioError) as found:
        described(text, folder)
    return [line.removeprefix(f"{folder}/") for line in str(found.value).splitlines()]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make runs shorter than those of the command."""
    monkeypatch.setattr(simulation, "_HOPS", 50_000)
    monkeypatch.setattr(simulation, "_LEAST_QUERIES", 10)
    monkeypatch.setattr(simulation, "_PACKETS_BESIDE_LONG_FLOWS", 50_000)


# The description.


def test_what_a_description_leaves_out_has_the_defaults_that_the_example_shows(tmp_path: Path) -> None:
    long = described(cluster.example("forty-servers"), tmp_path)
    required = ("rate", "rtt", "fan_in", "response", "buffer")
    lines = [line for line in cluster.example("forty-servers").splitlines() if line.startswith(required)]
    assert described("\n".join(lines), tmp_path) == long
    assert (long.rate_bps, long.rtt_ps, long.fan_in, long.response_bytes) == (25 * 10**9, 60 * 10**6, 40, 20_000)
    assert long.buffer == Buffer.shared(16_000_000, 1.0, 0)


def test_all_errors_are_told_at_once_with_line_key_what_was_found_and_what_is_allowed(tmp_path: Path) -> None:
    wrong = 'rate = "25Gb"\nrt = "60us"\nfan_in = 0\nresponse = "20KB"\n'
    found = errors(f'{wrong}may_change = ["roof"]\nbuffer = {{ memry = "1MB" }}\n[tcp]\nsender = "bbr"\n', tmp_path)
    assert found[0].startswith('cluster.toml:1: rate: "25Gb" has the unit "Gb"; a rate is a number with one of')
    assert 'cluster.toml: missing key "rtt"' in found
    assert "cluster.toml:3: fan_in: must be 1 or more, found 0" in found
    assert any(line.startswith('cluster.toml:6: buffer.memry: unknown key "memry"; did you mean') for line in found)
    assert 'cluster.toml:8: tcp.sender: found "bbr"; allowed: cubic, newreno, dctcp' in found
    allowed = "application, receiver, senders, switch"
    assert f'cluster.toml:5: may_change: found "roof"; allowed: {allowed}' in found
    assert any(line.startswith('cluster.toml:2: rt: unknown key "rt"; did you mean "rtt"?') for line in found)
    assert len(found) == 7


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ('buffer = { limit = "1KB" }', 'buffer.limit: found "1KB"; must be 3,000 or more'),
        ('buffer = { limit = "1MB", alpha = 1.0 }', "alpha"),
        ('buffer = { memory = "1MB", alpha = 0 }', "buffer.alpha: must be more than 0 and at most 1024, found 0"),
        ("fan_in = 2001", "fan_in: must be 2,000 or less, found 2,001"),
        ("response = []", "response: expected a size, or a list such as"),
        ('response = [{ size = "1KB" }]', "response[0].share: must be more than 0, found None"),
        ('response = "sizes.csv"', "sizes.csv: no such file"),
        ('sample = "nowhere"', "summary.json: no such file; incast-host sample writes it"),
        ('tcp = { sender = "dctcp" }', 'tcp.sender: "dctcp" needs switches that mark'),
        ('tcp = { windows = "open" }', 'tcp.windows: found "open"; allowed: kept, fresh'),
    ],
)
def test_a_bad_value_is_refused_by_name(change: str, said: str, tmp_path: Path) -> None:
    key = change.split(" ")[0]
    kept = "\n".join(line for line in FITS.splitlines() if not line.startswith(f"{key} "))
    assert any(said in line for line in errors(f"{kept}\n{change}\n", tmp_path))


def test_sizes_come_as_a_list_or_as_a_column_of_a_file(tmp_path: Path) -> None:
    base = FITS.replace('response = "5KB"', "response = ")
    listed = base.replace("response = ", 'response = [{ size = "2KB", share = 9 }, { size = "20KB", share = 1 }]')
    found = described(listed, tmp_path)
    assert found.sizes == (Size(2000, 0.9), Size(20000, 0.1))
    assert (found.response_bytes, found.varies) == (3800, True)
    (tmp_path / "sizes.csv").write_text("bytes,when\n4000,1\n1000,2\n2000,3\n3000,4\n", encoding="utf-8")
    drawn = described(base.replace("response = ", 'response = "sizes.csv"'), tmp_path)
    assert drawn.sizes == tuple(Size(size, 0.25) for size in (1000, 2000, 3000, 4000))
    (tmp_path / "sizes.csv").write_text("bytes\n4000\nmany\n", encoding="utf-8")
    (said,) = errors(base.replace("response = ", 'response = "sizes.csv"'), tmp_path)
    assert said.endswith("sizes.csv:3: expected 1 to 1,000,000,000 bytes, found 'many'")


SUMMARY = {
    "device": "eth0",
    "interval_s": 0.001,
    "rate_bps": 10_000_000_000,
    "incast_connections": 10,
    "directions": [
        {"direction": "in", "packets": 10_000, "ce_packets": 50, "retransmitted_packets": 20},
        {"direction": "out", "packets": 9, "ce_packets": 9, "retransmitted_packets": 9},
    ],
}
BURSTS = """\
time_s,duration_s,direction,connections,bytes,packets,ce_packets,incast_packets,retransmitted_packets
0.001000000,0.002000000,in,20,400000,300,0,0,0
0.101000000,0.002000000,in,30,900000,300,0,0,0
0.201000000,0.002000000,in,3,9000000,300,0,0,0
0.301000000,0.002000000,out,99,9000000,300,0,0,0
0.401000000,0.002000000,in,10,400000,300,0,0,0
"""


def test_a_sample_tells_rate_fan_in_and_responses_and_says_what_it_cannot(tmp_path: Path) -> None:
    (tmp_path / "sample").mkdir()
    (tmp_path / "sample" / "summary.json").write_text(json.dumps(SUMMARY), encoding="utf-8")
    (tmp_path / "sample" / "bursts.csv").write_text(BURSTS, encoding="utf-8")
    rest = 'sample = "sample"\nrtt = "100us"\nbuffer = { limit = "200KB" }\n'
    found = described(rest, tmp_path)
    # Bursts of 10, 20 and 30 connections with 40,000, 20,000 and 30,000 B each; the others are no incast, or go out.
    assert (found.rate_bps, found.fan_in, found.response_bytes) == (10**10, 30, 30_000)
    said = " ".join(found.sampled)
    assert "the rate of eth0, 10 Gbit/s" in said
    assert "0.50 % carried CE, and 0.20 % were sent again" in said
    assert "cannot tell the buffer of the port, the round trip without queues" in said
    own = described(f"{rest}fan_in = 12\n", tmp_path)
    assert (own.fan_in, own.response_bytes) == (12, 30_000)
    assert "a fan-in of" not in " ".join(own.sampled)
    (missing,) = errors('sample = "sample"\nrtt = "100us"\n', tmp_path)
    assert 'missing key "buffer"' in missing
    (tmp_path / "sample" / "bursts.csv").write_text(BURSTS.splitlines()[0], encoding="utf-8")
    assert any("no burst with 10 connections or more came in" in line for line in errors(rest, tmp_path))


def test_the_tables_of_a_sample_become_parquet(tmp_path: Path, inside: Command) -> None:
    (tmp_path / "sample").mkdir()
    missing = inside("export", str(tmp_path / "sample"), "--parquet", str(tmp_path / "out"))
    assert (missing.returncode, "intervals.csv: no such file; incast-host sample writes it" in missing.stderr) == (
        2,
        True,
    )
    (tmp_path / "sample" / "bursts.csv").write_text(BURSTS, encoding="utf-8")
    intervals = BURSTS.replace("duration_s,", "").replace("0.002000000,", "")
    (tmp_path / "sample" / "intervals.csv").write_text(intervals, encoding="utf-8")
    done = inside("export", str(tmp_path / "sample"), "--parquet", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    tables = [pl.read_parquet(tmp_path / "out" / f"{name}.parquet") for name in ("intervals", "bursts")]
    assert [(table.columns, table.height) for table in tables] == [
        (text.splitlines()[0].split(","), 5) for text in (intervals, BURSTS)
    ]
    incasts = tables[1].filter((pl.col("direction") == "in") & (pl.col("connections") >= 10))
    assert incasts["bytes"].to_list() == [400_000, 900_000, 400_000]
    assert incasts["duration_s"].to_list() == 3 * [0.002]
    (tmp_path / "sample" / "bursts.csv").write_text(BURSTS.replace(",20,", ",many,"), encoding="utf-8")
    wrong = inside("export", str(tmp_path / "sample"), "--parquet", str(tmp_path / "out"))
    assert (wrong.returncode, "bursts.csv:2: not a row of a sample" in wrong.stderr) == (2, True)


# The closed form.


def test_the_closed_form_is_that_of_a_calculation_by_hand(tmp_path: Path) -> None:
    form = closed_form.compute(described(cluster.example("forty-servers"), tmp_path))
    # 14 packets with headers of 52 B; ten of them in the first window.
    response, first, segment = 20_000 + 14 * 52, 10 * 1500, 1500
    assert form.bdp_bytes == 25e9 * 60e-6 / 8
    assert form.buffer_bytes == 8_000_000  # half of the memory: what is taken equals what is free
    assert form.all_responses == 40 * response / 8e6
    assert form.first_windows == 40 * first / 8e6
    assert form.segments == 40 * segment / 8e6
    assert form.losses_from == 8_000_000 // response + 1 == 386
    assert form.transfer_s == pytest.approx(40 * response * 8 / 25e9)
    assert form.region == "all fit"


def test_where_sizes_vary_the_closed_form_has_their_means_and_the_largest_burst() -> None:
    mixed = Cluster(10**9, 10**8, Buffer.own(300_000), 10, (Size(1000, 0.75), Size(100_000, 0.25)))
    form = closed_form.compute(mixed)
    small, large = 1000 + 52, 100_000 + 70 * 52
    assert form.all_responses == pytest.approx(10 * (0.75 * small + 0.25 * large) / 300_000)
    assert form.first_windows == pytest.approx(10 * (0.75 * small + 0.25 * 15_000) / 300_000)
    assert form.segments == pytest.approx(10 * (0.75 * small + 0.25 * 1500) / 300_000)
    assert (form.burst_bytes, form.losses_from) == (100_000, 300_000 // large + 1)


def test_busy_ports_leave_a_port_its_part_of_the_memory() -> None:
    shared = Buffer.shared(16_000_000, 1.0, 15)
    assert shared.limit_bytes == 16_000_000 // 17
    # The simulator's port is alone with a memory in which alpha gives it the same.
    scenario = shared.scenario()
    assert int(scenario["size"][:-1]) // 2 == shared.limit_bytes
    assert shared.halved().limit_bytes == 8_000_000 // 17


@pytest.mark.parametrize(
    ("servers", "region"), [(4, "all fit"), (8, "first windows fit"), (40, "segments fit"), (81, "nothing fits")]
)
def test_the_regions_follow_from_what_fits(servers: int, region: str) -> None:
    small = Cluster(10**9, 10**8, Buffer.own(120_000), servers, (Size(25_000, 1.0),))
    assert closed_form.compute(small).region == region


# The runs.


def test_the_same_description_gives_the_same_bytes_however_many_workers(incast: Command, tmp_path: Path) -> None:
    (tmp_path / "cluster.toml").write_text(FITS, encoding="utf-8")
    for name, workers in (("one", "1"), ("two", "2")):
        done = incast("advise", "cluster.toml", "--out", name, "--json", f"{name}.json", "--workers", workers)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    assert (tmp_path / "one" / "index.html").read_bytes() == (tmp_path / "two" / "index.html").read_bytes()
    again = incast("advise", "cluster.toml", "--out", "one", "--json", "again.json")
    assert (again.returncode, again.stderr) == (0, "")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "one.json").read_bytes()
    only = incast("advise", "cluster.toml", "--out", "one", "--json", "-")
    assert (only.returncode, only.stdout) == (0, (tmp_path / "one.json").read_text(encoding="utf-8"))
    # The scenario beside the page is the one that was run.
    assert incast("check", "one/today.toml").returncode == 0
    said = json.loads((tmp_path / "one.json").read_text(encoding="utf-8"))
    assert (said["collapses"], said["culprit"], said["choice"]) == (False, "nothing", None)
    assert "Fan-in is not the culprit." in done.stdout
    assert "leave it as it is" in done.stdout


@pytest.mark.usefixtures("short")
def test_where_nothing_may_be_changed_the_verdict_is_all_there_is(tmp_path: Path) -> None:
    small = described(re.sub("may_change = .*", "may_change = []", FITS), tmp_path)
    advice = command.advise(small, Store(tmp_path / "runs"))
    assert advice.results == ()
    assert "Nothing may be changed." in report.recommendation(advice)
    assert {why for _, why in advice.plan.left_out if "may_change lacks" not in why} == set()
    assert len(advice.plan.left_out) == len(remedies.REMEDIES)


@pytest.mark.usefixtures("short")
def test_long_flows_are_the_culprit_where_queries_alone_are_fast(tmp_path: Path) -> None:
    beside = described(FITS.replace("fan_in = 4", "fan_in = 8\nlong_flows = 2\ndeadline = '2ms'"), tmp_path)
    advice = command.advise(beside, Store(tmp_path / "runs"))
    assert advice.culprit == "long flows"
    assert advice.alone is not None
    assert advice.alone.mean < judging.COLLAPSE < advice.slowdown.mean
    assert advice.today.long_share is not None
    assert 0.5 < advice.today.long_share < 1
    assert advice.today.missed_share is not None
    assert advice.today.missed_share > 0


PUBLISHED = {"ars-2017": (5, 10), "dctcp-2010": (1, 20), "fast-2008": (4, 8)}
"""Fan-ins between which the collapse of published cases begins."""


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("name", sorted(cluster.examples()))
def test_the_examples_have_the_verdicts_that_their_papers_have(name: str, tmp_path: Path) -> None:
    case = described(cluster.example(name), tmp_path).with_(may_change=("application",))
    advice = command.advise(case, Store(tmp_path / "runs"))
    if name not in PUBLISHED:
        assert (advice.culprit, advice.choice) == ("nothing", judging.TODAY)
        return
    assert advice.culprit == "fan-in"
    assert advice.today.timeouts_per_query > 0
    least, most = PUBLISHED[name]
    verdicts = {point.fan_in: point.verdict for point in advice.sweep}
    assert verdicts[least] == "does not collapse"
    # Runs as short as these do not always lose the last packet of a window with every seed.
    assert verdicts[most] in {"collapses", "seeds differ"}
    assert advice.collapse_from() is not None
    assert advice.choice.startswith("application.")
    assert next(one for one in advice.results if one.candidate.id == advice.choice).timeouts_per_query == 0


@pytest.mark.parametrize(
    ("number", "code", "why"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "interrupted by SIGTERM")]
)
def test_signals_end_it_cleanly_and_keep_what_was_finished(
    number: signal.Signals, code: int, why: str, tmp_path: Path
) -> None:
    (tmp_path / "cluster.toml").write_text(cluster.example("fast-2008"), encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "incast", "advise", "cluster.toml"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    runs = tmp_path / "out" / "advise" / "runs"
    while not list(runs.glob("??/*")):
        assert process.poll() is None
    process.send_signal(number)
    said, wrong = process.communicate(timeout=60)
    assert process.returncode == code
    assert wrong.splitlines()[-1] == f"incast: {why}; finished runs are kept: run the same command again to resume"
    assert "Traceback" not in wrong
    assert said.startswith("16 servers answer a query")
    assert list(runs.glob("??/*"))


# What is said of differences.


def outcomes(*p99s: float, unfinished: bool = False) -> tuple[simulation.Outcome, ...]:
    return tuple(simulation.Outcome((one,), (unfinished,), None, 0, 0, None) for one in p99s)


@pytest.mark.parametrize(
    ("p99s", "unfinished", "judged"),
    [
        ((0.5, 0.51, 0.49), False, "better"),
        ((0.5, 0.51, 0.49), True, "not known"),
        ((0.1, 1.5, 0.9), False, "no difference"),
        ((0.99, 0.991, 0.989), False, "no difference"),
        ((2.0, 2.1, 1.9), False, "worse"),
        ((2.0, 2.1, 1.9), True, "worse"),
    ],
)
def test_a_difference_is_one_only_if_its_interval_excludes_none(
    p99s: tuple[float, ...], unfinished: bool, judged: str
) -> None:
    today = outcomes(1.0, 1.0, 1.0)
    candidate = judging.Candidate("a remedy", None, None)
    assert judging._result(candidate, outcomes(*p99s, unfinished=unfinished), today).judged == judged


def test_ratios_are_paired_by_seed_and_have_the_interval_of_students_t() -> None:
    found = judging.ratio(outcomes(2.0, 20.0, 400.0), outcomes(1.0, 10.0, 100.0), 99)
    assert found.mean == pytest.approx((2 * 2 * 4) ** (1 / 3))
    assert judging.ratio(outcomes(2.0, 20.0), outcomes(1.0, 10.0), 99) == pytest.approx((2, 2, 2))
    # Logarithms of 2, 2 and 4 have a standard deviation of ln(2) / sqrt(3); t is 4.303.
    assert found.high / found.mean == pytest.approx(2 ** (4.303 / 3))


def test_the_choice_is_easy_to_undo_among_those_that_are_nearly_the_best_and_can_be_applied(tmp_path: Path) -> None:
    case = described(cluster.example("dctcp-2010"), tmp_path)
    planned = judging.plan(case, closed_form.compute(case))
    today = outcomes(1.0, 1.0, 1.0)

    def choice(**p99s: float) -> tuple[str, tuple[str, ...]]:
        found = []
        for one in planned.candidates:
            name = one.id.replace(".", "_").replace("-", "_")
            if name in p99s:
                found.append(judging._result(one, outcomes(*[p99s[name]] * 3), today))
        return judging._choice(planned, sorted(found, key=lambda one: one.p99_s))

    # What only the simulator has is never chosen, however good it is.
    simulated = {"receiver_rdtcp+senders_rdtcp": 0.1}
    near = choice(**simulated, senders_dctcp=0.3, receiver_ictcp=0.305, application_credit=0.32)
    assert near == ("receiver.ictcp", ("senders.dctcp",))
    assert choice(**simulated, senders_dctcp=0.98) == (judging.TODAY, ())


# What is proposed.


def proposals(folder: Path) -> dict[str, remedies.Proposal]:
    case = described(cluster.example("dctcp-2010").replace('"newreno"', '"cubic"'), folder)
    form = closed_form.compute(case)
    return {one.id: one.propose(case, form) for one in remedies.REMEDIES if not one.lacking(case, form)}


def test_every_remedy_is_a_scenario_that_checks_and_can_be_undone(tmp_path: Path) -> None:
    case = described(cluster.example("dctcp-2010").replace('"newreno"', '"cubic"'), tmp_path)
    found = proposals(tmp_path)
    assert list(found) == [one.id for one in remedies.REMEDIES]
    for id_, proposal in found.items():
        incast.check(simulation.scenario(case), set=dict(proposal.changes))
        assert bool(proposal.apply) == bool(proposal.undo), id_
        # Without a command there is a word on why.
        assert proposal.apply or "no" in proposal.note.split() or "nothing" in proposal.note, id_


@pytest.mark.parametrize(("which", "closes"), [("credit", False), ("closing-credit", True)])
def test_credit_is_simulated_in_the_form_that_the_kernel_has(tmp_path: Path, which: str, closes: bool) -> None:
    found = proposals(tmp_path)[f"receiver.{which}"]
    changes: Any = found.changes["stack.receiver"]
    assert (changes["closes"], changes["sizes"]) == (closes, False)
    assert f"--set budget={changes['budget']}" in found.apply[0].code
    assert ("--set closes=true" in found.apply[0].code) == closes


def test_commands_set_what_was_simulated(tmp_path: Path) -> None:
    found = set()
    for proposal in proposals(tmp_path).values():
        for line in (step.code for step in proposal.apply if " --set " in step.code):
            _, _, name, *_ = line.split()
            [part] = [part for part in proposal.changes.values() if isinstance(part, dict) and part["name"] == name]
            simulated = {
                f"{key}={str(value).lower() if value in (True, False) else value}" for key, value in part.items()
            }
            assert set(re.findall(r"--set (\S+)", line)) <= simulated, line
            found.add(name)
    assert found == {"credit", "static-window", "swift"}


def test_a_remedy_names_who_has_to_change_something(tmp_path: Path) -> None:
    case = described(cluster.example("dctcp-2010").replace('"newreno"', '"cubic"'), tmp_path)
    places = {one.id: one.places for one in judging.plan(case, closed_form.compute(case)).candidates}
    assert places["receiver.credit"] == ("receiver",)
    assert places["receiver.static-window+senders.dctcp"] == ("receiver", "senders", "switch")
    marking = case.with_(marks_bytes=30_000)
    places = {one.id: one.places for one in judging.plan(marking, closed_form.compute(marking)).candidates}
    assert places["receiver.static-window+senders.dctcp"] == ("receiver", "senders")


def test_what_only_the_simulator_has_is_ranked_behind_all_that_can_be_applied(tmp_path: Path) -> None:
    case = described(cluster.example("dctcp-2010"), tmp_path)
    planned = judging.plan(case, closed_form.compute(case))
    today, fast = outcomes(1.0, 1.0, 1.0), outcomes(0.1, 0.1, 0.1)
    made = [judging._result(one, today if one.can_be_applied else fast, today) for one in planned.candidates]
    kinds = [one.candidate.can_be_applied for one in sorted(made, key=judging._rank)]
    assert kinds == sorted(kinds, reverse=True)
    assert kinds.count(False) == 1


def test_commands_and_code_are_those_that_exist(tmp_path: Path) -> None:
    known = (ROOT / "crates/host/src/commands.rs").read_text(encoding="utf-8")
    lists = "".join((ROOT / "crates/bpf/src" / name).read_text(encoding="utf-8") for name in ("lib.rs", "receivers.rs"))
    registered = "".join(re.findall(r"pub const (?:SENDERS|RECEIVERS): .* = (\[.*\]);", lists))
    options = {*re.findall(r'long = "([\w-]+)"', known), *re.findall(r"#\[arg\(long[^\n]*\)\]\n\s+(\w+):", known)}
    assert {"cgroup", "dev", "port", "rate", "ce", "set"} <= options
    steps = [step for one in proposals(tmp_path).values() for step in (*one.apply, *one.undo)]
    commands = [step.code for step in steps if step.language == "sh"]
    for line in commands:
        if line.startswith("incast-host"):
            assert set(re.findall(r"--([\w-]+)", line)) <= options, line
            action, *rest = line.split()[1:]
            assert action in ("enable", "disable")
            assert action == "disable" or rest[0] == "ein" or f'"{rest[0]}"' in registered, line
        elif not line.startswith("ip route change $ROUTE"):
            assert re.fullmatch(r"sysctl -w net\.ipv4\.tcp_(congestion_control|rto_min_us)=\w+", line)
    for code in {step.code for step in steps if step.language == "python"}:
        compile(
            "async def program():\n" + "".join(f"    {line}\n" for line in code.splitlines()) + "    pass\n", "", "exec"
        )
        if made := re.search(r"incast\.requests\.(Plan\(.*\))", code):
            plan: Any = eval(made[1], {"Plan": incast.requests.Plan})  # noqa: S307 - ours
            assert incast.requests.open(plan).status().asked == 0
    assert hasattr(socket, "TCP_WINDOW_CLAMP") or sys.platform != "linux"


# The page.


def test_the_page_is_whole_and_says_everything(incast: Command, tmp_path: Path) -> None:
    (tmp_path / "cluster.toml").write_text(f"# <of Tom & me>\n{FITS}", encoding="utf-8")
    done = incast("advise", "cluster.toml", "--json", "a.json")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "out" / "advise" / "index.html").read_text(encoding="utf-8")
    # But for the head it is XML, so that nothing is left open.
    ET.fromstring(page[page.index("<main>") : page.index("</body>")].replace("&nbsp;", " "))  # noqa: S314 - our own
    said = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    sweep, ranking = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert sweep.count("<title>") == len(said["sweep"])
    assert not re.search("#[0-9a-f]{6}", sweep + ranking), "a colour that is not one of the page"
    for one in said["remedies"]:
        assert f"<title>{one['id']}: " in ranking
        assert f'id="{one["id"]}"' in page
        assert html.escape(one["why"]) in page
        for step in (*one["apply"], *one["undo"]):
            assert html.escape(step["code"]) in page
    for one in said["left_out"]:
        assert one["id"] in page
    assert "# &lt;of Tom &amp; me&gt;" in page
    assert "incast advise cluster.toml" in page
    assert not re.search(r"https?://", page)


def test_the_command_says_what_is_missing(incast: Command) -> None:
    for arguments, said in (
        ((), "incast advise --example forty-servers prints one"),
        (("nowhere.toml",), "no such file; incast advise --example prints one"),
        (("--example", "mine"), "allowed: ars-2017, dctcp-2010, fast-2008, forty-servers"),
    ):
        done = incast("advise", *arguments)
        assert done.returncode == 2
        assert said in done.stderr
    printed = incast("advise", "--example", "forty-servers")
    assert printed.stdout.rstrip() == cluster.example("forty-servers").rstrip()
