"""Expressions of a source file that are collections, as far as its text tells."""

from __future__ import annotations

from enum import Enum

import libcst as cst

from .import_rewriting import dotted_name
from .source_names import Field, SourceNames

#: public classes and functions whose results are collections
MAKERS = frozenset(
    (
        *("TensorDict", "LazyStackedTensorDict", "PersistentTensorDict", "TensorDictParams", "TensorDictBase"),
        *("from_any", "from_dict", "from_module", "from_modules", "from_list", "fromkeys", "from_pandas", "from_arrow"),
        *("from_csv", "from_json", "from_parquet", "from_h5", "from_struct_array", "from_pytree", "from_tuple"),
        *("lazy_stack", "load", "load_memmap", "make_tensordict", "maybe_dense_stack", "memmap", "merge_tensordicts"),
        *("pad", "pad_sequence", "collate", "from_consolidated", "from_zarr"),
    )
)
#: methods whose results are collections of the same class
SAME = frozenset(
    (
        *("apply", "apply_", "clone", "copy", "contiguous", "cpu", "cuda", "detach", "empty", "exclude", "expand"),
        *("flatten", "gather", "lock_", "masked_select", "memmap", "memmap_", "memmap_like", "permute", "reshape"),
        *("select", "set", "squeeze", "to", "transpose", "unflatten", "unlock_", "unsqueeze", "update", "view"),
        *("consolidate", "load_memmap", "named_apply", "pin_memory", "rename_key_", "replace", "share_memory_"),
        *("zero_", "float", "double", "half", "bfloat16", "stack", "cat", "lazy_stack", "maybe_dense_stack"),
    )
)
#: functions of torch that return what they are given
TORCH = frozenset(f"torch.{name}" for name in ("stack", "cat", "clone", "squeeze", "unsqueeze", "zeros_like", "where"))
#: names that parameters of modules have in code on collections
CONVENTIONAL = frozenset(("tensordict", "td"))


class Value(Enum):
    """The type of an expression."""

    RECORD = "record"
    COLLECTION = "collection"


class CollectionValues(cst.CSTVisitor):
    """Follows which variables hold collections, while it goes over a module.

    Args:
        names: the names of the module.
    """

    def __init__(self, names: SourceNames) -> None:
        self.names = names
        self._variables: dict[str, Value] = {}
        self._classes: list[bool] = []  #: whether each enclosing class is a record
        self._fields: dict[cst.CSTNode, Field] = {}

    def value(self, node: cst.BaseExpression) -> Value | None:
        """Return what an expression is; ``None`` if the text does not tell."""
        if isinstance(node, (cst.Name, cst.Attribute)):
            return self._variables.get(dotted_name(node))
        if isinstance(node, cst.Call):
            return self._result(node)
        if isinstance(node, cst.Subscript):
            return None if _is_key(node) else self.value(node.value)
        if isinstance(node, cst.BinaryOperation):
            return self.value(node.left) or self.value(node.right)
        if isinstance(node, (cst.List, cst.Tuple)) and node.elements:
            return self.value(node.elements[0].value)
        return None

    def _result(self, node: cst.Call) -> Value | None:
        made = self.of_class(node.func)
        if made is not None:
            return made
        if isinstance(node.func, cst.Attribute):
            name = node.func.attr.value
            owner = self.value(node.func.value)
            if owner is not None:
                return Value.COLLECTION if name == "to_tensordict" else owner if name in SAME else None
            of_class = self.of_class(node.func.value)
            if of_class is not None and (name in SAME or name.startswith("from_") or name == "load"):
                return of_class
        if self.names.qualified(node.func) in TORCH and node.args:
            return self.value(node.args[0].value)
        return None

    def of_class(self, node: cst.BaseExpression) -> Value | None:
        """Return what calls of a class or a function return."""
        if self.names.is_record_class(node):
            return Value.RECORD
        return Value.COLLECTION if self.names.public(node) in MAKERS else None

    def _annotated(self, node: cst.Annotation | None) -> Value | None:
        if node is None:
            return None
        inner = node.annotation
        if isinstance(inner, cst.SimpleString) and inner.raw_value.isidentifier():
            inner = cst.Name(inner.raw_value)
        return self.of_class(inner)

    def _bind(self, target: cst.BaseExpression, value: Value | None) -> None:
        name = dotted_name(target)
        if name and value is not None:
            self._variables[name] = value
        elif name:
            self._variables.pop(name, None)

    def is_in_record(self) -> bool:
        """Return whether the visitor is in a record class."""
        return bool(self._classes) and self._classes[-1]

    def record_field(self, node: cst.CSTNode) -> Field | None:
        """Return the field that an annotation in a record class declares."""
        return self._fields.get(node)

    # statements that bind names

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self._classes.append(self.names.is_record(node))
        if self._classes[-1]:
            self._fields |= {field.node: field for field in self.names.fields(node)}

    def leave_ClassDef(self, original_node: cst.ClassDef) -> None:
        self._classes.pop()

    def visit_Param(self, node: cst.Param) -> None:
        value = self._annotated(node.annotation)
        if node.annotation is None and node.name.value in CONVENTIONAL:
            value = Value.COLLECTION
        if node.name.value == "self" and self.is_in_record():
            value = Value.RECORD
        self._bind(node.name, value)

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        assigned = None if node.value is None else self.value(node.value)
        self._bind(node.target, self._annotated(node.annotation) or assigned)

    def leave_Assign(self, original_node: cst.Assign) -> None:
        for target in original_node.targets:
            self._bind(target.target, self.value(original_node.value))

    def leave_WithItem(self, original_node: cst.WithItem) -> None:
        if original_node.asname is not None:
            self._bind(original_node.asname.name, self.value(original_node.item))


def _is_key(node: cst.Subscript) -> bool:
    """Return whether an index may be a key: text, or a variable, whose value is not known."""
    indices = [one.slice.value for one in node.slice if isinstance(one.slice, cst.Index)]
    return any(isinstance(index, (cst.BaseString, cst.Name, cst.Attribute)) for index in indices)
