"""Functions that users call beside collections, and switches."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import tensordict.utils  # noqa: F401 (an attribute of the package)
import torch
from hypothesis import strategies as st

import tensorclass.utils  # noqa: F401
from tests import strategies as draw
from tests.parity.cases.shaping import existing_dim, index, like
from tests.parity.drawn import Drawn, case, maybe
from tests.parity.sides import PEER, outcome

FLAGS = st.booleans()


def utils(library: Any) -> Any:
    return library.utils


def _util(name: str) -> Callable[..., Any]:
    def call(data: Any, library: Any, *args: Any, **options: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return getattr(utils(library), name)(*args, **options)

    return call


def _util_of(name: str) -> Callable[..., Any]:
    return lambda data, library, *args, **options: getattr(utils(library), name)(data, *args, **options)


def _function(name: str) -> Callable[..., Any]:
    return lambda data, library, *args, **options: getattr(library, name)(*args, **options)


def key_of_a_leaf(drawn: Drawn) -> st.SearchStrategy[Any]:
    keys = [*drawn.leaves, ("missing",)]
    return st.sampled_from(keys).map(lambda path: path[0] if len(path) == 1 else path)


def _without_duplicates(data: Any, library: Any, key: Any, dim: int, **options: Any) -> Any:
    doubled = torch.cat([data, data], dim % data.ndim)
    return utils(library).remove_duplicates(doubled, key, dim, **options)


KINDS = (torch.Tensor, torch.nn.Parameter, "TensorDict", "NonTensorData", "NonTensorStack", "LazyStackedTensorDict")


def _of_a_class(name: str) -> Callable[..., Any]:
    return lambda data, library, kind: getattr(library, name)(getattr(library, kind) if isinstance(kind, str) else kind)


def expandable(drawn: Drawn) -> st.SearchStrategy[torch.Tensor]:
    """A tensor with the first dimensions of the batch, mostly, and the size 1 for some of them."""
    return st.integers(0, drawn.ndim).flatmap(
        lambda depth: st.tuples(*(st.sampled_from((size, size, 1)) for size in drawn.batch_size[:depth]))
    ).map(torch.zeros)  # fmt: skip


DTYPES = st.sampled_from((torch.float32, torch.int64, torch.bool, torch.complex64, torch.uint8, torch.bfloat16))
OF_A_DTYPE = DTYPES.flatmap(lambda dtype: st.sampled_from((dtype, torch.zeros(2, dtype=dtype))))
KEY_LISTS = st.lists(st.sampled_from(("a", ("a", "b"), 1, None, ("a", 1), ())), max_size=3)


def _grouped(data: Any, library: Any, key: Any) -> Any:
    values, groups = library.group_by(data, key)
    return values, list(groups)


TOOLS = {
    "isin()": case(like, key_of_a_leaf, existing_dim, call=_util_of("isin"), dims=1, numbers=True, objects=False),
    "remove_duplicates()": case(
        key_of_a_leaf, existing_dim, return_indices=maybe(FLAGS), call=_without_duplicates, dims=1, objects=False
    ),
    "group_by()": case(key_of_a_leaf, call=_grouped, dims=1, numbers=True),
    "expand_as_right()": case(expandable, call=lambda data, library, x: utils(library).expand_as_right(x, data)),
    "expand_right()": case(
        expandable, lambda d: st.just((*d.batch_size, 2)) | draw.shapes(), call=_util("expand_right")
    ),
    "infer_size_impl()": case(
        lambda d: st.lists(st.integers(-2, 4), max_size=3), lambda d: st.integers(0, 24), call=_util("infer_size_impl")
    ),
    "convert_ellipsis_to_idx()": case(
        lambda d: index(d).filter(lambda i: isinstance(i, tuple) or i is ...),
        lambda d: st.just(d.batch_size),
        call=_util("convert_ellipsis_to_idx"),
    ),
    "is_seq_of_nested_key()": case(KEY_LISTS, call=_util("is_seq_of_nested_key")),
    **{
        f"is_{name}()": case(OF_A_DTYPE, maybe(OF_A_DTYPE), call=_function(f"is_{name}"))
        for name in ("bool", "floating", "inexact", "integer")
    },
    "default_is_leaf()": case(st.sampled_from(KINDS), call=_of_a_class("default_is_leaf")),
    "is_leaf_nontensor()": case(st.sampled_from(KINDS), call=_of_a_class("is_leaf_nontensor")),
    "assert_allclose_td()": case(like, call=lambda data, library, other: library.assert_allclose_td(data, other)),
    "collate()": case(call=lambda data, library: library.collate(list(data)), dims=1),
}


# -- one form into another ---------------------------------------------------------------------------------------------


def _unpadded(data: Any, library: Any, other: Any) -> Any:
    padded = library.pad_sequence([data, other[:1]], return_mask=True)
    return library.unpad_sequence(padded).unbind(0)


def _fields_of(values: Any) -> Any:
    return values._fields, [_fields_of(v) if hasattr(v, "_fields") else v for v in values]


def _from_namedtuple(owner: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda data, library, **options: owner(library).from_namedtuple(data.to_namedtuple(), **options)


def _from_array(owner: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda data, library: owner(library).from_struct_array(data.to_struct_array())


def _dataclass(data: Any) -> Any:
    """An instance of a dataclass with the tensors of a collection as its fields."""
    values = {f"field{i}": value for i, value in enumerate(data.values()) if isinstance(value, torch.Tensor)}
    return dataclasses.make_dataclass("Made", [(name, torch.Tensor) for name in values])(**values)


def _from_dataclass(owner: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda data, library, **options: owner(library).from_dataclass(_dataclass(data), **options)


@cache
def record(library: Any) -> Any:
    @library.tensorclass
    class Pair:
        x: torch.Tensor
        y: torch.Tensor

    return Pair


def _from_tensordict(data: Any, library: Any) -> Any:
    values = {key: torch.zeros(data.batch_size) for key in ("x", "y")}
    made = record(library).from_tensordict(library.TensorDict(values, data.batch_size, names=data.names))
    return tuple(made.batch_size), made.names, made.x, made.y


def _class(library: Any) -> Any:
    return library.TensorDict


def _itself(library: Any) -> Any:
    return library


AUTO = {"auto_batch_size": maybe(FLAGS)}
SIZE = {"batch_size": lambda d: st.just(d.batch_size)}

FORMS = {
    "unpad_sequence()": case(like, call=_unpadded, dims=1, objects=False),
    "to_namedtuple": case(call=lambda data, library: _fields_of(data.to_namedtuple()), objects=False),
    "from_namedtuple": case(call=_from_namedtuple(_class), **AUTO, objects=False),
    "from_namedtuple()": case(call=_from_namedtuple(_itself), **AUTO, objects=False),
    "to_struct_array": case(dims=1, objects=False, numbers=True),
    "from_struct_array": case(call=_from_array(_class), dims=1, objects=False, numbers=True),
    "from_struct_array()": case(call=_from_array(_itself), dims=1, objects=False, numbers=True),
    "from_dataclass": case(call=_from_dataclass(_class), **AUTO),
    "from_dataclass()": case(call=_from_dataclass(_itself), **SIZE),
    "fields": case(call=lambda data, library: [field.name for field in record(library).fields()]),
    "from_tensordict": case(call=_from_tensordict),
}

# -- switches ----------------------------------------------------------------------------------------------------------


def _switched(mode: str, inside: Callable[..., Any]) -> Callable[..., Any]:
    """What is seen inside a block under a mode."""

    def call(data: Any, library: Any, value: Any, *args: Any) -> Any:
        with getattr(library, mode)(value):
            return inside(data, library, *args)

    return call


def _flagged(inside: Callable[..., Any]) -> Callable[..., Any]:
    """What is seen while a flag of the whole program is set."""

    def call(data: Any, library: Any, value: Any, *args: Any) -> Any:
        library.set_get_defaults_to_none(value)
        try:
            return inside(data, library, *args)
        finally:
            library.set_get_defaults_to_none(True)

    return call


def _read(name: str) -> Callable[..., Any]:
    return lambda data, library, *args: getattr(library, name)(*args)


def _from_lists(data: Any, library: Any, *texts: str) -> Any:
    return library.TensorDict({"list": list(texts)}, [len(texts)])


def _stacked_objects(data: Any, library: Any, first: str, second: str) -> Any:
    return torch.stack([library.TensorDict({"object": value}) for value in (first, second)])


def _with_options(data: Any, library: Any, **options: Any) -> Any:
    with library.set_printoptions(**options):
        inside = library.get_printoptions()["verbose"]
    return inside


TEXTS = st.sampled_from(("x", "y"))

SWITCHES = {
    "capture_non_tensor_stack()": case(
        FLAGS, call=_switched("set_capture_non_tensor_stack", _read("capture_non_tensor_stack"))
    ),
    "set_capture_non_tensor_stack()": case(
        False, TEXTS, TEXTS, call=_switched("set_capture_non_tensor_stack", _stacked_objects)
    ),
    "list_to_stack()": case(FLAGS, call=_switched("set_list_to_stack", _read("list_to_stack"))),
    "set_list_to_stack()": case(True, TEXTS, TEXTS, call=_switched("set_list_to_stack", _from_lists)),
    "lazy_legacy()": case(call=_read("lazy_legacy")),
    "set_lazy_legacy()": case(False, call=_switched("set_lazy_legacy", _read("lazy_legacy"))),
    "get_defaults_to_none()": case(
        FLAGS, call=_flagged(_read("get_defaults_to_none"))
    ),
    "set_get_defaults_to_none()": case(
        FLAGS, key_of_a_leaf, call=_flagged(lambda data, library, key: data.get(key))
    ),
    "get_printoptions()": case(FLAGS, call=lambda data, library, flag: _with_options(data, library, verbose=flag)),
    "set_printoptions()": case(FLAGS, call=lambda data, library, flag: _with_options(data, library, verbose=flag)),
    "parse_tensor_dict_string()": case(
        lambda d: st.just(_printed(d)), call=lambda data, library, text: library.parse_tensor_dict_string(text),
        objects=False, numbers=True,
    ),
}  # fmt: skip


def _printed(drawn: Drawn) -> str:
    with PEER.set_printoptions(verbose=True):
        return str(outcome(lambda: repr(drawn.build(PEER))))
