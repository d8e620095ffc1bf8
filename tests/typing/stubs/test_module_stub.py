"""What stands in a stub, by examples and by what holds for all modules."""

import ast
import importlib
import re
import sys
import textwrap
import types
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorclass.typing.stubs import Module, Syntax, stub

EXAMPLE = Path(__file__).with_name("example")
RECORDS = EXAMPLE / "shop" / "data" / "records.py"


def made(source: str, name: str = "module", *, is_package: bool = False) -> str:
    """The stub of a module, without its header."""
    text = stub(textwrap.dedent(source).encode(), Module(name, Path(f"{name}.py"), is_package))
    return text.partition("\n")[2].strip("\n")


def lines(source: str) -> list[str]:
    """The lines of a stub that are no imports."""
    return [line for line in made(source).splitlines() if line and not line.startswith(("from ", "import "))]


# -- which classes are records ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "imports, decorator",
    [
        ("from tensorclass import tensorclass", "tensorclass"),
        ("from tensorclass import tensorclass as record", "record"),
        ("import tensorclass", "tensorclass.tensorclass"),
        ("import tensorclass as tc", "tc.tensorclass"),
        ("import tensorclass.records.decorator", "tensorclass.records.decorator.tensorclass"),
        ("from tensorclass.records.decorator import tensorclass", "tensorclass"),
        ("from tensorclass import *", "tensorclass"),
        ("import tensorclass\nrecord = tensorclass.tensorclass", "record"),
        ("try:\n    from tensorclass import tensorclass\nexcept ImportError:\n    raise", "tensorclass"),
    ],
)
@pytest.mark.parametrize("call", ["", "()", "(None)"])
def test_the_decorator_is_known_under_every_name(imports: str, decorator: str, call: str) -> None:
    text = made(f"{imports}\n@{decorator}{call}\nclass A:\n    x: int")
    assert "TensorClass):\n    x: int" in text
    assert f"@{decorator}" not in text


@pytest.mark.parametrize(
    "imports, decorator",
    [
        ("from tensordict import tensorclass", "tensorclass"),
        ("from attrs import define", "define"),
        ("", "staticmethod"),
    ],
)
def test_other_decorators_stay(imports: str, decorator: str) -> None:
    assert lines(f"{imports}\n@{decorator}\nclass A:\n    x: int") == [f"@{decorator}", "class A:", "    x: int"]


def test_options_become_class_keywords_and_functions_among_them_are_left_out() -> None:
    source = """
        from tensorclass import tensorclass
        @tensorclass(frozen=True, cast_filter=lambda key, tensor: True)
        class A: ...
    """
    assert lines(source) == ["class A(TensorClass, frozen=True): ..."]


def test_options_of_an_alias_count() -> None:
    source = """
        from tensorclass import tensorclass
        frozen = tensorclass(frozen=True)
        @frozen
        class A: ...
    """
    assert "class A(TensorClass, frozen=True): ..." in lines(source)


def test_bases_stay_in_front_of_the_record_and_generic_behind() -> None:
    source = """
        from typing import Generic, TypeVar
        from tensorclass import tensorclass
        T = TypeVar("T")
        class Mixin: ...
        @tensorclass
        class A(Mixin, Generic[T]): ...
        @tensorclass
        class B(A[int]): ...
        @tensorclass
        class C(object): ...
    """
    heads = [line for line in lines(source) if line.startswith("class")]
    assert heads == [
        "class Mixin: ...",
        "class A(Mixin, TensorClass, Generic[T]): ...",
        "class B(A[int]): ...",
        "class C(TensorClass): ...",
    ]


def test_a_name_that_the_module_uses_for_something_else_is_not_taken() -> None:
    text = made("from tensorclass import tensorclass\nclass TensorClass: ...\n@tensorclass\nclass A: ...")
    assert "from tensorclass import TensorClass as _TensorClass" in text
    assert "class A(_TensorClass): ..." in text


def test_options_in_brackets_become_keywords() -> None:
    assert lines('from tensorclass import TensorClass\nclass A(TensorClass["frozen", "nocast"]): ...') == [
        "class A(TensorClass, frozen=True, nocast=True): ..."
    ]


def test_a_frozen_record_makes_its_subclasses_frozen() -> None:
    source = """
        from tensorclass import tensorclass
        @tensorclass(frozen=True)
        class A: ...
        class B(A): ...
    """
    assert lines(source)[-1] == "class B(A, frozen=True): ..."


def test_fields_that_hide_members_of_records_are_no_error() -> None:
    source = "from tensorclass import tensorclass\n@tensorclass(shadow=True)\nclass A:\n    names: int"
    assert lines(source)[-1] == "    names: int  # type: ignore"


# -- fields -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "field, expected",
    [
        ("x: int", "x: int"),
        ("x: int = 3", "x: int = 3"),
        ("x: float = -1.5", "x: float = -1.5"),
        ("x: str = 'a'", 'x: str = "a"'),
        ("x: list[int] = make(1)", "x: list[int] = ..."),
        ("x: list[int] = field(default_factory=list)", "x: list[int] = ..."),
        ("x: int = field(repr=False)", "x: int"),
        ("x: int = field(default=3)", "x: int = ..."),
        ("x: int = field(init=False)", "x: int = field(init=False)"),
        ("x: int = field(default=3, init=False)", "x: int = field(init=False)"),
        ("x: int = field(default=3, kw_only=True)", "x: int = field(default=3, kw_only=True)"),
        ("x: int = field(kw_only=True)", "x: int = field(kw_only=True)"),
        ("x: int = field(default_factory=int, kw_only=True)", "x: int = field(default=cast(Any, ...), kw_only=True)"),
        ("x = 3", "x: ClassVar[int]"),
        ("x: ClassVar[int] = 3", "x: ClassVar[int] = 3"),
    ],
)
def test_fields(field: str, expected: str) -> None:
    source = f"""
        from typing import ClassVar
        from dataclasses import field
        from tensorclass import tensorclass
        @tensorclass
        class A:
            {field}
    """
    assert lines(source)[-1].strip() == expected


# -- everything else --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement, expected",
    [
        ("x = 3", "x: int"),
        ("x = -3.0", "x: float"),
        ("x = 'text'", "x: str"),
        ("x = b'bytes'", "x: bytes"),
        ("x = None", "x: None"),
        ("x = not 3", "x: bool"),
        ("x = 1 < 2", "x: bool"),
        ("x = 2 * 3.0", "x: float"),
        ("x = 4 / 2", "x: float"),
        ("x = 'a' + 'b'", "x: str"),
        ("x = f'{1}'", "x: str"),
        ("x = (1, 'a')", "x: tuple[int, str]"),
        ("x = ()", "x: tuple[()]"),
        ("x = [1, 2]", "x: list[int]"),
        ("x = [1, None]", "x: list[int | None]"),
        ("x = {'a': 1}", "x: dict[str, int]"),
        ("x = {1}", "x: set[int]"),
        ("x = []", "x: list[Incomplete]"),
        ("x = [i for i in (1, 2)]", "x: list[Incomplete]"),
        ("x = len('a')", "x: int"),
        ("x = C()", "x: C"),
        ("x = f(3)", "x: str"),
        ("x = Path('a')", "x: Path"),
        ("x = logging.getLogger('a')", 'x = logging.getLogger("a")'),
        ("x = Path('a') / 'b'", 'x = Path("a") / "b"'),
        ("x = [i async for i in z]", "x: list[Incomplete]"),
        ("x = (lambda: 3)()", "x: Incomplete"),
        ("x = lambda a, b=1: a", "def x(a, b=1): ..."),
        ("x = list[int]", "x = list[int]"),
        ("x = int | None", "x = int | None"),
        ("x = TypeVar('x')", 'x = TypeVar("x")'),
        ("x = C", "x = C"),
        ("x: int = 3", "x: int"),
        ("x: Final = 3", "x: Final = 3"),
        ("x: Final = C.method", "x: Final = C.method"),
        ("x: Final[int] = make()", "x: Final[int]"),
        ("x: TypeAlias = 'list[int]'", 'x: TypeAlias = "list[int]"'),
        ("x = 3\nx = 'a'", "x: int | str"),
        ("x = None\nx: int = 3", "x: int"),
        ("for x in []: pass", "x: Incomplete"),
        ("if 1:\n    x = 1\nelse:\n    x = None", "x: int | None"),
        ("def x(a, *, b=g): ...", "def x(a, *, b=...): ..."),
        ("def x(a: int, /, *b: str, **c): return 'a'", "def x(a: int, /, *b: str, **c) -> str: ..."),
        ("def x(): pass", "def x() -> None: ..."),
        ("def x(): ...", "def x(): ..."),
        ("def x(): raise ValueError", "def x(): ..."),
        ("def x(a):\n    if a:\n        return 1", "def x(a) -> int | None: ..."),
        ("def x(a):\n    if a:\n        return 1\n    else:\n        return 2", "def x(a) -> int: ..."),
        ("def x(a: int): return a", "def x(a: int) -> int: ..."),
        ("def x(a: int):\n    a = g()\n    return a", "def x(a: int): ..."),
        ("def x():\n    def y(): return 1\n    y()", "def x() -> None: ..."),
        ("def x(): yield 1", "def x() -> Generator[int, Incomplete, Incomplete]: ..."),
        ("async def x(): return 1", "async def x() -> int: ..."),
        (
            "def x(a: int = None): ...  # type: ignore[assignment]",
            "def x(a: int = None): ...  # type: ignore[assignment]",
        ),
        ("def x(a=1):  # a comment\n    '''A docstring.'''\n    return a", "def x(a=1): ..."),
        ("async def x(): yield 1", "def x(): ..."),
    ],
)
def test_one_statement(statement: str, expected: str) -> None:
    before = """
import logging
from pathlib import Path
from typing import Final, TypeAlias, TypeVar
class C: ...
def f(a) -> str: ...
"""
    assert lines(before + statement)[2:] == [expected]


def test_imports_are_absolute_and_only_what_is_used_or_public_stays() -> None:
    source = """
        from __future__ import annotations
        import os, json
        from .. import sibling
        from .other import used, unused, shown
        from . import listed
        __all__ = ["f", "listed"]
        def f(x: used, y: os.PathLike[str]) -> sibling.Thing: ...
        from .again import shown as shown
    """
    assert made(source, "a.b.c").splitlines() == [
        "import os",
        "from a import sibling",
        "from a.b.other import used",
        "from a.b import listed as listed",
        "from a.b.again import shown as shown",
        "",
        '__all__ = ["f", "listed"]',
        "",
        "def f(x: used, y: os.PathLike[str]) -> sibling.Thing: ...",
    ]


def test_imports_of_any_length_and_twice_the_same() -> None:
    long = ".".join(f"package_{i}" for i in range(15))
    names = ", ".join(f"name_{i} as name_{i}" for i in range(10))
    text = made(f"from {long} import *\nfrom a import (b, b, {names})\ndef f(x: b): ...")
    assert text.splitlines()[:2] == [f"from {long} import *", "from a import ("]
    assert text.count("    b,") == 1
    ast.parse(text)


def test_a_package_hands_on_what_it_imports() -> None:
    text = made("from .a import b, _c\nfrom d import e as f\nfrom .g import *\nimport h", "p", is_package=True)
    assert text.splitlines() == [
        "from p.a import b as b",
        "from d import e as f",
        "from p.g import *",
        "import h as h",
    ]


def test_blocks_that_checkers_know_stay_and_others_are_looked_through() -> None:
    source = """
        import sys
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            from a import B
        else:
            B = only = object
        if not TYPE_CHECKING:
            at_run_time = 1
        if sys.version_info >= (3, 11):
            def f() -> B: ...
        else:
            f = None
        try:
            import fast
            HAS = True
        except ImportError:
            fast = None
            HAS = False
        def g() -> fast.X: ...
        if __name__ == "__main__":
            main = 1
    """
    assert made(source).splitlines() == [
        "import sys",
        "from a import B",
        "import fast",
        "",
        "if sys.version_info >= (3, 11):",
        "    def f() -> B: ...",
        "else:",
        "    f: None",
        "",
        "HAS: bool",
        "",
        "def g() -> fast.X: ...",
    ]


def test_classes_keep_what_checkers_know_of_them() -> None:
    source = '''
        import enum
        from dataclasses import dataclass, field
        from typing import NamedTuple, overload

        class Color(enum.Enum):
            """A docstring."""
            RED = 1
            GREEN = enum.auto()

        class Pair(NamedTuple):
            x: int
            y: int = 0

        @dataclass(order=True)
        class Data:
            x: int
            y: list[int] = field(default_factory=list)
            KIND = "a"
            def __post_init__(self) -> None:
                self.z = 3

        class Plain:
            __slots__ = ("a",)
            def __init__(self, a: int, b=None):
                self.a = a
                self.b: str = b
                self.c = self.d = 1.0
                self.e, self.f = 1, unknown()
            @property
            def p(self) -> int: return 1
            @p.setter
            def p(self, value: int) -> None: ...
            @overload
            def g(self, a: int) -> int: ...
            @overload
            def g(self, a: str) -> str: ...
            def g(self, a): return a
            @classmethod
            def make(cls): return cls(1)
            def reset(self):
                self.c = None
                return self
            alias = reset
            class Inner:
                x = 3
    '''
    assert lines(source) == [
        "class Color(enum.Enum):",
        "    RED = 1",
        "    GREEN = enum.auto()",
        "class Pair(NamedTuple):",
        "    x: int",
        "    y: int = 0",
        "@dataclass(order=True)",
        "class Data:",
        "    z: int = field(init=False)",
        "    x: int",
        "    y: list[int] = ...",
        '    KIND = "a"',
        "    def __post_init__(self) -> None: ...",
        "class Plain:",
        "    b: str",
        "    a: int",
        "    c: float | None",
        "    d: float",
        "    e: int",
        "    f: Incomplete",
        '    __slots__ = ("a",)',
        "    def __init__(self, a: int, b=None) -> None: ...",
        "    @property",
        "    def p(self) -> int: ...",
        "    @p.setter",
        "    def p(self, value: int) -> None: ...",
        "    @overload",
        "    def g(self, a: int) -> int: ...",
        "    @overload",
        "    def g(self, a: str) -> str: ...",
        "    @classmethod",
        "    def make(cls) -> Self: ...",
        "    def reset(self) -> Self: ...",
        "    alias = reset",
        "    class Inner:",
        "        x: int",
    ]


@pytest.mark.parametrize(
    "source, expected",
    [
        (  # attributes that are bound by loops, blocks and stars
            """
            class A:
                def f(self):
                    with open("x") as self.a: pass
                    for self.b, (self.c, _) in []: pass
                    [self.d, *self.e] = 1, 2
            """,
            ["a: Incomplete", "b: Incomplete", "c: Incomplete", "d: int", "e: Incomplete"],
        ),
        (  # values of an enum can have attributes
            """
            import enum
            class A(enum.Enum):
                EARTH = (1.0, "x")
                BOTH = EARTH | 3
                def __init__(self, mass: float, name: str) -> None:
                    self.mass = mass
            """,
            ["mass: float", 'EARTH = (1.0, "x")', "BOTH = ..."],
        ),
        (  # so have those of a class that fulfils a protocol
            """
            from typing import Protocol
            class P(Protocol):
                def f(self) -> int: ...
            class A(P):
                def __init__(self) -> None:
                    self.x = 3
            """,
            ["x: int"],
        ),
        (
            """
            class A(str):
                def __new__(cls, v: str, size: int):
                    made = super().__new__(cls, v)
                    made.size = size
                    return made
            """,
            ["size: int", "def __new__(cls, v: str, size: int) -> Self: ..."],
        ),
        (
            """
            class A:
                def __new__(cls): return super().__new__(cls)
                def __class_getitem__(cls, k): return cls
                @classmethod
                def kind(cls): return cls
            """,
            [
                "def __new__(cls) -> Self: ...",
                "def __class_getitem__(cls, k) -> type[Self]: ...",
                "def kind(cls) -> type[Self]: ...",
            ],
        ),
        (  # no Self in a metaclass
            """
            class A(type):
                def f(cls): return cls
                @property
                def g(cls): return cls
            """,
            ["def f(cls): ...", "def g(cls): ..."],
        ),
        (  # what a method returns is said by those that replace it
            """
            from abc import ABC, abstractmethod
            class A(ABC):
                @abstractmethod
                def f(self): pass
            """,
            ["def f(self): ..."],
        ),
        (
            """
            from typing import *
            x: Final = 3
            y: "TypeAlias" = List[str]
            class A:
                @overload
                def f(self, k: str) -> str: ...
                @overload
                def f(self, k: int) -> int: ...
                def f(self, k): return k
            """,
            ["x: Final = 3", 'y: "TypeAlias" = List[str]', "def f(self, k: str) -> str: ..."],
        ),
        (  # what is bound nowhere comes from a star
            """
            from typing import *
            from other import *
            x = Optional["A"]
            y = make(3)
            z = 3
            del z
            w = z
            """,
            ['x = Optional["A"]', "y = make(3)", "w: Incomplete"],
        ),
        ("x = (y := 3) + 1", ["x: Incomplete", "y: Incomplete"]),
        (
            """
            def f(a):
                match a:
                    case 1: return 1
                    case _: return "a"
            def g(a):
                match a:
                    case 1: return 1
            """,
            ["def f(a) -> int | str: ...", "def g(a) -> int | None: ..."],
        ),
    ],
)
def test_what_is_rare(source: str, expected: list[str]) -> None:
    found = [line.strip() for line in lines(source)]
    assert [line for line in expected if line not in found] == [], "\n".join(found)


def test_long_signatures_and_lists_are_broken() -> None:
    parameters = ", ".join(f"parameter_{i}: dict[str, int] = None" for i in range(5))
    text = made(f"def f({parameters}): pass\n__all__ = {[f'name_{i}' for i in range(20)]}")
    assert all(len(line) <= 120 for line in text.splitlines())
    ast.parse(text)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="syntax of Python 3.12")
def test_type_parameters_stay() -> None:
    source = """
        from tensorclass import tensorclass
        type Pair[T] = tuple[T, T]
        def f[T](x: T) -> T: ...
        @tensorclass
        class A[T]:
            x: T
    """
    assert lines(source) == [
        "type Pair[T] = tuple[T, T]",
        "def f[T](x: T) -> T: ...",
        "class A[T](TensorClass):",
        "    x: T",
    ]


@pytest.mark.parametrize(
    "source",
    [b"x =", b"def f(:\n", b"x = 1\n\0", b"\xff\xfe", b"# coding: no-such\nx = 1", b"x = 1\n\n\n# \xe9\n"],
)
def test_what_is_no_python_is_an_error_with_its_place(source: bytes) -> None:
    with pytest.raises(Syntax, match=r"^bad\.py:\d+: "):
        stub(source, Module("bad", Path("bad.py")))


def test_the_encoding_of_the_module_counts() -> None:
    source = "# coding: latin-1\nX = 'é'\nfrom typing import Literal\ny: Literal['é']\n".encode("latin-1")
    assert 'Literal["é"]' in stub(source, Module("m", Path("m.py")))


# -- what holds for all modules ---------------------------------------------------------------------------------------


def run(text: str) -> set[str]:
    """The names that code binds when it is run."""
    module = types.ModuleType("generated")
    module.__dict__["__file__"] = __file__
    sys.modules["generated"] = module
    try:
        exec(compile("from __future__ import annotations\n" + text, "generated.py", "exec"), module.__dict__)
    finally:
        del sys.modules["generated"]
    return {name for name in vars(module) if not name.startswith("__") or name == "__all__"} - {"annotations"}


def declared(body: list[ast.stmt]) -> set[str]:
    """The names that a stub has: it consists of imports, definitions, variables and conditions."""
    found: set[str] = set()
    for node in body:
        match node:
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                found |= {alias.asname or alias.name for alias in names}
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case (
                ast.AnnAssign(target=ast.Name(id=name))
                | ast.AugAssign(target=ast.Name(id=name))
                | ast.Assign(targets=[ast.Name(id=name)])
            ):
                found.add(name)
            case ast.If(body=first, orelse=second):
                found |= declared(first) | declared(second)
            case _:
                raise AssertionError(ast.dump(node))
    return found


IMPORTS = """
import abc, dataclasses, enum, sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, overload
import torch
from tensorclass import TensorClass, tensorclass
"""
FRAGMENTS = [
    "X{i} = {i}",
    "X{i} = Y{i} = [1, 'a', None]",
    "A{i}, (B{i}, *C{i}) = 1, (2, 3)",
    "X{i}: int = 3",
    "X{i}: int\nX{i} = 3",
    "X{i} = 1\ndel X{i}",
    "X{i} = 1\nX{i} += 2",
    "for X{i} in range(2): Y{i} = X{i}",
    "while (X{i} := False): pass",
    "with open(__file__) as X{i}: Y{i} = X{i}.read()",
    "try:\n    X{i} = 1\nexcept ValueError as e:\n    Z{i} = 1\nelse:\n    Y{i} = 'a'\nfinally:\n    W{i} = 2",
    "if torch.cuda.is_available is None:\n    X{i} = 1\nelse:\n    Y{i} = None\n    X{i} = 'a'",
    "if sys.version_info >= (3, 8):\n    X{i} = 1",
    "match 3:\n    case int(X{i}): Y{i} = 1",
    "X{i} = lambda a, *b, c=1, **d: a",
    "X{i} = [a for a in (1, 2)]",
    "X{i} = sum(a for a in (1, 2))",
    "X{i} = torch.zeros(3)",
    "X{i} = {{'a': lambda: 1}}",
    "def f{i}(a, /, b: int = 1, *c, d=None, **e): return a",
    "def f{i}(): yield",
    "async def f{i}(): return None",
    "@overload\ndef f{i}(a: int) -> int: ...\n@overload\ndef f{i}(a: str) -> str: ...\ndef f{i}(a): return a",
    "def f{i}(): pass\ndef f{i}(a): return f{i}",
    "def _f{i}(): global X{i}; X{i} = 1",
    "class C{i}: pass",
    "class C{i}(abc.ABC):\n    x = 1\n    @abc.abstractmethod\n    def f(self): self.y = 3\n    class D: pass",
    "class C{i}(enum.Enum):\n    A = 1\n    B = 'b'",
    "class C{i}(NamedTuple):\n    a: int\n    b: str = ''",
    "@dataclass\nclass C{i}:\n    a: int\n    b: list[int] = dataclasses.field(default_factory=list)",
    "@tensorclass\nclass C{i}:\n    a: torch.Tensor\n    b: Any = None\n    def f(self): return self.a",
    "@tensorclass(frozen=True)\nclass C{i}:\n    a: torch.Tensor\nclass D{i}(C{i}):\n    b: Any = None",
    "class C{i}(TensorClass, kw_only=True):\n    a: Any = None\n    b: torch.Tensor",
    "'a docstring'",
    "pass",
    "assert True",
    "print",
    "__all__ = ['X{i}']",
]


@given(st.lists(st.tuples(st.sampled_from(FRAGMENTS), st.sampled_from(["", "try", "if", "with"])), max_size=8))
def test_a_stub_has_the_names_of_its_module(parts: list[tuple[str, str]]) -> None:
    source = IMPORTS
    for i, (fragment, around) in enumerate(parts):
        text = fragment.format(i=i)
        inner = textwrap.indent(text, "    ")
        source += {
            "": text,
            "try": f"try:\n{inner}\nexcept ImportError:\n    pass",
            "if": f"if torch is not None:\n{inner}\nelse:\n    pass",
            "with": f"with open(__file__):\n{inner}",
        }[around] + "\n"
    text = stub(source.encode(), Module("module", Path("module.py")))
    found = declared(ast.parse(text).body)
    imported = declared(ast.parse(IMPORTS).body)  # of which a stub has those that it uses
    other = {"Incomplete", "Generator", "ClassVar", "Self", "cast", "Callable"}
    assert run(source) - imported <= found
    assert found - imported - other <= set(re.findall(r"\w+", source))
    # a stub is a module too, and has nothing to leave out
    assert stub(text.encode(), Module("module", Path("module.py"))) == text


def test_a_stub_of_a_large_module_has_its_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    module = importlib.import_module("shop.data.records")
    found = declared(ast.parse(stub(RECORDS.read_bytes(), Module("shop.data.records", RECORDS))).body)
    own = {name for name in vars(module) if not name.startswith("__")} - {"annotations"}
    assert own - found == {"t", "h5py", "Mapping", "record", "TYPE_CHECKING"}  # imports that nothing uses
    assert found - own == {"TensorClass", "Incomplete", "Generator", "cast", "__all__"}
