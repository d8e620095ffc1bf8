"""Devices, dtypes, copies and gradients: every shape is kept."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tensorclass import NonTensorStack, TensorClass, TensorCollection, TensorDict
from tensorclass.td.collection import as_device
from tests.checks import assert_consistent, assert_equal, outcome, shares_memory
from tests.samples import Unchanged, mixed, nested

CPU, META = torch.device("cpu"), torch.device("meta")
DTYPES = {
    name: getattr(torch, name)
    for name in (
        "double", "float", "half", "int", "bool", "bfloat16", "float16", "float32", "float64", "int8", "int16", "int32",
        "int64", "uint8", "uint16", "uint32", "uint64", "complex32", "complex64", "complex128",
    )
}  # fmt: skip


def leaves(data: TensorCollection) -> list[Tensor]:
    return list(data.values(True, True))


def dtypes(data: TensorCollection) -> set[torch.dtype]:
    return {leaf.dtype for leaf in leaves(data)}


def assert_same_tensors(a: TensorCollection, b: TensorCollection) -> None:
    assert all(x is y for x, y in zip(leaves(a), leaves(b), strict=True))


# -- to ---------------------------------------------------------------------------------------------------------------

FORMS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "string": (("meta",), {}),
    "device": ((META,), {}),
    "keyword": ((), {"device": "meta"}),
    "other tensor": ((torch.zeros(1, device="meta"),), {}),
    "other collection": ((TensorDict({}, [7], device="meta"),), {}),
    "other by keyword": ((), {"other": TensorDict({}, [7], device="meta")}),
    "without waiting": (("meta",), {"non_blocking": True}),
    "with a copy": (("meta",), {"copy": True}),
}


@pytest.mark.parametrize("form", FORMS)
def test_to_a_device_moves_every_level(form: str) -> None:
    data = nested(device="cpu", names=["row"])
    args, kwargs = FORMS[form]
    with Unchanged(data):
        result = data.to(*args, **kwargs)
    assert result.device == META
    assert_consistent(result)
    assert all(leaf.is_meta for leaf in leaves(result))
    assert (result.batch_size, result.names) == (data.batch_size, data.names)
    assert list(result.keys(True)) == list(data.keys(True))
    assert dtypes(result) == dtypes(data)


DTYPE_FORMS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "dtype": ((torch.float64,), {}),
    "keyword": ((), {"dtype": torch.float64}),
    "with a copy": ((torch.float64,), {"copy": True}),
    "of a collection": ((TensorDict({"z": torch.zeros(7, dtype=torch.float64)}, [7]),), {}),
}


@pytest.mark.parametrize("form", DTYPE_FORMS)
def test_to_a_dtype_casts_every_tensor_and_sets_no_device(form: str) -> None:
    data = mixed()
    args, kwargs = DTYPE_FORMS[form]
    with Unchanged(data):
        result = data.to(*args, **kwargs)
    assert dtypes(result) == {torch.float64}
    assert result.device is None
    for key, leaf in data.items(True, True):
        assert torch.equal(result[key], leaf.double())
    assert (result["text"], result["labels"], result["nest", "none"]) == ("hello", ["p", "q", "r"], None)


@pytest.mark.parametrize(
    "args, kwargs",
    [
        (("meta", torch.float64), {}),
        ((META, torch.float64, True), {}),
        (("meta",), {"dtype": torch.float64}),
        ((), {"device": "meta", "dtype": torch.float64}),
        ((torch.zeros(1, device="meta", dtype=torch.float64),), {}),
        ((TensorDict({"z": torch.zeros(7, dtype=torch.float64)}, [7], device="meta"),), {}),
        (("meta", torch.float64), {"memory_format": torch.preserve_format}),
    ],
    ids=str,
)
def test_to_a_device_and_a_dtype(args: Any, kwargs: Any) -> None:
    result = nested(device="cpu").to(*args, **kwargs)
    assert result.device == META
    assert dtypes(result) == {torch.float64}
    assert_consistent(result)


def test_to_a_collection_of_several_dtypes_keeps_the_dtypes() -> None:
    data = mixed()
    assert {k: v.dtype for k, v in data.to(mixed().to("cpu")).items(True, True)} == {
        k: v.dtype for k, v in data.items(True, True)
    }


def test_to_gives_the_collection_itself_when_nothing_changes() -> None:
    data = nested(device="cpu")
    for result in (
        data.to("cpu"),
        data.to(CPU),
        data.to(device="cpu"),
        data.to(),
        data.to(None),
        data.cpu(),
        data.to(TensorDict({}, device="cpu")),
    ):
        assert result is data


def test_to_the_device_that_the_tensors_are_on_shares_them() -> None:
    data = nested()
    result = data.to("cpu")
    assert data.device is None
    assert result.device == CPU
    assert_consistent(result)
    assert_same_tensors(result, data)


def test_to_the_dtype_that_the_tensors_have_shares_them() -> None:
    data = nested()
    assert_same_tensors(data.to(torch.float32), data)


@pytest.mark.parametrize("args", [(), ("cpu",), (torch.float32,)], ids=str)
def test_to_with_copy_shares_nothing(args: Any) -> None:
    data = nested(device="cpu")
    result = data.to(*args, copy=True)
    assert result is not data
    for new, old in zip(leaves(result), leaves(data), strict=True):
        assert torch.equal(new, old)
        assert not shares_memory(new, old)


def test_to_takes_another_batch_size() -> None:
    data = TensorDict({"a": torch.zeros(3, 2), "b": {"c": torch.zeros(3, 2)}}, [3])
    with Unchanged(data):
        for result in (data.to(batch_size=[3, 2]), data.to("meta", batch_size=[3, 2])):
            assert result.batch_size == result["b"].batch_size == (3, 2)
            assert_consistent(result)
        with pytest.raises(RuntimeError, match="does not fit"):
            data.to(batch_size=[4])


def test_to_takes_a_memory_format() -> None:
    data = TensorDict({"image": torch.zeros(2, 3, 4, 5)}, [2])
    result = data.to(memory_format=torch.channels_last)
    assert result["image"].is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("wrong", [3.5, b"cpu", [1], {"a": 1}], ids=repr)
def test_to_refuses_what_is_neither_device_nor_dtype_nor_other(wrong: Any) -> None:
    with pytest.raises(TypeError, match="expected a device, a dtype, a tensor or a collection"):
        nested().to(wrong)


def test_to_an_unknown_device_is_the_error_of_torch() -> None:
    wanted = outcome(lambda: torch.zeros(1).to("nowhere"))
    with pytest.raises(type(wanted)):
        nested().to("nowhere")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_without_a_device_is_the_error_of_torch() -> None:
    wanted: Any = outcome(lambda: torch.zeros(1).cuda())
    for args in ((), (0,), ("cuda:0",)):
        with pytest.raises(type(wanted)):
            nested().cuda(*args)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_collection_goes_to_a_cuda_device_and_back() -> None:
    data = nested()
    for there in (
        data.cuda(),
        data.cuda(0),
        data.to("cuda"),
        data.to("cuda:0"),
        data.pin_memory().to(0, non_blocking=True),
    ):
        assert there.device == torch.device("cuda", 0)
        assert there.is_cuda
        assert_consistent(there)
        torch.cuda.synchronize()
        assert (there.cpu() == data).all()
    data["new"] = torch.ones(3, device="cuda")
    assert data["new"].is_cuda
    there["new"] = torch.ones(3)
    assert there["new"].is_cuda


def test_objects_move_with_the_collection() -> None:
    result = mixed().to("meta")
    assert_consistent(result)
    assert result["labels"] == ["p", "q", "r"]
    assert result["text"] == "hello"


def test_as_device_gives_the_form_that_tensors_report() -> None:
    assert as_device(None) is None
    for device in ("cpu", CPU, "meta", META):
        found = as_device(device)
        assert found == torch.empty(0, device=device).device


# -- the device of a collection ---------------------------------------------------------------------------------------


def test_the_device_is_asked_for_by_kind() -> None:
    kinds = lambda data: (data.is_cpu, data.is_meta, data.is_cuda)
    assert kinds(nested()) == (False, False, False)
    assert kinds(nested(device="cpu")) == (True, False, False)
    assert kinds(nested(device="meta")) == (False, True, False)


def test_the_device_cannot_be_set() -> None:
    data = nested(device="cpu")
    with Unchanged(data), pytest.raises(RuntimeError, match=r"\.to\(device\)"):
        data.device = "meta"


def test_clearing_the_device_reaches_every_level() -> None:
    data = nested(device="cpu")
    assert data.clear_device_() is data
    assert [data.device, data["b"].device, data["b", "inner"].device] == [None, None, None]
    data["b", "z"] = torch.zeros(3, device="meta")
    assert data["b", "z"].is_meta


def test_auto_device_is_the_one_that_all_tensors_share() -> None:
    data = nested().auto_device_()
    assert data.device == CPU
    assert_consistent(data)
    data = nested().set(("b", "z"), torch.zeros(3, device="meta")).auto_device_()
    assert data.device is None


# -- dtypes -----------------------------------------------------------------------------------------------------------


experimental = pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental:UserWarning")


@experimental
@pytest.mark.parametrize("name", DTYPES)
def test_a_cast_is_named_as_the_dtype(name: str) -> None:
    data = mixed()
    with Unchanged(data):
        result = getattr(data, name)()
    assert dtypes(result) == {DTYPES[name]}
    for key, leaf in data.items(True, True):
        assert result[key].tolist() == leaf.to(DTYPES[name]).tolist()
    assert (result["text"], result["labels"]) == ("hello", ["p", "q", "r"])
    assert dtypes(data.type(DTYPES[name])) == {DTYPES[name]}


@experimental
@pytest.mark.parametrize("name", [*DTYPES, "type"])
def test_a_cast_filter_chooses_by_key_and_tensor(name: str) -> None:
    data = mixed()
    seen: dict[Any, Tensor] = {}

    def cast_filter(key: Any, tensor: Tensor) -> bool:
        seen[key] = tensor
        return key == ("nest", "flag")

    args = (torch.float64,) if name == "type" else ()
    result = getattr(data, name)(*args, cast_filter=cast_filter)
    assert list(seen) == [("x",), ("n",), ("nest", "flag")]
    assert all(data[key] is tensor for key, tensor in seen.items())
    assert result["nest", "flag"].dtype == DTYPES.get(name, torch.float64)
    assert result["x"] is data["x"]
    assert result["n"] is data["n"]
    assert result["text"] == "hello"


def test_a_cast_filter_also_chooses_for_the_dtype_of_another_collection() -> None:
    data = TensorDict({"a": torch.zeros(2), "n": {"b": torch.zeros(2)}})
    like = TensorDict({"c": torch.zeros(2, dtype=torch.float64)})
    for result in (
        data.to(like, cast_filter=lambda key, tensor: key == ("a",)),
        data.to(other=like, cast_filter=lambda key, tensor: key == ("a",)),
    ):
        assert (result["a"].dtype, result["n", "b"].dtype) == (torch.float64, torch.float32)


def test_attributes_of_tensors_and_a_batch_size_go_together() -> None:
    data = TensorDict({"a": torch.zeros(2)}, [2])
    like = TensorDict({"a": torch.zeros(2, dtype=torch.float64)}).attrs()
    result = data.to(like, batch_size=[])
    assert (result["a"].dtype, result.batch_size, data.batch_size) == (torch.float64, (), (2,))


def test_the_dtype_is_the_one_that_all_tensors_share() -> None:
    assert nested().dtype == torch.float32
    assert mixed().dtype is None
    assert TensorDict({"text": "t"}).dtype is None


def test_is_floating_point_asks_all_tensors() -> None:
    assert nested().is_floating_point()
    assert not mixed().is_floating_point()


# -- copies -----------------------------------------------------------------------------------------------------------


def test_clone_copies_every_tensor() -> None:
    for data in (nested(device="cpu", names=["row"]), mixed()):
        result = data.clone()
        assert_equal(result, data)
        assert result.device == data.device
        for new, old in zip(leaves(result), leaves(data), strict=True):
            assert not shares_memory(new, old)


def test_a_clone_has_collections_of_its_own() -> None:
    data = mixed()
    result = data.clone()
    result["nest", "new"] = torch.zeros(3)
    result.get("labels")[0] = "other"
    result.get("text").data = "other"
    assert ("nest", "new") not in data
    assert (data["text"], data["labels"]) == ("hello", ["p", "q", "r"])


def test_clone_without_recursion_shares_the_tensors_but_not_the_collections() -> None:
    data = nested(names=["row"])
    result = data.clone(recurse=False)
    assert_same_tensors(result, data)
    assert_equal(result, data)
    result["b", "z"] = torch.zeros(3)
    assert ("b", "z") not in data


def test_clone_keeps_or_changes_the_memory_format() -> None:
    data = TensorDict({"image": torch.zeros(2, 3, 4, 5).permute(0, 2, 3, 1)}, [2])
    assert data.clone()["image"].stride() == data["image"].stride()
    assert data.clone(memory_format=torch.contiguous_format)["image"].is_contiguous()


def test_a_clone_is_part_of_the_graph() -> None:
    data = nested(requires_grad=True)
    data.clone().sum(reduce=True).backward()
    assert bool((data.grad == 1).all())


def test_deepcopy_copies_everything_and_keeps_what_is_shared_shared() -> None:
    tensor, part, item = torch.zeros(3), TensorDict({"c": torch.zeros(3)}, [3]), [1, 2]
    data = TensorDict({"a": tensor, "b": tensor, "p": part, "q": part}, [3])
    data.set_non_tensor("list", item)
    result = copy.deepcopy(data)
    assert_equal(result, data)
    assert result["a"] is result["b"]
    assert result["p"] is result["q"]
    assert not shares_memory(result["a"], tensor)
    assert result["list"] == item
    assert result["list"] is not item


def test_deepcopy_keeps_device_and_names() -> None:
    result = copy.deepcopy(nested(device="cpu", names=["row"]))
    assert (result.device, result.names) == (CPU, ["row"])
    assert_consistent(result)


def test_deepcopy_keeps_leaves_of_the_graph_leaves() -> None:
    result = copy.deepcopy(nested(requires_grad=True))
    assert all(leaf.requires_grad and leaf.is_leaf for leaf in leaves(result))


def test_deepcopy_takes_part_in_a_larger_copy() -> None:
    data = nested()
    first, second = copy.deepcopy([data, data])
    assert first is second


# -- gradients --------------------------------------------------------------------------------------------------------


def test_requires_grad_is_set_on_every_tensor() -> None:
    data = nested()
    assert not data.requires_grad
    assert data.requires_grad_() is data
    assert all(leaf.requires_grad for leaf in leaves(data))
    assert data.requires_grad
    data.requires_grad_(False)
    assert not data.requires_grad


def test_requires_grad_asks_for_any_tensor() -> None:
    data = nested()
    data["b", "c"].requires_grad_()
    assert data.requires_grad


def test_requires_grad_is_set_on_no_tensor_where_one_can_not_have_it() -> None:
    data = TensorDict({"a": torch.zeros(2), "b": torch.zeros(2, dtype=torch.int64)}, [2])
    with Unchanged(data), pytest.raises(RuntimeError):
        data.requires_grad_()


def test_requires_grad_of_integers_is_the_error_of_torch() -> None:
    with pytest.raises(RuntimeError, match="floating point"):
        mixed().requires_grad_()


def test_detach_shares_memory_without_history() -> None:
    data = nested(requires_grad=True)
    result = (data * 1).detach()
    assert not result.requires_grad
    for new, old in zip(leaves(data.detach()), leaves(data), strict=True):
        assert new.data_ptr() == old.data_ptr()
    assert data.requires_grad


def test_detach_in_place_cuts_the_history() -> None:
    data = nested(requires_grad=True) * 1
    tensors = leaves(data)
    assert data.detach_() is data
    assert not any(leaf.requires_grad for leaf in tensors)
    assert all(a is b for a, b in zip(leaves(data), tensors, strict=True))


def test_data_shares_memory_and_is_unknown_to_autograd() -> None:
    data = nested(names=["row"], requires_grad=True)
    plain = data.data
    assert not plain.requires_grad
    assert_equal(plain, data.detach())
    plain.zero_()
    assert not data["b", "c"].any()
    assert mixed().data["text"] == "hello"


def test_data_can_be_set() -> None:
    data = nested(requires_grad=True)
    tensors, new = leaves(data), nested() * 2
    data.data = new
    assert all(a is b for a, b in zip(leaves(data), tensors, strict=True))
    assert data.requires_grad
    for tensor, value in zip(tensors, leaves(new), strict=True):
        assert torch.equal(tensor, value)
    with pytest.raises(TypeError, match="expected a collection"):
        data.data = torch.zeros(3)
    with pytest.raises(KeyError, match="differ in their keys"):
        data.data = new.exclude("a")


def test_grad_holds_the_gradients_of_the_tensors_that_have_one() -> None:
    data = nested(names=["row"], requires_grad=True)
    assert data.grad is None
    (data["a"] * 3).sum().backward()
    assert list(data.grad.keys(True, True)) == ["a"]
    assert data.grad["a"] is data["a"].grad
    (data["b", "inner", "d"] * 2).sum().backward()
    assert list(data.grad.keys(True, True)) == ["a", ("b", "inner", "d")]
    assert data.grad.batch_size == data.batch_size
    assert data.grad.names == data.names


def test_grad_keeps_objects_beside_gradients() -> None:
    data = TensorDict({"x": torch.ones(3, requires_grad=True), "text": "t"}, [3])
    assert data.grad is None
    data["x"].sum().backward()
    assert data.grad["text"] == "t"


def test_grad_can_be_set_and_cleared() -> None:
    data = nested(requires_grad=True)
    data.grad = nested() * 2
    assert torch.equal(data["b", "c"].grad, nested()["b", "c"] * 2)
    data.grad = None
    assert data.grad is None


def test_zero_grad_forgets_the_gradients_or_sets_them_to_zero() -> None:
    data = nested(requires_grad=True)
    data.sum(reduce=True).backward()
    gradient = data["a"].grad
    assert data.zero_grad(set_to_none=False) is data
    assert data["a"].grad is gradient
    assert not gradient.any()
    assert data.zero_grad() is data
    assert data.grad is None
    nested().zero_grad()


def test_gradients_of_a_step_by_hand() -> None:
    data = nested(requires_grad=True).exclude("empty")
    before = data.detach().clone()
    (data * data).sum(reduce=True).backward()
    data.data.sub_(data.grad, alpha=0.1)
    for key, leaf in data.items(True, True):
        torch.testing.assert_close(leaf.detach(), before[key] * 0.8)


# -- memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pin", [lambda d: d.pin_memory(), lambda d: d.pin_memory(2), lambda d: d.pin_memory_()])
def test_pinning_memory_does_as_torch_does(pin: Any) -> None:
    wanted = outcome(lambda: torch.zeros(1).pin_memory())
    data = nested()
    result = outcome(lambda: pin(data))
    if isinstance(wanted, Exception):
        assert isinstance(result, type(wanted))
        assert str(result) == str(wanted)
    else:
        assert all(leaf.is_pinned() for leaf in leaves(result))


# -- records ----------------------------------------------------------------------------------------------------------


class Record(TensorClass):
    """A record whose class must be kept."""

    x: Tensor
    text: str = "t"


@pytest.mark.parametrize(
    "operation",
    [
        lambda r: r.to("meta"),
        lambda r: r.to(torch.float64),
        lambda r: r.double(),
        lambda r: r.double(cast_filter=lambda key, tensor: True),
        lambda r: r.clone(),
        lambda r: r.clone(False),
        copy.copy,
        copy.deepcopy,
        lambda r: r.detach(),
        lambda r: r.data,
        lambda r: r.requires_grad_(),
        lambda r: r.cpu(),
    ],
)
def test_the_class_of_a_record_is_kept(operation: Any) -> None:
    record = Record(torch.ones(3), batch_size=[3])
    result = operation(record)
    assert type(result) is Record
    assert result.text == "t"


def test_the_gradient_of_a_record_is_a_record() -> None:
    record = Record(torch.ones(3, requires_grad=True), batch_size=[3])
    record.x.sum().backward()
    assert type(record.grad) is Record


# -- out of the package -----------------------------------------------------------------------------------------------


def test_to_tensordict_copies_values_and_makes_records_plain() -> None:
    data = TensorDict({"r": Record(torch.ones(3), batch_size=[3]), "labels": NonTensorStack("p", "q", "r")}, [3])
    result = data.to_tensordict()
    assert type(result["r"]) is TensorDict
    assert not shares_memory(result["r", "x"], data["r", "x"])
    assert result["labels"] == ["p", "q", "r"]


def test_to_dict_gives_plain_dicts_tensors_and_objects() -> None:
    data = mixed()
    result = data.to_dict()
    assert type(result["nest"]) is dict
    assert result["x"] is data["x"]
    assert result["labels"] == ["p", "q", "r"]
    assert result["nest"]["none"] is None
    assert "none" not in data.to_dict(retain_none=False)["nest"]


def test_to_dict_converts_tensors() -> None:
    lists, arrays = mixed().to_dict(convert_tensors=True), mixed().to_dict(convert_tensors="numpy")
    assert lists["x"] == [[0, 1], [2, 3], [4, 5]]
    assert isinstance(arrays["nest"]["flag"], np.ndarray)


def test_numpy_gives_arrays_that_share_memory() -> None:
    data = nested()
    arrays = data.numpy()
    arrays["b"]["c"][0] = 9
    assert data["b", "c"][0] == 9


def test_tolist_gives_one_dict_a_row() -> None:
    data = TensorDict({"a": torch.arange(2), "b": {"c": torch.ones(2)}, "t": "x"}, [2])
    assert data.tolist() == [{"a": 0, "b": {"c": 1}, "t": "x"}, {"a": 1, "b": {"c": 1}, "t": "x"}]
    assert [[row["a"] for row in rows] for rows in data.unsqueeze(0).tolist()] == [[0, 1]]
    assert data[0].tolist()["a"] == 0


def test_from_dict_finds_the_batch_size_at_every_level() -> None:
    data = TensorDict.from_dict(
        {"a": torch.zeros(3, 4), "b": {"c": torch.zeros(3, 4, 5), "d": torch.zeros(3, 4, 6)}}, auto_batch_size=True
    )
    assert data.batch_size == (3, 4)
    assert data["b"].batch_size == (3, 4)
    assert TensorDict.from_dict({"a": torch.zeros(3, 4)}, batch_dims=1).batch_size == (3,)
    assert TensorDict.from_dict({"a": torch.zeros(3, 4)}, batch_size=[3]).batch_size == (3,)
    assert TensorDict.from_dict({"a": torch.zeros(3, 4)}, auto_batch_size=False).batch_size == ()
    with pytest.raises(ValueError, match="exclude each other"):
        TensorDict.from_dict({"a": torch.zeros(3)}, batch_size=[3], auto_batch_size=True)


@pytest.mark.parametrize("data", [nested(), mixed()], ids=["nested", "mixed"])
def test_from_dict_undoes_to_dict(data: TensorDict) -> None:
    assert_equal(
        TensorDict.from_dict(data.to_dict(), batch_size=[3]).exclude(("b", "inner")), data.exclude(("b", "inner"))
    )


def test_requires_grad_that_fails_changes_no_tensor() -> None:
    leaf = torch.zeros(2, requires_grad=True)
    data = TensorDict(a=torch.zeros(2, requires_grad=True), b=leaf * 2, c=torch.zeros(2))
    with pytest.raises(RuntimeError, match="leaf"):
        data.requires_grad_(False)
    assert [value.requires_grad for value in data.values()] == [True, True, False]
    with torch.inference_mode():
        apart = torch.zeros(2)
    data = TensorDict(a=torch.zeros(2), b=apart)
    with pytest.raises(RuntimeError, match=r"[iI]nference"):
        data.requires_grad_()
    assert not data.requires_grad


def test_detach_in_place_that_fails_changes_no_tensor() -> None:
    leaf = torch.zeros(2, 2, requires_grad=True)
    data = TensorDict(a=leaf * 2, b=(leaf * 3)[0])
    with pytest.raises(RuntimeError, match="views"):
        data.detach_()
    assert all(value.grad_fn is not None for value in data.values())
