"""Generated code that checks contracts: straight-line comparisons, written once for each class.

The code only answers whether all values fit. :mod:`checking` finds out which do not, and why. A field that the code
cannot decide, such as a union of contracts, counts as one that does not fit.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Size

from .contract import Contract
from .dims import Dim
from .row_contract import RowContract

if TYPE_CHECKING:
    from tensorclass.records.fields import FieldSpec


def writer_of(specs: Mapping[str, FieldSpec]) -> CheckWriter:
    """Return a writer for the fields of a class."""
    rows = {key: spec.row_contract for key, spec in specs.items() if spec.row_contract is not None}
    return CheckWriter({key: rows[key].item if key in rows else spec.contract for key, spec in specs.items()}, rows)


class CheckWriter:
    """Generates the checks of fields, one after the other.

    Args:
        contracts: the contract of each field, or of the items of a ragged one, in the order in which the checks are
            written.
        rows: the row contracts of ragged fields. The lengths of rows are not checked here.
    """

    def __init__(self, contracts: Mapping[str, Contract | None], rows: Mapping[str, RowContract] | None = None) -> None:
        self.contracts = contracts
        self._rows: Mapping[str, RowContract] = rows or {}
        #: globals of the generated code
        self.space: dict[str, Any] = {"__len": len}
        counts = Counter(
            name
            for contract in contracts.values()
            if contract is not None and contract.dims is not None
            for dim in contract.dims
            for name in (*dim.names, *(dim.names if dim.formula is not None else ()))
        )
        #: the variable of each name that occurs more than once in the class
        self._variables = {name: f"__dim_{i}" for i, name in enumerate(counts) if counts[name] > 1}
        #: names that are bound before the next line, and names that may be bound
        self._bound: set[str] = set()
        self._perhaps: set[str] = set()
        #: dimensions that are formulas: they are checked last, when all names are bound
        self._formulas: list[tuple[str, Dim]] = []

    def start(self) -> list[str]:
        """Return the first lines."""
        formulas = sum(
            dim.formula is not None
            for contract in self.contracts.values()
            for dim in (contract and contract.dims) or ()
        )
        names = [*self._variables.values(), *[f"__size_{i}" for i in range(formulas)]]
        return [f"{' = '.join(names)} = None"] if names else []

    def field(self, key: str, value: str, required: bool, fails: str) -> list[str]:
        """Return the lines that check a value. ``__shape`` holds its shape, ``__size`` the batch size.

        Args:
            key: the field.
            value: the expression for its value.
            required: whether these lines always run. If not, they are in a branch, and names may stay unbound.
            fails: the statement to run if the value does not fit.
        """
        contract = self.contracts[key]
        assert contract is not None
        row = self._rows.get(key)
        if contract.others or any(_is_hard(dim) for dim in contract.dims or ()) or (row is not None and row.others):
            return [fails]
        conditions, lines = self._dims(contract.dims, required, fails)
        conditions += self._kind(key, contract, value)
        if row is not None:
            conditions.append(f"{value}.ragged_dims != {row.depth}")
        checks = [f"if {' or '.join(conditions)}:", f"    {fails}"]
        return [*checks, "else:", *[f"    {line}" for line in lines]] if lines else checks

    def shape_of(self, key: str, value: str) -> str:
        """Return the expression for the shape that :meth:`field` checks."""
        return f"(*{value}._batch_size, *{value}.item_shape)" if key in self._rows else f"{value}.shape"

    def end(self, fails: str) -> list[str]:
        """Return the last lines."""
        lines: list[str] = []
        for variable, dim in self._formulas:
            known = [f"{name} is not None" for name in (variable, *[self._variables[name] for name in dim.names])]
            more = [f"{variable} != 1"] if dim.broadcastable else []
            formula = re.sub(r"\b[^\W\d]\w*", lambda found: self._variables[found[0]], str(dim.formula))
            lines += [f"if {' and '.join([*known, *more])} and {variable} != ({formula}):", f"    {fails}"]
        return lines

    def function(self, owner: str) -> Callable[[Callable[[str], Any], Size], bool]:
        """Compile ``fits(get, size)``: whether the values that ``get`` returns by name fit a batch size."""
        lines = ["__ndim = __len(__size)", *self.start()]
        for i, (key, contract) in enumerate(self.contracts.items()):
            if contract is not None:
                value = f"__value_{i}"
                checks = [f"__shape = {self.shape_of(key, value)}", *self.field(key, value, False, "return False")]
                lines += [f"{value} = __get({key!r})", f"if {value} is not None:", *[f"    {line}" for line in checks]]
        lines += [*self.end("return False"), "return True"]
        source = "def fits(__get, __size):\n" + "\n".join([f"    {line}" for line in lines]) + "\n"
        exec(compile(source, f"<generated checks of {owner}>", "exec"), self.space)
        return self.space["fits"]  # type: ignore[no-any-return]

    # -- one field ----------------------------------------------------------------------------------------------------

    def _dims(self, dims: tuple[Dim, ...] | None, required: bool, fails: str) -> tuple[list[str], list[str]]:
        """Return conditions under which the shape does not fit, and lines to run if none of them holds."""
        if dims is None:
            return ["__shape[:__ndim] != __size"], []
        count = len(dims)
        open_at = next((i for i, dim in enumerate(dims) if dim.variadic), None)
        conditions = ["__shape[:__ndim] != __size", f"__len(__shape) < __ndim + {count - 1}"]
        #: expected sizes; a dimension that is not constrained here is compared with itself
        sizes = [f"__shape[{i - count}]" for i in range(count)]
        lines: list[str] = []
        own: dict[str, str] = {}
        for i, dim in enumerate(dims):
            if dim.size is None and dim.name is None and dim.formula is None:
                continue
            at = f"__shape[{i - count}]"
            if open_at is not None and i <= open_at:
                at = f"__shape[__ndim + {i}]"
                if i == open_at:
                    at = f"__shape[__ndim + {i}:__len(__shape) - {count - 1 - i}]"
            more = f"{at} != 1 and " if dim.broadcastable else ""
            key = "" if dim.name is None else dim.key
            variable = self._variables.get(key)
            must = dim.size if dim.size is not None else variable if key in self._bound else own.get(key)
            if must is not None and not more and open_at is None:
                sizes[i] = str(must)
            elif must is not None:
                conditions.append(f"({more}{at} != {must})" if more else f"{at} != {must}")
            elif dim.formula is not None:
                size = f"__size_{len(self._formulas)}"
                self._formulas.append((size, dim))
                lines.append(f"{size} = {at}")
            elif variable is None:
                continue
            elif required and not more and key not in self._perhaps:
                own[key] = at
                lines.append(f"{variable} = {at}")
            else:
                self._perhaps.add(key)
                inner = "    " if more else ""
                lines += [f"if {at} != 1:"] if more else []
                lines += [
                    f"{inner}if {variable} is None:",
                    f"{inner}    {variable} = {at}",
                    f"{inner}elif {at} != {variable}:",
                    f"{inner}    {fails}",
                ]
        self._bound.update(own)
        if open_at is None:
            # one comparison of tuples is faster than one for each dimension, and than slicing a torch.Size
            whole = [f"__shape != (*__size, {', '.join(sizes)})" if sizes else "__shape != __size"]
            if any(size.startswith("__shape") for size in sizes):
                whole.insert(0, f"__len(__shape) != __ndim + {count}")
            conditions[:2] = whole
        return conditions, lines

    def _kind(self, key: str, contract: Contract, value: str) -> list[str]:
        """Return conditions under which dtype or device do not fit."""
        conditions: list[str] = []
        if contract.dtypes is not None:
            usual, allowed = f"__dtype_{key}", f"__dtypes_{key}"
            self.space[usual] = next(one for one in (*_USUAL, *contract.dtypes) if one in contract.dtypes)
            self.space[allowed] = contract.dtypes
            others = f" and {value}.dtype not in {allowed}" if len(contract.dtypes) > 1 else ""
            conditions.append(f"({value}.dtype is not {usual}{others})")
        if contract.device is not None:
            conditions.append(f"{value}.device.type != {contract.device.type!r}")
            if ":" in str(contract.device):
                conditions.append(f"{value}.device.index != {contract.device.index}")
        return conditions


#: the most common dtypes: compared first
_USUAL = (torch.float32, torch.int64)


def _is_hard(dim: Dim) -> bool:
    """Return whether a dimension is left to the slow checks in :mod:`checking`."""
    divides = dim.formula is not None and ("//" in dim.formula or "%" in dim.formula)
    return divides or (dim.variadic and dim.broadcastable)
