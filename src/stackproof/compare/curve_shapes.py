"""Curves to what their shape tells, by the rules of knowledge/curve-rules.yaml.

Locality and memory come from how ranks were placed, never from the numbers. A rule that needs what
is not known (a link's limit, several launches) says nothing; it is listed as not looked at.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence

from stackproof.compare.model import Comparison
from stackproof.core.numbers import percent_text, size_text, value_text
from stackproof.core.value import Value
from stackproof.knowledge.model import CurveRule, Knowledge
from stackproof.knowledge.reference_curves import BufferPlace
from stackproof.knowledge.shape_curve import ShapeCurve
from stackproof.results.case import Locality
from stackproof.results.wire import wire_text
from stackproof.site.model import FabricType

_FEWEST_LAUNCHES = 3
"""Launches from which on something may be called reproducible."""

_BANDWIDTHS = ("bandwidth", "bibandwidth")


class Mark(Value):
    """A rule that holds on a curve: where (`size`, None for the whole curve), and what was seen."""

    rule: CurveRule
    arm: str
    benchmark: str
    placement: str
    size: int | None
    seen: str
    program: str = ""


Found = Iterator[tuple[int | None, str]]
Numbers = Mapping[str, float]


def look(curves: Sequence[ShapeCurve], knowledge: Knowledge) -> tuple[Mark, ...]:
    """Return every rule that holds on a curve, or on two curves that belong together."""
    marks: list[Mark] = []
    usable = [curve for curve in curves if curve.sizes]
    for rule in knowledge.curve_rules:
        single, pair = _SINGLE.get(rule.id), _PAIRS.get(rule.id)
        if single is not None:
            for curve in usable:
                if "slingshot" in rule.needs and not curve.slingshot:
                    continue
                found = single(curve, rule.thresholds)
                marks += [_mark(rule, curve, size, seen) for size, seen in found]
        elif pair is not None:
            for curve in usable:
                others = [one for one in usable if one is not curve]
                found = pair(curve, others, rule.thresholds)
                marks += [_mark(rule, curve, size, seen) for size, seen in found]
    return tuple(marks)


def _mark(rule: CurveRule, curve: ShapeCurve, size: int | None, seen: str) -> Mark:
    return Mark(
        rule=rule,
        arm=curve.arm,
        benchmark=curve.benchmark,
        placement=curve.placement,
        size=size,
        seen=seen,
        program=curve.program,
    )


def curves_of(comparison: Comparison) -> tuple[ShapeCurve, ...]:
    """Return every arm's curves of a comparison."""
    slingshot = is_slingshot(comparison.spec.host)
    launches = {(one.arm, one.placement, one.program): one for one in comparison.launches}
    found = []
    for panel in comparison.panels:
        curve = panel.curve
        link = comparison.spec.limits.get(curve.placement, {}).get("MB/s")
        for arm in panel.arms:
            launch = launches.get((arm.arm, curve.placement, curve.program))
            found.append(
                ShapeCurve(
                    arm=arm.arm,
                    benchmark=curve.benchmark,
                    placement=curve.placement,
                    locality=Locality(curve.locality),
                    memory=memory_of(launch.host_facts if launch else {}),
                    values={point.size: point.median for point in arm.points},
                    launches={point.size: point.values for point in arm.points},
                    ranks=len(launch.ranks) or 2 if launch else 2,
                    link=float(link) if isinstance(link, int | float) else None,
                    slingshot=slingshot,
                    library=launch.mpi_library if launch else "",
                    program=curve.program,
                    transport=arm.transport,
                    meant=comparison.spec.meant_mpi(arm.arm),
                )
            )
    return tuple(found)


def is_slingshot(host: Mapping[str, object]) -> bool | None:
    """Return whether nodes are joined by Slingshot, by the facts of results; None if unknown.

    Nodes that are namespaces of one machine have no NIC: processors carry their messages.
    """
    fabric = host.get("fabric")
    if isinstance(fabric, str):
        return fabric == FabricType.SLINGSHOT_11
    return False if "namespaces" in str(host.get("cluster", "")) else None


def memory_of(facts: Mapping[str, str]) -> BufferPlace:
    """Return where buffers lay, by the facts of a launch; host where nobody says otherwise."""
    return BufferPlace.DEVICE if facts.get("memory") == BufferPlace.DEVICE else BufferPlace.HOST


# --- one curve ------------------------------------------------------------------------------


def _is(
    curve: ShapeCurve,
    benchmarks: Sequence[str],
    locality: Locality | None = None,
    memory: BufferPlace | None = None,
) -> bool:
    return (
        curve.benchmark in benchmarks
        and locality in {None, curve.locality}
        and memory in {None, curve.memory}
    )


def _part(curve: ShapeCurve) -> float | None:
    """Return the best bandwidth between nodes as a part of the link."""
    if curve.limit is None or not _is(curve, _BANDWIDTHS, Locality.INTER):
        return None
    return curve.best / curve.limit


def _of_link(curve: ShapeCurve, part: float) -> str:
    """Return a plateau in words, with the usual wire that it sits on, if it does."""
    one_way = curve.best / 2 if curve.benchmark == "bibandwidth" else curve.best
    wire = wire_text(one_way)
    way = " each way" if wire and one_way < curve.best else ""
    return (
        f"at most {value_text(curve.best)} MB/s, {percent_text(part)} of "
        f"{value_text(curve.limit or 0)} MB/s" + (f"; that is {wire}{way}" if wire else "")
    )


def _wrong_transport(curve: ShapeCurve, numbers: Numbers) -> Found:
    part = _part(curve)
    if part is not None and part < numbers["below"] and _reaches_plateau(curve):
        asked = f", as asked: it was forced on {curve.transport}" if _slow_path(curve) else ""
        yield None, f"{_of_link(curve, part)}{asked}"


def _slow_path(curve: ShapeCurve) -> bool:
    """Return whether a curve was forced on a path that no NIC of Slingshot speeds up."""
    return curve.transport == "tcp"


def _wire_rate(curve: ShapeCurve, numbers: Numbers) -> Found:
    """Find a plateau that is what a link of a usual rate carries, below the link that was said."""
    if not _is(curve, _BANDWIDTHS, Locality.INTER) or not _reaches_plateau(curve):
        return
    if curve.limit is not None and curve.best >= numbers["of-link"] * curve.limit:
        return
    both = 2 if curve.benchmark == "bibandwidth" else 1
    for gigabits in _WIRES:
        carried = both * gigabits * 125.0
        if numbers["from"] * carried <= curve.best <= numbers["to"] * carried:
            yield None, f"at most {value_text(curve.best)} MB/s: a link of {gigabits} Gbit/s"
            return


def _other_direction(curve: ShapeCurve, others: Sequence[ShapeCurve], numbers: Numbers) -> Found:
    """Find both directions together below one of them: the other direction is held up."""
    if curve.benchmark != "bibandwidth" or curve.locality is not Locality.INTER:
        return
    for other in others:
        place = (other.arm, other.placement, other.program)
        if other.benchmark != "bandwidth" or place != (curve.arm, curve.placement, curve.program):
            continue
        if curve.best < numbers["below"] * other.best and _reaches_plateau(curve):
            seen = (
                f"{value_text(curve.best)} MB/s both ways, {value_text(other.best)} MB/s one way: "
                f"the other way carries about {value_text(curve.best / 2)} MB/s"
            )
            yield None, seen


def _reaches_plateau(curve: ShapeCurve) -> bool:
    """Return whether sizes are there at which the link, not the cost of a message, decides."""
    return curve.sizes[-1] >= 1 << 18


def _half_link(curve: ShapeCurve, numbers: Numbers) -> Found:
    part = None if curve.slingshot is False else _part(curve)
    if part is not None and numbers["from"] <= part < numbers["below"] and _reaches_plateau(curve):
        yield None, _of_link(curve, part)


def _good_plateau(curve: ShapeCurve, numbers: Numbers) -> Found:
    part = _part(curve)
    wanted = numbers["both-ways" if curve.benchmark == "bibandwidth" else "one-way"]
    if part is not None and part >= wanted and curve.last >= numbers["last"] * curve.best:
        yield None, _of_link(curve, part)


def _sag(curve: ShapeCurve, numbers: Numbers) -> Found:
    if _part(curve) is None or curve.last >= numbers["below"] * curve.best:
        return
    peak = max(curve.sizes, key=lambda size: curve.values[size])
    pairs = zip(curve.launches.get(peak, ()), curve.launches.get(curve.sizes[-1], ()), strict=False)
    # Where there are launches, each of them must show it: otherwise it is their own spread.
    if all(late < numbers["below"] * early for early, late in pairs):
        largest = curve.sizes[-1]
        part = percent_text(curve.last / curve.best)
        yield largest, f"{size_text(largest)} has {part} of the best"


def _device_bounce(curve: ShapeCurve, numbers: Numbers) -> Found:
    if not _is(curve, (*_BANDWIDTHS, "latency"), Locality.INTER, BufferPlace.DEVICE):
        return
    if not {128, 256} <= set(curve.sizes):
        return
    growth = curve.values[256] / curve.values[128]
    latency = curve.benchmark == "latency"
    if growth <= numbers["latency"] if latency else growth >= numbers["bandwidth"]:
        yield 256, f"256 B has {growth:.2f} times the {curve.benchmark} of 128 B"


def _device_eager_copy(curve: ShapeCurve, numbers: Numbers) -> Found:
    if not _is(curve, _BANDWIDTHS, Locality.INTER, BufferPlace.DEVICE):
        return
    for size, double, growth in curve.doublings():
        if not 2048 <= size <= 16384 or growth < numbers["growth"]:
            continue
        below = [curve.rate(one) for one in curve.sizes if size // 4 <= one <= size]
        if len(below) == 3 and _constant(below, numbers["constant"]):
            yield double, f"{growth:.1f} times the bandwidth of {size_text(size)}"


def _constant(rates: Sequence[float], within: float) -> bool:
    middle = statistics.median(rates)
    return all(abs(rate - middle) <= within * middle for rate in rates)


def _format_step(curve: ShapeCurve, numbers: Numbers) -> Found:
    if not _is(curve, ("latency",), Locality.INTER) or not {64, 128} <= set(curve.sizes):
        return
    growth = curve.values[128] / curve.values[64]
    if numbers["from"] <= growth <= numbers["to"]:
        yield 128, f"{growth:.2f} times the latency of 64 B"


def _below_single_copy(curve: ShapeCurve, numbers: Numbers) -> Found:
    if not _is(curve, ("bandwidth",), Locality.INTRA, BufferPlace.HOST):
        return
    growths = {size: growth for size, _, growth in curve.doublings()}
    for size in growths:
        first, second, third = (growths.get(size * factor) for factor in (1, 2, 4))
        if first is None or second is None or third is None:
            continue
        if max(first, second) < numbers["slow"] and third >= numbers["jump"]:
            text = f"{third:.1f} times the bandwidth of {size_text(4 * size)}"
            yield 8 * size, text


def _cache_roll_off(curve: ShapeCurve, numbers: Numbers) -> Found:
    if not _is(curve, ("bandwidth",), Locality.INTRA, BufferPlace.HOST):
        return
    peak = max(curve.sizes, key=lambda size: curve.values[size])
    if peak <= numbers["size"] and curve.last <= numbers["below"] * curve.best:
        part = percent_text(curve.last / curve.best)
        yield peak, f"{value_text(curve.best)} MB/s here, and {part} of it at the largest size"


def _device_fixed_cost(curve: ShapeCurve, numbers: Numbers) -> Found:
    if not _is(curve, ("bandwidth",), Locality.INTRA, BufferPlace.DEVICE):
        return
    rates = [curve.rate(size) for size in curve.sizes if 8 <= size <= 65536]
    if len(rates) < 3 or curve.sizes[-1] < 65536:
        return
    if _constant(rates, numbers["constant"]) and max(rates) < numbers["rate"]:
        yield None, f"{value_text(statistics.median(rates))} messages a second from 8 B to 64 KiB"


def _device_below_link(curve: ShapeCurve, numbers: Numbers) -> Found:
    wanted = _is(curve, ("bandwidth",), Locality.INTRA, BufferPlace.DEVICE)
    if wanted and curve.gpu_link is not None and 4 << 20 in curve.values:
        part = curve.values[4 << 20] / curve.gpu_link
        if part < numbers["below"]:
            yield 4 << 20, f"{percent_text(part)} of {value_text(curve.gpu_link)} MB/s"


def _low_message_rate(curve: ShapeCurve, numbers: Numbers) -> Found:
    wanted = _is(curve, ("bandwidth",), Locality.INTER, BufferPlace.HOST)
    if wanted and curve.windowed and 8 in curve.values and curve.rate(8) < numbers["rate"]:
        yield 8, f"{value_text(curve.rate(8))} messages a second"


def _isolated_dip(curve: ShapeCurve, numbers: Numbers) -> Found:
    if not _is(curve, _BANDWIDTHS):
        return
    for size in curve.sizes:
        before, after = curve.values.get(size // 2), curve.values.get(2 * size)
        if size > numbers["size"] or size % 2 or not before or after is None:
            continue
        expected = (before * after) ** 0.5
        if after / before <= numbers["apart"] and (
            curve.values[size] < numbers["below"] * expected
        ):
            part = percent_text(curve.values[size] / expected)
            yield size, f"{part} of what its neighbours let expect"


def _falling_small_sizes(curve: ShapeCurve, numbers: Numbers) -> Found:
    if not _is(curve, _BANDWIDTHS):
        return
    for size, double, growth in curve.doublings():
        if size < numbers["size"] and growth < 1 and _in_every_launch(curve, size, 1.0):
            yield double, f"{percent_text(growth)} of the bandwidth of {size_text(size)}"


def _in_every_launch(curve: ShapeCurve, size: int, below: float) -> bool:
    """Return whether each of several launches falls by this factor from a size to its double."""
    pairs = list(zip(curve.launches.get(size, ()), curve.launches.get(2 * size, ()), strict=False))
    return len(pairs) >= _FEWEST_LAUNCHES and all(late < below * early for early, late in pairs)


def _latency_inversion(curve: ShapeCurve, numbers: Numbers) -> Found:
    if curve.benchmark in _BANDWIDTHS or curve.benchmark == "message_rate":
        return
    for size, double, growth in curve.doublings():
        repeated = not curve.launches or _in_every_launch(curve, size, numbers["below"])
        if growth < numbers["below"] and repeated:
            yield double, f"{percent_text(growth)} of the time of {size_text(size)}"


def _jitter(curve: ShapeCurve, numbers: Numbers) -> Found:
    worst: tuple[float, int] | None = None
    for size, values in curve.launches.items():
        if size < numbers["size"] or len(values) < _FEWEST_LAUNCHES:
            continue
        spread = statistics.stdev(values) / statistics.fmean(values)
        if spread > numbers["above"] and (worst is None or spread > worst[0]):
            worst = (spread, size)
    if worst is not None:
        yield worst[1], f"launches vary by {percent_text(worst[0])}"


def _serialised_alltoall(curve: ShapeCurve, numbers: Numbers) -> Found:
    size = int(numbers["size"])
    if not _is(curve, ("alltoall",), Locality.INTER) or curve.link is None:
        return
    if size in curve.values and curve.ranks > 1:
        times = curve.values[size] / ((curve.ranks - 1) * size / curve.link)
        if times >= numbers["above"]:
            yield size, f"{times:.1f} times as long as the bytes of a rank need"


# --- two curves -----------------------------------------------------------------------------


def _node_through_nic(curve: ShapeCurve, others: Sequence[ShapeCurve], numbers: Numbers) -> Found:
    if not _is(curve, ("bandwidth",), Locality.INTRA) or curve.link is None:
        return
    part = curve.best / curve.link
    if not numbers["from"] <= part <= numbers["to"]:
        return
    for other in others:
        if (other.arm, other.benchmark, other.memory) != (curve.arm, "bandwidth", curve.memory):
            continue
        sizes = [size for size in curve.sizes if size >= numbers["size"] and size in other.values]
        ratios = [curve.values[size] / other.values[size] for size in sizes]
        same = all(abs(ratio - 1) <= numbers["same"] for ratio in ratios)
        if other.locality is Locality.INTER and ratios and same:
            yield None, f"{percent_text(part)} of the NIC, as between nodes"


def _one_way_only(curve: ShapeCurve, others: Sequence[ShapeCurve], numbers: Numbers) -> Found:
    if not _is(curve, ("bibandwidth",), Locality.INTER) or curve.slingshot is False:
        return  # without a NIC that copies, processors and not a bottleneck share the work
    for other in others:
        if other.benchmark == "bandwidth" and (other.arm, other.placement) == (
            curve.arm,
            curve.placement,
        ):
            times = curve.best / other.best
            if times < numbers["below"]:
                yield None, f"{times:.2f} times the bandwidth of one direction"


def _identical_arms(curve: ShapeCurve, others: Sequence[ShapeCurve], numbers: Numbers) -> Found:
    for other in others:
        if (other.benchmark, other.placement) != (curve.benchmark, curve.placement):
            continue
        if other.arm <= curve.arm or not curve.library or curve.library != other.library:
            continue
        if curve.meant and curve.meant == other.meant:
            continue  # a null arm, or another setting of the same MPI
        sizes = [size for size in curve.sizes if size in other.values]
        ratios = [curve.values[size] / other.values[size] for size in sizes]
        if ratios and all(abs(ratio - 1) <= numbers["within"] for ratio in ratios):
            yield None, f"every size is as in `{other.arm}`, and so is the library"


_WIRES = (1, 10, 25, 40, 50, 100, 200, 400)
"""Rates of links that are built, in Gbit/s."""

_Single = Callable[[ShapeCurve, Numbers], Found]
_Pair = Callable[[ShapeCurve, Sequence[ShapeCurve], Numbers], Found]
_SINGLE: Mapping[str, _Single] = {
    "S01": _wrong_transport,
    "S02": _half_link,
    "S03": _good_plateau,
    "S04": _sag,
    "S05": _device_bounce,
    "S06": _device_eager_copy,
    "S07": _format_step,
    "S08": _below_single_copy,
    "S09": _cache_roll_off,
    "S11": _device_fixed_cost,
    "S12": _device_below_link,
    "S13": _low_message_rate,
    "S14": _isolated_dip,
    "S15": _falling_small_sizes,
    "S16": _latency_inversion,
    "S18": _jitter,
    "S19": _serialised_alltoall,
    "S21": _wire_rate,
}
_PAIRS: Mapping[str, _Pair] = {
    "S10": _node_through_nic,
    "S17": _one_way_only,
    "S20": _identical_arms,
    "S22": _other_direction,
}
RULES = frozenset({*_SINGLE, *_PAIRS})
"""Ids of the rules that are looked at here."""
