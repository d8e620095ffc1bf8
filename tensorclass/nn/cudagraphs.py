"""Run modules as CUDA graphs."""

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


class GraphRecorder(Protocol):
    """Runs a function before recording, and records it. Tests replace CUDA's by one for the CPU."""

    def warm_up(self, function: Callable[[], Any]) -> Any:
        """Call a function, isolated from the other work of the device."""
        ...

    def record(self, function: Callable[[], Any]) -> tuple[Any, Callable[[], object]]:
        """Record a function. Return its results, and a function that recomputes them in the same memory."""
        ...


class _CudaRecorder:
    """Records CUDA graphs on a separate stream."""

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


def _recorder(device: torch.device | str | int | None) -> GraphRecorder:
    """Return the recorder of a device, or raise if it has no CUDA graphs."""
    chosen = torch.device("cuda" if device is None else device)
    if chosen.type != "cuda":
        raise RuntimeError(f"CudaGraphModule: expected a CUDA device, got {chosen}; call the module itself elsewhere")
    if not torch.cuda.is_available():
        raise RuntimeError(
            "CudaGraphModule: there is no CUDA device here. Call the module itself, or choose by "
            "torch.cuda.is_available(); torch.compile makes calls cheaper on other devices"
        )
    return _CudaRecorder(as_device(chosen) or chosen)


class CudaGraphModule(nn.Module):
    """Run a module or function as a CUDA graph: its kernels are launched together, without Python in between.

    The first calls (``warmup``) run normally. The next call records the kernels. From then on a call copies its tensors
    to the memory of the recorded ones, replays the graph, and returns copies of the results. So each call needs tensors
    of the same shapes, dtypes and devices as the recorded call, and equal values of everything else.

    A graph has no autograd. Gradients can flow inside of what is recorded, such as a whole training step; results of a
    recorded call require none.

    Args:
        module: takes tensors or collections. If it writes into its input collection, as ``TensorDictModule`` does, the
            graph does too.
        warmup: the number of calls before the recording, at least 1.
        in_keys: the keys to read of a collection; other keys are not copied. By default those of the module, or all
            keys if it has none.
        out_keys: the keys to write into a collection; by default those of the module.
        device: a CUDA device; the current one by default.

    Raises:
        RuntimeError: there is no CUDA device; or a call differs from the recorded one.
        ValueError: ``warmup`` is not positive.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from tensorclass.nn import CudaGraphModule
        >>> layer = nn.Linear(3, 4)
        >>> if torch.cuda.is_available():
        ...     layer = CudaGraphModule(layer.cuda(), warmup=3)
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
        self._recorder: GraphRecorder = _recorder(device)
        self.module: Callable[..., Any] = module
        self.warmup: int = warmup
        self.in_keys: Sequence[NestedKey] | None = getattr(module, "in_keys", None) if in_keys is None else in_keys
        self.out_keys: Sequence[NestedKey] | None = getattr(module, "out_keys", None) if out_keys is None else out_keys
        self._calls: int = 0
        self._recorded: _RecordedCall | None = None

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module: normally, recording, or by replaying the graph.

        Args:
            *args: arguments of the module. If the first is a collection, its ``in_keys`` are read.
            **kwargs: further arguments of the module.

        Returns:
            The results of the module. Those of the recorded and of later calls are copies, which the next call does not
            change. If the module writes into its input collection, that collection with the new values.

        Raises:
            RuntimeError: a call differs from the recorded one in shapes, dtypes, devices or keys, or in a value that is
                not a tensor.

        Example:
            >>> import torch
            >>> from torch import nn
            >>> from tensorclass.nn import CudaGraphModule
            >>> if torch.cuda.is_available():
            ...     layer = CudaGraphModule(nn.Linear(3, 4).cuda(), warmup=2)
            ...     for _ in range(4):  # two normal calls, the recording, and a replay
            ...         result = layer(torch.ones(2, 3, device="cuda"))
            ...     assert result.shape == (2, 4)
        """
        if self._calls < self.warmup:
            result = self._recorder.warm_up(lambda: self.module(*args, **kwargs))
            self._calls += 1
            return result
        data = args[0] if args and isinstance(args[0], TensorCollection) else None
        selected = args if data is None or self.in_keys is None else (data.select(*self.in_keys), *args[1:])
        if self._recorded is None:
            self._recorded = _RecordedCall(self._recorder, self.module, selected, kwargs)
        result, into_input = self._recorded.run(selected, kwargs)
        if data is None or not into_input:
            return result
        data.update(result if self.out_keys is None else result.select(*self.out_keys))
        return data

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Return the state dict of the module that is run, without a prefix for this one.

        Args:
            *args: as for ``nn.Module.state_dict``.
            **kwargs: as for ``nn.Module.state_dict``.

        Raises:
            AttributeError: a function is wrapped, which has no state.

        Example:
            >>> import torch
            >>> from torch import nn
            >>> from tensorclass.nn import CudaGraphModule
            >>> if torch.cuda.is_available():
            ...     assert list(CudaGraphModule(nn.Linear(3, 4).cuda()).state_dict()) == ["weight", "bias"]
        """
        module: Any = self._as_module("state_dict")
        return module.state_dict(*args, **kwargs)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Load a :meth:`state_dict` into the module in place, so that the graph uses it.

        Args:
            state_dict: the state dict.
            strict: require the same keys. Default: ``True``.
            assign: replace the tensors; only possible before the recording. Default: ``False``.

        Raises:
            AttributeError: a function is wrapped, which has no state.
            RuntimeError: ``assign`` is given after the recording.

        Example:
            >>> import torch
            >>> from torch import nn
            >>> from tensorclass.nn import CudaGraphModule
            >>> if torch.cuda.is_available():
            ...     layer = CudaGraphModule(nn.Linear(3, 4).cuda())
            ...     assert str(layer.load_state_dict(nn.Linear(3, 4).state_dict())) == "<All keys matched successfully>"
        """
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
        """Return the arguments, for the repr of the module.

        Example:
            >>> import torch
            >>> from tensorclass.nn import CudaGraphModule
            >>> if torch.cuda.is_available():
            ...     assert CudaGraphModule(torch.exp).extra_repr() == "warmup=2, in_keys=None, out_keys=None"
        """
        return f"warmup={self.warmup}, in_keys={self.in_keys}, out_keys={self.out_keys}"


class _RecordedCall:
    """A recorded call: its input tensors, and how to replay it."""

    def __init__(self, recorder: GraphRecorder, module: Callable[..., Any], args: Any, kwargs: Any) -> None:
        leaves, self.form = _pytree.tree_flatten((args, kwargs))
        self.inputs: list[Any] = [leaf.detach().clone() if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        self.signatures: list[Any] = [_signature(leaf) for leaf in leaves]
        positional, keywords = _pytree.tree_unflatten(self.inputs, self.form)
        self.result, self.replay = recorder.record(lambda: module(*positional, **keywords))
        self.into_input: bool = bool(positional) and self.result is positional[0]

    def run(self, args: Any, kwargs: Any) -> tuple[Any, bool]:
        """Replay the call. Return its results, and whether the module writes them into its input collection."""
        leaves, form = _pytree.tree_flatten((args, kwargs))
        problems = ["other arguments, or other keys"] if form != self.form else []
        problems += [
            f"argument {i}: expected {expected}, got {_signature(leaf)}"
            for i, (leaf, expected) in enumerate(zip(leaves, self.signatures, strict=False))
            if _signature(leaf) != expected
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


def _signature(leaf: object) -> object:
    """Return what two calls must agree on: shape, dtype and device of a tensor, otherwise the value."""
    return (tuple(leaf.shape), leaf.dtype, leaf.device) if isinstance(leaf, Tensor) else leaf
