"""The commands. Slow imports are left to the command that needs them."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from incast import _native, ends, output, overview, scenarios, text

app = App(
    name="incast",
    help="A packet-level simulator and toolbox for TCP incast.",
    version=lambda: f"{_native.version()} ({_commit()})",
    help_format="plaintext",
    suppress_keyboard_interrupt=False,  # __main__ says it
)
bench = App(name="bench", help="Measure the speed of the simulator.")
app.command(bench)
store = App(name="store", help="Look after the finished runs that sweeps keep.")
app.command(store)


def _commit() -> str:
    """Say what commit this was built from; the archive of a tree without git does not know."""
    from importlib import resources

    try:
        return (resources.files("incast") / "commit.txt").read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return "commit unknown"


# Why a run ended that nobody interrupted.
_FULL = "stopped because memory ran short"

# Columns of `incast list` in this order, where the entries have them.
_COLUMNS = ("place", "name", "mean_bytes", "summary", "keys", "lineage")

Scenario = Annotated[str, Parameter(help="a TOML file, or the name of a built-in example (incast list examples)")]
Set = Annotated[
    list[str] | None,
    Parameter(name="--set", negative="", help="override one key, as key=value; may be repeated"),
]
Seed = Annotated[int | None, Parameter(help="random seed [default: the seed in the scenario]")]
World = Annotated[
    str | None, Parameter(help="world that runs the scenario (incast list worlds) [default: the world in the scenario]")
]
Worlds = Annotated[
    str | None,
    Parameter(
        name="--world",
        help="world that runs the scenario (incast list worlds), or several: packets,linux [default: the scenario's]",
    ),
]
On = Annotated[
    str, Parameter(help="where to compute: local, processes, ssh:HOST[,HOST], slurm[:KEY=VALUE,...] or dask:ADDRESS")
]
Runs = Annotated[Path, Parameter(help="directory of a sweep, or of the finished runs themselves")]
Listed = Literal["protocols", "profiles", "workloads", "topologies", "worlds", "examples", "keys"]
DryRun = Annotated[
    bool, Parameter(negative="", help="print the estimated cost, and how many runs are done already, and stop")
]


def _file_or_stdout(_: object, file: Path | None) -> None:
    """Refuse an option in the place of a file, since `-` is allowed there."""
    if file is not None and file != output.STDOUT and str(file).startswith("-"):
        raise ValueError(f"expected a file, or - for stdout, found {file}")


JsonFile = Annotated[
    Path | None,
    Parameter(
        name="--json",
        help="write everything to this file; -: print only that on stdout",
        allow_leading_hyphen=True,
        validator=_file_or_stdout,
    ),
]
Json = Annotated[bool, Parameter(name="--json", negative="", help="print only one JSON object on stdout")]


@app.command
def run(
    scenario: Scenario,
    /,
    *,
    changes: Set = None,
    seed: Seed = None,
    world: Worlds = None,
    repetitions: Annotated[
        int, Parameter(help="runs in each world, one seed after the other; what varies is shown with 95 % intervals")
    ] = 1,
    out: Annotated[Path | None, Parameter(help="directory for the tables [default: out/<scenario>]")] = None,
    as_json: Json = False,
    plots: Annotated[bool, Parameter(help="also draw figures")] = False,
    report: Annotated[
        bool, Parameter(negative="", help="record what happens inside, and show it on a page, report.html")
    ] = False,
    dry_run: Annotated[bool, Parameter(negative="", help="print the estimated cost and stop")] = False,
    threads: Annotated[
        int | None,
        Parameter(help="threads of a run, if it can use them; results are the same [default: as many as pay]"),
    ] = None,
) -> int:
    """Run a scenario and write its result tables.

    With several worlds each has a directory of its own for its tables, and one picture shows all of them. So has each
    of several repetitions, numbered from 1. Ctrl-C, SIGTERM and SIGHUP end the run early: partial results are written
    (to OUT.partial if OUT has those of a run that was not ended early), and the exit code is 130, 143 or 129.
    """
    source = scenarios.read(scenario)
    names = world.split(",") if world else [None]
    directory = out or Path("out") / source.stem
    _positive("repetitions", repetitions)
    _positive("threads", threads)
    if dry_run:
        for name in names:
            _say_cost(source, changes or [], seed, name)
        return 0
    wishes = changes or []
    if report and (repetitions > 1 or len(names) > 2):
        raise _native.ScenarioError("--report shows one run, or two worlds: leave out --repetitions")
    for name in names if len(names) > 1 else []:
        # Not after another world has been at work for a while.
        scenarios.check(source, changes or [], seed, name)
    recorded = dict.fromkeys(names, wishes)
    if report:
        from incast.report import recording

        recorded = {name: recording.changes_for(source, wishes, seed, name, _follow) for name in names}
    summaries: dict[str, list[dict[str, Any]]] = {}
    directories: dict[str, list[Path]] = {}
    is_time_up = False
    for name in names:
        place = directory / name if name and len(names) > 1 else directory
        done = summaries[name or ""] = []
        places = directories[name or ""] = []
        for number in range(1, repetitions + 1):
            following = done[0]["seed"] + number - 1 if done else seed
            wanted = place / str(number) if repetitions > 1 else place
            handle = scenarios.start(source, recorded[name], following, name, spill=wanted, threads=threads)
            why = scenarios.fewer_threads(handle, threads)
            if why and number == 1:
                print(f"incast: {why}", file=sys.stderr)
            result, files, end = _carried_out(handle, wanted, plots=plots)
            places.append(files[0].parent)
            if report and not end and len(names) == 1:
                from incast import report as pages

                files.append(pages.write(places, places[-1] / output.REPORT))
            done.append(json.loads(result.summary_json()))
            if not as_json and (len(names) > 1 or repetitions > 1):
                print(f"{places[-1]}: {', '.join(file.name for file in files)}")
            if result.outcome == "interrupted":
                _show(summaries, directories, files, directory, as_json=as_json)
                progress, why = handle.progress(), ends.reason(end) if end else _FULL
                print(
                    f"incast: {why} at {text.seconds(progress['simulated_s'])} of the run; partial "
                    f"results ({progress['messages_done']:,} of {progress['messages_total']:,} messages) are in "
                    f"{places[-1]}",
                    file=sys.stderr,
                )
                return ends.code(end) if end else 1
            if end:
                raise end
            is_time_up = is_time_up or result.outcome == "time-up"
    if report and len(names) > 1:
        from incast import report as pages

        shown = [one for some in directories.values() for one in some]
        page = pages.write(shown, directory / output.REPORT, labels=list(directories))
    _show(summaries, directories, files, directory, as_json=as_json)
    if report and len(names) > 1 and not as_json:
        print(page)
    if is_time_up:
        print("the run reached its end time (run.stop_at) before all messages were complete", file=sys.stderr)
    return 0


def _show(
    summaries: dict[str, list[dict[str, Any]]],
    directories: dict[str, list[Path]],
    files: list[Path],
    directory: Path,
    *,
    as_json: bool,
) -> None:
    """Print what the runs made of a scenario: one, its repetitions, or several worlds side by side."""
    from incast import repetitions

    ((first, *_), *_) = summaries.values()
    repeats = any(len(done) > 1 for done in summaries.values())
    for name, done in summaries.items():
        of = f"{name}: " if len(summaries) > 1 else ""
        # Each once, however many repetitions have it; some have numbers that differ.
        warnings = dict.fromkeys(warning for one in done for warning in one.get("warnings", []))
        for warning in warnings:
            print(f"warning: {of}{warning}", file=sys.stderr)
    if len(summaries) > 1:
        from incast import figures

        picture = directory / "worlds.png"
        figures.save(figures.worlds(directories), picture)
    if as_json:
        shown = {name: repetitions.as_json(done) if repeats else done[0] for name, done in summaries.items()}
        print(json.dumps(shown if len(summaries) > 1 else next(iter(shown.values()))))
    elif len(summaries) > 1:
        worlds = [repetitions.row(name, done) for name, done in summaries.items()]
        print("\n" + text.table(["world", *overview.HEAD[1:]], worlds))
        print(f"\n{picture}")
    elif repeats:
        (done,) = summaries.values()
        print("\n" + text.table(overview.HEAD, repetitions.rows(done)))
    else:
        ((place,),) = directories.values()
        print(_summary_table(first))
        print(f"\n{place}: {', '.join(file.name for file in files)}")


def _carried_out(
    handle: _native.Run, directory: Path, *, plots: bool
) -> tuple[_native.Result, list[Path], KeyboardInterrupt | None]:
    """Follow a run to its end and write its tables; return the signal, too, if one ended it early."""
    try:
        output.prepare(directory)
        end = _follow(handle)
    except BaseException:
        handle.cancel()
        raise
    result = handle.result()
    if result.outcome in output.PARTIAL:
        directory = output.prepare(output.beside(directory))
    files = [Path(file) for file in result.write(directory)]
    output.remove_pictures(directory)
    if plots:
        from incast import figures

        files += figures.from_results(directory)
    return result, files, end


@app.command
def check(
    scenario: Scenario,
    /,
    *,
    changes: Set = None,
    seed: Seed = None,
    world: World = None,
    as_json: Json = False,
) -> None:
    """Check a scenario without running it, and estimate what a run takes.

    A short run, whose results are thrown away, shows what packets sent again take, and how fast this machine is.
    """
    if as_json:
        from incast import pilot

        source = scenarios.read(scenario)
        checked = scenarios.check(source, changes or [], seed, world)
        print(json.dumps(checked | asdict(pilot.cost(source, changes or [], seed, world, checked))))
        return
    _say_cost(scenarios.read(scenario), changes or [], seed, world)


def _say_cost(source: scenarios.Source, changes: list[str], seed: int | None, world: str | None) -> None:
    """Check a scenario, and say how large it is and what it takes."""
    from incast import pilot

    checked = scenarios.check(source, changes, seed, world)
    print(checked["summary"], flush=True)
    for warning in checked["warnings"]:
        print(f"warning: {warning}", file=sys.stderr)
    print(pilot.cost(source, changes, seed, world, checked).line())


@app.command
def schema() -> None:
    """Print the JSON Schema of scenario files, which editors use to complete and check them."""
    print(_native.schema().rstrip())


@app.command(name="list")
def list_(
    what: Listed,
    name: Annotated[
        str | None,
        Parameter(
            help="a protocol, to read all about it; or a table of keys, such as traffic.rounds, a key such as "
            "tcp.rto_min, or all"
        ),
    ] = None,
    /,
    *,
    as_json: Json = False,
) -> None:
    """List the protocols, profiles, workloads, topologies, worlds, examples or keys that a scenario can use."""
    if what == "keys" or (what == "protocols" and name is not None):
        from incast import listing

        if as_json:
            print(json.dumps(listing.keys_as_json(name) if what == "keys" else listing.protocol_as_json(str(name))))
        else:
            print(listing.keys(name) if what == "keys" else listing.protocol(str(name)))
        return
    if name is not None:
        raise _native.ScenarioError(f"list {what} takes no name; list protocols and list keys do")
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
    rows = [[_cell(entry[key]) for key in columns] for entry in entries]
    print(text.fitting(columns, rows))
    if what == "protocols":
        print("\nincast list protocols NAME: parameters, source, needs and deviations of one")


def _profiles(profiles: list[dict[str, Any]]) -> str:
    """Lay out the TCP profiles side by side, one row per key of the table `tcp`."""
    settings = [{one["key"]: one["value"] for one in profile["settings"]} for profile in profiles]
    names = [profile["name"] for profile in profiles]
    rows = [[key, *(setting[key] for setting in settings)] for key in settings[0]]
    about = [[profile["name"], profile["summary"]] for profile in profiles]
    return f"{text.fitting(['tcp key', *names], rows)}\n\n{text.fitting(['profile', 'summary'], about)}"


@app.command
def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="your shell")],
    /,
) -> None:
    """Print a script that lets a shell complete commands and options.

    In bash, for example: incast completion bash > ~/.local/share/bash-completion/completions/incast
    """
    print(app.generate_completion(prog_name="incast", shell=shell).rstrip())


@app.command
def new(
    what: Annotated[Literal["study"], Parameter(help="what to begin")],
    directory: Annotated[Path, Parameter(help="a directory to create")],
    /,
) -> None:
    """Begin a study of your own: a scenario and a study that run as they are, with comments."""
    from importlib import resources

    if directory.exists():
        raise _native.ScenarioError(f"{directory}: exists already; name a directory to create")
    templates = resources.files("incast") / "templates"
    for name in ("scenario.toml", f"{what}.toml"):
        print(output.save(directory / name, (templates / name).read_text(encoding="utf-8")))
    print(f"now: incast sweep {directory / f'{what}.toml'}")


@app.command
def example(name: str, /) -> None:
    """Print a built-in scenario, as a starting point for your own.

    Parameters
    ----------
    name
        name of the example, see `incast list examples`

    """
    print(_native.example(name).rstrip())


@app.command
def plot(
    directory: Annotated[Path, Parameter(help="directory with the tables written by incast run")],
    /,
    *,
    format: Annotated[  # noqa: A002 - the word of the command line
        Literal["png", "svg", "pdf"], Parameter(help="of the files; pdf has its fonts in it")
    ] = "png",
    width: Annotated[
        Literal["page", "column", "columns"],
        Parameter(help="of the figures: 6 inches, 3.35 as a column of a paper, or 7 as both columns"),
    ] = "page",
) -> None:
    """Draw figures from the tables of a run, into the same directory."""
    from incast import figures

    try:
        files = figures.from_results(output.existing(directory), style=figures.LIGHT.as_wide_as(width), suffix=format)
    except FileNotFoundError as error:
        raise _native.ScenarioError(str(error)) from error
    print("\n".join(map(str, files)) or "these tables contain nothing to draw")


Directory = Annotated[Path, Parameter(help="directory with the tables of a run made with incast run --report")]
PortName = Annotated[
    str | None, Parameter(help="switch port, such as 'switch->host 0' [default: the recorded one with most drops]")
]


@app.command
def report(
    run: Directory,
    other: Annotated[Path | None, Parameter(help="a second run, drawn on the same axis")] = None,
    /,
    *,
    port: PortName = None,
    label: Annotated[
        list[str] | None, Parameter(negative="", help="name of a run; once for each [default: its sender]")
    ] = None,
    out: Annotated[Path | None, Parameter(help="file for the page [default: RUN/report.html]")] = None,
) -> None:
    """Show what happened inside a run, or in two, on one interactive page that needs nothing else."""
    from incast import report as pages

    directories = [run] if other is None else [run, other]
    if label is not None and len(label) != len(directories):
        raise _native.ScenarioError(f"--label: {len(label)} given for {len(directories)} runs; give one for each")
    print(pages.write(directories, out or run / output.REPORT, port=port, labels=label))


@app.command
def explain(
    run: Directory,
    flow: Annotated[str, Parameter(help="number of the flow (column id of the table flows), or slowest")],
    /,
    *,
    port: PortName = None,
    as_json: Json = False,
) -> None:
    """Say in plain words why a flow took as long as it did, and what its time went into."""
    from incast.report.explain import Explainer
    from incast.report.recorded import Recorded

    recorded = Recorded.read(run)
    story = Explainer(recorded, recorded.port(port)).story(recorded.flow(flow))
    print(json.dumps(story.as_json(), ensure_ascii=False) if as_json else story.as_text())


@app.command
def export(
    run: Directory,
    /,
    *,
    pcapng: Annotated[Path | None, Parameter(help="capture file to write, for Wireshark and tshark")] = None,
    side: Annotated[
        Literal["arriving", "leaving"], Parameter(help="with --pcapng: packets as they arrive at the port, or leave it")
    ] = "arriving",
    perfetto: Annotated[Path | None, Parameter(help="file of trace events to write, for ui.perfetto.dev")] = None,
    port: Annotated[
        str | None,
        Parameter(
            help="switch port, such as 'switch->host 0', or with --pcapng that of a host, such as 'host 3' "
            "[default: the recorded one with most drops]"
        ),
    ] = None,
    fct: Annotated[Path | None, Parameter(help="file of completion times to write, as HPCC's fct.txt")] = None,
    trace: Annotated[
        Path | None, Parameter(help="file of flows to write, as HPCC's flow.txt, for ns-3 or traffic of kind trace")
    ] = None,
    csv: Annotated[Path | None, Parameter(help="directory for all tables as comma-separated values")] = None,
    parquet: Annotated[
        Path | None, Parameter(help="of a folder of incast-host sample: directory for its tables as Parquet")
    ] = None,
) -> None:
    """Write the results of a run for other programs: traces of packets, and files of flows."""
    if all(wish is None for wish in (pcapng, perfetto, fct, trace, csv, parquet)):
        raise _native.ScenarioError("name what to write: --pcapng, --perfetto, --fct, --trace, --csv or --parquet")
    from incast.report import export as exports
    from incast.report import files
    from incast.report.recorded import Recorded

    if fct is not None:
        print(output.save(fct, files.fct(run)))
    if trace is not None:
        print(output.save(trace, files.trace(run)))
    if csv is not None:
        for name, text in files.csv(run).items():
            print(output.save(csv / f"{name}.csv", text))
    if parquet is not None:
        from incast.advice import samples

        for name, data in samples.parquet(run).items():
            print(output.save(parquet / f"{name}.parquet", data))
    if pcapng is None and perfetto is None:
        return
    # A capture needs packets alone.
    recorded = Recorded.read(run, outline=perfetto is None, headers=pcapng is not None)
    if pcapng is not None:
        print(output.save(pcapng, exports.pcapng(recorded, recorded.any_port(port), side)))
    if perfetto is not None:
        print(output.save(perfetto, exports.perfetto(recorded, recorded.port(port))))


@app.command
def sweep(
    study: Annotated[Path, Parameter(help="a study file (TOML)")],
    /,
    *,
    out: Annotated[Path, Parameter(help="directory for the table; finished runs are kept in its folder runs")] = Path(
        "out"
    ),
    shard: Annotated[
        str | None, Parameter(help="compute only shard i of n, written i/n, and no table; for job arrays")
    ] = None,
    on: On = "local",
    dry_run: DryRun = False,
    workers: Annotated[int | None, Parameter(help="parallel runs, on each host [default: one per core]")] = None,
    plots: Annotated[bool, Parameter(negative="", help="draw the panels of the study, too, as PNG and PDF")] = False,
    as_json: Json = False,
) -> int:
    """Compute all runs of a study and write them as a table, one row per run.

    Finished runs are kept: run the same command again to resume a sweep that was stopped or killed.
    """
    from incast.studies import sweep as sweeps

    workers = _positive("workers", workers)
    return sweeps.main(
        study, out=out, shard=shard, dry_run=dry_run, workers=workers, on=on, plots=plots, as_json=as_json
    )


@app.command
def reproduce(
    paper: Annotated[str, Parameter(help="name of a folder of studies, such as rdtcp")],
    /,
    *,
    figure: Annotated[
        list[str] | None, Parameter(negative="", help="figure number or study file; may be repeated [default: all]")
    ] = None,
    quick: Annotated[
        bool, Parameter(negative="", help="recompute only a sample of the runs and compare it with the saved tables")
    ] = False,
    full: Annotated[
        bool, Parameter(negative="", help="run studies that are scaled down in the size that the paper has")
    ] = False,
    check: Annotated[
        bool, Parameter(negative="", help="exit with code 1 if a claim recorded as holding no longer holds")
    ] = False,
    update: Annotated[
        bool, Parameter(negative="", help="update the tables and verdicts saved next to the studies")
    ] = False,
    keep_linux: Annotated[
        bool, Parameter(negative="", help="with --update, keep what the saved tables say of runs on Linux")
    ] = False,
    dry_run: DryRun = False,
    report: Annotated[bool, Parameter(help="draw the figures and write the report")] = True,
    json_file: Annotated[
        Path | None, Parameter(name="--json", help="write claims and verdicts to this file; with --dry-run the cost")
    ] = None,
    out: Annotated[Path | None, Parameter(help="directory for report and figures [default: out/PAPER]")] = None,
    studies: Annotated[
        Path | None, Parameter(help="directory with the folders of studies [default: studies, then the program's]")
    ] = None,
    on: On = "local",
    workers: Annotated[int | None, Parameter(help="parallel runs, on each host [default: one per core]")] = None,
) -> int:
    """Run a paper's studies, draw its figures, and judge its claims: OUT/report.html.

    Exit code 1 if results differ from the tables saved next to the studies.
    """
    from incast.studies import reproduce as reproduction

    wish = reproduction.Wish(
        figures=figure or [],
        quick=quick,
        full=full,
        check=check,
        report=report,
        update=update,
        keep_linux=keep_linux,
        dry_run=dry_run,
        json=json_file,
        out=out or Path("out") / paper,
        workers=_positive("workers", workers),
        on=on,
    )
    return reproduction.main(paper, studies, wish)


@app.command
def plan(
    *,
    rate: Annotated[str, Parameter(help="rate of the aggregator's link, such as 10Gbps")],
    rtt: Annotated[str, Parameter(help="round-trip time without queueing, such as 100us")],
    response: Annotated[str, Parameter(help="size of each worker's response, such as 64KB")],
    buffer: Annotated[
        str | None, Parameter(help="buffer of the switch port to that link, such as 64KB or 64KiB")
    ] = None,
    memory: Annotated[
        str | None, Parameter(help="instead of --buffer: memory that all ports of the switch share, such as 12MB")
    ] = None,
    alpha: Annotated[
        float, Parameter(help="a port of that memory may hold ALPHA times what is free (dynamic threshold)")
    ] = 1.0,
    busy_ports: Annotated[int, Parameter(help="ports beside this one that hold as much as they may")] = 0,
    windows: Annotated[
        Literal["kept", "fresh"],
        Parameter(help="whether servers keep their windows between responses, as Linux does on busy connections"),
    ] = "kept",
    workers: Annotated[int, Parameter(help="largest number of workers to consider")] = 100,
    mss: Annotated[str, Parameter(help="maximum segment size: payload of a full packet")] = "1448B",
    think: Annotated[str, Parameter(help="how long a worker takes before it answers, such as 5ms")] = "0s",
    initial_window: Annotated[
        int | None,
        Parameter(help="initial window of the workers, in packets [default: the paper's formula, from one]"),
    ] = None,
    as_json: Json = False,
    out: Annotated[Path, Parameter(help="directory for the figure and its numbers")] = Path("out/plan"),
) -> None:
    """Compute how many workers to ask at a time, and the risk of asking more.

    Uses the equations of the ARS paper. Prints the batch size, what is safe with the TCP of today's servers, and by
    the model of the paper the risk of a lost window for 1 to WORKERS workers, asked all at once or in batches.
    """
    from incast import planning

    network = planning.Network.read(
        rate=rate,
        rtt=rtt,
        response=response,
        mss=mss,
        think=think,
        buffer=buffer,
        memory=memory,
        alpha=alpha,
        busy_ports=busy_ports,
    )
    planned = planning.plan(
        network,
        _positive("workers", workers) or 1,
        initial_window=_positive("initial-window", initial_window),
        windows=windows,
    )
    files = planning.write(planned, output.prepare(out))
    if as_json:
        print(json.dumps(planned.as_json()))
        return
    print(planned.report())
    print(f"\n{out}: {', '.join(file.name for file in files)}")


@app.command
def advise(
    cluster: Annotated[Path | None, Parameter(help="description of a cluster (TOML)")] = None,
    /,
    *,
    example: Annotated[
        str | None, Parameter(help="print an example of a description and stop: forty-servers, or a published case")
    ] = None,
    out: Annotated[Path, Parameter(help="directory for the page; finished runs are kept in its folder runs")] = Path(
        "out/advise"
    ),
    json_file: JsonFile = None,
    workers: Annotated[int | None, Parameter(help="parallel runs [default: one per core]")] = None,
) -> int:
    """Say whether a cluster suffers from incast, and which remedy helps it most.

    Prints the closed form at once. Then some 250 short simulations tell from which fan-in on it collapses, whether
    fan-in is the culprit, and what each remedy that is allowed gains, with 95 % intervals. OUT/index.html is the same
    as a page.
    """
    from incast.advice import cluster as clusters
    from incast.advice import command

    if example is not None:
        print(clusters.example(example).rstrip())
        return 0
    if cluster is None:
        raise _native.ScenarioError(
            "name the description of a cluster; incast advise --example forty-servers prints one"
        )
    return command.main(cluster, out=out, json_file=json_file, workers=_positive("workers", workers))


@app.command
def conform(
    *scripts: Annotated[Path, Parameter(help="scripts (.pkt), and folders with scripts in them")],
    json_file: JsonFile = None,
) -> int:
    """Hold the simulator's TCP to scripts in packetdrill's language.

    Prints a row for each script: it passes, fails at a line, or is not applicable since something is missing. Exit code
    1 if a script fails or cannot be read.
    """
    from incast import conformance

    if not scripts:
        raise _native.ScenarioError("name a script or a folder of scripts")
    return conformance.main(scripts, json_file)


@app.command
def demo(
    *,
    out: Annotated[Path, Parameter(help="directory for the page and the figures")] = Path("out/demo"),
    senders: Annotated[int, Parameter(help="largest number of senders")] = 100,
    seeds: Annotated[int, Parameter(help="replications per point, each with its own jitter")] = 5,
    as_json: Json = False,
) -> None:
    """Show TCP incast: goodput against the number of senders for NewReno and four remedies, as one HTML page."""
    from incast import demo as show

    show.main(output.prepare(out), senders=senders, seeds=seeds, as_json=as_json)


@bench.command(name="leaf-spine")
def leaf_spine(
    *,
    as_json: Json = False,
    flows: Annotated[int, Parameter(help="number of flows")] = 20_000,
    repeat: Annotated[int, Parameter(help="runs of the base case; the fastest counts")] = 3,
    against: Annotated[str | None, Parameter(help="a program to run in turns with the base case")] = None,
    threads: Annotated[int, Parameter(help="threads of each run with the window sweep")] = 1,
) -> None:
    """Time DCTCP flows between 400 hosts of a leaf-spine network.

    Prints a table for both drivers, with ten times the flows and with four times the hosts. With --json: only the base
    case with the window sweep, the driver that runs it by default. With --against: the base case and another program in
    turns, so that what slows the machine down slows both. It has to print packet_hops=NUMBER, and wall_s=SECONDS unless
    the time of its whole process is meant; the JSON of another incast will do.
    """
    from incast import bench as benches

    _positive("threads", threads)
    if against is not None:
        if as_json:
            raise _native.ScenarioError("--against prints a table: it does not go with --json")
        benches.against(against, flows, repeat, threads)
    elif as_json:
        print(json.dumps(benches.best(benches.Case("base", flows, benches.LeafSpine(), "sweep", threads), repeat)))
    else:
        benches.table(flows, repeat, threads)


@bench.command(name="scale")
def bench_scale(
    *,
    as_json: Json = False,
    up_to: Annotated[int, Parameter(help="most flows of a case; 2000000 takes minutes and about 1 GB")] = 200_000,
    plot: Annotated[Path | None, Parameter(help="a picture to draw, such as scale.png")] = None,
) -> None:
    """Measure how the cost of a packet-hop and memory grow with flows and hosts.

    The leaf-spine network of `incast bench leaf-spine`: 2,000 to 2,000,000 flows on 400 hosts, then 50 flows per host
    on 1,600, 6,400 and 25,600 hosts, and on fat trees of 432, 2,000, 6,750 and 24,334 hosts. Cases with more flows than
    --up-to are left out.
    """
    from incast import bench as benches

    benches.scale(up_to, as_json=as_json, plot=plot)


@store.command(name="ls")
def store_ls(directory: Runs = Path("out"), /, *, as_json: Json = False) -> int:
    """List the finished runs by scenario, and how many of them no sweep will use any more."""
    from incast.studies import inventory

    return inventory.ls(directory, as_json=as_json)


@store.command(name="verify")
def store_verify(directory: Runs = Path("out"), /, *, as_json: Json = False) -> int:
    """Read every finished run and compare its checksums. Exit code 1 if one is damaged.

    Sweeps do so too with each run they use: they set a damaged one aside and compute it anew.
    """
    from incast.studies import inventory

    return inventory.verify(directory, as_json=as_json)


@store.command(name="gc")
def store_gc(
    directory: Runs = Path("out"),
    /,
    *,
    dry_run: Annotated[bool, Parameter(negative="", help="only say what would be removed")] = False,
    as_json: Json = False,
) -> int:
    """Remove what no sweep of this program will use: runs of other versions, damaged runs, and unfinished ones.

    Runs that a living process is about to finish stay.
    """
    from incast.studies import inventory

    return inventory.gc(directory, dry_run=dry_run, as_json=as_json)


def _positive(name: str, value: int | None) -> int | None:
    if value is not None and value < 1:
        raise _native.ScenarioError(f"--{name} {value}: must be 1 or more")
    return value


def _follow(handle: _native.Run) -> KeyboardInterrupt | None:
    """Wait for a run; Ctrl-C and its like cancel it and wait until it has stopped, unless it has not yet begun."""
    from incast import progress

    try:
        progress.follow(handle)
    except KeyboardInterrupt as end:
        handle.cancel()
        while not handle.wait(0.5):
            if not handle.progress()["simulated_s"]:
                raise
        return end
    return None


def _summary_table(summary: dict[str, Any]) -> str:
    table = text.table(overview.HEAD, overview.rows(summary))
    return table if summary["incasts"] is None else f"{table}\n\n{_detector_line(summary)}"


def _detector_line(summary: dict[str, Any]) -> str:
    """Summarize how well the ports that mark EIN detected incasts."""
    seen = summary["incasts"] - summary["incasts_missed"]
    delay = f" after {text.seconds(summary['detection_delay_p50_s'])} (median)" if seen else ""
    return (
        f"EIN: {seen:,} of {summary['incasts']:,} incasts detected{delay}; "
        f"{summary['alarms_false']:,} of {summary['alarms']:,} alarms false, "
        f"{summary['ein_innocent']:,} packets marked without an incast"
    )


def _cell(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, float):
        return f"{value:,.0f}"
    return str(value)
