"""Private random number generators for functions that take no generator."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from torch import Tensor

from tensorclass.td.base import TensorCollection
from tensorclass.td.keys import FlatKey, NestedKey, is_nested_key, unravel_key

#: a generator, a seed, or the key of either
GeneratorLike: TypeAlias = "torch.Generator | int | NestedKey"

#: exclusive upper bound of drawn seeds, which must fit into int64
_SEEDS = 2**62


def _default_generator(device: torch.device) -> torch.Generator:
    """Return the default generator of a device."""
    if device.type == "cpu":
        return torch.default_generator
    if device.type == "cuda":
        generators: Any = torch.cuda.default_generators
        index: Any = device.index  # None is the current one, whatever torch's stubs say
        chosen: torch.Generator = generators[torch.cuda.current_device() if index is None else index]
        return chosen
    raise NotImplementedError(
        f"generator: expected a generator on cpu or cuda, got one on {device.type}; leave it out there"
    )


@contextmanager
def drawing_from(generator: torch.Generator) -> Generator[None, None, None]:
    """Draw all random numbers on the generator's device from ``generator``. The default generator stays as it is."""
    default = _default_generator(generator.device)
    before = default.get_state()
    default.set_state(generator.get_state())
    try:
        yield
        generator.set_state(default.get_state())
    finally:
        default.set_state(before)


class RandomSource:
    """The source of a module's random numbers.

    Args:
        source: a generator; a seed; or the key of a generator or seed in the input. A seed in the input is replaced
            after each use by one drawn from its generator.
        name: the module, for errors.

    Raises:
        TypeError: ``source`` is something else.
    """

    __slots__ = ("_name", "generator", "key", "seed")

    def __init__(self, source: GeneratorLike, name: str) -> None:
        self._name: str = name
        self.generator: torch.Generator | None = None
        self.seed: int | None = None
        self.key: FlatKey | None = None
        if isinstance(source, torch.Generator):
            self.generator = source
        elif isinstance(source, int) and not isinstance(source, bool):
            self.seed = source  # the generator is made on the device of the first parameters
        elif is_nested_key(source):
            self.key = unravel_key(source)
        else:
            raise TypeError(f"{name}: generator is a torch.Generator, a seed, or a key; got {source!r}")

    def resolved(
        self, data: TensorCollection, device: torch.device
    ) -> tuple[torch.Generator | None, Callable[[torch.Generator], None] | None]:
        """Return the generator for a call, and the function to call with it after the draw.

        Args:
            data: the input, which may hold the source.
            device: where a generator is made for a seed.

        Returns:
            The generator, ``None`` if there is none in the input; and a function that writes the next seed into the
            input, ``None`` if it holds no seed.
        """
        if self.key is None:
            if self.generator is None:
                assert self.seed is not None
                self.generator = torch.Generator(device).manual_seed(self.seed)
            return self.generator, None
        key = self.key
        found: Any = data.get(key, None)
        if found is None:
            return None, None
        found = found.data if not isinstance(found, Tensor) and hasattr(found, "data") else found
        if isinstance(found, torch.Generator):
            return found, None

        def write_next_seed(generator: torch.Generator) -> None:
            following = torch.randint(_SEEDS, (), generator=generator, device=device)
            if isinstance(found, Tensor):
                data.set(key, following.to(found.device).reshape(found.shape))
            else:
                data.set_non_tensor(key, int(following))

        return torch.Generator(device).manual_seed(self._seed(found)), write_next_seed

    @contextmanager
    def over(self, data: TensorCollection, device: torch.device) -> Generator[None, None, None]:
        """Draw the random numbers of the block from this source; ``data`` is the input, which may hold it."""
        generator, afterwards = self.resolved(data, device)
        if generator is None:
            yield
            return
        with drawing_from(generator):
            yield
        if afterwards is not None:
            afterwards(generator)

    def _seed(self, value: object) -> int:
        if isinstance(value, Tensor):
            if value.numel() != 1:
                raise ValueError(
                    f"{self._name}: the generator key {self.key!r} holds a tensor of {value.numel()} elements; a seed "
                    "is one integer"
                )
            return int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise TypeError(f"{self._name}: the generator key {self.key!r} holds {value!r}, no generator and no seed")
