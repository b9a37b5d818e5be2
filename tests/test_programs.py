"""What tests need is there, or they are left out loudly."""

from __future__ import annotations

import pytest

import programs


def test_a_test_without_its_program_is_left_out_or_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("programs.shutil.which", lambda _: None)
    monkeypatch.delenv("INCAST_PROGRAM_TESTS", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"LEFT OUT: tshark is not installed \(.* apt-get install tshark\)"):
        programs.path("tshark")
    monkeypatch.setenv("INCAST_PROGRAM_TESTS", "required")
    with pytest.raises(pytest.fail.Exception, match=r"chromium is not installed .* and INCAST_PROGRAM_TESTS=required"):
        programs.path("chromium")
    monkeypatch.setattr("programs.shutil.which", lambda name: "/bin/browser" if name == "google-chrome" else None)
    assert programs.path("chromium") == "/bin/browser"
