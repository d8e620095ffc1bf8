"""What a file says of its fields, and the record that it is loaded into."""

import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Generic, Optional, TypeVar

import pytest
import torch
from jaxtyping import Float, Int
from torch import Tensor

from tensorclass import ContractError, Range, TensorClass, TensorDict, TypedTensorDict
from tensorclass.storage import FileError
from tests import fresh_python

Save = Callable[[Any, Path], Any]
Load = Callable[..., Any]

FORMATS: list[Any] = [
    pytest.param(
        lambda data, path: data.memmap(path), lambda cls, path, **how: cls.load_memmap(path, **how), id="folder"
    ),
    pytest.param(
        lambda data, path: data.save_safetensors(path),
        lambda cls, path, **how: cls.load_safetensors(path, **how),
        id="safetensors",
    ),
]
in_each_format = pytest.mark.parametrize("save, load", FORMATS)


class Written(TensorClass):
    x: Tensor
    y: Tensor


class Renamed(TensorClass):
    x: Tensor
    y: Tensor


class Gained(TensorClass):
    x: Tensor
    y: Tensor
    maybe: Tensor | None = None
    text: str = "new"


class Lost(TensorClass):
    x: Tensor


class Other(TensorClass):
    x: Float[Tensor, "3"]
    y: Int[Tensor, ""]
    more: Tensor


class Holder(TensorClass):
    inner: Other
    label: Tensor


class Inner(TensorClass):
    a: Tensor


class Optionals(TensorClass):
    a: Optional[Tensor]
    inner: Inner | None = None
    text: str | None = None


T = TypeVar("T")


class Box(TensorClass, Generic[T]):
    value: T


class Frozen(TensorClass, frozen=True):
    a: Tensor


class Counting(TensorClass):
    a: Tensor

    def __post_init__(self) -> None:
        self.a = self.a + 1


class Sub(Inner):
    b: Tensor | None = None


class Shadowing(TensorClass, shadow=True):
    data: Tensor
    keys: Tensor


class Bounded(TensorClass):
    a: Annotated[Tensor, Range(0, 1)]


class Typed(TypedTensorDict):
    x: Tensor
    missing: Tensor


def written() -> Written:
    return Written(x=torch.ones(3, 2), y=torch.arange(3.0), batch_size=[3])


_SCRIPT = """
import sys, torch
from tensorclass import TensorClass
class Mine(TensorClass):
    x: torch.Tensor
    y: torch.Tensor
data = Mine(x=torch.ones(3, 2), y=torch.arange(3.0), batch_size=[3])
data.memmap(sys.argv[1] + "/folder")
data.save_safetensors(sys.argv[1] + "/safetensors")
"""


def test_what_a_script_wrote_is_loaded_into_another_class(tmp_path: Path) -> None:
    fresh_python.run(["-c", _SCRIPT, str(tmp_path)], check=True)
    for loaded in (Written.load_memmap(tmp_path / "folder"), Written.load_safetensors(tmp_path / "safetensors")):
        assert type(loaded) is Written
        assert torch.equal(loaded.y, torch.arange(3.0))
    assert type(TensorDict.load_memmap(tmp_path / "folder")) is TensorDict


@in_each_format
def test_a_class_with_another_name_takes_the_same_fields(tmp_path: Path, save: Save, load: Load) -> None:
    save(written(), tmp_path / "saved")
    assert torch.equal(load(Renamed, tmp_path / "saved").x, torch.ones(3, 2))


@in_each_format
def test_a_field_that_came_later_gets_its_default(tmp_path: Path, save: Save, load: Load) -> None:
    save(written(), tmp_path / "saved")
    loaded = load(Gained, tmp_path / "saved")
    assert loaded.maybe is None
    assert loaded.text == "new"


@in_each_format
def test_a_field_that_went_is_left_out_when_asked(tmp_path: Path, save: Save, load: Load) -> None:
    save(written(), tmp_path / "saved")
    with pytest.raises(FileError, match=r"unexpected: \['y'\] \(strict=False leaves them out\)"):
        load(Lost, tmp_path / "saved")
    with pytest.warns(UserWarning, match=r"Lost has no fields for \['y'\]"):
        loaded = load(Lost, tmp_path / "saved", strict=False)
    assert set(loaded.keys()) == {"x"}


@in_each_format
def test_all_differences_are_listed_at_once(tmp_path: Path, save: Save, load: Load) -> None:
    save(TensorDict({"inner": written()}, [3]), tmp_path / "saved")
    with pytest.raises(FileError) as raised:
        load(Holder, tmp_path / "saved")
    message = str(raised.value)
    assert message.startswith(str(tmp_path / "saved"))
    assert "inner: the fields of Other are ['x', 'y', 'more']" in message
    assert "missing, without a default: ['more']" in message
    assert "dimension 1 must be 3, it is 2" in message
    assert "the dtype float32 is not int" in message
    assert "missing, without a default: ['label']" in message


@in_each_format
def test_a_value_of_another_kind_is_named(tmp_path: Path, save: Save, load: Load) -> None:
    save(TensorDict({"a": torch.zeros(2), "inner": "text", "text": torch.zeros(2)}, [2]), tmp_path / "saved")
    with pytest.raises(
        FileError, match=r"(?s)Optionals\.inner: expected .*\n  it does not fit .*Optionals\.text: expected"
    ):
        load(Optionals, tmp_path / "saved")


def test_the_error_can_be_sent_to_another_process(tmp_path: Path) -> None:
    written().memmap(tmp_path / "saved")
    with pytest.raises(FileError) as raised:
        Lost.load_memmap(tmp_path / "saved")
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


@in_each_format
def test_fields_without_a_value_come_back_without(tmp_path: Path, save: Save, load: Load) -> None:
    save(Optionals(a=None, batch_size=[2]), tmp_path / "none")
    loaded = load(Optionals, tmp_path / "none")
    assert (loaded.a, loaded.inner, loaded.text) == (None, None, None)
    inner = Inner(a=torch.ones(2), batch_size=[2])
    save(Optionals(a=torch.zeros(2), inner=inner, text="t", batch_size=[2]), tmp_path / "all")
    loaded = load(Optionals, tmp_path / "all")
    assert type(loaded.inner) is Inner
    assert loaded.text == "t"


@in_each_format
def test_a_record_inside_a_collection_keeps_its_class_where_it_is_defined(
    tmp_path: Path, save: Save, load: Load
) -> None:
    save(TensorDict({"inner": written()}, [3]), tmp_path / "saved")
    assert type(load(TensorDict, tmp_path / "saved")["inner"]) is Written


@in_each_format
def test_generic_records_are_loaded(tmp_path: Path, save: Save, load: Load) -> None:
    save(Box[Inner](value=Inner(a=torch.ones(2), batch_size=[2]), batch_size=[2]), tmp_path / "saved")
    assert type(load(Box[Inner], tmp_path / "saved").value) is Inner


@in_each_format
def test_frozen_records_are_loaded_frozen(tmp_path: Path, save: Save, load: Load) -> None:
    save(Frozen(a=torch.ones(2), batch_size=[2]), tmp_path / "saved")
    loaded = load(Frozen, tmp_path / "saved")
    with pytest.raises(AttributeError):
        loaded.a = torch.zeros(2)


@in_each_format
def test_post_init_does_not_run_again(tmp_path: Path, save: Save, load: Load) -> None:
    save(Counting(a=torch.zeros(2), batch_size=[2]), tmp_path / "saved")
    assert load(Counting, tmp_path / "saved").a.tolist() == [1.0, 1.0]


@in_each_format
def test_a_subclass_takes_what_its_base_wrote(tmp_path: Path, save: Save, load: Load) -> None:
    save(Inner(a=torch.ones(2), batch_size=[2]), tmp_path / "saved")
    assert load(Sub, tmp_path / "saved").b is None


@in_each_format
def test_fields_with_the_names_of_methods_are_loaded(tmp_path: Path, save: Save, load: Load) -> None:
    save(Shadowing(data=torch.zeros(2), keys=torch.ones(2), batch_size=[2]), tmp_path / "saved")
    assert load(Shadowing, tmp_path / "saved").get("keys").tolist() == [1.0, 1.0]


@in_each_format
def test_a_typed_tensordict_wants_its_required_keys(tmp_path: Path, save: Save, load: Load) -> None:
    save(TensorDict({"x": torch.zeros(2)}, [2]), tmp_path / "saved")
    with pytest.raises(FileError, match=r"Typed: \['missing'\] must be given"):
        load(Typed, tmp_path / "saved")


@in_each_format
def test_elements_are_not_read_to_check_ranges_and_validate_does(tmp_path: Path, save: Save, load: Load) -> None:
    save(TensorDict({"a": torch.tensor([0.5, 7.0])}, [2]), tmp_path / "saved")
    loaded = load(Bounded, tmp_path / "saved")
    with pytest.raises(ContractError):
        loaded.validate()


def test_no_warning_without_a_difference(tmp_path: Path) -> None:
    written().memmap(tmp_path / "saved")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Written.load_memmap(tmp_path / "saved", strict=False)


FAKE: dict[str, tuple[Callable[[Any, Path], object], Callable[[Any, Path], Any]]] = {
    "folder": (lambda data, path: data.memmap(path), lambda cls, path: cls.load_memmap(path)),
    "archive": (lambda data, path: data.memmap(path, archive=True), lambda cls, path: cls.load_memmap(path)),
    "safetensors": (lambda data, path: data.save_safetensors(path), lambda cls, path: cls.load_safetensors(path)),
    "consolidated": (lambda data, path: data.consolidate(path), lambda cls, path: cls.from_consolidated(path)),
}


@pytest.mark.parametrize("form", FAKE)
def test_fake_tensors_have_shapes_and_open_no_file(form: str, tmp_path: Path) -> None:
    from torch._subclasses import FakeTensor, FakeTensorMode

    save, load = FAKE[form]
    save(TensorDict({"x": torch.ones(3, 2, dtype=torch.int16), "text": "a"}, [3]), tmp_path / "saved")
    with FakeTensorMode():
        loaded = load(TensorDict, tmp_path / "saved")
    x = loaded["x"]
    assert (type(x), x.shape, x.dtype, x.device.type) == (FakeTensor, (3, 2), torch.int16, "cpu")
    assert loaded["text"] == "a"


@pytest.mark.parametrize("backend", ["h5", "zarr"])
def test_a_file_that_is_read_in_place_lists_all_fields_that_do_not_fit(backend: str, tmp_path: Path) -> None:
    class Wrong(TensorClass):
        first: int
        second: str

    data = TensorDict({"first": torch.ones(2), "second": torch.ones(2)}, [2])
    getattr(data, f"to_{backend}")(tmp_path / "saved").close()
    with pytest.raises(
        ValueError, match=r"saved: it does not fit .*Wrong\.first: expected int.*Wrong\.second: expected"
    ):
        getattr(Wrong, f"from_{backend}")(tmp_path / "saved")


@pytest.mark.parametrize("form", FAKE)
def test_jagged_tensors_are_fake_too_where_sizes_may_be_symbols(form: str, tmp_path: Path) -> None:
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    save, load = FAKE[form]
    ragged = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    save(TensorDict({"ragged": ragged}, [2]), tmp_path / "saved")
    with FakeTensorMode(shape_env=ShapeEnv()):
        assert load(TensorDict, tmp_path / "saved")["ragged"].values().shape == (5,)
