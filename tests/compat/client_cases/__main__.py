"""``python -m tests.compat.client_cases GROUP FILE``: run the cases of a group, and write their outcomes."""

from __future__ import annotations

import importlib
import sys
import warnings

import torch

from .outcomes import outcome


def main(group: str, file: str) -> None:
    """Run the cases and write a dict of their outcomes."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    module = importlib.import_module(f"tests.compat.client_cases.{group}")
    torch.save({name: outcome(case) for name, case in module.cases()}, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
