"""Methods, arguments and options that are spelled otherwise here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensorclass.migrate.migrated_source import Project

HEAD = "from tensordict import TensorClass, TensorDict, tensorclass\n"
NEW_HEAD = "from tensorclass import TensorClass, TensorDict, tensorclass\n"

CASES = {
    "a decorated class with text": ("@tensorclass\nclass A:\n    a: str\n", "@tensorclass(stack_objects=True)\n"),
    "with options": (
        "@tensorclass(nocast=True)  # yes\nclass A:\n    a: 'str | None' = None\n",
        "@tensorclass(nocast=True, stack_objects=True)  # yes\n",
    ),
    "a base": ("class A(TensorClass):\n    a: dict[str, int]\n", "class A(TensorClass, stack_objects=True):\n"),
    "a base with options": (
        'class A(TensorClass["nocast"], shadow=True):\n    a: Optional[list]\n',
        'class A(TensorClass["nocast"], shadow=True, stack_objects=True):\n',
    ),
    "a record as the base": (
        "@tensorclass\nclass A:\n    a: Tensor\nclass B(A):\n    b: Any\n",
        "@tensorclass\nclass A:\n    a: Tensor\nclass B(A, stack_objects=True):\n",
    ),
    "rows that write through": ("rows = a._get_sub_tensordict(0)\n", "rows = a.get_sub_tensordict(0)\n"),
    "an option of pandas": ("TensorDict.from_csv(path, sep=';')\n", "TensorDict.from_csv(path, delimiter=';')\n"),
}

STAYING = {
    "tensors and collections": "@tensorclass\nclass A:\n    a: Tensor\n    b: TensorDict | None = None\n",
    "numbers": "@tensorclass\nclass A:\n    a: int\n",
    "a class that is no record": "class A:\n    a: str\n",
    "a class of another package": "import pandas\npandas.read_csv(path, sep=';')\n",
}


def migrated(**sources: str) -> dict[str, str]:
    project = Project({Path(name): text.encode() for name, text in sources.items()})
    return {str(file.path): file.code.decode() for file in project.migrated() if file.code is not None}


@pytest.mark.parametrize("case", CASES)
def test_spellings_are_those_of_this_package(case: str) -> None:
    source, expected = CASES[case]
    new = migrated(a=HEAD + source)["a"]
    assert new.startswith(NEW_HEAD + expected)
    assert migrated(a=new) == {}


@pytest.mark.parametrize("case", STAYING)
def test_other_code_stays(case: str) -> None:
    assert migrated(a=HEAD + STAYING[case]) == {"a": NEW_HEAD + STAYING[case]}


def test_records_of_other_files_are_known() -> None:
    sources = {
        "c": "from b import B\nclass C(B):\n    c: str\n",
        "b": "from a import A\nclass B(A):\n    b: Tensor\n",
        "a": "from tensordict import TensorClass\nclass A(TensorClass): ...\n",
        "d": "class D(C):\n    d: str\n",
    }
    assert migrated(**sources)["c"] == sources["c"].replace("C(B)", "C(B, stack_objects=True)")
    assert "b" not in migrated(**sources)


def test_records_of_this_package_stay_as_they_are() -> None:
    assert migrated(a="from tensorclass import tensorclass\n@tensorclass\nclass A:\n    a: str\n") == {}
