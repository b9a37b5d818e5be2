"""The remedies: one entry each, with what it changes in the simulator and in reality."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from incast import text
from incast.advice import simulation
from incast.advice.closed_form import count, wire_bytes
from incast.advice.cluster import MSS_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from incast.advice.closed_form import ClosedForm
    from incast.advice.cluster import Cluster

# DCTCP's threshold, if switches do not mark yet: a bandwidth-delay product, or 20 packets if these are more, but at
# most half of the port.
_LEAST_THRESHOLD_PACKETS = 20
_PACKET_BYTES = 1500
# Windows are announced in units of 128 bytes (`net.ipv4.tcp_rmem` up to 6 MB). One of less than two segments waits for
# a delayed ACK each time.
_WINDOW_UNIT = 128
_LEAST_WINDOW = 2 * MSS_BYTES
_RTO_MIN = "1ms"
# A budget that no set of responses exceeds: only windows are limited then.
_NO_BUDGET = "1000GB"
_MORE = 4
_MARKS = "Marks are set in the switch's own configuration; this project has no command for it."
_SERVERS, _ASKING, _BOTH_ENDS = "at the servers", "at the host that asks", "at the servers and at the host that asks"
_PORT = "at the port"
# Pulser's window during incast, in segments.
_SAFE_WINDOW = 4


@dataclass(frozen=True)
class Step:
    """A piece of code or a command, and where it belongs."""

    where: str
    language: Literal["python", "sh"]
    code: str


@dataclass(frozen=True)
class Proposal:
    """One change of a cluster."""

    today: str
    proposed: str
    follows: str
    """What follows for it from the closed form, in a sentence."""
    changes: Mapping[str, object]
    """Of the scenario."""
    apply: tuple[Step, ...]
    """None if there is nothing to apply it with."""
    undo: tuple[Step, ...]
    note: str = ""


@dataclass(frozen=True)
class Remedy:
    """A remedy: who has to change something for it, and what it proposes to a cluster."""

    id: str
    places: tuple[str, ...]
    propose: Callable[[Cluster, ClosedForm], Proposal]
    needs_room: bool = False
    """Whether it limits what is under way, and so changes nothing where all fits anyway."""
    needs_marks: bool = False
    """Whether switches have to set CE."""
    is_simulated_only: bool = False
    """Whether there is nothing yet that does it outside the simulator."""
    unless_sender: str = ""
    """The sender of a cluster that has the remedy already."""

    def places_in(self, cluster: Cluster) -> tuple[str, ...]:
        """Return who has to change something for it in a cluster: also the switches, if they do not mark yet."""
        marks = ("switch",) if self.needs_marks and cluster.marks_bytes is None else ()
        return tuple(dict.fromkeys((*self.places, *marks)))

    def lacking(self, cluster: Cluster, form: ClosedForm) -> str:
        """Say why a cluster cannot use it, or nothing if it can."""
        if self.unless_sender == cluster.sender:
            return f"the servers use {cluster.sender} today"
        closed = [place for place in self.places_in(cluster) if place not in cluster.may_change]
        if closed:
            return f"may_change lacks {' and '.join(closed)}"
        if self.needs_room and _all_fit(cluster, form):
            return "it would change nothing: twice the responses of a query fit into the port"
        return ""


def threshold(cluster: Cluster, form: ClosedForm) -> int:
    """Return from which queue on switches set CE."""
    if cluster.marks_bytes is not None:
        return cluster.marks_bytes
    least = max(form.bdp_bytes, _LEAST_THRESHOLD_PACKETS * _PACKET_BYTES)
    return max(_PACKET_BYTES, min(least, form.buffer_bytes // 2))


def window(cluster: Cluster, form: ClosedForm, least: int) -> int:
    """Return an equal part of what may be under way for each server."""
    units = max(-(-least // _WINDOW_UNIT), form.budget_bytes // cluster.fan_in // _WINDOW_UNIT)
    return units * _WINDOW_UNIT


def _all_fit(cluster: Cluster, form: ClosedForm) -> bool:
    """Whether as much as twice the responses of a query is within the budget: then no limit is ever met."""
    return 2 * cluster.fan_in * cluster.largest_bytes <= form.budget_bytes


def _whole_windows(cluster: Cluster, size: int) -> str:
    at_once = cluster.fan_in * wire_bytes(min(size, cluster.largest_bytes))
    return f"{count(cluster.fan_in, 'server')} can have {at_once:,} B under way"


def _fixed_window(cluster: Cluster, form: ClosedForm) -> Proposal:
    most = max(1, form.safe)
    size = wire_bytes(form.burst_bytes)
    return Proposal(
        today=f"all {cluster.fan_in:,} requests at once",
        proposed=f"at most {count(most, 'request')} outstanding",
        follows=f"{count(most, 'server')} can send {most * size:,} B at once, and the port holds "
        f"{form.buffer_bytes:,} B",
        changes={"stack.application": {"name": "fixed-window", "outstanding": most}},
        apply=_program(
            f"at_once = asyncio.Semaphore({most})", "async with at_once:", "    response = await fetch(server)"
        ),
        undo=_program("response = await fetch(server)"),
    )


def _credit(cluster: Cluster, form: ClosedForm) -> Proposal:
    size = window(cluster, form, 4 * MSS_BYTES)
    budget = max(form.budget_bytes, size)
    expected = "sizes" if cluster.varies else f"{cluster.response_bytes}"
    return Proposal(
        today=f"all {cluster.fan_in:,} requests at once, windows of any size",
        proposed=f"a budget of {budget:,} B, windows of {size:,} B (incast.requests)",
        follows=f"no more than {wire_bytes(budget):,} B of responses are under way, and the port holds "
        f"{form.buffer_bytes:,} B",
        changes={"stack.application": {"name": "credit", "budget": f"{budget}B", "window": f"{size}B"}},
        apply=_program(
            f"plan = incast.requests.Plan(budget_bytes={budget}, window_bytes={size})",
            "async with incast.requests.open(plan) as scheduler:",
            f"    await scheduler.gather(*requests, expect_bytes={expected}, sockets=connections)",
        ),
        undo=_program("await asyncio.gather(*requests)"),
    )


def _window_clamp(cluster: Cluster, form: ClosedForm) -> Proposal:
    size = window(cluster, form, _LEAST_WINDOW)
    return Proposal(
        today="windows of any size",
        proposed=f"windows of {size:,} B on the connections of queries",
        follows=f"{_whole_windows(cluster, size)}, and the port holds {form.buffer_bytes:,} B",
        changes={"stack.application": {"name": "credit", "budget": _NO_BUDGET, "window": f"{size}B"}},
        apply=_program(f"connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_WINDOW_CLAMP, {size})"),
        undo=_program("# Leave that line out, and open the connections again."),
    )


def _program(*lines: str) -> tuple[Step, ...]:
    return (Step("in the program that asks", "python", "\n".join(lines)),)


def _command(where: str, line: str) -> tuple[Step, ...]:
    return (Step(where, "sh", line),)


def _rate(cluster: Cluster) -> str:
    for unit, name in ((10**9, "Gbps"), (10**6, "Mbps"), (10**3, "kbps")):
        if cluster.rate_bps % unit == 0:
            return f"{cluster.rate_bps // unit}{name}"
    return f"{cluster.rate_bps}bps"


def _receiver(name: str, settings: str, cluster: Cluster) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """Return how a receiver is enabled and disabled."""
    command = f'incast-host enable {name} --cgroup "$CGROUP" --dev "$DEVICE" --rate {_rate(cluster)}{settings}'
    # There may be a sender for the same cgroup, and other receivers at the device.
    return _command(_ASKING, command), _command(_ASKING, 'incast-host disable --cgroup "$CGROUP" --dev "$DEVICE"')


def _static_window(cluster: Cluster, form: ClosedForm) -> Proposal:
    size = window(cluster, form, _LEAST_WINDOW)
    apply, undo = _receiver("static-window", f" --set window={size}B", cluster)
    return Proposal(
        today="windows of any size",
        proposed=f"windows of {size:,} B on all connections to the host",
        follows=f"{_whole_windows(cluster, size)}, and the port holds {form.buffer_bytes:,} B",
        changes={"stack.receiver": {"name": "static-window", "window": f"{size}B"}},
        apply=apply,
        undo=undo,
        note="Long flows to the host get the same window.",
    )


def _ictcp(cluster: Cluster, form: ClosedForm) -> Proposal:
    apply, undo = _receiver("ictcp", "", cluster)
    floor = cluster.fan_in * wire_bytes(_LEAST_WINDOW)
    fit = "fit" if floor <= form.buffer_bytes else "do not fit"
    return Proposal(
        today="windows of any size",
        proposed="ICTCP sets windows",
        follows=f"its least windows, two segments for each server, are {floor:,} B together and {fit} into the port",
        changes={"stack.receiver": "ictcp"},
        apply=apply,
        undo=undo,
        note="Its windows of two segments, rounded down to units of 128 bytes, wait for delayed ACKs of 40 ms: compare "
        "receiver.ictcp+quickack.",
    )


def _ictcp_quickack(cluster: Cluster, form: ClosedForm) -> Proposal:
    plain = _ictcp(cluster, form)
    return replace(
        plain,
        today=f"{plain.today}, delayed ACKs",
        proposed="ICTCP sets windows, and every segment is acknowledged at once",
        changes={**plain.changes, "tcp.delayed_ack": "none"},
        apply=(*_command(_ASKING, "ip route change $ROUTE quickack 1"), *plain.apply),
        undo=(*plain.undo, *_command(_ASKING, "ip route change $ROUTE")),
        note="$ROUTE is the route to the servers, as ip route show tells it.",
    )


def _credit_budget(cluster: Cluster, form: ClosedForm) -> int:
    carried = int(cluster.rate_bps / 8 * cluster.rto_min_ps / 1e12 / 2)
    return max(2 * _PACKET_BYTES, min(form.buffer_bytes * 9 // 10, carried, 2 * form.bdp_bytes + 16 * _PACKET_BYTES))


def _receiver_credit(cluster: Cluster, form: ClosedForm) -> Proposal:
    budget = _credit_budget(cluster, form)
    apply, undo = _receiver("credit", f" --set budget={budget}B", cluster)
    least = cluster.fan_in * wire_bytes(_LEAST_WINDOW)
    return Proposal(
        today="windows of any size",
        proposed=f"windows of the host from a budget of {budget:,} B, and never less than two segments",
        follows=f"beside the budget of {budget:,} B, least windows of {least:,} B can be under way, and the port holds "
        f"{form.buffer_bytes:,} B",
        changes={"stack.receiver": {"name": "credit", "budget": f"{budget}B", "closes": False, "sizes": False}},
        apply=apply,
        undo=undo,
        note="Simulated as the kernel has it: no window is closed, and sizes of responses are learned. The "
        "kernel controls 256 connections at once.",
    )


def _closing_credit(cluster: Cluster, form: ClosedForm) -> Proposal:
    budget = _credit_budget(cluster, form)
    apply, undo = _receiver("credit", f" --set budget={budget}B --set closes=true", cluster)
    return Proposal(
        today="windows of any size",
        proposed=f"windows of the host from a budget of {budget:,} B, closed while it has no room for them",
        follows=f"no more than {budget:,} B are granted at once, and the port holds {form.buffer_bytes:,} B",
        changes={"stack.receiver": {"name": "credit", "budget": f"{budget}B", "closes": True, "sizes": False}},
        apply=apply,
        undo=undo,
        note="Simulated with sizes of responses that are learned, as in the kernel, and with reminders of open "
        "windows, which the kernel's form lacks. It controls 256 connections at once, and needs CAP_NET_RAW besides.",
    )


def _rdtcp(cluster: Cluster, form: ClosedForm) -> Proposal:
    del cluster
    queue = max(2, (form.bdp_bytes + form.buffer_bytes // 2) // _PACKET_BYTES)
    return Proposal(
        today="windows of any size, delayed ACKs",
        proposed=f"RDTCP at both ends, {queue:,} packets under way at most, and every segment is acknowledged at once",
        follows=f"{queue:,} packets are a bandwidth-delay product and half of the port",
        changes={
            "stack.sender": "rdtcp",
            "stack.receiver": {"name": "rdtcp", "queue_maxsize": queue},
            "tcp.delayed_ack": "none",
        },
        apply=(),
        undo=(),
        note="Only the simulator has it: incast-host has a form that holds no ACK back.",
    )


def _senders(name: str, where: str, settings: str = "") -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """Return how a sender is enabled and disabled."""
    command = f'incast-host enable {name} --cgroup "$CGROUP" --port "$PEERS"{settings}'
    return _command(where, command), _command(where, 'incast-host disable --cgroup "$CGROUP"')


def _dctcp(cluster: Cluster, form: ClosedForm) -> Proposal:
    queue = threshold(cluster, form)
    share = 100 * queue / form.buffer_bytes
    apply, undo = _senders("dctcp", _BOTH_ENDS)
    new = cluster.marks_bytes is None
    return Proposal(
        today=cluster.sender + (", switches do not mark" if new else ""),
        proposed=f"dctcp, switches {'' if new else 'go on to '}mark from {queue:,} B on",
        follows=f"marks begin at {share:.0f} % of the port, and the first windows, which no mark can prevent, are "
        f"{form.first_windows:.2g} times the port",
        changes={"stack.sender": "dctcp", "switch.marker": simulation.marker(queue)},
        apply=apply,
        undo=undo,
        note=_MARKS if new else "",
    )


def _pulser(cluster: Cluster, form: ClosedForm) -> Proposal:
    queue = threshold(cluster, form)
    apply, undo = _senders("pulser", _BOTH_ENDS)
    safe = cluster.fan_in * wire_bytes(min(cluster.largest_bytes, _SAFE_WINDOW * MSS_BYTES))
    return Proposal(
        today=f"{cluster.sender}, switches do not know incast",
        proposed=f"pulser, switches mark incast, and congestion from {queue:,} B on",
        follows=f"windows of {_SAFE_WINDOW} segments, as during incast, are {safe / form.buffer_bytes:.2g} times the "
        "port",
        changes={
            "stack.sender": "pulser",
            "switch.marker": {"name": "ein", "ecn": {"threshold": f"{queue}B", "count_in_service": True}},
        },
        apply=(*apply, *_command(_PORT, f'incast-host enable ein --dev "$PORT" --rate {_rate(cluster)} --ce {queue}B')),
        undo=(*undo, *_command(_PORT, 'incast-host disable --dev "$PORT"')),
        note="Only a port that is a device of Linux can mark incast.",
    )


def _swift(cluster: Cluster, form: ClosedForm) -> Proposal:
    target = f"{2 * cluster.rtt_ps // 10**6}us"
    apply, undo = _senders("swift", _SERVERS, f" --set base_target={target}")
    del form
    return Proposal(
        today=cluster.sender,
        proposed=f"swift with a target of {target}",
        follows="the target is two round trips without queues",
        changes={"stack.sender": {"name": "swift", "base_target": target}},
        apply=apply,
        undo=undo,
    )


def _newreno(cluster: Cluster, form: ClosedForm) -> Proposal:
    del form
    return Proposal(
        today=cluster.sender,
        proposed="newreno",
        follows="a loss takes half of a window",
        changes={"stack.sender": "newreno"},
        apply=_command(_SERVERS, "sysctl -w net.ipv4.tcp_congestion_control=reno"),
        undo=_command(_SERVERS, f"sysctl -w net.ipv4.tcp_congestion_control={cluster.sender}"),
        note="For connections that are opened after that.",
    )


def _rto_min(cluster: Cluster, form: ClosedForm) -> Proposal:
    del form
    today = text.seconds(cluster.rto_min_ps / 1e12)
    return Proposal(
        today=f"timeouts of {today} at least",
        proposed="timeouts of 1 ms at least",
        follows=f"a server that has lost the end of its response waits for {today} today",
        changes={"tcp.rto_min": _RTO_MIN},
        apply=_command(_SERVERS, "sysctl -w net.ipv4.tcp_rto_min_us=1000"),
        undo=_command(_SERVERS, f"sysctl -w net.ipv4.tcp_rto_min_us={cluster.rto_min_ps // 10**6}"),
        note="From Linux 6.11 on. Simulated with timers that tick every 4 ms, as those of Linux with HZ = 250.",
    )


def _buffer(cluster: Cluster, form: ClosedForm) -> Proposal:
    own = cluster.buffer
    if own.memory_bytes is None:
        more = type(own).own(_MORE * own.limit_bytes)
        today, proposed = f"{own.limit_bytes:,} B", f"{more.limit_bytes:,} B for the port"
    else:
        more = type(own).shared(own.memory_bytes, min(1024.0, _MORE * own.alpha), own.busy_ports)
        today, proposed = f"alpha {own.alpha:g}", f"alpha {more.alpha:g}: {more.limit_bytes:,} B for the port"
    needed = form.all_responses * form.buffer_bytes
    return Proposal(
        today=today,
        proposed=proposed,
        follows=f"all responses of a query are {needed / more.limit_bytes:.2g} times the port then",
        changes={"switch.buffer": more.scenario()},
        apply=(),
        undo=(),
        note="In the switch's own configuration; this project has no command for it."
        + (" Other ports get less of the memory, which was not simulated." if own.memory_bytes is not None else ""),
    )


def _both(
    first: Callable[[Cluster, ClosedForm], Proposal], second: Callable[[Cluster, ClosedForm], Proposal]
) -> Callable[[Cluster, ClosedForm], Proposal]:
    def propose(cluster: Cluster, form: ClosedForm) -> Proposal:
        one, other = first(cluster, form), second(cluster, form)
        return Proposal(
            today=f"{one.today}; {other.today}",
            proposed=f"{one.proposed}; {other.proposed}",
            follows=one.follows,
            changes={**one.changes, **other.changes},
            apply=(*one.apply, *other.apply),
            undo=(*one.undo, *other.undo),
            note=other.note,
        )

    return propose


REMEDIES: tuple[Remedy, ...] = (
    Remedy("application.fixed-window", ("application",), _fixed_window, needs_room=True),
    Remedy("application.window-clamp", ("application",), _window_clamp, needs_room=True),
    Remedy("application.credit", ("application",), _credit, needs_room=True),
    Remedy("receiver.static-window", ("receiver",), _static_window),
    Remedy("receiver.ictcp", ("receiver",), _ictcp),
    Remedy("receiver.ictcp+quickack", ("receiver",), _ictcp_quickack),
    Remedy("receiver.credit", ("receiver",), _receiver_credit),
    Remedy("receiver.closing-credit", ("receiver",), _closing_credit),
    Remedy("receiver.rdtcp+senders.rdtcp", ("receiver", "senders"), _rdtcp, is_simulated_only=True),
    Remedy("senders.rto-min", ("senders",), _rto_min),
    Remedy("senders.newreno", ("senders",), _newreno, unless_sender="newreno"),
    Remedy("senders.dctcp", ("senders",), _dctcp, needs_marks=True, unless_sender="dctcp"),
    Remedy("senders.pulser", ("senders", "switch"), _pulser),
    Remedy("senders.swift", ("senders",), _swift),
    Remedy("switch.buffer", ("switch",), _buffer),
    Remedy(
        "receiver.static-window+senders.dctcp",
        ("receiver", "senders"),
        _both(_static_window, _dctcp),
        needs_marks=True,
        unless_sender="dctcp",
    ),
    Remedy(
        "application.credit+senders.dctcp",
        ("application", "senders"),
        _both(_credit, _dctcp),
        needs_room=True,
        needs_marks=True,
        unless_sender="dctcp",
    ),
)
"""In the order in which they are listed where they do equally well: what is easy to undo first."""
