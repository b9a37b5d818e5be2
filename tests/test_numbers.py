"""Estimates, units in text, time left, overrides."""

from __future__ import annotations

import io
import math
import re
from types import SimpleNamespace
from typing import Any

import pytest

from incast import _native, progress, scenarios, text
from incast.estimates import estimate


def test_the_interval_is_that_of_student() -> None:
    # Five samples with variance 2.5: 2.776 * sqrt(2.5 / 5).
    found = estimate([1.0, 2.0, 3.0, 4.0, 5.0])
    assert found.mean == 3.0
    assert found.half_width == pytest.approx(2.776 * math.sqrt(0.5))
    assert (found.low, found.high) == pytest.approx((3 - 1.96292, 3 + 1.96292), abs=1e-4)


def test_more_samples_than_the_table_use_the_expansion() -> None:
    # 41 samples: t(40) = 2.0211.
    samples = [(-1.0) ** i for i in range(40)] + [0.0]
    assert estimate(samples).half_width == pytest.approx(2.0211 * math.sqrt(1.0 / 41), rel=2e-4)


def test_one_sample_has_no_interval_and_none_no_mean() -> None:
    one = estimate([7.0])
    assert math.isnan(one.half_width)
    assert (one.low, one.high) == (7.0, 7.0)
    assert math.isnan(estimate([]).mean)


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.0, "0 s"), (2.5, "2.5 s"), (0.2, "200 ms"), (1e-4, "100 us"), (5e-9, "5 ns"), (None, "-")],
)
def test_times_are_written_in_their_unit(value: float | None, said: str) -> None:
    assert text.seconds(value) == said


@pytest.mark.parametrize(("value", "said"), [(59.4, "59 s"), (61.0, "1 min 01 s"), (7260.0, "2 h 01 min")])
def test_waiting_times_are_for_people(value: float, said: str) -> None:
    assert text.duration(value) == said


def _progress(**known: object) -> _native.Progress:
    empty: dict[str, object] = {
        "simulated_s": 0.0,
        "stop_at_s": None,
        "packet_hops": 0,
        "share": 0.0,
        "open_ends": 0,
        "messages_done": 0,
        "messages_total": 0,
        "finished": False,
    }
    return {**empty, **known}  # type: ignore[typeddict-item]


def _line(elapsed_s: float, **known: object) -> str:
    return progress.state(_progress(**known), elapsed_s).line()


def test_time_left_follows_the_messages_or_the_end_time_whichever_is_nearer() -> None:
    assert progress.state(_progress(), 1.0).left_s is None
    assert progress.state(_progress(messages_done=25, messages_total=100), 1.0).left_s == pytest.approx(3.0)
    both = _progress(messages_done=25, messages_total=100, simulated_s=0.5, stop_at_s=1.0)
    assert progress.state(both, 1.0).left_s == pytest.approx(1.0)


def test_the_progress_line_says_time_speed_messages_and_time_left() -> None:
    shown = _line(2.0, simulated_s=0.002, packet_hops=30_000_000, messages_done=1000, messages_total=4000)
    assert shown == "simulated 2 ms  15.0 M hops/s  1,000/4,000 messages  6 s left"


def test_the_progress_line_of_a_run_without_packets_tells_no_speed() -> None:
    shown = _line(2.0, simulated_s=0.002, messages_done=1000, messages_total=4000)
    assert shown == "simulated 2 ms  1,000/4,000 messages  6 s left"


def test_a_run_says_what_it_takes_by_the_share_that_has_arrived_once_its_first_losses_are_over() -> None:
    run = SimpleNamespace(expected=(30_000_000, 60_000_000))
    known = _progress(packet_hops=1_500_000, share=0.05, open_ends=40_000)
    said = "30.0 million packet-hops, 60 MB of memory, 12 s on one core, by its first 0.6 s"
    told, expected_s = progress._expected(run, known, 0.6)  # type: ignore[arg-type]
    assert (told, round(expected_s, 6)) == (said, 12.0)
    assert progress._is_past_the_first_losses(known)
    assert not progress._is_past_the_first_losses({**known, "packet_hops": 999_999})


def test_the_progress_of_runs_says_how_many_how_fast_and_what_is_left() -> None:
    shown = progress.of_runs(3, 12, 6.0, what="grid: ", also=("2 more already done",)).line()
    assert shown == "grid: 3 of 12 runs  2 more already done  0.5 runs/s  18 s left"
    assert progress.of_runs(0, 12, 6.0).line() == "0 of 12 runs"


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_a_bar_which_is_gone_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = _Terminal()
    monkeypatch.setattr("sys.stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(progress, "_BAR_EVERY_S", -1.0)
    with progress.Meter(lambda _: progress.of_runs(3, 12, 6.0, what="[grid]: ")) as meter:
        meter.show()
        drawn = _without_escapes(shown.getvalue())
    assert re.search(r"\[grid\]: 3 of 12 runs [━╺╸]+ 25 % 0\.5 runs/s 0 s, 18 s left", drawn), drawn
    # The line is erased, and the cursor is seen again.
    assert shown.getvalue().endswith("\x1b[2K")
    assert shown.getvalue().rindex("\x1b[?25h") > shown.getvalue().rindex("\x1b[?25l")


def test_a_log_has_a_line_now_and_then_and_no_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with progress.Meter(lambda _: progress.of_runs(3, 12, 6.0)) as meter:
        meter.show()
        assert capsys.readouterr().err == "", "what takes less than ten seconds is over before it would be read"
        monkeypatch.setattr(progress, "_LOG_EVERY_S", -1.0)
        meter.show()
    assert capsys.readouterr() == ("", "3 of 12 runs  0.5 runs/s  18 s left\n")


def test_a_notebook_shows_a_bar_and_nothing_on_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[dict[str, str]] = []

    class Handle:
        def update(self, what: Any, *, raw: bool = False) -> None:  # noqa: ANN401 - as IPython has it
            shown.append(what if raw else what._repr_mimebundle_([], []))

    monkeypatch.setattr(progress, "_is_notebook", lambda: True)
    monkeypatch.setattr(progress, "_BAR_EVERY_S", -1.0)
    monkeypatch.setattr("IPython.display.display", lambda _, display_id: display_id and Handle())
    with progress.Meter(lambda _: progress.of_runs(3, 12, 6.0)) as meter:
        meter.say(("long", 100.0))
        meter.show()
    during, after = shown
    assert "3 of 12 runs" in during["text/html"]
    assert "━" in during["text/html"]
    assert after == {"text/plain": ""}
    assert capsys.readouterr() == ("", "")


def _without_escapes(drawn: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn)


def test_changes_are_written_as_toml() -> None:
    changes = {"a.b": 1, "c": True, "d": 'x"y', "e": {"name": "n", "k": [1, 2.5]}}
    assert scenarios.overrides(changes) == [
        "a.b=1",
        "c=true",
        'd="x\\"y"',
        'e={ "name" = "n", "k" = [1, 2.5] }',
    ]
    with pytest.raises(_native.ScenarioError, match="None"):
        scenarios.overrides({"a": None})
