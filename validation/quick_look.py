"""A first look at ns-3: the same settings, our figures beside the ones that ns-3 gave.

Run it as `.venv/bin/python validation/quick_look.py`; docs/validation.md holds its output. The ns-3 figures
are those of ns-3.44 (PyPI package ns3 3.44.post0), means over five seeds, with the same scenario built by hand:
SACK, timestamps and delayed ACKs off, NewReno or DCTCP, RED as a step marker. It is a look, not yet a
comparison: other random flows, few seeds.
"""

from __future__ import annotations

from pathlib import Path
from statistics import mean

import incast

HERE = Path(__file__).parent
SEEDS = range(1, 11)
#: (protocol, senders): goodput in Mbit/s, drops, marks, FCT p50 and p99 in ms.
NS3: dict[tuple[str, int], tuple[float, float, float, float, float]] = {
    ("newreno", 10): (935.9, 0.0, 0.0, 2.362, 2.801),
    ("newreno", 30): (428.0, 133.4, 0.0, 7.185, 18.373),
    ("newreno", 50): (660.2, 210.0, 0.0, 12.587, 19.940),
    ("newreno", 70): (558.1, 264.0, 0.0, 14.463, 32.883),
    ("newreno", 100): (658.0, 396.6, 0.0, 17.262, 39.757),
    ("dctcp", 10): (936.0, 0.0, 123.8, 2.350, 2.801),
    ("dctcp", 30): (561.1, 10.0, 336.8, 6.599, 14.019),
    ("dctcp", 50): (673.8, 50.0, 756.4, 16.237, 19.747),
    ("dctcp", 70): (590.9, 136.0, 967.0, 19.497, 31.485),
    ("dctcp", 100): (830.2, 184.2, 2085.0, 30.260, 31.544),
}


def sweep() -> None:
    """Print the incast sweep, ours beside ns-3's."""
    print("| sender | N | goodput Mbit/s | drops | FCT p50 ms | FCT p99 ms |")
    print("|---|---|---|---|---|---|")
    for (protocol, senders), (goodput, drops, _marks, p50, p99) in NS3.items():
        overrides = [f"stack.sender={protocol}", f"traffic.burst.senders={senders}"]
        runs = incast.run_many([(HERE / "incast.toml", overrides, seed) for seed in SEEDS])
        ours = [run.summary_dict for run in runs]

        def figure(key: str, scale: float, rows: list[dict[str, float]] = ours) -> str:
            return f"{mean(row[key] for row in rows) * scale:.4g}"

        print(
            f"| {protocol} | {senders} "
            f"| {figure('goodput_total_bps', 1e-6)} / {goodput:.4g} "
            f"| {figure('drops', 1)} / {drops:.4g} "
            f"| {figure('fct_p50_s', 1e3)} / {p50:.4g} "
            f"| {figure('fct_p99_s', 1e3)} / {p99:.4g} |"
        )


def leaf_spine() -> None:
    """Print the short flows of the leaf-spine, ours beside ns-3's and htsim's."""
    figures = []
    for seed in range(1, 6):
        flows = incast.run("leaf-spine", seed=seed).to_pandas("flows")
        short = flows.loc[flows["size_bytes"] < 40_000, "fct_s"] * 1e3
        figures.append((float(short.quantile(0.5)), float(short.quantile(0.99))))
    print("| short flows | ours, five seeds | ns-3 | htsim |")
    print("|---|---|---|---|")
    for name, at, ns3, htsim in (("p50 ms", 0, 0.285, 0.312), ("p99 ms", 1, 0.999, 1.21)):
        values = [figure[at] for figure in figures]
        print(f"| {name} | {mean(values):.3f} ({min(values):.3f} to {max(values):.3f}) | {ns3} | {htsim} |")


if __name__ == "__main__":
    sweep()
    print()
    leaf_spine()
