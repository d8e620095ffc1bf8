"""The table of cases: the name of a public method, or of a function with ``()``, and what the case is about.

A new line in one of the tables is tried by itself and among sequences of operations; test_coverage says which public
names have none.
"""

from __future__ import annotations

import tensorclass.utils
from tests.parity.cases import dictionary, files, functions, lazy, locking, shaping, tools, values
from tests.parity.drawn import Case

CASES: dict[str, Case] = {
    **shaping.SHAPING,
    **shaping.ROWS,
    **shaping.COMBINING,
    **dictionary.READING,
    **dictionary.WRITING,
    **dictionary.CHOOSING,
    **dictionary.COPIES,
    **values.NUMBERS,
    **values.REDUCTIONS,
    **values.DEVICES,
    **values.MAPPING,
    **values.CREATION,
    **locking.LOCKING,
    **functions.CONSTRUCTORS,
    **functions.TENSORS,
    **functions.PLAIN,
    **lazy.LAZY,
    **lazy.STACKS_OF_OBJECTS,
    **files.FILES,
    **tools.TOOLS,
    **tools.FORMS,
    **tools.SWITCHES,
}


def name_of(case: str) -> str:
    """The public name that a case is about."""
    return case.split(":")[0]


METHODS = (
    tensorclass.TensorDict,
    tensorclass.LazyStackedTensorDict,
    tensorclass.NonTensorStack,
    tensorclass.NonTensorData,
    tensorclass.TensorClass,
)
FUNCTIONS = tensorclass, tensorclass.utils


def is_here(name: str) -> bool:
    owners = FUNCTIONS if name.endswith("()") else METHODS
    return name.startswith("__") or any(hasattr(owner, name.removesuffix("()")) for owner in owners)


OPERATIONS = {name: case for name, case in CASES.items() if is_here(name_of(name))}
