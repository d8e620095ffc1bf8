"""`python -m benchmarks.compiled [--filter REGEX] [--quick]`: `torch.compile` of functions on records and on tensors.

For each function: graph breaks, guards, the compilations that three batch sizes take, seconds to compile it cold, and
microseconds a call with the backend "eager", which leaves what the compiled frame itself costs. Behind them a network
of 0.1 ms a call, compiled by inductor. Each function stands here once on a record and once on the tensors of its
fields.
"""

import argparse
import re
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounter

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
    Function("to(dtype)", lambda r: r.to(torch.float64), lambda p, v, w: (p.double(), v.double(), w.double())),
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
        "keys and items", lambda r: sum(x.sum() for _, x in r.items()), lambda p, v, w: p.sum() + v.sum() + w.sum()
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


def microseconds(function: Function, rounds: int) -> tuple[float, float]:
    """Time a call of the compiled function on a record and on tensors."""
    torch._dynamo.reset()
    of_record = torch.compile(lambda value: function.of_record(value), backend="eager")
    of_tensors = torch.compile(lambda *values: function.of_tensors(*values), backend="eager")
    record, tensors = function.record(SIZES[0]), function.tensors(SIZES[0])
    ours, plain = time_in_rounds([lambda: of_record(record), lambda: of_tensors(*tensors)], rounds)
    return statistics.median(ours), statistics.median(plain)


class _Network(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(3, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 3)
        )

    def forward(self, position: Tensor) -> Tensor:
        moved: Tensor = self.layers(position)
        return moved


def network_microseconds(width: int, rounds: int) -> tuple[float, float]:
    """Time a compiled network that takes and returns a record, beside one that takes and returns tensors."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    network = _Network(width)

    def of_record(point: Point) -> Point:
        return point.replace(position=network(point.position) + point.velocity)

    def of_tensors(position: Tensor, velocity: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return network(position) + velocity, velocity, weight

    with torch.no_grad():
        ours, plain = torch.compile(of_record), torch.compile(of_tensors)
        point = _point(64)
        tensors = (point.position, point.velocity, point.weight)
        first, second = time_in_rounds([lambda: ours(point), lambda: plain(*tensors)], rounds)
    return statistics.median(first), statistics.median(second)


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.compiled", description="torch.compile on records and tensors.")
    parser.add_argument("--filter", type=re.compile, default=re.compile(""), metavar="REGEX", help="only these")
    parser.add_argument("--quick", action="store_true", help="fewer samples, no inductor")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rounds = 300 if options.quick else 3000
    print(f"{'function':18} {'breaks':>6} {'guards':>12} {'compilations':>12} {'seconds':>14} {'us a call':>16}")
    print(f"{'':18} {'':>6} {'ours tensors':>12} {'':>12} {'ours tensors':>14} {'ours tensors':>16}")
    failed = 0
    for function in FUNCTIONS:
        if not options.filter.search(function.name):
            continue
        ours = compiled_figures(function.of_record, lambda size, make=function.record: (make(size),))  # type: ignore[misc]
        plain = compiled_figures(function.of_tensors, function.tensors)
        of_record, of_tensors = microseconds(function, rounds)
        failed += ours.breaks > 0 or ours.compilations > max(plain.compilations, 2)
        print(
            f"{function.name:18} {ours.breaks:6} {ours.guards:6} {plain.guards:5} {ours.compilations:6} "
            f"{plain.compilations:5} {ours.seconds:7.2f} {plain.seconds:6.2f} {of_record:8.1f} {of_tensors:7.1f}",
            flush=True,
        )
    print(f"{failed} of {len(FUNCTIONS)} break the graph, or are compiled more often than on tensors")
    if not options.quick:
        for width in (64, 256):
            of_record, of_tensors = network_microseconds(width, rounds)
            print(
                f"a network of width {width}, inductor: {of_record:.1f} us on a record, {of_tensors:.1f} on tensors, "
                f"{of_record / of_tensors:.3f}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
