"""Bytes as tensors and back, and tensors as they are sent."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

ALIGN = 16  #: bytes; a multiple of the size of every dtype


def padded(size: int) -> int:
    """Return a number of bytes rounded up to a multiple of :data:`ALIGN`."""
    return -(-size // ALIGN) * ALIGN


def as_bytes(content: bytes | bytearray) -> Tensor:
    """Return bytes as a tensor of uint8 on the CPU: a copy."""
    if not content:
        return torch.empty(0, dtype=torch.uint8, device="cpu")
    found: Tensor = torch.frombuffer(bytearray(content), dtype=torch.uint8)  # pyright: ignore[reportUnknownMemberType]
    return found


def to_bytes(tensor: Tensor) -> bytes:
    """Return the memory of a tensor as bytes."""
    return tensor.cpu().contiguous().numpy().tobytes()


def as_message(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a tensor as it is sent: contiguous, without conjugate and negative bits; itself if it is that."""
    return tensor.detach().to(device).resolve_conj().resolve_neg().contiguous()


def digest_of(text: bytes, size: int = 8) -> int:
    """Return a digest of ``size`` bytes that is the same in all processes."""
    return int.from_bytes(hashlib.blake2b(text, digest_size=size).digest(), "little")
