"""How many responses to request at a time on a given network: `incast plan`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from incast import _native, analysis, figures, text
from incast._native import ScenarioError

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

_PS_PER_S = 1e12
# A risk below this is as good as none: one timeout in ten thousand rounds.
NEGLIGIBLE = 1e-4
# Beyond, the picture says no more and the table takes long.
_MOST_WORKERS = 100_000
# Of a port's buffer; the rest is for headers and tail probes. Measured: the documentation of the application `credit`.
_SAFE_SHARE = 0.7
# What waits longer in the port is sent twice: half of Linux's minimum retransmission timeout.
_LONGEST_QUEUE_S = 0.1
# Of the link's rate: with less, more requests at once are worth their risk.
_ENOUGH_SHARE = 0.8
# Of segments. Smaller windows wait for delayed ACKs.
_LIMITED_WINDOW_PKTS = 4
# Linux, since RFC 6928.
_LINUX_WINDOW_PKTS = 10
# Of a receiver on Linux: the maximum of net.ipv4.tcp_rmem, unless it is raised.
_RECEIVE_WINDOW_BYTES = 6 << 20
# In bytes no window of TCP is larger (RFC 7323), so in packets neither.
_MOST_WINDOW_PKTS = 2**30
_MOST_BUSY_PORTS = 10_000

Windows = Literal["kept", "fresh"]


@dataclass(frozen=True)
class Network:
    """The path from the workers to the aggregator, and the size of a response."""

    rate_bps: int
    buffer_bytes: int
    rtt_ps: int
    response_bytes: int
    mss_bytes: int
    think_ps: int = 0
    """How long a server takes before it answers."""
    busy_ports: int | None = None
    """If the buffer is a share of a memory: how many other ports hold as much of it as they may."""

    @classmethod
    def read(
        cls,
        *,
        rate: str,
        rtt: str,
        response: str,
        mss: str,
        think: str = "0s",
        buffer: str | None = None,
        memory: str | None = None,
        alpha: float = 1.0,
        busy_ports: int = 0,
    ) -> Network:
        """Read the options of the command line.

        Args:
            rate: rate of the aggregator's link.
            rtt: round-trip time without queueing.
            response: size of each response.
            mss: payload of a full packet.
            think: how long a server takes before it answers.
            buffer: buffer of the port to that link.
            memory: instead of buffer, memory that the ports of the switch share.
            alpha: a port of that memory may hold this many times what is free.
            busy_ports: ports beside this one that hold as much as they may.

        Raises:
            ScenarioError: an amount is invalid or has no unit; buffer and memory are both given, or neither; the port
                has no room for a full packet.

        """
        network = cls(
            _quantity("rate", "rate", rate),
            _port_buffer(buffer, memory, alpha, busy_ports),
            _quantity("time", "rtt", rtt),
            _quantity("bytes", "response", response),
            _quantity("bytes", "mss", mss),
            _quantity("time", "think", think, least=0),
            None if memory is None else busy_ports,
        )
        if network.buffer_bytes < network.mss_bytes:
            shared = f"--memory {memory}, --alpha {alpha:g}, --busy-ports {busy_ports}"
            given = shared if buffer is None else f"--buffer {buffer}"
            raise ScenarioError(
                f"{given}: the port holds {network.buffer_bytes:,} B, expected room for a packet of "
                f"{network.mss_bytes:,} B at least"
            )
        if network.response_bytes > network.mss_bytes * 2**40:
            raise ScenarioError(f"--response {response}: more than 2^40 packets of {mss}")
        return network


@dataclass(frozen=True)
class Plan:
    """The advice for a network, by the equations of the ARS paper."""

    network: Network
    initial_window: int | None
    capacity_pkts: float
    path_pkts: float
    response_pkts: int
    window_pkts: int
    n_star: int
    n_congested: int
    workers: NDArray[np.int64]
    at_once: NDArray[np.float64]
    """By number of workers, the probability of a timeout if all respond at once."""
    in_batches: NDArray[np.float64]
    """The same for the largest batch of ARS."""
    windows: Windows = "kept"
    """Whether connections keep their windows from one response to the next."""

    @property
    def burst_pkts(self) -> int:
        """How many packets of a response a server of today sends at once, at most."""
        if self.windows == "kept":
            return self.response_pkts
        return analysis.largest_window(self.response_pkts, initial_window=self.initial_window or _LINUX_WINDOW_PKTS)

    @property
    def burst_bytes(self) -> int:
        """The same in bytes of payload; a receive window allows no more."""
        return min(self.network.response_bytes, self.burst_pkts * self.network.mss_bytes, _RECEIVE_WINDOW_BYTES)

    @property
    def budget_bytes(self) -> int:
        """How many bytes of payload may be under way at once without loss."""
        queue = self.network.rate_bps / 8 * _LONGEST_QUEUE_S
        return max(self.network.mss_bytes, int(min(_SAFE_SHARE * self.network.buffer_bytes, queue)))

    @property
    def safe(self) -> int:
        """How many workers to ask at once so that nothing is lost; 0 if even one may lose packets."""
        return self.budget_bytes // self.burst_bytes

    @property
    def limited_window_bytes(self) -> int:
        """The receive window to limit connections to, beside the budget."""
        return _LIMITED_WINDOW_PKTS * self.network.mss_bytes

    @property
    def limited_at_once(self) -> int:
        """How many workers to ask at once with such windows; at least one, even if that may lose packets."""
        return max(1, self.budget_bytes // self.limited_cost_bytes)

    @property
    def limited_cost_bytes(self) -> int:
        """How much of the budget a request takes with such windows, as in the application `credit`."""
        return min(self.network.response_bytes, self.limited_window_bytes)

    @property
    def limited_is_safe(self) -> bool:
        """Whether nothing is lost then."""
        return self.limited_cost_bytes <= self.budget_bytes

    @property
    def limited_goodput_bps(self) -> float:
        """What those can bring at most: each thinks, and then sends a window per round trip."""
        network = self.network
        round_trips = -(-network.response_bytes // self.limited_window_bytes)
        seconds = (network.think_ps + round_trips * network.rtt_ps) / _PS_PER_S
        return min(network.rate_bps, 8 * network.response_bytes * self.limited_at_once / seconds)

    @property
    def fan_in_fits(self) -> bool:
        """Whether all workers may be asked at once, so that fan-in is not what is slow."""
        return self.safe >= int(self.workers[-1])

    @property
    def in_buffer(self) -> int:
        """How many of the largest windows fit into the buffer if they arrive in one burst; at least one."""
        return max(1, self.network.buffer_bytes // (self.window_pkts * self.network.mss_bytes))

    @property
    def safe_at_once(self) -> int:
        """The largest number of workers to ask at once at a negligible risk."""
        risky = np.flatnonzero(self.at_once > NEGLIGIBLE)
        return int(self.workers[risky[0]]) - 1 if risky.size else int(self.workers[-1])

    def as_json(self) -> dict[str, Any]:
        """Return all numbers for programs; units are in the names."""
        return {
            "rate_bps": self.network.rate_bps,
            "rtt_s": self.network.rtt_ps / _PS_PER_S,
            "buffer_bytes": self.network.buffer_bytes,
            "response_bytes": self.network.response_bytes,
            "mss_bytes": self.network.mss_bytes,
            "capacity_pkts": self.capacity_pkts,
            "path_pkts": self.path_pkts,
            "response_pkts": self.response_pkts,
            "window_pkts": self.window_pkts,
            "n_star": self.n_star,
            "n_congested": self.n_congested,
            "in_buffer": self.in_buffer,
            "safe_at_once": self.safe_at_once,
            "windows": self.windows,
            "burst_bytes": self.burst_bytes,
            "safe": self.safe,
            "n_star_is_safe": self.n_star <= self.safe,
            "fan_in_fits": self.fan_in_fits,
            "budget_bytes": self.budget_bytes,
            "limited_window_bytes": self.limited_window_bytes,
            "think_s": self.network.think_ps / _PS_PER_S,
            "limited_at_once": self.limited_at_once,
            "limited_is_safe": self.limited_is_safe,
            "limited_goodput_bps": self.limited_goodput_bps,
            "risk": [
                {"workers": n, "at_once": once, "in_batches": batch}
                for n, once, batch in zip(
                    self.workers.tolist(), self.at_once.tolist(), self.in_batches.tolist(), strict=True
                )
            ],
        }

    def report(self) -> str:
        """Return the advice as text."""
        network = self.network
        slow_start = (
            "slow start from one packet, complete doublings"
            if self.initial_window is None
            else f"slow start from {self.initial_window} packets"
        )
        rate, rtt = text.rate(network.rate_bps), text.seconds(network.rtt_ps / _PS_PER_S)
        holds = f"{self.capacity_pkts:.1f} packets of {network.mss_bytes:,} B"
        room = (
            f"{self.n_star:,} of the largest windows slightly exceed what the model counts as room, "
            f"{self.n_star - 1:,} do not."
            if self.n_star > 1
            else "Even one of the largest windows exceeds what the model counts as room."
        )
        is_unsafe = self.n_star > self.safe and not self.fan_in_fits
        unsafe = ", which is unsafe with the TCP of Linux (see below)" if is_unsafe else ""
        lines = [
            f"A {rate} link with a round trip of {rtt} and {network.buffer_bytes:,} B of buffer",
            f"  holds {holds}: {self.path_pkts:.1f} in flight, the rest in the buffer.",
            f"A response of {network.response_bytes:,} B is {self.response_pkts:,} packets,",
            f"  with at most {self.window_pkts:,} in flight at once ({slow_start}).",
            "",
            f"By the model of the ARS paper (equation 7){unsafe}:",
            f"Ask {_workers(self.n_star)} at a time (n*, the paper's batch size).",
            f"  {room}",
            f"After reordering, ask {_workers(self.n_congested)} (n_c), which leaves the buffer to other traffic.",
        ]
        if self.safe_at_once:
            at_once = f"With up to {_workers(self.safe_at_once)} at once"
            lines.append(
                f"{at_once} the risk that a whole window is lost is below {NEGLIGIBLE:g}; less does not count."
            )
        lines += ["", *self._today()]
        shown = self._shown()
        rows = [
            [f"{n:,}", _risk(self.at_once[n - 1]), _risk(self.in_batches[n - 1]), f"{math.ceil(n / self.n_star):,}"]
            for n in shown
        ]
        lines += ["", "Risk of a timeout per round, by the model:", ""]
        lines.append(text.table(["workers", "all at once", f"batches of {self.n_star:,}", "batches"], rows))
        lines += [
            "",
            "The model assumes random drops, and that only the loss of a whole window causes a timeout. Real senders",
            "also time out when the last packets of a response are lost. The documentation shows where the model holds",
            '("The risk model of ARS"); `incast run` simulates your own network.',
        ]
        return "\n".join(lines)

    def _today(self) -> list[str]:
        """Say what is safe with the TCP of today's servers."""
        most = int(self.workers[-1])
        kept = "windows kept from one response to the next" if self.windows == "kept" else "windows that begin anew"
        network = self.network
        lines = [
            f"Servers of today ({kept}) send up to {self.burst_bytes:,} B of a response at once,",
            *(["  as receive windows allow no more,"] if self.burst_bytes == _RECEIVE_WINDOW_BYTES else []),
            *self._taken(),
        ]
        if self.fan_in_fits:
            return [
                *lines,
                f"  {_workers(most)} at once fit: fan-in is not what makes them slow. Look for long flows at the same",
                "  port, slow servers, or losses elsewhere.",
            ]
        if self.n_star > self.safe:
            lines.append(
                f"  n* is unsafe there, as it counts on slow start and on what the path holds: {self._safe_number()}"
            )
        else:
            lines.append(f"  n* is safe there; {_workers(self.safe)} at once would be too.")
        window = f"windows limited to {self.limited_window_bytes:,} B"
        if not self.limited_is_safe:
            return [
                *lines,
                f"  Ask one worker at a time, with {window}. Even that may overflow the port, and smaller windows",
                "  wait for delayed ACKs.",
            ]
        # They limit nothing if a response is no larger; then the number is the safe one, which is said already.
        lines += (
            [f"  With {window} ask {_workers(self.limited_at_once)} at once, and one more with each"]
            if network.response_bytes > self.limited_window_bytes
            else ["  Ask one more with each"]
        )
        lines.append("  complete response: the application credit does, and so does the library incast-requests.")
        if self.limited_goodput_bps < _ENOUGH_SHARE * network.rate_bps:
            found, rate = text.rate(round(self.limited_goodput_bps)), text.rate(network.rate_bps)
            thinks = f"thinks for {text.seconds(network.think_ps / _PS_PER_S)} and " if network.think_ps else ""
            lines += [
                f"  That brings at most {found} of {rate}: each {thinks}sends a window per round trip.",
                "  A scheduler that has the port can find out if more at once pays (`learn_think = true`; the library",
                "  for Python does so by itself).",
            ]
            if network.think_ps:
                lines += [
                    "  If you tell it how long they think, it need not find out (`think`; `think_ms` in the library).",
                ]
        return lines

    def _taken(self) -> list[str]:
        """Say what the port takes, and what that assumes of a memory that ports share."""
        busy = self.network.busy_ports
        takes = f"  and the port takes {self.budget_bytes:,} B of payload without loss"
        if busy is None:
            return [f"{takes}."]
        if busy == 0:
            return [f"{takes}, if no other port is busy."]
        others = (
            "busy port holds all it may and drains" if busy == 1 else f"{busy:,} busy ports hold all they may and drain"
        )
        return [f"{takes},", f"  even if the {others} nothing meanwhile."]

    def _safe_number(self) -> str:
        if self.safe:
            return f"ask {_workers(self.safe)}."
        return "even one response may overflow the port."

    def _shown(self) -> list[int]:
        """Choose the rows of the table: 1, 2, 5, 10, ... workers, and where the advice changes."""
        most = int(self.workers[-1])
        steps = {factor * 10**power for power in range(6) for factor in (1, 2, 5)}
        marks = {self.n_star, self.n_star + 1, self.safe_at_once, self.safe_at_once + 1, most}
        return sorted(n for n in steps | marks if 1 <= n <= most)


def plan(network: Network, workers: int, *, initial_window: int | None = None, windows: Windows = "kept") -> Plan:
    """Apply the equations to a network with 1 to `workers` workers.

    What is safe with the TCP of today's servers depends on whether they keep their `windows`.

    Raises:
        ScenarioError: there are too many workers to list, or packets in the initial window.

    """
    if workers > _MOST_WORKERS:
        raise ScenarioError(f"--workers {workers}: expected 1 to {_MOST_WORKERS}")
    if initial_window is not None and initial_window > _MOST_WINDOW_PKTS:
        raise ScenarioError(f"--initial-window {initial_window}: expected 1 to {_MOST_WINDOW_PKTS} packets")
    packets = -(-network.response_bytes // network.mss_bytes)
    window = analysis.largest_window(packets, initial_window=initial_window)
    row = (network.rate_bps, network.rtt_ps, network.buffer_bytes, network.mss_bytes, window)
    ((capacity, path, optimal, congested),) = _native.batch_sizes([row])
    n = np.arange(1, workers + 1)
    # While all windows fit at their largest, none overflows the buffer and equation 9 does not apply.
    at_once = np.where(n * window > capacity, analysis.slow_start_incast_probability(n, capacity), 0.0)
    in_batches = np.asarray(analysis.incast_probability(np.minimum(n, optimal), window, capacity))
    return Plan(
        network, initial_window, capacity, path, packets, window, optimal, congested, n, at_once, in_batches, windows
    )  # fmt: skip


def write(planned: Plan, directory: Path) -> list[Path]:
    """Write the figure and its numbers; return the files."""
    picture, numbers = directory / "risk.png", directory / "risk.csv"
    figures.save(draw(planned), picture)
    rows = zip(planned.workers.tolist(), planned.at_once.tolist(), planned.in_batches.tolist(), strict=True)
    numbers.write_text(text.csv([("workers", "risk_at_once", "risk_in_batches"), *rows]), encoding="utf-8")
    return [picture, numbers]


def draw(planned: Plan, style: figures.Style = figures.LIGHT) -> Figure:
    """Draw the risk of a round against the number of workers."""
    with figures.rc(style):
        figure, (axes,) = figures.stacked(1, 3.2, style)
        curves = {"all at once": planned.at_once, f"batches of {planned.n_star:,}": planned.in_batches}
        for (label, risk), look in zip(curves.items(), figures.looks(curves), strict=True):
            axes.plot(planned.workers, risk, linewidth=1.8, label=label, **look.line(style))
        axes.set(xlabel="workers", ylabel="risk of a lost window", ylim=(-0.02, 1.02))
        axes.set_xlim(0, max(2, int(planned.workers[-1])))
        network = planned.network
        title = (
            f"{text.rate(network.rate_bps)}, {text.seconds(network.rtt_ps / _PS_PER_S)}, "
            f"{network.buffer_bytes:,} B of buffer, responses of {network.response_bytes:,} B"
        )
        figures.legend_above(axes, style, title)
        return figure


def _port_buffer(buffer: str | None, memory: str | None, alpha: float, busy_ports: int) -> int:
    """Return what a port holds: its buffer, or its share of a memory with a dynamic threshold."""
    expected = "expected the port's buffer or the memory that ports share"
    if buffer is not None:
        if memory is not None:
            raise ScenarioError(f"--buffer, --memory: found both, {expected}")
        if alpha != 1:
            raise ScenarioError(f"--alpha {alpha:g}: expected only with --memory, found --buffer")
        if busy_ports != 0:
            raise ScenarioError(f"--busy-ports {busy_ports}: expected only with --memory, found --buffer")
        return _quantity("bytes", "buffer", buffer)
    if memory is None:
        raise ScenarioError(f"--buffer, --memory: found neither, {expected}")
    if not 0 < alpha <= 1024:
        raise ScenarioError(f"--alpha {alpha:g}: expected more than 0, at most 1024")
    if not 0 <= busy_ports <= _MOST_BUSY_PORTS:
        raise ScenarioError(f"--busy-ports {busy_ports}: expected 0 to {_MOST_BUSY_PORTS}")
    # Choudhury and Hahne (1998): a queue grows while it is shorter than alpha times what is free. In the steady state
    # each of n ports that want more holds alpha / (1 + n alpha). A burst is over before the others have drained to the
    # share that they would have beside it: it finds 1 / (1 + n alpha) free, of which it gets alpha / (1 + alpha).
    return int(_quantity("bytes", "memory", memory) / (1 + busy_ports * alpha) * alpha / (1 + alpha))


def _quantity(kind: Literal["rate", "bytes", "time"], option: str, value: str, *, least: int = 1) -> int:
    try:
        found = _native.quantity(kind, value)
    except ScenarioError as error:
        raise ScenarioError(f"--{option}: {error}") from error
    if found < least:
        raise ScenarioError(f"--{option} {value}: must be greater than zero")
    return found


def _workers(count: int) -> str:
    return f"{count:,} worker{'s' if count != 1 else ''}"


def _risk(value: float) -> str:
    if value == 0:
        return "0"
    return f"{value:.2f}" if value >= 0.01 else f"{value:.1e}"
