"""The page on trust says what was measured."""

from __future__ import annotations

import json

import pytest

import trust

DATA = json.loads(trust.DATA.read_text(encoding="utf-8"))


def test_the_page_shows_what_was_measured() -> None:
    assert trust.PAGE.read_text(encoding="utf-8") == trust.page(DATA), "run docs/_tools/trust.py --update"


def test_another_measurement_is_another_page() -> None:
    changed = {**DATA, "conform": {**DATA["conform"], "pass": 1}}
    assert f"| 1 of {DATA['conform']['scripts']} |" in trust.page(changed)
    failed = {**DATA, "fuzz": {**DATA["fuzz"], "failed": [next(iter(DATA["fuzz"]["inputs"]))]}}
    assert trust.page(failed).count("| yes |") == 1
    assert "Not measured." in trust.page({name: value for name, value in DATA.items() if name != "coverage"})


def test_what_commands_say_is_read() -> None:
    said = "cdf: 200 inputs, no failure\nstudy: 3 inputs, no failure\ncdf: 7 inputs, no failure\n"
    assert trust.fuzz(said) == {"inputs": {"cdf": 207, "study": 3}, "failed": []}
    assert trust.fuzz(said + "trace: ValueError: no\nreplay: python fuzz.py\n")["failed"] == ["trace"]
    assert trust.host("test result: ok. 9 passed; 1 failed; 0 ignored") == {"passed": 9, "failed": 1}
    assert trust.conform("\n100 scripts: 97 pass, 3 fail\n") == {"scripts": 100, "pass": 97}
    with pytest.raises(SystemExit, match="it broke"):
        trust.conform("it broke")
    files = [
        {
            "filename": str(trust.ROOT / path),
            "summary": {
                kind: {"covered": covered, "count": count}
                for kind, count in (("lines", 10), ("regions", 30), ("branches", 12))
            },
        }
        for path, covered in (
            ("crates/plan/src/a.rs", 5),
            ("crates/plan/src/b/c.rs", 10),
            ("crates/worlds/ideal/src/d.rs", 1),
        )
    ]
    tally = "noise\ntally: 2000000000000 7\ntally: 500000000000 3\n"
    assert trust.coverage(tally + json.dumps({"data": [{"files": files}]}, separators=(",", ":")) + "\n") == {
        "lines": {"plan": [15, 20], "worlds/ideal": [1, 10]},
        "regions": {"plan": [15, 60], "worlds/ideal": [1, 30]},
        "branches": {"plan": [15, 24], "worlds/ideal": [1, 12]},
        "runs": 2,
        "simulated_s": 2.5,
        "packet_hops": 10,
    }
    with pytest.raises(SystemExit, match="it broke"):
        trust.coverage("it broke")
