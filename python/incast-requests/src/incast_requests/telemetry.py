"""Gauges, counters and spans for OpenTelemetry: needs `opentelemetry-api`, the extra `incast-requests[opentelemetry]`.

Names begin with `incast.requests.`: the gauges `budget`, `in_use` and `window` (bytes), `waiting`, `outstanding` and
`draining` (requests), `losses_of_others` (0 or 1) and `think` (milliseconds), the counters `completed`, `failed` and
`withdrawn` (requests) and `budget_changes` with the attribute `why`, and a span `incast.request` from when a request
was asked for to when its response was over, with an event when it was granted.
"""

from __future__ import annotations

import operator
import time
import weakref
from typing import TYPE_CHECKING, Any

from opentelemetry import metrics, trace
from opentelemetry.metrics import Observation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opentelemetry.metrics import CallbackOptions, MeterProvider
    from opentelemetry.trace import Span, TracerProvider

    from incast_requests.decisions import Decision, Status
    from incast_requests.scheduler import Scheduler

_NAME = "incast_requests"
_GAUGES = {
    "budget": ("By", "bytes that may be under way", "budget_bytes"),
    "in_use": ("By", "what the granted requests cost", "in_use_bytes"),
    "window": ("By", "limit of receive windows", "window_bytes"),
    "waiting": ("{request}", "requests that wait", "waiting"),
    "outstanding": ("{request}", "requests with a grant", "outstanding"),
    "draining": ("{request}", "given up, and may still come", "draining"),
    "losses_of_others": ("1", "1 where less has not helped against losses", "losses_of_others"),
    "think": ("ms", "how long servers are taken to think", "think_ms"),
}
_COUNTERS = ("completed", "failed", "withdrawn")


def instrument(
    scheduler: Scheduler,
    *,
    meter_provider: MeterProvider | None = None,
    tracer_provider: TracerProvider | None = None,
    attributes: dict[str, str] | None = None,
) -> None:
    """Publish what a scheduler does, as long as it lives.

    Args:
        scheduler: the scheduler.
        meter_provider: where metrics go; without it, to the global provider.
        tracer_provider: where spans go; without it, to the global provider.
        attributes: for everything that is published, for example the name of the link.

    """
    fixed = dict(attributes or {})
    meter = metrics.get_meter(_NAME, meter_provider=meter_provider)
    alive = weakref.ref(scheduler)

    def observe(read: Callable[[Status], int | None]) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observed(_options: CallbackOptions) -> Iterable[Observation]:
            found = alive()
            value = None if found is None else read(found.status())
            return [] if value is None else [Observation(value, fixed)]

        return observed

    def changes(_options: CallbackOptions) -> Iterable[Observation]:
        found = alive()
        counts = {} if found is None else found.status().changes
        return [Observation(count, {**fixed, "why": why}) for why, count in counts.items()]

    for name, (unit, description, field) in _GAUGES.items():
        meter.create_observable_gauge(
            f"incast.requests.{name}", [observe(operator.attrgetter(field))], unit, description
        )
    for name in _COUNTERS:
        meter.create_observable_counter(f"incast.requests.{name}", [observe(operator.attrgetter(name))], "{request}")
    meter.create_observable_counter("incast.requests.budget_changes", [changes], "{change}")
    scheduler.on_decision(_Spans(trace.get_tracer(_NAME, tracer_provider=tracer_provider), fixed))


class _Spans:
    """A span for each request that has not ended."""

    def __init__(self, tracer: Any, attributes: dict[str, str]) -> None:  # noqa: ANN401
        self._tracer = tracer
        self._attributes = attributes
        self._open: dict[int, Span] = {}

    def __call__(self, decision: Decision) -> None:
        request = decision.request
        if request is None:
            return
        span = self._open.get(request)
        if span is None:
            if decision.kind not in ("waits", "granted"):
                return
            span = self._open[request] = self._tracer.start_span(
                "incast.request", attributes=self._attributes, start_time=time.time_ns()
            )
        if decision.cost_bytes is not None:
            span.set_attribute("incast.cost_bytes", decision.cost_bytes)
        if decision.kind == "granted":
            span.add_event("granted", {"incast.waiting": decision.waiting})
        elif decision.kind == "draining":
            span.add_event("draining")
        elif decision.kind in ("returned", "withdrawn"):
            span.set_attribute("incast.outcome", decision.kind)
            del self._open[request]
            span.end()
