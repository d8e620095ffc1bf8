"""Modules and sequences under torch.compile, torch.export, torch.fx, AOTInductor, autocast and checkpointing."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Normal
from torch.export import Dim, export
from torch.utils.checkpoint import checkpoint

from tensorclass import TensorClass, TensorDict
from tensorclass.nn import (
    EnsembleModule,
    NormalParamExtractor,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorClassModuleBase,
    TensorDictModule,
    TensorDictModuleBase,
    TensorDictModuleWrapper,
    TensorDictSequential,
    dispatch,
    set_skip_existing,
)


class Sample(TensorClass):
    x: Tensor
    h: Tensor | None = None
    y: Tensor | None = None


class Bias(TensorDictModuleBase):
    in_keys = ["x"]
    out_keys = ["h"]

    @dispatch
    def forward(self, tensordict: Any) -> Any:
        return tensordict.set("h", tensordict["x"] + 1)


def network() -> TensorDictSequential:
    torch.manual_seed(0)
    return TensorDictSequential(
        TensorDictModule(nn.Linear(3, 4), "x", "h"), TensorDictModule(lambda h: h.relu().sum(-1), "h", "y")
    )


def rows(count: int = 5) -> Tensor:
    return torch.linspace(-1, 1, 3 * count).reshape(count, 3)


def data() -> TensorDict:
    return TensorDict(x=rows(), batch_size=[5])


def compiled(module: Any) -> Any:
    torch.compiler.reset()
    return torch.compile(module, fullgraph=True, backend="eager")


MODULES: dict[str, Any] = {
    "module": lambda: TensorDictModule(nn.Linear(3, 4), "x", "h"),
    "sequence": network,
    "nested keys": lambda: TensorDictModule(lambda x: (x, x + 1), "x", [("n", "h"), ("n", "m", "y")]),
    "keywords": lambda: TensorDictModule(lambda *, a, b: a - b, {"a": "x", "b": "x"}, "h"),
    "selected": lambda: TensorDictModule(lambda x: (x, x + 1), "x", ["h", "y"]).select_out_keys("y"),
    "selected in a sequence": lambda: network().select_out_keys("y"),
    "optional": lambda: TensorDictModule(lambda x, z: x if z is None else z, ["x", "z"], "h"),
    "empty": lambda: TensorDictModule(torch.exp, "x", "h", inplace="empty"),
    "dispatched": Bias,
    "wrapper": lambda: TensorDictModuleWrapper(Bias()),
    "functions": lambda: TensorDictSequential(Bias(), lambda source: source.set("y", source["h"] * 2)),
}


@pytest.mark.parametrize("name", MODULES)
def test_a_compiled_module_gives_what_the_module_gives(name: str) -> None:
    module = MODULES[name]()
    expected, result = module(data()), compiled(module)(data())
    assert list(expected.keys(True, True)) == list(result.keys(True, True))
    assert (expected == result).all()


def test_a_compiled_sequence_takes_tensors() -> None:
    sequence = network()
    torch.testing.assert_close(compiled(sequence)(rows()), sequence(rows()))


def test_a_compiled_sequence_takes_a_record() -> None:
    result = compiled(network())(Sample(x=rows(), batch_size=[5]))
    assert type(result) is Sample
    assert (result == network()(Sample(x=rows(), batch_size=[5]))).all()


def test_modules_are_skipped_in_compiled_code() -> None:
    sequence = network()

    def run(source: TensorDict) -> TensorDict:
        with set_skip_existing(True):
            return sequence(source)

    assert compiled(run)(data().set("h", torch.ones(5, 4)))["y"].tolist() == [4] * 5


def test_a_training_step_is_compiled_in_one_graph() -> None:
    sequence = network()

    def step(source: TensorDict) -> Tensor:
        loss: Tensor = sequence(source)["y"].square().mean()
        return loss

    loss = compiled(step)(data())
    loss.backward()
    found = [parameter.grad for parameter in sequence.parameters()]
    sequence.zero_grad()
    step(data()).backward()
    for gradient, parameter in zip(found, sequence.parameters(), strict=True):
        torch.testing.assert_close(gradient, parameter.grad)


def test_another_batch_size_needs_no_more_than_one_new_graph() -> None:
    torch.compiler.reset()
    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph

    module = torch.compile(network(), fullgraph=True, backend=backend)
    for count in range(2, 9):
        module(TensorDict(x=rows(count), batch_size=[count]))
    assert len(graphs) <= 2


def test_a_module_is_exported_with_a_dynamic_batch() -> None:
    sequence = network()
    program = export(sequence, (rows(),), dynamic_shapes={"tensordict": {0: Dim("batch")}}, strict=False)
    torch.testing.assert_close(program.module()(rows(9)), sequence(rows(9)))


def test_a_module_is_exported_on_a_collection_with_a_dynamic_batch() -> None:
    sequence = network()
    program = export(sequence, (data(),), dynamic_shapes=([{0: Dim.AUTO}],), strict=False)
    result = program.module()(TensorDict(x=rows(9), batch_size=[9]))
    torch.testing.assert_close(result["y"], sequence(rows(9))[1])
    assert result.batch_size == (9,)


def test_a_record_module_is_exported() -> None:
    class Net(TensorClassModuleBase[Sample, Sample]):
        def forward(self, x: Sample, /) -> Sample:
            return Sample(x=x.x, y=x.x.sum(-1), batch_size=x.batch_size)

    record = Sample(x=rows(), batch_size=[5])
    result = export(Net(), (record,), strict=False).module()(record)
    assert type(result) is Sample
    torch.testing.assert_close(result.y, rows().sum(-1))


def test_a_sequence_is_traced_symbolically() -> None:
    sequence = TensorDictSequential(network(), TensorDictModule(lambda y: (y, y * 2), "y", ["_", ("n", "z")]))
    graph = torch.fx.symbolic_trace(sequence)
    assert [name for name, _ in graph.named_parameters()] == [name for name, _ in sequence.named_parameters()]
    assert (graph(data()) == sequence(data())).all()
    assert type(torch.fx.symbolic_trace(network())(Sample(x=rows(), batch_size=[5]))) is Sample


@pytest.mark.parametrize("name", ["probabilistic", "ensemble", "record", "dispatched", "wrapper"])
def test_modules_that_are_called_as_a_whole_stand_in_traced_sequences(name: str) -> None:
    class Doubled(TensorClassModuleBase[Sample, Sample]):
        def forward(self, x: Sample, /) -> Sample:
            return Sample(x=x.x, h=x.x * 2, batch_size=x.batch_size)

    made: dict[str, Any] = {
        "probabilistic": ProbabilisticTensorDictModule(
            {"loc": "x"}, "h", distribution_class=Normal, distribution_kwargs={"scale": 1.0}, return_log_prob=True
        ),
        "ensemble": EnsembleModule(TensorDictModule(nn.Linear(3, 4), "x", "h"), 2),
        "record": Doubled().as_td_module(),
        "dispatched": Bias(),
        "wrapper": TensorDictModuleWrapper(Bias()),
    }
    sequence = TensorDictSequential(made[name], TensorDictModule(torch.neg, "h", "y"))
    graph = torch.fx.symbolic_trace(sequence)
    assert (graph(data()) == sequence(data())).all()
    assert "y" in graph(data())


def policy(kind: str) -> ProbabilisticTensorDictSequential:
    torch.manual_seed(0)
    return ProbabilisticTensorDictSequential(
        TensorDictModule(nn.Sequential(nn.Linear(3, 4), NormalParamExtractor()), "x", ["loc", "scale"]),
        ProbabilisticTensorDictModule(
            ["loc", "scale"],
            "y",
            distribution_class=Normal,
            distribution_kwargs={"validate_args": False},
            default_interaction_type=kind,
            return_log_prob=True,
        ),
    )


@pytest.mark.parametrize("kind", ["deterministic", "random"])
def test_a_probabilistic_sequence_is_traced_symbolically(kind: str) -> None:
    sequence = policy(kind)
    graph = torch.fx.symbolic_trace(sequence)
    torch.manual_seed(1)
    found = graph(data())
    torch.manual_seed(1)
    assert (found == sequence(data())).all()


@pytest.mark.parametrize("kind", ["deterministic", "random"])
def test_a_probabilistic_sequence_is_exported_with_a_dynamic_batch(kind: str) -> None:
    sequence = policy(kind)
    program = export(sequence, (rows(),), dynamic_shapes={"tensordict": {0: Dim("batch")}}, strict=False)
    torch.manual_seed(1)
    found = program.module()(rows(9))
    torch.manual_seed(1)
    for value, expected in zip(found, sequence(rows(9)), strict=True):
        torch.testing.assert_close(value, expected)


def test_what_cannot_be_traced_is_an_error() -> None:
    with pytest.raises(ValueError, match="it is traced as one call, inside of another module"):
        torch.fx.symbolic_trace(ProbabilisticTensorDictModule("x", "y"))
    with pytest.raises(ValueError, match="it can be traced when it writes all its keys into its input"):
        torch.fx.symbolic_trace(network().select_out_keys("y"))
    with pytest.raises(ValueError, match="it can be traced with inplace=True, not False"):
        torch.fx.symbolic_trace(TensorDictModule(torch.exp, "x", "y", inplace=False))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
@pytest.mark.filterwarnings("ignore")
def test_an_exported_sequence_is_packaged(tmp_path: Path) -> None:
    sequence = network()
    with torch.no_grad():
        program = export(sequence, (rows(),), dynamic_shapes={"tensordict": {0: Dim("batch", min=2, max=64)}})
        options = {"aot_inductor.compile_wrapper_opt_level": "O0"}
        path = torch._inductor.aoti_compile_and_package(
            program, package_path=str(tmp_path / "network.pt2"), inductor_configs=options
        )
        packaged = torch._inductor.aoti_load_package(path)
        for found, expected in zip(packaged(rows(9)), sequence(rows(9)), strict=True):
            torch.testing.assert_close(found, expected)


def test_a_sequence_runs_under_autocast() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = network()(data())
    assert (result["x"].dtype, result["h"].dtype) == (torch.float32, torch.bfloat16)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_sequence_can_be_checkpointed(reentrant: bool) -> None:
    sequence = network()
    x = rows().requires_grad_()
    expected = torch.autograd.grad(sequence(x)[1].sum(), [x, *sequence.parameters()])
    runs: list[int] = []
    sequence[0].register_forward_hook(lambda *_: runs.append(1))

    def run(value: Tensor) -> Tensor:
        y: Tensor = sequence(TensorDict(x=value, batch_size=[5]))["y"]
        return y

    checkpoint(run, x, use_reentrant=reentrant).sum().backward()
    assert len(runs) == 2
    for gradient, leaf in zip(expected, [x, *sequence.parameters()], strict=True):
        torch.testing.assert_close(leaf.grad, gradient)


def test_a_collection_can_go_through_a_checkpoint() -> None:
    sequence = network()
    result: Any = checkpoint(sequence, data(), use_reentrant=False)
    result["y"].sum().backward()
    found = [parameter.grad for parameter in sequence.parameters()]
    sequence.zero_grad()
    sequence(data())["y"].sum().backward()
    for gradient, parameter in zip(found, sequence.parameters(), strict=True):
        torch.testing.assert_close(gradient, parameter.grad)


def test_a_module_is_mapped_over_data() -> None:
    sequence = network()
    torch.testing.assert_close(torch.vmap(lambda x: sequence(x)[1])(rows()), sequence(rows())[1])
    mapped = torch.vmap(lambda source: sequence(source))(data())
    torch.testing.assert_close(mapped["y"], sequence(rows())[1])
