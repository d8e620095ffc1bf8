"""The two forms of a record class: the decorated form of a module is derived from the form with subclasses."""

import ast


def decorated(source: str) -> str:
    """A module of subclasses of `TensorClass`, written with `@tensorclass` instead.

    Options move from the class to the decorator. A class that derives from a record keeps it as its base.

    >>> print(decorated("from tensorclass import TensorClass\\nclass A(TensorClass, frozen=True):\\n    x: int"))
    from tensorclass import tensorclass
    @tensorclass(frozen=True)
    class A:
        x: int
    """
    lines = source.splitlines()
    records: set[str] = {"TensorClass"}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module == "tensorclass":
            lines[node.lineno - 1] = lines[node.lineno - 1].replace("TensorClass", "tensorclass")
        if not isinstance(node, ast.ClassDef) or not any(_name(base) in records for base in node.bases):
            continue
        records.add(node.name)
        options = ", ".join(ast.unparse(option) for option in node.keywords)
        bases = ", ".join(ast.unparse(base) for base in node.bases if _name(base) != "TensorClass")
        decorator = f"@tensorclass({options})" if options else "@tensorclass"
        indent = " " * node.col_offset
        lines[node.lineno - 1] = f"{indent}{decorator}\n{indent}class {node.name}" + (f"({bases}):" if bases else ":")
    return "\n".join(lines) + "\n"


def _name(base: ast.expr) -> str:
    return ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
