"""Convert names of devices to devices of torch, with advice for wrong names."""

from __future__ import annotations

from typing import TypeAlias

import torch

from tensorclass.support.nearest import did_you_mean

DeviceLike: TypeAlias = torch.device | str | int


def as_device(device: DeviceLike | None) -> torch.device | None:
    """Return a device in the form that tensors report, with an index for accelerators, so that ``==`` compares devices.

    >>> as_device("cpu")
    device(type='cpu')
    """
    if device is None:
        return None
    device = named_device(device)
    needs_index = device.type not in ("cpu", "meta") and ":" not in str(device)
    return torch.empty((), device=device).device if needs_index else device


def named_device(device: DeviceLike) -> torch.device:
    """Return a device by its name.

    Raises:
        RuntimeError: torch has no device of this name.

    >>> named_device("cuda:1")
    device(type='cuda', index=1)
    """
    try:
        return torch.device(device)
    except RuntimeError as error:
        raise _no_device(device, error) from None


def _no_device(name: DeviceLike, error: RuntimeError) -> RuntimeError:
    """Return the error for a name that torch does not know, or the error of torch."""
    if not isinstance(name, str):
        return error
    if isinstance(getattr(torch, name, None), torch.dtype):
        return RuntimeError(f"device: {name!r} is a dtype; give it as torch.{name}")
    near = ". Did you mean: 'cuda'?" if name.startswith("gpu") else did_you_mean(name, _DEVICES)
    return RuntimeError(f"device: expected a device of torch such as 'cpu', 'cuda' or 'cuda:1', got {name!r}{near}")


_DEVICES = ("cpu", "cuda", "mps", "xpu", "meta", "hpu", "mtia")
