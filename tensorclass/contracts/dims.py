"""The notation of shapes: ``"3 h w"`` as dimensions.

It is jaxtyping's: a dimension is a number, a name (the same size wherever it stands in a record), ``_`` or ``_name``
(any size), an expression of names (``h+1``, ``2*h``), ``name=3`` (a number with a comment), any of which can be
broadcastable (``#h``: of size one, too); ``...`` stands for any number of dimensions, ``*name`` for the same ones
wherever it stands.
"""

from __future__ import annotations

import ast
import dataclasses
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from tensorclass.support.help_links import help_link


@dataclasses.dataclass(frozen=True)
class Dim:
    """One dimension of a shape, or several if it is variadic.

    At most one of ``size``, ``name`` and ``formula`` is set; a dimension without any of them has any size.

    Attributes:
        text: the dimension as it was written.
        size: the size, if it is a number.
        name: the name of the size.
        formula: an expression of names: ``h+1``.
        variadic: ``True`` for any number of dimensions. A name then stands for all their sizes.
        broadcastable: ``True`` if a size of one is allowed, too.

    Example:
        >>> from tensorclass import Shape
        >>> Shape("#3 h w *n h+1").dims[0]
        Dim(text='#3', size=3, name=None, formula=None, variadic=False, broadcastable=True)
    """

    text: str
    size: int | None = None
    name: str | None = None
    formula: str | None = None
    variadic: bool = False
    broadcastable: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names in the dimension. A variadic name has its star: ``*n``.

        Example:
            >>> from tensorclass import Shape
            >>> [dim.names for dim in Shape("3 h h+w *n").dims]
            [(), ('h',), ('h', 'w'), ('*n',)]
        """
        if self.formula is not None:
            return _names_in(self.formula)
        return () if self.name is None else (self.key,)

    @property
    def key(self) -> str:
        """The key of its size in a mapping: the name, with a star if it stands for several sizes.

        Example:
            >>> from tensorclass import Shape
            >>> [dim.key for dim in Shape("h *n").dims]
            ['h', '*n']
        """
        return f"*{self.name}" if self.variadic else str(self.name)

    def resolved(self, sizes: Mapping[str, int]) -> int | None:
        """Return the size if it is a number or follows from the sizes of names, else ``None``.

        Args:
            sizes: a size for each name.

        Example:
            >>> from tensorclass import Shape
            >>> Shape("h+1").dims[0].resolved({"h": 3})
            4
        """
        if self.size is not None:
            return self.size
        if self.formula is not None:
            return evaluate(self.formula, sizes) if all(name in sizes for name in self.names) else None
        return None if self.name is None or self.variadic else sizes.get(self.name)


@lru_cache(maxsize=1024)
def parse(text: str) -> tuple[Dim, ...]:
    """Parse a shape.

    Raises:
        ValueError: the text is not a shape. The message names the dimension and says what it can be.

    >>> [dim.name for dim in parse("3 h w")]
    [None, 'h', 'w']
    """
    if "," in text:
        spaced = " ".join(text.replace(",", " ").split())
        link = help_link("bad-contract")
        raise ValueError(f"the shape {text!r} has commas; separate dimensions by spaces: {spaced!r}{link}")
    dims = tuple([_dim(word) for word in text.split()])
    if sum(dim.variadic for dim in dims) > 1:
        raise ValueError(f"the shape {text!r} has more than one of '...' and '*name': where they end cannot be told")
    return dims


def _dim(word: str) -> Dim:
    if word == "...":
        return Dim(word, variadic=True)
    rest, marks = word, ""
    while rest and rest[0] in "#*?":
        if rest[0] == "?":
            raise ValueError(f"the dimension {word!r}: '?' is for trees of arrays; leave it out")
        if rest[0] in marks:
            raise ValueError(f"the dimension {word!r} has {rest[0]!r} twice")
        marks, rest = marks + rest[0], rest[1:]
    comment, equals, value = rest.partition("=")
    if equals and comment.isidentifier():
        rest = value
    variadic, broadcastable = "*" in marks, "#" in marks
    if rest.startswith("_") and rest.isidentifier():
        if broadcastable:
            raise ValueError(f"the dimension {word!r} has any size: '#' says nothing about it")
        return Dim(word, variadic=variadic)
    if rest.isidentifier():
        return Dim(word, name=rest, variadic=variadic, broadcastable=broadcastable)
    if variadic:
        raise ValueError(f"the dimension {word!r}: '*' stands before a name: '*name'")
    if rest.isdecimal():
        return Dim(word, size=int(rest), broadcastable=broadcastable)
    if not _names_in(rest, word):
        return Dim(word, size=_sized(evaluate(rest, {}), word), broadcastable=broadcastable)
    return Dim(word, formula=ast.unparse(_tree(rest)).replace(" ", ""), broadcastable=broadcastable)


def _sized(size: int, word: str) -> int:
    if size < 0:
        raise ValueError(f"the dimension {word!r} is {size}; sizes are not negative")
    return size


# -- expressions of names -------------------------------------------------------------------------------------------

_BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: operator.mod,
}


def evaluate(formula: str, sizes: Mapping[str, int]) -> int:
    """Evaluate an expression of names and whole numbers with ``+ - * // %`` and parentheses.

    >>> evaluate("2*(h+1)", {"h": 3})
    8
    """
    return _value(_tree(formula), sizes)


def _value(node: ast.expr, sizes: Mapping[str, int]) -> int:
    if isinstance(node, ast.Constant):
        assert isinstance(node.value, int)
        return node.value
    if isinstance(node, ast.Name):
        return sizes[node.id]
    if isinstance(node, ast.UnaryOp):
        return -_value(node.operand, sizes)
    assert isinstance(node, ast.BinOp)
    return _BINARY[type(node.op)](_value(node.left, sizes), _value(node.right, sizes))


#: parsed expressions, and the names in them. (Not lru_cache, through which torch.compile traces into the parser.)
_TREES: dict[str, ast.expr] = {}
_NAMES: dict[str, tuple[str, ...]] = {}


def _tree(formula: str) -> ast.expr:
    if formula not in _TREES:
        _TREES[formula] = ast.parse(formula, mode="eval").body
    return _TREES[formula]


def _names_in(formula: str, word: str = "") -> tuple[str, ...]:
    """Return the names in an expression. Raise if it has more than names, numbers and arithmetic."""
    if formula not in _NAMES:
        _NAMES[formula] = _found_names(formula, word)
    return _NAMES[formula]


def _found_names(formula: str, word: str) -> tuple[str, ...]:
    try:
        tree = _tree(formula)
    except SyntaxError:
        raise ValueError(_unknown(word)) from None
    if "#" in formula:  # to Python, a comment
        raise ValueError(_unknown(word))
    nodes: Sequence[ast.AST] = [tree]
    names: dict[str, None] = {}
    while nodes:
        below: list[ast.AST] = []
        for node in nodes:
            if isinstance(node, ast.Name):
                names[node.id] = None
            elif isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
                below += [node.left, node.right]
            elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
                below.append(node.operand)
            elif not (isinstance(node, ast.Constant) and type(node.value) is int):
                raise ValueError(_unknown(word))
        nodes = below
    return tuple(names)


def _unknown(word: str) -> str:
    return (
        f"the dimension {word!r} is not understood: a dimension is a number, a name, '_', '...', '*name', "
        "'#name', 'name=3', or an expression of names with + - * // % and no spaces, such as 'h+1'"
        + help_link("bad-contract")
    )
