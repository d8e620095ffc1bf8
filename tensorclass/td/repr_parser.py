"""Rebuild a TensorDict from its printed form, without its values."""

from __future__ import annotations

import ast
import re
from typing import Any

import torch
from torch import Size

from .printing.long_form import dtype_name
from .tensordict import TensorDict

_DTYPES: dict[str, torch.dtype] = {
    name: dtype
    for dtype in vars(torch).values()
    if isinstance(dtype, torch.dtype)
    for name in (dtype_name(dtype), str(dtype))
}


def parse_tensor_dict_string(s: str) -> TensorDict:
    """Rebuild a TensorDict from a log: keys, shapes, dtypes, devices and batch sizes, with zeros as values.

    Args:
        s: the printed form, short, long or compact, of a TensorDict of tensors and TensorDicts.

    Raises:
        ValueError: the text contains a record, non-tensor data, or no shapes; or it is a short form that leaves out
            fields.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict, parse_tensor_dict_string
        >>> data = TensorDict({"a": torch.ones(3, 4), "n": {"flag": torch.ones(3, dtype=torch.bool)}}, [3])
        >>> rebuilt = parse_tensor_dict_string(repr(data))
        >>> rebuilt["a"].shape, rebuilt["n", "flag"].dtype, rebuilt.batch_size
        (torch.Size([3, 4]), torch.bool, torch.Size([3]))
    """
    text = s.strip()
    if _SHORT.match(text):
        return _read_short(text.split("\n"))
    reader = _Parser(text)
    result = reader.collection()
    if reader.at != len(reader.text):
        raise reader.error("the end")
    return result


# -- the short form ---------------------------------------------------------------------------------------------------

_SHORT = re.compile(r"TensorDict\((?![^\n]*fields=)[^\n]*\)(\n|$)")
_BATCH_SIZE = re.compile(r"batch_size=\[([\d, ]*)\]")
_DEVICE = re.compile(r"\b(device=|on )([\w:]+)")
_NAMES = re.compile(r"names=(\[[^\]]*\])")
_FIELD = re.compile(
    r"(?P<indent> +)(?P<key>'[^']*'|\"(?:[^\"\\]|\\.)*\"|[^:]+): +(?P<type>[A-Za-z]\w*)(?P<sizes>\[[\d,]*\])?"
    r"(?: @(?P<device>[\w:]+))?(?= |$)"
)


def _read_short(lines: list[str]) -> TensorDict:
    head, *fields = lines
    sizes = _BATCH_SIZE.search(head)
    if sizes is None:
        raise ValueError(f"parse_tensor_dict_string: line 1: expected batch_size=[...], got {head!r}")
    device, names = _DEVICE.search(head), _NAMES.search(head)
    default = device[2] if device else None
    own = default if device and device[1] == "device=" else None
    batch_size = _size(sizes[1])
    data = TensorDict({}, batch_size, own, ast.literal_eval(names[1]) if names else None)
    open_nodes = [(0, data)]  # the collections around a line, each with the indentation of its own line
    for number, line in enumerate(fields, 2):
        found = _FIELD.match(line)
        if found is None or found["key"].endswith("..."):
            raise ValueError(
                f"parse_tensor_dict_string: line {number}: expected a key and the type of a tensor or a TensorDict, "
                f"got {line.strip()!r}; print what has more fields with set_printoptions(style='long')"
            )
        indent = len(found["indent"])
        while indent <= open_nodes[-1][0]:
            open_nodes.pop()
        parent = open_nodes[-1][1]
        key = found["key"] if found["key"][0] not in "'\"" else ast.literal_eval(found["key"])
        size = Size([*parent.batch_size, *_size((found["sizes"] or "[]")[1:-1])])
        if found["type"] == "TensorDict":
            nested = TensorDict({}, size, own)
            parent.set(key, nested)
            open_nodes.append((indent, parent.get(key)))
        elif found["type"] in _DTYPES:
            parent.set(key, torch.zeros(size, dtype=_DTYPES[found["type"]], device=found["device"] or default))
        else:
            raise ValueError(
                f"parse_tensor_dict_string: line {number}: {key}: only TensorDicts of tensors and TensorDicts can be "
                f"read, got {found['type']}"
            )
    return data


def _size(text: str) -> Size:
    return Size([int(size) for size in text.split(",") if size.strip()])


# -- the long and the compact form ------------------------------------------------------------------------------------


class _Parser:
    """A recursive-descent parser; each method consumes one form at the position ``at``."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def error(self, expected: str) -> ValueError:
        return ValueError(
            f"parse_tensor_dict_string: expected {expected} at position {self.at}, got "
            f"{self.text[self.at : self.at + 40]!r}; only TensorDicts of tensors and TensorDicts can be read"
        )

    def take(self, pattern: str, expected: str = "") -> re.Match[str] | None:
        """Consume a match at the current position. Raise if ``expected`` names something and nothing matches."""
        found = re.compile(rf"\s*{pattern}\s*").match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        elif expected:
            raise self.error(expected)
        return found

    def sizes(self) -> Size:
        found = self.take(r"(?:torch\.Size\()?\[([\d,\s]*)\]\)?", "sizes in brackets")
        assert found is not None
        return Size([int(size) for size in found[1].split(",") if size.strip()])

    def facts(self, known: dict[str, Any]) -> dict[str, Any]:
        """``name=value, ...`` up to the closing parenthesis."""
        while not self.take(r"\)"):
            found = self.take(r"(\w+)=", "name=value")
            assert found is not None
            name = found[1]
            if name == "fields":
                known[name] = self.fields(known.get("batch_size"))
            elif name in ("shape", "batch_size"):
                known[name] = self.sizes()
            elif name == "names":
                names = self.take(r"(\[[^\]]*\])", "names in brackets")
                known[name] = ast.literal_eval(names[1]) if names else None
            else:
                value = self.take(r"([^,()\s]+)", "a value")
                known[name] = value[1] if value else None
            self.take(",")
        return known

    def collection(self) -> TensorDict:
        self.take(r"TensorDict\(", "TensorDict(")
        known = self.facts({})
        device = known.get("device")
        device = None if device in (None, "None") else device
        return TensorDict(known.get("fields", {}), known.get("batch_size"), device, known.get("names"))

    def fields(self, batch_size: Size | None) -> dict[str, Any]:
        """Parse entries in braces. In the compact form, shapes are given after the batch size, which comes first."""
        self.take(r"\{", "{")
        entries: dict[str, Any] = {}
        while not self.take(r"\}"):
            found = self.take(r"([^:{}]+):", "a key")
            assert found is not None
            entries[found[1].strip()] = self.value(batch_size)
            self.take(",")
        return entries

    def value(self, batch_size: Size | None) -> Any:
        if re.compile(r"\s*TensorDict\(").match(self.text, self.at):
            return self.collection()
        if self.take(r"\w+\((?=shape=)"):
            known = self.facts({})
            return self.zeros(known["shape"], known.get("dtype", "torch.float32"), known.get("device"))
        if batch_size is not None:
            if found := self.take(r"(\w+)(?=\[)"):
                rest = self.sizes()
                device = self.take(r"@([\w:]+)")
                return self.zeros(batch_size + rest, found[1], device and device[1])
            more = self.sizes() if self.text.startswith("[", self.at) else Size()
            if self.text.startswith("{", self.at):
                return TensorDict(self.fields(batch_size + more), batch_size + more)
        raise self.error("a tensor or a TensorDict")

    def zeros(self, shape: Size, dtype: str, device: str | None) -> torch.Tensor:
        if dtype not in _DTYPES:
            raise self.error(f"a dtype of torch instead of {dtype!r}")
        return torch.zeros(shape, dtype=_DTYPES[dtype], device=device)
