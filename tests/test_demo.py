"""The demo page, and the pages that show its figure: what they say is what was simulated."""

from __future__ import annotations

import csv
import html
import json
import re
import shlex
import tomllib
from pathlib import Path

import polars as pl
import pytest

import incast as package
from conftest import Command
from incast import _native, demo, demo_page

ROOT = Path(__file__).parents[1]


def test_a_small_demo_makes_a_page_that_needs_nothing_else(incast: Command, tmp_path: Path) -> None:
    done = incast("demo", "--out", "demo", "--senders", "12", "--seeds", "2")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "demo" / "index.html").read_text(encoding="utf-8")
    assert "$" not in page
    assert page.count("<svg") == 1 + 4 + 4
    assert not re.search("#[0-9a-f]{6}", "".join(re.findall("<svg.*?</svg>", page))), (
        "a colour that is not one of the page"
    )
    assert len(page) < 1_000_000
    assert not re.search(r"""(src|srcset|href)=["'](?!#)""", page)
    assert "NewReno" in done.stdout
    assert "DCTCP" in done.stdout
    for name in ("goodput", "queues", "windows"):
        picture = tmp_path / "demo" / f"{name}.png"
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert str(picture.relative_to(tmp_path)) in done.stdout
    rows = (tmp_path / "demo" / "goodput.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 1 + 2 * (2 * 12 + 3 * 7)
    again, run = (shlex.split(html.unescape(command)) for command in re.findall("<pre>(incast .*)</pre>", page))
    assert again == ["incast", "demo", "--senders", "12", "--seeds", "2"]
    assert incast(*run[1:], "--out", "again").returncode == 0


def test_the_same_demo_gives_the_same_bytes(incast: Command, tmp_path: Path) -> None:
    for out in ("one", "two"):
        assert incast("demo", "--out", out, "--senders", "2", "--seeds", "2").returncode == 0
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert len(files) == 5
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name
    told = incast("demo", "--out", "two", "--senders", "2", "--seeds", "2", "--json")
    shown = json.loads(told.stdout)
    first = {"curve": "NewReno", "senders": 1}
    assert {name: shown["goodput"][0][name] for name in first} == first
    rows = (tmp_path / "one" / "goodput.csv").read_text(encoding="utf-8").splitlines()
    assert sum(len(point["goodput_bps"]) for point in shown["goodput"]) == len(rows) - 1
    assert [line["title"] for line in shown["rounds"]][:2] == ["NewReno, 2 senders", "NewReno, 2 senders"]
    assert shown["rounds"][0]["timeouts"] == 0
    page = (tmp_path / "one" / "index.html").read_text(encoding="utf-8")
    assert "With 2, no packet is dropped, and there are no timeouts" in page
    # Nothing is said of what did not happen here.
    assert "the link is idle" not in page
    assert "wait for its timer, which runs for at least 200&nbsp;ms, 2,000 times the round-trip time" in page
    assert "Thin lines" not in page


@pytest.mark.parametrize(
    ("goodput", "said"),
    [
        ({1: 1, 2: 7, 5: 1}, "From 5 senders on (not yet with 2), <strong>x</strong> delivers less than half"),
        ({1: 5, 2: 7, 3: 1, 4: 1}, "From 3 senders on, <strong>x</strong> delivers less than half"),
        ({1: 5, 2: 7, 3: 1, 4: 6, 8: 1, 9: 3}, "3 senders, and stays below it from 8 on (not yet with 4): 2 Mbit/s on"),
        ({1: 5, 2: 7, 3: 1, 4: 6}, "falls below half of its best goodput at some points, first at 3 senders."),
        ({1: 5, 60: 7, 61: 6}, "keeps at least half of its best goodput up to 61 senders."),
    ],
)  # fmt: skip
def test_the_page_says_where_goodput_falls_by_numbers_that_were_simulated(goodput: dict[int, int], said: str) -> None:
    assert said in demo_page._finding("x", {n: mbps * 1e6 for n, mbps in goodput.items()})


def test_a_round_is_told_as_it_was() -> None:
    before, after = demo.timeline("NewReno", 2), demo.timeline("NewReno", 40)
    assert (demo_page._drops(before), demo_page._timeouts(before)) == ("no packet is dropped", "there are no timeouts")
    dropped, timeouts = after.drops, after.timeouts
    assert dropped > 1
    assert timeouts > 1
    assert demo_page._drops(after) == f"{dropped} packets are dropped"
    assert demo_page._timeouts(after) == f"there are {timeouts} timeouts"
    # The tables alone say the same: what the port did not send, and since when timers ran.
    rest, found = _spans(40)
    assert after.idle_s == pytest.approx(rest)
    assert after.shortest_timer_s == pytest.approx(found) == pytest.approx(0.2, rel=0.01)
    assert before.shortest_timer_s is None
    lines = [before, after, demo.timeline("DCTCP", 40), demo.timeline("credit", 40)]
    said = demo_page._rounds(lines, 2, 40)
    assert f"For {rest * 1e3:.0f}&nbsp;ms the link is idle; 99.9&nbsp;% of that time some sender waits" in said
    assert f"The round takes {after.end_s * 1e3:.0f}&nbsp;ms; the link needs 21&nbsp;ms for the payload." in said
    assert demo_page._timer(lines) == (
        ". The shortest of them ran for 200&nbsp;ms, 2,000 times the round-trip time of an idle network"
    )
    assert demo_page._thin([before]) == ""
    assert demo_page._thin(lines) == " Thin lines are the other senders."
    # The windows are those of the senders of responses, not of the requests on the same connections.
    assert not before.windows["from_client"].any()
    assert after.queues["waiting_bytes"].max() <= demo.BUFFER_KIB * 1024


def _spans(senders: int) -> tuple[float, float]:
    """Return how long the port to the client sent no payload, and how long the shortest timer ran."""
    inside = {"record.packets": ["bottlenecks"], "record.events": True}
    changes = {**demo.changes("NewReno", senders, 1), **inside}
    result = package.run(demo.SCENARIO, set=changes, seed=1)
    packets, events, flows = (pl.DataFrame(result.table(name)) for name in ("packets", "events", "flows"))
    sent = packets.filter(pl.col("wait_ps").is_not_null() & (pl.col("payload_bytes") > 0))
    busy = sum(sent["wire_bytes"].to_list()) * 8 / demo.LINE_RATE_BPS
    took = max(flows["end_s"].to_list()) - min(flows["start_s"].to_list())
    timers = events.filter(pl.col("kind").str.starts_with("timeout"))
    ran = (timers["time_ps"] - timers["armed_ps"]).to_list()
    return took - busy, min(ran) / 1e12


@pytest.mark.parametrize(("share", "said"), [(1.0, "all"), (0.9999, "99.9&nbsp;%"), (0.5, "50&nbsp;%")])
def test_a_share_is_all_only_if_nothing_is_missing(share: float, said: str) -> None:
    assert demo_page._share(share) == said


def test_the_page_describes_the_scenario_that_it_runs() -> None:
    scenario = tomllib.loads(_native.example(demo.SCENARIO))
    link, buffer, tcp = scenario["topology"]["link"], scenario["switch"]["buffer"], scenario["tcp"]
    traffic, noise = scenario["traffic"]["requests"], scenario["hosts"]["noise"]
    said = {
        "Network": link["rate"], "Hosts": noise["mean"], "Buffer per switch port": buffer["limit"],
        "Response of each sender": traffic["response"], "Initial window": f"{tcp['initial_window']}segment",
        "Jitter": traffic["jitter"], "Minimum retransmission timeout": tcp["rto_min"],
    }  # fmt: skip
    for head, value in said.items():
        assert re.sub(r"(\d)(?=[A-Za-z])", r"\1 ", value.replace("bps", "bit/s")) in dict(demo.DESCRIPTION)[head]
    assert link["delay"] == "25us"
    assert dict(demo.DESCRIPTION)["Round-trip time, idle"] == f"{4 * 25} us"
    assert scenario["switch"]["marker"]["threshold"] == "20packets"
    assert buffer == {"name": "static", "limit": f"{demo.BUFFER_KIB}KiB", "count_in_service": True}
    assert (tcp["mss"], tcp["header"], traffic["window"]) == (f"{demo.MSS_BYTES}B", "40B", "fresh")
    assert (demo.LINE_RATE_BPS, demo.RESPONSE_BYTES, demo.RTT_S, demo.RTO_MIN_S) == (1e9, 64 * 1024, 1e-4, 0.2)


def _shown() -> dict[tuple[str, int, int], tuple[float, float]]:
    with (ROOT / "docs/images/goodput.csv").open(encoding="utf-8", newline="") as file:
        return {
            (row["curve"], int(row["senders"]), int(row["seed"])): (
                float(row["goodput_bps"]),
                float(row["timeouts"]),
            )
            for row in csv.DictReader(file)
        }


def test_the_figure_on_the_front_page_is_of_today() -> None:
    shown = _shown()
    shown_counts = {label: {n for of, n, _ in shown if of == label} for label in demo.CURVES}
    counts = {label: [n for n in (3, 59, 60) if n in shown_counts[label]] for label in demo.CURVES}
    assert all(counts.values())
    for label, row in demo.sweep(counts, 5).items():
        for n in counts[label]:
            runs = zip(row[n].goodput_bps, row[n].timeouts, strict=True)
            for seed, (bps, timeouts) in enumerate(runs, start=1):
                assert shown[label, n, seed] == (float(f"{bps:.0f}"), timeouts), "draw it again: make demo"


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_front_pages_say_what_the_figure_shows(page: str) -> None:
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    (newreno,) = re.findall(r"From (\d+) senders on, NewReno collapses to a few percent of the link", text)
    (dctcp,) = re.findall(r"DCTCP has no timeouts up to (\d+) senders", text)
    (room,) = re.findall(r"fill the buffer, which holds (\d+)\.", text)
    (ictcp,) = re.findall(r"ICTCP keeps the link busy up to (\d+) senders", text)
    (credit,) = re.findall(r"`credit`, a change at the client alone, there are no timeouts up to (\d+)\.", text)
    shown = _shown()
    for (label, n, _), (bps, timeouts) in shown.items():
        if label == "NewReno":
            assert (bps < 0.07 * demo.LINE_RATE_BPS) is (n >= int(newreno)), n
        elif label == "ICTCP":
            assert n < 8 or (bps > 0.9 * demo.LINE_RATE_BPS) is (n <= int(ictcp)), n
        elif label == "RTOmin 1 ms":
            assert n < 3 or bps > 8 * shown["NewReno", n, 1][0], n
        elif label == "credit" and n <= int(credit):
            assert timeouts == 0, n
            assert n < 8 or bps > 0.9 * demo.LINE_RATE_BPS, n
        elif label == "DCTCP" and n <= int(dctcp):
            assert timeouts == 0, n
    assert any(shown["DCTCP", int(dctcp) + 1, seed][1] for seed in range(1, 6))
    assert int(room) == demo.BUFFER_KIB * 1024 // (demo.MSS_BYTES + 40)


def test_the_tutorial_explains_the_knee_of_dctcp_by_its_own_settings() -> None:
    text = " ".join((ROOT / "docs/tutorial/collapse.md").read_text(encoding="utf-8").split())
    (segments,) = re.findall(r"initial_window = (\d+)", text)
    assert (segments, "Every response starts with a window of one segment" in text) == ("1", True)
    (room, senders) = re.findall(r"room for (\d+) packets, so the first packets of (\d+) senders", text)[0]
    assert int(room) == demo.BUFFER_KIB * 1024 // (demo.MSS_BYTES + 40) < int(senders)
    assert 'limit = "64KiB", count_in_service = true' in text
    assert 'mss = "1024B"' in text
