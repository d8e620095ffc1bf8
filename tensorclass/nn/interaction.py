"""What a probabilistic module takes from its distribution: a sample, or one of its statistics."""

from __future__ import annotations

from enum import Enum

from typing_extensions import Self

from .modes import Mode, ModeSetting


class InteractionType(str, Enum):
    """What a probabilistic module takes from its distribution.

    A member is equal to its name in small letters, and ``InteractionType("mode")`` finds it by that, in small or
    large letters.

    >>> InteractionType("MODE")
    <InteractionType.MODE: 'mode'>
    >>> InteractionType.RANDOM == "random"
    True
    """

    MODE = "mode"
    """The most probable value."""
    MEDIAN = "median"
    """The value with half of the probability below it."""
    MEAN = "mean"
    """The expected value, estimated from samples where the distribution has no formula for it."""
    RANDOM = "random"
    """A sample, through which gradients flow where the distribution can be reparametrized."""
    DETERMINISTIC = "deterministic"
    """What represents the distribution by one value: see :func:`deterministic_sample`."""

    def __str__(self) -> str:
        return self.value

    def __format__(self, format_spec: str) -> str:
        return format(self.value, format_spec)

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if isinstance(value, str) and value.lower() != value:
            return cls(value.lower())
        return None


def as_interaction_type(value: InteractionType | str, name: str) -> InteractionType:
    """The interaction type that ``value`` names; ``name`` says in the error whose argument it is."""
    try:
        return InteractionType(value)
    except ValueError:
        raise ValueError(
            f"{name}: expected one of {[str(member) for member in InteractionType]}, got {value!r}"
        ) from None


_INTERACTION: Mode[InteractionType | None] = Mode(None)


def interaction_type() -> InteractionType | None:
    """The interaction type that :class:`set_interaction_type` has set, ``None`` where no block says one.

    Then each module follows its own ``default_interaction_type``.
    """
    return _INTERACTION.current()


class set_interaction_type(ModeSetting["InteractionType | None"]):
    """Sets what probabilistic modules take from their distributions, whatever their own default says.

    A context manager and a decorator.

    >>> with set_interaction_type("random"):
    ...     interaction_type()
    <InteractionType.RANDOM: 'random'>
    >>> interaction_type() is None
    True

    Args:
        type: a member of :class:`InteractionType` or its name; ``None`` leaves it to each module.
        thread_local: for this thread only; otherwise for all threads, as long as the block is open.

    Raises:
        ValueError: no such type.
    """

    def __init__(
        self, type: InteractionType | str | None = InteractionType.DETERMINISTIC, *, thread_local: bool = False
    ) -> None:
        self.type: InteractionType | None = None if type is None else as_interaction_type(type, "set_interaction_type")
        self._begin(thread_local)

    def _mode_and_value(self) -> tuple[Mode[InteractionType | None], InteractionType | None]:
        return _INTERACTION, self.type

    def clone(self) -> Self:
        """Another one with this type."""
        return self.__class__(self.type, thread_local=self.thread_local)
