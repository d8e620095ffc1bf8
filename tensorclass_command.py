"""The script ``tensorclass``: its help and errors of usage come before PyTorch is imported, which takes seconds.

Importing any module of a package runs the package's ``__init__`` first, and that of ``tensorclass`` imports PyTorch.
Here ``tensorclass.cli``, which needs no more than the standard library, is imported from a package that has not been
run yet; the package runs once the arguments are known to be right.
"""

from __future__ import annotations

import sys
from functools import partial
from importlib import import_module
from importlib.util import find_spec, module_from_spec

__all__ = ["main"]


def main() -> int:
    """Run the command with the arguments of this process, and return its exit code."""
    spec = find_spec("tensorclass")
    assert spec is not None
    assert spec.loader is not None
    package = module_from_spec(spec)
    sys.modules[spec.name] = package
    code: int = import_module("tensorclass.cli").main(before=partial(spec.loader.exec_module, package))
    return code


if __name__ == "__main__":
    sys.exit(main())
