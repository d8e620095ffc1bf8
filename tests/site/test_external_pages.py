"""Names of Python, torch and numpy lead to the pages of their sites."""

import pytest
from external_pages import address

TORCH = "https://docs.pytorch.org/docs/stable/"
PYTHON = "https://docs.python.org/3/library/"
NUMPY = "https://numpy.org/doc/stable/reference/"


@pytest.mark.parametrize(
    "name, page",
    [
        ("torch.Tensor", f"{TORCH}tensors.html#torch.Tensor"),
        ("Tensor", f"{TORCH}tensors.html#torch.Tensor"),
        ("torch.Tensor.reshape", f"{TORCH}generated/torch.Tensor.reshape.html#torch.Tensor.reshape"),
        ("torch.stack", f"{TORCH}generated/torch.stack.html#torch.stack"),
        ("torch.nn.Module.buffers", f"{TORCH}generated/torch.nn.Module.html#torch.nn.Module.buffers"),
        ("torch.float32", f"{TORCH}tensor_attributes.html#torch.dtype"),
        ("torch.distributed.send", f"{TORCH}distributed.html#torch.distributed.send"),
        ("torch.distributions.Normal", f"{TORCH}distributions.html#torch.distributions.normal.Normal"),
        ("torch.utils.data", f"{TORCH}data.html#module-torch.utils.data"),
        ("numpy.ndarray", f"{NUMPY}generated/numpy.ndarray.html#numpy.ndarray"),
        ("numpy.float32", f"{NUMPY}arrays.scalars.html#numpy.float32"),
        ("str", f"{PYTHON}stdtypes.html#str"),
        ("int", f"{PYTHON}functions.html#int"),
        ("TypeError", f"{PYTHON}exceptions.html#TypeError"),
        ("None", f"{PYTHON}constants.html#None"),
        ("collections.abc.Sequence", f"{PYTHON}collections.abc.html#collections.abc.Sequence"),
        ("typing_extensions.Self", f"{PYTHON}typing.html#typing.Self"),
        ("torch.no_such_function", None),
        ("no_such_package.name", None),
        ("hypothesis.given", None),
    ],
)
def test_a_name_leads_to_its_page(name: str, page: str | None) -> None:
    assert address(name) == page
