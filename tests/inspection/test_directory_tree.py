"""The files of a folder as an indented list."""

from __future__ import annotations

from pathlib import Path

import pytest

from tensorclass.utils import print_directory_tree


def test_files_and_folders_are_printed_below_one_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "top"
    (folder / "below").mkdir(parents=True)
    (folder / "a.txt").write_bytes(b"12345")
    (folder / "below" / "b.txt").write_bytes(b"12345")
    text = print_directory_tree(folder, indent="- ")
    assert text.splitlines() == [
        "Directory size: 10 B", "- top/", "-     a.txt", "-     below/", "-         b.txt",
    ]  # fmt: skip
    assert capsys.readouterr().out == text + "\n"


def test_a_link_to_a_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "top").mkdir()
    (tmp_path / "top" / "again").symlink_to(tmp_path / "top", target_is_directory=True)
    assert print_directory_tree(tmp_path / "top", display_metadata=False) == "top/\n    again"


def test_a_path_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="print_directory_tree: there is no file"):
        print_directory_tree(tmp_path / "missing")
