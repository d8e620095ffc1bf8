"""Names from files and users reach no terminal as commands: what is printed has no control characters but newlines."""

from __future__ import annotations

import ast
import dis
import functools
import io
import itertools
import json
import os
import pickle
import re
import sys
import tempfile
import unicodedata
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorclass
from tensorclass import (
    Column,
    NonTensorData,
    NonTensorStack,
    Ragged,
    RecordDataset,
    TensorClass,
    TensorDict,
    Text,
    UnbatchedTensor,
    lazy_stack,
    set_printoptions,
)
from tensorclass.cli import main
from tensorclass.support.log import logger
from tensorclass.support.printable import printable
from tensorclass.support.progress import bar
from tests.terminal import Terminal

HOSTILE = "\x1b[2J\x1b]0;owned\x07\r\x9b31m\u202e\u2066\x00\x7f\u2028\x85\x08"
"""Clears the screen, sets the title, rings the bell, goes back to the start of the line, turns the text around."""

COLOUR = re.compile("\x1b\\[[0-9;]*m")


def commands(text: str) -> set[str]:
    """The characters that a terminal would obey, newlines aside."""
    return {char for char in text if char != "\n" and unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")}


NAMES = st.text(
    st.one_of(st.sampled_from(HOSTILE), st.characters(categories=["Cc", "Cf", "Cs"]), st.sampled_from("ab/.[]")),
    min_size=1,
    max_size=8,
).map(lambda name: name.replace("\u200c", "").replace("\u200d", "") + HOSTILE[:4])


@given(st.text())
def test_what_is_printable_has_no_commands_and_stays_what_it_was_without_them(text: str) -> None:
    shown = printable(text)
    assert not commands(shown) - {"\u200c", "\u200d"}
    assert "\n" not in shown
    if not commands(text) and "\n" not in text:
        assert shown == text
    assert printable(shown) == shown


@pytest.mark.parametrize("text", ["naïve", "模型\u3000一", "👩\u200d🔬", "क्\u200cष", "a\u00a0b", "\\x1b", "\ue0b0"])
def test_letters_of_all_writings_stay(text: str) -> None:
    assert printable(text) == text


def test_lines_stay_where_they_are_asked_for() -> None:
    assert printable("a\n\x1b\r", lines=True) == "a\n\\x1b\\r"


# --- the command -----------------------------------------------------------------------------------------------------


def run(*arguments: object) -> tuple[int, str]:
    """The exit code of the command, and all that it prints."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as ended:
            code = int(ended.code or 0)
    return code, out.getvalue()


def row(number: int, kind: str, filter: str) -> dict[str, Any]:
    verdicts = {"prompt_level_strict_acc": number > 1, "inst_level_strict_acc": [number > 1]}
    doc = {"prompt": f"prompt {number}", "instruction_id_list": [kind]}
    return {"doc_id": number, "doc": doc, "filter": filter, "metrics": list(verdicts), **verdicts}


def logs(folder: str, name: str, *changes: dict[str, Any]) -> list[Path]:
    """Two logs in files whose names, types, filters and other metrics are hostile."""
    safe = name.replace("/", "").replace("\x00", "").encode("utf-8", "replace").decode()[:40]
    paths = [Path(folder, f"{number}{safe}.jsonl") for number in range(2)]
    for path in paths:
        rows = [row(place, name, f"{name}{place % 2}") for place in range(6)]
        for place, change in enumerate(changes):
            rows[place] |= change
        path.write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
    return paths


@settings(max_examples=5)
@given(NAMES)
def test_tables_of_hostile_logs_hold_no_commands(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = logs(folder, name)
        for options in (["--compare"], ["--json", "--filter", f"{name}1"], ["--filter", "none"]):
            code, shown = run("scores", *paths, *options)
            assert not commands(shown), options
            assert (code == 2) == ("none" in options)


@settings(max_examples=15)
@given(NAMES, st.sampled_from(["acc", "metrics", "doc", "filter", "doc_id", "doc_hash", "inst_level_strict_acc"]))
def test_errors_of_hostile_logs_hold_no_commands(name: str, field: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for value in (name, [name], {name: name}):
            paths = logs(folder, name, {field: value, "metrics": [name]})
            assert not commands(run("scores", *paths, "--compare")[1])
        unknown = Path(folder, "unknown.jsonl")
        unknown.write_text(json.dumps({"doc_id": 0, "metrics": [name], name: 1.0}) + "\n", encoding="utf-8")
        code, shown = run("scores", unknown)  # a metric of any name
        assert (code, commands(shown)) == (0, set())
        unknown.write_text(json.dumps({name: 1.0}) + "\n", encoding="utf-8")
        assert not commands(run("scores", unknown)[1])


@pytest.mark.parametrize("command", ["scores", "stubs"])
def test_arguments_and_files_that_are_not_there_are_named_without_commands(command: str, tmp_path: Path) -> None:
    name = HOSTILE.replace("\x00", "")
    for arguments in ([tmp_path / name], [tmp_path, f"--{name}"], [tmp_path / name / name, "--out", tmp_path / name]):
        code, shown = run(command, *arguments)
        assert (code, commands(shown)) == (2, set())
    assert not commands(run(name)[1])


def test_stubs_of_hostile_files_are_told_of_without_commands(tmp_path: Path) -> None:
    folder = tmp_path / HOSTILE.replace("\x00", "")
    folder.mkdir()
    (folder / "records.py").write_text(
        "from tensorclass import tensorclass\n@tensorclass\nclass A:\n    a: int\n", encoding="utf-8"
    )
    for options in (["--check"], []):
        code, shown = run("stubs", folder / "records.py", "--out", folder / "out", *options)
        assert (code, commands(shown)) == (int("--check" in options), set())
        assert "records.pyi" in shown
    (folder / "records.py").write_text("from tensorclass import tensorclass\n@tensorclass\nclass (", encoding="utf-8")
    code, shown = run("stubs", folder / "records.py", "--out", folder / "out")
    assert (code, commands(shown)) == (2, set())


def test_progress_shows_hostile_names_of_files_without_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tensorclass.scores.command import run_files

    path = tmp_path / "[red]\x1b]0;owned\x07\u202e.jsonl"
    path.write_text(json.dumps({"doc_id": 0, "metrics": ["acc"], "acc": 1.0}) + "\n", encoding="utf-8")
    monkeypatch.setattr(run_files, "LONG_FILE", 0)
    terminal = Terminal()
    with monkeypatch.context() as patch, redirect_stdout(io.StringIO()):
        patch.setattr(sys, "stderr", terminal.file)
        code = main(["scores", str(path), "--json"])
    shown = terminal.close()
    assert code == 0
    assert "[red]\\x1b]0;owned\\x07\\u202e" in COLOUR.sub("", shown)
    assert not {"\x07", "\u202e"} & set(shown)
    assert "\x1b]" not in shown


def test_bars_and_lines_of_the_log_hold_no_commands(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm")
    with bar(1, HOSTILE, progress=True):
        pass
    logger.warning(HOSTILE)
    shown = capsys.readouterr().err
    assert "\\x1b[2J\\x1b]0;owned\\x07" in shown
    assert not commands(shown) - {"\r", "\x1b"}  # tqdm's own
    assert "\x1b[2J" not in shown


# --- collections -----------------------------------------------------------------------------------------------------


class Row(TensorClass):
    a: torch.Tensor
    extra: Any = None


class Shown:
    """An object whose repr is any text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _name_of_class(name: str) -> str:
    """The part of a text that Python takes as the name of a class."""
    return name.replace("\x00", "").encode("utf-8", "replace").decode()


def hostile_values(name: str) -> list[Any]:
    """Values of every sort whose class, objects, keys, texts and dimensions have a hostile name."""
    name_of_class = _name_of_class(name)
    record = type(name_of_class, (TensorClass,), {"__annotations__": {"x": torch.Tensor, "extra": Any}})
    tensor = torch.ones(2).as_subclass(type(name_of_class, (torch.Tensor,), {}))
    odd = type(name_of_class, (), {})()
    rows = record(x=torch.ones(2), extra=Shown(name), batch_size=[2])
    data = TensorDict({"rows": rows, "tensor": tensor, "odd": odd, name: Text([name, "a"])}, [2], names=[name])
    data["objects"] = Column([Shown(name), odd])
    return [
        rows, rows[0], data, lazy_stack([rows, rows]), NonTensorData(Shown(name)), NonTensorStack(odd, Shown(name)),
        data["objects"], data[name], Ragged([[1], [2, 3]]), UnbatchedTensor(tensor), record.__new__(record),
        data.keys(), data.items(), data.exclude("rows").summary(), data.group_by(name),
        RecordDataset(record, [{"x": name}]),
    ]  # fmt: skip


@settings(max_examples=8)
@given(NAMES)
def test_no_hostile_name_reaches_a_terminal_or_page(name: str) -> None:
    name = name.encode("utf-8", "replace").decode()  # columns of text hold no lone surrogates
    for number, value in enumerate(hostile_values(name)):
        for style in ("short", "long", "compact"):
            with set_printoptions(style=style):
                shown = repr(value) + str(value) + (getattr(value, "_repr_html_", str)() or "")
            assert not commands(shown), (number, style)
            console = rich_console()
            console.print(value)
            assert not commands(console.file.getvalue()), number  # type: ignore[attr-defined]


def rich_console() -> Any:
    return pytest.importorskip("rich.console").Console(file=io.StringIO(), force_terminal=False)


def test_a_hostile_name_makes_no_line_of_its_own() -> None:
    for hostile, harmless in zip(hostile_values("a\nb"), hostile_values("a b"), strict=True):
        if not isinstance(hostile, (NonTensorData, NonTensorStack)):  # reprs of objects may have lines
            assert repr(hostile).count("\n") == repr(harmless).count("\n")


def test_errors_that_name_hostile_classes_hold_no_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every method of the classes of values is called with an object and a text of a hostile name."""
    monkeypatch.chdir(tmp_path)
    wrong = type(_name_of_class(HOSTILE), (), {"__repr__": lambda self: "wrong"})()
    rows = hostile_values(HOSTILE)[0]
    data = TensorDict({"x": torch.ones(2, 3), "t": Text(["a", "b"]), "o": Column([1, 2])}, [2])
    targets = [data, rows, data["t"], data["o"], Ragged([[1], [2, 3]]), type(rows), TensorDict, Text, Column, Ragged]
    arguments: list[tuple[Any, ...]] = [(wrong,), ("x", wrong), (HOSTILE,), ("x", HOSTILE)]
    told, raw = 0, list[object]()
    for target, given_ in itertools.product(targets, arguments):
        for name in {name for name in dir(target) if not name.startswith("_")}:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                error = _error(functools.partial(_call, target, name, given_))
            told += error is not None
            if commands(_ours(error)):
                raw.append((target, name, given_, error))
    assert not raw
    assert told > 2_000


def _call(target: object, name: str, arguments: tuple[object, ...]) -> object:
    return getattr(target, name)(*arguments)


def _ours(error: BaseException | None) -> str:
    """The text of an error that this package raised: those of torch and of Python name what they are given."""
    trace = error.__traceback__ if error is not None else None
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or f"{os.sep}tensorclass{os.sep}" not in trace.tb_frame.f_code.co_filename:
        return ""
    raises = trace.tb_frame.f_code.co_code[trace.tb_lasti] == dis.opmap["RAISE_VARARGS"]
    return str(error) if raises else ""


def test_messages_escape_the_names_of_classes() -> None:
    raw: list[str] = []
    for path in Path(tensorclass.__file__).parent.rglob("*.py"):
        for raised in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(raised, ast.Raise):
                for part in ast.walk(raised):
                    if isinstance(part, ast.FormattedValue) and part.conversion == -1:
                        shown = ast.unparse(part.value)
                        if shown.endswith(("__name__", "__qualname__")) and shown.startswith(("type(", "cls.")):
                            raw.append(f"{path}:{part.lineno}: {shown}")
    assert not raw, "use type_name() or class_name()"


@settings(max_examples=25)
@given(NAMES, NAMES)
def test_reprs_of_hostile_keys_hold_no_commands(key: str, below: str) -> None:
    data = TensorDict({key: torch.ones(3), "nested": {below: torch.ones(3), "text": key}}, [3], names=[below])
    lazy = lazy_stack([TensorDict({key: torch.ones(size)}) for size in (1, 2)])
    record = Row(torch.ones(3), extra=TensorDict({key: torch.ones(3)}, [3]), batch_size=[3])
    for shown in (data, lazy, record, data[:0], data.keys(True)):
        assert not commands(repr(shown))
    for options in ({"compact": True}, {"plain": True}, {"sort_keys": "insertion"}):
        with set_printoptions(**options):
            assert not commands(repr(data) + repr(lazy) + repr(record))
    html = data._repr_html_()
    assert html is not None
    assert not commands(html)


def failing(key: str) -> list[Callable[[], object]]:
    """Calls that fail and name a key."""

    def data(size: int = 3) -> TensorDict:
        return TensorDict({key: torch.ones(size, 2), "b": {key: torch.ones(size, 2)}}, [size])

    other = TensorDict({key: {"c": torch.ones(3)}, "b": torch.ones(3)}, [3])
    gradient = TensorDict({key: torch.ones(3, requires_grad=True)}, [3])
    lazy = lazy_stack([TensorDict({key: torch.ones(size)}) for size in (1, 2)])
    mixed = lazy_stack([TensorDict({key: torch.ones(1)}), TensorDict({key: "text"})])
    return [
        lambda: data()[key, key],
        lambda: data()["b", key, key],
        lambda: data().set(key, torch.ones(2)),
        lambda: data().set(("b", key), torch.ones(2)),
        lambda: data().set((key, "c"), torch.ones(3)),
        lambda: data().set_(key, torch.ones(4)),
        lambda: data().set_(key, "text"),
        lambda: data().update_(other),
        lambda: data().copy_(other),
        lambda: data().rename_key_(key, ("b", key)),
        lambda: data().rename_key_("c", key),
        lambda: data().del_(key + "c"),
        lambda: data().pop(key + "c"),
        lambda: torch.stack([data(), other]),
        lambda: torch.cat([data(), TensorDict({key: torch.ones(3, 4), "b": {key: torch.ones(3, 2)}}, [3])]),
        lambda: torch.stack([data(), TensorDict({key: torch.ones(3, 4), "b": {key: torch.ones(3, 2)}}, [3])]),
        lambda: data() + other,
        lambda: data() == other,
        lambda: data().where(torch.ones(3).bool(), other),
        lambda: data().unflatten_keys(key[0]),
        lambda: data().flatten_keys(key[0]),
        lambda: data().view(5),
        lambda: data().view(torch.float64),
        lambda: gradient.numpy(),
        lambda: gradient.zero_(),
        lambda: lazy[key],
        lambda: mixed[key],
        lambda: lazy.contiguous(),
        lambda: data().load_state_dict({key: torch.ones(7)}),
        lambda: data().load_state_dict({**data().state_dict(), key: torch.ones(7, 2)}),
        lambda: data().split_keys([key + "c"]),
        lambda: data().select(key + "c"),
        lambda: data().exclude(key, inplace=3).get(key, as_list=True),
        lambda: data().group_by(key + "c"),
        lambda: data().group_by(key),
        lambda: data().gather(0, torch.ones(9, 9)),
        lambda: data().to_module(torch.nn.Linear(1, 1)),
        lambda: TensorDict({key: torch.ones(2)}, [3]),
        lambda: TensorDict({key: torch.ones(3), "b": {key: torch.ones(2)}}, [3]),
        lambda: TensorDict({(key, "a"): 1, key: torch.ones(2)}, [2]),
        lambda: Row.from_dict({"a": torch.ones(3), key: 1}, batch_size=[3]),
        lambda: Row.from_dict({"a": {key: 1}}, batch_size=[3]),
        lambda: pickle.loads(pickle.dumps(_error(lambda: data().set(key, torch.ones(2))))).args[0] and 1 / 0,
    ]


def _error(call: Callable[[], object]) -> Exception | None:
    try:
        call()
    except Exception as error:
        return error
    return None


def _said(error: BaseException | None) -> str:
    """All that a traceback prints of an error and of those that it came from."""
    said = ""
    while error is not None:
        said += f"{type(error).__name__}: {error}\n"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return said


@settings(max_examples=8)
@given(NAMES)
def test_errors_that_name_hostile_keys_hold_no_commands(key: str) -> None:
    for number, call in enumerate(failing(key)):
        assert not commands(_said(_error(call))), number


def test_the_calls_that_should_fail_do() -> None:
    passed = [number for number, call in enumerate(failing("\x1b[2J")) if _error(call) is None]
    assert len(passed) <= 6, passed


# --- files -----------------------------------------------------------------------------------------------------------

READERS = (
    "from_consolidated", "from_csv", "from_feather", "from_h5", "from_json", "from_parquet", "from_safetensors",
    "from_zarr", "load", "load_memmap",
)  # fmt: skip
WRITERS = ("consolidate", "memmap", "memmap_", "save", "save_safetensors", "to_h5", "to_zarr")
NAME = "k\x1b[2J\x07\u202e"


@pytest.mark.parametrize("name", READERS)
def test_errors_of_readers_name_hostile_files_without_commands(name: str, tmp_path: Path) -> None:
    for module in ("h5py", "zarr", "pyarrow", "safetensors"):
        pytest.importorskip(module)
    (tmp_path / f"{NAME}garbage").write_bytes(b"\x93garbage\x1b[2J")
    (tmp_path / f"{NAME}empty").touch()
    (tmp_path / f"{NAME}folder").mkdir()
    for kind in ("garbage", "empty", "folder", "missing"):
        error = _error(lambda path=tmp_path / f"{NAME}{kind}": getattr(TensorDict, name)(path))
        assert kind == "empty" or error is not None
        assert not commands(_said(error)), kind


@pytest.mark.parametrize("name", WRITERS)
def test_errors_of_writers_name_hostile_keys_and_files_without_commands(name: str, tmp_path: Path) -> None:
    for module in ("h5py", "zarr", "safetensors"):
        pytest.importorskip(module)
    data = TensorDict({NAME: torch.ones(3), "o": {NAME: object()}}, [3])
    (tmp_path / f"{NAME}folder").mkdir()
    (tmp_path / f"{NAME}folder" / NAME).touch()
    (tmp_path / f"{NAME}file").touch()
    for kind in ("file", "folder", "missing"):
        for rows in (data, data.exclude("o")):
            error = _error(lambda path=tmp_path / f"{NAME}{kind}", rows=rows: getattr(rows, name)(path))
            assert rows is not data or error is not None
            assert not commands(_said(error)), kind
