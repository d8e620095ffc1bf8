"""Every name of the peer is here and takes the same arguments; what differs on purpose stands in a table."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tensorclass
import tensorclass.nn
import tensorclass.utils
from tensorclass import LazyStackedTensorDict, TensorClass, TensorDict, TypedTensorDict
from tensorclass.td.leaves.nontensor import NonTensorData, NonTensorStack

pytestmark = pytest.mark.parity

API = Path(__file__).resolve().parents[3] / "shared" / "api" / "tensordict-0.15.3.txt"

LEFT_OUT = "left out by the issue: docs/differences.md"

#: names that belong to later subjects
LATER = {
    LEFT_OUT: "arecv asend to_mds",
}

MORE = "takes what the peer takes, and more"
NAMED = "the arguments stand in the signature, where the peer has *args, **kwargs"
KEYWORD = "its last argument is by keyword, as in all other operations of two operands"

METHOD = "it is the method of all collections: its first argument is called self"

ONE = "one method for all collections, with the arguments that it has for a TensorDict"

SAVED = "a folder is whole or absent whatever atomic says; allow_pickle and existsok are for all of these"

SENT = "timeout and allow_pickle, as for all that goes between processes"

LOADED = "takes what the peer takes, and strict for records"

TENSORS = "a call with tensors stands in the signature: they are *args, and in the peer a decorator takes them"

#: names whose arguments differ on purpose, of all owners or of one, with the reason
DIFFERENT: dict[str, str] = {
    "all": MORE,
    "append_memmap": MORE,
    "any": MORE,
    "clone": NAMED,
    "consolidate": "allow_pickle, as for every other file",
    "clamp_min": KEYWORD,
    "densify": "its nested tensors are jagged by default: a strided one has no shape",
    "dumps": SAVED,
    "from_consolidated": "where its tensors go, and what loading takes for records",
    "empty": "names stay where the batch size does, as in the peer's TensorDict",
    "expand": NAMED,
    "apply": "num_threads, and keyword arguments of the function, which the peer ignores",
    "named_apply": "as in apply",
    "all_gather": SENT,
    "all_reduce": SENT,
    "broadcast": SENT,
    "gather_and_stack": SENT,
    "from_remote_init": SENT,
    "init_remote": SENT,
    "irecv": SENT,
    "isend": SENT,
    "recv": SENT,
    "reduce": SENT,
    "scatter": SENT,
    "send": SENT,
    "from_module": "one default of lock for all collections, that of the peer's TensorDict, and filter_empty for all",
    "from_pandas": MORE,
    "from_struct_array": MORE,
    "collate": MORE,
    "flip": MORE,
    "from_arrow": "nulls are the defaults of a record's fields; for a TensorDict an error, as in the peer",
    "from_pytree": MORE,
    "get": NAMED,
    "get_at": NAMED,
    "from_safetensors": MORE,
    "load": NAMED,
    "load_": NAMED,
    "load_memmap": LOADED,
    "make_memmap_from_tensor": "existsok for all collections, as in the peer's TensorDict",
    "memmap": SAVED,
    "memmap_": SAVED,
    "memmap_like": SAVED,
    "save": SAVED,
    "pack_memmap": MORE,
    "unpack_memmap": MORE,
    "map": MORE,
    "map_iter": MORE,
    "permute": NAMED,
    "reshape": NAMED,
    "squeeze": NAMED,
    "from_csv": MORE,
    "from_h5": MORE,
    "from_zarr": MORE,
    "to_h5": MORE,
    "to_zarr": MORE,
    "to_store": MORE,
    "from_json": MORE,
    "from_parquet": MORE,
    "to_struct_array": MORE,
    "unbind": MORE,
    "unsqueeze": NAMED,
    "TensorClass.from_dict": MORE,
    "TensorClass.from_dict_instance": MORE,
    "TensorClass.set": "as for the peer's records, not as for its TensorDict",
    "TensorClass.to_dict": MORE,
    "TensorClass.update_": "it writes in place: there is no inplace to choose",
    "TensorClass.where": NAMED,
    "NonTensorData.from_dict": MORE,
    "NonTensorData.from_dict_instance": MORE,
    "NonTensorData.set": ONE,
    "NonTensorData.set_at_": ONE,
    "NonTensorData.to_dict": MORE,
    "NonTensorData.tolist": MORE,
    "NonTensorData.update_at_": MORE,
    "tensorclass.get_defaults_to_none": "the peer ignores its argument",
    "tensorclass.from_dict": "its argument is called as in TensorDict.from_dict",
    "tensorclass.lazy_stack": NAMED,
    "tensorclass.maybe_dense_stack": NAMED,
    "tensorclass.to_arrow": METHOD,
    "tensorclass.to_safetensors": METHOD,
    "to_json": "the name of a file, .jsonl, says it too",
    "to_pandas": MORE,
    "CudaGraphModule.load_state_dict": MORE,
    "CudaGraphModule.state_dict": MORE,
    "EnsembleModule.forward": TENSORS,
    "ProbabilisticTensorDictModule.forward": TENSORS,
    "ProbabilisticTensorDictSequential.forward": TENSORS,
    "TensorClassModuleWrapper.forward": TENSORS,
    "TensorDictModule.forward": TENSORS,
    "TensorDictSequential.forward": TENSORS,
    "tensorclass.nn.InteractionType": "the signature of enumerations, which depends on the version of Python",
    "tensorclass.tensorclass": "the options are those of the class, one list for both ways to declare one",
}

#: names that are not here, with the reason
ABSENT = {
    "tensorclass.utils.implement_for": "the peer has marked it deprecated",
}

#: what every converter takes here beside the arguments of the peer
STRICT = ("strict", "True")

#: what stands in the list for a default that is no value
SENTINEL = re.compile(r"<.*>")

Parameter = tuple[str, str | None]


@functools.cache
def _listed() -> dict[str, dict[str, str]]:
    """The sections of the list: names, with what stands behind them; the classes of a section have one each."""
    sections: dict[str, dict[str, str]] = {}
    for line in API.read_text().splitlines():
        if line.startswith("## "):
            title = line[3:].split("  (")[0].strip()
            section = sections[title] = {}
        elif entry := re.match(r"  (?:class )?([a-zA-Z_]\w*)(.*)$", line):
            section[entry[1]] = entry[2]
            name = entry[1]
        elif entry := re.match(r"    ([a-zA-Z_]\w*)(.*)$", line):
            sections.setdefault(f"{title}: {name}", {})[entry[1]] = entry[2]
    return sections


def _split(text: str) -> list[str]:
    """What stands between the commas of the outermost parentheses that ``text`` begins with."""
    parts, depth = [""], 0
    for position, char in enumerate(text):
        if char in "([{<":
            depth += 1
        elif char in ")]}" or (char == ">" and text[position - 1] != "-"):
            depth -= 1
        if depth == 0:
            break
        if char == "," and depth == 1:
            parts.append("")
        elif position:
            parts[-1] += char
    return [part.strip() for part in parts if part.strip()]


def _wanted(text: str) -> list[Parameter]:
    """The parameters of an entry of the list: names (with stars) and defaults."""
    found: list[Parameter] = []
    for part in _split(text.strip()):
        name = re.match(r"\*{0,2}\w*", part)
        assert name is not None
        separator = " =" if re.match(r"\*{0,2}\w+: ", part) else "="
        _, given, default = part.rpartition(separator)
        found.append((name[0], default.strip() if given else None))
    return [parameter for parameter in found if parameter[0] not in ("self", "cls")]


def _here(function: Callable[..., Any]) -> list[Parameter]:
    """The parameters of one of ours, in the same form."""
    found: list[Parameter] = []
    starred = False
    for parameter in inspect.signature(function).parameters.values():
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            found.append(("*", None))
        starred = starred or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        default = None if parameter.default is parameter.empty else str(parameter.default).replace("'", "")
        found.append((stars + parameter.name, default))
    is_converter = _called(function).startswith("from_") or function is tensorclass.from_dataclass
    return [
        parameter
        for parameter in found
        if parameter[0] not in ("self", "cls") and not (is_converter and parameter == STRICT)
    ]


def _sections(parameters: list[Parameter]) -> tuple[list[Parameter], list[Parameter]]:
    """Those by position in their order, and those by keyword, whose order says nothing."""
    star = next((i for i, (name, _) in enumerate(parameters) if name.startswith("*") and name[:2] != "**"), None)
    if star is None:
        return parameters, []
    return parameters[: star + 1], sorted(parameters[star + 1 :])


def _in_calls(name: str) -> str:
    """A parameter as calls see it: those that take the rest by position have no name there."""
    return "*args" if re.match(r"\*\w", name) else name


def _same(wanted: list[Parameter], here: list[Parameter]) -> bool:
    for theirs, ours in zip(_sections(wanted), _sections(here), strict=True):
        if [_in_calls(name) for name, _ in theirs] != [_in_calls(name) for name, _ in ours]:
            return False
        for (_, default), (_, own) in zip(theirs, ours, strict=True):
            if default != own and not (default is not None and own is not None and SENTINEL.match(default)):
                return False
    return True


def _called(owner: Any) -> str:
    """What an owner is called in the tables; ``dispatch`` is an object."""
    return str(getattr(owner, "__name__", type(owner).__name__.lower()))


OWNERS: list[tuple[str, Any]] = [
    ("TensorDictBase", TensorDict),
    ("TensorDictBase", TensorClass),
    ("TensorDict", TensorDict),
    ("TensorClass", TensorClass),
    ("TypedTensorDict", TypedTensorDict),
    ("LazyStackedTensorDict", LazyStackedTensorDict),
    ("NonTensorData", NonTensorData),
    ("NonTensorStack", NonTensorStack),
    ("functions of the package", tensorclass),
    ("utils (functions users call)", tensorclass.utils),
    ("nn", tensorclass.nn),
    *(
        (title, getattr(tensorclass.nn, title.removeprefix("nn: ")))
        for title in (_listed() if API.is_file() else ())
        if title.startswith("nn: ")
    ),
]


def _entries() -> list[Any]:
    if not API.is_file():
        return []
    sections = _listed()
    return [
        pytest.param(owner, name, text, id=f"{_called(owner)}.{name}")
        for section, owner in OWNERS
        for name, text in sections[section].items()
        if name not in ("constructor", "special")
        and not (owner is tensorclass.nn.InteractionType and hasattr(str, name))
    ]


later = {name for names in LATER.values() for name in names.split()}


@pytest.mark.skipif(not API.is_file(), reason="the list of the peer's names is not there")
@pytest.mark.parametrize("owner, name, text", _entries())
def test_a_name_of_the_peer_is_here_and_takes_the_same_arguments(owner: Any, name: str, text: str) -> None:
    if name in later:
        pytest.skip(next(subject for subject, names in LATER.items() if name in names.split()))
    key = f"{_called(owner)}.{name}"
    if key in ABSENT:
        assert not hasattr(owner, name)
        return
    assert hasattr(owner, name), f"{name} is missing"
    member = getattr(owner, name)
    if not text.lstrip().startswith("(") or "(property" in text or "(attribute)" in text:
        return
    if not callable(member):
        return
    wanted, here = _wanted(text), _here(member)
    if name in DIFFERENT or key in DIFFERENT or [p for p, _ in wanted] == ["*args", "**kwargs"]:
        return
    assert _same(wanted, here), f"{name}\npeer: {wanted}\nhere: {here}"


@pytest.mark.skipif(not API.is_file(), reason="the list of the peer's names is not there")
@pytest.mark.parametrize("key", sorted(DIFFERENT))
def test_a_difference_is_one(key: str) -> None:
    kind, _, name = key.rpartition(".")
    sections = _listed()
    differ = [
        not _same(_wanted(sections[section][name]), _here(getattr(owner, name)))
        for section, owner in OWNERS
        if name in sections[section] and kind in ("", _called(owner)) and callable(getattr(owner, name))
    ]
    assert any(differ), f"take {key} out of DIFFERENT"


@pytest.mark.parametrize("name", sorted(later))
def test_a_name_of_a_later_subject_is_not_here(name: str) -> None:
    found = [owner for owner in (TensorDict, tensorclass) if hasattr(owner, name)]
    assert found == [], f"take {name} out of LATER"
