"""The files of a folder as an indented list."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from .file_description import shown_bytes

_INDENT = "    "


def print_directory_tree(path: str | os.PathLike[str], indent: str = "", display_metadata: bool = True) -> str:
    """Print the files and folders below a folder, each level indented further; folders end in ``/``.

    ``tensorclass inspect`` shows what the files hold.

    Args:
        path: the folder, or a file.
        indent: put in front of each name.
        display_metadata: begin with the size of all files. Default: ``True``.

    Returns:
        The printed text.

    Raises:
        FileNotFoundError: the path does not exist.

    Example:
        >>> import tempfile
        >>> import torch
        >>> from tensorclass import TensorDict
        >>> from tensorclass.utils import print_directory_tree
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = TensorDict({"a": torch.zeros(2), "n": {"b": torch.zeros(2)}}, [2]).memmap(folder + "/data")
        ...     text = print_directory_tree(folder + "/data", display_metadata=False)
        data/
            a.memmap
            meta.json
            n/
                b.memmap
                meta.json
    """
    root = Path(path)
    if not root.exists():
        raise FileNotFoundError(f"print_directory_tree: there is no file or folder {str(root)!r}")
    lines = list(_lines(root, indent))
    if display_metadata:
        files = [root] if root.is_file() else [file for file in root.rglob("*") if file.is_file()]
        lines.insert(0, f"Directory size: {shown_bytes(sum(file.lstat().st_size for file in files))}")
    text = "\n".join(lines)
    print(text)
    return text


def _lines(path: Path, indent: str) -> Iterator[str]:
    is_folder = path.is_dir() and not path.is_symlink()
    yield f"{indent}{path.resolve().name if path.name in ('', '..') else path.name}{'/' if is_folder else ''}"
    if is_folder:
        for below in sorted(path.iterdir()):
            yield from _lines(below, indent + _INDENT)
