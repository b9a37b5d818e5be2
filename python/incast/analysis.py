"""Closed forms from the papers, for numbers and arrays.

Huang et al., "ARS: Cross-layer Adaptive Request Scheduling to Mitigate TCP Incast in Data Center Networks", equations 1
to 10. The probabilities assume that drops are random, windows are equal, and only the loss of a whole window causes a
timeout; the documentation shows where that holds.

Wang et al., "An Incast-Coflow-Aware Minimum-Rate-Guaranteed Congestion Control Protocol for Datacenter Applications"
(DCMRG), equation 15.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, overload

import numpy as np

from incast import _native

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    Floats: TypeAlias = NDArray[np.float64]
    Ints: TypeAlias = NDArray[np.int64]

# The native side takes 64-bit integers; with this limit no sum of two overflows.
_MOST = float(2**62)
_PS_PER_S = 1e12


@overload
def timeout_probability(flows: float, window_pkts: float, capacity_pkts: float) -> float: ...
@overload
def timeout_probability(flows: ArrayLike, window_pkts: ArrayLike, capacity_pkts: ArrayLike) -> float | Floats: ...
def timeout_probability(flows: ArrayLike, window_pkts: ArrayLike, capacity_pkts: ArrayLike) -> float | Floats:
    """Return the probability that one flow loses its whole window (equation 3).

    Args:
        flows: number of flows that send at the same time.
        window_pkts: window of each flow, in packets; may be a fractional average.
        capacity_pkts: capacity of path and buffer together, in packets (`Yb`).

    Raises:
        ValueError: an argument is negative or not a number.

    """
    return _probability(_native.timeout_probability, flows, window_pkts, capacity_pkts)


@overload
def incast_probability(flows: float, window_pkts: float, capacity_pkts: float) -> float: ...
@overload
def incast_probability(flows: ArrayLike, window_pkts: ArrayLike, capacity_pkts: ArrayLike) -> float | Floats: ...
def incast_probability(flows: ArrayLike, window_pkts: ArrayLike, capacity_pkts: ArrayLike) -> float | Floats:
    """Return the probability that at least one flow loses its whole window (equation 4; 8 for a batch).

    Args:
        flows: number of flows that send at the same time.
        window_pkts: window of each flow, in packets; may be a fractional average.
        capacity_pkts: capacity of path and buffer together, in packets (`Yb`).

    Raises:
        ValueError: an argument is negative or not a number.

    """
    return _probability(_native.incast_probability, flows, window_pkts, capacity_pkts)


@overload
def slow_start_incast_probability(flows: float, capacity_pkts: float) -> float: ...
@overload
def slow_start_incast_probability(flows: ArrayLike, capacity_pkts: ArrayLike) -> float | Floats: ...
def slow_start_incast_probability(flows: ArrayLike, capacity_pkts: ArrayLike) -> float | Floats:
    """Return the same probability for flows that all start at once in slow start (equation 9).

    Their windows grow until they fill the capacity and then double, so that half of the packets are lost. This applies
    only to flows with enough data to overflow the buffer.

    Args:
        flows: number of flows that start at the same time.
        capacity_pkts: capacity of path and buffer together, in packets (`Yb`).

    Raises:
        ValueError: an argument is negative or not a number.

    """
    (n, held), shape = _together(flows=flows, capacity_pkts=capacity_pkts)
    return _shaped(_native.slow_start_incast_probability(n.tolist(), held.tolist()), shape)


@overload
def largest_window(response_pkts: int, *, initial_window: int | None = None) -> int: ...
@overload
def largest_window(response_pkts: ArrayLike, *, initial_window: int | None = None) -> int | Ints: ...
def largest_window(response_pkts: ArrayLike, *, initial_window: int | None = None) -> int | Ints:
    """Return the largest number of packets of a response in flight at once in slow start (`W`).

    Args:
        response_pkts: size of the response in packets (`Ys`).
        initial_window: compute what slow start from this many packets sends. Without it, use the formula of the paper:
            start from one packet, and count only complete doublings.

    Raises:
        ValueError: an argument is negative or not a number.

    """
    (packets,), shape = _together(response_pkts=response_pkts)
    return _whole(_native.largest_window(_integers(packets), _first_window(initial_window)), shape)


@overload
def ars_batch_size(
    rate_bps: float, rtt_s: float, buffer_bytes: float, mss_bytes: float, response_bytes: float,
    *, initial_window: int | None = None,
) -> tuple[int, int]: ...  # fmt: skip
@overload
def ars_batch_size(
    rate_bps: ArrayLike, rtt_s: ArrayLike, buffer_bytes: ArrayLike, mss_bytes: ArrayLike, response_bytes: ArrayLike,
    *, initial_window: int | None = None,
) -> tuple[int | Ints, int | Ints]: ...  # fmt: skip
def ars_batch_size(
    rate_bps: ArrayLike, rtt_s: ArrayLike, buffer_bytes: ArrayLike, mss_bytes: ArrayLike, response_bytes: ArrayLike,
    *, initial_window: int | None = None,
) -> tuple[int | Ints, int | Ints]:  # fmt: skip
    """Return how many responses to request at a time: `(n_star, n_congested)` (equations 7 and 10).

    Args:
        rate_bps: rate of the link to the aggregator, in bit/s.
        rtt_s: round-trip time without queueing, in seconds.
        buffer_bytes: buffer of the switch port to that link, in bytes.
        mss_bytes: size of a full packet, in bytes.
        response_bytes: size of each response, in bytes.
        initial_window: see [`largest_window`].

    Raises:
        ValueError: an argument is negative or not a number, or the packet size is zero.

    """
    given = {"rate_bps": rate_bps, "rtt_s": rtt_s, "buffer_bytes": buffer_bytes, "mss_bytes": mss_bytes}
    (rate, rtt, buffer, mss, response), shape = _together(**given, response_bytes=response_bytes)
    if (mss < 1).any():
        raise ValueError(f"mss_bytes: must be 1 or more, found {mss[mss < 1][0]:g}")
    packets = np.ceil(response / mss)
    window = _native.largest_window(_integers(packets), _first_window(initial_window))
    columns = (_integers(rate), _integers(rtt * _PS_PER_S), _integers(buffer), _integers(mss), window)
    sizes = _native.batch_sizes(list(zip(*columns, strict=True)))
    return _whole([size[2] for size in sizes], shape), _whole([size[3] for size in sizes], shape)


def water_level(capacity_bps: float, min_rates_bps: ArrayLike, elastic_flows: int) -> tuple[float, Floats]:
    """Return how DCMRG divides a port: `(elastic rate, rate of each inelastic flow)` (DCMRG, equation 15).

    Every flow gets the same rate, but none less than its minimum rate.

    Args:
        capacity_bps: capacity of the port, in bit/s.
        min_rates_bps: minimum rate of each inelastic flow, in bit/s.
        elastic_flows: number of flows without a minimum rate.

    Raises:
        ValueError: an argument is negative or not a number, or the minimum rates exceed the capacity.

    """
    (capacity,), shape = _together(capacity_bps=capacity_bps)
    (rates,), _ = _together(min_rates_bps=min_rates_bps)
    if shape:
        raise ValueError("capacity_bps: expected one number, not an array")
    if elastic_flows < 0 or elastic_flows != int(elastic_flows):
        raise ValueError(f"elastic_flows: must be a whole number, 0 or more, found {elastic_flows}")
    divided = _native.water_level(float(capacity[0]), rates.tolist(), int(elastic_flows))
    if divided is None:
        raise ValueError(f"min_rates_bps: the sum, {rates.sum():g}, exceeds the capacity of {capacity[0]:g}")
    return divided[0], np.array(divided[1], dtype=np.float64)


def _probability(
    of: Callable[[list[float], list[float], list[float]], list[float]],
    flows: ArrayLike,
    window_pkts: ArrayLike,
    capacity_pkts: ArrayLike,
) -> float | Floats:
    (n, window, held), shape = _together(flows=flows, window_pkts=window_pkts, capacity_pkts=capacity_pkts)
    return _shaped(of(n.tolist(), window.tolist(), held.tolist()), shape)


def _together(**given: ArrayLike) -> tuple[list[Floats], tuple[int, ...]]:
    """Return all arguments as flat arrays of the same length, and their common shape."""
    arrays = []
    for name, values in given.items():
        try:
            array = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name}: expected numbers, found {values!r}") from error
        wrong = array[~((array >= 0) & (array <= _MOST))]
        if wrong.size:
            raise ValueError(f"{name}: must be from 0 to {_MOST:.1e}, found {wrong.flat[0]:g}")
        arrays.append(array)
    try:
        shaped = np.broadcast_arrays(*arrays)
    except ValueError as error:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in zip(given, arrays, strict=True))
        raise ValueError(f"incompatible shapes: {shapes}") from error
    return [one.ravel() for one in shaped], shaped[0].shape


def _integers(values: Floats) -> list[int]:
    return [int(value) for value in np.rint(np.minimum(values, _MOST))]


def _first_window(initial_window: int | None) -> int | None:
    if initial_window is not None and not 1 <= initial_window <= _MOST:
        raise ValueError(f"initial_window: must be 1 packet or more, found {initial_window}")
    return initial_window


def _shaped(values: list[float], shape: tuple[int, ...]) -> float | Floats:
    return np.array(values, dtype=np.float64).reshape(shape) if shape else values[0]


def _whole(values: list[int], shape: tuple[int, ...]) -> int | Ints:
    return np.array(values, dtype=np.int64).reshape(shape) if shape else values[0]
