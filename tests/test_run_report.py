"""What happened inside a run: the explanation, the page and the traces say what the tables say."""

from __future__ import annotations

import base64
import gzip
import json
import re
import struct
from collections import Counter
from dataclasses import replace
from functools import cache
from importlib import resources
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import incast as package
import programs
from accessibility import GRAPHICS, SEEN, TEXT, contrast, distance
from conftest import SMALL, Command
from incast import figures
from incast.report import data, export, page
from incast.report import recorded as recorded_module
from incast.report.data import Drawn
from incast.report.explain import KINDS, Explainer, partition, union
from incast.report.outline import Outline
from incast.report.recorded import Flow, Recorded
from test_report_safety import HOSTILE, Page

INSIDE: dict[str, object] = {
    "record.events": True,
    "record.queue_series": ["bottlenecks"],
    "record.packets": ["bottlenecks"],
    "record.window_series": ["requests"],
}
WORLDS: dict[str, dict[str, object]] = {
    "newreno": {},
    "dctcp": {"stack.sender": "dctcp"},
    "linux": {"tcp.profile": "linux", "tcp.mss": "1024B", "tcp.header": "40B", "tcp.initial_window": 4},
    "short timers": {"tcp.rto_min": "1ms", "traffic.requests.workers": 30},
    "cut off": {"run.stop_at": "150ms"},
    "lossy": {"topology.link.loss": 0.02, "traffic.requests.workers": 4},
}


@cache
def recorded(world: str) -> Recorded:
    changes = {"traffic.requests.workers": 20, "traffic.requests.rounds": 2, **INSIDE, **WORLDS[world]}
    return Recorded.of(package.run("incast", set=changes), world)


def stories(run: Recorded) -> list[Any]:
    explainer = Explainer(run, run.port())
    return [explainer.story(flow) for flow in run.flows.values()]


@pytest.mark.parametrize("world", WORLDS)
def test_shares_add_up_to_the_time_of_every_flow(world: str) -> None:
    run = recorded(world)
    told = stories(run)
    assert len(told) >= 8
    for story in told:
        assert list(story.shares) == list(KINDS)
        assert min(story.shares.values()) >= 0
        assert sum(story.shares.values()) == story.flow.end - story.flow.begin
        shown = story.as_json()
        assert sum(share["time_ps"] for share in shown["shares"]) == shown["time_ps"]
        assert sum(share["share"] for share in shown["shares"]) == pytest.approx(1)
        assert story.as_text().startswith(story.headline)


@pytest.mark.parametrize("world", WORLDS)
def test_every_timeout_loss_and_fast_retransmit_is_told_once(world: str) -> None:
    run = recorded(world)
    table = {row["id"]: row for row in run._tables["flows"].to_dicts()}
    told = stories(run)
    for story in told:
        row = table[story.flow.id]
        kinds = Counter(wait.kind for wait in story.waits)
        assert kinds["tail-probe"] == row["tail_probes"]
        assert kinds.total() - kinds["tail-probe"] == row["timeouts"]
        assert len(story.fast) == row["fast_retransmits"]
        assert sum(step.kind in ("timer", "probe") for step in story.steps) == len(story.waits)
    data_lost = run.events.filter(pl.col("kind").is_in(["drop", "wire-loss"]) & ~pl.col("from_client"))
    last = {flow.connection: flow.offset + (flow.size or 0) for flow in run.flows.values()}
    # What is lost behind the last byte is a FIN.
    bare = run.packets.filter(pl.col("dropped") & (pl.col("payload_bytes") == 0) & ~pl.col("from_client"))
    controls = set(bare.select("arrive_ps", "connection").iter_rows())
    lost = [
        row
        for row in data_lost.to_dicts()
        if row["offset_bytes"] < last[row["connection"]] and (row["time_ps"], row["connection"]) not in controls
    ]
    assert sum(len(story.drops) for story in told) == len(lost)
    assert world in ("dctcp", "lossy") or lost


def test_a_lost_request_is_told() -> None:
    changes = {**INSIDE, "topology.link.loss": 0.1, "traffic.requests.workers": 20, "traffic.requests.rounds": 1}
    run = Recorded.of(package.run("incast", set=changes))
    timeouts = run.events.filter(pl.col("from_client") & pl.col("kind").str.starts_with("timeout"))
    told = [(story, step) for story in stories(run) for step in story.steps if step.kind == "request"]
    assert 0 < len(told) <= len(timeouts)
    for story, step in told:
        assert story.shares["start"] > 0.9 * (step.end - max(step.begin, story.flow.begin))


def test_a_dropped_packet_found_what_the_table_of_queues_says() -> None:
    run = recorded("newreno")
    port = run.port()
    waiting = run.waiting_at(port.link)
    times, lengths = run.queue(port.link)["time_ps"].to_list(), run.queue(port.link)["waiting_packets"].to_list()
    held = dict(zip(times, lengths, strict=True))
    dropped = run.packets.filter(pl.col("dropped"))
    assert len(dropped) > 20
    for row, at in dropped.select("row", "arrive_ps").iter_rows():
        packets, wire, by_flow = waiting.found_by(row, at)
        before = max(time for time in times if time <= at)
        assert packets == held[before] == sum(by_flow.values())
        assert wire + 1064 <= 65536 < wire + 3 * 1064


def test_a_timer_that_explains_nothing_is_not_blamed_on_a_loss() -> None:
    # A timeout shorter than the queueing delay: what it sends again was not lost.
    changes: dict[str, object] = {
        **INSIDE,
        "tcp.rto_min": "100us",
        "tcp.rto_initial": "10ms",
        "traffic.requests.rounds": 1,
    }
    run = Recorded.of(package.run("incast", set={**changes, "traffic.requests.workers": 12, "stack.sender": "dctcp"}))
    assert run.summary["timeouts"] > run.summary["drops"] == 0
    said = [step.text for story in stories(run) for step in story.steps if step.kind == "timer"]
    assert len(said) == run.summary["timeouts"]
    assert all("was not lost, but its ACK had not come" in text for text in said)


def test_the_slowest_flow_is_explained_in_words(incast: Command, tmp_path: Path) -> None:
    done = incast(
        "run", "incast", "--report", "--set", "traffic.requests.workers=20", "--set", "traffic.requests.rounds=1"
    )
    assert done.returncode == 0, done.stderr
    assert "report.html" in done.stdout
    told = incast("explain", "out/incast", "slowest")
    assert told.returncode == 0, told.stderr
    assert re.match(
        r"Flow \d+ \(host \d+ → host 0, 64 KiB in 64 packets\) took [\d.]+ ms; on an idle network", told.stdout
    )
    assert "retransmission timer" in told.stdout
    assert "a fast retransmit takes three" in told.stdout or "No ACK came after the last new segment" in told.stdout
    shown = json.loads(incast("explain", "out/incast", "slowest", "--json").stdout)
    flows = pl.read_parquet(tmp_path / "out/incast/flows.parquet")
    assert shown["flow"] == flows.sort("fct_s")["id"][-1]
    assert sum(share["time_ps"] for share in shown["shares"]) == shown["time_ps"] == shown["end_ps"] - shown["start_ps"]


def test_what_was_not_recorded_is_said(small: Path, tmp_path: Path) -> None:
    plain = package.run(small)
    plain.write(tmp_path / "plain")
    again = r"did not record its packets \(record.packets\); run the scenario again with incast run --report"
    with pytest.raises(package.ScenarioError, match=again):
        Recorded.read(tmp_path / "plain")
    with pytest.raises(package.ScenarioError, match="no results of a run here"):
        Recorded.read(tmp_path)
    (tmp_path / "plain" / "packets.parquet").write_bytes(b"PAR1 is not all of it")
    with pytest.raises(package.ScenarioError, match="cannot be read"):
        Recorded.read(tmp_path / "plain")
    (tmp_path / "plain" / "packets.parquet").unlink()
    with pytest.raises(package.ScenarioError, match="have no table packets; run the scenario again"):
        Recorded.read(tmp_path / "plain")
    run = recorded("newreno")
    with pytest.raises(package.ScenarioError, match=r"no flow '99'; allowed: slowest, 0, 1, 2, 3, 4, \.\.\. 39"):
        run.flow("99")
    with pytest.raises(package.ScenarioError, match="were not recorded; there are: switch->host 0"):
        run.port("switch->host 7")
    assert run.port(" switch ->host 0") == run.port()


def test_bad_wishes_are_errors_and_an_old_page_does_not_stay(incast: Command, small: Path, tmp_path: Path) -> None:
    two = incast("run", small, "--report", "--repetitions", "2")
    assert (two.returncode, "--report shows one run" in two.stderr) == (2, True)
    assert incast("run", small, "--report").returncode == 0
    assert (tmp_path / "out/small/report.html").exists()
    unknown = incast("report", "out/small", "--port", "switch->host 7")
    assert (unknown.returncode, "were not recorded" in unknown.stderr) == (2, True)
    assert incast("run", small).returncode == 0
    assert not (tmp_path / "out/small/report.html").exists()


def test_a_port_is_found_where_the_scenario_names_no_bottleneck(incast: Command, tmp_path: Path) -> None:
    text = SMALL.split("[traffic.burst]")[0] + (
        '[traffic.all]\nkind = "poisson"\nflows = 60\nload = 0.8\nreference = "host-links"\n'
        'sizes = { kind = "constant", size = "40KB" }\n'
    )
    (tmp_path / "mesh.toml").write_text(text, encoding="utf-8")
    done = incast("run", "mesh.toml", "--report")
    assert done.returncode == 0, done.stderr
    ports = pl.read_parquet(tmp_path / "out/mesh/ports.parquet")
    packets = pl.read_parquet(tmp_path / "out/mesh/packets.parquet")
    assert (
        packets["link"].unique().to_list() == ports.sort("drops_packets", "max_waiting_packets")["link"][-1:].to_list()
    )


def test_python_writes_the_page_and_the_words_too(small: Path, tmp_path: Path) -> None:
    result = package.run(small, inside=True)
    assert result.explain().startswith("Flow ")
    assert result.ports.select("limit_packets", "limit_bytes").unique().rows() == [(20, None)]
    assert result.explain(3).startswith("Flow 3 (host 4 → host 0, 64 KiB in 64 packets) took ")
    file = result.report(tmp_path / "new" / "page.html")
    (shown,) = document(file.read_text(encoding="utf-8"))["runs"]
    assert len(shown["drops"]) == result.summary_dict["drops"] > 0
    with pytest.raises(package.ScenarioError, match="run did not record its packets"):
        package.run(small).explain()


def test_stretches_of_time_are_divided_without_rest() -> None:
    assert union([(5, 6), (1, 3), (2, 4), (4, 5), (9, 9)]) == [(1, 6)]
    layers = {"a": [(-5, 2), (7, 8)], "b": [(1, 3), (6, 20)], "c": [(0, 10)]}
    assert partition((0, 10), layers) == {"a": 3, "b": 1 + 3 - 0, "c": 3}
    assert partition((3, 3), layers) == {"a": 0, "b": 0, "c": 0}


# ---- the page


def document(text: str) -> dict[str, Any]:
    (packed,) = re.findall(r'id="data" type="text/plain">([^<]*)<', text)
    found: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(packed)))
    return found


def ns(times: list[int]) -> list[int]:
    return [(time + 500) // 1000 for time in times]


@pytest.mark.parametrize("world", WORLDS)
def test_the_page_holds_what_the_tables_hold(world: str) -> None:
    run = recorded(world)
    port = run.port()
    (shown,) = document(page.build([run]))["runs"]
    queue = run.queue(port.link)
    assert list(accumulate(shown["queue"]["t"])) == ns(queue["time_ps"].to_list())
    assert shown["queue"]["bytes"] == queue["waiting_bytes"].to_list()
    assert shown["limit"] == 65536
    packets = run.packets.filter(pl.col("link") == port.link)
    assert list(accumulate(shown["drops"])) == ns(packets.filter(pl.col("dropped"))["arrive_ps"].to_list())
    marks = run.events.filter((pl.col("kind") == "ce-mark") & (pl.col("link") == port.link))
    assert list(accumulate(shown["marks"])) == ns(marks["time_ps"].to_list())
    assert len(shown["lanes"]) == len(run.flows)
    waits = []
    for lane in shown["lanes"]:
        own = packets.filter((pl.col("flow") == lane["id"]) & pl.col("begin_ps").is_not_null())
        assert list(accumulate(lane["pk"]["a"])) == ns(own["arrive_ps"].to_list())
        begun = [a + 1000 * d for a, d in zip(own["arrive_ps"], lane["pk"]["d"], strict=True)]
        wire = (own["begin_ps"] + own["wire_bytes"] * 8000).to_list()
        assert all(0 <= left - drawn < 1000 for left, drawn in zip(wire, begun, strict=True))
        waits += [wait[1] for wait in lane["waits"] if not wait[3]]
        windows = run.windows.filter(
            (pl.col("connection") == run.flows[lane["id"]].connection) & ~pl.col("from_client")
        )
        flow = run.flows[lane["id"]]
        during = windows.filter(pl.col("time_ps").is_between(flow.begin, flow.end))
        assert lane["win"]["cwnd"] == during["cwnd_bytes"].to_list()
        assert lane["win"]["rwnd"] == during["rwnd_bytes"].to_list()
    timeouts = run.events.filter(pl.col("kind").str.starts_with("timeout") & ~pl.col("from_client"))
    last = max(flow.end for flow in run.flows.values())
    assert sorted(waits) == sorted(ns(timeouts.filter(pl.col("time_ps") <= last)["time_ps"].to_list()))
    # Goodput: all payload that left, once.
    width = shown["goodput"]["width"]
    delivered = sum(shown["goodput"]["bps"]) * width / 8e9
    once = packets.filter(pl.col("begin_ps").is_not_null() & pl.col("flow").is_not_null())
    assert delivered == pytest.approx(once.unique(["flow", "offset_bytes"])["payload_bytes"].sum(), rel=1e-6)


def test_what_the_page_says_is_what_it_draws() -> None:
    newreno, dctcp = recorded("newreno"), recorded("dctcp")
    text = page.build([newreno, dctcp])
    shown = document(text)["runs"]
    for run, drawn in zip((newreno, dctcp), shown, strict=True):
        assert drawn["label"] == {"newreno": "NewReno", "dctcp": "DCTCP"}[str(run.sender)]
        assert f"{len(drawn['drops']):,} dropped at the port" in text
        assert f"{run.summary['timeouts']} timeouts" in text
        most = max(drawn["queue"]["bytes"])
        assert f"{drawn['label']}: at most {most / 1024:.4g} KiB waited" in text
    assert {run["light"] for run in shown} == {"#c84c00", "#0b5aa5"}
    assert shown[0]["dash"] != shown[1]["dash"]
    assert "✕ dropped" in text
    lossless = page.build([dctcp])
    assert len(document(lossless)["runs"][0]["drops"]) == 0
    assert "✕ dropped" not in page.queue_title([Drawn(dctcp, dctcp.port(), "x")])
    # Every share of every flow is there on a click.
    why = shown[0]["why"]
    assert set(why) == {str(flow.id) for flow in newreno.flows.values()}


@pytest.mark.parametrize(("part", "said"), [(1.0, "all"), (0.9999, "more than 99%"), (0.994, "99%"), (0.0, "0%")])
def test_a_share_is_all_only_if_nothing_is_missing(part: float, said: str) -> None:
    assert page.share(part) == said


def test_a_limit_far_above_the_queue_is_said_and_not_drawn() -> None:
    run = recorded("dctcp")
    near = Drawn(run, run.port(), "x")
    assert "dashed: room for 64 KiB" in page.queue_title([near])
    assert page.units([near])["top"] == 0
    far = Drawn(run, replace(run.port(), limit_bytes=2**24), "x")
    assert "far above: the room for 16 MiB" in page.queue_title([far])
    assert page.units([far])["top"] == far.queue["waiting_bytes"].max()


def test_idle_time_is_idle() -> None:
    run = recorded("newreno")
    drawn = Drawn(run, run.port(), "x")
    arrivals = run.packets.filter(pl.col("link") == drawn.port.link)["arrive_ps"].to_list()
    (shown,) = document(page.build([run]))["runs"]
    spans = shown["busy"]
    assert all(a <= b for a, b in spans)
    assert all(before[1] < after[0] for before, after in pairwise(spans))
    assert len(spans) > 1
    for at in ns(arrivals):
        assert any(a - 1 <= at <= b for a, b in spans)
    busy = sum(b - a for a, b in drawn.line)
    assert drawn.idle == pytest.approx(1 - busy / (drawn.end - drawn.begin))
    assert 0.9 < drawn.idle_with_timer <= 1


def as_on_a_kernel(run: Recorded, *, events: bool = True) -> Recorded:
    """Leave of a run what is recorded on a kernel."""
    kinds = pl.when(pl.col("kind").str.starts_with("timeout")).then(pl.lit("timeout-untold")).otherwise("kind")
    tables = {
        **run._tables,
        "machine": pl.DataFrame({"kernel": ["6.18"]}),
        "packets": run._tables["packets"].clear(),
        "events": run._tables["events"].with_columns(kind=kinds, armed_ps=pl.lit(None, pl.Int64)).head(10**9 * events),
    }
    return Recorded(tables, run.summary, "kernel", outline=True)


def test_a_run_on_a_kernel_is_drawn_beside_one_in_the_simulator_as_far_as_it_was_recorded() -> None:
    simulated = recorded("linux")
    kernel = as_on_a_kernel(simulated)
    assert {flow.id: flow.offset for flow in kernel.flows.values()} == {
        flow.id: flow.offset for flow in simulated.flows.values()
    }
    text = page.build([simulated, kernel])
    one, other = document(text)["runs"]
    assert [one["label"], other["label"]] == ["packets", "linux"]
    assert (one["packets"], other["packets"]) == (True, False)
    for what in ("queue", "drops", "begin", "end", "limit"):
        assert other[what] == one[what], what
    lanes = {lane["id"]: lane for lane in one["lanes"]}
    assert {lane["id"] for lane in other["lanes"]} == set(lanes)
    assert sum(len(lane["drops"]) for lane in other["lanes"]) > 0
    for lane in other["lanes"]:
        same = lanes[lane["id"]]
        for what in ("begin", "end", "win"):
            assert lane[what] == same[what], what
        for what in ("drops", "fast"):
            assert [at for at, _ in lane[what]] == [at for at, _ in same[what]], what
        # When it ran out, not since when it ran.
        timeouts = [fired for _, fired, _, is_probe in same["waits"] if not is_probe]
        assert [(a, b) for a, b, _, is_probe in lane["waits"] if not is_probe] == [(at, at) for at in timeouts]
        assert lane["pk"]["a"] == []
        assert "cannot be told" in other["why"][str(lane["id"])]
    assert other["goodput"]["bps"] == []
    assert "not recorded: linux" in text
    assert "outstanding, nothing at the port; linux: outstanding<" in text
    assert "linux: packets at the port were not recorded." in text
    assert "line idle" in page.card(Drawn(simulated, simulated.port(), "x"), 0)
    assert "line idle" not in page.card(Outline(kernel, kernel.port(), "x"), 0)


def test_packets_of_a_run_on_a_kernel_are_drawn_and_waits_only_where_it_is_known_since_when_a_timer_ran() -> None:
    simulated = recorded("newreno")
    fired = pl.col("kind").str.starts_with("timeout") | (pl.col("kind") == "tail-probe")
    events = simulated._tables["events"].sort("time_ps", maintain_order=True)
    first = events.filter(fired)["time_ps"][0]
    known = pl.when(pl.col("time_ps") == first).then("armed_ps")
    # The kernel tells a little later of what it does to a packet, and does not say why a timer ran out.
    later = pl.when(pl.col("kind").is_in(["drop", "retransmission"])).then(5_000_000).otherwise(0)
    kinds = pl.when(pl.col("kind").str.starts_with("timeout")).then(pl.lit("timeout-untold")).otherwise("kind")
    tables = {
        **simulated._tables,
        "machine": pl.DataFrame({"kernel": ["6.18"]}),
        "events": events.with_columns(kind=kinds, armed_ps=known, time_ps=pl.col("time_ps") + later),
    }
    kernel = Recorded(tables, simulated.summary, "kernel")
    text = page.build([simulated, kernel])
    one, other = document(text)["runs"]
    assert (one["timed"], other["timed"], other["packets"]) == (True, False, True)
    for lane, same in zip(other["lanes"], one["lanes"], strict=True):
        assert (lane["id"], lane["pk"]) == (same["id"], same["pk"])
        assert len(lane["drops"]) == len(same["drops"])
        waits = [(armed if fired * 1000 == pytest.approx(first, abs=1000) else fired, fired)
                 for armed, fired, *_ in same["waits"]]  # fmt: skip
        assert [(armed, fired) for armed, fired, *_ in lane["waits"]] == waits
    drawn = Drawn(kernel, kernel.port(), "linux")
    assert drawn.untimed == events.filter(fired & (pl.col("time_ps") != first)).height > 0
    assert f"linux: since when timers ran is not known of {drawn.untimed}; " in text
    assert "; linux: waiting, with the packet that leaves next" in text
    stories = {story.flow.id: story for story in drawn.lanes}
    same_stories = {story.flow.id: story for story in Drawn(simulated, simulated.port(), "x").lanes}
    told = [step.text for story in stories.values() for step in story.steps]
    assert any("since when it ran is not known. Packet" in step for step in told)
    for flow, story in stories.items():
        unknown = sum(wait.armed == wait.fired for wait in story.waits)
        assert (f"Since when {unknown} of its timers ran is not known" in story.headline) is (unknown > 0)
        assert sum(story.shares.values()) == story.flow.end - story.flow.begin
        assert ("without a timeout" in story.labels()["repair"]) is (unknown == 0)
        # What waited where a packet was dropped is told all the same, and packets without payload are not its losses.
        found = [[" waited there" in step.text for step in one.steps if step.kind == "drop"]
                 for one in (story, same_stories[flow])]  # fmt: skip
        assert found[0] == found[1]


def test_a_run_on_a_kernel_without_events_says_that_they_were_not_recorded() -> None:
    kernel = as_on_a_kernel(recorded("newreno"), events=False)
    drawn = Outline(kernel, kernel.port(), "x")
    assert not drawn.records_events
    assert f"{kernel.summary['drops']:,} dropped at the port" in page.card(drawn, 0)
    assert "timeout" not in page.card(drawn, 0)
    text = page.build([kernel])
    assert "losses, retransmissions and timeouts of its flows were not recorded" in text
    assert "lost packets" not in page.lanes_section(drawn, 0)
    assert page.flows_table([drawn]).count("not recorded") == 5 * len(drawn.lanes)


def test_what_needs_packets_refuses_a_run_on_a_kernel() -> None:
    run = recorded("newreno")
    tables = {**run._tables, "machine": pl.DataFrame({"kernel": ["6.18"]}), "packets": run._tables["packets"].clear()}
    with pytest.raises(
        package.ScenarioError, match=r"on a kernel did not record its packets \(record\.packets\); incast report"
    ):
        Recorded(tables, run.summary, "x")
    with pytest.raises(package.ScenarioError, match="did not record a queue"):
        Recorded({**tables, "queues": tables["queues"].clear()}, run.summary, "x", outline=True)


def test_a_capture_of_a_run_without_packets_is_refused() -> None:
    kernel = as_on_a_kernel(recorded("newreno"))
    with pytest.raises(package.ScenarioError, match="did not record its packets"):
        kernel.any_port()


def test_long_runs_are_thinned_but_no_loss_and_no_timeout_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    run = recorded("newreno")
    (whole,) = document(page.build([run]))["runs"]
    monkeypatch.setattr(data, "MOST_QUEUE", 200)
    monkeypatch.setattr(data, "MOST_WINDOWS", 500)
    monkeypatch.setattr(data, "MOST_PACKETS", 300)
    monkeypatch.setattr(data, "MOST_LANES", 8)
    monkeypatch.setattr(page, "MOST_LANES", 8)
    text = page.build([run])
    (thin,) = document(text)["runs"]
    assert len(thin["queue"]["t"]) <= 200 < len(whole["queue"]["t"])
    assert max(thin["queue"]["bytes"]) == max(whole["queue"]["bytes"])
    assert thin["drops"] == whole["drops"]
    slowest = sorted(run.flows.values(), key=lambda flow: flow.begin - flow.end)[:8]
    assert {lane["id"] for lane in thin["lanes"]} == {flow.id for flow in slowest}
    assert thin["others"]["flows"] == len(run.flows) - 8
    drops = sum(len(lane["drops"]) for lane in thin["lanes"]) + len(thin["others"]["drops"])
    assert drops == sum(len(lane["drops"]) for lane in whole["lanes"]) == run.summary["drops"]
    waits = sum(len(lane["waits"]) for lane in thin["lanes"]) + len(thin["others"]["waits"])
    assert waits == run.events.filter(pl.col("kind").str.starts_with("timeout")).height == run.summary["timeouts"]
    assert "the 8 slowest of 40 flows have a row of their own" in text
    one_by_one, drawn = (sum(len(lane["pk"]["a"]) for lane in shown["lanes"]) for shown in (whole, thin))
    assert drawn <= 300 < one_by_one
    assert "drawn as blocks" in text
    in_blocks = [sum(lane["pk"]["n"]) for lane in thin["lanes"] if lane["pk"]["n"]]
    assert in_blocks
    left = run.packets.filter(pl.col("begin_ps").is_not_null())
    for lane in thin["lanes"]:
        own = len(left.filter(pl.col("flow") == lane["id"]))
        assert own == (sum(lane["pk"]["n"]) if lane["pk"]["n"] else len(lane["pk"]["a"]))


def test_of_many_marks_and_steps_some_are_drawn_and_the_page_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    dctcp, newreno = recorded("dctcp"), recorded("newreno")
    marks = Drawn(dctcp, dctcp.port(), "x").marks["time_ps"].to_list()
    assert not any("is drawn" in page.note([Drawn(run, run.port(), "x")]) for run in (dctcp, newreno))
    whole = {story.flow.id: len(story.steps) for story in Drawn(newreno, newreno.port(), "x").lanes}
    monkeypatch.setattr(data, "MOST_MARKS", 50)
    monkeypatch.setattr(data, "MOST_STEPS", 2 * len(whole))
    thin = Drawn(dctcp, dctcp.port(), "x")
    assert len(marks) > 200
    assert 10 < len(thin.drawn_marks) <= 51
    # The first of each stretch: none is made up, and none is far from one that is drawn.
    assert set(thin.drawn_marks.tolist()) <= set(marks)
    drawn = np.array(thin.drawn_marks)
    last_drawn = drawn[np.searchsorted(drawn, marks, side="right") - 1]
    assert max(np.array(marks) - last_drawn) <= thin.mark_ps
    assert f"of {len(marks):,} marks the first in each " in page.note([thin])
    told = Drawn(newreno, newreno.port(), "x").lanes
    assert any(story.left_out for story in told)
    for story in told:
        assert len(story.steps) + story.left_out == whole[story.flow.id]
        assert (f"{story.left_out} shorter step" in page.why(story)) is (story.left_out > 0)


def test_packets_belong_to_the_last_flow_that_begins_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded_module, "_AT_ONCE", 7)
    run = recorded("newreno")
    (some, *_) = run.flows.values()
    # Sides without flows, offsets before the first flow and far behind the last, two flows at one offset.
    begins = [(2, True, 100), (2, True, 2**45), (2, False, 0), (5, False, 10), (5, False, 10), (5, False, 30)]
    flows = [
        replace(some, id=number, connection=connection, from_client=side, offset=offset)
        for number, (connection, side, offset) in enumerate(begins)
    ]
    rows = [(c, side, offset) for c in (1, 2, 5, 9) for side in (False, True) for offset in (0, 9, 10, 99, 100, 2**46)]
    packets = pl.DataFrame(rows, schema=["connection", "from_client", "offset_bytes"], orient="row")
    expected = [
        max(((flow.offset, flow.id) for flow in flows
             if (flow.connection, flow.from_client) == (c, side) and flow.offset <= offset), default=(0, -1))[1]
        for c, side, offset in rows
    ]  # fmt: skip
    assert recorded_module._Owners(flows).of(packets).tolist() == expected
    assert recorded_module._Owners([]).of(packets).tolist() == [-1] * len(rows)


@pytest.mark.parametrize("most", [4, 9, 40, 400])
def test_a_thinned_series_keeps_the_ends_and_the_extremes_of_every_stretch(most: int) -> None:
    values = [number * 7919 % 101 for number in range(103)]
    rows = pl.DataFrame({"at": range(103), "value": values})
    kept = data.extremes(rows, "value", most)["at"].to_list()
    stretch = 1 if most >= 103 else -(-103 * 4 // most)
    expected = set()
    for first in range(0, 103, stretch):
        part = range(first, min(103, first + stretch))
        expected |= {part[0], part[-1], min(part, key=values.__getitem__), max(part, key=values.__getitem__)}
    assert kept == sorted(expected)


def test_a_page_does_not_read_what_only_traces_need(small: Path, tmp_path: Path) -> None:
    package.run(small, inside=True).write(tmp_path / "run")
    assert "sack" not in Recorded.read(tmp_path / "run").packets.columns
    assert "sack" in Recorded.read(tmp_path / "run", headers=True).packets.columns


def test_what_users_write_is_text_on_the_page() -> None:
    run = recorded("dctcp")
    hostile = Recorded(run._tables, {**run.summary, "scenario": HOSTILE}, HOSTILE)
    plain, said = Page(page.build([run])), Page(page.build([hostile], labels=[HOSTILE]))
    assert said.active == plain.active
    assert HOSTILE in said.text
    (shown,) = document(page.build([hostile], labels=[HOSTILE]))["runs"]
    # The script writes labels as text, and nothing that a user wrote stands in what it takes for HTML.
    assert not any("alert(1)" in text for text in shown["why"].values())


def test_the_same_runs_give_the_same_bytes_and_the_page_needs_nothing_else() -> None:
    runs = [recorded("newreno"), recorded("dctcp")]
    text = page.build(runs)
    assert text == page.build(runs)
    assert len(text) < 3_000_000
    assert not re.search(r"""(src|srcset|href)=["'](?!data:|#)""", text)
    assert "MIT License" in text


@pytest.mark.parametrize(("style", "rule"), [(figures.LIGHT, ":root"), (figures.DARK, ".dark")], ids=["light", "dark"])
@pytest.mark.parametrize("seen", SEEN)
def test_the_page_can_be_read_and_its_colours_told_apart(style: figures.Style, rule: str, seen: str) -> None:
    css = resources.files("incast.report").joinpath("page.html").read_text(encoding="utf-8")
    (body,) = re.findall(rf"^{re.escape(rule)} {{(.*)}}$", css, re.MULTILINE)
    colours = {name: value if len(value) == 7 else "#" + "".join(2 * one for one in value[1:])
               for name, value in re.findall(r"--(\w+): (#\w+);", body)}  # fmt: skip
    assert colours["paper"] == style.paper
    for paper in ("paper", "soft"):
        for text in ("ink", "muted", "link"):
            assert contrast(colours[text], colours[paper]) >= TEXT, (text, paper)
        for mark in ("wait", "drop", "fast"):
            assert contrast(colours[mark], colours[paper]) >= GRAPHICS, (mark, paper)
    # A bar that waits is told from packets by its fill, whatever the protocol; crosses and triangles by their shapes.
    for own in style.cycle:
        assert distance(colours["waitfill"], own, SEEN[seen]) >= 10, own


DRIVE = """
addEventListener("error", (e) => { document.title = "broken: " + e.message; });
addEventListener("unhandledrejection", (e) => { document.title = "broken: " + e.reason; });
const wait = setInterval(() => {
  if (!window.incastReport) return;
  clearInterval(wait);
  const { charts, does, choose, doc, go, point, show, toT, toX } = window.incastReport;
  const view = () => window.incastReport.view, total = () => window.incastReport.total;
  for (const name of ["wait", "packets", "burst", "in", "out", "all"]) does[name]();
  for (const id of doc.order) choose(id);
  for (const t of [0, 1e6, 2e8]) if (Math.abs(toT(toX(t)) - t) > 1) throw new Error("time is folded wrongly at " + t);
  document.getElementById("fold").click();
  document.querySelector("[data-run='1']").click();
  const over = document.querySelector(".run .u-over"), box = over.getBoundingClientRect();
  for (let y = 2; y < box.height; y += 9) for (let x = 2; x < box.width; x += 31)
    over.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX: box.left + x, clientY: box.top + y }));
  for (const key of ["ArrowLeft", "+", "n", "p", "ArrowDown", "0"])
    document.getElementById("stage").dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  point(5e6);
  setTimeout(() => {
    // Packets are pixels, from far away, or blocks: in their row, beside the line in its middle.
    for (const part of [1, 0.05, 0.001]) {
      const u = charts.find((one) => one.run), { left, top, width, height } = u.bbox, row = height / doc.order.length;
      doc.order.forEach((id, number) => {
        const lane = u.run.lane.get(id), i = Math.floor(lane.pk.a.length / 2);
        const at = toX((lane.pk.a[i] + lane.pk.e[i]) / 2);
        // They may cover it.
        Object.assign(lane, { dropped: [], repaired: [], expired: [], probed: [], waits: [], ends: [] });
        go(part === 1 ? 0 : at - (part * total()) / 2, part === 1 ? total() : at + (part * total()) / 2);
        u.hooks.draw.forEach((paint) => paint(u));
        const x = left + ((at - view()[0]) / (view()[1] - view()[0])) * width, y = top + (number + 0.7) * row;
        const [red, green, blue] = u.ctx.getImageData(Math.floor(x), Math.floor(y), 1, 1).data;
        if (red > 240 && green > 240 && blue > 240) throw new Error("no packet of flow " + id + " in its row");
      });
    }
    // Of many drops the picture shows in which columns there are some, and the pointer tells how many there are.
    const u = charts.find((one) => one.run), lane = u.run.lane.get(doc.order[0]), { left, top, width, height } = u.bbox;
    lane.dropped = Array.from({ length: 300 }, (_, i) => lane.begin + (i * (lane.end - lane.begin)) / 700);
    lane.columns = null;
    go(0, total());
    u.ctx.clearRect(0, 0, u.ctx.canvas.width, u.ctx.canvas.height);
    u.hooks.draw.forEach((paint) => paint(u));
    const y = 0.9 * (height / doc.order.length), { data } = u.ctx.getImageData(left, Math.floor(top + y), width, 1);
    const isRed = (x) => data[4 * x] > 150 && data[4 * x + 1] < 60 && data[4 * x + 2] < 60;
    const lines = Array.from({ length: width }, (_, x) => x).filter(isRed).length;
    const columns = new Set(lane.dropped.map((at) => Math.floor((toX(at) / total()) * width))).size;
    if (Math.abs(lines - columns) > 2) throw new Error(`${lines} columns have a line, ${columns} have drops`);
    const rows = u.over.getBoundingClientRect(), clientX = rows.left + (toX(lane.dropped[150]) / total()) * rows.width;
    const clientY = rows.top + (y / height) * rows.height;
    u.over.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX, clientY }));
    setTimeout(() => {
      const tip = document.getElementById("tip").innerText;
      if (!/[0-9]+ packets dropped from/.test(tip)) throw new Error("the pointer tells " + tip);
      doc.runs.forEach((run) => run.lanes.forEach((one) => { one.dropped = one.drops.map(([at]) => at); }));
      does.packets();
      setTimeout(() => {
        const first = Math.min(...doc.runs.filter((run) => run.on && run.drops.length).map((run) => run.drops[0]));
        const said = document.querySelector("#readout td").textContent;
        if (said !== (first / 1e6).toFixed(3) + " ms") throw new Error(`the first loss is at ${first} ns, not ${said}`);
        document.title = document.title.startsWith("broken") ? document.title : "driven";
      }, 400);
    }, 400);
  }, 300);
}, 20);
"""


def test_the_script_runs_without_an_error(tmp_path: Path) -> None:
    text = page.build([recorded("newreno"), recorded("dctcp")])
    file = tmp_path / "report.html"
    file.write_text(text.replace("<script>", f"<script>{DRIVE}</script><script>", 1), encoding="utf-8")
    for width in (1200, 390):
        done = programs.chromium(tmp_path / str(width), file, f"--window-size={width},900", "--dump-dom")
        (title,) = re.findall("<title>(.*?)</title>", done.stdout)
        assert title == "driven", done.stderr[-2000:]
        assert 'data-ready="true"' in done.stdout
        assert not programs.complaints(done)
        assert re.search(r"Windows of flow \d+", done.stdout)


@pytest.mark.parametrize(
    ("receiver", "said", "unsaid"),
    [
        ("none", "far above: the receive window, at least 1 GiB", "long dashes"),
        ("ictcp", "long dashes: receive window", "far above: the receive window"),
    ],
)
def test_the_receive_window_is_drawn_or_said(receiver: str, said: str, unsaid: str, tmp_path: Path) -> None:
    changes = {"traffic.requests.workers": 4, "traffic.requests.rounds": 1, "stack.receiver": receiver, **INSIDE}
    run = Recorded.of(package.run("incast", set=changes))
    file = tmp_path / "report.html"
    file.write_text(page.build([run]), encoding="utf-8")
    done = programs.chromium(tmp_path, file, "--dump-dom")
    (key,) = re.findall('id="windows_key">(.*?)<', done.stdout)
    assert said in key, done.stderr[-2000:]
    assert unsaid not in key
    assert key.startswith("(line: congestion window; filled: in flight")


# ---- traces


def blocks(capture: bytes) -> list[tuple[int, bytes]]:
    found, at = [], 0
    while at < len(capture):
        kind, length = struct.unpack_from("<II", capture, at)
        assert struct.unpack_from("<I", capture, at + length - 4) == (length,)
        found.append((kind, capture[at + 8 : at + length - 4]))
        at += length
    return found


@pytest.mark.parametrize("side", ["arriving", "leaving"])
def test_a_capture_holds_the_packets_of_its_port(side: export.Side) -> None:
    run = recorded("newreno")
    port = run.port()
    rows = run.packets.filter(pl.col("link") == port.link)
    if side == "leaving":
        rows = rows.filter(pl.col("begin_ps").is_not_null())
    packets = [body for kind, body in blocks(export.pcapng(run, port, side)) if kind == 6]
    assert not any(run.packets["sack"].to_list())
    assert len(packets) == len(rows)
    times = [(high << 32) + low for high, low in (struct.unpack_from("<II", body, 4) for body in packets)]
    assert times == sorted(ns(rows["arrive_ps" if side == "arriving" else "begin_ps"].to_list()))
    dropped = sum(b"dropped" in body for body in packets)
    assert dropped == (rows["dropped"].sum() if side == "arriving" else 0)
    for body, row in zip(packets, rows.to_dicts(), strict=True):
        assert struct.unpack_from("<I", body, 16) == (max(row["wire_bytes"], 40),)
        assert body[20 + 32] == 0x50
        (length,) = struct.unpack_from("!H", body, 20 + 2)
        sequence, acknowledgement = struct.unpack_from("!II", body, 20 + 24)
        assert length == 40 + row["payload_bytes"]
        assert sequence == row["offset_bytes"] + (0 if row["flags"] & 2 else 1)
        assert acknowledgement == row["ack_bytes"] + 1
        assert body[20 + 33] == row["flags"] & 0xFF


def test_tshark_reads_a_capture(tmp_path: Path) -> None:
    run = recorded("newreno")
    file = tmp_path / "port.pcapng"
    file.write_bytes(export.pcapng(run, run.port()))
    rows = programs.tshark(
        file, "frame.comment", "tcp.analysis.retransmission", "tcp.len", "tcp.analysis.fast_retransmission",
        "tcp.analysis.out_of_order", "_ws.malformed",
    )  # fmt: skip
    assert len(rows) == len(run.packets)
    assert sum("dropped" in row[0] for row in rows) == run.summary["drops"]
    assert [int(row[2]) for row in rows] == run.packets["payload_bytes"].to_list()
    assert not any(row[5:] and row[5] for row in rows)
    again = sum(any(row[index] for index in (1, 3, 4)) for row in rows)
    assert again == run.packets.filter(pl.col("number") > 1).height


def options_of(run: Recorded, port: str, file: Path, *fields: str) -> tuple[pl.DataFrame, list[list[str]]]:
    """Return the packets at a port, and fields that tshark finds in a capture of it."""
    chosen = run.any_port(port)
    file.write_bytes(export.pcapng(run, chosen))
    rows = programs.tshark(file, "_ws.malformed", "_ws.expert.message", *fields)
    assert not any(row[0] for row in rows)
    packets = run.packets.filter(pl.col("link") == chosen.link)
    assert len(rows) == len(packets)
    return packets, [row[2:] for row in rows]


def test_tshark_finds_the_options_of_tcp_at_the_port_of_a_host(tmp_path: Path) -> None:
    changes: dict[str, object] = {
        **INSIDE, "record.packets": ["bottlenecks", "hosts"], "tcp.profile": "linux", "tcp.mss": "1024B",
        "tcp.header": "40B", "tcp.timestamps": False, "tcp.handshake": "counted", "tcp.receive_buffer": "1MB",
        "traffic.requests.workers": 20, "traffic.requests.rounds": 2,
    }  # fmt: skip
    run = Recorded.of(package.run("incast", set=changes))
    fields = ("tcp.options.sack_le", "tcp.options.sack_re", "tcp.options.wscale.shift", "tcp.options.mss_val",
              "tcp.window_size", "tcp.flags.syn", "tcp.options.sack_perm", "tcp.ack", "tcp.stream")  # fmt: skip
    # Where the ACKs of all senders begin their way.
    packets, rows = options_of(run, "host 0", tmp_path / "host.pcapng", *fields)
    assert packets["from_client"].all()
    # tshark counts from each connection's first number, which is 0 here as well.
    syns = 0
    for packet, (left, right, shift, mss, window, syn, permitted, ack, _) in zip(packets.to_dicts(), rows, strict=True):
        edges = [f"{int(edge) + 1}" for block in packet["sack"].split() for edge in block.split("-")]
        assert (left.split(",") if left else []) == edges[::2]
        assert (right.split(",") if right else []) == edges[1::2]
        assert syn in {"0", "1"}
        if syn == "1":
            syns += 1
            assert (mss, bool(permitted)) == ("1024", True)
            assert int(shift) >= 1
            assert int(window) == min(packet["rwnd_bytes"], 65_535)
        else:
            # The scale is that of the SYN, and no window loses a byte by it.
            assert int(window) == packet["rwnd_bytes"]
            assert int(ack) == packet["ack_bytes"] + 1
    assert syns >= 20
    assert sum(bool(row[0]) for row in rows) > 20
    assert packets["rwnd_bytes"].max() > 65_535  # type: ignore[operator]
    with pytest.raises(package.ScenarioError, match=r"port 'host 99' were not recorded; there are: .*host 0, host 1"):
        run.any_port("host 99")


def test_tshark_finds_incast_marks_where_they_are_on_the_wire(tmp_path: Path) -> None:
    changes: dict[str, object] = {
        **INSIDE, "record.packets": ["bottlenecks", "hosts"], "stack.sender": "pulser",
        "switch.marker": {"name": "ein"}, "traffic.requests.workers": 20, "traffic.requests.rounds": 1,
    }  # fmt: skip
    run = Recorded.of(package.run("incast", set=changes))
    packets, rows = options_of(run, "switch->host 0", tmp_path / "marks.pcapng", "ip.dsfield", "ip.dsfield.ecn")
    marked = [flags & 1024 > 0 for flags in packets["flags"]]
    assert 0 < sum(marked) < len(marked)
    assert [int(tos, 16) & 4 > 0 for tos, _ in rows] == marked
    assert [int(ecn) for _, ecn in rows] == [
        3 if flags & 512 else 2 if flags & 256 else 0 for flags in packets["flags"]
    ]
    fields = ("tcp.options.experimental.data", "tcp.options.experimental.exid", "tcp.srcport", "tcp.dstport")
    packets, rows = options_of(run, "host 0", tmp_path / "echoes.pcapng", *fields)
    echoed = [flags & 2048 > 0 for flags in packets["flags"]]
    assert any(echoed)
    counts: Counter[str] = Counter()
    for echo, (told, magic, client, _) in zip(echoed, rows, strict=True):
        counts[client] += echo
        assert bool(magic) is echo
        assert not echo or (int(magic, 16), int(told, 16)) == (0xE1A0, counts[client])


def test_trace_events_hold_flows_waits_and_losses() -> None:
    run = recorded("newreno")
    events = json.loads(export.perfetto(run, run.port()))["traceEvents"]
    kinds = Counter((event["ph"], event["name"].split(" ")[0]) for event in events)
    assert kinds["X", "flow"] == len(run.flows)
    assert kinds["i", "loss"] == run.summary["drops"]
    assert sum(event["name"].startswith("timeout") for event in events) == run.summary["timeouts"]
    for event in events:
        if event["ph"] == "X":
            assert event["dur"] >= 0
    flow = next(event for event in events if event["ph"] == "X" and event["name"] == "flow 3")
    own: Flow = run.flows[3]
    assert (flow["ts"], flow["dur"]) == (own.begin / 1e6, (own.end - own.begin) / 1e6)
