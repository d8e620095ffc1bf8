"""The two libraries behind one interface, and the data of the workloads.

Both have the same names (`TensorClass`, `TensorDict`), so a workload is written once and built for each side. Its
hand-written counterpart works on a plain dict of tensors with the batch size, a tuple, carried along.
"""

import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import tensordict
import torch
from torch import Tensor

import tensorclass
from tensorclass import DType, Shape

Batch = tuple[int, ...]
Form = Literal["record", "td", "td50", "nested record", "nested td"]
Hand = tuple[dict[str, Any], Batch]

# Per row: the shapes after the batch dimensions.
FIELDS: dict[str, Batch] = {"observation": (8,), "action": (2,), "reward": (), "value": ()}


def four(batch: Batch, seed: int = 0) -> dict[str, Tensor]:
    """Four fields of random floats; the same seed gives the same numbers to every side."""
    random = torch.Generator().manual_seed(seed)
    return {key: torch.rand((*batch, *shape), generator=random) for key, shape in FIELDS.items()}


def fifty(batch: Batch, seed: int = 0) -> dict[str, Tensor]:
    """Fifty fields, half of them vectors."""
    random = torch.Generator().manual_seed(seed)
    return {f"f{i:02d}": torch.rand((*batch, *(() if i % 2 else (4,))), generator=random) for i in range(50)}


def nested(batch: Batch, seed: int = 0) -> dict[str, Any]:
    """Two nested dicts of four fields beside two fields."""
    outer = four(batch, seed)
    return {
        "before": four(batch, seed + 1),
        "after": four(batch, seed + 2),
        "reward": outer["reward"],
        "value": outer["value"],
    }


SOURCES = {"record": four, "td": four, "td50": fifty, "nested record": nested, "nested td": nested}


def by_hand(form: Form, batch: Batch, seed: int = 0) -> Hand:
    """The hand-written side's data of a form."""
    return SOURCES[form](batch, seed), batch


@dataclass(frozen=True)
class Side:
    """One library: its collection and the records declared with it."""

    name: str
    TensorDict: Any
    Record: Any
    Nested: Any
    Note: Any
    Contracted: Any
    """A record like `Record` with a contract on each field; the peer has none, and declares tensors."""

    def make(self, form: Form, batch: Batch, seed: int = 0) -> Any:
        """This side's data of a form: a record, a TensorDict, ..."""
        source = SOURCES[form](batch, seed)
        if form == "record":
            return self.Record(**source, batch_size=batch)
        if form == "nested record":
            inner = {key: self.Record(**source.pop(key), batch_size=batch) for key in ("before", "after")}
            return self.Nested(**inner, **source, batch_size=batch)
        return self.TensorDict(source, batch)


def _declare(name: str, base: Any, fields: Mapping[str, Any]) -> Any:
    """A record class, as a class statement in this module would make it (pickle finds it under `name`)."""

    def body(namespace: dict[str, Any]) -> None:
        namespace.update(__module__=__name__, __annotations__=dict(fields))

    return types.new_class(name, (base,), {}, body)


_FLAT = dict.fromkeys(FIELDS, Tensor)

OursRecord = _declare("OursRecord", tensorclass.TensorClass, _FLAT)
PeerRecord = _declare("PeerRecord", tensordict.TensorClass, _FLAT)
OursNested = _declare(
    "OursNested",
    tensorclass.TensorClass,
    {"before": OursRecord, "after": OursRecord, "reward": Tensor, "value": Tensor},
)
PeerNested = _declare(
    "PeerNested",
    tensordict.TensorClass,
    {"before": PeerRecord, "after": PeerRecord, "reward": Tensor, "value": Tensor},
)
OursNote = _declare("OursNote", tensorclass.TensorClass["stack_objects"], {"score": Tensor, "text": str})
PeerNote = _declare("PeerNote", tensordict.TensorClass, {"score": Tensor, "text": str})

OursContracted = _declare(
    "OursContracted",
    tensorclass.TensorClass,
    {
        "observation": Annotated[Tensor, Shape("8"), DType("float")],
        "action": Annotated[Tensor, Shape("2"), DType("float")],
        "reward": Annotated[Tensor, Shape(""), DType("float")],
        "value": Annotated[Tensor, Shape(""), DType("float")],
    },
)

OURS = Side("ours", tensorclass.TensorDict, OursRecord, OursNested, OursNote, OursContracted)
PEER = Side("peer", tensordict.TensorDict, PeerRecord, PeerNested, PeerNote, PeerRecord)
