"""The command ``tensorclass migrate``: read sources, rewrite them, tell which lines to look at."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tensorclass.support.atomic import whole_file
from tensorclass.support.extras import require
from tensorclass.support.interrupts import uninterrupted
from tensorclass.support.printable import printable
from tensorclass.support.regular_files import content_of

from .source_files import dependency_lines, files_below, is_source

if TYPE_CHECKING:
    from .difference_search import Remark


def run(arguments: Namespace) -> int:
    """Run the command.

    Args:
        arguments: ``paths`` and ``check``, as ``tensorclass migrate --help`` tells.

    Returns:
        The exit code: 0; 1 where ``check`` finds a file to rewrite; 2 if a file was skipped, or nothing could be read.
    """
    try:
        require("libcst", "migrate", "tensorclass migrate")
        files = list(files_below(arguments.paths))
    except (ImportError, OSError) as error:
        return _failed(f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error))
    return _Run(arguments.check).over(files)


class _Run:
    """One run of the command, with what it counts."""

    def __init__(self, check: bool) -> None:
        self.check = check
        self.rewritten = 0
        self.remarks = 0
        self.skipped = 0

    def over(self, files: Sequence[Path]) -> int:
        """Go over the files; return the exit code."""
        from .migrated_source import Project

        sources: dict[Path, bytes] = {}
        for path in files:
            try:
                source = content_of(path)
            except OSError as error:
                self._skip(path, error.strerror or str(error).removeprefix(f"{path}: "))
                continue
            if is_source(path):
                sources[path] = source
            for line in dependency_lines(path, source):
                self._tell(path, line, "names tensordict; this file stays as it is")
        project = Project(sources)
        for path, problem in project.problems.items():
            self._skip(path, problem)
        for path, code, remarks in project.migrated(self.check):
            self._file(path, code, remarks)
        self._summary()
        return 2 if self.skipped else int(self.check and self.rewritten > 0)

    def _file(self, path: Path, code: bytes | None, remarks: Sequence[Remark]) -> None:
        if code is not None:
            try:
                if not self.check:
                    with uninterrupted() as section, whole_file(path) as file, section.interruptible():
                        file.write(code)
            except OSError as error:
                self._skip(path, error.strerror or str(error))
                return
            self.rewritten += 1
            print(printable(f"{path}: {'would be rewritten' if self.check else 'rewritten'}"))
        for remark in remarks:
            self._tell(path, remark.line, f"{remark.says} ({remark.entry})" if remark.entry else remark.says)

    def _tell(self, path: Path, line: int, says: str) -> None:
        self.remarks += 1
        print(printable(f"{path}:{line}: {says}"))

    def _skip(self, path: Path, problem: str) -> None:
        self.skipped += 1
        print(printable(f"tensorclass migrate: {path}: {problem}; skipped"), file=sys.stderr)

    def _summary(self) -> None:
        done = "would be rewritten" if self.check else "rewritten"
        counts = [f"{_count(self.rewritten, 'file')} {done}", f"{_count(self.remarks, 'line')} to look at"]
        counts += [f"{_count(self.skipped, 'file')} skipped"] if self.skipped else []
        print(", ".join(counts))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _failed(message: str) -> int:
    print(f"tensorclass migrate: {printable(message)}", file=sys.stderr)
    return 2
