"""Names of pandas, polars and Hugging Face datasets raise errors that name the verbs of collections."""

import contextlib
import inspect
import io
import re
import sys

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorDict
from tensorclass.td.dataframe_names import INSTEAD

#: calls in the advice that are no methods of collections
OTHERS = {"DataLoader", "RecordStream", "len", "list"}


class Sample(TensorClass):
    image: Tensor
    label: Tensor


class Table(TensorClass):
    columns: Tensor
    index: int = 3

    @property
    def iloc(self) -> int:
        return 7


class Annotated(TensorDict):
    """A collection whose instances have attributes of their own."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.features = 3


BATCH = Sample(torch.rand(4, 3), torch.arange(4), batch_size=[4])


@pytest.mark.parametrize("data", [BATCH, TensorDict({"a": torch.zeros(3)}, [3])], ids=["record", "TensorDict"])
def test_each_name_is_an_attribute_error_with_advice(data: object) -> None:
    for name, advice in INSTEAD.items():
        assert not hasattr(data, name)
        with pytest.raises(AttributeError) as raised:
            getattr(data, name)
        assert str(raised.value) == f"{type(data).__name__!r} object has no attribute {name!r}; {advice}"


def test_the_advice_names_members_that_there_are() -> None:
    for name, advice in INSTEAD.items():
        calls = set(re.findall(r"(?<![\w.])(\w+)\(", advice)) - OTHERS
        assert [call for call in calls if not callable(getattr(TensorClass, call, None))] == [], name


def test_python_adds_no_other_name() -> None:
    with pytest.raises(AttributeError) as raised:
        BATCH.sort_values
    with contextlib.redirect_stderr(io.StringIO()) as out:
        sys.__excepthook__(AttributeError, raised.value, None)
    assert "Did you mean" not in out.getvalue()


def test_fields_and_members_of_subclasses_can_have_these_names() -> None:
    table = Table(columns=torch.zeros(2), batch_size=[2])
    assert (table.columns.shape, table.index, table.iloc) == ((2,), 3, 7)
    assert {"columns", "index", "iloc"} <= set(dir(table)) & set(dir(Table))


def test_completion_does_not_offer_them() -> None:
    assert not INSTEAD.keys() & {*dir(BATCH), *dir(Sample), *dir(TensorDict())}


def test_private_names_of_the_package_are_not_listed() -> None:
    class Own(TensorClass):
        x: Tensor

        def _mine(self) -> None: ...

    names = dir(Own(torch.zeros(2)))
    assert "_mine" in names
    assert "__len__" in names
    assert "_store" not in names
    assert len(names) < 750  # beyond that, Python looks for no similar name


def test_setting_one_is_the_error_of_a_missing_attribute() -> None:
    with pytest.raises(AttributeError, match="'Sample' object has no attribute 'columns'; keys"):
        BATCH.columns = ["a"]
    with pytest.raises(AttributeError, match="'TensorDict' object has no attribute 'columns'; keys"):
        del TensorDict().columns


def test_instances_with_a_dict_can_have_them() -> None:
    data = Annotated({"a": 1})
    assert data.features == 3
    del data.features
    with pytest.raises(AttributeError, match="'Annotated' object has no attribute 'features'; print"):
        del data.features


def test_members_that_there_are_have_no_advice() -> None:
    assert [name for name in INSTEAD if inspect.getattr_static(object, name, None) or name in dir(TensorClass)] == []
