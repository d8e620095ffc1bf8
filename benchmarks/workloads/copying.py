"""Copies, casts and moves."""

from typing import Any

import torch

from benchmarks.sides import Batch
from benchmarks.workloads.table import Operation, on_forms


def _nested_clone(d: dict[str, Any], n: Batch) -> Any:
    return {k: {j: w.clone() for j, w in v.items()} if isinstance(v, dict) else v.clone() for k, v in d.items()}, n


CLONE = Operation("clone", lambda x: x.clone(), lambda d, n: ({k: v.clone() for k, v in d.items()}, n))
TO_CPU = Operation('to("cpu")', lambda x: x.to("cpu"), lambda d, n: ({k: v.to("cpu") for k, v in d.items()}, n))

COPIES = (
    CLONE,
    Operation("clone(recurse=False)", lambda x: x.clone(recurse=False), lambda d, n: (dict(d), n)),
    Operation(
        "to(dtype)",
        lambda x: x.to(torch.float64),
        lambda d, n: ({k: v.to(torch.float64) for k, v in d.items()}, n),
    ),
    TO_CPU,
    Operation("double", lambda x: x.double(), lambda d, n: ({k: v.double() for k, v in d.items()}, n)),
    Operation("detach", lambda x: x.detach(), lambda d, n: ({k: v.detach() for k, v in d.items()}, n)),
    Operation("zeros_like", torch.zeros_like, lambda d, n: ({k: torch.zeros_like(v) for k, v in d.items()}, n)),
)

WORKLOADS = (
    *on_forms(COPIES),
    *on_forms((CLONE, TO_CPU), ("td50",)),
    *on_forms((Operation("clone", lambda x: x.clone(), _nested_clone),), ("nested record", "nested td")),
)
