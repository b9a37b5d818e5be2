"""Has a scenario record what its report shows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from incast import _native, scenarios

if TYPE_CHECKING:
    from collections.abc import Callable

# Windows of all connections are recorded up to this many packet-hops: beyond, they are most of what a run holds.
_MOST_HOPS = 30_000_000


def changes_for(
    source: scenarios.Source,
    changes: list[str],
    seed: int | None,
    world: str | None,
    follow: Callable[[_native.Run], KeyboardInterrupt | None] | Callable[[_native.Run], None],
) -> list[str]:
    """Return the changes with what has to be recorded.

    Recorded are the ports that are bottlenecks by the scenario. If none is known beforehand, a run that records nothing
    tells: the port with most drops, then the longest queue.

    Raises:
        ScenarioError: the scenario cannot be run, or not with these recordings.

    """
    checked = scenarios.check(source, changes, seed, world)
    on_kernel = checked["world"] == "linux"
    wanted = [*changes, "record.events=true"]
    # On a kernel they need incast-host, and so do packets.
    follows = not on_kernel or _is_possible(source, wanted, seed, world)
    if not follows:
        wanted = [*changes]
    if checked["packet_hops"] <= _MOST_HOPS:
        wanted.append(f"record.window_series={json.dumps(_classes(source, changes))}")
    try:
        complete = [*wanted, *_at("bottlenecks", packets=follows)]
        scenarios.check(source, complete, seed, world)
    except _native.ScenarioError as error:
        if "none of the traffic has a bottleneck" not in str(error):
            raise
    else:
        return complete
    handle = scenarios.start(source, changes, seed, world)
    end = follow(handle)
    if end:
        raise end
    ports: list[dict[str, Any]] = json.loads(handle.result().summary_json())["ports"]
    if not ports:
        raise _native.ScenarioError(f"{source.file}: no packet reached a switch port: there is nothing to report")
    return [*wanted, *_at(f"{ports[0]['from']}->{ports[0]['to']}", packets=follows)]


def _at(port: str, *, packets: bool) -> list[str]:
    named = json.dumps([port], ensure_ascii=False)
    return [f"record.queue_series={named}", *([f"record.packets={named}"] if packets else [])]


def _is_possible(source: scenarios.Source, changes: list[str], seed: int | None, world: str | None) -> bool:
    try:
        scenarios.check(source, changes, seed, world)
    except _native.ScenarioError:
        return False
    return True


def _classes(source: scenarios.Source, changes: list[str]) -> list[str]:
    """Return the classes of traffic, those that only changes name included."""
    named = list(scenarios.parsed(source.text, source.file).get("traffic", {}))
    for change in changes:
        key = change.partition("=")[0].strip().split(".")
        if len(key) > 2 and key[0] == "traffic":
            named.append(key[1].strip("\"'"))
    return list(dict.fromkeys(named))
