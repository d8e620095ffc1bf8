"""Operations on whole collections, called with two collections of the same keys and the batch size [4]."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

import tensorclass
from tensorclass import lazy_stack, merge_tensordicts

ROWS, MASK = torch.tensor([0, 2]), torch.tensor([True, False, True, False])


def in_place(change: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def call(d: Any, e: Any) -> Any:
        change(d, e)
        return d

    return call


OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "exp": lambda d, e: d.exp(),
    "erf": lambda d, e: d.erf(),
    "sqrt_": in_place(lambda d, e: d.sqrt_()),
    "add": lambda d, e: d + e,
    "add a number": lambda d, e: d + 1,
    "add a tensor": lambda d, e: d + torch.arange(4.0),
    "add a default": lambda d, e: d.add(e, default=1.0),
    "add_": in_place(lambda d, e: d.add_(e)),
    "add_ a tensor": in_place(lambda d, e: d.add_(torch.arange(4.0))),
    "eq": lambda d, e: d == e,
    "maximum": lambda d, e: d.maximum(e),
    "lerp": lambda d, e: d.lerp(e, 0.5),
    "addcmul": lambda d, e: d.addcmul(e, e),
    "mse_loss": lambda d, e: torch.nn.functional.mse_loss(d, e, reduction="none"),
    "masked_fill": lambda d, e: d.masked_fill(MASK, 9.0),
    "sum": lambda d, e: d.sum(0),
    "mean": lambda d, e: d.mean(),
    "all": lambda d, e: (d > 1).all(0),
    "reshape": lambda d, e: d.reshape(2, 2),
    "unsqueeze": lambda d, e: d.unsqueeze(0),
    "expand": lambda d, e: d.expand(2, 4),
    "split": lambda d, e: d.split([1, 3]),
    "unbind": lambda d, e: d.unbind(0),
    "flip": lambda d, e: d.flip(0),
    "gather": lambda d, e: d.gather(0, ROWS),
    "row": lambda d, e: d[0],
    "rows": lambda d, e: d[ROWS],
    "range": lambda d, e: d[1:3],
    "mask": lambda d, e: d[MASK],
    "write a row": in_place(lambda d, e: d.__setitem__(0, e[0])),
    "write rows": in_place(lambda d, e: d.__setitem__(ROWS, e[ROWS])),
    "write a number": in_place(lambda d, e: d.__setitem__(0, 7)),
    "stack": lambda d, e: torch.stack([d, e]),
    "cat": lambda d, e: torch.cat([d, e]),
    "where": lambda d, e: d.where(MASK, e),
    "lazy_stack": lambda d, e: lazy_stack([d, e]).contiguous(),
    "add to a lazy stack": lambda d, e: (lazy_stack([d, e]) + 1).contiguous(),
    "merge": lambda d, e: merge_tensordicts(d, e, callback_exist=torch.add),
    "clone": lambda d, e: d.clone(),
    "to": lambda d, e: d.to(torch.float64),
    "contiguous": lambda d, e: d.contiguous(),
    "detach": lambda d, e: d.detach(),
    "apply": lambda d, e: d.apply(torch.add, e),
    "apply in threads": lambda d, e: d.apply(torch.add, e, num_threads=1),
    "attrs in threads": lambda d, e: {
        key: value.tgt_shape for key, value in d.attrs(num_threads=2).exclude("n").items()
    },
    "named_apply": lambda d, e: d.named_apply(lambda name, value: value + 1),
    "update": in_place(lambda d, e: d.update(e)),
    "update_": in_place(lambda d, e: d.update_(e)),
    "copy_at_": in_place(lambda d, e: d.copy_at_(e[1:3], slice(1, 3))),
    "flatten_keys": lambda d, e: d.flatten_keys("."),
    "to_dict": lambda d, e: d.to_dict(),
    "keys": lambda d, e: sorted(map(str, d.keys(True, True))),
    "items": lambda d, e: dict(d.items(True, True)),
    "to_namedtuple": lambda d, e: d.exclude("n").to_namedtuple()._asdict(),
    "pickle": lambda d, e: pickle.loads(pickle.dumps(d)),
    "state_dict": lambda d, e: dict(d.state_dict()),
    "consolidate": lambda d, e: d.consolidate(),
    "share_memory": lambda d, e: d.memmap(),
    "zeros_like": lambda d, e: torch.zeros_like(d),
    "tree_map": lambda d, e: pytree.tree_map(torch.neg, d),
    "vmap": lambda d, e: torch.vmap(torch.add)(d, e),
    "grad": lambda d, e: torch.autograd.grad((d.requires_grad_() * e).sum(), d),
    "pad_sequence": lambda d, e: tensorclass.pad_sequence([d, e]),
    "join": lambda d, e: d.set("k", torch.arange(4)).join(e.set("k", torch.arange(4)), on="k"),
}
