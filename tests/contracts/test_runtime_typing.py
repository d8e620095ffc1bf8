"""What other tools see of a record: beartype, jaxtyping's hook, typing, inspect, dir, help."""

import importlib
import inspect
import pydoc
import sys
import typing
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import pytest
import torch
from beartype import beartype
from beartype.roar import BeartypeCallHintViolation
from jaxtyping import Float, Int, TypeCheckError, install_import_hook, jaxtyped
from torch import Tensor

import tensorclass as tc
from tensorclass import Shape, TensorClass
from tests.forms import FORMS


class Made(typing.NamedTuple):
    """A class, and a function that makes a batch of it."""

    cls: Any
    batch: Callable[[], Any]


@pytest.fixture(params=FORMS)
def made(request: pytest.FixtureRequest) -> Made:
    form = FORMS[request.param]()

    @form.decorator
    class Sample(form.base):  # type: ignore[misc]
        """A sample."""

        image: Float[Tensor, "3 h w"]
        mark: Annotated[Tensor, Shape("n")]
        label: Int[Tensor, ""] | None = None
        parts: list[int] = tc.field(default_factory=list)
        _private: str = ""

        def twice(self, times: int = 2) -> "Sample":
            return self

    return Made(Sample, lambda: Sample(torch.zeros(2, 3, 4, 4), torch.zeros(2, 5)))  # type: ignore[call-arg]


# -- what checks calls ------------------------------------------------------------------------------------------------


def test_beartype_takes_records_as_arguments_and_results(made: Made) -> None:
    cls: Any = made.cls

    @beartype
    def same(x: cls) -> cls:  # type: ignore[valid-type]
        return x

    assert same(made.batch()).batch_size == (2,)
    for wrong in (3, tc.TensorDict({}), torch.zeros(2)):
        with pytest.raises(BeartypeCallHintViolation):
            same(wrong)


def test_beartype_takes_a_record_where_its_base_is_wanted(made: Made) -> None:
    @beartype
    def same(x: TensorClass) -> tc.TensorCollection:
        return x

    assert same(made.batch()).batch_size == (2,)


def test_jaxtyped_takes_records_beside_tensors(made: Made) -> None:
    cls: Any = made.cls

    @jaxtyped(typechecker=beartype)
    def same(x: cls, y: Float[Tensor, "h w"]) -> cls:  # type: ignore[valid-type]
        return x

    assert same(made.batch(), torch.zeros(4, 4)).batch_size == (2,)
    with pytest.raises(TypeCheckError):
        same(made.batch(), torch.zeros(4))
    with pytest.raises(TypeCheckError):
        same(3, torch.zeros(4, 4))


@pytest.mark.parametrize("decorate", [beartype, jaxtyped(typechecker=beartype)], ids=["beartype", "jaxtyped"])
def test_a_class_under_beartype_or_jaxtyped_takes_batches(decorate: Any) -> None:
    # the annotation is about one item: what checks calls by it would refuse the batch dimensions
    @decorate
    class Sample(TensorClass):
        image: Float[Tensor, "3 h w"] | None

    assert Sample(torch.zeros(2, 3, 4, 4)).batch_size == (2,)
    with pytest.raises(tc.ContractError):
        Sample(torch.zeros(2, 1, 4, 4))


def test_the_import_hook_of_jaxtyping_takes_records(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "tests.contracts.hooked"
    monkeypatch.delitem(sys.modules, name, raising=False)
    with install_import_hook(name, "beartype.beartype"):
        hooked = importlib.import_module(name)
    monkeypatch.setitem(sys.modules, name, hooked)
    batch = hooked.Sample(torch.zeros(2, 3, 4, 4))
    assert hooked.same(batch).twice().batch_size == (2,)
    assert hooked.decorated(batch, batch.image).batch_size == (2,)
    for call in (
        lambda: hooked.same(3),
        lambda: hooked.wrong(batch),
        lambda: hooked.decorated(batch, torch.zeros(2)),
    ):
        with pytest.raises(TypeCheckError):
            call()


def test_isinstance_holds_for_records_and_for_nothing_else(made: Made) -> None:
    batch = made.batch()
    assert isinstance(batch, made.cls)
    assert isinstance(batch, TensorClass)
    assert issubclass(made.cls, tc.TensorCollection)
    assert not isinstance(tc.TensorDict({}), made.cls)
    assert not isinstance(batch.image, made.cls)


# -- what shows the fields --------------------------------------------------------------------------------------------


def test_get_type_hints_are_the_fields(made: Made) -> None:
    hints = typing.get_type_hints(made.cls)
    assert list(hints) == ["image", "mark", "label", "parts", "_private"]
    assert hints["image"].dim_str == "3 h w"
    assert hints["mark"] is Tensor
    extras = typing.get_type_hints(made.cls, include_extras=True)
    assert extras["mark"] == Annotated[Tensor, Shape("n")]


def test_the_signature_is_that_of_the_fields_and_the_metadata(made: Made) -> None:
    signature = inspect.signature(made.cls)
    assert list(signature.parameters) == [
        "image", "mark", "label", "parts", "_private", "batch_size", "device", "names",
    ]  # fmt: skip
    annotations = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    assert annotations["image"].dim_str == "3 h w"
    assert annotations["mark"] == Annotated[Tensor, Shape("n")]
    assert annotations["batch_size"] == Sequence[int] | int | None
    assert annotations["device"] == torch.device | str | int | None
    assert annotations["names"] == Sequence[str | None] | None
    assert all(signature.parameters[name].kind.name == "KEYWORD_ONLY" for name in ("batch_size", "device", "names"))
    assert signature.parameters["label"].default is None


def test_annotations_that_are_text_become_objects_in_the_signature() -> None:
    class Scored(TensorClass):
        value: "Float[Tensor, 'n']"
        inner: "Scored | None" = None
        later: "NotYet | None" = None  # type: ignore[name-defined]

    class Derived(Scored):
        more: "int" = 0

    parameters = inspect.signature(Derived).parameters
    assert parameters["value"].annotation.dim_str == "n"
    assert parameters["inner"].annotation == Scored | None
    assert parameters["later"].annotation == "NotYet | None"
    assert parameters["more"].annotation is int


def test_hints_of_the_constructor_are_the_fields() -> None:
    class Plain(TensorClass):
        value: "Tensor"

    assert typing.get_type_hints(Plain.__init__)["value"] is Tensor
    assert typing.get_type_hints(Plain.__init__)["return"] is type(None)


def test_signatures_of_methods_are_there(made: Made) -> None:
    assert list(inspect.signature(made.cls.zeros).parameters)[:2] == ["batch_size", "device"]
    assert list(inspect.signature(made.cls.empty).parameters)[:2] == ["batch_size", "device"]
    assert list(inspect.signature(made.batch().empty).parameters)[:2] == ["recurse", "batch_size"]
    assert list(inspect.signature(made.cls.twice).parameters) == ["self", "times"]
    methods = [getattr(made.cls, name) for name in dir(made.cls) if not name.startswith("_")]
    assert all(inspect.signature(method) for method in methods if callable(method))


def test_hints_of_methods_are_found(made: Made) -> None:
    for name in ("zeros", "ones", "random", "empty", "reshape", "apply", "schema", "validate"):
        assert typing.get_type_hints(getattr(made.cls, name))


def test_dir_has_fields_and_methods(made: Made) -> None:
    for names in (dir(made.cls), dir(made.batch())):
        assert {"image", "label", "parts", "_private", "batch_size", "to", "zeros", "twice"} <= set(names)


def test_help_shows_the_signature_and_the_fields(made: Made) -> None:
    text = pydoc.render_doc(made.cls, renderer=pydoc.plaintext)
    assert "A sample." in text
    assert "Sample(image: jaxtyping.Float[Tensor, '3 h w']" in text.replace(
        "Sample(\n |      ", "Sample("
    )  # Python 3.13
    assert "Make a record of the values of its fields" in text
    assert inspect.getdoc(made.cls.label) == "A field: Int[Tensor, ''] | None"
