"""`python -m benchmarks.compiled [--filter REGEX] [--quick] [--page]`: `torch.compile` of records and of tensors.

For each function: graph breaks, guards, the compilations that three batch sizes take, seconds to compile it cold,
microseconds that the guards take, and microseconds a call with the backend "eager", which leaves what the compiled
frame itself costs. What a record adds to a call beside its guards is the making of the result. Behind them networks of
0.05 to 0.15 ms a call, compiled by inductor. Each function stands here once on a record and once on the tensors of its
fields.
"""

import argparse
import inspect
import re
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._dynamo.eval_frame import _debug_get_cache_entry_list
from torch._dynamo.testing import CompileCounter

from benchmarks.page import fill, number, table
from benchmarks.timing import time_in_rounds
from tensorclass import TensorClass

SIZES = (32, 48, 64)


class Point(TensorClass):
    position: Tensor
    velocity: Tensor
    weight: Tensor


class Pair(TensorClass):
    first: Point
    second: Point


def _point(count: int) -> Point:
    return Point(torch.rand(count, 3), torch.rand(count, 3), torch.rand(count), batch_size=[count])


def _pair(count: int) -> Pair:
    return Pair(_point(count), _point(count), batch_size=[count])


def _tensors(count: int) -> tuple[Tensor, ...]:
    return torch.rand(count, 3), torch.rand(count, 3), torch.rand(count)


def _six(count: int) -> tuple[Tensor, ...]:
    return (*_tensors(count), *_tensors(count))


@dataclass(frozen=True)
class Function:
    """One function on a record and on tensors, with what makes their arguments."""

    name: str
    of_record: Callable[[Any], Any]
    of_tensors: Callable[..., Any]
    record: Callable[[int], Any] = _point
    tensors: Callable[[int], tuple[Tensor, ...]] = _tensors


def _step(point: Point) -> Point:
    return Point(point.position + point.velocity, point.velocity * 0.9, point.weight, batch_size=point.batch_size)


def _written(point: Point) -> Tensor:
    new = point.clone()
    new.position = new.position * 2
    return new.position.sum() + new.weight.sum()


FUNCTIONS = (
    Function("a field", lambda r: r.position * 2, lambda p, v, w: p * 2),
    Function(
        "three fields", lambda r: (r.position + r.velocity) * r.weight[:, None], lambda p, v, w: (p + v) * w[:, None]
    ),
    Function("a new record", _step, lambda p, v, w: (p + v, v * 0.9, w)),
    Function("replace", lambda r: r.replace(weight=r.weight * 2), lambda p, v, w: (p, v, w * 2)),
    Function("[slice]", lambda r: r[1:], lambda p, v, w: (p[1:], v[1:], w[1:])),
    Function("[int]", lambda r: r[0], lambda p, v, w: (p[0], v[0], w[0])),
    Function("[::2]", lambda r: r[::2], lambda p, v, w: (p[::2], v[::2], w[::2])),
    Function(
        "reshape",
        lambda r: r.reshape(2, -1),
        lambda p, v, w: (p.reshape(2, -1, 3), v.reshape(2, -1, 3), w.reshape(2, -1)),
    ),
    Function("unsqueeze", lambda r: r.unsqueeze(0), lambda p, v, w: (p[None], v[None], w[None])),
    Function("clone", lambda r: r.clone(), lambda p, v, w: (p.clone(), v.clone(), w.clone())),
    Function("detach", lambda r: r.detach(), lambda p, v, w: (p.detach(), v.detach(), w.detach())),
    Function("to(dtype)", lambda r: r.to(torch.float64), lambda p, v, w: tuple(x.to(torch.float64) for x in (p, v, w))),
    Function("r + r", lambda r: r + r, lambda p, v, w: (p + p, v + v, w + w)),
    Function("r * 2", lambda r: r * 2, lambda p, v, w: (p * 2, v * 2, w * 2)),
    Function("exp", lambda r: r.exp(), lambda p, v, w: (p.exp(), v.exp(), w.exp())),
    Function("sum over rows", lambda r: r.sum(0), lambda p, v, w: (p.sum(0), v.sum(0), w.sum(0))),
    Function("mean over rows", lambda r: r.mean(0), lambda p, v, w: (p.mean(0), v.mean(0), w.mean(0))),
    Function("cat", lambda r: torch.cat([r, r]), lambda p, v, w: tuple(torch.cat([x, x]) for x in (p, v, w))),
    Function("stack", lambda r: torch.stack([r, r]), lambda p, v, w: tuple(torch.stack([x, x]) for x in (p, v, w))),
    Function("split", lambda r: r.split(16)[0], lambda p, v, w: tuple(x.split(16)[0] for x in (p, v, w))),
    Function("flip", lambda r: r.flip(0), lambda p, v, w: (p.flip(0), v.flip(0), w.flip(0))),
    Function(
        "where",
        lambda r: r.where(r.weight > 0.5, r * 0),
        lambda p, v, w: tuple(torch.where((w > 0.5).reshape(-1, *[1] * (x.ndim - 1)), x, x * 0) for x in (p, v, w)),
    ),
    Function("apply", lambda r: r.apply(lambda x: x + 1), lambda p, v, w: (p + 1, v + 1, w + 1)),
    Function("zeros_like", lambda r: torch.zeros_like(r), lambda p, v, w: tuple(map(torch.zeros_like, (p, v, w)))),
    Function(
        "keys and items", lambda r: sum(x.sum() for _, x in r.items()), lambda p, v, w: sum(x.sum() for x in (p, v, w))
    ),
    Function("set a field", _written, lambda p, v, w: (p.clone() * 2).sum() + w.clone().sum()),
    Function("to_dict", lambda r: r.to_dict(), lambda p, v, w: {"position": p, "velocity": v, "weight": w}),
    Function("select", lambda r: r.to_tensordict().select("weight"), lambda p, v, w: {"weight": w}),
    Function(
        "nested field", lambda r: r.first.position - r.second.position, lambda a, b, c, d, e, f: a - d, _pair, _six
    ),
    Function("nested r * 2", lambda r: r * 2, lambda *x: tuple(one * 2 for one in x), _pair, _six),
    Function("nested [slice]", lambda r: r[1:], lambda *x: tuple(one[1:] for one in x), _pair, _six),
)


@dataclass(frozen=True)
class Figures:
    """What one side of a function takes."""

    breaks: int
    guards: int
    compilations: int
    seconds: float


def compiled_figures(function: Callable[..., Any], make: Callable[[int], tuple[Any, ...]]) -> Figures:
    """Compile a function on one side: its breaks, guards, compilations for several batch sizes, and time."""
    torch._dynamo.reset()
    explained = torch._dynamo.explain(function)(*make(SIZES[0]))
    torch._dynamo.reset()
    counter = CompileCounter()
    compiled = torch.compile(function, backend=counter)
    start = time.perf_counter()
    compiled(*make(SIZES[0]))
    seconds = time.perf_counter() - start
    for size in SIZES[1:]:
        compiled(*make(size))
    return Figures(max(explained.graph_break_count, 0), len(explained.out_guards or ()), counter.frame_count, seconds)


@dataclass(frozen=True)
class Call:
    """Microseconds of a call of a compiled function, and of its guards."""

    whole: float
    guards: float


def call_figures(function: Function, rounds: int) -> tuple[Call, Call]:
    """Time a call of the compiled function on a record and on tensors."""
    torch._dynamo.reset()
    record, tensors = function.record(SIZES[0]), function.tensors(SIZES[0])
    of_record, of_tensors = (torch.compile(one, backend="eager") for one in (function.of_record, function.of_tensors))
    calls = [lambda: of_record(record), lambda: of_tensors(*tensors)]
    for call in calls:
        call()
    guards = [_guard_check(function.of_record, (record,)), _guard_check(function.of_tensors, tensors)]
    ours, plain, our_guards, plain_guards = map(statistics.median, time_in_rounds([*calls, *guards], rounds))
    return Call(ours, our_guards), Call(plain, plain_guards)


def _guard_check(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Callable[[], object]:
    """Return a call of the guards of a compiled function; one that does nothing if it has no graph."""
    entries = _debug_get_cache_entry_list(function.__code__)
    if not entries:
        return lambda: None
    code = function.__code__
    takes_all = code.co_flags & inspect.CO_VARARGS
    variables = {code.co_varnames[0]: arguments} if takes_all else dict(zip(code.co_varnames, arguments, strict=False))
    check = entries[0].guard_manager.root.check
    return lambda: check(variables)


class _Network(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(3, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 3)
        )

    def forward(self, position: Tensor) -> Tensor:
        moved: Tensor = self.layers(position)
        return moved


def network_microseconds(width: int, rounds: int) -> list[tuple[float, float]]:
    """Time a compiled network on tensors, on a record, and on a record with guards on its tensors alone.

    Returns:
        For each, the median in microseconds, and the median of its ratio to tensors in samples side by side.
    """
    torch._dynamo.reset()
    torch.manual_seed(0)
    network = _Network(width)

    def of_tensors(position: Tensor, velocity: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return network(position) + velocity, velocity, weight

    def of_record(point: Point) -> Point:
        return point.replace(position=network(point.position) + point.velocity)

    def of_record_unguarded(point: Point) -> Point:
        return point.replace(position=network(point.position) + point.velocity)

    options = {"guard_filter_fn": torch.compiler.keep_tensor_guards_unsafe}
    with torch.no_grad():
        plain, ours = torch.compile(of_tensors), torch.compile(of_record)
        unguarded = torch.compile(of_record_unguarded, options=options)
        point = _point(64)
        tensors = (point.position, point.velocity, point.weight)
        samples = time_in_rounds([lambda: plain(*tensors), lambda: ours(point), lambda: unguarded(point)], rounds)
    return [
        (statistics.median(one), statistics.median([a / b for a, b in zip(one, samples[0], strict=True)]))
        for one in samples
    ]


@dataclass(frozen=True)
class Line:
    """All figures of a function."""

    name: str
    ours: Figures
    plain: Figures
    our_call: Call
    plain_call: Call

    def __str__(self) -> str:
        ours, plain, our_call, plain_call = self.ours, self.plain, self.our_call, self.plain_call
        return (
            f"{self.name:18} {ours.breaks:6} {ours.guards:6} {plain.guards:5} {ours.compilations:6} "
            f"{plain.compilations:5} {ours.seconds:7.2f} {plain.seconds:6.2f} {our_call.guards:8.1f} "
            f"{plain_call.guards:6.1f} {our_call.whole:8.1f} {plain_call.whole:7.1f}"
        )

    def failed(self) -> bool:
        """Return whether the graph is broken, or the function is compiled more often than on tensors."""
        return self.ours.breaks > 0 or self.ours.compilations > max(self.plain.compilations, 2)


def page_table(lines: Sequence[Line]) -> str:
    """Return the table of docs/performance.md."""
    header = (
        "function", "guards", "on tensors", "us for guards", "on tensors", "us a call", "on tensors", "s to compile",
        "on tensors",
    )  # fmt: skip
    return table(
        header,
        [
            [
                line.name if line.name[0].isalpha() else f"`{line.name}`",
                *[str(one.guards) for one in (line.ours, line.plain)],
                *[f"{one.guards:.1f}" for one in (line.our_call, line.plain_call)],
                *[f"{one.whole:.1f}" for one in (line.our_call, line.plain_call)],
                *[f"{one.seconds:.2f}" for one in (line.ours, line.plain)],
            ]
            for line in lines
        ],
    )


#: widths of the networks
WIDTHS = (64, 128, 256)


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.compiled", description="torch.compile on records and tensors.")
    parser.add_argument("--filter", type=re.compile, default=re.compile(""), metavar="REGEX", help="only these")
    parser.add_argument("--quick", action="store_true", help="fewer samples, no inductor")
    parser.add_argument("--page", action="store_true", help="write the tables into docs/performance.md")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rounds = 300 if options.quick else 3000
    names = f"{'function':18} {'breaks':>6} {'guards':>12} {'compilations':>12} {'seconds':>14}"
    print(f"{names} {'us guards':>15} {'us a call':>16}")
    sides = "ours tensors"
    print(f"{'':18} {'':>6} {sides:>12} {'':>12} {sides:>14} {sides:>15} {sides:>16}")
    lines: list[Line] = []
    for function in FUNCTIONS:
        if options.filter.search(function.name):
            ours = compiled_figures(function.of_record, lambda size, make=function.record: (make(size),))  # type: ignore[misc]
            plain = compiled_figures(function.of_tensors, function.tensors)
            lines.append(Line(function.name, ours, plain, *call_figures(function, rounds)))
            print(lines[-1], flush=True)
    failed = sum(line.failed() for line in lines)
    print(f"{failed} of {len(lines)} break the graph, or are compiled more often than on tensors")
    networks: list[list[str]] = []
    for width in () if options.quick else WIDTHS:
        tensors, record, unguarded = network_microseconds(width, rounds)
        cells = [f"{number(time)} ({ratio:.3f})" for time, ratio in (record, unguarded)]
        networks.append([f"{width} wide", number(tensors[0]), *cells])
        print(
            f"network {width} wide, inductor, us: {tensors[0]:.1f} on tensors, {cells[0]} on a record, "
            f"{cells[1]} with guards on its tensors alone"
        )
    if options.page:
        fill("compiled functions", page_table(lines))
        header = ("network", "us on tensors", "on a record", "on a record, guards on tensors alone")
        fill("compiled networks", table(header, networks))
    return 0


if __name__ == "__main__":
    sys.exit(main())
