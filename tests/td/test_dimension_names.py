"""Dimension names: what sets them, and what becomes of them in every operation."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import tensorclass as tc
from tensorclass import TensorClass, TensorDict, lazy_stack, stack
from tests import strategies as draw
from tests.checks import assert_consistent
from tests.samples import Unchanged

Operation = Callable[[Any], Any]


def named() -> TensorDict:
    """A batch of [3, 1, 4] named x, y, z; a nested collection has one more dimension, w, of size 2."""
    data = TensorDict(
        {"a": torch.rand(3, 1, 4, 5), "n": TensorDict({"b": torch.rand(3, 1, 4, 2)}, [3, 1, 4, 2]), "t": "text"},
        [3, 1, 4],
        names=["x", "y", "z"],
    )
    data["n"].names = ["x", "y", "z", "w"]
    return data


def written(names: list[str | None]) -> str:
    """Names as the tables here write them: a dash for none."""
    return " ".join(name or "-" for name in names)


rows = torch.tensor([0, 2])
mask = torch.tensor([True, False, True])

# the names after an operation, and those of the nested collection
OPERATIONS: dict[str, tuple[Operation, str, str]] = {
    # indices
    "[int]": (lambda d: d[0], "y z", "y z w"),
    "[slice]": (lambda d: d[:2], "x y z", "x y z w"),
    "[..., int]": (lambda d: d[..., 0], "x y", "x y w"),
    "[None]": (lambda d: d[None], "- x y z", "- x y z w"),
    "[:, None]": (lambda d: d[:, None], "x - y z", "x - y z w"),
    "[True]": (lambda d: d[True], "- x y z", "- x y z w"),
    "[tensor]": (lambda d: d[rows], "x y z", "x y z w"),
    "[list]": (lambda d: d[[0, 1]], "x y z", "x y z w"),
    "[range]": (lambda d: d[range(2)], "x y z", "x y z w"),
    "[tensor of one number]": (lambda d: d[torch.tensor(0)], "y z", "y z w"),
    "[tensor of two dimensions]": (lambda d: d[rows[None]], "- - y z", "- - y z w"),
    "[mask]": (lambda d: d[mask], "x y z", "x y z w"),
    "[mask of two dimensions]": (lambda d: d[torch.ones(3, 1, dtype=torch.bool)], "- z", "- z w"),
    "[:, int, tensor]": (lambda d: d[:, 0, rows], "x z", "x z w"),
    "[tensor, int]": (lambda d: d[rows, 0], "x z", "x z w"),
    "[tensor, tensor]": (lambda d: d[rows, torch.zeros(2, dtype=torch.long)], "- z", "- z w"),
    "[tensor, :, tensor]": (lambda d: d[rows, :, rows], "- y", "- y w"),
    "iteration": (lambda d: next(iter(d)), "y z", "y z w"),
    # shapes
    "squeeze": (lambda d: d.squeeze(), "x z", "x z w"),
    "squeeze of nothing": (lambda d: d.squeeze(0), "x y z", "x y z w"),
    "unsqueeze": (lambda d: d.unsqueeze(-1), "x y z -", "x y z - w"),
    "permute": (lambda d: d.permute(2, 0, 1), "z x y", "z x y w"),
    "transpose": (lambda d: d.transpose(0, 2), "z y x", "z y x w"),
    "swapaxes": (lambda d: d.swapaxes(0, 1), "y x z", "y x z w"),
    "movedim": (lambda d: d.movedim(0, 2), "y z x", "y z x w"),
    "rot90": (lambda d: d.rot90(), "y x z", "y x z w"),
    "flatten": (lambda d: d.flatten(1, 2), "x -", "x - w"),
    "unflatten": (lambda d: d.unflatten(2, (2, 2)), "x y - -", "x y - - w"),
    "view": (lambda d: d.view(-1), "-", "- -"),
    "view of the same size": (lambda d: d.view(3, 1, 4), "x y z", "x y z w"),
    "reshape": (lambda d: d.reshape(4, 3), "- -", "- - -"),
    "expand": (lambda d: d.expand(2, 3, 6, 4), "- x y z", "- x y z w"),
    "repeat": (lambda d: d.repeat(2, 1, 1), "x y z", "x y z w"),
    "repeat_interleave": (lambda d: d.repeat_interleave(2, 0), "x y z", "x y z w"),
    "flip": (lambda d: d.flip(0), "x y z", "x y z w"),
    "roll": (lambda d: d.roll(1, 0), "x y z", "x y z w"),
    "narrow": (lambda d: d.narrow(0, 0, 2), "x y z", "x y z w"),
    "gather": (lambda d: d.gather(0, torch.zeros(1, 1, 4, dtype=torch.long)), "x y z", "x y z w"),
    "unbind": (lambda d: d.unbind(1)[0], "x z", "x z w"),
    "split": (lambda d: d.split(1)[0], "x y z", "x y z w"),
    "chunk": (lambda d: d.chunk(2)[0], "x y z", "x y z w"),
    "tensor_split": (lambda d: d.tensor_split(2)[0], "x y z", "x y z w"),
    # several
    "stack": (lambda d: stack([d, d], 1), "x - y z", "x - y z w"),
    "stack of other names": (lambda d: stack([d, d.rename(x="q")]), "- - - -", "- - - - -"),
    "cat": (lambda d: torch.cat([d, d], 2), "x y z", "x y z w"),
    "where": (lambda d: d.where(mask, d.rename(None)), "x y z", "x y z w"),
    # reductions
    "sum": (lambda d: d.sum(), "", ""),
    "sum of one": (lambda d: d.sum(0), "y z", "y z w"),
    "sum of two": (lambda d: d.sum((0, 2)), "y", "y w"),
    "sum, keepdim": (lambda d: d.sum(0, keepdim=True), "x y z", "x y z w"),
    "mean of features": (lambda d: d.mean(dim="feature"), "x y z", "x y z w"),
    "any": (lambda d: d.any(0), "y z", "y z w"),
    "max": (lambda d: d.max(0).values, "y z", "y z w"),
    "cumsum": (lambda d: d.cumsum(0), "x y z", "x y z w"),
    "softmax": (lambda d: d.softmax(0), "x y z", "x y z w"),
    # numbers
    "+ number": (lambda d: d + 1, "x y z", "x y z w"),
    "number +": (lambda d: 1 + d, "x y z", "x y z w"),
    "+ other names": (lambda d: d + d.rename("p", "q", "r"), "x y z", "x y z w"),
    "no names +": (lambda d: d.rename(None) + d, "- - -", "- - - w"),
    "==": (lambda d: d.exclude("t") == 0, "x y z", "x y z w"),
    "exp": (lambda d: d.exp(), "x y z", "x y z w"),
    "add_": (lambda d: d.add_(1), "x y z", "x y z w"),
    "lerp": (lambda d: d.lerp(d, 0.5), "x y z", "x y z w"),
    "masked_fill": (lambda d: d.masked_fill(mask, 0), "x y z", "x y z w"),
    # functions of values
    "apply": (lambda d: d.apply(lambda x: x + 1), "x y z", "x y z w"),
    "apply, names": (lambda d: d.apply(lambda x: x + 1, names=["p", None, "r"]), "p - r", "p - r w"),
    "apply, no names": (lambda d: d.apply(lambda x: x + 1, names=None), "- - -", "- - - w"),
    "apply, batch size": (lambda d: d.apply(lambda x: x.sum(0), batch_size=[1, 4]), "- -", "- -"),
    "apply, both": (lambda d: d.apply(lambda x: x[0], batch_size=[1, 4], names=["y", "z"]), "y z", "y z"),
    "vmap": (lambda d: torch.vmap(lambda x: x + 1)(d), "- y z", "- y z w"),
    # keys
    "select": (lambda d: d.select("n"), "x y z", "x y z w"),
    "exclude": (lambda d: d.exclude(("n", "q"), "a"), "x y z", "x y z w"),
    "flatten_keys": (lambda d: d.flatten_keys(), "x y z", ""),
    "rename_keys": (lambda d: d.rename_keys({"a": "z"}), "x y z", "x y z w"),
    "replace": (lambda d: d.replace(a=torch.zeros(3, 1, 4)), "x y z", "x y z w"),
    "empty": (lambda d: d.empty(True), "x y z", "x y z w"),
    "empty, a shorter size": (lambda d: d.empty(batch_size=[3]), "x", ""),
    "empty, a longer size": (lambda d: d.empty(batch_size=[3, 1, 4, 6]), "x y z -", ""),
    # copies
    "clone": (lambda d: d.clone(), "x y z", "x y z w"),
    "clone, not recursing": (lambda d: d.clone(False), "x y z", "x y z w"),
    "copy.copy": (copy.copy, "x y z", "x y z w"),
    "deepcopy": (copy.deepcopy, "x y z", "x y z w"),
    "pickle": (lambda d: pickle.loads(pickle.dumps(d)), "x y z", "x y z w"),
    "to_tensordict": (lambda d: d.to_tensordict(), "x y z", "x y z w"),
    "to": (lambda d: d.to(torch.float64), "x y z", "x y z w"),
    "to another device": (lambda d: d.to("meta"), "x y z", "x y z w"),
    "detach": (lambda d: d.detach(), "x y z", "x y z w"),
    "zeros_like": (torch.zeros_like, "x y z", "x y z w"),
    "new_zeros": (lambda d: d.new_zeros(3), "-", "- -"),
    "load_state_dict": (lambda d: d.load_state_dict(d.state_dict()), "x y z", "x y z w"),
    "lock_": (lambda d: d.lock_(), "x y z", "x y z w"),
}


@pytest.mark.parametrize("operation, names, nested", OPERATIONS.values(), ids=OPERATIONS.keys())
def test_names_after_an_operation(operation: Operation, names: str, nested: str) -> None:
    data = named()
    result = operation(data)
    assert written(result.names) == names
    if "n" in result.keys():  # noqa: SIM118
        assert written(result["n"].names) == nested
    assert_consistent(result)
    assert written(named().names) == "x y z"


@given(data=st.data())
def test_a_dimension_keeps_its_name_wherever_it_goes(data: st.DataObject) -> None:
    """The sizes here are all different, so that they tell which dimension is which."""
    sizes = (2, 3, 5)
    names = data.draw(draw.names(3))
    of = dict(zip(sizes, names, strict=True))
    result = TensorDict({"a": torch.zeros(sizes), "n": TensorDict({}, [*sizes, 7])}, sizes, names=names)
    for _ in range(data.draw(st.integers(1, 4))):
        step = data.draw(st.sampled_from(("permute", "unsqueeze", "index", "stack", "cat", "sum", "add")))
        if step == "permute":
            result = result.permute(data.draw(st.permutations(range(result.ndim))))
        elif step == "unsqueeze":
            result = result.unsqueeze(data.draw(st.integers(0, result.ndim)))
        elif step == "stack":
            result = stack([result] * 11, data.draw(st.integers(0, result.ndim)))
        elif step == "add":
            result = result + 1
        elif result.ndim:
            dim = data.draw(st.integers(0, result.ndim - 1))
            if step == "index":
                result = result[(slice(None),) * dim + (0,)]
            elif step == "cat":
                result = torch.cat([result], dim)
            else:
                result = result.sum(dim)
    assert result.names == [of.get(size) for size in result.batch_size]
    assert_consistent(result)


# -- vmap --------------------------------------------------------------------------------------------------------------


def test_the_dimension_that_vmap_takes_has_no_name_inside() -> None:
    data = TensorDict({"a": torch.zeros(3, 4), "n": {"b": torch.zeros(3, 4)}}, [3, 4], names=["x", "y"])
    seen: list[Any] = []

    def function(part: TensorDict) -> TensorDict:
        seen.append((part.batch_size, part.names, part["n"].names))
        return part + 1

    result = torch.vmap(function, in_dims=1)(data)
    assert seen == [((3,), ["x"], ["x"])]
    assert result.batch_size == (4, 3)
    assert result.names == [None, "x"]
    result = torch.vmap(function, in_dims=0, out_dims=1)(data)
    assert seen[1] == ((4,), ["y"], ["y"])
    assert result.names == ["y", None]
    assert_consistent(result)


# -- setting them ------------------------------------------------------------------------------------------------------

settings: dict[str, tuple[Operation, str, str]] = {
    "names": (lambda d: setattr(d, "names", ["p", None, "r"]), "p - r", "p - r w"),
    "names, a tuple": (lambda d: setattr(d, "names", ("p", "q", "r")), "p q r", "p q r w"),
    "names, None": (lambda d: setattr(d, "names", None), "- - -", "- - - w"),
    "rename_": (lambda d: d.rename_("p", "q", "r"), "p q r", "p q r w"),
    "rename_, a list": (lambda d: d.rename_(["p", "q", "r"]), "p q r", "p q r w"),
    "rename_, one": (lambda d: d.rename_(x="p"), "p y z", "p y z w"),
    "rename_, swapped": (lambda d: d.rename_(x="y", y="x"), "y x z", "y x z w"),
    "rename_, None": (lambda d: d.rename_(None), "- - -", "- - - w"),
    "refine_names": (lambda d: d.refine_names("x", "y", "z"), "x y z", "x y z w"),
    "refine_names, ...": (lambda d: d.refine_names(..., "z"), "x y z", "x y z w"),
    "of a part": (lambda d: setattr(d["n"], "names", ["x", "y", "z", "v"]), "x y z", "x y z v"),
}


@pytest.mark.parametrize("write, names, nested", settings.values(), ids=settings.keys())
@pytest.mark.parametrize("locked", [False, True])
def test_names_can_be_set(write: Operation, names: str, nested: str, locked: bool) -> None:
    data = named().lock_() if locked else named()
    write(data)
    assert written(data.names) == names
    assert written(data["n"].names) == nested
    assert data.is_locked == locked


def test_rename_leaves_the_collection_as_it_is() -> None:
    data = named()
    with Unchanged(data):
        result = data.rename(x="p")
        assert written(result.names) == "p y z"
        assert written(result["n"].names) == "p y z w"
        assert result["a"] is data["a"]


def test_refining_gives_names_to_dimensions_that_have_none() -> None:
    data = TensorDict({"n": {"a": torch.zeros(2, 3)}}, [2, 3])
    assert data.refine_names(..., "y") is data
    assert data.names == data["n"].names == [None, "y"]
    assert data.refine_names("x", ...).names == ["x", "y"]


refused: dict[str, tuple[Operation, type[Exception], str]] = {
    "too few": (lambda d: setattr(d, "names", ["p", "q"]), ValueError, "expected 3"),
    "twice": (lambda d: setattr(d, "names", ["p", "p", "q"]), ValueError, "a different name for each dimension"),
    "numbers": (lambda d: setattr(d, "names", [1, 2, 3]), TypeError, "strings"),
    "a string": (lambda d: setattr(d, "names", "pqr"), TypeError, "sequence"),
    "the name of a nested dimension": (
        lambda d: setattr(d, "names", ["w", "q", "r"]),
        ValueError,
        "'w'.*nested|nested.*'w'",
    ),
    "rename_, too few": (lambda d: d.rename_("p"), ValueError, "expected 3"),
    "rename_, nothing": (lambda d: d.rename_(), ValueError, "expected 3"),
    "rename_, unknown": (lambda d: d.rename_(q="p"), ValueError, "no dimensions named"),
    "rename_, twice": (lambda d: d.rename_(x="y"), ValueError, "a different name for each dimension"),
    "rename_, both": (lambda d: d.rename_("p", x="q"), ValueError, "not both"),
    "rename_, the name of a nested dimension": (lambda d: d.rename_(x="w"), ValueError, "nested"),
    "rename, unknown": (lambda d: d.rename(q="p"), ValueError, "no dimensions named"),
    "rename, the name of a nested dimension": (lambda d: d.rename(x="w"), ValueError, "nested"),
    "refine_names, another": (lambda d: d.refine_names("q", "y", "z"), RuntimeError, "has a name already"),
    "refine_names, none": (lambda d: d.refine_names(None, "y", "z"), RuntimeError, "has a name already"),
    "refine_names, too few": (lambda d: d.refine_names("x"), ValueError, "expected 3"),
    "refine_names, two ...": (lambda d: d.refine_names(..., ...), RuntimeError, "once"),
    "a part, too many": (lambda d: setattr(d["n"], "names", ["x", "y", "z", "w", "v"]), ValueError, "expected 4"),
}


@pytest.mark.parametrize("write, error, match", refused.values(), ids=refused.keys())
def test_names_that_do_not_fit_are_refused_and_nothing_changes(
    write: Operation, error: type[Exception], match: str
) -> None:
    data = named()
    with Unchanged(data), pytest.raises(error, match=match):
        write(data)


@pytest.mark.parametrize(
    "names, error", [(["x", "x"], ValueError), (["x"], ValueError), ([1, 2], TypeError), ("xy", TypeError)]
)
def test_a_collection_is_not_made_with_names_that_do_not_fit(names: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="names"):
        TensorDict({}, [2, 2], names=names)


# -- the batch size ----------------------------------------------------------------------------------------------------


def test_names_that_a_nested_collection_refuses_change_at_no_level(tmp_path: Path) -> None:
    filed = TensorDict({"x": torch.ones(2, 3), "below": TensorDict({"y": torch.ones(2)}, [2])}, [2]).to_h5(
        tmp_path / "rows.h5"
    )
    lazy = lazy_stack([TensorDict({"z": torch.ones(1)}), TensorDict({"z": torch.ones(1)})])
    source = TensorDict({"x": torch.ones(4)}, [4])
    data = TensorDict({"a": {"b": torch.ones(2)}, "lazy": lazy, "file": filed}, [2])
    data["rows"] = source.get_sub_tensordict(slice(0, 2))
    with pytest.raises(RuntimeError, match="dimension names and device of rows follow"):
        data.names = ["new"]
    levels = [data, data["a"], data["lazy"], data["file"], data["file", "below"]]
    assert [level.names for level in levels] == [[None]] * 5
    filed.close()
    with TensorDict.from_h5(tmp_path / "rows.h5") as found:
        assert found.names == found["below"].names == [None]


def test_a_shorter_batch_size_keeps_the_names_in_front() -> None:
    data = named()
    data.batch_size = [3, 1]
    assert written(data.names) == "x y"
    assert written(data["n"].names) == "x y z w"


def test_dimensions_that_a_longer_batch_size_adds_have_no_name_in_nested_collections_either() -> None:
    data = named()
    data.batch_size = [3]
    data.batch_size = [3, 1, 4]
    assert written(data.names) == "x - -"
    assert written(data["n"].names) == "x - - w"
    assert_consistent(data)


def test_auto_batch_size_keeps_the_names_in_front() -> None:
    data = TensorDict({"a": torch.zeros(3, 4), "n": {"b": torch.zeros(3, 4, 2)}}, [3], names=["x"])
    data.auto_batch_size_()
    assert written(data.names) == "x -"
    assert written(data["n"].names) == "x - -"
    assert written(data.auto_batch_size_(batch_dims=1).names) == "x"


# -- collections that enter --------------------------------------------------------------------------------------------


def part(*names: str | None) -> TensorDict:
    return TensorDict({"q": torch.zeros(3, 4, 2)}, [3, 4, 2], names=names or None)


def owner(*names: str | None) -> TensorDict:
    return TensorDict({"a": torch.zeros(3, 4)}, [3, 4], names=names or None)


entering: dict[str, tuple[TensorDict, TensorDict, str, str]] = {
    "none has names": (owner(), part(), "- -", "- - -"),
    "the owner has": (owner("x", "y"), part(), "x y", "x y -"),
    "the owner has some": (owner("x", None), part(), "x -", "x - -"),
    "the part has": (owner(), part("p", "q", "r"), "p q", "p q r"),
    "the part has some": (owner(), part("p", None, "r"), "p -", "p - r"),
    "the part has one behind": (owner("x", "y"), part(None, None, "r"), "x y", "x y r"),
    "only behind": (owner(), part(None, None, "r"), "- -", "- - r"),
    "both have the same": (owner("x", "y"), part("x", "y", "r"), "x y", "x y r"),
    "both have some": (owner("x", "y"), part("x", None, "r"), "x y", "x y r"),
}


@pytest.mark.parametrize("write", ["item", "set", "update", "init"])
@pytest.mark.parametrize("data, value, names, nested", entering.values(), ids=entering.keys())
def test_a_collection_and_its_part_agree_on_names(
    write: str, data: TensorDict, value: TensorDict, names: str, nested: str
) -> None:
    data = data.clone()
    with Unchanged(value):
        if write == "item":
            data["n"] = value
        elif write == "set":
            data.set("n", value)
        elif write == "update":
            data.update({"n": value})
        else:
            data = TensorDict({"n": value}, data.batch_size, names=data.names if any(data.names) else None)
        assert written(data.names) == names
        assert written(data["n"].names) == nested
    assert (data["n"] is value) == (written(value.names) == nested)


@pytest.mark.parametrize(
    "data, value, error",
    [
        (owner("x", "y"), part("p", "q", "r"), RuntimeError),
        (owner("x", None), part("x", "q", "r"), RuntimeError),
        (owner("x", "y"), part(None, None, "x"), ValueError),
    ],
    ids=["other names", "a name where the owner has none", "a name twice"],
)
def test_a_part_with_other_names_is_refused(data: TensorDict, value: TensorDict, error: type[Exception]) -> None:
    with Unchanged(data), Unchanged(value):
        with pytest.raises(error, match="names"):
            data["n"] = value
        with pytest.raises(error, match="names"):
            data.update({"b": torch.ones(3, 4), "n": value})
        with pytest.raises(error, match="names"):
            TensorDict({"n": value}, [3, 4], names=data.names)
    data = data.clone()
    data["n"] = value.rename(None)
    assert data["n"].names[:2] == data.names


def test_names_that_a_part_brings_reach_the_others() -> None:
    data = TensorDict({"first": part(None, None, "r"), "none": {}}, [3, 4])
    data["second"] = part("p", "q", "s")
    assert written(data.names) == "p q"
    assert written(data["first"].names) == "p q r"
    assert written(data["none"].names) == "p q"


def test_contents_are_copied_whatever_the_names() -> None:
    data = owner("x", "y")
    data["n"] = part()
    other = data.rename("p", "q") + 1
    for write in (data.update_, data.copy_, lambda value: data.set_("n", value["n"])):
        data.zero_()
        write(other)
        assert data["n", "q"].eq(1).all()
        assert written(data["n"].names) == "x y -"
    data[0] = other[1]
    assert data.names == ["x", "y"]
    unnamed = other.rename(None)
    unnamed.update_(other)
    assert unnamed.names == [None, None]


# -- records, lazy stacks ----------------------------------------------------------------------------------------------


class Inner(TensorClass):
    b: Tensor


class Outer(TensorClass):
    a: Tensor
    inner: Inner


def test_names_of_a_record_are_those_of_its_parts() -> None:
    record = Outer(torch.zeros(3, 4), Inner(torch.zeros(3, 4), batch_size=[3, 4]), batch_size=[3, 4], names=["x", "y"])
    assert record.inner.names == ["x", "y"]
    assert record.permute(1, 0).inner.names == ["y", "x"]
    assert record.rename(x="p").inner.names == ["p", "y"]
    with pytest.raises(RuntimeError, match="names"):
        record.inner = Inner(torch.zeros(3, 4), batch_size=[3, 4], names=["p", "q"])
    taken = Outer(torch.zeros(3, 4), Inner(torch.zeros(3, 4), batch_size=[3, 4], names=["p", "q"]), batch_size=[3, 4])
    assert taken.names == ["p", "q"]


def test_names_of_a_lazy_stack_reach_its_parts() -> None:
    parts = [TensorDict({"a": torch.zeros(4), "n": {"b": torch.zeros(4)}}, [4]) for _ in range(3)]
    lazy = tc.lazy_stack(parts)
    lazy.names = ["x", "y"]
    assert lazy["n"].names == ["x", "y"]
    assert parts[0].names == parts[0]["n"].names == ["y"]
    assert lazy[0].names == ["y"]
    assert lazy.rename(x="p").names == ["p", "y"]
    assert lazy.names == ["x", "y"]
