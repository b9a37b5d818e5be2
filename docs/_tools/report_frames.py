"""Measures how smooth the report of a run is: `python docs/_tools/report_frames.py out/newreno/report.html`.

Opens the page in headless Chromium, which draws without a graphics processor, and moves what it shows once per frame:
it zooms in by the wheel to a thousandth of the time, pans, and zooms out again, at three places, while the pointer
moves over the rows of flows. Prints the times between frames. It looks at a clock, so no test runs it.
"""

from __future__ import annotations

import argparse
import http.server
import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))

import programs

# A frame is smooth if 30 of its kind fit into a second.
SMOOTH_MS = 33
_SECONDS = 180
_DRIVER = """
<script>
(async () => {
  const frame = () => new Promise(requestAnimationFrame);
  while (!document.documentElement.dataset.ready) await frame();
  const ready = performance.now(), report = window.incastReport;
  for (let i = 0; i < 30; i++) await frame();
  const chart = report.charts.find((one) => one.run), over = chart.over, found = { zoom: [], pan: [] };
  over.scrollIntoView({ block: "center" });
  const at = (part) => {
    const box = over.getBoundingClientRect();
    const clientX = box.left + box.width * part, middle = box.top + box.height / 2;
    const clientY = Math.min(innerHeight - 5, Math.max(5, middle));
    return { clientX, clientY, bubbles: true, cancelable: true, ctrlKey: true, pointerId: 1 };
  };
  const move = async (kind, steps, act) => {
    let last = await frame();
    for (let i = 0; i < steps; i++) {
      act(i);
      over.dispatchEvent(new PointerEvent("pointermove", at(0.3 + 0.4 * (i / steps))));
      over.dispatchEvent(new MouseEvent("mousemove", at(0.3 + 0.4 * (i / steps))));
      const now = await frame();
      found[kind].push(now - last);
      last = now;
    }
  };
  const pan = (by) => report.go(report.view[0] + by, report.view[1] + by);
  const wheel = (deltaY, part) => over.dispatchEvent(new WheelEvent("wheel", { ...at(part), deltaY }));
  for (const part of [0.1, 0.5, 0.85]) {
    report.go(0, report.total);
    await move("zoom", 60, () => wheel(-46, part));
    await move("pan", 60, () => pan((report.view[1] - report.view[0]) / 40));
    await move("zoom", 60, () => wheel(46, part));
    report.go(report.total * 0.05, report.total * 0.55);
    await move("pan", 60, (i) => pan((report.total / 120) * (i < 30 ? 1 : -1)));
  }
  await fetch("done", { method: "POST", body: JSON.stringify({ ready, ...found }) });
})().catch((error) => fetch("done", { method: "POST", body: JSON.stringify({ error: String(error) }) }));
</script>
"""


def measure(page: Path, width: int, height: int, scale: float) -> dict[str, list[float]]:
    """Return the times between frames in milliseconds, by what was done, and how long the page took to be ready."""
    browser = programs.find("chromium")
    if browser is None:
        raise SystemExit(programs.missing("chromium"))
    shown = page.read_text(encoding="utf-8").replace("</body>", f"{_DRIVER}</body>").encode()
    # A window of a browser is never as narrow as a phone.
    frame = f"<body style='margin:0'><iframe src=page style='border:0;width:{width}px;height:{height}px'>".encode()
    done, answer = threading.Event(), bytearray()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = {"/": frame, "/page": shown}.get(self.path)
            self.send_response(200 if content else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            if content:
                self.wfile.write(content)

        def do_POST(self) -> None:
            answer.extend(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.end_headers()
            done.set()

        def log_message(self, *_: object) -> None:
            """Say nothing of requests."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server, tempfile.TemporaryDirectory() as profile:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        command = [
            browser, *programs.FLAGS, f"--user-data-dir={profile}/profile",
            f"--window-size={max(width, 500)},{height + 150}", f"--force-device-scale-factor={scale}",
            # A page needs a debugger's port to stay open.
            "--remote-debugging-port=0", f"http://127.0.0.1:{server.server_port}/",
        ]  # fmt: skip
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            if not done.wait(_SECONDS):
                raise SystemExit(f"{page}: not done after {_SECONDS} s")
        finally:
            process.terminate()
            process.wait()
            server.shutdown()
    found: dict[str, list[float]] = json.loads(answer)
    if "error" in found:
        raise SystemExit(f"{page}: {found['error']}")
    return found


def main() -> int:
    """Print the times; return 1 if fewer than 95 % of the frames are smooth."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("page", type=Path, help="report.html of a run")
    parser.add_argument("--size", default="1200x900", help="of the window, in CSS pixels (1200x900)")
    parser.add_argument("--scale", type=float, default=1.0, help="pixels of the screen per CSS pixel (1)")
    options = parser.parse_args()
    width, height = map(int, options.size.split("x"))
    found = measure(options.page, width, height, options.scale)
    print(f"{options.page}: {options.page.stat().st_size / 1e6:.2f} MB, ready after {found.pop('ready') / 1e3:.1f} s")  # type: ignore[operator]
    smooth = True
    for what, times in found.items():
        ordered = sorted(times)
        share = sum(time < SMOOTH_MS for time in times) / len(times)
        smooth &= share >= 0.95
        print(
            f"{what:<5}{len(times)} frames: half within {ordered[len(times) // 2]:.0f} ms, 95 % within "
            f"{ordered[-(-len(times) * 95 // 100) - 1]:.0f} ms, the longest {ordered[-1]:.0f} ms; "
            f"{share:.1%} under {SMOOTH_MS} ms"
        )
    return 0 if smooth else 1


if __name__ == "__main__":
    sys.exit(main())
