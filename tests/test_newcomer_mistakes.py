"""Mistakes of newcomers, and what each error must tell: the field, what was expected, what came, what to do.

Each mistake is code as a newcomer writes it, coming from PyTorch, dataclasses, pandas or tensordict. The text is what
Python prints, so the nearest attribute, which Python itself looks for, is part of it.
"""

import contextlib
import dataclasses
import io
import sys
import types
from pathlib import Path
from typing import Any, NamedTuple

import pytest

SETUP = """
import dataclasses
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

import tensorclass as tc
from tensorclass import DataLoader, Device, DType, Range, Ragged, Shape, TensorClass, TensorDict, Text
from tensorclass.nn import TensorDictModule


class Sample(TensorClass):
    image: Tensor
    label: Tensor
    source: str = ""


class Picture(TensorClass):
    image: Float[Tensor, "3 h w"]
    label: Int[Tensor, ""]


class Question(TensorClass):
    prompt: Text
    tokens: Ragged[Int[Tensor, "n"]]


class Pair(TensorClass):
    left: Sample


batch = Sample(image=torch.rand(4, 3, 8), label=torch.arange(4), batch_size=[4])
one = Sample(image=torch.rand(4, 3, 8), label=torch.arange(4))
pair = Pair(batch, batch_size=[4])
data = TensorDict({"image": torch.zeros(4, 3), "stats": {"mean": torch.zeros(4)}}, batch_size=[4])
"""


class Mistake(NamedTuple):
    """Code, the class of its error, and parts of the printed error."""

    code: str
    error: type[Exception]
    parts: tuple[str, ...]


def mistake(code: str, error: type[Exception], *parts: str) -> Mistake:
    return Mistake(code, error, parts)


MISTAKES = {
    # -- from dataclasses: names, arguments, declarations
    "an argument with a typo": mistake(
        "Sample(imgae=torch.zeros(4), label=torch.zeros(4))",
        TypeError,
        "Sample.__init__() got an unexpected keyword argument 'imgae'. Did you mean: 'image'?",
    ),
    "an argument that is left out": mistake(
        "Sample(image=torch.zeros(4))", TypeError, "missing 1 required positional argument: 'label'", "with a default"
    ),
    "the batch size by position": mistake(
        'Sample(torch.zeros(4), torch.zeros(4), "web", [4])',
        TypeError,
        "takes from 3 to 4 positional arguments but 5 were given",
        "give batch_size, device and names by keyword",
    ),
    "batchsize": mistake(
        "Sample(torch.zeros(4), torch.zeros(4), batchsize=[4])", TypeError, "'batchsize'. Did you mean: 'batch_size'?"
    ),
    "an attribute with a typo": mistake(
        "batch.imgae", AttributeError, "'Sample' object has no attribute 'imgae'. Did you mean: 'image'?"
    ),
    "a field without an annotation": mistake(
        "class Item(TensorClass):\n    x = 3.0\nItem(x=torch.zeros(2))",
        TypeError,
        "unexpected keyword argument 'x'",
        "'x' is no field, as it has no annotation",
        "x: Tensor",
    ),
    "replace with a typo": mistake(
        "batch.replace(lable=batch.label)", AttributeError, "no field 'lable'", "'image', 'label', 'source'", "'label'?"
    ),
    "an own constructor without super": mistake(
        "class Item(TensorClass):\n    x: Tensor\n    def __init__(self, x):\n        self.x = x\nItem(torch.zeros(2))",
        AttributeError,
        "Item: ",
        "super().__init__(...)",
        "__post_init__",
        "mistakes.html#own-constructor",
    ),
    "an option with a typo": mistake(
        "class Item(TensorClass, frozn=True):\n    x: Tensor", TypeError, "Item: unknown options ['frozn']", "'frozen'?"
    ),
    "a function as annotation": mistake(
        "class Item(TensorClass):\n    x: torch.tensor",
        TypeError,
        "Item.x: ",
        "function",
        "torch.Tensor",
        "#bad-contract",
    ),
    "None for a field that is not optional": mistake(
        "Sample(None, torch.zeros(4))", TypeError, "Sample.image: expected Tensor, got NoneType", "image: Tensor | None"
    ),
    # -- from dicts and tensordict: keys
    "a key with a typo": mistake('data["imgae"]', KeyError, "['image', 'stats']. Did you mean: 'image'?"),
    "a nested key with a typo": mistake(
        'pair["left", "lable"]', KeyError, "key ('left', 'lable')", "this Sample", "Did you mean: 'label'?"
    ),
    "a key that is no field": mistake(
        'batch["logits"] = torch.zeros(4, 2)',
        AttributeError,
        "Sample has no field 'logits'",
        "mistakes.html#undeclared-field",
    ),
    "a dict with other keys": mistake(
        'Sample.from_dict({"imgae": torch.zeros(4), "label": torch.zeros(4)})',
        TypeError,
        "image: expected Tensor, got nothing",
        "imgae: expected one of the fields 'image', 'label', 'source'",
        "Did you mean: 'image'?",
    ),
    # -- batch size and shapes
    "a row of a record without batch size": mistake(
        "one[0]", IndexError, "batch size []", "there are no rows", "batch_size=", "mistakes.html#no-batch-size"
    ),
    "a loader of a record without batch size": mistake(
        "list(DataLoader(one, batch_size=2))",
        TypeError,
        "this Sample has the batch size []",
        "Sample(..., batch_size=[n])",
    ),
    "values of different numbers of rows": mistake(
        "Sample(torch.zeros(31, 3), torch.zeros(32), batch_size=[32])",
        RuntimeError,
        "image: batch dimension mismatch: expected batch dimensions [32] in front, got shape [31, 3]",
        "batch_size=",
        "mistakes.html#batch-mismatch",
    ),
    "an index into the dimensions of items": mistake(
        "batch[:, 0]", IndexError, "too many indices: 2 of them for the batch size [4]", "#batch-dimensions"
    ),
    "a shape for the items": mistake("batch.reshape(4, 24)", RuntimeError, "[4, 24]", "[4]", "#batch-dimensions"),
    "a reduction over the items": mistake("batch.sum(dim=1)", IndexError, "in [-1, 0], got 1", "#batch-dimensions"),
    "images with channels last": mistake(
        "Picture(torch.zeros(2, 8, 8, 3), torch.zeros(2).long())",
        TypeError,
        'Picture.image: expected Float[Tensor, "3 h w"] behind the batch dimensions [2], got shape [2, 8, 8, 3]',
        "dimension 1 must be 3, it is 8",
    ),
    # -- dtypes and devices
    "bytes where floats are declared": mistake(
        "Picture(torch.zeros(2, 3, 8, 8, dtype=torch.uint8), torch.zeros(2).long())",
        TypeError,
        "Picture.image",
        "the dtype uint8 is not float",
        ".to(dtype)",
    ),
    "a mean of integers": mistake("batch.mean(dim=0)", RuntimeError, "label: ", "dtype=torch.float32", ".exclude("),
    "a device with a typo": mistake('batch.to("cdua")', RuntimeError, "got 'cdua'", "Did you mean: 'cuda'?"),
    "a dtype as text": mistake('batch.to("float32")', RuntimeError, "'float32' is a dtype", "torch.float32"),
    # -- contracts that are wrong when the class is defined
    "commas in a shape": mistake(
        'class Item(TensorClass):\n    x: Annotated[Tensor, Shape("3, h, w")]',
        ValueError,
        "'3, h, w' has commas",
        "'3 h w'",
        "mistakes.html#bad-contract",
    ),
    "a dtype that there is not": mistake('DType("flaot32")', ValueError, "'flaot32'", "Did you mean: 'float32'?"),
    "a dtype as annotation": mistake(
        "class Item(TensorClass):\n    x: torch.float32", TypeError, "Item.x: torch.float32 is a dtype", "Annotated["
    ),
    # -- joining, text, rows of different lengths
    "joining rows of different lengths": mistake(
        "torch.stack([Sample(torch.zeros(5), torch.zeros(1)), Sample(torch.zeros(7), torch.zeros(1))])",
        RuntimeError,
        "stack: image: ",
        "[5] at entry 0 and [7] at entry 1",
        "pad_sequence",
        "lazy_stack",
        "Ragged",
        "mistakes.html#different-lengths",
    ),
    "joining rows of different sources": mistake(
        'torch.cat([batch, batch.replace(source="web")])', RuntimeError, "cat: source: ", "'' and 'web'", "Text"
    ),
    "text for a field of tensors": mistake(
        'Sample(["a", "b"], torch.zeros(2), batch_size=[2])',
        TypeError,
        "Sample.image",
        "list ['a', 'b']",
        "image: Text",
    ),
    "lists of different lengths": mistake(
        "Sample([[1, 2], [3]], torch.zeros(2), batch_size=[2])", TypeError, "Sample.image", "Ragged", "#not-a-tensor"
    ),
    # -- networks
    "a record for a layer": mistake(
        "nn.Linear(8, 2)(batch)", TypeError, "linear is not defined for a Sample", "give it tensors", "data.apply("
    ),
    "a key that a module reads": mistake(
        'TensorDictModule(nn.Linear(3, 2), in_keys=["x"], out_keys=["y"])(data)',
        KeyError,
        "the in_keys ['x'] are missing",
        "['image', ('stats', 'mean')]",
    ),
    # -- tables: pandas, SQL
    "a list of columns as index": mistake('batch[["image", "label"]]', IndexError, ".select('image', 'label')"),
    "a join with a typo": mistake(
        'batch.join(batch, on="label", how="innner")', ValueError, "join: how", "'innner'", "Did you mean: 'inner'?"
    ),
    "sorting by a typo, in the words of pandas": mistake(
        'batch.sort_by("label", ascending=False)',
        TypeError,
        "sort_by() got an unexpected",
        "'ascending'; descending=True reverses the order",
    ),
    "nulls in a column": mistake(
        "import pyarrow as pa\nPicture.from_arrow(pa.table({'image': [[[[0.0]]]] * 3, 'label': [1, None, None]}))",
        TypeError,
        "label: expected no nulls, as it has no default, got 2 nulls, the first in rows 1, 2",
        "nulls='fill'",
        "mistakes.html#nulls",
    ),
    # -- files
    "a file of another format": mistake(
        "from pathlib import Path\nPath('rows.csv').write_text('a,b\\n1,2\\n')\ntc.load('rows.csv')",
        ValueError,
        "rows.csv",
        "from_csv() loads it",
    ),
    "a file with another delimiter": mistake(
        "from pathlib import Path\nPath('rows.csv').write_text('image;label\\n1;2\\n')\nSample.from_csv('rows.csv')",
        ValueError,
        "rows.csv: expected columns for the fields ['image', 'label', 'source'], got the one column 'image;label'",
        "give delimiter=';'",
    ),
    "an option of a reader with a typo": mistake(
        "Sample.from_parquet('rows.parquet', colums=['image'])", TypeError, "options 'colums'. Did you mean: 'columns'?"
    ),
    "an option of a reader with a typo, in the words of pandas": mistake(
        "Sample.from_csv('rows.csv', usecol=['image'])", TypeError, "options 'usecol'; for usecols use columns"
    ),
    "an option of a file with a typo, and no option near it": mistake(
        "Sample.load_safetensors('rows', colums=['image'])", TypeError, "unexpected keyword argument 'colums'\n"
    ),
    "an argument by position that has to be named": mistake(
        "batch.to_pandas(True)", TypeError, "to_pandas() too many positional arguments; it takes separator, copy"
    ),
    # -- what other libraries have
    "a method of pandas": mistake(
        "batch.sort_values('label')", AttributeError, "no attribute 'sort_values'; sort_by(keys) sorts the rows"
    ),
    "a record from a dict": mistake(
        "Sample({'image': torch.zeros(4), 'label': torch.zeros(4)})", TypeError, "Sample.from_dict takes a mapping"
    ),
    "a function as index": mistake("batch[lambda rows: rows.label > 1]", IndexError, ".filter(function)"),
    "the name of a function": mistake("batch.apply('sqrt')", TypeError, "expected a function", "torch.sqrt", "'sqrt'"),
    "a dtype as text, by keyword": mistake("batch.to(dtype='float')", TypeError, "to: dtype: ", "'float'"),
    "tensors to pad": mistake(
        "tc.pad_sequence([torch.zeros(3), torch.zeros(2)])", TypeError, "list of collections", "got a Tensor", "rnn.pad"
    ),
    "batches of different sizes": mistake(
        "batch + batch[:3]", RuntimeError, "the batch sizes [4] and [3] do not broadcast to one size"
    ),
    "items of different sizes": mistake(
        "data.select('image') + TensorDict({'image': torch.zeros(4, 5)}, [4])",
        RuntimeError,
        "image: the shapes [4, 3] and [4, 5] do not broadcast to one shape",
    ),
    "the size of a dimension of the items": mistake(
        "batch.size(1)", IndexError, "expected it in [-1, 0], got 1", "#batch-dimensions"
    ),
    "a share of rows as text": mistake(
        "batch.train_test_split('20%')", ValueError, "test_size: expected a fraction between 0 and 1", "got '20%'"
    ),
    "a list for a pipeline": mistake(
        "tc.Pipeline([len])", TypeError, "expected stages", "got a list", "Stage(function)"
    ),
    "a value that breaks a contract": mistake(
        "Picture(torch.zeros(2, 3, 8, 8), torch.zeros(2))",
        TypeError,
        'Picture.label: expected Int[Tensor, ""]',
        "mistakes.html#broken-contract",
    ),
}


@pytest.fixture(scope="module")
def space() -> dict[str, Any]:
    """Names of a newcomer's session."""
    module = types.ModuleType("newcomer")
    sys.modules[module.__name__] = module
    exec(SETUP, module.__dict__)
    return module.__dict__


def printed(error: Exception) -> str:
    """Return what Python prints for an error that nobody catches."""
    with contextlib.redirect_stderr(io.StringIO()) as out:
        sys.__excepthook__(type(error), error, None)
    return out.getvalue()


@pytest.mark.parametrize("name", MISTAKES)
def test_the_error_tells_what_to_do(
    name: str, space: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, error, parts = MISTAKES[name]
    with pytest.raises(error) as raised:
        exec(code, dict(space))
    text = printed(raised.value)
    assert [part for part in parts if part not in text] == [], text


def test_a_class_that_was_defined_again_is_named_with_both_places(space: dict[str, Any]) -> None:
    again = dict(space)
    exec(SETUP, again)  # a notebook cell that ran twice
    with pytest.raises(TypeError) as raised:
        again["Pair"](space["batch"], batch_size=[4])
    text = printed(raised.value)
    parts = [
        "Pair.left: expected Sample, got Sample",
        "defined again after",
        "Sample.from_any(value)",
        "#redefined-class",
    ]
    assert [part for part in parts if part not in text] == []


def test_dataclasses_replace_names_the_nearest_field_too(space: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'lable'\. Did you mean: 'label'\?"):
        dataclasses.replace(space["batch"], lable=None)
