"""Modules that run as CUDA graphs; on other machines, what stands between a call and a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tensorclass import TensorDict
from tensorclass.nn import CudaGraphModule, cudagraphs

NO_CUDA = not torch.cuda.is_available()


class Replayed:
    """Runs a function on the tensors that it was recorded with, as a graph does, and writes into its first results."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def warm_up(self, function: Callable[[], Any]) -> Any:
        self.log.append("warm up")
        return function()

    def record(self, function: Callable[[], Any]) -> tuple[Any, Callable[[], object]]:
        self.log.append("record")
        result = function()

        def replay() -> None:
            self.log.append("replay")
            again = function()
            if isinstance(result, Tensor):
                result.copy_(again)

        return result, replay


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> Replayed:
    replayed = Replayed()
    monkeypatch.setattr(cudagraphs, "_recorder", lambda device: replayed)
    return replayed


class Writing(nn.Module):
    """Writes into the collection that it is given."""

    in_keys = ["x"]
    out_keys = ["y"]

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, data: Any) -> Any:
        return data.set("y", data["x"] * self.weight.detach())


@pytest.mark.skipif(not NO_CUDA, reason="there is a CUDA device")
def test_without_cuda_there_is_an_error_that_says_so() -> None:
    with pytest.raises(RuntimeError, match="there is no CUDA device here"):
        CudaGraphModule(torch.exp)


def test_a_device_without_graphs_is_an_error_that_names_it() -> None:
    with pytest.raises(RuntimeError, match="expected a CUDA device, got cpu"):
        CudaGraphModule(torch.exp, device="cpu")


def test_calls_warm_up_then_record_then_replay(graphs: Replayed) -> None:
    module = CudaGraphModule(lambda x: x * 2, warmup=3)
    results = [module(torch.full((2,), float(n))).tolist() for n in range(6)]
    assert results == [[2.0 * n] * 2 for n in range(6)]
    assert graphs.log == ["warm up"] * 3 + ["record", "replay"] + ["replay"] * 2


def test_results_of_calls_are_their_own(graphs: Replayed) -> None:
    module = CudaGraphModule(lambda x: x * 2, warmup=1)
    _, one, two = (module(torch.full((2,), float(n))) for n in range(3))
    assert one.tolist() == [2.0, 2.0]
    assert two.tolist() == [4.0, 4.0]


def test_a_module_that_writes_into_its_input_writes_into_that_of_each_call(graphs: Replayed) -> None:
    module = CudaGraphModule(Writing(), warmup=1)
    assert module.in_keys == ["x"]
    for n in range(4):
        data = TensorDict({"x": torch.full((2,), float(n)), "other": torch.zeros(n)})
        assert module(data) is data
        assert data["y"].tolist() == [float(n)] * 2
        assert set(data.keys()) == {"x", "other", "y"}


def test_what_is_no_tensor_stays_in_the_recording(graphs: Replayed) -> None:
    module = CudaGraphModule(lambda x, scale, *, add: x * scale + add, warmup=1)
    assert [module(torch.ones(1), 2, add=1).item() for _ in range(3)] == [3.0] * 3


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda module: module(torch.ones(3)), r"expected \(\(2,\), torch.float32.*got \(\(3,\)"),
        (lambda module: module(torch.ones(2, dtype=torch.float64)), "float64"),
        (lambda module: module(torch.ones(2), torch.ones(2)), "other arguments"),
        (lambda module: module(TensorDict({"x": torch.ones(2)})), "other arguments"),
    ],
)
def test_a_call_unlike_the_recorded_one_is_an_error(graphs: Replayed, call: Any, message: str) -> None:
    module = CudaGraphModule(lambda x, *rest: x * 2, warmup=1)
    for _ in range(2):
        module(torch.ones(2))
    with pytest.raises(RuntimeError, match=f"{message}.*Make another CudaGraphModule for other inputs"):
        call(module)
    assert module(torch.ones(2)).tolist() == [2.0, 2.0]


def test_a_failed_warm_up_does_not_count(graphs: Replayed) -> None:
    module = CudaGraphModule(lambda x: x[0], warmup=1)
    with pytest.raises(IndexError):
        module(torch.ones(()))
    assert module(torch.ones(2)) == 1
    assert graphs.log == ["warm up"] * 2


def test_the_state_is_that_of_the_module(graphs: Replayed) -> None:
    inner = Writing()
    module = CudaGraphModule(inner, warmup=1)
    assert list(module.state_dict()) == ["weight"]
    for _ in range(2):
        module(TensorDict({"x": torch.ones(2)}))
    module.load_state_dict({"weight": torch.full((), 3.0)})
    assert module(TensorDict({"x": torch.ones(2)}))["y"].tolist() == [3.0, 3.0]
    with pytest.raises(RuntimeError, match="assign=True"):
        module.load_state_dict({"weight": torch.ones(())}, assign=True)
    with pytest.raises(AttributeError, match="no module"):
        CudaGraphModule(torch.exp).state_dict()


def test_a_warmup_that_is_not_positive_is_an_error(graphs: Replayed) -> None:
    with pytest.raises(ValueError, match="at least 1, got 0"):
        CudaGraphModule(torch.exp, warmup=0)


# -- on a GPU ---------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(NO_CUDA, reason="needs CUDA")
def test_a_graph_gives_what_the_module_gives() -> None:
    network = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).cuda()
    module = CudaGraphModule(lambda x: network(x).detach())
    for _ in range(5):
        x = torch.randn(5, 3, device="cuda")
        torch.testing.assert_close(module(x), network(x).detach())


@pytest.mark.skipif(NO_CUDA, reason="needs CUDA")
def test_a_graph_writes_into_collections() -> None:
    module = CudaGraphModule(Writing().cuda())
    for n in range(5):
        data = TensorDict({"x": torch.full((2,), float(n), device="cuda")})
        assert module(data)["y"].tolist() == [float(n)] * 2


@pytest.mark.skipif(NO_CUDA, reason="needs CUDA")
def test_a_training_step_runs_as_a_graph() -> None:
    losses = []
    for graphed in (False, True):
        torch.manual_seed(0)
        network = nn.Linear(3, 1).cuda()
        optimizer = torch.optim.Adam(network.parameters(), lr=0.1, capturable=True)

        def step(data: Any, network: Any = network, optimizer: Any = optimizer) -> Tensor:
            optimizer.zero_grad()
            loss = network(data["x"]).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()  # type: ignore[no-any-return]

        run: Any = CudaGraphModule(step) if graphed else step
        data = TensorDict({"x": torch.ones(4, 3, device="cuda")})
        losses.append([run(data).item() for _ in range(6)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
