"""Modules on collections beside plain PyTorch and the peer, eager and compiled: `python -m benchmarks.modules`.

Five layers in a row. Eager, plain PyTorch is `nn.Sequential` of layers that are 8 wide, so that there is little else;
the second figure is what a call takes beyond that.

Compiled, a sequence gives the results of all layers, which takes memory for each of them, so it stands beside plain
PyTorch that keeps them all in a dict, from one call to the next, as a collection does; and a sequence of which only the
last result is selected beside `nn.Sequential`. Each is measured alone with plain PyTorch, as modules of one class share
the cache of what was compiled, and slow each other down; calls one by one, thousands of times in random order. The
figures are the smallest and the median time, the ratio of the smallest ones, and the median of the ratios to plain
PyTorch in the same round; "the same again" is plain PyTorch beside itself: what the measurement can't tell apart.
"""

import argparse
import statistics
from collections.abc import Callable
from typing import Any

import tensordict
import tensordict.nn
import torch
from torch import Tensor, nn

import tensorclass
import tensorclass.nn
from benchmarks.timing import FULL, QUICK, time_in_rounds, time_in_turns

LIBRARIES: dict[str, Any] = {"ours": tensorclass, "peer": tensordict}

#: width of the layers, rows, and how often each call is measured
COMPILED = ((64, 64, 4000), (256, 256, 1000), (512, 512, 200))


def _layers(width: int) -> list[nn.Module]:
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(5)]


class _All(nn.Module):
    """Plain PyTorch that keeps the results of all layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_layers(width))

    def forward(self, values: dict[str, Tensor]) -> dict[str, Tensor]:
        for i, layer in enumerate(self.layers):
            values[f"x{i + 1}"] = layer(values[f"x{i}"])
        return values


def _sequence(library: Any, width: int) -> Any:
    layers = enumerate(_layers(width))
    return library.nn.TensorDictSequential(
        *(library.nn.TensorDictModule(layer, [f"x{i}"], [f"x{i + 1}"]) for i, layer in layers)
    )


Calls = dict[str, Callable[[], object]]


def _on(module: Any, *given: Any) -> Callable[[], object]:
    return lambda: module(*given)


def _eager(width: int, rows: int) -> Calls:
    x = torch.rand(rows, width)
    calls: Calls = {"plain PyTorch": _on(nn.Sequential(*_layers(width)), x)}
    for name, library in LIBRARIES.items():
        calls[f"{name}, on tensors"] = _on(_sequence(library, width), x)
        calls[f"{name}, on a collection"] = _on(_sequence(library, width), library.TensorDict({"x0": x}, [rows]))
    return calls


Case = tuple[Any, Any]
"""A module, and what it is called with."""


def _cases(width: int, rows: int, last_only: bool) -> dict[str, Case]:
    """What is compiled: plain PyTorch first."""
    x = torch.rand(rows, width)

    def plain() -> Case:
        return (nn.Sequential(*_layers(width)), x) if last_only else (_All(width), {"x0": x})

    cases = {"plain PyTorch": plain(), "the same again": plain()}
    for name, library in LIBRARIES.items():
        for kind, given in (("a collection", library.TensorDict({"x0": x}, [rows])), ("tensors", x)):
            sequence = _sequence(library, width)
            cases[f"{name}, on {kind}"] = (sequence.select_out_keys("x5") if last_only else sequence, given)
    return cases


def _last(result: Any) -> Tensor:
    last: Tensor = result if isinstance(result, Tensor) else result[-1] if isinstance(result, tuple) else result["x5"]
    return last


def _print_eager(title: str, calls: Calls, quick: bool) -> None:
    expected, *results = (_last(call()) for call in calls.values())
    for result in results:
        torch.testing.assert_close(result, expected)
    times = time_in_turns(list(calls.values()), QUICK if quick else FULL)
    print(title)
    for name, figure in zip(calls, times, strict=True):
        beyond = figure - times[0]
        print(f"  {name:24}{figure:10.2f} us  {beyond:+9.2f} us  {figure / times[0]:6.3f}")


def _print_compiled(title: str, cases: dict[str, Case], rounds: int) -> None:
    print(title)
    names = [*cases]
    for name in names[1:]:
        torch.compiler.reset()
        modules = [(torch.compile(module, fullgraph=True), given) for module, given in (cases[names[0]], cases[name])]
        calls = [_on(module, given) for module, given in modules]
        expected, result = (_last(call()) for call in calls)
        torch.testing.assert_close(result, expected)
        plain, other = time_in_rounds(calls, rounds)
        ratio = statistics.median(a / b for a, b in zip(other, plain, strict=True))
        least, middle = min(other), statistics.median(other)
        print(f"  {name:24}{least:10.2f} us  {middle:9.2f} us  {least / min(plain):6.3f}  {ratio:6.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter samples")
    parser.add_argument("--eager", action="store_true", help="compile nothing, which takes minutes")
    given = parser.parse_args()
    torch.set_num_threads(1)
    with torch.no_grad():
        _print_eager("eager, 5 layers of width 8, 32 rows", _eager(8, 32), given.quick)
        if not given.eager:
            for width, rows, rounds in COMPILED:
                rounds = rounds // 10 if given.quick else rounds
                for what in ("the last result", "all results"):
                    title = f"compiled, 5 layers of width {width}, {rows} rows, {what}"
                    _print_compiled(title, _cases(width, rows, what == "the last result"), rounds)


if __name__ == "__main__":
    main()
