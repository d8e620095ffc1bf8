"""The ways to write a record: what tests that hold for all of them take as the fixture ``form``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tensorclass import TensorClass, tensorclass


class Form(NamedTuple):
    """``@form.decorator class Name(form.base, **form.keywords): ...`` writes a record in one of the ways."""

    decorator: Callable[[type], Any]
    base: Any
    keywords: dict[str, bool]


def same(cls: type) -> type:
    return cls


def by_keywords(**options: bool) -> Form:
    return Form(same, TensorClass, options)


def by_brackets(**options: bool) -> Form:
    return Form(same, TensorClass[tuple(options)] if options else TensorClass, {})


def by_decorator(**options: bool) -> Form:
    return Form(tensorclass(**options) if options else tensorclass, object, {})


#: all differ only in how options are given; without options the first two are one
FORMS = {"subclass": by_keywords, "decorator": by_decorator}
OPTION_FORMS = {"keywords": by_keywords, "brackets": by_brackets, "decorator": by_decorator}
