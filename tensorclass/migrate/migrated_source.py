"""The sources of a project, before and after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import libcst as cst
from libcst.metadata import MetadataWrapper

from .counterparts import PACKAGE, PEER
from .difference_search import Remark, remarks_on
from .import_rewriting import ImportPlan
from .respelling import Rewriter
from .source_files import mentions
from .source_names import SourceNames


class Migrated(NamedTuple):
    """The result for a file."""

    path: Path
    code: bytes | None  #: the new source; ``None`` if it stays
    remarks: list[Remark]


class Project:
    """Source files that are migrated together: records of one are known in the others.

    Args:
        sources: the bytes of each file.

    Example:
        >>> project = Project({Path("a.py"): b"from tensordict import TensorDict\\n"})
        >>> [file.code for file in project.migrated()]
        [b'from tensorclass import TensorDict\\n']
    """

    def __init__(self, sources: Mapping[Path, bytes]) -> None:
        self.problems: dict[Path, str] = {}  #: files that cannot be parsed, and why
        self._modules: dict[Path, _Module] = {}
        self._records: dict[str, str] = {}  #: record classes, with the package that makes them records
        unread = dict(sources)
        while new := [path for path in unread if mentions(unread[path], (PEER, PACKAGE, *self._records))]:
            for path in new:
                self._parse(path, unread.pop(path))
            self._find_records()

    def migrated(self, old_lines: bool = False) -> Iterator[Migrated]:
        """Yield the files that use either package.

        Args:
            old_lines: whether remarks have the lines of the source as it is, not of the new one.
        """
        for path, old in self._modules.items():
            new = old.wrapper.module.visit(Rewriter(ImportPlan(old.wrapper), old.names))
            changed = new.code != old.wrapper.module.code
            about = old if old_lines or not changed else _Module(new.bytes, self._records)
            yield Migrated(path, new.bytes if changed else None, remarks_on(about.wrapper, about.names))

    def _parse(self, path: Path, source: bytes) -> None:
        try:
            self._modules[path] = _Module(source, self._records)
        except cst.ParserSyntaxError as error:
            self.problems[path] = f"line {error.raw_line}: syntax error"
        except (SyntaxError, UnicodeDecodeError, LookupError) as error:
            self.problems[path] = f"cannot be read as Python: {error}"

    def _find_records(self) -> None:
        """Find the record classes, also those that derive from classes of other files."""
        known = -1
        while known < len(self._records):
            known = len(self._records)
            for module in self._modules.values():
                module.names.learn(self._records)
                self._records |= module.names.defined


class _Module:
    """A module with its metadata."""

    def __init__(self, source: bytes, records: Mapping[str, str]) -> None:
        # a parsed module has no node twice, and need not be copied
        self.wrapper = MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
        self.names = SourceNames(self.wrapper, records)
