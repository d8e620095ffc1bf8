"""Modules on collections beside plain PyTorch and the peer, eager and compiled: `python -m benchmarks.modules`.

Five layers in a row; plain PyTorch is `nn.Sequential` of the same layers. The second figure is what a call takes
beyond that. The eager layers are 8 wide, so that there is little else; the compiled ones are as wide as real ones.
"""

import argparse
from collections.abc import Callable
from typing import Any

import tensordict
import tensordict.nn
import torch
from torch import Tensor, nn

import tensorclass
import tensorclass.nn
from benchmarks.timing import FULL, QUICK, time_in_turns

LIBRARIES: dict[str, Any] = {"ours": tensorclass, "peer": tensordict}


def _layers(width: int) -> list[nn.Module]:
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(5)]


def _sequence(library: Any, width: int) -> nn.Module:
    layers = enumerate(_layers(width))
    sequence: nn.Module = library.nn.TensorDictSequential(
        *(library.nn.TensorDictModule(layer, [f"x{i}"], [f"x{i + 1}"]) for i, layer in layers)
    )
    return sequence


def _calls(width: int, rows: int, compiled: bool) -> dict[str, Callable[[], object]]:
    x = torch.rand(rows, width)

    def prepared(module: nn.Module) -> Any:
        return torch.compile(module, fullgraph=True) if compiled else module

    plain = prepared(nn.Sequential(*_layers(width)))
    calls: dict[str, Callable[[], object]] = {"plain PyTorch": lambda: plain(x)}
    for name, library in LIBRARIES.items():
        on_tensors, on_data = prepared(_sequence(library, width)), prepared(_sequence(library, width))
        data = library.TensorDict({"x0": x}, [rows])
        calls[f"{name}, on tensors"] = lambda module=on_tensors: module(x)
        calls[f"{name}, on a collection"] = lambda module=on_data, data=data: module(data)
    return calls


def _print(title: str, calls: dict[str, Callable[[], object]], quick: bool) -> None:
    expected: Any = calls["plain PyTorch"]()
    for name, call in calls.items():
        result: Any = call()
        last = result if isinstance(result, Tensor) else result[-1] if isinstance(result, tuple) else result["x5"]
        torch.testing.assert_close(last, expected, msg=name)
    times = time_in_turns(list(calls.values()), QUICK if quick else FULL)
    print(title)
    for name, figure in zip(calls, times, strict=True):
        beyond = figure - times[0]
        print(f"  {name:24}{figure:10.2f} us  {beyond:+9.2f} us  {figure / times[0]:6.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter samples")
    parser.add_argument("--eager", action="store_true", help="compile nothing, which takes minutes")
    given = parser.parse_args()
    torch.set_num_threads(1)
    with torch.no_grad():
        _print("eager, 5 layers of width 8, 32 rows", _calls(8, 32, False), given.quick)
        if not given.eager:
            for width, rows in ((256, 256), (512, 512)):
                _print(f"compiled, 5 layers of width {width}, {rows} rows", _calls(width, rows, True), given.quick)


if __name__ == "__main__":
    main()
