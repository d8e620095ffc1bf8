"""A printed TensorDict is read back, in the long and in the compact form."""

from __future__ import annotations

from typing import Any

import pytest
import tensordict
import torch

from tensorclass import TensorDict, parse_tensor_dict_string, set_printoptions

FORMS = [{"compact": False}, {"compact": True}]


def sample(library: Any = None) -> Any:
    td = (library or __import__("tensorclass")).TensorDict
    return td(
        {
            "a": torch.zeros(3, 4, dtype=torch.float64),
            "flag": torch.zeros(3, dtype=torch.bool),
            "n": td({"b": torch.zeros(3, 2, 5, dtype=torch.complex64), "e": td({}, [3])}, [3, 2]),
            "meta": torch.zeros(3, device="meta"),
        },
        [3],
    )


def assert_alike(result: Any, expected: Any) -> None:
    assert result.batch_size == expected.batch_size
    assert sorted(result.keys()) == sorted(expected.keys())
    for key in expected.keys():  # noqa: SIM118
        got, value = result.get(key), expected.get(key)
        if isinstance(value, torch.Tensor):
            assert (got.shape, got.dtype, got.device) == (value.shape, value.dtype, value.device)
        else:
            assert_alike(got, value)


@pytest.mark.parametrize("options", FORMS)
def test_what_is_printed_is_read_back(options: dict[str, bool]) -> None:
    with set_printoptions(**options):
        text = repr(sample())
    assert_alike(parse_tensor_dict_string(text), sample())


@pytest.mark.parametrize("options", FORMS)
def test_what_the_peer_prints_is_read_back(options: dict[str, bool]) -> None:
    with tensordict.set_printoptions(**options):
        text = repr(sample(tensordict))
    assert_alike(parse_tensor_dict_string(text), sample())


@pytest.mark.parametrize("options", FORMS)
def test_a_collection_on_a_device_is_read_back(options: dict[str, bool]) -> None:
    data = TensorDict({"a": torch.zeros(3)}, [3], device="meta")
    with set_printoptions(**options):
        assert parse_tensor_dict_string(repr(data)).device == torch.device("meta")


def test_names_are_read_back() -> None:
    data = TensorDict({"a": torch.zeros(2, 3)}, [2, 3], names=["x", None])
    assert parse_tensor_dict_string(repr(data)).names == ["x", None]


@pytest.mark.parametrize(
    "text", ["", "Sample(a=1)", "TensorDict(fields={", "TensorDict(batch_size=[2], fields={a: str})"]
)
def test_what_is_no_printed_tensordict_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="at position"):
        parse_tensor_dict_string(text)


def test_text_is_an_error() -> None:
    with pytest.raises(ValueError, match="only TensorDicts of tensors"):
        parse_tensor_dict_string(repr(TensorDict({"text": "hello"})))
