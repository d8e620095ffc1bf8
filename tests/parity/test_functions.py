"""Methods and functions that join, pack, pad, group and compare: the same calls on both libraries."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensordict.utils
import torch

import tensorclass.utils  # noqa: F401
from tests.parity.sides import OURS, PEER, described, outcome

pytestmark = pytest.mark.parity

Call = Callable[[Any], Any]
ones, zeros, tensor = torch.ones, torch.zeros, torch.tensor


def numbers(library: Any) -> Any:
    """Three rows with a name: a tensor, and one under a nested key."""
    nested = library.TensorDict({"b": ones(3, 2)}, [3])
    return library.TensorDict({"a": torch.arange(6.0).reshape(3, 2), "n": nested}, [3], names=["x"])


def mixed(library: Any) -> Any:
    """Three rows: tensors, text, an object a row, an empty collection."""
    return library.TensorDict(
        {
            "a": torch.arange(6.0).reshape(3, 2),
            "n": library.TensorDict({"b": ones(3), "text": "below"}, [3]),
            "t": "text",
            "s": library.NonTensorStack("p", "q", "r"),
            "e": library.TensorDict({}, [3]),
        },
        [3],
    )


def three(library: Any) -> Any:
    return library.TensorDict({"b": ones(3, 2), "a": zeros(3, 2), "n": {"c": torch.full((3, 2), 2.0)}}, [3])


def rows(library: Any, *lengths: int) -> list[Any]:
    return [library.TensorDict({"a": ones(n, 2) * n, "b": {"c": ones(n)}}, [n]) for n in lengths]


def features(library: Any) -> list[Any]:
    """Collections of two rows whose values differ in length behind the batch."""
    return [library.TensorDict({"a": ones(2, n), "b": ones(2, n + 1, 2)}, [2]) for n in (3, 4)]


def parts(stack: Any) -> list[Any]:
    return list(stack.unbind(0))


def labelled(library: Any) -> Any:
    labels = library.NonTensorStack("b", "a", "b", "c")
    return library.TensorDict(
        {"k": tensor([3, 1, 3, 2]), "p": tensor([[1, 2], [3, 4], [1, 2], [5, 6]]), "t": labels, "i": torch.arange(4)},
        [4],
    )


def keys_of(*collections: Any) -> list[Any]:
    return [sorted(str(key) for key in collection.keys(True)) for collection in collections]


def layout(found: Any) -> Any:
    """A layout as plain data, in the order of its fields."""
    names = ("keys", "shapes", "dim", "device", "offsets", "numel")
    return [getattr(found, name) for name in names], sorted((str(key), tuple(size)) for key, size, _ in found.nested)


def packed(flat_and_layout: Any) -> Any:
    return flat_and_layout[0], layout(flat_and_layout[1])


def repacked(data: Any, **options: Any) -> Any:
    flat, found = data.pack(**options)
    return found.unpack(flat)


def backward(library: Any, make: Call, **options: Any) -> Any:
    source = numbers(library).requires_grad_()
    result = make(source * 2)
    options = {name: value(result, source) for name, value in options.items()}
    result.backward(**options)
    return source.grad


def separated(library: Any, *keys: Any, **options: Any) -> Any:
    data = numbers(library)
    data["c"] = ones(3)
    part = data.separates(*keys, **options)
    return keys_of(part, data), part.names


def filtered(library: Any) -> Any:
    data = mixed(library)
    data["n2"] = {"x": ones(3), "below": {}}
    data["n3"] = {"below": {}}
    result = data.filter_empty_()
    return result is data, keys_of(data)


def in_a_file(library: Any, storage: str) -> Any:
    schema = {"a": ([2], torch.float32), ("n", "b"): (torch.Size([]), torch.int64)}
    with tempfile.TemporaryDirectory() as folder:
        data = library.TensorDict.from_schema(schema, batch_size=[3], storage=storage, filename=f"{folder}/data")
        data[1] = library.TensorDict({"a": ones(2), "n": {"b": 4}})
        found = data.batch_size, data["a"], data["n", "b"]
        if storage == "h5":
            data.close()
    return found


def in_place(library: Any, call: Callable[[Any], Any]) -> Any:
    """Whether a call gave the collection itself, and what became of it."""
    data = numbers(library)
    result = call(data)
    return result is data, data


def utils(library: Any) -> Any:
    return OURS.utils if library is OURS else tensordict.utils


METHODS: dict[str, Call] = {
    "as_tensor": lambda m: mixed(m).as_tensor(),
    "attrs": lambda m: mixed(m).exclude("s").attrs().to_dict(),
    "attrs of one field": lambda m: mixed(m).exclude("s").attrs(fields=("dtype",)).to_dict(),
    "attrs in threads": lambda m: mixed(m).attrs(num_threads=2).to_dict(),
    "attrs, batch size": lambda m: tuple(mixed(m).exclude("s").attrs().batch_size),
    "attrs, one tensor": lambda m: mixed(m).exclude("s").attrs()["a"].tgt_shape,
    "backward": lambda m: backward(m, lambda d: d, gradient=lambda r, s: torch.ones_like(r)),
    "backward of numbers": lambda m: backward(m, lambda d: d.sum()),
    "backward without gradient": lambda m: backward(m, lambda d: d),
    "backward for a collection": lambda m: backward(m, lambda d: d.sum(), inputs=lambda r, s: s.select("a")),
    "backward for tensors": lambda m: backward(m, lambda d: d.sum(), inputs=lambda r, s: [s["a"]]),
    "backward, a gradient missing": lambda m: backward(m, lambda d: d, gradient=lambda r, s: r.detach().select("a")),
    "backward of nothing": lambda m: m.TensorDict({}).backward(),
    "cat_from_tensordict": lambda m: three(m).cat_from_tensordict(1),
    "cat_from_tensordict, dim -1": lambda m: three(m).cat_from_tensordict(-1),
    "cat_from_tensordict, sorted": lambda m: three(m).cat_from_tensordict(1, sorted=True),
    "cat_from_tensordict, in order": lambda m: three(m).cat_from_tensordict(1, sorted=["b", ("n", "c"), "a"]),
    "cat_from_tensordict, some keys": lambda m: three(m).cat_from_tensordict(1, sorted=["b", "a"]),
    "cat_from_tensordict, out": lambda m: three(m).cat_from_tensordict(1, out=zeros(3, 6)),
    "cat_from_tensordict beside objects": lambda m: mixed(m).select("a", "t", "s").cat_from_tensordict(),
    "cat_from_tensordict of nothing": lambda m: m.TensorDict({}).cat_from_tensordict(),
    "stack_from_tensordict": lambda m: three(m).stack_from_tensordict(1),
    "stack_from_tensordict, sorted": lambda m: three(m).stack_from_tensordict(sorted=True),
    "stack_from_tensordict of unlike ones": lambda m: mixed(m).stack_from_tensordict(),
    "cat_tensors": lambda m: three(m).cat_tensors("a", "b", out_key="o", dim=1),
    "cat_tensors, in place": lambda m: in_place(m, lambda d: d.cat_tensors("a", ("n", "b"), out_key="o", dim=1)),
    "cat_tensors, kept": lambda m: three(m).cat_tensors("a", "b", out_key="o", dim=1, keep_entries=True),
    "cat_tensors into one of them": lambda m: three(m).cat_tensors("a", "b", out_key="a", dim=1),
    "cat_tensors into another": lambda m: three(m).cat_tensors("a", ("n", "c"), out_key="b", dim=1),
    "cat_tensors, nested result": lambda m: three(m).cat_tensors("a", "b", out_key=("m", "o"), dim=1),
    "cat_tensors along the batch": lambda m: three(m).cat_tensors("a", "b", out_key="o", dim=0),
    "cat_tensors, missing": lambda m: three(m).cat_tensors("zz", out_key="o"),
    "cat_tensors, locked": lambda m: three(m).lock_().cat_tensors("a", "b", out_key="o", dim=1),
    "cat_tensors, no batch": lambda m: m.TensorDict({"a": ones(2), "b": ones(3)}).cat_tensors("a", "b", out_key="o"),
    "stack_tensors": lambda m: three(m).stack_tensors("a", "b", out_key="o", dim=1),
    "stack_tensors in front": lambda m: three(m).stack_tensors("a", "b", out_key="o"),
    "clear_refs_for_compile_": lambda m: in_place(m, lambda d: d.clear_refs_for_compile_()),
    "copy_at_": lambda m: in_place(m, lambda d: d.copy_at_(numbers(m)[0] + 10, 1)),
    "copy_at_ a slice": lambda m: in_place(m, lambda d: d.copy_at_(numbers(m)[:2] + 10, slice(1, 3))),
    "copy_at_ some keys": lambda m: in_place(m, lambda d: d.copy_at_(m.TensorDict({"a": ones(2)}), 1)),
    "copy_at_ another dtype": lambda m: in_place(m, lambda d: d.copy_at_(numbers(m)[0].double(), 1)),
    "copy_at_ a new key": lambda m: numbers(m).copy_at_(m.TensorDict({"z": ones(2)}), 1),
    "copy_at_ broadcast": lambda m: numbers(m).copy_at_(numbers(m)[0], slice(0, 2)),
    "copy_at_ a mapping": lambda m: numbers(m).copy_at_({"a": ones(2)}, 0),
    "copy_at_ a mask": lambda m: numbers(m).copy_at_(numbers(m)[:1], tensor([True, False, False])),
    "copy_at_ positions": lambda m: numbers(m).copy_at_(numbers(m)[:2], tensor([0, 2])),
    "copy_at_, slow": lambda m: in_place(m, lambda d: d.copy_at_(numbers(m)[:2] + 9, tensor([0, 2]), fast=False)),
    "copy_at_, slow, a new key": lambda m: numbers(m).copy_at_(m.TensorDict({"z": ones(2)}), 1, fast=False),
    "data_ptr": lambda m: [keys_of(mixed(m).data_ptr()), mixed(m).data_ptr().device, mixed(m).data_ptr().batch_size],
    "from_schema": lambda m: m.TensorDict.from_schema(
        {"a": ([2], torch.float32), ("n", "b"): (torch.Size([]), torch.int64)}, batch_size=[3]
    ),
    "from_schema without batch": lambda m: m.TensorDict.from_schema({"a": ([2], torch.bool)}),
    "from_schema on a device": lambda m: m.TensorDict.from_schema({"a": ([2], torch.float)}, device="meta").device,
    "from_schema, shared": lambda m: m.TensorDict.from_schema({"a": ([2], torch.float)}, storage="shared").is_shared(),
    "from_schema, no such storage": lambda m: m.TensorDict.from_schema({"a": ([2], torch.float32)}, storage="nope"),
    "from_schema, h5": lambda m: in_a_file(m, "h5"),
    "from_schema, zarr": lambda m: in_a_file(m, "zarr"),
    "from_schema, h5, without a file": lambda m: m.TensorDict.from_schema({"a": ([2], torch.float32)}, storage="h5"),
    "filter_empty_": filtered,
    "filter_empty_, locked": lambda m: mixed(m).lock_().filter_empty_(),
    "filter_non_tensor_data": lambda m: mixed(m).filter_non_tensor_data(),
    "non_tensor_items": lambda m: dict(mixed(m).non_tensor_items()),
    "non_tensor_items, nested": lambda m: dict(mixed(m).non_tensor_items(include_nested=True)),
    "pack": lambda m: packed(numbers(m).pack()),
    "pack first": lambda m: packed(numbers(m).pack(0)),
    "pack last": lambda m: packed(numbers(m).pack(1)),
    "pack too far": lambda m: numbers(m).pack(2),
    "pack objects": lambda m: mixed(m).pack(),
    "pack two dtypes": lambda m: m.TensorDict({"a": ones(3), "b": ones(3, dtype=torch.int64)}, [3]).pack(),
    "pack two devices": lambda m: m.TensorDict({"a": ones(3), "b": ones(3, device="meta")}, [3]).pack(),
    "pack nothing": lambda m: packed(m.TensorDict({}, [3]).pack()),
    "pack without batch": lambda m: packed(m.TensorDict({"a": ones(2, 2), "b": ones(())}).pack()),
    "pack in the middle": lambda m: packed(m.TensorDict({"a": ones(2, 3, 2), "b": ones(2, 3)}, [2, 3]).pack(1)),
    "pack a longer batch": lambda m: packed(
        m.TensorDict({"n": m.TensorDict({"x": ones(3, 2, 2)}, [3, 2])}, [3]).pack()
    ),
    "pack an empty collection": lambda m: packed(m.TensorDict({"e": {}, "a": ones(3)}, [3]).pack()),
    "pack and unpack": lambda m: repacked(numbers(m)),
    "pack and unpack, first": lambda m: repacked(numbers(m), dim=0),
    "pack and unpack a longer batch": lambda m: repacked(
        m.TensorDict({"n": m.TensorDict({"x": ones(3, 2, 2)}, [3, 2]), "e": {}}, [3])
    ),
    "unpack a row": lambda m: (lambda flat, found: found.unpack(flat[0]))(*numbers(m).pack()),
    "unpack more dimensions": lambda m: (lambda flat, found: found.unpack(flat[None]))(*numbers(m).pack()),
    "unpack too few columns": lambda m: (lambda flat, found: found.unpack(flat[:, :2]))(*numbers(m).pack()),
    "pack with a layout": lambda m: packed(numbers(m).double().pack(layout=numbers(m).pack()[1])),
    "pack in the order of a layout": lambda m: m.TensorDict({"n": {"b": ones(3, 2)}, "a": zeros(3, 2)}, [3]).pack(
        layout=numbers(m).pack()[1]
    )[0],
    "pack, other shapes than the layout": lambda m: m.TensorDict({"n": {"b": ones(3)}, "a": zeros(3, 2)}, [3]).pack(
        layout=numbers(m).pack()[1]
    ),
    "pack, fewer keys than the layout": lambda m: numbers(m).select("a").pack(layout=numbers(m).pack()[1]),
    "pack, another dim than the layout": lambda m: numbers(m).pack(0, layout=numbers(m).pack()[1]),
    "layouts are equal": lambda m: [
        numbers(m).pack()[1] == numbers(m).pack(1)[1],
        hash(numbers(m).pack()[1]) == hash(numbers(m).pack()[1]),
        numbers(m).pack()[1] == numbers(m).pack(0)[1],
    ],
    "layout, made": lambda m: layout(m.PackLayout(("a", "b"), ([2], [3, 1]), -2)),
    "pad": lambda m: m.pad(numbers(m), [1, 2]),
    "pad with a value": lambda m: numbers(m).pad([0, 2], value=5),
    "pad, cutting": lambda m: numbers(m).pad([1, -1]),
    "pad nothing": lambda m: numbers(m).pad([]),
    "pad in place": lambda m: in_place(m, lambda d: d.pad([0, 2], inplace=True)),
    "pad, unsafe": lambda m: numbers(m).pad([0, 2], safe=False),
    "pad too many": lambda m: numbers(m).pad([0, 2, 1, 1]),
    "pad an odd number": lambda m: numbers(m).pad([0]),
    "pad two dimensions": lambda m: m.TensorDict(
        {"a": ones(2, 3, 2), "n": m.TensorDict({"b": ones(2, 3, 4)}, [2, 3, 4])}, [2, 3]
    ).pad([0, 1, 2, 3]),
    "pad the first of two": lambda m: m.TensorDict({"a": ones(2, 3, 2)}, [2, 3]).pad([0, 1]),
    "pad objects": lambda m: mixed(m).pad([1, 1]),
    "pad booleans": lambda m: m.TensorDict({"a": ones(2, dtype=torch.bool)}, [2]).pad([0, 2]),
    "pad a locked one in place": lambda m: numbers(m).lock_().pad([0, 2], inplace=True),
    "separates": lambda m: separated(m, "a"),
    "separates, nested": lambda m: separated(m, ("n", "b")),
    "separates, emptied stay": lambda m: separated(m, ("n", "b"), filter_empty=False),
    "separates a collection": lambda m: separated(m, "n"),
    "separates, missing": lambda m: separated(m, "zz"),
    "separates, missing, not strict": lambda m: separated(m, "zz", "a", strict=False),
    "separates, missing, default": lambda m: separated(m, "zz", "a", default=zeros(3)),
    "separates, locked": lambda m: numbers(m).lock_().separates("a"),
    "get_at": lambda m: numbers(m).get_at("a", 0),
    "get_at, by keyword": lambda m: numbers(m).get_at(("n", "b"), index=slice(0, 2)),
    "get_at, missing": lambda m: numbers(m).get_at("zz", 0),
    "get_at, default": lambda m: [numbers(m).get_at("zz", 0, "d"), numbers(m).get_at("zz", 0, default="d")],
    "get_at a collection": lambda m: numbers(m).get_at("n", 0),
    "get_at without index": lambda m: numbers(m).get_at("a"),
    "set_at_": lambda m: in_place(m, lambda d: d.set_at_("a", ones(2) * 5, 0)),
    "set_at_ a number": lambda m: in_place(m, lambda d: d.set_at_("a", 5, index=0)),
    "set_at_ a list": lambda m: in_place(m, lambda d: d.set_at_("a", [7.0, 8.0], 0)),
    "set_at_ a collection": lambda m: in_place(m, lambda d: d.set_at_("n", m.TensorDict({"b": ones(2) * 7}), 0)),
    "set_at_, missing": lambda m: numbers(m).set_at_("zz", 1, 0),
    "set_at_, locked": lambda m: in_place(m, lambda d: d.lock_().set_at_("a", 5.0, 0)),
    "set_at_, too large": lambda m: numbers(m).set_at_("a", ones(7), 0),
    "update_at_": lambda m: in_place(m, lambda d: d.update_at_({"a": ones(2), "n": {"b": ones(2) * 7}}, 0)),
    "update_at_, a copy": lambda m: in_place(m, lambda d: d.update_at_({"a": ones(2)}, 0, clone=True)),
    "update_at_, some keys": lambda m: in_place(
        m, lambda d: d.update_at_({"a": ones(2) * 9, "n": {"b": ones(2) * 7}}, 0, keys_to_update=["a"])
    ),
    "update_at_, missing": lambda m: numbers(m).update_at_({"zz": ones(2)}, 0),
    **{
        f"{name} under other keys": lambda m, name=name, args=args: getattr(numbers(m), name)(
            *args, key_transform=lambda key: f"{key}_{name}"
        )
        for name, args in (
            ("sum", (0,)),
            ("mean", ()),
            ("std", ("feature",)),
            ("var", (0,)),
            ("quantile", (0.5,)),
            ("norm", ()),
        )
    },
    "sum under nested keys": lambda m: numbers(m).sum(0, key_transform=lambda key: ("p", key)),
    "sum without some keys": lambda m: numbers(m).sum(0, key_transform=lambda key: None if key == "a" else key),
    "sum to one tensor": lambda m: numbers(m).sum(reduce=True, key_transform=lambda key: "s"),
    "new_zeros, empty_lazy": lambda m: three(m).new_zeros(4, empty_lazy=True),
    "new_zeros on no device": lambda m: numbers(m).to("cpu").new_zeros(4, device=None).device,
    "where, out": lambda m: numbers(m).where(
        tensor([True, False, True]), numbers(m) + 1, out=numbers(m), update_batch_size=True
    ),
    "flatten everything": lambda m: m.TensorDict({"a": ones(2, 3)}, [2, 3]).flatten(None, None),
    "cpu, not blocking": lambda m: numbers(m).cpu(non_blocking=True).device,
    "cpu, no such argument": lambda m: numbers(m).cpu(foo=1),
    "to in place": lambda m: in_place(m, lambda d: d.to(torch.float64, inplace=True)),
    "to a device in place": lambda m: [x.device for x in in_place(m, lambda d: d.to("meta", inplace=True))[1:]],
    "to what attrs say": lambda m: (lambda r: [r["a"].dtype, r["a"].device, r.device, r["n", "b"].dtype, r.names])(
        numbers(m).to(numbers(m).double().to("meta").attrs())
    ),
    "to what attrs say of some": lambda m: numbers(m).to(numbers(m).double().select("a").attrs()),
    "to what attrs say of more": lambda m: numbers(m).select("a").to(numbers(m).double().attrs()),
    "to the dtypes of attrs": lambda m: numbers(m).to(numbers(m).double().to("meta").attrs(fields=["dtype"])),
    "to with a filter": lambda m: numbers(m).to(torch.float64, cast_filter=lambda key, value: key == ("n", "b")),
}

FUNCTIONS: dict[str, Call] = {
    "assert_close": lambda m: m.assert_close(numbers(m), numbers(m) + 1e-7),
    "assert_close, apart": lambda m: m.assert_close(numbers(m), numbers(m) + 1),
    "assert_close, tolerant": lambda m: m.assert_close(numbers(m), numbers(m) + 1, rtol=1, atol=3),
    "assert_close, strict": lambda m: m.assert_close(numbers(m), numbers(m) + 1e-5, rtol=0, atol=0),
    "assert_close, other keys": lambda m: m.assert_close(numbers(m), numbers(m).select("a")),
    "assert_close, common keys": lambda m: m.assert_close(numbers(m), numbers(m).select("a"), intersection=True),
    "assert_close, nan": lambda m: m.assert_close(numbers(m) * float("nan"), numbers(m) * float("nan")),
    "assert_close, nan differs": lambda m: m.assert_close(
        numbers(m) * float("nan"), numbers(m) * float("nan"), equal_nan=False
    ),
    "assert_close, another dtype": lambda m: m.assert_close(numbers(m), numbers(m).double()),
    "assert_close, text": lambda m: m.assert_close(mixed(m), mixed(m).set("t", "other")),
    "assert_close of tensors": lambda m: m.assert_close(ones(1), ones(1)),
    "assert_allclose_td": lambda m: m.assert_allclose_td is m.assert_close,
    "default_is_leaf": lambda m: [m.default_is_leaf(c) for c in (torch.Tensor, m.TensorDict, m.NonTensorData, int)],
    "is_leaf_nontensor": lambda m: [m.is_leaf_nontensor(c) for c in (torch.Tensor, m.TensorDict, m.NonTensorData)],
    "fromkeys": lambda m: m.fromkeys(["a", ("b", "c")], 1),
    "KEY_SEPARATOR": lambda m: m.KEY_SEPARATOR,
    "group_by": lambda m: m.group_by(labelled(m), "k"),
    "group_by vectors": lambda m: m.group_by(labelled(m), "p"),
    "group_by text": lambda m: m.group_by(labelled(m), "t"),
    "group_by one text": lambda m: m.group_by(mixed(m), "t"),
    "group_by a nested key": lambda m: m.group_by(m.TensorDict({"n": labelled(m)}, [4]), ("n", "k")),
    "group_by, missing": lambda m: m.group_by(labelled(m), "zz"),
    "group_by a collection": lambda m: m.group_by(numbers(m), "n"),
    "group_by without rows": lambda m: m.group_by(m.TensorDict({"a": ones(3)}), "a"),
    "group_by nan": lambda m: m.group_by(m.TensorDict({"a": tensor([1.0, float("nan"), float("nan")])}, [3]), "a"),
    "group_by unlike objects": lambda m: m.group_by(m.TensorDict({"t": m.NonTensorStack("b", 1)}, [2]), "t"),
    "group_by of no rows": lambda m: m.group_by(m.TensorDict({"a": zeros(0)}, [0]), "a"),
    "make_tensordict": lambda m: m.make_tensordict({"a": ones(3, 2), "n": {"b": ones(3)}}),
    "make_tensordict, batch": lambda m: m.make_tensordict({"a": ones(3, 2), ("n", "b"): ones(3)}, batch_size=[3]),
    "make_tensordict, keywords": lambda m: m.make_tensordict({"a": ones(3)}, a=zeros(3), b=ones(3), device="cpu"),
    "make_tensordict, auto": lambda m: m.make_tensordict(a=ones(3, 2), b=ones(3), auto_batch_size=True),
    "make_tensordict, auto and given": lambda m: m.make_tensordict(a=ones(3, 2), batch_size=[3], auto_batch_size=True),
    "make_tensordict of nothing": lambda m: m.make_tensordict(),
    "merge_tensordicts": lambda m: m.merge_tensordicts(
        three(m), m.TensorDict({"d": ones(3), "n": {"e": ones(3)}}, [3]), mixed(m).exclude("e")
    ),
    "merge_tensordicts of one": lambda m: m.merge_tensordicts(numbers(m)),
    "merge_tensordicts, callback": lambda m: m.merge_tensordicts(
        numbers(m), numbers(m), mixed(m), callback_exist=lambda *values: sum(values)
    ),
    "merge_tensordicts, callbacks": lambda m: m.merge_tensordicts(
        numbers(m), numbers(m), callback_exist={("n", "b"): lambda *values: sum(values)}
    ),
    "merge_tensordicts, other batch": lambda m: m.merge_tensordicts(numbers(m), m.TensorDict({"z": ones(2)}, [2])),
    "pad_sequence": lambda m: m.pad_sequence(rows(m, 3, 2)),
    "pad_sequence, masks": lambda m: m.pad_sequence(rows(m, 3, 1, 2), return_mask=True),
    "pad_sequence, masks under a key": lambda m: m.pad_sequence(rows(m, 3, 2), return_mask=("q", "m")),
    "pad_sequence, left": lambda m: m.pad_sequence(rows(m, 3, 1), padding_side="left", return_mask=True),
    "pad_sequence, no side": lambda m: m.pad_sequence(rows(m, 3, 1), padding_side="up"),
    "pad_sequence, value": lambda m: m.pad_sequence(rows(m, 3, 1), padding_value=7.0),
    "pad_sequence, values": lambda m: m.pad_sequence(rows(m, 3, 1), padding_value={("b", "c"): 7.0}),
    "pad_sequence, value of no key": lambda m: m.pad_sequence(rows(m, 3, 1), padding_value={"zz": 7.0}),
    "pad_sequence, value of a collection": lambda m: m.pad_sequence(rows(m, 3, 1), padding_value={"b": 7.0}),
    "pad_sequence of features": lambda m: m.pad_sequence(features(m), pad_dim=1, return_mask=True),
    "pad_sequence of the last dimension": lambda m: m.pad_sequence(
        [m.TensorDict({"a": ones(2, 3, n), "b": ones(2, n)}, [2]) for n in (2, 4)], pad_dim=-1, return_mask=True
    ),
    "pad_sequence without batch": lambda m: m.pad_sequence(
        [m.TensorDict({"a": ones(n, 2)}) for n in (2, 3)], return_mask=True
    ),
    "pad_sequence of nothing": lambda m: m.pad_sequence([]),
    "pad_sequence of scalars": lambda m: m.pad_sequence([m.TensorDict({"a": ones(())})] * 2),
    "pad_sequence, other features": lambda m: m.pad_sequence([m.TensorDict({"a": ones(3, n)}, [3]) for n in (2, 3)]),
    "pad_sequence of text": lambda m: m.pad_sequence(
        [row.set("t", text) for row, text in zip(rows(m, 3, 2), "xy", strict=True)]
    ),
    "pad_sequence of objects": lambda m: m.pad_sequence(
        [m.TensorDict({"t": m.NonTensorStack(*text)}, [len(text)]) for text in ("abc", "ab")]
    ),
    "pad_sequence into another": lambda m: m.pad_sequence(
        rows(m, 3, 2), out=m.TensorDict({"a": zeros(2, 3, 2), "b": {"c": zeros(2, 3)}}, [2, 3])
    ),
    "unpad_sequence": lambda m: parts(m.unpad_sequence(m.pad_sequence(rows(m, 3, 1, 2), return_mask=True))),
    "unpad_sequence, left": lambda m: parts(
        m.unpad_sequence(m.pad_sequence(rows(m, 3, 1), return_mask=True, padding_side="left"))
    ),
    "unpad_sequence, a mask": lambda m: parts(
        m.unpad_sequence(m.pad_sequence(rows(m, 3, 2)), tensor([[True, True, True], [False, True, True]]))
    ),
    "unpad_sequence, a collection of masks": lambda m: parts(
        m.unpad_sequence(m.pad_sequence(rows(m, 3, 2)), m.pad_sequence(rows(m, 3, 2), return_mask=True).get("masks"))
    ),
    "unpad_sequence of features": lambda m: parts(
        m.unpad_sequence(m.pad_sequence(features(m), pad_dim=1, return_mask=True), pad_dim=1)
    ),
    "unpad_sequence of objects": lambda m: parts(
        m.unpad_sequence(
            m.pad_sequence(
                [m.TensorDict({"a": ones(len(t)), "t": m.NonTensorStack(*t)}, [len(t)]) for t in ("abc", "ab")]
            ),
            tensor([[True, True, True], [True, True, False]]),
        )
    ),
    "unpad_sequence without mask": lambda m: m.unpad_sequence(m.pad_sequence(rows(m, 3, 2))),
    "unpad_sequence, holes": lambda m: m.unpad_sequence(
        m.pad_sequence(rows(m, 3, 2)), tensor([[True, False, True], [True, True, False]])
    ),
    "unpad_sequence, a mask too few": lambda m: m.unpad_sequence(
        m.pad_sequence(rows(m, 3, 2)), m.pad_sequence(rows(m, 3, 2), return_mask=True).get("masks").select("a")
    ),
    "unpad_sequence, another mask": lambda m: m.unpad_sequence(m.pad_sequence(rows(m, 3, 2)), ones(3, 2).bool()),
    "unpad_sequence of no batch": lambda m: m.unpad_sequence(m.TensorDict({"a": ones(2)})),
    **{
        f"{name} of {dtype}": lambda m, name=name, dtype=dtype: [
            getattr(m, name)(zeros(1, dtype=dtype)),
            getattr(m, name)("key", zeros(1, dtype=dtype)),
        ]
        for name in ("is_bool", "is_floating", "is_inexact", "is_integer")
        for dtype in (torch.float32, torch.int64, torch.bool, torch.complex64)
    },
    "isin": lambda m: utils(m).isin(labelled(m), labelled(m)[1:2], "k"),
    "isin, vectors": lambda m: utils(m).isin(labelled(m), labelled(m)[:1], "p"),
    "isin, missing": lambda m: utils(m).isin(labelled(m), labelled(m), "zz"),
    "isin, another dim": lambda m: (lambda d: utils(m).isin(d, d[:, :2], "a", dim=-1))(
        m.TensorDict({"a": torch.arange(12).reshape(3, 4)}, [3, 4])
    ),
    "isin, no such dim": lambda m: utils(m).isin(labelled(m), labelled(m), "k", dim=5),
    "isin, nothing": lambda m: utils(m).isin(labelled(m), labelled(m)[:0], "k"),
    "remove_duplicates": lambda m: utils(m).remove_duplicates(labelled(m).exclude("t"), "k"),
    "remove_duplicates, vectors": lambda m: utils(m).remove_duplicates(labelled(m).exclude("t"), "p"),
    "remove_duplicates, indices": lambda m: utils(m).remove_duplicates(labelled(m), "k", return_indices=True)[1],
    "remove_duplicates, missing": lambda m: utils(m).remove_duplicates(labelled(m), "zz"),
    "remove_duplicates of text": lambda m: utils(m).remove_duplicates(labelled(m), "t"),
    "remove_duplicates, no such dim": lambda m: utils(m).remove_duplicates(labelled(m), "k", dim=5),
    "expand_right": lambda m: utils(m).expand_right(torch.arange(3), (3, 2)),
    "expand_right, smaller": lambda m: utils(m).expand_right(ones(3), ()),
    "expand_right, other": lambda m: utils(m).expand_right(ones(3), (4, 3)),
    "expand_right of a collection": lambda m: utils(m).expand_right(numbers(m), (3, 4)),
    "expand_as_right": lambda m: utils(m).expand_as_right(ones(3), m.TensorDict({}, [3, 4])),
    "expand_as_right, smaller": lambda m: utils(m).expand_as_right(ones(3, 4), ones(3)),
    "expand_as_right, other": lambda m: utils(m).expand_as_right(ones(3), ones(4, 3)),
    **{
        f"infer_size_impl of {size}, {count}": lambda m, size=size, count=count: utils(m).infer_size_impl(size, count)
        for size, count in (
            ([2, -1], 6), ([4, -1], 6), ([-1, -1], 6), ([2, 3], 6), ([2, 4], 6), ([0, -1], 0), ([-2, 3], 6)
        )
    },
    **{
        f"convert_ellipsis_to_idx of {index}": lambda m, index=index: utils(m).convert_ellipsis_to_idx(index, [3, 4, 5])
        for index in (
            (..., 0), ..., (0, ..., 0), (0,), 0, (..., ...), (0, 0, 0, ..., 0), (None, ..., 0), (0, 0, 0, ...),
            (ones(3, 4, dtype=torch.bool), ...), slice(None), (np.ones((3, 4), bool), ...),
            (np.ones((3, 4), bool), 0, ...), (ones(3, 4, dtype=torch.uint8), ...),
        )
    },
    **{
        f"is_seq_of_nested_key of {keys}": lambda m, keys=keys: utils(m).is_seq_of_nested_key(keys)
        for keys in (["a"], ["a", ("b", "c")], [("a", 1)], "a", [], ["a", None], ("a", "b"), 3)
    },
}  # fmt: skip


@pytest.mark.parametrize("call", [*METHODS.values(), *FUNCTIONS.values()], ids=[*METHODS, *FUNCTIONS])
def test_does_the_same_as_in_the_peer(call: Call) -> None:
    ours = described(outcome(lambda: call(OURS)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some of these are about to change there
        assert ours == described(outcome(lambda: call(PEER)))
