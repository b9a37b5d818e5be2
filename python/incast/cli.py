"""The commands. What is slow to import is imported by the command that needs it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from incast import _native, output, scenarios, text

app = App(
    name="incast",
    help="A packet-level simulator and toolbox for TCP incast.",
    version=_native.version,
    help_format="plaintext",
)
bench = App(name="bench", help="Measure how fast the simulator is.")
app.command(bench)

# In this order, where an entry has them.
_COLUMNS = ("place", "name", "mean_bytes", "summary", "source", "keys", "lineage")

Scenario = Annotated[str, Parameter(help="a TOML file, or the name of a built-in example (incast list examples)")]
Set = Annotated[
    list[str] | None,
    Parameter(name="--set", negative="", help="change one key, as key=value; may be repeated"),
]
Seed = Annotated[int | None, Parameter(help="seed of all random choices, in place of the scenario's own")]
Listed = Literal["protocols", "profiles", "workloads", "topologies", "examples"]
Json = Annotated[bool, Parameter(name="--json", negative="", help="print one JSON object and nothing else on stdout")]


@app.command
def run(
    scenario: Scenario,
    /,
    *,
    changes: Set = None,
    seed: Seed = None,
    out: Annotated[Path | None, Parameter(help="directory for the tables [default: out/<scenario>]")] = None,
    as_json: Json = False,
    plots: Annotated[bool, Parameter(help="draw pictures beside the tables")] = False,
) -> int:
    """Simulate a scenario and write its result tables.

    Ctrl-C stops the run; what was finished is written, and the exit code is 1.
    """
    source = scenarios.read(scenario)
    handle = scenarios.start(source, changes or [], seed)
    try:
        directory = output.prepare(out or Path("out") / source.stem)
        _follow(handle)
    except BaseException:
        handle.cancel()
        raise
    result = handle.result()
    files = [Path(file) for file in result.write(directory)]
    summary = json.loads(result.summary_json())
    for warning in summary.get("warnings", []):
        print(f"warning: {warning}", file=sys.stderr)
    if plots:
        from incast import figures

        files += figures.from_results(directory)
    if as_json:
        print(json.dumps(summary))
    else:
        print(_summary_table(summary))
        print(f"\n{directory}: {', '.join(file.name for file in files)}")
    if result.outcome == "interrupted":
        progress = handle.progress()
        print(
            f"incast: interrupted at {text.seconds(progress['simulated_s'])} of simulated time; what was finished "
            f"({progress['messages_done']:,} of {progress['messages_total']:,} messages) is in {directory}",
            file=sys.stderr,
        )
        return 1
    if result.outcome == "time-up":
        print("the scenario's end time came before all messages were complete", file=sys.stderr)
    return 0


@app.command
def check(scenario: Scenario, /, *, changes: Set = None, seed: Seed = None) -> None:
    """Check a scenario without running it."""
    source = scenarios.read(scenario)
    checked = scenarios.check(source, changes or [], seed)
    print(checked["summary"])
    for warning in checked["warnings"]:
        print(f"warning: {warning}", file=sys.stderr)


@app.command
def schema() -> None:
    """Print the JSON Schema of scenario files, for editors."""
    print(_native.schema().rstrip())


@app.command(name="list")
def list_(
    what: Literal["protocols", "profiles", "workloads", "topologies", "examples"], /, *, as_json: Json = False
) -> None:
    """List what a scenario can name."""
    if what == "examples":
        names = _native.examples()
        print(json.dumps(names) if as_json else "\n".join(names))
        return
    entries: list[dict[str, Any]] = json.loads(_native.catalog())[what]
    if as_json:
        print(json.dumps(entries))
        return
    if what == "profiles":
        print(_profiles(entries))
        return
    columns = [key for key in _COLUMNS if key in entries[0]]
    print(text.table(columns, [[_cell(entry[key]) for key in columns] for entry in entries], right=False))
    for entry in entries:
        for requirement in entry.get("requires", ()):
            print(f"\n{entry['name']} ({entry['place']}): {requirement}", end="")
        for deviation in entry.get("deviations", ()):
            print(f"\n{entry['name']} ({entry['place']}) deviates: {deviation}", end="")
    print()


def _profiles(profiles: list[dict[str, Any]]) -> str:
    """Lay the TCP profiles out beside one another, a key of the table `tcp` in each row."""
    settings = [{one["key"]: one["value"] for one in profile["settings"]} for profile in profiles]
    names = [profile["name"] for profile in profiles]
    rows = [[key, *(setting[key] for setting in settings)] for key in settings[0]]
    about = "\n".join(f"{profile['name']}: {profile['summary']}" for profile in profiles)
    return f"{text.table(['tcp key', *names], rows, right=False)}\n\n{about}"


@app.command
def example(name: str, /) -> None:
    """Print a built-in scenario, to start one's own from.

    Parameters
    ----------
    name
        one of `incast list examples`

    """
    print(_native.example(name).rstrip())


@app.command
def plot(directory: Path, /) -> None:
    """Draw pictures from the tables of a run, beside them.

    Parameters
    ----------
    directory
        where `incast run` wrote its tables

    """
    from incast import figures

    try:
        files = figures.from_results(output.existing(directory))
    except FileNotFoundError as error:
        raise _native.ScenarioError(str(error)) from error
    print("\n".join(map(str, files)) or "these tables hold nothing to draw")


@app.command
def sweep(
    study: Annotated[Path, Parameter(help="a study file (TOML)")],
    /,
    *,
    out: Annotated[Path, Parameter(help="directory for the table; runs are kept in its folder runs")] = Path("out"),
    shard: Annotated[str, Parameter(help="share of the runs to compute, i/n; for job arrays")] = "1/1",
    dry_run: Annotated[bool, Parameter(negative="", help="say what it costs and stop")] = False,
    workers: Annotated[int | None, Parameter(help="runs at the same time [default: one per core]")] = None,
) -> int:
    """Compute all runs of a study and write their table, one row per run.

    A finished run is kept, whole or not at all: a sweep that was stopped or killed goes on where it was.
    """
    from incast.studies import sweep as sweeps

    return sweeps.main(study, out=out, shard=shard, dry_run=dry_run, workers=_positive("workers", workers))


@app.command
def reproduce(
    paper: Annotated[str, Parameter(help="name of a folder of studies, such as rdtcp")],
    /,
    *,
    figure: Annotated[
        list[str] | None, Parameter(negative="", help="number or file of a figure; may be repeated [default: all]")
    ] = None,
    quick: Annotated[
        bool, Parameter(negative="", help="compute a sample of the runs and compare; judge by the tables kept")
    ] = False,
    check: Annotated[
        bool, Parameter(negative="", help="exit code 1 if a claim recorded as holding holds no more")
    ] = False,
    update: Annotated[
        bool, Parameter(negative="", help="renew the tables and verdicts kept beside the studies")
    ] = False,
    dry_run: Annotated[bool, Parameter(negative="", help="say what it costs and stop")] = False,
    json_file: Annotated[Path | None, Parameter(name="--json", help="write claims and verdicts to this file")] = None,
    out: Annotated[Path | None, Parameter(help="directory for report and figures [default: out/PAPER]")] = None,
    studies: Annotated[Path | None, Parameter(help="where folders of studies are [default: studies]")] = None,
    workers: Annotated[int | None, Parameter(help="runs at the same time [default: one per core]")] = None,
) -> int:
    """Run a paper's studies, draw its figures, and judge what it claims: OUT/report.html.

    Exit code 1 if results are not those of the tables kept beside the studies.
    """
    from incast.studies import reproduce as reproduction

    wish = reproduction.Wish(
        figures=figure or [],
        quick=quick,
        check=check,
        update=update,
        dry_run=dry_run,
        json=json_file,
        out=out or Path("out") / paper,
        workers=_positive("workers", workers),
    )
    return reproduction.main(paper, studies, wish)


@app.command
def plan(
    *,
    rate: Annotated[str, Parameter(help="of the link to whoever asks, such as 10Gbps")],
    buffer: Annotated[str, Parameter(help="of the switch port before that link, such as 64KB or 64KiB")],
    rtt: Annotated[str, Parameter(help="round-trip time without queueing, such as 100us")],
    response: Annotated[str, Parameter(help="what each worker answers, such as 64KB")],
    workers: Annotated[int, Parameter(help="greatest number of workers asked")] = 100,
    mss: Annotated[str, Parameter(help="payload of a full packet")] = "1460B",
    initial_window: Annotated[
        int | None,
        Parameter(help="count windows from so many packets [default: the paper's formula, from one]"),
    ] = None,
    as_json: Json = False,
    out: Annotated[Path, Parameter(help="directory for the picture and its numbers")] = Path("out/plan"),
) -> None:
    """Say how many responses a network holds at a time, and the risk of asking for more.

    By the equations of the ARS paper: the batch size to use, and the probability that one of 1 to WORKERS workers runs
    into a timeout, asked all at once and in batches.
    """
    from incast import planning

    network = planning.Network.read(rate=rate, buffer=buffer, rtt=rtt, response=response, mss=mss)
    planned = planning.plan(
        network, _positive("workers", workers) or 1, initial_window=_positive("initial-window", initial_window)
    )
    files = planning.write(planned, output.prepare(out))
    if as_json:
        print(json.dumps(planned.as_json()))
        return
    print(planned.report())
    print(f"\n{out}: {', '.join(file.name for file in files)}")


@app.command
def demo(
    *,
    out: Annotated[Path, Parameter(help="directory for the page and the pictures")] = Path("out/demo"),
    senders: Annotated[int, Parameter(help="greatest number of senders")] = 100,
    seeds: Annotated[int, Parameter(help="replications of every point, each with its own jitter")] = 5,
) -> None:
    """Show TCP incast happen: goodput against senders for NewReno and DCTCP, as one page with pictures."""
    from incast import demo as show

    show.main(output.prepare(out), senders=senders, seeds=seeds)


@bench.command(name="leaf-spine")
def leaf_spine(
    *,
    as_json: Json = False,
    flows: Annotated[int, Parameter(help="number of flows")] = 20_000,
    repeat: Annotated[int, Parameter(help="runs of each case; the fastest is shown")] = 3,
) -> None:
    """Time 400 hosts with DCTCP flows on a leaf-spine network.

    With --json: this work once with the engine that is used for it. Otherwise a table for both drivers, and
    how cost grows with ten times the flows and four times the hosts.
    """
    from incast import bench as benches

    if as_json:
        print(json.dumps(benches.best(benches.Case("base", flows, 1, "sweep"), repeat)))
    else:
        benches.table(flows, repeat)


def _positive(name: str, value: int | None) -> int | None:
    if value is not None and value < 1:
        raise _native.ScenarioError(f"--{name} {value}: expected 1 or more")
    return value


def _follow(handle: _native.Run) -> None:
    """Wait for a run; Ctrl-C cancels it and waits for the little that is left to do."""
    from incast import progress

    try:
        progress.follow(handle)
    except KeyboardInterrupt:
        handle.cancel()
        while not handle.wait(1.0):
            pass


def _summary_table(summary: dict[str, Any]) -> str:
    classes: dict[str, dict[str, Any]] = summary["classes"]
    rows = {**classes, "all": summary} if len(classes) != 1 else classes
    head = ["class", "messages", "complete", "goodput", "FCT p50", "FCT p99", "timeouts"]
    table = text.table(head, [_summary_row(name, row) for name, row in rows.items()])
    return table if summary["incasts"] is None else f"{table}\n\n{_detector_line(summary)}"


def _detector_line(summary: dict[str, Any]) -> str:
    """Say how well ports that mark EIN told incasts."""
    seen = summary["incasts"] - summary["incasts_missed"]
    delay = f" after {text.seconds(summary['detection_delay_p50_s'])} (median)" if seen else ""
    return (
        f"EIN: {seen:,} of {summary['incasts']:,} incasts seen{delay}; "
        f"{summary['alarms_false']:,} of {summary['alarms']:,} alarms false, "
        f"{summary['ein_innocent']:,} innocent packets"
    )


def _summary_row(name: str, row: dict[str, Any]) -> list[str]:
    return [
        name,
        f"{row['flows']:,}",
        f"{row['flows_complete']:,}",
        text.rate(row["goodput_total_bps"]),
        text.seconds(row["fct_p50_s"]),
        text.seconds(row["fct_p99_s"]),
        f"{row['timeouts']:,}",
    ]


def _cell(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, float):
        return f"{value:,.0f}"
    return str(value)
