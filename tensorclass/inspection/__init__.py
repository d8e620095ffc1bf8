"""The content of files: the commands ``tensorclass inspect`` and ``tensorclass convert``."""

from .file_description import FieldDescription, FileDescription, describe_file

__all__ = ["FieldDescription", "FileDescription", "describe_file"]
