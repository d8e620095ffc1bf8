"""The table of operations: what the engine knows of each one beside its code.

A row names a method of collections that several modules treat alike. They read the rows, and keep no lists of names of
their own:

- ``torch_functions.py``: which functions of torch call the method, and how their arguments are called;
- ``stores/lazy/lazy_stack.py``: which methods of a lazy stack call the same method of each part;
- ``stores/write_back.py``: which methods write into the values, and are followed by writing these back;
- ``leaves/leaf.py``: which methods of a leaf are operations on its numbers;
- ``stores/legacy_views.py``: which results are views in the legacy mode;
- ``native/``: for which methods native code stands;
- the mypy plugin: the same as ``torch_functions.py``.

The method itself, with its signature and docstring, is in the module of its family. A method that is treated by nobody
but its family has no row. ``tests/td/test_operations.py`` checks each row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

#: What an operation does with the values:
#:
#: - ``"pointwise"``: a function of each element, and of operands that broadcast; leaves without numbers are kept;
#: - ``"reduction"``: over batch dimensions, the features or everything;
#: - ``"along"``: a function of the rows along one dimension, which keeps the shape;
#: - ``"shape"``: moves, repeats or selects rows;
#: - ``"other"``: copies, casts, keys, and the private methods in which operations end.
Kind: TypeAlias = Literal["pointwise", "reduction", "along", "shape", "other"]

#: How a lazy stack does an operation without stacking its values:
#:
#: - ``"by part"``: each part does it, with the same arguments;
#: - ``"undone by part"``: likewise, and a ``with`` statement on the result undoes it in each part;
#: - ``"with operands"``: each part does it, with its share of operands over the batch.
Lazy: TypeAlias = Literal["by part", "undone by part", "with operands"]


class Operation(NamedTuple):
    """A row of the table. (A frozen dataclass would take three times as long to import.)

    Args:
        name: of the method.
        kind: what it does with the values.
        in_place: whether there is a second method, with an underscore behind the name, that writes into the values.
        operator: the method of Python's operator: ``"__truediv__"``.
        operator_in_place: the same in place: ``"__itruediv__"``.
        reflected: the method of the second operand that answers if the first is a tensor: ``"__rtruediv__"``.
        in_torch: whether the functions of this name call the method: those of ``torch`` and ``torch.special``, and the
            methods of tensors.
        aliases: other names that these functions have in torch.
        keywords: arguments that the functions call otherwise than the method: torch's name, and that of the method.
        lazy: how a lazy stack does it. Default: as its own method says, or with the stacked values.
        native: whether native code stands for the method (for the operator, where there is one) in nested collections.
        legacy_view: whether the result writes through to its source in the legacy mode.
    """

    name: str
    kind: Kind
    in_place: bool = False
    operator: str = ""
    operator_in_place: str = ""
    reflected: str = ""
    in_torch: bool = False
    aliases: tuple[str, ...] = ()
    keywords: Mapping[str, str] = {}
    lazy: Lazy | None = None
    native: bool = False
    legacy_view: bool = False

    @property
    def methods(self) -> dict[str, bool]:
        """All methods of the operation, and whether each writes into the values."""
        methods = {self.name: self.name[-1] == "_" and self.name[0] != "_"}
        if self.in_place:
            methods[f"{self.name}_"] = True
        if self.operator:
            methods[self.operator] = False
        if self.has_reflected_operator:
            methods[self.reflected] = False
        if self.operator_in_place:
            methods[self.operator_in_place] = True
        return methods

    @property
    def has_reflected_operator(self) -> bool:
        """Return whether :attr:`reflected` is a method of its own, and not that of another operation."""
        return self.reflected.startswith("__r")


def _rows(kind: Kind, *names: str, **facts: Any) -> list[Operation]:
    """Make rows that differ in their names alone."""
    return [Operation(name, kind, **facts) for name in names]


def _pointwise(*names: str, **facts: Any) -> list[Operation]:
    """Make rows of functions of each element."""
    return _rows("pointwise", *names, **{"in_torch": True, "lazy": "with operands", **facts})


def _arithmetic(name: str, symbol: str, in_place: bool = True, **facts: Any) -> list[Operation]:
    """Make the row of an operation whose operator is also reflected, and has a form in place if the method has one."""
    facts["operator_in_place"] = f"__i{symbol}__" if in_place else ""
    return _pointwise(name, in_place=in_place, operator=f"__{symbol}__", reflected=f"__r{symbol}__", **facts)


OPERATIONS: tuple[Operation, ...] = (
    # -- functions of each element (pointwise.py, operators.py) --------------------------------------------------------
    *_pointwise("abs", in_place=True, operator="__abs__", aliases=("absolute",)),
    *_pointwise("acos", in_place=True, aliases=("arccos",)),
    *_pointwise("asin", in_place=True, aliases=("arcsin",)),
    *_pointwise("atan", in_place=True, aliases=("arctan",)),
    *_pointwise("lgamma", in_place=True, aliases=("gammaln",)),
    *_pointwise("neg", in_place=True, operator="__neg__", aliases=("negative",)),
    *_pointwise("sigmoid", in_place=True, aliases=("expit",)),
    *_pointwise("trunc", in_place=True, aliases=("fix",)),
    *_pointwise(
        "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac", "log", "log10", "log1p", "log2",
        "reciprocal", "round", "rsqrt", "sign", "sin", "sinh", "sqrt", "tan", "tanh", in_place=True,
    ),
    *_pointwise("isfinite", "isinf", "isnan", "isneginf", "isposinf", "isreal", "logical_not", "square", "zero_"),
    *_pointwise("bitwise_not", operator="__invert__"),
    *_pointwise("__pos__", in_torch=False),
    # -- of two operands
    *_arithmetic("add", "add"),
    *_arithmetic("sub", "sub", aliases=("subtract",)),
    *_arithmetic("mul", "mul", aliases=("multiply",)),
    *_arithmetic("div", "truediv", aliases=("divide", "true_divide")),
    *_arithmetic("pow", "pow", keywords={"exponent": "other"}),
    *_arithmetic("floor_divide", "floordiv", False),
    *_arithmetic("remainder", "mod", False),
    *_arithmetic("bitwise_and", "and", False),
    *_arithmetic("bitwise_or", "or", False),
    *_arithmetic("bitwise_xor", "xor", False),
    *_pointwise("eq", operator="__eq__", reflected="__eq__", native=True),
    *_pointwise("ne", operator="__ne__", reflected="__ne__", native=True, aliases=("not_equal",)),
    *_pointwise("lt", operator="__lt__", reflected="__gt__", aliases=("less",)),
    *_pointwise("le", operator="__le__", reflected="__ge__", aliases=("less_equal",)),
    *_pointwise("gt", operator="__gt__", reflected="__lt__", aliases=("greater",)),
    *_pointwise("ge", operator="__ge__", reflected="__le__", aliases=("greater_equal",)),
    *_pointwise("maximum", in_place=True, reflected="maximum"),
    *_pointwise("minimum", in_place=True, reflected="minimum"),
    *_pointwise("logical_and", reflected="logical_and"),
    *_pointwise("logical_or", reflected="logical_or"),
    *_pointwise("logical_xor", reflected="logical_xor"),
    *_pointwise("clamp_max", in_place=True, keywords={"max": "other"}),
    *_pointwise("clamp_min", in_place=True, keywords={"min": "other"}),
    *_pointwise("fmod", "rsub"),
    *_pointwise("mod", in_torch=False),
    # -- of several
    *_pointwise("addcdiv", "addcmul", in_place=True, keywords={"tensor1": "other1", "tensor2": "other2"}),
    *_pointwise("clamp", aliases=("clip",)),
    *_pointwise("lerp", in_place=True),
    *_pointwise("masked_fill", in_place=True, lazy=None),
    # -- reductions.py -------------------------------------------------------------------------------------------------
    *_rows(
        "reduction", "all", "amax", "amin", "any", "cummax", "cummin", "logsumexp", "max", "mean", "min", "nanmean",
        "nansum", "norm", "prod", "quantile", "std", "sum", "var", in_torch=True,
    ),
    *_rows("along", "cumprod", "cumsum", "softmax", in_torch=True),
    # -- shapes: shape_operations.py, permute_and_flip.py, split_and_narrow.py, gather_and_take.py ---------------------
    Operation("reshape", "shape", in_torch=True, keywords={"shape": "size"}, native=True),
    Operation("view", "shape", native=True, legacy_view=True),
    Operation("flatten", "shape", in_torch=True, native=True),
    Operation("unflatten", "shape", in_torch=True, keywords={"sizes": "unflattened_size"}, native=True),
    *_rows("shape", "permute", "squeeze", "transpose", "unsqueeze", in_torch=True, native=True, legacy_view=True),
    Operation("swapaxes", "shape", in_torch=True, legacy_view=True),
    Operation("swapdims", "shape", in_torch=True, keywords={"dim0": "axis0", "dim1": "axis1"}, legacy_view=True),
    *_rows("shape", "contiguous", "expand", native=True),
    Operation("broadcast_to", "shape", in_torch=True, keywords={"size": "shape"}),
    Operation(
        "tensor_split", "shape", in_torch=True,
        keywords={"sections": "indices_or_sections", "indices": "indices_or_sections"},
    ),
    *_rows(
        "shape", "atleast_1d", "atleast_2d", "atleast_3d", "chunk", "flip", "fliplr", "flipud", "gather",
        "masked_select", "moveaxis", "movedim", "narrow", "repeat_interleave", "roll", "rot90", "split", "tile",
        "unbind", in_torch=True,
    ),
    *_rows("shape", "expand_as", "repeat"),
    # -- copies, casts, devices, keys ----------------------------------------------------------------------------------
    *_rows("other", "clone", "detach", in_torch=True, lazy="by part", native=True),
    *_rows("other", "is_floating_point", "numel", in_torch=True),
    *_rows(
        "other", "__copy__", "copy", "create_nested", "detach_", "exclude", "filter_empty_", "filter_non_tensor_data",
        "pin_memory", "pin_memory_", "rename_keys", "requires_grad_", "type", "zero_grad", lazy="by part",
    ),
    *_rows("other", "cpu", "cuda", "flatten_keys", "unflatten_keys", lazy="undone by part"),
    # -- in which methods end: private, and replaced by stores and leaves ----------------------------------------------
    *_rows(
        "other", "_captured", "_compacted", "_each", "_filtered_cast", "_plain", "_plain_apply",
        "_with_leaves", "_with_leaves_and_buffers", lazy="by part",
    ),
    *_rows("other", "_to", "_to_device", lazy="by part", native=True),
    *_rows("other", "__getitem__", "_index_value", "_cat", "_like", "_pairwise", "_same", "_stack", native=True),
)  # fmt: skip
