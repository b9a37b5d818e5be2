"""The comparison with ns-3: `.venv/bin/python validation/ns3/compare.py --help`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import cyclopts

from incast import figures
from side_by_side import agreement, campaign, cost, dctcp_loss, pictures, tables, world

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from incast.studies.study import Study
    from side_by_side.campaign import Campaign, Outcome

RESULTS = world.HERE / "results"
IMAGES = world.ROOT / "docs" / "images"
_SHOWN_SENDERS = (10, 30, 50, 70, 100)
# How our side is compared with ns-3: what it means, which links, and which curve.
SETS = {
    "plain": ("links of equal length", "plain", "ours"),
    "untied": ("host h's link longer by h * 137 ps: nothing happens at the same time", "untied", "ours"),
    "met": ("as untied, with ns-3's rules switched on in ours as far as they are lawful", "untied", "met"),
}

app = cyclopts.App(help="Run the same work in this simulator and in ns-3, and say where they agree.")


@app.command
def sweep() -> None:
    """Run the incast sweep: N = 10 to 100, ten seeds."""
    found, by_set = _incasts("sweep")
    rules, blocks = agreement.read(), ["# The incast sweep"]
    for name, outcomes in by_set.items():
        blocks.append(f"## {name}: {SETS[name][0]}")
        blocks += [tables.sweep(outcomes, _SHOWN_SENDERS), tables.agreement(rules, outcomes)]
        blocks += tables.failures(outcomes)
        tables.write_points(RESULTS / f"sweep-{name}.csv", outcomes)
    _report(blocks, RESULTS / "sweep.md")
    draw_sweep(found.study)


def draw_sweep(study: Study) -> None:
    """Draw the sweep from its tables."""
    untied, met = ((RESULTS / f"sweep-{name}.csv").read_text(encoding="utf-8") for name in ("untied", "met"))
    figures.save(pictures.sweep(study, untied, met), IMAGES / "ns3-sweep.png", table=untied + met)


@app.command
def grid(*, half: Literal["work", "held-out"], again: bool = False) -> None:
    """Run one half of the grid.

    Args:
        half: work or held-out; the held-out half is for the end, once.
        again: run the held-out half although its result is there.

    """
    written = RESULTS / f"grid-{half}.md"
    if half == "held-out" and written.is_file() and not again:
        raise SystemExit(f"{written} is there: the held-out half is run once (--again runs it all the same)")
    _, by_set = _incasts(f"grid-{half}")
    rules, blocks = agreement.read(), [f"# The {half} half of the grid"]
    for name, outcomes in by_set.items():
        blocks.append(f"## {name}: {SETS[name][0]}")
        blocks += [tables.agreement(rules, outcomes), tables.worst(outcomes), *tables.failures(outcomes)]
        tables.write_points(RESULTS / f"grid-{half}-{name}.csv", outcomes)
    _report(blocks, written)
    shares = tables.write_agreement(RESULTS / f"grid-{half}-agreement.csv", rules, by_set).read_text(encoding="utf-8")
    figures.save(pictures.grid(shares), IMAGES / f"ns3-grid-{half}.png", table=shares)


@app.command
def leaf_spine() -> None:
    """Run the leaf-spine: 20,000 flows, five seeds; ns-3 takes minutes for each."""
    rules = agreement.read()
    # A run of ns-3 takes all the bandwidth to memory that there is: one at a time.
    found = campaign.run(world.HERE / "leaf-spine.toml", world.OUT, workers=1)
    by_curve = {curve: found.outcomes(curve, rules.leaf_spine, rules) for curve in ("ours", "met")}
    _report(["# The leaf-spine", tables.leaf_spine(rules, by_curve)], RESULTS / "leaf-spine.md")
    tables.write_leaf_spine(RESULTS / "leaf-spine.csv", rules, by_curve)
    figures.save(pictures.leaf_spine(found), IMAGES / "ns3-leaf-spine.png")


@app.command(name="dctcp-loss")
def run_dctcp_loss() -> None:
    """Show what ns-3's DCTCP does about losses and small windows."""
    rows, windows = dctcp_loss.loss_without_marks()
    stalls = dctcp_loss.small_windows()
    _report(["# ns-3's DCTCP under loss", tables.dctcp_loss(rows, stalls)], RESULTS / "dctcp-loss.md")
    titles = ("losses without marks: one of 16 long flows", f"marks at small windows: one of {stalls.of} senders")
    panels = dict(zip(titles, (windows, stalls.longest), strict=True))
    limits_s = dict(zip(titles, ((0.01, 0.18), (0.0095, 0.05)), strict=True))
    figures.save(pictures.dctcp_loss(panels, limits_s), IMAGES / "ns3-dctcp-loss.png")


@app.command(name="cost")
def run_cost() -> None:
    """Measure what a point of the Pulser study takes here and in ns-3 (minutes)."""
    print(cost.said(cost.measure(), cost.packet_hops_of("pulser")))


@app.command(name="all")
def run_all() -> None:
    """Run everything, both halves of the grid included."""
    sweep()
    grid(half="work")
    grid(half="held-out", again=True)
    run_dctcp_loss()
    leaf_spine()


def _incasts(study: str) -> tuple[Campaign, dict[str, list[Outcome]]]:
    """Run a study of incasts and compare both sides in every set."""
    rules = agreement.read()
    found = campaign.run(world.HERE / f"{study}.toml", world.OUT)
    return found, {
        name: found.outcomes(curve, rules.metrics, rules, links=links) for name, (_, links, curve) in SETS.items()
    }


def _report(blocks: Sequence[str], file: Path) -> None:
    text = "\n\n".join(blocks) + "\n"
    print(text, flush=True)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    app()
