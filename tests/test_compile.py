"""``torch.compile(fullgraph=True)`` of functions on records: results as in eager mode, sizes kept dynamic."""

import dataclasses
import shutil
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounter, CompileCounterWithBackend

import tensorclass as tc
from tensorclass import TensorClass, TensorDict, tensorclass
from tests.checks import assert_equal
from tests.compiling import groups, together

T = TypeVar("T")

#: the first one is compiled for itself, the second for any size
SIZES = (32, 64, 128, 10)


class Sample(TensorClass):
    image: Tensor
    label: Tensor
    extra: Tensor | None = None
    text: str = "a"


@tensorclass
class Outer:
    inner: Sample
    weight: Tensor


class Frozen(TensorClass, frozen=True):
    x: Tensor


class Mixin:
    def doubled(self) -> Any:
        return self * 2


class Mixed(Mixin, TensorClass):
    x: Tensor


class Box(TensorClass, Generic[T]):
    value: T


class Shadow(TensorClass, shadow=True):
    sum: Tensor
    values: Tensor


class Normal(TensorClass):
    x: Tensor
    length: Tensor = dataclasses.field(init=False)
    scale: dataclasses.InitVar[float] = 1.0

    def __post_init__(self, scale: float) -> None:
        self.length = self.x.norm(dim=-1) * scale


class Made(TensorClass):
    x: Tensor
    y: Tensor
    tag: str = "made"

    def __init__(self, x: Tensor) -> None:
        super().__init__(x=x, batch_size=x.shape[:1])
        self.y = x * 2


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def sample(n: int) -> Sample:
    return Sample(torch.rand(n, 3) + 0.1, torch.rand(n) + 0.1, batch_size=[n])


def outer(n: int) -> Outer:
    return Outer(sample(n), torch.rand(n, 2) + 0.1, batch_size=[n])


def tensordict(n: int) -> TensorDict:
    return TensorDict({"a": torch.rand(n, 3) + 0.1, "b": {"c": torch.rand(n) + 0.1, "text": "a"}}, [n])


def assert_same(result: Any, expected: Any) -> None:
    """The same classes, metadata and values."""
    assert type(result) is type(expected)
    if isinstance(expected, tc.TensorCollection):
        assert_equal(result, expected)
    elif isinstance(expected, Tensor):
        torch.testing.assert_close(result, expected, rtol=0, atol=0)
    elif isinstance(expected, dict):
        assert list(result) == list(expected)
        assert_same(list(result.values()), list(expected.values()))
    elif isinstance(expected, (tuple, list)):
        assert len(result) == len(expected)
        for a, b in zip(result, expected, strict=True):
            assert_same(a, b)
    else:
        assert result == expected


def check(function: Callable[[Any], Any], make: Callable[[int], Any]) -> None:
    """Compiled and eager results agree for all sizes, with at most two compilations."""
    counter = CompileCounter()
    compiled = torch.compile(function, fullgraph=True, backend=counter)
    for n in SIZES:
        data = make(n)
        expected = function(data.clone())
        assert_same(compiled(data), expected)
    assert counter.frame_count <= 2


def check_all(functions: Mapping[str, Callable[[Any], Any]], names: Sequence[str], make: Callable[[int], Any]) -> None:
    """:func:`check` of several functions of one argument, in one graph."""

    def check_in_one_graph(names: Sequence[str]) -> None:
        chosen = [functions[name] for name in names]
        check(lambda data: [function(data) for function in chosen], make)

    together(check_in_one_graph, names)


def check_arguments(
    functions: Mapping[str, Callable[[Any], Any]], names: Sequence[str], make: Callable[[str], Any]
) -> None:
    """Compiled and eager results agree, and so do the arguments afterwards: each function gets its own.

    A result that is the argument itself in eager mode is the argument in compiled code, too.
    """

    def check_in_one_graph(names: Sequence[str]) -> None:
        chosen = [functions[name] for name in names]
        data = [make(name) for name in names]
        copies = [value.clone() for value in data]
        expected = [function(copy) for function, copy in zip(chosen, copies, strict=True)]

        def run(values: list[Any]) -> list[Any]:
            return [function(value) for function, value in zip(chosen, values, strict=True)]

        results = torch.compile(run, fullgraph=True, backend="eager")(data)
        assert_same(results, expected)
        assert_same(data, copies)
        for result, value, wanted, copy in zip(results, data, expected, copies, strict=True):
            assert (result is value) is (wanted is copy)

    together(check_in_one_graph, names)


def ones(record: Any) -> Tensor:
    return torch.ones(record.batch_size, dtype=torch.bool)


OPERATIONS: dict[str, Callable[[Any], Any]] = {
    # indices
    "[int]": lambda r: r[0],
    "[-int]": lambda r: r[-2],
    "[slice]": lambda r: r[2:],
    "[slice with negative bounds]": lambda r: r[-3:-1],
    "[slice with a step]": lambda r: r[::2],
    "[None]": lambda r: r[None],
    "[...]": lambda r: r[...],
    "[..., int]": lambda r: r[..., 0],
    "[tuple]": lambda r: r[None, 2:],
    "[list]": lambda r: r[[0, 2]],
    "[tensor]": lambda r: r[torch.tensor([[0, 1], [2, 1]])],
    "[bool]": lambda r: r[True],
    "iteration": lambda r: list(r[:3]),
    # shapes
    "reshape": lambda r: r.reshape(-1, 2),
    "view": lambda r: r.view(2, -1),
    "flatten": lambda r: r.unsqueeze(0).flatten(),
    "unflatten": lambda r: r.unflatten(0, (2, -1)),
    "permute": lambda r: r[None].permute(1, 0),
    "transpose": lambda r: r[None].transpose(0, 1),
    "movedim": lambda r: r[None].movedim(0, 1),
    "squeeze": lambda r: r.unsqueeze(-1).squeeze(),
    "expand": lambda r: r.expand(3, *r.batch_size),
    "repeat": lambda r: r.repeat(2),
    "repeat_interleave": lambda r: r.repeat_interleave(2),
    "chunk": lambda r: r.chunk(2),
    "split in sizes": lambda r: r.split([1, len(r) - 1]),
    "unbind": lambda r: r[:3].unbind(0),
    "flip": lambda r: r.flip(0),
    "roll": lambda r: r.roll(1, 0),
    "gather": lambda r: r.gather(0, torch.tensor([0, 1])),
    "narrow": lambda r: r.narrow(0, 1, 2),
    "contiguous": lambda r: r.contiguous(),
    # several
    "torch.stack": lambda r: torch.stack([r, r + 1]),
    "stack": lambda r: tc.stack([r, r], -1),
    "torch.cat": lambda r: torch.cat([r, r[:2]]),
    "class method cat": lambda r: type(r).cat([r, r]),
    "torch.where": lambda r: torch.where(ones(r), r, r + 1),
    "where with a number": lambda r: r.where(ones(r), 0),
    "masked_fill": lambda r: r.masked_fill(ones(r), 1.0),
    "pad": lambda r: r.pad([1, 2]),
    "new values in place": lambda r: r.clone().to(torch.float64, inplace=True),
    "sum under other keys": lambda r: r.sum(0, key_transform=lambda key: f"sum_{key}").to_dict(),
    "filter_non_tensor_data": lambda r: r.filter_non_tensor_data(),
    "attrs": lambda r: r.attrs().to_dict(),
    "copy_at_": lambda r: r.clone().copy_at_(r[0].filter_non_tensor_data(), 1),
    "pack": lambda r: r.filter_non_tensor_data().float().pack()[0],
    "unpack": lambda r: (lambda flat, layout: layout.unpack(flat))(*r.filter_non_tensor_data().float().pack()),
    "clear_refs_for_compile_": lambda r: r.reshape(-1).clear_refs_for_compile_(),
    "merge_tensordicts": lambda r: tc.merge_tensordicts(r, r),
    "pad_sequence": lambda r: tc.pad_sequence([r, r[:3]]),
    "get, missing": lambda r: (r + 1, r.get("missing")),
    # numbers
    "+ number": lambda r: r + 1,
    "number -": lambda r: 1 - r,
    "number **": lambda r: 2.0**r,
    "/ record": lambda r: r / r,
    "* tensor": lambda r: r * torch.tensor(2.0),
    "* tensor of the batch size": lambda r: r * torch.ones(r.batch_size),
    "* length": lambda r: r * len(r),
    "-": lambda r: -r,
    "abs": lambda r: r.abs(),
    "torch.exp": torch.exp,
    "clamp": lambda r: r.clamp(0, 1),
    "isnan": lambda r: r.isnan(),
    "== record": lambda r: r == r,
    "> number": lambda r: r > 0.5,
    "in place": lambda r: r.clone().add_(1).mul_(2),
    "sum": lambda r: r.sum(),
    "sum over a dim": lambda r: r.sum(0),
    "mean with keepdim": lambda r: r.mean(dim=0, keepdim=True),
    "sum over features": lambda r: r.sum(dim="feature"),
    "sum over everything": lambda r: r.sum(reduce=True),
    "std": lambda r: r.std(0),
    "prod": lambda r: r.prod(0),
    "amax": lambda r: r.amax(0),
    "max": lambda r: r.max(0).values,
    "all": lambda r: (r == r).all(0),
    "cumsum": lambda r: r.cumsum(0),
    "softmax": lambda r: r.softmax(0),
    # copies and kinds
    "clone": lambda r: r.clone(),
    "shallow clone": lambda r: r.clone(False),
    "copy": lambda r: r.copy(),
    "detach": lambda r: r.detach(),
    "data": lambda r: r.data,
    "to dtype": lambda r: r.to(torch.float64),
    "double": lambda r: r.double(),
    "to device": lambda r: r.to("cpu"),
    "zeros_like": torch.zeros_like,
    "full_like": lambda r: torch.full_like(r, 2.0),
    "new_zeros": lambda r: r.new_zeros(3),
    "apply": lambda r: r.apply(lambda x: x * 2),
    "named_apply": lambda r: r.named_apply(lambda key, x: x * 2 if key != "label" else x),
    # keys
    "keys": lambda r: list(r.keys()),
    "items": lambda r: [value * 2 for key, value in r.items() if isinstance(value, Tensor)],
    "get and set": lambda r: r.clone(False).set(next(iter(r.keys())), r.get(next(iter(r.keys())))),
    "update": lambda r: r.clone(False).update(r),
    "select": lambda r: r.select(next(iter(r.keys()))),
    "exclude": lambda r: r.exclude(next(iter(r.keys()))),
    "empty": lambda r: r.empty(),
    "replace": lambda r: r.replace({}),
    "flatten_keys": lambda r: r.flatten_keys(),
    "to_tensordict": lambda r: r.to_tensordict(),
    # metadata
    "sizes": lambda r: (r.batch_size, len(r), r.numel(), r.ndim, r.shape[0]),
    "names": lambda r: r.clone(False).refine_names("time")[None],
    "lock": lambda r: (r + 1).lock_(),
    "lock and unlock": lambda r: (r + 1).lock_().unlock_(),
    "is_locked": lambda r: r + 1 if r.is_locked else r + 2,
}

#: the operations that have a path of their own for collections that hold nothing nested
PLAIN = [
    "[int]",
    "[slice]",
    "[tensor]",
    "reshape",
    "torch.stack",
    "torch.cat",
    "+ number",
    "* tensor",
    "sum over a dim",
]
PLAIN += ["== record", "abs", "clone", "apply", "names", "update"]


@pytest.mark.parametrize("names", groups(OPERATIONS))
def test_operations_on_nested_records(names: list[str]) -> None:
    check_all(OPERATIONS, names, outer)


@pytest.mark.parametrize("names", groups(PLAIN))
@pytest.mark.parametrize("make", [sample, tensordict])
def test_operations_on_a_plain_record_or_a_tensordict(make: Callable[[int], Any], names: list[str]) -> None:
    check_all(OPERATIONS, names, make)


def test_a_split_by_a_fixed_size() -> None:
    compiled = torch.compile(lambda r: r.split(5), fullgraph=True, backend="eager")
    for n in (9, 12):  # the number of results depends on the size, so that each is compiled for itself
        record = outer(n)
        assert_same(compiled(record), record.split(5))


def test_names_are_kept() -> None:
    def function(r: Outer) -> list[Outer]:
        return [
            r[2:],
            r[None],
            torch.stack([r, r], 1),
            r * 2,
            r.sum(0),
            r.unsqueeze(0).transpose(0, 1),
            r.to(torch.float64),
        ]

    check(function, lambda n: outer(n).refine_names("time"))


# -- construction -----------------------------------------------------------------------------------------------------

CONSTRUCTIONS: dict[str, Callable[[Any], Any]] = {
    "positional": lambda r: Sample(r.image * 2, r.label, batch_size=r.batch_size),
    "all fields": lambda r: Sample(image=r.image, label=r.label, extra=r.label, text="b", batch_size=[len(r)]),
    "batch size of a tensor": lambda r: Sample(r.image, r.label, batch_size=[r.image.shape[0]]),
    "without batch size": lambda r: Sample(r.image, r.label),
    "device": lambda r: Sample(r.image, r.label, batch_size=r.batch_size, device="cpu"),
    "names": lambda r: Sample(r.image, r.label, batch_size=r.batch_size, names=["time"])[2:],
    "numbers": lambda r: Sample(3, [1.0, 2.0]),
    "decorated": lambda r: Outer(inner=r, weight=r.label, batch_size=r.batch_size),
    "nested from a dict": lambda r: Outer({"image": r.image, "label": r.label}, r.label, batch_size=r.batch_size),
    "nested from a TensorDict": lambda r: Outer(TensorDict(r, r.batch_size), r.label, batch_size=r.batch_size),
    "TensorDict": lambda r: TensorDict({"a": r.image, "b": {"c": r.label}}, r.batch_size),
    "TensorDict with text": lambda r: TensorDict({"a": r.image, "text": "b"}, r.batch_size),
    "frozen": lambda r: Frozen(r.image, batch_size=r.batch_size) + 1,
    "with a mixin": lambda r: Mixed(r.image, batch_size=r.batch_size).doubled(),
    "generic": lambda r: Box(r.image, batch_size=r.batch_size)[0],
    "hiding members": lambda r: Shadow(r.image, r.label, batch_size=r.batch_size)[2:].sum,
    "with __post_init__": lambda r: Normal(r.image, scale=2.0, batch_size=r.batch_size),
    "replace": lambda r: r.replace(label=r.label * 2, text="b"),
    "dataclasses.replace": lambda r: dataclasses.replace(r, label=r.label * 2),
    "from_tensordict": lambda r: Sample.from_tensordict(TensorDict({"image": r.image, "label": r.label}, r.batch_size)),
    "hand-written __init__": lambda r: Made(r.image),
    "several": lambda r: (r + 1, [r[0], r], (r.image, r.text)),
}


@pytest.mark.parametrize("names", groups(CONSTRUCTIONS))
def test_constructions(names: list[str]) -> None:
    check_all(CONSTRUCTIONS, names, sample)


# -- fields -----------------------------------------------------------------------------------------------------------

READS: dict[str, Callable[[Any], Any]] = {
    "tensor": lambda r: r.inner.image * 2,
    "text": lambda r: r.inner.text + "b",
    "text after an operation": lambda r: (r + 1)[2:].inner.text,
    "optional": lambda r: r.weight if r.inner.extra is None else r.inner.extra,
    "key": lambda r: r["inner"]["image"] + r["weight"][:, :1],
    "nested key": lambda r: r["inner", "image"] * 2,
    "isinstance": lambda r: r + 1 if isinstance(r.inner, Sample) else r,
}


@pytest.mark.parametrize("names", groups(READS))
def test_reading(names: list[str]) -> None:
    check_all(READS, names, outer)


def write_field(r: Any) -> Any:
    r.inner.image = r.inner.image + 1
    r.weight += 1
    return r


def write_key(r: Any) -> Any:
    r["weight"] = r["weight"] * 2
    r["inner", "label"] = r["inner", "label"] * 2
    return r


def write_optional(r: Any) -> Any:
    r.inner.extra = r.weight
    return r


def write_text(r: Any) -> Any:
    r.inner.text = "b"
    return r


def write_record(r: Any) -> Any:
    r.inner = r.inner * 2
    return r


def write_row(r: Any) -> Any:
    r[0] = r[1]
    return r


def write_rows(r: Any) -> Any:
    r[2:4] = r[:2] * 2
    return r


def write_number(r: Any) -> Any:
    r[1:] = 0
    return r


def delete_field(r: Any) -> Any:
    del r.weight
    return r


def in_place(r: Any) -> Any:
    r.mul_(2)
    r.set_("weight", r.weight + 1)
    return r


def lock_and_unlock(r: Any) -> Any:
    r.lock_()
    r.weight.add_(1)
    r.unlock_()
    r.weight = r.weight * 2
    return r


WRITES: dict[str, Callable[[Any], Any]] = {
    write.__name__: write
    for write in (
        write_field, write_key, write_optional, write_text, write_record, write_row, write_rows, write_number,
        delete_field, in_place, lock_and_unlock,
    )
}  # fmt: skip


@pytest.mark.parametrize("names", groups(WRITES))
def test_writing_to_a_record_made_inside(names: list[str]) -> None:
    inside = {name: lambda r, write=write: write(r.clone()) for name, write in WRITES.items()}
    check_all(inside, names, outer)


@pytest.mark.parametrize("names", groups(WRITES))
def test_writing_to_an_argument_is_seen_outside(names: list[str]) -> None:
    check_arguments(WRITES, names, lambda name: outer(4))


def test_writing_rows_is_seen_through_the_tensors() -> None:
    record = outer(4)
    weight = record.weight
    torch.compile(write_number, fullgraph=True, backend="aot_eager")(record)
    assert record.weight is weight
    assert weight[1:].eq(0).all()


def test_a_locked_record_refuses_to_be_written() -> None:
    record = sample(4).lock_()

    def write(r: Sample) -> None:
        r.image = r.image * 2

    with pytest.raises(RuntimeError, match="locked"):
        torch.compile(write, backend="eager")(record)


# -- locks as context managers ----------------------------------------------------------------------------------------


def with_unlocked(r: Any) -> Any:
    with r.unlock_():
        r.weight = r.weight + 1
    return r


def with_locked(r: Any) -> Any:
    with r.lock_():
        result = r + 1
    r.weight = r.weight + 1
    return r, result


@pytest.mark.parametrize("function", [with_unlocked, with_locked])
def test_a_lock_as_a_context_manager_on_a_record_made_inside(function: Callable[[Any], Any]) -> None:
    check(lambda r: function(r.clone().lock_() if function is with_unlocked else r.clone()), outer)


@pytest.mark.parametrize("function", [with_unlocked, with_locked])
def test_a_lock_as_a_context_manager_on_an_argument_breaks_the_graph(function: Callable[[Any], Any]) -> None:
    """torch cannot trace ``with`` on an object that exists already, whatever its class."""
    record = outer(4).lock_() if function is with_unlocked else outer(4)
    expected = function(record.clone().lock_() if function is with_unlocked else record.clone())
    assert_same(torch.compile(function, backend="eager")(record), expected)
    assert record.is_locked is (function is with_unlocked)


# -- results of operations as context managers -------------------------------------------------------------------------

BLOCKS: dict[str, Callable[[Any], Any]] = {
    "view": lambda r: r.view(2, -1),
    "reshape": lambda r: r.reshape(-1, 2),
    "flatten": lambda r: r.flatten(),
    "unflatten": lambda r: r.unflatten(0, (2, -1)),
    "unsqueeze": lambda r: r.unsqueeze(0),
    "squeeze": lambda r: r.squeeze(0),
    "permute": lambda r: r.permute(0),
    "transpose": lambda r: r.transpose(0, -1),
    "flip": lambda r: r.flip(0),
    "roll": lambda r: r.roll(1, 0),
    "flatten_keys": lambda r: r.flatten_keys(),
    "to a dtype": lambda r: r.to(torch.float64),
}


def written_through(operation: Callable[[Any], Any], data: Any) -> Any:
    with operation(data) as result:
        key = "b.c" if "b.c" in result.keys() else ("b", "c")  # noqa: SIM118
        result["a"] = result["a"] * 2
        result[key].add_(1)
        result["new"] = result[key] + 1
    return data


@pytest.mark.parametrize("names", groups(BLOCKS))
def test_a_block_writes_back_into_a_collection_made_inside(names: list[str]) -> None:
    inside = {name: lambda data, block=block: written_through(block, data.clone()) for name, block in BLOCKS.items()}
    check_all(inside, names, tensordict)


@pytest.mark.parametrize("names", groups(BLOCKS))
def test_a_block_writes_back_into_an_argument(names: list[str]) -> None:
    through = {name: lambda data, block=block: written_through(block, data) for name, block in BLOCKS.items()}
    check_arguments(through, names, lambda name: tensordict(4))


# -- vmap and trees ---------------------------------------------------------------------------------------------------


def rows(*batch_size: int) -> TensorDict:
    values = lambda *rest: torch.rand((*batch_size, *rest))
    data = TensorDict({"a": values(5), "b": {"c": values()}, "text": "t", "empty": {}}, batch_size)
    return data.refine_names(*[f"dim{i}" for i in range(len(batch_size))])


VMAPS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    f"in_dims={i}, out_dims={o}": (lambda r, i=i, o=o: torch.vmap(lambda x: x * 2, in_dims=i, out_dims=o)(r), (3, 4))
    for i in (0, 1)
    for o in (0, 1)
}
VMAPS |= {
    "one row": (torch.vmap(lambda x: x.sum()), (3,)),
    "equal sizes": (torch.vmap(lambda x: x + 1, in_dims=1, out_dims=1), (3, 3)),
    "of a vmap": (torch.vmap(torch.vmap(lambda x: x + 1, 1, 1), 1, 2), (2, 3, 4)),
    "reshape inside": (torch.vmap(lambda x: x.reshape(2, 2)[0]), (3, 4)),
    "made inside": (lambda r: torch.vmap(lambda x: TensorDict({"x": x, "y": {"z": x * 2}}, [5]))(r["a"]), (3,)),
    "an argument for all": (lambda r: torch.vmap(lambda x, y: x["a"] + y["a"], in_dims=(0, None))(r, r[0]), (3, 4)),
    "in a dict": (
        lambda r: torch.vmap(lambda t: t["x"], in_dims=({"x": 1, "y": 0},))({"x": r, "y": r["b", "c"].T}),
        (3, 5),
    ),
    "in chunks": (torch.vmap(lambda x: x + 1, chunk_size=2), (5, 4)),
    "of a grad": (torch.vmap(torch.func.grad(lambda x: (x["a"] ** 2).sum())), (3, 4)),
    "of the leaves": (torch.vmap(lambda x: torch.utils._pytree.tree_map(lambda leaf: leaf * 2, x)), (3, 4)),
}
TRANSFORMS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "grad": (torch.func.grad(lambda x: (x["a"] ** 2).sum()), (3, 4)),
    "grad_and_value": (torch.func.grad_and_value(lambda x: (x["a"] ** 2).sum()), (3,)),
    "vjp": (lambda r: torch.func.vjp(lambda x: x["a"] * x["b", "c"][..., None], r)[0], (3,)),
    "jacrev": (lambda r: torch.func.jacrev(lambda x: x["a"] * x["b", "c"][..., None])(r)["a"], (3,)),
    "tree_map": (lambda r: torch.utils._pytree.tree_map(lambda x: x * 2, r), (3, 4)),
    "tree_map to fewer rows": (lambda r: torch.utils._pytree.tree_map(lambda x: x[:2], r), (3, 4)),
    "tree_leaves": (lambda r: torch.utils._pytree.tree_leaves(r), (3, 4)),
}


@pytest.mark.parametrize("name", [*VMAPS, *TRANSFORMS])  # in one graph they take no less time
def test_a_transform(name: str) -> None:
    function, batch_size = {**VMAPS, **TRANSFORMS}[name]
    data = rows(*batch_size)
    expected = function(data)
    assert_same(torch.compile(lambda r: function(r), fullgraph=True, backend="eager")(data), expected)


def test_a_vmap_keeps_sizes_dynamic() -> None:
    check(lambda r: torch.vmap(lambda x: x * 2, in_dims=1)(r), lambda n: rows(n, 4))


def test_torch_functions_with_options() -> None:
    def function(r: Any) -> Any:
        loss = torch.nn.functional.mse_loss(r, r * 2), torch.nn.functional.l1_loss(r, r + 1, reduction="none")
        return *loss, torch.div(r, 2, rounding_mode="floor"), torch.round(r, decimals=1), torch.std(r, 0, False)

    check(function, outer)


# -- modules and gradients --------------------------------------------------------------------------------------------


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, record: Outer) -> Outer:
        inner = record.inner.replace(image=self.linear(record.inner.image))
        return record.replace(inner=inner, weight=record.weight * inner.image.mean())


def test_a_module_takes_and_gives_records() -> None:
    model = Model()
    counter = CompileCounter()
    compiled = torch.compile(model, fullgraph=True, backend=counter)
    for n in SIZES:
        record = outer(n)
        assert_same(compiled(record), model(record))
    assert counter.frame_count <= 2


def test_gradients_flow_through_a_compiled_function() -> None:
    def loss(record: Outer) -> Tensor:
        stacked = torch.stack([record, record * 2])
        stacked.weight = stacked.weight * stacked.inner.label[..., None]
        return (stacked[:, 1:].reshape(-1) ** 2).sum(reduce=True)

    eager = outer(4)
    compiled = eager.clone().requires_grad_()
    eager.requires_grad_()
    loss(eager).backward()
    torch.compile(loss, fullgraph=True, backend="aot_eager")(compiled).backward()
    assert_same(compiled.grad, eager.grad)


def test_the_backend_that_traces_gradients_compiles_no_more_often() -> None:
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(lambda r: torch.cat([r[1:] * 2, r.sum(0, keepdim=True)]), fullgraph=True, backend=counter)
    for n in SIZES:
        record = outer(n)
        assert_same(compiled(record), torch.cat([record[1:] * 2, record.sum(0, keepdim=True)]))
    assert counter.frame_count <= 2


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("g++") is None or not Path(sysconfig.get_path("include"), "Python.h").exists(),
    reason="needs a C++ compiler and the headers of Python",
)
def test_inductor_compiles_functions_of_records() -> None:
    def function(record: Outer) -> Outer:
        return torch.stack([record * 2 + 1, record.abs()])[:, 2:].sum(0)

    record = outer(8)
    result = torch.compile(function, fullgraph=True, backend="inductor")(record)
    expected = function(record)
    assert type(result.inner) is Sample
    torch.testing.assert_close(result.inner.image, expected.inner.image)
    torch.testing.assert_close(result.weight, expected.weight)
