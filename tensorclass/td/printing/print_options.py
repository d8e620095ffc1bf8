"""The options of ``repr``."""

from __future__ import annotations

from typing import Any

from typing_extensions import Self

from tensorclass.support.nearest import did_you_mean
from tensorclass.td.modes import Mode, ProgramSetting

STYLES: tuple[str, ...] = ("short", "long", "compact")
#: facts that the long form shows of collections and of tensors, with their defaults
_SHOWN = {
    "show_batch_size": True,
    "show_device": True,
    "show_is_shared": True,
    "show_shape": True,
    "show_field_device": True,
    "show_dtype": True,
    "show_field_is_shared": True,
    "show_grad": False,
    "show_is_contiguous": False,
    "show_is_view": False,
    "show_storage_size": False,
    "plain": False,
}
#: facts that the other forms have, too
_IN_ALL = {"show_batch_size", "show_device", "show_dtype"}
_VERBOSE = ("show_device", "show_is_shared", "show_field_device", "show_dtype", "show_field_is_shared")

#: no ``with`` statement overrides the options for a thread alone, so they are read as ``OPTIONS.everywhere``
OPTIONS: Mode[dict[str, Any]] = Mode(
    "printoptions",
    {**_SHOWN, "sort_keys": None, "style": "short", "max_lines": 40, "max_width": 100, "html": True},
)


def get_printoptions() -> dict[str, Any]:
    """Return the current options of ``print``; see :class:`set_printoptions`.

    Example:
        >>> from tensorclass import get_printoptions
        >>> get_printoptions()["style"], get_printoptions()["max_lines"]
        ('short', 40)
    """
    options = OPTIONS.everywhere
    return {**options, "compact": options["style"] == "compact"}


class set_printoptions(ProgramSetting["dict[str, Any]"]):
    """Set the options of ``print`` for collections, records and columns.

    The call takes effect at once, as that of :func:`torch.set_printoptions`. In a ``with`` statement, the options end
    with the block. As a decorator, they hold while the function runs. How numbers are written is up to
    :func:`torch.set_printoptions`: ``precision``, ``sci_mode``, ``edgeitems``, ``threshold``, and a ``linewidth`` other
    than torch's default.

    Args:
        style: ``"short"`` (default): a line for each field, with values, in at most ``max_lines`` lines.
            ``"long"``: shape, dtype and device of each tensor. ``"compact"``: dtypes and shapes, on one line if it
            fits.
        max_lines: the most lines of the short form. Default: 40.
        max_width: the most columns of the short form. Default: 100.
        verbose: ``False`` hides devices, dtypes and ``is_shared``, except those that a keyword asks for. Default:
            ``True``.
        show_batch_size: show the batch size of collections. Default: ``True``.
        show_device: show the device of collections. Default: ``True``.
        show_dtype: show the dtype of tensors. Default: ``True``.
        show_is_shared: show whether all tensors of a collection are in shared memory. Default: ``True``. This option
            and those below are for the long form, and select it unless ``style`` or ``compact`` is given.
        show_shape: show the shape of tensors. Likewise ``show_field_device`` and ``show_field_is_shared`` (default:
            ``True``), ``show_grad``, ``show_is_contiguous``, ``show_is_view`` and ``show_storage_size`` (default:
            ``False``).
        plain: show mean and standard deviation of floating-point tensors, minimum and maximum of integer tensors.
            Default: ``False``.
        sort_keys: ``"alphabetical"``, ``"insertion"``, or a sort key, a function of the key. Default: ``None``, which
            is insertion in the short form and alphabetical in the others. Records keep the order of their fields.
        compact: ``True`` for ``style="compact"``, ``False`` for ``style="long"``: the names of the peer.
        html: show collections in notebooks with fields that unfold, instead of as text. Default: ``True``.

    Raises:
        TypeError: an option does not exist.
        ValueError: an option does not have one of its values.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict, set_printoptions
        >>> data = TensorDict({"a": torch.zeros(3, 4), "b": {"text": "hello"}}, [3])
        >>> print(data)
        TensorDict(batch_size=[3], on cpu, 48 bytes)
          a: f32[4]  all 0.0
          b: TensorDict
            text: str  'hello' for all rows
        >>> with set_printoptions(style="compact"):
        ...     print(data)
        TensorDict(batch_size=[3], fields={a: f32[4], b: {text: str}})
    """

    def __init__(self, *, verbose: bool = True, **kwargs: Any) -> None:
        super().__init__()
        known = OPTIONS.everywhere.keys() | {"compact"}
        if unknown := kwargs.keys() - known:
            raise TypeError(
                f"set_printoptions: unknown options {sorted(unknown)}; expected some of {sorted(known)}"
                + did_you_mean(sorted(unknown), sorted(known))
            )
        _check_values(kwargs)
        self.options: dict[str, Any] = dict(kwargs)
        compact = self.options.pop("compact", None)
        if not verbose:
            self.options = dict.fromkeys(_VERBOSE, False) | self.options
        if "style" not in kwargs:
            if compact is not None:
                self.options["style"] = "compact" if compact else "long"
            elif kwargs.keys() & (_SHOWN.keys() - _IN_ALL):
                self.options["style"] = "long"
        self.set()

    def _mode_and_value(self) -> tuple[Mode[dict[str, Any]], dict[str, Any]]:
        return OPTIONS, {**OPTIONS.everywhere, **self.options}

    def set(self) -> None:
        """Set the options again, for the rest of the program. The constructor has set them already.

        Example:
            >>> from tensorclass import get_printoptions, set_printoptions
            >>> wide = set_printoptions(max_width=80)
            >>> get_printoptions()["max_width"]
            80
            >>> set_printoptions(max_width=100).set()
        """
        self._previous: dict[str, Any] | None = OPTIONS.everywhere
        super().set()
        self._current: dict[str, Any] = OPTIONS.everywhere

    def _undo(self) -> None:
        """Take back what the constructor has set, unless something was set since."""
        if self._previous is not None and OPTIONS.everywhere is self._current:
            OPTIONS.everywhere = self._previous
        self._previous = None

    def __enter__(self) -> Self:
        self._undo()
        return super().__enter__()

    def __call__(self, function: Any) -> Any:
        self._undo()
        return super().__call__(function)


def _check_values(options: dict[str, Any]) -> None:
    sort_keys = options.get("sort_keys")
    if not callable(sort_keys) and sort_keys not in ("alphabetical", "insertion", None):
        raise ValueError(
            f"sort_keys: expected 'alphabetical', 'insertion' or a function, got {sort_keys!r}"
            + did_you_mean(sort_keys, ("alphabetical", "insertion"))
        )
    if options.get("style", "short") not in STYLES:
        style = options["style"]
        raise ValueError(f"style: expected one of {list(STYLES)}, got {style!r}{did_you_mean(style, STYLES)}")
    for name, least in (("max_lines", 2), ("max_width", 40)):
        value = options.get(name, least)
        if type(value) is not int or value < least:
            raise ValueError(f"{name}: expected an int of at least {least}, got {value!r}")
