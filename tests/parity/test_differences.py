"""Each difference that docs/differences.md lists is one, and there are no others in the list."""

from __future__ import annotations

import ast
import os
import re
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import optree
import pytest
import torch
from torch.utils import _pytree as pytree

from tests import fresh_python
from tests.legacy_mode import legacy_mode
from tests.parity.cases.tools import utils
from tests.parity.converter_differences import CONVERTERS
from tests.parity.distributed_differences import DISTRIBUTED
from tests.parity.distribution_differences import DISTRIBUTIONS
from tests.parity.file_differences import FILES
from tests.parity.key_differences import KEYS
from tests.parity.lazy_differences import LAZY_STACKS
from tests.parity.mapping_differences import MAPPING
from tests.parity.module_differences import MODULES
from tests.parity.parameter_differences import PARAMETERS
from tests.parity.record_differences import RECORDS
from tests.parity.sides import OURS, PEER, Raised, described, outcome

pytestmark = pytest.mark.parity

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "differences.md"

Call = Callable[[Any], Any]


def error(cls: type[Exception]) -> Any:
    """What is compared when a call raises."""
    return Raised(cls)


def collection(library: Any, values: dict[str, Any], size: list[int] | None = None, **options: Any) -> Any:
    return library.TensorDict(values, batch_size=size or [], **options)


def named(library: Any) -> Any:
    return collection(library, {"a": torch.zeros(4, 3)}, [4, 3], names=["x", "y"])


def unnamed(library: Any) -> Any:
    return collection(library, {"a": torch.zeros(4, 3)}, [4, 3])


def column(library: Any) -> Any:
    return collection(library, {"text": library.NonTensorStack.from_list([["a", "b"], ["c", "d"]])}, [2, 2])


def texts(library: Any, *values: str) -> Any:
    return collection(library, {"text": library.NonTensorStack(*values), "a": torch.zeros(len(values))}, [len(values)])


def cube(library: Any) -> Any:
    """One object in a batch of three dimensions."""
    return collection(library, {"text": library.NonTensorStack.from_list([[["a"]]])}, [1, 1, 1])


def one_object_in_parts(library: Any) -> Any:
    return texts(library, "a", "a").to_lazystack(0)


def uncaptured(library: Any) -> Any:
    with library.set_capture_non_tensor_stack(False):
        return torch.stack([collection(library, {"text": "a"})] * 2)["text"]


def listed(library: Any, mode: bool) -> Any:
    """What a list becomes that does not fit the batch."""
    with library.set_list_to_stack(mode):
        return list(collection(library, {"text": [1, "a"]}, [3])["text"])


def text_after_its_row_is_written(library: Any) -> Any:
    data = texts(library, "a", "b")
    data[0].update_({"text": "new"})
    return data["text"]


#: forks where no other thread holds a lock that the child then waits for
_WRITTEN_BY_A_FORK = """
import os, sys, torch
from importlib import import_module
data = import_module(sys.argv[1]).TensorDict({"text": "a", "x": torch.zeros(2)}, batch_size=[2]).share_memory_()
child = os.fork()
if not child:
    try:
        data.update_({"text": "new", "x": torch.ones(2)})
    finally:
        os._exit(0)
os.waitpid(child, 0)
print((data["text"], data["x"].tolist()))
"""


def text_after_another_process_wrote_it(library: Any) -> Any:
    shown = fresh_python.run(("-c", _WRITTEN_BY_A_FORK, library.__name__), check=True).stdout
    return ast.literal_eval(shown)


def clone_shares_its_object(library: Any, several: bool) -> bool:
    thing = Exception()
    data = library.NonTensorStack(thing, thing) if several else library.NonTensorData(thing, batch_size=[2])
    return data.clone().tolist()[0] is thing


def metadata_after_a_write(library: Any) -> Any:
    data = library.MetaData[int](1)
    data.data = "a"
    return data.data


def assign(data: Any, index: Any, value: Any) -> Any:
    data[index] = value
    return data


def rows(library: Any, index: Any) -> Any:
    """Rows of four zeros, through which the zeros are written."""
    data = collection(library, {"a": torch.zeros(4)}, [4])
    return data.get_sub_tensordict(index) if library is OURS else data._get_sub_tensordict(index)


def below_rows_written(library: Any) -> Any:
    """What is below a key after it was written there, through the collection that the rows give for the key."""
    data = nested(library)
    some = data.get_sub_tensordict(slice(1)) if library is OURS else data._get_sub_tensordict(slice(1))
    some["n"]["a"] = torch.ones(1)
    return data["n", "a"].tolist()


def source_after(data: Any, write: Callable[[Any], Any]) -> Any:
    """What the source of rows holds after a call that gives more of them, into which ones are then written."""
    write(data).fill_("a", 1.0)
    return data.get_parent_tensordict()["a"].tolist()


def unbatched(library: Any) -> Any:
    """Four rows, and three zeros for all of them."""
    return collection(library, {"a": torch.zeros(4), "u": library.UnbatchedTensor(torch.zeros(3))}, [4])


def warned_of(call: Callable[[], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [warning.category.__name__ for warning in caught]


def in_legacy_mode(library: Any, call: Callable[[], Any]) -> Any:
    if library is PEER:
        with PEER.set_lazy_legacy(True):
            return call()
    with legacy_mode():  # of this package, which compat has under another name
        return call()


def written_below_a_view(library: Any) -> list[int]:
    data = collection(library, {"n": {"a": torch.zeros(2, 3)}}, [2, 3])
    data.view(6)["n", "b"] = torch.zeros(6)
    return list(data["n", "b"].shape)


def leaf(library: Any) -> Any:
    """A collection with a leaf of the autograd graph."""
    return collection(library, {"a": torch.ones(2, requires_grad=True)}, [2])


def nested(library: Any, **options: Any) -> Any:
    return collection(library, {"n": {"a": torch.zeros(2)}}, [2], **options)


def chosen(library: Any, other: torch.Tensor) -> torch.Tensor:
    """The first row of ones, and another row of what is given."""
    return torch.where(torch.tensor([True, False]), collection(library, {"a": torch.ones(2, 3)}, [2]), other)["a"]


def chosen_texts(library: Any) -> Any:
    """Rows of objects of a collection that has dimension names, and of one that has none."""
    data = column(library)
    return torch.where(torch.tensor([[True], [False]]), data.clone().refine_names("x", "y"), data)


def smooth_loss(library: Any, **options: float) -> torch.Tensor:
    data = collection(library, {"a": torch.tensor([0.2, 3.0])}, [2])
    return torch.nn.functional.smooth_l1_loss(data, data * 0, **options)["a"]


def first_after_a_write_that_does_not_fit(library: Any) -> float:
    target = collection(library, {"first": torch.zeros(2), "bad": torch.zeros(2, 3)}, [2])
    with pytest.raises(RuntimeError):
        target[0] = collection(library, {"first": 1.0, "bad": torch.zeros(4)})
    return float(target["first"][0])


def written(data: Any, operation: Callable[[Any], Any], write: Callable[[Any], Any]) -> Any:
    with operation(data) as result:
        write(result)
    return data


def same_value_after_a_block(library: Any) -> bool:
    data = named(library)
    value = data["a"]
    return written(data, lambda d: d.view(-1), lambda d: None)["a"] is value


def locked_inside(library: Any) -> Any:
    data = named(library)
    return list(written(data, lambda d: d.view(-1), lambda d: (d.set("b", torch.zeros(12)), data.lock_())).keys())


def renamed(data: Any, names: Any) -> Any:
    data.names = names
    return data.names


def a_shared_part_unlocked(library: Any) -> bool:
    part = collection(library, {"a": 1})
    first, second = collection(library, {"p": part}).lock_(), collection(library, {"q": part}).lock_()
    first.unlock_()
    second.unlock_()
    return bool(part.is_locked)


def record_of(library: Any, value: torch.Tensor) -> Any:
    @library.tensorclass
    class Record:
        value: torch.Tensor

    return Record(value, batch_size=[2])


# the sentence in bold -> (a call, what it gives here, what it gives there)
def post_inits_of_an_index(library: Any) -> Any:
    ran: list[Any] = []

    @library.tensorclass  # type: ignore[untyped-decorator]
    class Counted:
        a: torch.Tensor

        def __post_init__(self) -> None:
            ran.append(self)

    record = Counted(torch.zeros(2), batch_size=[2])  # type: ignore[call-arg]
    ran.clear()
    record[0]  # type: ignore[index]
    return len(ran)


def typed(library: Any) -> Any:
    base: Any = library.TypedTensorDict

    class Typed(base):  # type: ignore[misc]
        a: torch.Tensor

    return Typed


def nested_under_a_filter(library: Any) -> Any:
    @library.tensorclass(cast_filter=lambda key, tensor: False)  # type: ignore[untyped-decorator]
    class Kept:
        a: torch.Tensor

    record = Kept(torch.zeros(2), batch_size=[2])  # type: ignore[call-arg]
    return collection(library, {"record": record}, [2]).double()["record"].a.dtype


def saved_from_within(library: Any, path: str) -> list[str]:
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            collection(library, {"a": torch.zeros(2)}, [2]).memmap(path)
            return sorted(os.listdir(folder))
        finally:
            os.chdir(before)


def a_zarr_folder_with_other_files(library: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "notes.txt").write_text("mine")
        collection(library, {"a": torch.zeros(2)}, [2]).to_zarr(folder)


def more_state(library: Any, more: dict[str, Any]) -> list[str]:
    data = collection(library, {"a": torch.zeros(2)}, [2])
    return sorted(data.load_state_dict({**data.state_dict(), **more}, strict=False).keys())


def a_text_written_in_a_folder(m: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        texts(m, "a", "b").memmap(folder)[0] = m.TensorDict({"text": "new"})
        return list(m.TensorDict.load_memmap(folder)["text"])


def shows_gradients_after_a_call(m: Any) -> bool:
    before = m.get_printoptions()
    m.set_printoptions(show_grad=True)
    shown: bool = m.get_printoptions()["show_grad"]
    m.set_printoptions(**before).set()
    return shown


DIFFERENCES: dict[str, list[tuple[Call, Any, Any]]] = {
    **CONVERTERS,
    **DISTRIBUTED,
    **DISTRIBUTIONS,
    **FILES,
    **MAPPING,
    **MODULES,
    **PARAMETERS,
    **KEYS,
    **LAZY_STACKS,
    **RECORDS,
    "A collection made from another one has its batch size.": [
        (lambda m: list(m.TensorDict(named(m)).batch_size), [4, 3], []),
    ],
    "Complex numbers are numbers.": [
        (lambda m: collection(m, {"a": 1j})["a"], torch.tensor(1j), 1j),
    ],
    "A collection is not a `Mapping`.": [
        (lambda m: isinstance(named(m), Mapping), False, True),
        (lambda m: [len(named(m)), [list(row.batch_size) for row in named(m)]], [4, [[3]] * 4], [4, [[3]] * 4]),
    ],
    "A collection without batch dimensions has no length.": [
        (lambda m: len(collection(m, {"a": 1})), error(TypeError), 0),
        (lambda m: list(torch.tensor([collection(m, {"a": 1})] * 2).shape), error(TypeError), [2, 0]),
    ],
    "Objects by themselves have no arithmetic.": [
        (lambda m: (m.NonTensorData(3) + 1).data, error(TypeError), 3),
        (lambda m: sum(m.NonTensorStack("a", "b")).tolist(), error(TypeError), "a"),
        (lambda m: (collection(m, {"x": 1, "text": "a"}) + 1)["text"], "a", "a"),
    ],
    "`gather` takes an index of all batch dimensions.": [
        (lambda m: list(unnamed(m).gather(0, torch.tensor([0]))["a"].shape), error(RuntimeError), [1, 3]),
    ],
    "A missing key has no class.": [
        (lambda m: named(m).entry_class("z"), error(KeyError), type(None)),
    ],
    "`apply` returns a collection of tensors.": [
        (lambda m: list(named(m).apply(lambda x: None).keys()), [], error(AttributeError)),
        (lambda m: type(named(m).apply(lambda x: None, inplace=True)).__name__, "TensorDict", "NoneType"),
        (lambda m: named(m).apply(lambda x: "text")["a"], error(TypeError), "text"),
    ],
    "Equal objects stay one.": [
        (lambda m: m.lazy_stack([collection(m, {"a": "b"})] * 2).to_dict(), {"a": "b"}, {"a": ["b", "b"]}),
        (lambda m: one_object_in_parts(m).entry_class("text").__name__, "NonTensorData", "NonTensorStack"),
        (lambda m: torch.stack([collection(m, {"text": "a"})] * 2)["text"], "a", ["a", "a"]),
        (uncaptured, ["a", "a"], ["a", "a"]),
    ],
    "Objects follow every operation.": [
        (lambda m: column(m).view(1, 4)["text"], [["a", "b", "c", "d"]], error(RuntimeError)),
        (lambda m: texts(m, "a", "b").expand(0, 2)["text"], [], error(RuntimeError)),
        (
            lambda m: tuple(texts(m, "a", "b").unsqueeze(1).repeat(0, 2).get("text").batch_size),
            (0, 2),
            (0,),
        ),
        (
            lambda m: tuple(written(cube(m), lambda d: d.unflatten(0, (1, 1, 1)), lambda d: None).batch_size),
            (1, 1, 1),
            error(RuntimeError),
        ),
        (
            lambda m: collection(m, {"text": "a"}, [2]).unsqueeze(0).roll(0, 0, inplace=True)["text"],
            "a",
            error(ValueError),
        ),
        (lambda m: chosen_texts(m).to_tensordict().names, ["x", "y"], error(ValueError)),
    ],
    "Objects are not tensors.": [
        (lambda m: texts(m, "a", "b").is_contiguous(), True, False),
        (
            lambda m: texts(m, "a", "b").grad,
            None,
            collection(PEER, {"text": PEER.NonTensorStack("a", "b")}, [2]),
        ),
        (lambda m: type(texts(m, "a", "b").new_zeros(3).get("text")).__name__, "NonTensorData", "TensorDict"),
        (lambda m: list(collection(m, {"text": "a"}).empty(recurse=True).keys()), [], ["text"]),
    ],
    "Rows of objects are written by `update_at_`.": [
        (lambda m: texts(m, "a", "b").copy_at_(texts(m, "c"), slice(1))["text"], error(RuntimeError), ["a", "b"]),
    ],
    "`batch_dims=` asks for a batch size.": [
        (lambda m: tuple(m.TensorDict.from_any({"a": torch.zeros(3)}, batch_dims=1).shape), (3,), ()),
    ],
    "Masks have the dimensions of what they mask.": [
        (
            lambda m: tuple(
                m.pad_sequence(
                    [collection(m, {"n": collection(m, {"a": torch.zeros(2, 3)}, [2, 3])}, [2])] * 2, return_mask=True
                )["masks", "n", "a"].shape
            ),
            (2, 2, 3),
            (2, 2),
        ),
    ],
    "`separates` returns only the requested keys.": [
        (
            lambda m: len(
                collection(m, {"n": collection(m, {"a": torch.zeros(2, 3)}, [2, 3])}, [2])
                .separates(("n", "a"))["n"]
                .batch_size
            ),
            1,
            2,
        ),
        (lambda m: list(texts(m, "a", "b").separates("a").keys()), ["a"], ["text", "a"]),
    ],
    "Both operands have the same keys.": [
        (lambda m: collection(m, {}).add_(collection(m, {"a": 1})).is_empty(), error(KeyError), True),
        (
            lambda m: collection(m, {"a": 1, "b": 2}).copy_(collection(m, {"a": 3}))["a"],
            error(KeyError),
            torch.tensor(3),
        ),
        (
            lambda m: list(collection(m, {"a": 1}).update_(collection(m, {"a": 3, "b": "text"})).keys()),
            error(KeyError),
            ["a"],
        ),
    ],
    "Values written in place have the batch size.": [
        (lambda m: unnamed(m).update_({"a": torch.ones(3)})["a"].sum().item(), error(RuntimeError), 12.0),
        (
            lambda m: unnamed(m).copy_(collection(m, {"a": torch.ones(1, 3)}, [1]))["a"].sum(),
            error(RuntimeError),
            torch.tensor(12.0),
        ),
        (lambda m: unnamed(m).set_("a", torch.ones(3)), error(RuntimeError), error(RuntimeError)),
        (lambda m: collection(m, {"a": 1}).update_({"a": {}})["a"], error(TypeError), torch.tensor(1)),
    ],
    "`pack` keeps the order of the keys.": [
        (
            lambda m: collection(m, {"b": torch.ones(1), "a": torch.zeros(1)}).pack()[0],
            torch.tensor([1.0, 0.0]),
            torch.tensor([0.0, 1.0]),
        ),
    ],
    "There are as many names as dimensions.": [
        (lambda m: named(m).rename("a", None, None).names, error(ValueError), [None, None]),
        (lambda m: collection(m, {}).rename().names, [], error(ValueError)),
    ],
    "A batch without items has no items.": [
        (lambda m: collection(m, {}, [0]).numel(), 0, 1),
    ],
    "An invalid key is a `TypeError`.": [
        (lambda m: m.unravel_key(("a", 1)), error(TypeError), ()),
        (lambda m: m.unravel_key(1), error(TypeError), error(RuntimeError)),
        (lambda m: collection(m, {}).entry_class("missing").__name__, error(KeyError), "NoneType"),
    ],
    "A locked collection refuses calls that change keys.": [
        (lambda m: len(collection(m, {}).lock_().split_keys([], inplace=True)), error(RuntimeError), 2),
        (lambda m: collection(m, {}).lock_().del_("missing"), error(KeyError), error(RuntimeError)),
    ],
    "A reduction keeps objects.": [
        (lambda m: texts(m, "a", "b").sum(0)["text"], "a", error(RuntimeError)),
    ],
    "Numbers are not written into objects.": [
        (
            lambda m: assign(collection(m, {"text": "a", "a": torch.zeros(2)}, [2]), 0, 1)["text"],
            "a",
            [torch.tensor(1), "a"],
        ),
    ],
    "`merge_tensordicts` keeps the first value, text too.": [
        (
            lambda m: m.merge_tensordicts(collection(m, {"a": "text"}), collection(m, {"a": torch.zeros(2)}))["a"],
            "text",
            torch.zeros(2),
        ),
    ],
    "Only one of several mistakes is reported.": [
        (
            lambda m: (
                collection(m, {"a": collection(m, {"x": 1}), "b": collection(m, {}, [1])})
                .stack_tensors("a", "b", ("a", "x"), out_key="out")
                .is_empty()
            ),
            error(TypeError),
            error(RuntimeError),
        ),
    ],
    "Objects are compared position by position.": [
        (lambda m: m.NonTensorData("a", batch_size=[2]) == "a", torch.tensor([True, True]), False),
    ],
    "Objects are not leaves for `in`.": [
        (lambda m: "text" in texts(m, "a").keys(leaves_only=True), False, True),
    ],
    "Lists go as deep as the batch.": [
        (lambda m: collection(m, {"t": ["a", "b"]}, [2, 2])["t"], [["a", "a"], ["b", "b"]], error(RuntimeError)),
        (lambda m: collection(m, {"t": ["a", "b", "c"]}, [2])["t"], ["a", "b", "c"], error(RuntimeError)),
    ],
    "A list that is one object stays that list.": [
        (lambda m: listed(m, False), [1, "a"], ["1", "a"]),
        (lambda m: listed(m, True), error(RuntimeError), error(RuntimeError)),
        (lambda m: isinstance(collection(m, {"t": (1, "a")}, [2])["t"], tuple), True, False),
    ],
    "A row of a column is a column.": [
        (
            lambda m: torch.stack([collection(m, {"text": text}, [2]) for text in "ab"])[0]["text"],
            ["a", "a"],
            "a",
        ),
    ],
    "Rows of objects are not views.": [
        (text_after_its_row_is_written, ["a", "b"], ["new", "b"]),
    ],
    "Each process has its own objects.": [
        (text_after_another_process_wrote_it, ("a", [1, 1]), ("new", [1, 1])),
    ],
    "One object can become several in place.": [
        (
            lambda m: collection(m, {"text": "a"}, [2]).set_("text", ["x", "y"])["text"],
            ["x", "y"],
            error(ValueError),
        ),
        (lambda m: assign(m.NonTensorData("a", batch_size=[2]), 0, "x").tolist(), ["x", "a"], error(ValueError)),
        (
            lambda m: collection(m, {"text": "a"}, [2]).update_(texts(m, "x", "y").select("text"))["text"],
            ["x", "y"],
            error(RuntimeError),
        ),
    ],
    "`is_shared()` asks the tensors.": [
        (lambda m: collection(m, {"a": torch.zeros(3).share_memory_()}, [3]).is_shared(), True, False),
        (lambda m: collection(m, {"a": torch.zeros(3)}, [3]).share_memory_().unlock_().is_shared(), True, False),
        (lambda m: collection(m, {}, [3]).share_memory_().is_shared(), False, True),
        (lambda m: collection(m, {"a": torch.zeros(3)}, [3]).memmap().is_shared(), True, False),
        (
            lambda m: collection(m, {"a": torch.zeros(3)}, [3]).memmap().share_memory_().is_memmap(),
            True,
            error(RuntimeError),
        ),
    ],
    "A clone has copies of all objects.": [
        (lambda m: clone_shares_its_object(m, False), False, False),
        (lambda m: clone_shares_its_object(m, True), False, True),
    ],
    "Metadata keeps its promises.": [
        (
            lambda m: torch.cat([m.MetaData(text, batch_size=[1]) for text in ("a", "b")]).tolist(),
            ["a", "b"],
            ["a", "a"],
        ),
        (metadata_after_a_write, error(TypeError), "a"),
    ],
    "An empty stack of objects has no `data`.": [
        (lambda m: m.NonTensorStack().data, error(AttributeError), error(IndexError)),
    ],
    "Dimensions are checked, also in a collection without tensors.": [
        (lambda m: tuple(collection(m, {"a": torch.zeros(4, 3)}, [4]).flatten(0, 1).shape), error(IndexError), (4,)),
        (lambda m: tuple(collection(m, {}, [4]).narrow(0, 0, 9).shape), error(RuntimeError), (9,)),
        (lambda m: tuple(collection(m, {}, [4]).flip((0, 0)).shape), error(RuntimeError), (4,)),
        (
            lambda m: setattr(collection(m, {"e": collection(m, {}, [2, 5])}, [2]), "batch_size", [2, 3]),
            error(RuntimeError),
            None,
        ),
        (
            lambda m: collection(m, {"n": {"e": {}}}, [0]).stack_tensors("n", out_key="out")["out"].is_empty(),
            error(RuntimeError),
            True,
        ),
    ],
    "Names stay with their dimension.": [
        (lambda m: named(m).tile((2,)).names, ["x", "y"], [None, None]),
        (lambda m: named(m).broadcast_to((2, 4, 3)).names, [None, "x", "y"], [None, None, None]),
        (lambda m: (named(m) == 0).names, ["x", "y"], [None, None]),
        (lambda m: m.TensorDict.from_tuple((nested(m, names=["x"]),), auto_batch_size=True).names, ["x"], [None]),
        (lambda m: named(m).flatten(0, 0).names, ["x", "y"], [None, "y"]),
        (lambda m: named(m).unflatten(0, (2, 2)).names, [None, None, "y"], [None, "x", "y"]),
        (lambda m: named(m)[[[0, 1]]].names, [None, None, "y"], [None, "x", "y"]),
        (lambda m: named(m).new_zeros(2).names, [None], ["y"]),
        (lambda m: named(m)[0].masked_select(torch.tensor([True, False, True])).names, ["y"], [None]),
        (lambda m: named(m).expand_as(named(m)).names, ["x", "y"], [None, None]),
    ],
    "`update_at_` and `copy_at_` align an ellipsis with the batch.": [
        (
            lambda m: (
                collection(m, {"a": torch.zeros(2, 1)}, [2])
                .update_at_(collection(m, {"a": torch.ones(1)}), (..., 0))["a"]
                .tolist()
            ),
            [[1.0], [0.0]],
            [[1.0], [1.0]],
        ),
    ],
    "Names are strings.": [
        (lambda m: renamed(named(m), "pq"), error(TypeError), ["p", "q"]),
        (lambda m: renamed(named(m), [1, 2]), error(TypeError), [1, 2]),
        (lambda m: collection(m, {}, [2, 3]).refine_names(..., ...).names, error(RuntimeError), [None] * 2),
    ],
    "`apply(names=...)` renames.": [
        (
            lambda m: nested(m, names=["x"]).apply(lambda x: x, names=["y"])["n"].names,
            ["y"],
            error(RuntimeError),
        ),
        (lambda m: nested(m, names=["x"]).apply(lambda x: x, names=None).names, [None], ["x"]),
    ],
    "`apply(inplace=True)` takes no options of a new collection.": [
        (lambda m: tuple(named(m).apply(lambda x: x, inplace=True, batch_size=[]).shape), error(TypeError), (4, 3)),
        (lambda m: nested(m).apply(lambda x: x, inplace=True, names=["x"]).names, error(TypeError), [None]),
        (lambda m: nested(m).apply(lambda x: x, inplace=True, device="meta").device, error(TypeError), None),
    ],
    "`atleast_3d` puts dimensions where torch puts them.": [
        (lambda m: tuple(named(m).atleast_3d().shape), (4, 3, 1), (1, 4, 3)),
    ],
    "`permute` takes all batch dimensions.": [
        (lambda m: tuple(named(m).permute(0).shape), error(ValueError), (4, 3)),
    ],
    "`cat` needs the same number of batch dimensions.": [
        (
            lambda m: tuple(torch.cat([collection(m, {"a": torch.zeros(3, 2)}, size) for size in ([3, 2], [3])]).shape),
            error(RuntimeError),
            (6, 2),
        ),
    ],
    "`gather` needs an index with the dimensions of the batch.": [
        (lambda m: tuple(named(m).gather(0, torch.zeros(2, dtype=torch.long)).shape), error(RuntimeError), (2,)),
        (lambda m: tuple(named(m).gather(0, torch.zeros(0, 3, dtype=torch.long)).shape), (0, 3), error(RuntimeError)),
    ],
    "Rows with names can be written into an empty collection.": [
        (
            lambda m: assign(collection(m, {}, [2, 1]), 0, collection(m, {"text": "a"}, [1], names=["x"]))["text"],
            [["a"], [None]],
            error(RuntimeError),
        ),
        (
            lambda m: (
                collection(m, {}, [2], names=["x"], device="cpu")
                .update(collection(m, {"n": collection(m, {}, [2, 1])}, [2]))["n"]
                .names
            ),
            ["x", None],
            error(ValueError),
        ),
    ],
    "Dimensions of lazy stacks keep names too.": [
        (lambda m: named(m).to_lazystack(1).names, ["x", "y"], ["x", None]),
    ],
    "Some calls work that the peer refuses.": [
        (lambda m: collection(m, {}, [2]).to_struct_array().shape, (2,), error(ValueError)),
        (
            lambda m: tuple(utils(m).remove_duplicates(collection(m, {"a": torch.zeros(0)}, [0]), "a").batch_size),
            (0,),
            error(IndexError),
        ),
        (lambda m: tuple(collection(m, {}, [1, 2, 1]).squeeze((0, 2)).shape), (2,), error(TypeError)),
        (lambda m: tuple(collection(m, {"a": torch.zeros(1)}, [1]).squeeze().shape), (), error(TypeError)),
        (lambda m: tuple(named(m).flip(0, 1).shape), (4, 3), error(TypeError)),
        (lambda m: len(named(m).unbind()), 4, error(TypeError)),
        (lambda m: len(list(reversed(named(m)))), 4, error(TypeError)),
        (lambda m: (2 ** collection(m, {"a": torch.ones(2)}))["a"].tolist(), [2.0, 2.0], error(NotImplementedError)),
        (lambda m: len(list(named(m).add(torch.ones(4, 3), default=0.0).keys())), 1, error(TypeError)),
        (lambda m: len(list(named(m).addcmul(named(m), torch.tensor(2.0)).keys())), 1, error(TypeError)),
        (lambda m: len(named(m).split_keys(["a", ("a",)], inplace=True)), 2, error(KeyError)),
        (
            lambda m: list(collection(m, {"a": 1}).rename_keys({"z": ("b", "c"), "a": "b"}, strict=False).keys()),
            ["b"],
            error(ValueError),
        ),
        (
            lambda m: list(record_of(m, torch.zeros(2)).rename_keys({"z": "y"}, strict=False).batch_size),
            [2],
            error(AttributeError),
        ),
        (lambda m: tuple(named(m)[np.bool_(True)].shape), (1, 4, 3), error(IndexError)),
        (
            lambda m: collection(m, {"a": torch.zeros(2, dtype=torch.long)}, [2]).softmax(0)["a"].tolist(),
            [0.5, 0.5],
            error(NotImplementedError),
        ),
        (
            lambda m: torch.autograd.grad((x := leaf(m))["a"].sum(), x)["a"].tolist(),
            [1.0, 1.0],
            error(ValueError),
        ),
        (
            lambda m: torch.autograd.backward((x := leaf(m)) * 2, x.data) or float(x.grad["a"].sum()),
            4.0,
            error(TypeError),
        ),
    ],
    "A tensor in `where` is aligned with the batch.": [
        (lambda m: chosen(m, torch.zeros(2)), torch.tensor([[1.0] * 3, [0.0] * 3]), error(RuntimeError)),
        (lambda m: chosen(m, torch.zeros(3)), error(RuntimeError), torch.tensor([[1.0] * 3, [0.0] * 3])),
    ],
    "An empty `out=` is filled.": [
        (lambda m: list(torch.stack([named(m)] * 2, out=collection(m, {}, [2, 4, 3])).keys()), ["a"], []),
    ],
    "Losses use their options.": [
        (lambda m: smooth_loss(m, beta=0.1), torch.tensor(1.55), torch.tensor(1.26)),
        (
            lambda m: torch.nn.functional.mse_loss(named(m), torch.ones(4, 3))["a"],
            torch.tensor(1.0),
            error(AttributeError),
        ),
    ],
    "`rot90` copies.": [
        (lambda m: (data := named(m)).rot90(4)["a"].data_ptr() == data["a"].data_ptr(), False, True),
        (lambda m: list(named(m).rot90(1, (0, 1)).detach_().keys()), error(RuntimeError), ["a"]),
    ],
    "`quantile` reduces over all dimensions that it is given.": [
        (lambda m: tuple(named(m).quantile(0.5, dim=(0, 1)).shape), (), (3,)),
        (lambda m: tuple(named(m).max(dim=(0, 1))[0].shape), error(TypeError), (3,)),
    ],
    "`amin`, `amax` and `prod` reduce as `sum` does.": [
        (lambda m: tuple(named(m).amax(dim=(0, 1)).shape), (), (3,)),
        (lambda m: tuple(named(m).prod(dim=(0, 1)).shape), (), (3,)),
        (
            lambda m: tuple(
                collection(m, {"n": collection(m, {"a": torch.zeros(4, 3)}, [4, 3])}, [4]).max(0)[0]["n"].shape
            ),
            (3,),
            (),
        ),
        (lambda m: tuple(named(m).amin(dim="feature").shape), (4, 3), error(RuntimeError)),
        (
            lambda m: tuple(
                collection(m, {"n": collection(m, {}, [4, 3]), "a": torch.zeros(4)}, [4]).amax(0)["n"].shape
            ),
            (3,),
            (),
        ),
    ],
    "Values are printed.": [
        (
            lambda m: repr(named(m)).splitlines()[0],
            "TensorDict(batch_size=[4, 3], names=['x', 'y'], on cpu, 48 bytes)",
            "TensorDict(batch_size=[4,3], fields={a: f32[]})",
        ),
    ],
    "Options of printing take effect at once.": [
        (lambda m: shows_gradients_after_a_call(m), True, False),
    ],
    "Unknown options are errors.": [
        (lambda m: list(named(m).attrs(fields=["colour"]).keys()), error(ValueError), ["a"]),
        (
            lambda m: list(m.TensorDict.from_schema({"a": ([], torch.float32)}, colour=1).keys()),
            error(TypeError),
            ["a"],
        ),
        (lambda m: list(named(m).set("a", torch.zeros(4, 3), colour=1).keys()), error(TypeError), ["a"]),
    ],
    "Lists of objects print as lists.": [
        (lambda m: repr(texts(m, "a", "b")["text"]), "['a', 'b']", "LinkedList(['a', 'b'])"),
    ],
    "`apply` uses its further arguments.": [
        (lambda m: nested(m).apply(lambda x, more=0: x + more, more=1)["n", "a"].tolist(), [1.0, 1.0], [0.0, 0.0]),
        (lambda m: nested(m).apply(lambda x: x, num_threads=0).is_empty(), error(ValueError), False),
    ],
    "Nothing that works is deprecated.": [
        (lambda m: warned_of(lambda: m.set_list_to_stack(False)), [], ["DeprecationWarning"]),
        (lambda m: warned_of(lambda: m.set_capture_non_tensor_stack(True)), [], ["DeprecationWarning"]),
        (lambda m: warned_of(m.get_defaults_to_none), [], ["DeprecationWarning"]),
        (lambda m: warned_of(m.NonTensorData.fields), [], ["DeprecationWarning"]),
        (lambda m: warned_of(lambda: utils(m).NUMPY_TO_TORCH_DTYPE_DICT), [], ["DeprecationWarning"]),
    ],
    "Legacy views are of the class of their source.": [
        (lambda m: in_legacy_mode(m, lambda: isinstance(named(m).view(-1), m.TensorDict)), True, False),
        (lambda m: in_legacy_mode(m, lambda: torch.stack([named(m)] * 2).__class__.__name__[:4]), "Tens", "Lazy"),
        (
            lambda m: in_legacy_mode(m, lambda: written_below_a_view(m)),
            [2, 3],
            error(RuntimeError),
        ),
    ],
    "`attrs()` of a record is a TensorDict.": [
        (lambda m: type(record_of(m, torch.zeros(2)).attrs()).__name__, "TensorDict", "Record"),
    ],
    "Sequences are padded under the same keys.": [
        (
            lambda m: list(m.pad_sequence([nested(m), collection(m, {"n": {}, "b": torch.zeros(2)}, [2])]).keys()),
            error(RuntimeError),
            ["n"],
        ),
    ],
    "Errors have the classes that torch raises for a tensor.": [
        (lambda m: named(m).unsqueeze(5), error(IndexError), error(RuntimeError)),
        (lambda m: named(m).any(5), error(IndexError), error(RuntimeError)),
        (lambda m: named(m).logsumexp(5), error(IndexError), error(ValueError)),
        (lambda m: collection(m, {"a": torch.zeros(0)}, [0]).max(), error(IndexError), error(RuntimeError)),
        (lambda m: named(m).clamp(), error(RuntimeError), error(TypeError)),
        (lambda m: m.assert_close(named(m).to("meta"), named(m)), error(AssertionError), error(RuntimeError)),
        (lambda m: named(m).flatten(2, 0), error(IndexError), error(ValueError)),
        (lambda m: named(m).split(0), error(RuntimeError), error(ValueError)),
        (lambda m: named(m).chunk(0), error(RuntimeError), error(ValueError)),
        (lambda m: named(m).tensor_split(0), error(RuntimeError), error(ValueError)),
        (lambda m: named(m)[..., 0, 0, 0], error(IndexError), error(RuntimeError)),
        (lambda m: named(m)[..., ...], error(IndexError), error(RuntimeError)),
        (
            lambda m: torch.cat([collection(m, {key: torch.zeros(2)}, [2]) for key in "ab"]),
            error(RuntimeError),
            error(KeyError),
        ),
    ],
    "A write that does not fit writes nothing.": [
        (lambda m: first_after_a_write_that_does_not_fit(m), 0.0, 1.0),
    ],
    "Rows must fit even if none is written.": [
        (
            lambda m: assign(collection(m, {}, [3]), False, collection(m, {}, [0, 3, 2])).is_empty(),
            error(RuntimeError),
            True,
        ),
    ],
    "A row is not aligned from the right.": [
        (
            lambda m: assign(
                collection(m, {"a": torch.zeros(2, 2)}, [2]),
                slice(0, 2),
                collection(m, {"a": torch.tensor([1.0, 2.0])}, [2]),
            )["a"],
            error(RuntimeError),
            torch.tensor([[1.0, 2.0], [1.0, 2.0]]),
        ),
    ],
    "Results of operations are not locked.": [
        (lambda m: nested(m).lock_().reshape(1, 2).is_locked, False, True),
        (lambda m: nested(m).lock_().split(1)[0].is_locked, False, True),
        (lambda m: nested(m).lock_()[0].is_locked, False, False),
        (lambda m: (nested(m).lock_() + 1).is_locked, False, True),
        (lambda m: nested(m).lock_().to(torch.float64).is_locked, False, True),
    ],
    "Two locked collections can share a nested collection.": [
        (lambda m: a_shared_part_unlocked(m), False, error(RuntimeError)),
    ],
    "`update(ignore_lock=True)` writes to a locked collection.": [
        (
            lambda m: list(nested(m).lock_().update({"b": torch.zeros(2)}, ignore_lock=True).keys()),
            ["n", "b"],
            error(RuntimeError),
        ),
    ],
    "A `with` block writes back all changes.": [
        (lambda m: list(written(named(m), lambda d: d.view(-1), lambda d: d.del_("a")).keys()), [], ["a"]),
        (lambda m: same_value_after_a_block(m), True, False),
        (
            lambda m: str(written(named(m), lambda d: d.view(torch.int32), lambda d: None)["a"].dtype),
            "torch.float32",
            "torch.int32",
        ),
    ],
    "More operations can be undone.": [
        (
            lambda m: list(written(named(m), lambda d: d.reshape(-1), lambda d: d.set("b", torch.zeros(12))).keys()),
            ["a", "b"],
            ["a"],
        ),
        (
            lambda m: list(written(named(m), lambda d: d.squeeze(), lambda d: d.set("b", torch.zeros(4, 3))).keys()),
            ["a", "b"],
            error(RuntimeError),
        ),
    ],
    "A block on a locked collection loses nothing.": [
        (lambda m: locked_inside(m), error(RuntimeError), ["a"]),
        (
            lambda m: float(
                written(named(m).lock_(), lambda d: d.to(torch.float64), lambda d: d["a"].fill_(1))["a"].sum()
            ),
            12.0,
            error(RuntimeError),
        ),
    ],
    "In nested collections, too, an ellipsis stands for batch dimensions.": [
        (lambda m: collection(m, {}, [2, 3]).refine_names(..., ...).names, error(RuntimeError), [None, None]),
        (
            lambda m: collection(m, {"n": collection(m, {"a": torch.zeros(2, 1)}, [2, 1])}, [2]).update_at_(
                collection(m, {"n": collection(m, {"a": torch.ones(1)}, [1])}), (..., 1)
            )["n", "a"],
            torch.tensor([[0.0], [1.0]]),
            error(IndexError),
        ),
    ],
    "An unbatched tensor is a holder.": [
        (lambda m: list(unbatched(m).get("u").shape), [4], [3]),
        (lambda m: isinstance(unbatched(m).get("u"), torch.Tensor), False, True),
        (lambda m: type(unbatched(m)["u"]) is torch.Tensor, True, False),
        (lambda m: len(record_of(m, m.UnbatchedTensor(torch.zeros(3)))), error(TypeError), 2),
        (lambda m: len(unbatched(m).get("u")), 4, 3),
    ],
    "Different tensors are all kept.": [
        (lambda m: list(torch.stack([unbatched(m), unbatched(m) + 1])["u"].shape), [2, 4, 3], [3]),
        (lambda m: list(torch.cat([unbatched(m), unbatched(m) + 1])["u"].shape), [8, 3], [3]),
    ],
    "One row does not change the tensor of all.": [
        (lambda m: assign(unbatched(m), 0, 1)["u"].tolist(), [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]),
    ],
    "`new_zeros` makes new unbatched tensors.": [
        (lambda m: (unbatched(m) + 1).new_zeros(2)["u"].tolist(), [0.0] * 3, [1.0] * 3),
    ],
    "Rows support every way of writing.": [
        (lambda m: rows(m, slice(2)).set("a", torch.ones(2))["a"].tolist(), [1.0, 1.0], error(RuntimeError)),
        (lambda m: list(rows(m, [0, 2]).batch_size), [2], error(IndexError)),
        (lambda m: list(rows(m, slice(2)).view(2, 1).batch_size), [2, 1], error(RuntimeError)),
        (lambda m: list(rows(m, slice(2)).exclude("a", inplace=True).keys()), [], error(RuntimeError)),
    ],
    "Nested collections of rows write through too.": [
        (below_rows_written, [1.0, 0.0], [0.0, 0.0]),
    ],
    "Results and copies of rows are plain.": [
        (lambda m: source_after(rows(m, torch.tensor([0, 1])), lambda r: r[[0]]), [0.0] * 4, [1.0, 0.0, 0.0, 0.0]),
        (lambda m: source_after(rows(m, torch.tensor([0])), lambda r: r.clone(False)), [0.0] * 4, [1.0, 0.0, 0.0, 0.0]),
        (lambda m: source_after(rows(m, torch.tensor([0])), lambda r: r.copy()), [0.0] * 4, [1.0, 0.0, 0.0, 0.0]),
    ],
    "Names do not make structures differ.": [
        (
            lambda m: pytree.tree_structure(named(m)) == pytree.tree_structure(named(m)[:].rename(None, None)),
            True,
            False,
        ),
    ],
    "`optree` goes into collections.": [
        (lambda m: len(optree.tree_leaves(collection(m, {"a": torch.zeros(2), "b": torch.zeros(2)}, [2]))), 2, 1),
    ],
    "Objects for each row are leaves of integer codes.": [
        (lambda m: isinstance(pytree.tree_leaves(texts(m, "a", "b"))[0], torch.Tensor), True, False),
    ],
    "`__post_init__` runs when a record is made from values.": [
        (post_inits_of_an_index, 0, 1),
    ],
    "A typed TensorDict has its keys from the start.": [
        (lambda m: list(typed(m)({"z": torch.zeros(2)}).keys()), error(TypeError), ["z"]),
        (lambda m: list(typed(m).from_dict({"z": torch.zeros(2)}).keys()), error(TypeError), ["z"]),
        (lambda m: setattr(typed(m)(a=torch.zeros(2)), "z", 1), error(AttributeError), None),
        (lambda m: m.TypedTensorDict["nocast"].__name__, error(TypeError), "TypedTensorDict_nocast"),
        (lambda m: typed(m)({"a": torch.zeros(2)}, a=torch.zeros(2)).is_empty(), error(ValueError), False),
        (lambda m: type(typed(m)(a=torch.zeros(2)) == 0).__name__, "Typed", "TensorDict"),
    ],
    "The cast filter of a nested class applies.": [
        (nested_under_a_filter, torch.float32, torch.float64),
    ],
    "Folders are replaced as a whole.": [
        (lambda m: saved_from_within(m, "."), error(OSError), ["a.memmap", "meta.json"]),
        (lambda m: saved_from_within(m, "~"), error(FileNotFoundError), ["~"]),
        (a_zarr_folder_with_other_files, error(FileExistsError), None),
    ],
    "Extra keys of a state dict are left out.": [
        (lambda m: more_state(m, {"z": torch.zeros(2)}), ["a"], ["a", "z"]),
        (lambda m: list(m.TensorDict({"t": "text"}).state_dict(flatten=False)), [], ["t"]),
    ],
    "Objects beside tensors in files are not written in place.": [
        (a_text_written_in_a_folder, error(RuntimeError), ["new", "b"]),
    ],
    "Nested keys come after their owner.": [
        (lambda m: list(nested(m).keys(True)), ["n", ("n", "a")], [("n", "a"), "n"]),
    ],
}


CASES = [(f"{sentence} {i}", *case) for sentence, cases in DIFFERENCES.items() for i, case in enumerate(cases, 1)]


@pytest.mark.parametrize("call, ours, peers", [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_the_two_differ(call: Call, ours: Any, peers: Any) -> None:
    assert described(outcome(lambda: call(OURS))) == described(ours)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some of these are about to change there
        assert described(outcome(lambda: call(PEER))) == described(peers)


def test_the_list_of_differences_is_complete() -> None:
    assert sorted(re.findall(r"^\*\*(.+?)\*\*", DOCUMENT.read_text(), re.MULTILINE)) == sorted(DIFFERENCES)
