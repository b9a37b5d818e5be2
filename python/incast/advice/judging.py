"""What the runs say: whether the cluster collapses, from where on, why, and which remedy helps it most."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from incast import text
from incast.advice import closed_form, remedies, simulation
from incast.advice.cluster import MOST_LONG_FLOWS, MOST_SERVERS, Size
from incast.estimates import estimate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from incast.advice.closed_form import ClosedForm
    from incast.advice.cluster import Cluster
    from incast.advice.remedies import Proposal, Remedy
    from incast.advice.simulation import Outcome
    from incast.studies.plan import Task
    from incast.studies.store import Store

# A cluster collapses if its queries take more than this multiple of their time without losses and long flows.
COLLAPSE = 2.0
# Smaller differences are not worth a change, however certain.
WORTH = 0.05
SEEDS, FEWER_SEEDS = 5, 3
TODAY = "today"
P50, P99 = 50, 99

Runs = tuple["Outcome", ...]
Judged = Literal["better", "no difference", "worse", "not known"]
Verdict = Literal["collapses", "does not collapse", "seeds differ"]
Culprit = Literal["nothing", "fan-in", "long flows", "the port"]


_VERDICTS: tuple[Verdict, ...] = ("collapses", "does not collapse", "seeds differ")


class Ratio(NamedTuple):
    """A ratio of two times over paired seeds: geometric mean and 95 % interval (Student's t of the logarithms)."""

    mean: float
    low: float
    high: float

    def said(self) -> str:
        """Write it."""
        return f"{factor(self.mean)} ({factor(self.low)} to {factor(self.high)})"


def factor(value: float) -> str:
    """Write a factor with three digits, and no exponent unless it is needed."""
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def ratio(runs: Runs, to: Runs, percent: int) -> Ratio:
    """Compare a percentile of two sets of runs, seed by seed."""
    logs = [math.log(a.percentile(percent) / b.percentile(percent)) for a, b in zip(runs, to, strict=True)]
    found = estimate(logs)
    return Ratio(math.exp(found.mean), math.exp(found.low), math.exp(found.high))


def typical(runs: Runs, percent: int) -> float:
    """Return the geometric mean of a percentile over seeds."""
    return math.exp(math.fsum(math.log(run.percentile(percent)) for run in runs) / len(runs))


def side(slowdown: Ratio) -> Verdict:
    """Say on which side of `COLLAPSE` a whole interval is."""
    if slowdown.low > COLLAPSE:
        return "collapses"
    return "does not collapse" if slowdown.high <= COLLAPSE else "seeds differ"


def is_bound(runs: Runs, percent: int) -> bool:
    """Whether some seed knows only a lower bound of a percentile."""
    return any(run.is_bound(percent) for run in runs)


@dataclass(frozen=True)
class Asked:
    """One kind of runs: a cluster, changes of it, and with how many seeds."""

    cluster: Cluster
    changes: Mapping[str, object]
    seeds: int = SEEDS

    def tasks(self) -> list[Task]:
        """Return its runs."""
        return [simulation.task(self.cluster, self.changes, seed) for seed in range(1, self.seeds + 1)]

    def runs(self, store: Store) -> Runs:
        """Return what became of them."""
        return tuple(simulation.outcome(self.cluster, task, store) for task in self.tasks())


@dataclass(frozen=True)
class Candidate:
    """A remedy that is allowed, and what it proposes; or today's cluster."""

    id: str
    proposal: Proposal | None
    remedy: Remedy | None
    places: tuple[str, ...] = ()
    """Who has to change something for it."""

    @property
    def changes(self) -> Mapping[str, object]:
        """Of the scenario."""
        return self.proposal.changes if self.proposal else {}

    @property
    def can_be_applied(self) -> bool:
        """Whether it exists outside the simulator."""
        return self.remedy is None or not self.remedy.is_simulated_only


@dataclass(frozen=True)
class Plan:
    """All that is asked of the simulator."""

    cluster: Cluster
    form: ClosedForm
    candidates: tuple[Candidate, ...]
    left_out: tuple[tuple[str, str], ...]
    """Remedies that the cluster cannot use, and why."""
    sweep: tuple[int, ...]
    neighbours: Mapping[str, Cluster]
    """Clusters that differ a little, by what is different."""

    def ranking(self, candidate: Candidate) -> Asked:
        """Return the runs of a candidate."""
        return Asked(self.cluster, candidate.changes)

    def neighbour(self, name: str, candidate: Candidate) -> Asked:
        """Return the runs of a candidate in a cluster that is a little different, for which it is not set up."""
        return Asked(self.neighbours[name], _kept(candidate, self.cluster, self.neighbours[name]), FEWER_SEEDS)

    def of_fan_in(self, servers: int) -> Asked:
        """Return runs of today's cluster with other fan-ins."""
        return Asked(self.cluster.with_(fan_in=servers), {}, FEWER_SEEDS)

    def lossless(self, servers: int | None = None) -> Asked:
        """Return runs without losses and long flows."""
        alone = self.cluster.with_(long_flows=0)
        if servers is None:
            return Asked(alone, simulation.LOSSLESS)
        return Asked(alone.with_(fan_in=servers), simulation.LOSSLESS, FEWER_SEEDS)

    def alone(self) -> Asked:
        """Return runs without long flows."""
        return Asked(self.cluster.with_(long_flows=0), {})

    def one_server(self) -> tuple[Asked, Asked]:
        """Return runs in which one server sends as much as all do, and the same without losses and long flows."""
        whole = self.cluster.fan_in * self.cluster.response_bytes
        one = self.cluster.with_(fan_in=1, sizes=(Size(whole, 1.0),))
        return Asked(one, {}, FEWER_SEEDS), Asked(one.with_(long_flows=0), simulation.LOSSLESS, FEWER_SEEDS)

    def asked(self) -> list[Asked]:
        """Return everything."""
        return [
            *(self.ranking(one) for one in self.candidates),
            self.lossless(),
            self.alone(),
            *self.one_server(),
            *(one for n in self.sweep for one in (self.of_fan_in(n), self.lossless(n))),
            *(self.neighbour(name, one) for name in self.neighbours for one in self.candidates if one.can_be_applied),
        ]

    def tasks(self) -> list[Task]:
        """Return all runs."""
        return [task for one in self.asked() for task in one.tasks()]


def _kept(candidate: Candidate, cluster: Cluster, neighbour: Cluster) -> Mapping[str, object]:
    """Return the changes of a candidate in another cluster: its numbers stay, but a buffer is that of the other."""
    if "switch.buffer" not in candidate.changes or neighbour.buffer == cluster.buffer or candidate.remedy is None:
        return candidate.changes
    return candidate.remedy.propose(neighbour, closed_form.compute(neighbour)).changes


def plan(cluster: Cluster, form: ClosedForm) -> Plan:
    """Decide what to run."""
    candidates, left_out = [Candidate(TODAY, None, None)], []
    for remedy in remedies.REMEDIES:
        if why := remedy.lacking(cluster, form):
            left_out.append((remedy.id, why))
        else:
            proposal = remedy.propose(cluster, form)
            candidates.append(Candidate(remedy.id, proposal, remedy, remedy.places_in(cluster)))
    neighbours = {"half the buffer": cluster.with_(buffer=cluster.buffer.halved())}
    if 2 * cluster.fan_in <= MOST_SERVERS:
        neighbours = {"twice the fan-in": cluster.with_(fan_in=2 * cluster.fan_in), **neighbours}
    if cluster.long_flows < MOST_LONG_FLOWS:
        name = "one more long flow" if cluster.long_flows else "a long flow"
        neighbours[name] = cluster.with_(long_flows=cluster.long_flows + 1)
    return Plan(cluster, form, tuple(candidates), tuple(left_out), _fan_ins(cluster.fan_in), neighbours)


def _fan_ins(most: int) -> tuple[int, ...]:
    """Return fan-ins around today's: an eighth of it to twice as much, and one."""
    steps = {1, *(round(most * part) for part in (1 / 8, 1 / 4, 1 / 2, 3 / 4, 1, 3 / 2, 2))}
    return tuple(sorted(n for n in steps if 1 <= n <= MOST_SERVERS))


@dataclass(frozen=True)
class Point:
    """A fan-in, how long its queries take, and how that compares with no losses and long flows."""

    fan_in: int
    p99_s: float
    lossless_s: float
    ratio: Ratio
    is_bound: bool

    @property
    def verdict(self) -> Verdict:
        """Whether its queries are too slow."""
        return side(self.ratio)


@dataclass(frozen=True)
class Result:
    """How a candidate did."""

    candidate: Candidate
    p50_s: float
    p99_s: float
    p50: Ratio
    """To today."""
    p99: Ratio
    is_bound: bool
    """Whether its p99 is a lower bound: queries were not finished when the run ended."""
    judged: Judged
    timeouts_per_query: float
    drops_per_query: float
    missed_share: float | None
    long_share: float | None


@dataclass(frozen=True)
class Warned:
    """A change of the cluster that would change the choice."""

    change: str
    choice: str
    better: str
    ratio: Ratio
    """p99 of the choice to that of what is better then."""

    def said(self) -> str:
        """Say it."""
        stay = "today's cluster" if self.choice == TODAY else self.choice
        better = "today's cluster" if self.better == TODAY else self.better
        times = f"{self.ratio.said()} times the p99 of {better}"
        return f"With {self.change} the choice would be another: {stay} then has {times}."


@dataclass(frozen=True)
class Advice:
    """Everything that came out."""

    plan: Plan
    today: Result
    lossless_p50_s: float
    lossless_p99_s: float
    slowdown: Ratio
    """p99 today to that without losses and long flows."""
    alone: Ratio | None
    """The same without long flows, if there are any."""
    one_server: Ratio
    """The same where one server sends what all do."""
    sweep: tuple[Point, ...]
    results: tuple[Result, ...]
    """Of the remedies, best first."""
    choice: str
    """What to take: an id, or `today`."""
    as_good: tuple[str, ...]
    """What could be taken as well."""
    warnings: tuple[Warned, ...]
    runs: int
    culprit: Culprit

    @property
    def collapses(self) -> bool:
        """Whether today's queries are too slow."""
        return self.slowdown.mean > COLLAPSE

    def collapse_from(self) -> int | None:
        """Return the fan-in from which on all that were tried collapse."""
        found = None
        for point in reversed(self.sweep):
            if point.verdict != "collapses":
                break
            found = point.fan_in
        return found


def judge(planned: Plan, store: Store) -> Advice:
    """Compare the runs, which are all in the store."""
    cluster = planned.cluster
    runs = {one.id: planned.ranking(one).runs(store) for one in planned.candidates}
    lossless = planned.lossless().runs(store)
    results = [_result(one, runs[one.id], runs[TODAY]) for one in planned.candidates]
    today, others = results[0], sorted(results[1:], key=_rank)
    slowdown = ratio(runs[TODAY], lossless, P99)
    alone = ratio(planned.alone().runs(store), lossless, P99) if cluster.long_flows else None
    one, its_best = (asked.runs(store) for asked in planned.one_server())
    sweep = []
    for servers in planned.sweep:
        here, there = planned.of_fan_in(servers).runs(store), planned.lossless(servers).runs(store)
        bound = is_bound(here, P99)
        sweep.append(Point(servers, typical(here, P99), typical(there, P99), ratio(here, there, P99), bound))
    choice, as_good = _choice(planned, others)
    return Advice(
        plan=planned,
        today=today,
        lossless_p50_s=typical(lossless, P50),
        lossless_p99_s=typical(lossless, P99),
        slowdown=slowdown,
        alone=alone,
        one_server=ratio(one, its_best, P99),
        sweep=tuple(sweep),
        results=tuple(others),
        choice=choice,
        as_good=as_good,
        warnings=tuple(_warnings(planned, choice, store)),
        runs=len({task.key for task in planned.tasks()}),
        culprit=_blamed(cluster, slowdown, alone),
    )


def _rank(one: Result) -> tuple[bool, bool, float, float]:
    """Order what can be applied before what only the simulator has, and each by its times."""
    return not one.candidate.can_be_applied, one.is_bound, one.p99_s, one.p50_s


def _blamed(cluster: Cluster, slowdown: Ratio, alone: Ratio | None) -> Culprit:
    if slowdown.mean <= COLLAPSE:
        return "nothing"
    if alone is not None and alone.mean <= COLLAPSE:
        return "long flows"
    return "fan-in" if cluster.fan_in > 1 else "the port"


def _choice(planned: Plan, results: Sequence[Result]) -> tuple[str, tuple[str, ...]]:
    """Return what is listed first among the remedies that are nearly as good as the best, and the rest of these."""
    better = [one for one in results if one.judged == "better" and one.candidate.can_be_applied]
    near = {one.candidate.id for one in better if one.p99_s <= better[0].p99_s * (1 + WORTH)}
    choice, *rest = [one.id for one in planned.candidates if one.id in near] or [TODAY]
    return choice, tuple(rest)


def _result(candidate: Candidate, runs: Runs, today: Runs) -> Result:
    p99, bound = ratio(runs, today, P99), is_bound(runs, P99)
    queries = sum(len(run.seconds) for run in runs)
    missed = [run.missed for run in runs if run.missed is not None]
    shares = [run.long_share for run in runs if run.long_share is not None]
    return Result(
        candidate=candidate,
        p50_s=typical(runs, P50),
        p99_s=typical(runs, P99),
        p50=ratio(runs, today, P50),
        p99=p99,
        is_bound=bound,
        judged="no difference"
        if candidate.id == TODAY
        else _judged(p99, bound=bound, today_bound=is_bound(today, P99)),
        timeouts_per_query=sum(run.timeouts for run in runs) / queries,
        drops_per_query=sum(run.drops for run in runs) / queries,
        missed_share=sum(missed) / queries if missed else None,
        long_share=math.fsum(shares) / len(shares) if shares else None,
    )


def _judged(found: Ratio, *, bound: bool, today_bound: bool) -> Judged:
    """Call a difference one only if the interval excludes none; a lower bound may be larger, never smaller."""
    if found.high < 1 and found.mean < 1 - WORTH:
        return "not known" if bound else "better"
    if found.low > 1 and found.mean > 1 + WORTH:
        return "not known" if today_bound else "worse"
    return "not known" if bound or today_bound else "no difference"


def _warnings(planned: Plan, choice: str, store: Store) -> Sequence[Warned]:
    """Find changes of the cluster in which another candidate is certainly better than the choice."""
    found = []
    for name in planned.neighbours:
        usable = [one for one in planned.candidates if one.can_be_applied]
        runs = {one.id: planned.neighbour(name, one).runs(store) for one in usable}
        known = {id_: one for id_, one in runs.items() if not is_bound(one, P99)}
        better = min(known, key=lambda id_: (typical(known[id_], P99), id_ != choice), default=choice)
        if better == choice:
            continue
        worse = ratio(runs[choice], runs[better], P99)
        if worse.low > 1 and worse.mean > 1 / (1 - 2 * WORTH):
            found.append(Warned(name, choice, better, worse))
    return found


def verdict(advice: Advice) -> list[str]:
    """Say whether it collapses, from where on, and whether fan-in is the culprit, in sentences."""
    return [_collapse(advice), _from_where(advice), *_culprit(advice)]


def _collapse(advice: Advice) -> str:
    today, times = advice.today, advice.slowdown
    bound = "at least " if today.is_bound else ""
    best = f"that of the same servers without losses and long flows ({text.seconds(advice.lossless_p99_s)})"
    numbers = f"p99 of a query is {bound}{text.seconds(today.p99_s)}, {bound}{times.said()} times {best}"
    each = f"{factor(today.timeouts_per_query)} timeouts and {factor(today.drops_per_query)} lost packets per query"
    differ = f" Seeds differ on which side of {factor(COLLAPSE)} that is." if side(times) == "seeds differ" else ""
    return f"It {'collapses' if advice.collapses else 'does not collapse'} today: {numbers}; {each}.{differ}"


def _from_where(advice: Advice) -> str:
    first = advice.collapse_from()
    before = [point for point in advice.sweep if first is None or point.fan_in < first]
    at = {verdict: [f"{point.fan_in:,}" for point in before if point.verdict == verdict] for verdict in _VERDICTS}
    collapses, not_, differ = (at[verdict] for verdict in _VERDICTS)
    if len(not_) == len(advice.sweep):
        return f"No fan-in that was tried collapses: {_and(not_)}."
    parts = [f"from a fan-in of {first:,} on"] if first is not None else []
    parts += [f"at {_and(collapses)}"] if collapses else []
    said = [f"It collapses {' and '.join(parts)}"] if parts else []
    said += [f"it does not at {_and(not_)}"] if not_ else []
    said += [f"at {_and(differ)} seeds differ"] if differ else []
    joined = "; ".join(said)
    return f"{joined[0].upper()}{joined[1:]}."


def _and(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _culprit(advice: Advice) -> list[str]:
    cluster, times = advice.plan.cluster, advice.one_server
    one = (
        f"One server that sends as much as all {cluster.fan_in:,} takes {times.said()} times as long as without losses."
    )
    match advice.culprit:
        case "long flows" if advice.alone is not None:
            flows = "flow" if cluster.long_flows == 1 else "flows"
            said = f"Fan-in is not the culprit, the long {flows} at the same port are"
            return [f"{said}: without them it is {advice.alone.said()} times.", one]
        case "fan-in":
            beside = f" Without the long flows it is {advice.alone.said()} times." if advice.alone is not None else ""
            return [f"Fan-in is the culprit.{beside}", one]
        case "the port":
            return ["Fan-in is not the culprit: the port is too small for a single server."]
        case _:
            return _parts(advice)


def _parts(advice: Advice) -> list[str]:
    """Say what the p99 of queries that are not too slow is made of."""
    link, p99 = advice.plan.form.transfer_s, advice.today.p99_s
    rtt_s = advice.plan.cluster.rtt_ps / 1e12
    parts = {
        "the link": link,
        "the round trip": rtt_s,
        "service times and the growth of windows": max(0.0, advice.lossless_p99_s - link - rtt_s),
        "queues and losses": max(0.0, p99 - advice.lossless_p99_s),
    }
    said = ", ".join(f"{what} {text.seconds(part)}" for what, part in parts.items())
    largest = max(parts, key=lambda what: parts[what])
    lacks = "long flows at the same port, other ports that use its memory, slow servers"
    return [
        f"Fan-in is not the culprit. What the p99 consists of: {said}. Most is for {largest}.",
        f"If your queries take longer than that, look for what this description lacks: {lacks}.",
    ]


def as_json(advice: Advice) -> dict[str, Any]:
    """Return everything, for programs."""
    return {
        "cluster": advice.plan.cluster.as_json(),
        "closed_form": advice.plan.form.as_json(),
        "collapses": advice.collapses,
        "collapses_from": advice.collapse_from(),
        "culprit": advice.culprit,
        "verdict": verdict(advice),
        "slowdown_p99": advice.slowdown._asdict(),
        "slowdown_p99_without_long_flows": advice.alone._asdict() if advice.alone else None,
        "slowdown_p99_of_one_server": advice.one_server._asdict(),
        "lossless": {"p50_s": advice.lossless_p50_s, "p99_s": advice.lossless_p99_s},
        "sweep": [
            {
                "fan_in": point.fan_in,
                "p99_s": point.p99_s,
                "p99_is_at_least": point.is_bound,
                "lossless_p99_s": point.lossless_s,
                "ratio": point.ratio._asdict(),
                "verdict": point.verdict,
            }
            for point in advice.sweep
        ],
        "today": _result_json(advice.today),
        "remedies": [_result_json(one) for one in advice.results],
        "left_out": [{"id": id_, "why": why} for id_, why in advice.plan.left_out],
        "choice": None if advice.choice == TODAY else advice.choice,
        "as_good": list(advice.as_good),
        "warnings": [
            {"change": one.change, "better": one.better, "p99_ratio": one.ratio._asdict(), "text": one.said()}
            for one in advice.warnings
        ],
        "runs": advice.runs,
    }


def _result_json(one: Result) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": one.candidate.id,
        "p50_s": one.p50_s,
        "p99_s": one.p99_s,
        "p99_is_at_least": one.is_bound,
        "timeouts_per_query": one.timeouts_per_query,
        "drops_per_query": one.drops_per_query,
        "deadlines_missed": one.missed_share,
        "long_flows_share": one.long_share,
    }
    if (proposal := one.candidate.proposal) is None:
        return found
    steps = {
        name: [{"where": step.where, "language": step.language, "code": step.code} for step in its]
        for name, its in (("apply", proposal.apply), ("undo", proposal.undo))
    }
    return found | {
        "p50_ratio": one.p50._asdict(),
        "p99_ratio": one.p99._asdict(),
        "judged": one.judged,
        "today": proposal.today,
        "proposed": proposal.proposed,
        "why": why(one, proposal.follows),
        "note": proposal.note,
        "needs": list(one.candidate.places),
        "simulated_only": not one.candidate.can_be_applied,
        **steps,
        "scenario_changes": dict(proposal.changes),
    }


def why(one: Result, follows: str) -> str:
    """Say what follows from the closed form, and what was measured, in a sentence."""
    return (
        f"{follows[0].upper()}{follows[1:]}; measured: {factor(one.timeouts_per_query)} timeouts and "
        f"{factor(one.drops_per_query)} lost packets per query."
    )
