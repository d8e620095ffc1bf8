"""The short form shows values, in at most 40 lines of 100 columns, whatever is shown; it raises nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.nn import Parameter
from torch.utils._python_dispatch import TorchDispatchMode
from typing_extensions import Self

from tensorclass import (
    Column,
    NonTensorData,
    NonTensorStack,
    Ragged,
    TensorClass,
    TensorDict,
    Text,
    UnbatchedTensor,
    lazy_stack,
    set_printoptions,
)
from tensorclass.td.printing.short_form import bytes_text
from tensorclass.td.printing.text_previews import width_of
from tests import strategies as draw


class Point(TensorClass):
    x: Tensor
    y: Tensor


class Sample(TensorClass):
    image: Tensor
    label: Tensor
    text: Text | None
    tokens: Ragged | None
    tags: Column[list[str]]
    point: Point
    source: str = "camera"
    mask: Tensor | None = None


def sample(rows: int = 4) -> Sample:
    return Sample(
        torch.linspace(0, 1, rows * 3 * 8 * 8).view(rows, 3, 8, 8),
        torch.arange(rows),
        Text(["a", None, *(["word " * 50] * (rows - 2))]),
        Ragged([[1, 2, 3], None, *([[*range(100)]] * (rows - 2))]),
        Column([["a"], [], *([["b"] * 50] * (rows - 2))]),
        Point(torch.full((rows,), 1 / 3), torch.zeros(rows, 2), batch_size=[rows]),
        batch_size=[rows],
    )


def bounded(shown: str, lines: int = 40, width: int = 100) -> bool:
    found = shown.split("\n")
    return len(found) <= lines and all(width_of(line) <= width for line in found)


def test_a_record_shows_its_fields_in_order_with_values() -> None:
    assert repr(sample()).split("\n") == [
        "Sample(batch_size=[4], on cpu, 5.4 kB)",
        "  image:  f32[3,8,8]         0.0 to 1.0",
        "  label:  i64                [0, 1, 2, 3]",
        "  text:   Text               ['a', None, 'word word word word word '..., ...]",
        "  tokens: Ragged[i64]        [[1, 2, 3], None, [0, 1, 2, 3, 4, 5, ...], [0, 1, 2, 3, 4, 5, ...]]",
        "  tags:   Column[list[str]]  [['a'], [], ['b', 'b', 'b', 'b', ..., ['b', 'b', 'b', 'b', ...]",
        "  point:  Point",
        "    x: f32     [0.3333, 0.3333, 0.3333, 0.3333]",
        "    y: f32[2]  [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]",
        "  source: str                'camera' for all rows",
        "  mask:   None",
    ]


def test_one_row_shows_its_values() -> None:
    shown = repr(sample()[0])
    assert shown.startswith("Sample(batch_size=[], on cpu")
    assert "  label:  i64                0\n" in shown
    assert "  text:   Text               'a'\n" in shown
    assert "  tokens: Ragged[i64]        [1, 2, 3]\n" in shown
    assert "  source: str                'camera'\n" in shown


def test_str_is_repr() -> None:
    data = sample()
    assert str(data) == repr(data) == f"{data}"


@pytest.mark.parametrize("fields", [1, 39, 40, 50, 2000])
def test_many_fields_are_cut_and_counted(fields: int) -> None:
    shown = repr(TensorDict({f"field_{number}": torch.zeros(2) for number in range(fields)}, [2]))
    assert bounded(shown)
    lines = shown.split("\n")
    assert len(lines) == min(fields + 1, 40)
    if fields > 39:
        assert lines[-1].startswith(f"  ... {fields - 38} more: field_38, field_39")


def test_three_levels_of_many_fields_share_the_lines() -> None:
    def tree(depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {f"t{number}": torch.zeros(2) for number in range(5)}
        return values | ({f"n{number}": tree(depth - 1) for number in range(5)} if depth else {})

    shown = repr(TensorDict(tree(2), [2]))
    assert bounded(shown)
    assert all(f"\n  n{number}: " in shown for number in range(5))
    assert "... 5 more: " in shown


def test_nested_collections_without_lines_of_their_own_list_their_keys() -> None:
    data = TensorDict({f"n{number}": {"a": 1, "b": 2} for number in range(39)})
    assert repr(data).split("\n")[1] == "  n0:  TensorDict  {a, b}"


def test_a_million_rows_take_no_longer_than_a_few() -> None:
    data = sample(3)[torch.zeros(1_000_000, dtype=torch.int64)]
    shown = repr(data)
    assert bounded(shown)
    assert "[0, 0, 0, ..., 0, 0, 0]" in shown


def test_long_names_values_and_texts_are_cut() -> None:
    data = TensorDict({"k" * 200: torch.rand(3, 3), "text": "模型" * 200, "list": [["x" * 99] * 99] * 9, "o": {"a"}})
    shown = repr(data)
    assert bounded(shown)
    assert "'模型模型" in shown
    with set_printoptions(max_width=40, max_lines=3):
        assert bounded(repr(data), 3, 40)


@given(draw.trees())
def test_any_tree_is_bounded_and_shows_its_keys(tree: Any) -> None:
    data = tree.build((2,))
    with set_printoptions(max_lines=1000):
        shown = repr(data)
    assert bounded(shown, 1000)
    assert bounded(repr(data))
    for key in data.keys(True):
        last = key if isinstance(key, str) else key[-1]
        assert f"{last}: " in shown


# -- numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value, shown",
    [
        (torch.tensor([0.5, 1 / 3]), "f32  [0.5, 0.3333]"),
        (torch.tensor([float("nan"), float("inf")]), "f32  [nan, inf]"),
        (torch.tensor([1e-7, 1.0]), "f32  [1e-07, 1e+00]"),
        (torch.tensor([1e12, 1.0], dtype=torch.float64), "f64  [1e+12, 1e+00]"),
        (torch.tensor([True, False]), "bool  [True, False]"),
        (torch.tensor([1 + 2j, -1j]), "c64  [1.0+2.0j, -0.0-1.0j]"),
        (torch.tensor([1.0, 2.0], dtype=torch.bfloat16), "bf16  [1.0, 2.0]"),
        (torch.tensor([1.0, 2.0]).to(torch.float8_e4m3fn), "f8_e4m3fn  [1.0, 2.0]"),
        (torch.tensor([2**63, 1], dtype=torch.uint64), "u64  [9223372036854775808, 1]"),
        (torch.zeros(2, 0), "f32[0]"),
        (torch.zeros(2, 60), "f32[60]  all 0.0"),
        (torch.tensor([[0.0, float("nan")] * 30] * 2), "f32[60]  all 0.0, 60 nan"),
        (torch.full((2, 60), float("nan")), "f32[60]  all nan"),
        (torch.ones(2, 60, dtype=torch.bool), "bool[60]  120 of 120 True"),
        (torch.arange(100).view(2, 50), "i64[50]  0 to 99"),
        (torch.zeros(2, 60, dtype=torch.complex64), "c64[60]  [[0.0+0.0j, 0.0+0.0j, 0.0+0.0j, ...], ...]"),
        (torch.zeros(2, device="meta"), "f32 @meta"),
        (torch.eye(2).to_sparse(), "f32[2] sparse coo  2 values"),
        (torch.ones(2, requires_grad=True) * 2, "f32 requires grad  [2.0, 2.0]"),
        (Parameter(torch.ones(2)), "f32 parameter  [1.0, 1.0]"),
        (torch.ones(2).share_memory_(), "f32 shared memory  [1.0, 1.0]"),
        (UnbatchedTensor(torch.ones(3)), "f32[3]  [1.0, 1.0, 1.0] for all rows"),
    ],
    ids=str,
)
def test_tensors_show_dtype_shape_and_numbers(value: Any, shown: str) -> None:
    lines = repr(TensorDict({"x": value, "other": torch.zeros(2)}, [2])).split("\n")
    assert re.sub(r" {2,}", "  ", lines[1]) == f"  x:  {shown}"


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_tensors_show_their_rows() -> None:
    rows = [torch.zeros(2), torch.ones(3)]
    jagged = torch.nested.nested_tensor(rows, layout=torch.jagged)
    assert repr(TensorDict({"x": jagged}, [2])).endswith("[[0.0, 0.0], [1.0, 1.0, 1.0]]")


def test_objects_show_what_they_are_on_one_line() -> None:
    class Odd:
        def __repr__(self) -> str:
            return "first\n  second"

    class Broken:
        def __repr__(self) -> str:
            raise ValueError("no repr")

    data = TensorDict({"odd": Odd(), "broken": Broken(), "none": None, "rows": NonTensorStack("p", 1)}, [2])
    assert repr(data).split("\n")[1:] == [
        "  odd:    Odd             first second for all rows",
        "  broken: Broken          <Broken whose repr raises ValueError> for all rows",
        "  none:   None            for all rows",
        "  rows:   NonTensorStack  ['p', 1]",
    ]


# -- what fields share ------------------------------------------------------------------------------------------------


def test_what_all_tensors_share_stands_in_the_first_line() -> None:
    assert repr(TensorDict({"a": torch.zeros(2)}, [2], names=["row"])).split("\n")[0] == (
        "TensorDict(batch_size=[2], names=['row'], on cpu, 8 bytes)"
    )
    assert repr(TensorDict({"a": torch.zeros(2)}, [2], device="meta")) == (
        "TensorDict(batch_size=[2], device=meta, 8 bytes)\n  a: f32"
    )
    assert repr(TensorDict({"a": torch.zeros(2, device="meta")}, [2])) == (
        "TensorDict(batch_size=[2], on meta, 8 bytes)\n  a: f32"
    )
    parameters = TensorDict({"a": Parameter(torch.zeros(2)), "b": {"c": Parameter(torch.zeros(2))}}, [2])
    assert repr(parameters).split("\n") == [
        "TensorDict(batch_size=[2], on cpu, 16 bytes, parameter)",
        "  a: f32  [0.0, 0.0]",
        "  b: TensorDict",
        "    c: f32  [0.0, 0.0]",
    ]


def test_batch_dimensions_of_nested_collections_behind_those_around_are_shown() -> None:
    inner = TensorDict({"a": torch.zeros(2, 3)}, [2, 3], names=[None, "column"])
    assert "  n: TensorDict[3] names=[None, 'column']\n    a: f32 " in repr(TensorDict({"n": inner}, [2]))


def test_memory_maps_are_marked(tmp_path: Path) -> None:
    data = sample().memmap(tmp_path / "rows")
    assert repr(data).startswith("Sample(batch_size=[4], device=cpu, 5.4 kB, memory-mapped)\n")
    assert "f32[3,8,8]         0.0 to 1.0" in repr(data)


@pytest.mark.parametrize("form", ["h5", "zarr"])
def test_files_are_marked_and_only_their_first_rows_are_read(tmp_path: Path, form: str) -> None:
    pytest.importorskip({"h5": "h5py", "zarr": "zarr"}[form])
    data = sample(30)
    getattr(data, f"to_{form}")(tmp_path / f"rows.{form}").close()
    with getattr(Sample, f"from_{form}")(tmp_path / f"rows.{form}") as held:
        shown = repr(held)
        assert shown.split("\n")[0].endswith(f", in rows.{form})")
        assert "  label:  i64                [0, 1, 2, ...]\n" in shown
        assert "  text:   Text               ['a', None, 'word word word word word '..., ...]\n" in shown
        assert "  tokens: Ragged[i64]        [[1, 2, 3], None, [0, 1, 2, 3, 4, 5, ...], " in shown
        assert "    x: f32     [0.3333, 0.3333, 0.3333, ...]\n" in shown
        assert bounded(shown)
    assert re.fullmatch(r"Sample\(cannot be shown: .*the file was closed.*\)", repr(held))


def test_lazy_stacks_are_marked_and_stack_only_what_they_show() -> None:
    parts = [TensorDict({"a": torch.full((3,), number), "r": torch.zeros(number + 1)}) for number in range(9)]
    assert repr(lazy_stack(parts)).split("\n") == [
        "LazyStackedTensorDict(batch_size=[9], on cpu, 396 bytes, lazy stack of 9)",
        "  a: i64[3]  [[0, 0, 0], ...]",
        "  r: f32[*]  [[0.0], [0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], ...]",
    ]
    columns = lazy_stack([TensorDict({"a": torch.arange(4)}, [4])] * 2, 1)
    assert "a: i64  [[0, 0], [1, 1], [2, 2], [3, 3]]" in repr(columns)


def test_only_the_first_parts_of_a_long_lazy_stack_are_looked_at() -> None:
    part = TensorDict({"a": torch.zeros(2), "n": {"b": torch.ones(())}, "t": "yes"})
    other = TensorDict({"a": torch.zeros(2), "n": {"b": torch.ones(())}, "t": "no"})
    rows: Any = lazy_stack([part, other] * 2000)
    whole = repr(rows)
    rows._store.items_[1000:] = [None] * 3000  # nothing of which a line could be made
    assert repr(rows) == whole
    assert whole.split("\n") == [
        "LazyStackedTensorDict(batch_size=[4000], on cpu, > 4.8 kB, lazy stack of 4000)",
        "  a: f32[2]          [[0.0, 0.0], ...]",
        "  n: LazyStackedTensorDict",
        "    b: f32  [1.0, 1.0, 1.0, ...]",
        "  t: NonTensorStack  ['yes', 'no', 'yes', 'no', 'yes', 'no', ...]",
    ]


@pytest.mark.parametrize(
    "nbytes, shown", [(999, "999 bytes"), (1000, "1.0 kB"), (999_960, "1.0 MB"), (10**13, "10.0 TB")]
)
def test_bytes_have_a_unit(nbytes: int, shown: str) -> None:
    assert bytes_text(nbytes) == shown


# -- columns ----------------------------------------------------------------------------------------------------------


def test_columns_show_a_row_a_line() -> None:
    assert repr(Text(["a", None, "it's"])) == "Text(batch_size=[3], device=cpu, 53 bytes)\n  'a'\n  None\n  \"it's\""
    assert repr(Ragged([[1.0, 2.5], [], None])) == (
        "Ragged[f32](batch_size=[3], device=cpu, 56 bytes)\n  [1.0, 2.5]\n  []\n  None"
    )
    assert repr(Column([["a"], []], list[str])) == "Column[list[str]](batch_size=[2])\n  ['a']\n  []"
    assert repr(Text(["a" * 1000, "bc"])[1:]) == "Text(batch_size=[1], device=cpu, 18 bytes)\n  'bc'"  # not of all rows
    assert repr(Text(["abc"])[0:1].reshape(())) == "Text(batch_size=[], device=cpu, 19 bytes)\n  'abc'"


@pytest.mark.parametrize(
    "column",
    [
        Text(["x" * 1000] * 1000),
        Ragged([[1] * 1000] * 1000),
        Ragged([torch.zeros(3, 1000)] * 20),
        Ragged.from_list([[[1, 2]] * 100] * 100, ragged_dims=2),
        Column([["x" * 1000] * 1000] * 1000),
        Text(["模型"] * 12).reshape(3, 4),
    ],
    ids=lambda column: type(column).__name__,
)
def test_columns_are_bounded(column: Any) -> None:
    assert bounded(repr(column))
    assert bounded(repr(TensorDict({"c": column}, column.batch_size[:1])))


def test_a_column_counts_the_rows_that_it_leaves_out() -> None:
    assert repr(Text(["a"] * 12)).endswith("  'a'\n  ... 2 more rows")


# -- never an error, and nothing is read that is not shown ------------------------------------------------------------


@pytest.mark.parametrize("cls", [Sample, TensorDict, Text, Ragged, Column, NonTensorData, NonTensorStack], ids=str)
def test_half_constructed_objects_are_shown(cls: type[Any]) -> None:
    assert repr(object.__new__(cls)) == f"{cls.__name__}(not initialized)"
    assert cls is NonTensorStack or str(object.__new__(cls))


def test_broken_stores_are_shown() -> None:
    class Broken(dict[str, Any]):
        def __getitem__(self, key: str) -> Any:
            raise OSError(f"disk on fire:\n{key}")

    data = TensorDict({"a": torch.zeros(2), "b": torch.zeros(2)}, [2])
    data._store = Broken(data._store)
    assert repr(data).split("\n")[1:] == [
        "  a: ?  <cannot be read: OSError: disk on fire: a>",
        "  b: ?  <cannot be read: OSError: disk on fire: b>",
    ]
    data._store = None  # type: ignore[assignment]
    assert repr(data).startswith("TensorDict(cannot be shown: TypeError: ")
    record = sample()
    record._batch_size = "nonsense"  # type: ignore[assignment]
    assert bounded(repr(record))
    del record._store
    assert "cannot be shown: AttributeError" in repr(record)


def test_trees_of_any_size_are_shown() -> None:
    wide = TensorDict()
    for _ in range(40):  # two to the power of forty leaves
        wide = TensorDict(l=wide, r=wide)
    assert bounded(repr(wide))


class Counted(Tensor):
    """A tensor that counts the numbers that leave it, as those of an accelerator would."""

    read: list[int] = []
    elem: Tensor

    @staticmethod
    def __new__(cls, elem: Tensor) -> Self:
        new = Tensor._make_wrapper_subclass(cls, elem.shape, dtype=elem.dtype, device="xpu:0")
        new.elem = elem
        return new

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*[arg.elem if isinstance(arg, Counted) else arg for arg in args], **(kwargs or {}))
        if func in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten._to_copy.default):
            cls.read.append(args[0].numel())
        if isinstance(result, tuple):
            return tuple([cls(one) for one in result])
        return cls(result) if isinstance(result, Tensor) else result

    def tolist(self) -> Any:
        self.read.append(self.numel())
        return self.elem.tolist()


def test_only_numbers_that_are_shown_leave_an_accelerator() -> None:
    data = TensorDict({"x": Counted(torch.arange(1000)), "v": Counted(torch.rand(1000, 4))}, [1000])
    Counted.read.clear()
    shown = repr(data)
    assert "x: i64 Counted" not in shown.split("\n")[0]
    assert "[0, 1, 2, ..., 997, 998, 999]" in shown
    numbers = len(re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?(?=[,\]]| to |$)", shown.split("\n", 1)[1], re.MULTILINE))
    assert 0 < sum(Counted.read) <= numbers


class _Forbidden(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError(f"{func} runs")


def test_nothing_is_read_under_modes_of_torch() -> None:
    data = sample()
    with _Forbidden():
        shown = repr(data)
    assert "  image:  f32[3,8,8]\n" in shown


def test_nothing_is_read_of_fake_tensors() -> None:
    with FakeTensorMode() as mode:
        data = TensorDict({"x": torch.zeros(3)}, [3])
        assert repr(data) == "TensorDict(batch_size=[3], on cpu, 12 bytes, FakeTensor)\n  x: f32"
    assert "x: f32" in repr(data)
    real = sample()
    with mode:
        assert "  label:  i64\n" in repr(real)


def test_nothing_is_read_while_a_program_is_compiled() -> None:
    shown: list[str] = []

    def function(data: TensorDict) -> Tensor:
        shown.append(repr(data))
        return data["x"] + 1

    torch.compile(function, backend="eager", fullgraph=True)(TensorDict({"x": torch.zeros(3)}, [3]))
    assert shown == ["TensorDict(batch_size=[3], keys=['x'])"]


def test_nothing_is_read_inside_of_vmap() -> None:
    shown: list[str] = []
    torch.vmap(lambda data: (shown.append(repr(data)), data)[1])(TensorDict({"x": torch.zeros(3, 2)}, [3, 2]))
    assert shown[0].split("\n")[1] == "  x: f32"


def test_a_record_with_a_repr_of_its_own_is_shown_by_it() -> None:
    class Own(TensorClass):
        x: Tensor

        def __repr__(self) -> str:
            return "my own\nrepr"

    data = TensorDict({"own": Own(torch.zeros(2), batch_size=[2])}, [2])
    assert repr(data).split("\n")[1] == "  own: Own  my own repr"


def test_fields_that_are_not_to_be_shown_are_not() -> None:
    from tensorclass import field

    class Hidden(TensorClass):
        x: Tensor
        secret: Tensor = field(repr=False)

    assert "secret" not in repr(Hidden(torch.zeros(2), torch.zeros(2), batch_size=[2]))
