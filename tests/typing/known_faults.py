"""Faults of type checkers: lines of the corpus that one of them gets wrong. They count as wrong in the table.

A line that is wrong and not listed fails the tests; so does one that is listed and right by now.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class KnownFault:
    """A line that a checker gets wrong.

    Args:
        checker: its name.
        module: the module of the corpus.
        code: the line, without the spaces in front.
        why: what the checker does, in words.
        example: the smallest program that shows it.
        forms: of the two forms of records, those in which it occurs.
    """

    checker: str
    module: str
    code: str
    why: str
    example: str
    forms: tuple[str, ...] = ("subclass", "decorated")


_INDEXED = "An index of a value whose type is a type variable gives the bound of the variable."
_INDEXED_EXAMPLE = """
T = TypeVar("T", bound="Base")

class Base:
    def __getitem__(self, index: int) -> Self: ...

def first(value: T) -> T:
    return value[0]  # Base is not assignable to T
"""

_UNTYPED = "An __iter__ without annotations, as a tensor's, counts as one of items of any type."
_UNTYPED_EXAMPLE = """
class Tensor:
    def __iter__(self): ...

def joined(strings: Iterable[str]) -> str: ...

joined(Tensor())  # is not reported
"""

_STRINGS = "A string counts as an iterable of iterables of numbers: its items are strings again."
_STRINGS_EXAMPLE = """
def total(rows: Iterable[Iterable[complex]]) -> complex: ...

total("a")  # is not reported
"""

_OPTIONAL = "An attribute of the type `X | None` cannot be assigned where X is a descriptor."
_OPTIONAL_EXAMPLE = """
class Text:
    def __get__(self, record: object, owner: Any = None) -> Text: ...
    def __set__(self, record: Any, value: Text | None) -> None: ...

class Record:
    note: Text | None

def clear(record: Record) -> None:
    record.note = None  # cannot assign to attribute
"""

KNOWN_FAULTS: tuple[KnownFault, ...] = (
    KnownFault("pyrefly", "facts_generic", "assert_type(record[0], T)", _INDEXED, _INDEXED_EXAMPLE),
    KnownFault("pyrefly", "facts_generic", "assert_type(record[mask], T)", _INDEXED, _INDEXED_EXAMPLE),
    KnownFault("pyrefly", "facts_generic", "assert_type(record[1:, None], T)", _INDEXED, _INDEXED_EXAMPLE),
    KnownFault("pyrefly", "facts_generic", "assert_type(collection[0], C)", _INDEXED, _INDEXED_EXAMPLE),
    KnownFault(
        "pyrefly",
        "facts_generic",
        "assert_type(type(record).stack([record]), T)",
        "type(value) is `type`, without methods, where the type of the value is a type variable.",
        """
T = TypeVar("T", bound="Base")

class Base:
    @classmethod
    def made(cls) -> int: ...

def made(value: T) -> int:
    return type(value).made()  # `type` has no attribute `made`
""",
    ),
    KnownFault(
        "pyrefly",
        "facts_generic",
        "result = row",
        "The items of a value whose type is a type variable are of the bound of the variable.",
        """
T = TypeVar("T", bound="Base")

class Base:
    def __iter__(self) -> Iterator[Self]: ...

def first(value: T) -> T:
    for item in value:
        return item  # Base is not assignable to T
    return value
""",
    ),
    KnownFault("mypy", "errors_columns", "Question(x, tokens, tags)  # E: strings", _UNTYPED, _UNTYPED_EXAMPLE),
    KnownFault("mypy", "errors_columns", "Question(text, tokens, x)  # E: lists", _UNTYPED, _UNTYPED_EXAMPLE),
    KnownFault("ty", "errors_columns", "Question(x, tokens, tags)  # E: strings", _UNTYPED, _UNTYPED_EXAMPLE),
    KnownFault("ty", "errors_columns", "Question(text, tokens, x)  # E: lists", _UNTYPED, _UNTYPED_EXAMPLE),
    KnownFault("ty", "errors_columns", 'Question(text, ["a", "b"], tags)  # E: numbers', _STRINGS, _STRINGS_EXAMPLE),
    KnownFault("ty", "errors_columns", 'Question(text, "a", tags)  # E: numbers', _STRINGS, _STRINGS_EXAMPLE),
    KnownFault("ty", "errors_columns", 'question.tokens = "a"  # E: numbers', _STRINGS, _STRINGS_EXAMPLE),
    KnownFault("ty", "facts_columns", 'two.note = Text(["a", None])', _OPTIONAL, _OPTIONAL_EXAMPLE),
    KnownFault("ty", "facts_columns", "two.note = None", _OPTIONAL, _OPTIONAL_EXAMPLE),
    KnownFault("ty", "facts_columns", "two.mask = None", _OPTIONAL, _OPTIONAL_EXAMPLE),
)
