"""A zip archive of logs of any format: its files are read as those of a folder."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Final

from tensorclass.scores.readers.file_head import FileHead
from tensorclass.scores.readers.reader_registry import Reader, ReadOptions
from tensorclass.scores.readers.run import PromptText, Run
from tensorclass.scores.readers.zip_members import ZipMembers
from tensorclass.scores.score_errors import ScoreFileError

__all__ = ["READER", "ZipReader"]

_DATA: Final = (".jsonl", ".json", ".eval", ".parquet", ".csv", ".tsv", ".gz", ".bz2", ".zst")
_MOST: Final = 10_000  # files


class ZipReader(Reader):
    """Reads the logs in a zip archive."""

    name: str = "zip"
    description = "a zip archive of such files"

    def recognises(self, head: FileHead) -> bool:
        if not head.is_zip:
            return False
        try:
            with ZipMembers.of(head.location, str(head.path)) as members:
                return bool(_data(members))
        except ScoreFileError:  # reading it says what is wrong
            return True

    def read(self, head: FileHead, options: ReadOptions) -> list[Run]:
        options = replace(options, progress=None)  # a function of the caller's, which can't be pickled
        with _extracted(head.location, str(head.path)) as folder:
            try:
                found = _runs(folder, options)
            except ScoreFileError as error:
                raise ScoreFileError(_named(error.path, folder, head), error.line, error.problem) from None
            return [_renamed(run, folder, head, partial(_texts, head.path, options, n)) for n, run in enumerate(found)]


READER = ZipReader()


def _data(members: ZipMembers) -> list[str]:
    """The members that may be logs, without hidden ones and those that lead out of the folder."""
    found = [name for name in members.names() if name.endswith(_DATA)]
    parts = {name: PurePosixPath(name.replace("\\", "/")).parts for name in found}
    return [name for name in found if not any(part.startswith((".", "/", "__MACOSX")) for part in parts[name])]


@contextmanager
def _extracted(path: Path, name: str) -> Generator[Path, None, None]:
    """A temporary folder with the members, which is called as the archive."""
    folder = Path(tempfile.mkdtemp(prefix="tensorclass-zip-"))
    try:
        root = folder / (Path(name).name.removesuffix(".zip") or "archive")
        with ZipMembers.of(path, name) as members:
            data = _data(members)
            if len(data) > _MOST:
                raise ScoreFileError(name, None, f"expected at most {_MOST:,} files in an archive, got {len(data):,}")
            for member in data:
                place = root.joinpath(*PurePosixPath(member.replace("\\", "/")).parts)
                try:
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_bytes(members.read(member))
                except ScoreFileError:
                    raise
                except (OSError, ValueError) as error:  # a name that no file can have
                    problem = f"can't be unpacked: {getattr(error, 'strerror', None) or error}"
                    raise ScoreFileError(f"{name}/{member}", None, problem) from None
        yield root
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _named(file: str, folder: Path, head: FileHead) -> str:
    """The name of an extracted file: that of the archive and of the member."""
    inside = str(Path(file)).removeprefix(str(folder)).lstrip("/\\")
    return f"{head.path}/{inside}" if inside else str(head.path)


def _renamed(run: Run, folder: Path, head: FileHead, texts: Callable[[], Iterator[PromptText]]) -> Run:
    def named(notes: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(note.replace(f"{folder}/", f"{head.path}/") for note in notes)

    return replace(
        run,
        files=tuple(_named(file, folder, head) for file in run.files),
        notes=named(run.notes),
        left_out=named(run.left_out),
        texts=None if run.texts is None or not head.can_be_read_again else texts,
    )


def _runs(folder: Path, options: ReadOptions) -> list[Run]:
    from tensorclass.scores.readers import read_runs  # which looks for the readers, of which this is one

    columns = options.columns or None
    return read_runs([folder], filter=options.filter, family=options.family, columns=columns, results=options.results)


def _texts(path: Path, options: ReadOptions, place: int) -> Iterator[PromptText]:
    with _extracted(path, str(path)) as folder:
        texts = _runs(folder, options)[place].texts
        assert texts is not None
        yield from texts()
