"""Modules that run as CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn
from torch.utils import _pytree

from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import as_device

if TYPE_CHECKING:
    from tensorclass.td.keys import NestedKey


class Graphs(Protocol):
    """What runs a function before it is recorded, and what records it."""

    def warm_up(self, function: Callable[[], Any]) -> Any:
        """Calls a function apart from the other work of the device."""
        ...

    def record(self, function: Callable[[], Any]) -> tuple[Any, Callable[[], object]]:
        """Gives the results of a function, and what computes them again in the same memory."""
        ...


class _Cuda:
    """CUDA's graphs, on a stream of their own."""

    def __init__(self, device: torch.device) -> None:
        self.device: torch.device = device
        made: Any = torch.cuda.Stream
        self.stream: torch.cuda.Stream = made(device)

    def warm_up(self, function: Callable[[], Any]) -> Any:
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            result = function()
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        return result

    def record(self, function: Callable[[], Any]) -> tuple[Any, Callable[[], object]]:
        torch.cuda.synchronize(self.device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            result = function()
        return result, graph.replay


def _graphs(device: torch.device | str | int | None) -> Graphs:
    """The graphs of a device; where there are none, an error."""
    given = torch.device("cuda" if device is None else device)
    if given.type != "cuda":
        raise RuntimeError(f"CudaGraphModule: expected a CUDA device, got {given}; call the module itself elsewhere")
    if not torch.cuda.is_available():
        raise RuntimeError(
            "CudaGraphModule: there is no CUDA device here. Call the module itself, or choose by "
            "torch.cuda.is_available(); torch.compile makes calls cheaper on other devices"
        )
    return _Cuda(as_device(given) or given)


class CudaGraphModule(nn.Module):
    """Runs a module, or a function, as a CUDA graph: its kernels are launched together, without Python in between.

    The first calls (``warmup``) run as they are. The next one records the kernels; from then on a call copies its
    tensors to where the recorded ones were, runs the graph, and gives copies of its results. So each call needs
    tensors of the shapes, dtypes and devices of the recorded one, and what is no tensor must be equal.

    Args:
        module: takes tensors or collections. Where it writes into the collection that it is given, as
            ``TensorDictModule`` does, so does the graph.
        warmup: how many calls run before the recording; at least 1.
        in_keys: the keys that are read of a collection: no others are copied. Those of the module by default, and all
            if it has none.
        out_keys: the keys that are written into a collection. Those of the module by default.
        device: a CUDA device; the current one by default.

    Raises:
        RuntimeError: there is no CUDA device, or a call differs from the recorded one.
        ValueError: ``warmup`` is not positive.

    A graph has no autograd: gradients flow inside of what is recorded, a whole training step, say. Results of a
    recorded call require none.
    """

    def __init__(
        self,
        module: Callable[..., Any],
        warmup: int = 2,
        in_keys: Sequence[NestedKey] | None = None,
        out_keys: Sequence[NestedKey] | None = None,
        device: torch.device | str | int | None = None,
    ) -> None:
        super().__init__()
        if warmup < 1:
            raise ValueError(f"CudaGraphModule: expected a warmup of at least 1, got {warmup}")
        self._graphs: Graphs = _graphs(device)
        self.module: Callable[..., Any] = module
        self.warmup: int = warmup
        self.in_keys: Sequence[NestedKey] | None = getattr(module, "in_keys", None) if in_keys is None else in_keys
        self.out_keys: Sequence[NestedKey] | None = getattr(module, "out_keys", None) if out_keys is None else out_keys
        self._calls: int = 0
        self._recorded: _Recorded | None = None

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the module: as it is, recording, or as the graph."""
        if self._calls < self.warmup:
            result = self._graphs.warm_up(lambda: self.module(*args, **kwargs))
            self._calls += 1
            return result
        data = args[0] if args and isinstance(args[0], TensorCollection) else None
        given = args if data is None or self.in_keys is None else (data.select(*self.in_keys), *args[1:])
        if self._recorded is None:
            self._recorded = _Recorded(self._graphs, self.module, given, kwargs)
        result, into_input = self._recorded.run(given, kwargs)
        if data is None or not into_input:
            return result
        data.update(result if self.out_keys is None else result.select(*self.out_keys))
        return data

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """That of the module."""
        module: Any = self._as_module("state_dict")
        return module.state_dict(*args, **kwargs)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Loads what :meth:`state_dict` gave into the module, in place, so that the graph has it."""
        if assign and self._recorded is not None:
            raise RuntimeError(
                "load_state_dict: the graph runs on the tensors that the module had when it was recorded; leave "
                "assign=True out, so that the numbers are written into them"
            )
        return self._as_module("load_state_dict").load_state_dict(state_dict, strict, assign)

    def _as_module(self, name: str) -> nn.Module:
        if not isinstance(self.module, nn.Module):
            raise AttributeError(f"{name}: what this CudaGraphModule runs is no module, it has no state")
        return self.module

    def extra_repr(self) -> str:
        return f"warmup={self.warmup}, in_keys={self.in_keys}, out_keys={self.out_keys}"


class _Recorded:
    """One recorded call: where its tensors are, and how it runs again."""

    def __init__(self, graphs: Graphs, module: Callable[..., Any], args: Any, kwargs: Any) -> None:
        leaves, self.form = _pytree.tree_flatten((args, kwargs))
        self.inputs: list[Any] = [leaf.detach().clone() if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        self.kinds: list[Any] = [_kind(leaf) for leaf in leaves]
        given, options = _pytree.tree_unflatten(self.inputs, self.form)
        self.result, self.replay = graphs.record(lambda: module(*given, **options))
        self.into_input: bool = bool(given) and self.result is given[0]

    def run(self, args: Any, kwargs: Any) -> tuple[Any, bool]:
        """The results of a call, and whether the module writes them into the collection that it is given."""
        leaves, form = _pytree.tree_flatten((args, kwargs))
        problems = ["other arguments, or other keys"] if form != self.form else []
        problems += [
            f"argument {i}: expected {expected}, got {_kind(leaf)}"
            for i, (leaf, expected) in enumerate(zip(leaves, self.kinds, strict=False))
            if _kind(leaf) != expected
        ]
        if problems:
            raise RuntimeError(
                "CudaGraphModule: a call must be like the recorded one; "
                + "; ".join(problems)
                + ". Make another CudaGraphModule for other inputs"
            )
        with torch.no_grad():
            for own, leaf in zip(self.inputs, leaves, strict=True):
                if isinstance(leaf, Tensor):
                    own.copy_(leaf, non_blocking=True)
            self.replay()
            return _pytree.tree_map_only(Tensor, lambda leaf: leaf.detach().clone(), self.result), self.into_input


def _kind(leaf: object) -> object:
    """What two calls must agree on."""
    return (tuple(leaf.shape), leaf.dtype, leaf.device) if isinstance(leaf, Tensor) else leaf
