"""The base class of modules that read and write a collection by key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from torch import nn
from typing_extensions import Self

from tensorclass.support.printable import class_name, printable, type_name
from tensorclass.td.base import TensorCollection
from tensorclass.td.keys import FlatKey, NestedKey, unravel_key, unravel_key_list
from tensorclass.td.tensordict import TensorDict

from .fully_sharded import look_into_results
from .outputs import remove

if TYPE_CHECKING:
    from torch.utils.hooks import RemovableHandle

T = TypeVar("T", bound=TensorCollection)

#: the key of an output that is discarded
DISCARDED = "_"


class MissingKeys(KeyError, RuntimeError):
    """The collection lacks keys that a module reads."""

    def __str__(self) -> str:
        return Exception.__str__(self)  # KeyError would quote the message


class UnknownOutKeys(ValueError, RuntimeError):
    """Keys to select are not among the ``out_keys`` of the module."""


def as_keys(keys: Any, what: str) -> list[FlatKey]:
    """Return keys from a user as a list: one key (a tuple is a nested key), or a list of keys.

    Args:
        keys: the keys.
        what: the name of the argument, for the error.

    Raises:
        ValueError: ``keys`` is something else.

    Example:
        >>> as_keys("x", "in_keys"), as_keys(("a", "b"), "in_keys"), as_keys(["x", "y"], "in_keys")
        (['x'], [('a', 'b')], ['x', 'y'])
    """
    given: object = keys
    if isinstance(given, str):
        return [given]
    try:
        if isinstance(given, tuple) and given:
            return [unravel_key(keys)]
        if isinstance(given, (list, tuple)):
            return unravel_key_list(keys)
    except TypeError as error:
        raise ValueError(f"{what}: {error}") from None
    raise ValueError(f"{what}: expected a key (a string, or a tuple of strings) or a list of keys, got {given!r}")


def as_key_list(keys: Any, what: str) -> list[FlatKey]:
    """Return keys from a user as a list, for arguments that always hold several: any iterable of keys, or one string.

    Args:
        keys: the keys. A tuple is a list of keys here, not a nested key.
        what: the name of the argument, for the error.

    Raises:
        ValueError: ``keys`` is something else.

    Example:
        >>> as_key_list(("a", "b"), "in_keys"), as_key_list("a", "in_keys")
        (['a', 'b'], ['a'])
    """
    return as_keys([*keys] if isinstance(keys, Iterable) and not isinstance(keys, (str, list)) else keys, what)


def names_of(module: object) -> str:
    """Return the name of a module or a function for error messages."""
    return printable(getattr(module, "__name__", type(module).__name__))


class TensorDictModuleBase(nn.Module):
    """Base class of modules that map a collection to a collection: they read ``in_keys`` and write ``out_keys``.

    Both are lists of keys, set in the class body or in the constructor. ``forward`` takes a collection and returns one;
    decorated with :class:`dispatch` it also takes tensors.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict
        >>> from tensorclass.nn import TensorDictModuleBase
        >>> class Double(TensorDictModuleBase):
        ...     in_keys = ["x"]
        ...     out_keys = ["y"]
        ...
        ...     def forward(self, tensordict):
        ...         return tensordict.set("y", 2 * tensordict["x"])
        >>> Double()(TensorDict(x=torch.ones(2)))["y"]
        tensor([2., 2.])
    """

    if TYPE_CHECKING:  # a subclass may set them as lists in its body
        in_keys: Sequence[NestedKey]
        out_keys: Sequence[NestedKey]

    else:

        @property
        def in_keys(self):
            """The keys that the module reads.

            Example:
                >>> import torch
                >>> from tensorclass.nn import TensorDictModule
                >>> TensorDictModule(torch.add, ["x", ("a", "b")], "y").in_keys
                ['x', ('a', 'b')]
            """
            return self._in_keys

        @in_keys.setter
        def in_keys(self, keys):
            self._in_keys = unravel_key_list(keys)

        @property
        def out_keys(self):
            """The keys that the module writes: all of them, or the selected ones.

            Example:
                >>> import torch
                >>> from tensorclass.nn import TensorDictModule
                >>> module = TensorDictModule(torch.frexp, "x", ["mantissa", "exponent"])
                >>> module.out_keys, module.select_out_keys("exponent").out_keys
                (['mantissa', 'exponent'], ['exponent'])
            """
            return self._out_keys

        @out_keys.setter
        def out_keys(self, keys):
            self._reset()
            self._out_keys = unravel_key_list(keys)

    _in_keys: list[FlatKey]
    _out_keys: list[FlatKey]
    #: whether forward writes only selected keys; otherwise a hook removes the others
    _selects: ClassVar[bool] = False
    #: all out_keys, if some of them are selected
    _source: list[FlatKey] | None = None
    _selection: RemovableHandle | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        look_into_results(cls)
        for name in ("in_keys", "out_keys"):
            keys = vars(cls).get(name)
            if isinstance(keys, (list, tuple, str)):  # set in the class body
                setattr(cls, f"_{name}", as_key_list(keys, f"{class_name(cls)}.{name}"))
                delattr(cls, name)
        if "forward" in vars(cls) and "_selects" not in vars(cls):
            cls._selects = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("_in_keys", "_out_keys"):
            if name not in vars(self) and hasattr(type(self), name):
                setattr(self, name, list(getattr(type(self), name)))  # a copy, which the class does not share

    @property
    def out_keys_source(self) -> Sequence[NestedKey]:
        """All keys that the module can write, whatever is selected.

        Example:
            >>> import torch
            >>> from tensorclass.nn import TensorDictModule
            >>> module = TensorDictModule(torch.frexp, "x", ["mantissa", "exponent"]).select_out_keys("mantissa")
            >>> module.out_keys, module.out_keys_source
            (['mantissa'], ['mantissa', 'exponent'])
        """
        return self.out_keys if self._source is None else self._source

    def select_out_keys(self, *out_keys: NestedKey) -> Self:
        """Restrict the keys that the module writes. Values under its other keys stay as they are.

        If ``forward`` is defined by a user, a hook removes the other keys from its result.

        Args:
            *out_keys: keys among :attr:`out_keys`.

        Returns:
            The module itself.

        Raises:
            ValueError: the module does not write one of the keys; :meth:`reset_out_keys` undoes an earlier selection.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> from tensorclass.nn import TensorDictModule
            >>> module = TensorDictModule(torch.frexp, "x", ["mantissa", "exponent"]).select_out_keys("mantissa")
            >>> list(module(TensorDict(x=torch.ones(2))).keys())
            ['x', 'mantissa']
        """
        selected = unravel_key_list(out_keys)
        current = unravel_key_list(self.out_keys)
        unknown = [key for key in selected if key not in current]
        if unknown:
            raise UnknownOutKeys(
                f"{type_name(self)}.select_out_keys: there are no {unknown} among the out_keys {current}"
                + ("" if self._source is None else f", selected of {self._source}; see reset_out_keys()")
            )
        source = current if self._source is None else self._source
        self._reset()
        self._source = source
        self._out_keys = selected
        if unravel_key_list(self.out_keys) != selected:
            self._source = None
            raise UnknownOutKeys(
                f"{type_name(self)}.select_out_keys: its out_keys are a property of the class, which gives all of "
                "them whatever is selected; assign self.out_keys in __init__ instead"
            )
        if not self._selects:
            self._selection = self.register_forward_hook(_keep_selected)
        return self

    def reset_out_keys(self) -> Self:
        """Undo :meth:`select_out_keys`.

        Returns:
            The module itself.

        Example:
            >>> import torch
            >>> from tensorclass.nn import TensorDictModule
            >>> module = TensorDictModule(torch.frexp, "x", ["mantissa", "exponent"]).select_out_keys("mantissa")
            >>> module.reset_out_keys().out_keys
            ['mantissa', 'exponent']
        """
        source = self._source
        self._reset()
        if source is not None:
            self._out_keys = source
        return self

    def _reset(self) -> None:
        if self._selection is not None:
            self._selection.remove()
        if self._source is not None:
            self._selection = self._source = None

    def reset_parameters_recursive(self, parameters: T | None = None) -> T | None:
        """Call ``reset_parameters`` of each submodule that has it.

        Args:
            parameters: values to start from, as :meth:`TensorDict.from_module` returns them. They are not changed, and
                the parameters of the module are not either. By default the parameters of the module are reset in place.

        Returns:
            New parameters if ``parameters`` is given, else ``None``.

        Raises:
            RuntimeError: ``parameters`` has batch dimensions, or does not fit this module.

        Example:
            >>> from torch import nn
            >>> from tensorclass import TensorDict
            >>> from tensorclass.nn import TensorDictModule
            >>> module = TensorDictModule(nn.Linear(3, 4), "x", "y")
            >>> fresh = module.reset_parameters_recursive(TensorDict.from_module(module))
            >>> fresh["module", "weight"].shape
            torch.Size([4, 3])
        """
        if parameters is None:
            self._reset_parameters()
            return None
        if parameters.ndim:
            raise RuntimeError(
                f"reset_parameters_recursive: expected parameters without batch dimensions, got batch size "
                f"{list(parameters.batch_size)}; unbind them and reset one after the other"
            )
        trained = {path for path, own in TensorDict.from_module(self)._named_leaves() if isinstance(own, nn.Parameter)}
        copies = [
            leaf.detach().clone().requires_grad_(path in trained and leaf.is_floating_point())
            for path, leaf in parameters._named_leaves()
        ]
        fresh: Any = parameters._with_leaves(iter(copies))
        with fresh.to_module(self):
            self._reset_parameters()
        result: T = fresh
        return result

    def _reset_parameters(self) -> None:
        for module in self.modules():
            reset: Any = getattr(module, "reset_parameters", None)
            if module is not self and callable(reset) and not isinstance(module, TensorDictModuleBase):
                reset()

    @staticmethod
    def is_tdmodule_compatible(module: object) -> bool:
        """Return whether a module declares what it reads and writes: it has ``in_keys`` and ``out_keys``.

        Args:
            module: a module or any other object.

        Example:
            >>> from torch import nn
            >>> from tensorclass.nn import TensorDictModuleBase
            >>> TensorDictModuleBase.is_tdmodule_compatible(nn.Linear(3, 4))
            False
        """
        return hasattr(module, "in_keys") and hasattr(module, "out_keys")

    def extra_repr(self) -> str:
        """Return the keys, for the repr of the module.

        Example:
            >>> import torch
            >>> from tensorclass.nn import TensorDictModuleWrapper, TensorDictModule
            >>> TensorDictModuleWrapper(TensorDictModule(torch.exp, "x", "y")).extra_repr()
            "in_keys=['x'], out_keys=['y']"
        """
        keys = {name: getattr(self, name, None) for name in ("in_keys", "out_keys")}  # not set yet in some modules
        return ", ".join(f"{name}={value}" for name, value in keys.items() if value is not None)


def _keep_selected(module: nn.Module, args: Any, result: Any) -> None:
    """Remove keys that are not selected from the result of a module."""
    if not isinstance(result, TensorCollection):
        return  # tensors: only selected ones are returned
    owner: Any = module
    kept = {*unravel_key_list(owner.out_keys), *unravel_key_list(owner.in_keys)}
    for key in owner.out_keys_source:
        if key not in kept and key in result.keys(True):
            remove(result, key)


def missing_keys(module: object, keys: Iterable[NestedKey], data: TensorCollection) -> MissingKeys:
    """Build the error for keys that are missing.

    Args:
        module: the module that reads the keys, or its name.
        keys: the missing keys.
        data: the collection that lacks them.
    """
    name = module if isinstance(module, str) else names_of(module)
    there = list(data.keys(True, True))
    return MissingKeys(f"{name}: the in_keys {list(keys)} are missing; the keys that are there: {there}")
