"""Writing results so that nothing half-written is ever found under its name, and score records to files and back."""

from __future__ import annotations

import dataclasses
import errno
import os
import shutil
import tempfile
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import torch
from torch import Tensor

from tensorclass.scores import families
from tensorclass.scores.align import align
from tensorclass.scores.ifeval import IFEvalScoreData
from tensorclass.scores.record import ScoreData

__all__ = ["load_scores", "save_scores", "whole_file", "whole_folder"]

_FORMAT = "tensorclass.scores.record/1"


@contextmanager
def whole_file(path: str | Path) -> Generator[IO[bytes], None, None]:
    """A file to write to that takes its name only when all is written and on disk.

    It is written beside its place under another name. Where the block raises, that is removed, and what stood at
    ``path`` stays.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with whole_file(f"{folder}/result.json") as file:
        ...         _ = file.write(b"{}")
        ...     os.listdir(folder)
        ['result.json']
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "expected a file to write to, found a folder", str(path))
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.absolute().parent)
    except OSError as error:
        raise _of(path, error) from None
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())  # mkstemp keeps others out
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@contextmanager
def whole_folder(path: str | Path) -> Generator[Path, None, None]:
    """A folder to write to that takes its place only when all is written.

    It is filled beside its place under another name and then renamed. Where ``path`` is a folder already, the files
    written replace those of the same name, each as a whole, and others stay. Missing parent folders are made.

    Example:
        >>> with tempfile.TemporaryDirectory() as parent:
        ...     with whole_folder(f"{parent}/results") as folder:
        ...         _ = (folder / "scores.json").write_text("{}")
        ...     os.listdir(parent), os.listdir(f"{parent}/results")
        (['results'], ['scores.json'])
    """
    path = Path(path).absolute()
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"{path}: expected a folder to write to, found a file")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        draft = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent))
    except OSError as error:
        raise _of(path, error) from None
    try:
        yield draft
        os.chmod(draft, 0o777 & ~_umask())
        try:
            os.rename(draft, path)  # also over an empty folder
        except OSError:
            if not path.is_dir():
                raise
            for file in sorted(draft.iterdir()):
                os.replace(file, path / file.name)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def save_scores(scores: ScoreData, path: str | Path) -> None:
    """Write a score record to a file, whole or not at all.

    The file holds tensors, names and numbers only: reading it runs no code. Plain fields must be None, strings,
    numbers, or tuples or lists of them.

    Example:
        >>> from tensorclass.scores import ExactMatchScoreData
        >>> scores = ExactMatchScoreData(torch.tensor([1.0, 0.0]), batch_size=[2])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_scores(scores, f"{folder}/scores.pt")
        ...     load_scores(f"{folder}/scores.pt", ExactMatchScoreData).exact_match
        tensor([1., 0.])
    """
    (scores,) = align(scores)  # one vocabulary, where positions had their own
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(scores):
        value = getattr(scores, field.name)
        if isinstance(value, Tensor):
            value = value.detach().cpu().contiguous()
        elif not _is_plain(value):
            raise TypeError(
                f"{field.name}: expected a tensor, None, text, a number, or a tuple or list of them, the same at each "
                f"position, got {type(value).__name__}"
            )
        fields[field.name] = value
    content = {
        "format": _FORMAT,
        "family": type(scores).__name__,
        "batch_size": list(scores.batch_size),
        "fields": fields,
    }
    with whole_file(path) as file:
        torch.save(content, file)


def load_scores(path: str | Path, family: type[ScoreData] | None = None) -> ScoreData:
    """Read a score record that :func:`save_scores` wrote.

    Args:
        path: the file.
        family: the class of the record; by default the class of this package that the file names.

    Raises:
        ValueError: another kind of file, a part of one, or a class that isn't of this package and wasn't given.
    """
    try:
        read: object = torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception:  # what the unpickler makes of other files can be any error, and its advice is to run their code
        raise ValueError(
            f"{path}: expected a file written by save_scores, got something else or a part of one"
        ) from None
    content = cast("dict[str, Any]", read) if isinstance(read, dict) else {}
    if content.get("format") != _FORMAT:
        raise ValueError(f"{path}: expected a file written by save_scores ({_FORMAT}), got something else")
    name = content["family"]
    if family is None:
        known = (IFEvalScoreData, *(one for one in vars(families).values() if isinstance(one, type)))
        family = next((one for one in known if issubclass(one, ScoreData) and one.__name__ == name), None)
        if family is None:
            raise ValueError(
                f"{path}: holds {name}, which is not of this package; give its class: load_scores(path, {name})"
            )
    elif family.__name__ != name:
        raise ValueError(f"{path}: expected {family.__name__}, got {name}")
    return family(**content["fields"], batch_size=content["batch_size"])


def _is_plain(value: object) -> bool:
    if isinstance(value, (tuple, list)):
        return all(map(_is_plain, cast("Iterable[object]", value)))
    return value is None or isinstance(value, (str, int, float))


def _of(path: Path, error: OSError) -> OSError:
    """The error as one of the file that was asked for, not of the draft beside it."""
    return OSError(error.errno, f"can't be written: {error.strerror}", str(path))


def _umask() -> int:
    """The bits that the user keeps from new files; it can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
