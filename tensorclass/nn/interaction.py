"""The value that probabilistic modules take from a distribution: a sample, or a statistic."""

from __future__ import annotations

from enum import Enum

from typing_extensions import Self

from tensorclass.support.nearest import did_you_mean
from tensorclass.td.modes import Mode, ProgramSetting


class InteractionType(str, Enum):
    """The value that a probabilistic module takes from its distribution.

    A member equals its lower-case name. ``InteractionType("mode")`` finds it by name, in any case.

    Example:
        >>> from tensorclass.nn import InteractionType
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

    @classmethod
    def from_str(cls, type_str: str) -> Self:
        """Return the interaction type of a name, as ``InteractionType(type_str)`` does.

        Args:
            type_str: the name, in any case.

        Raises:
            ValueError: no interaction type has this name.

        Example:
            >>> from tensorclass.nn import InteractionType
            >>> InteractionType.from_str("Random")
            <InteractionType.RANDOM: 'random'>
        """
        return cls(type_str)

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
    """Return the interaction type that ``value`` names.

    Args:
        value: a member or its name.
        name: the argument that is checked, for the error.

    Raises:
        ValueError: there is no such type.
    """
    try:
        return InteractionType(value)
    except ValueError:
        raise ValueError(
            f"{name}: expected one of {[str(member) for member in InteractionType]}, got {value!r}"
            + did_you_mean(value, [str(member) for member in InteractionType])
        ) from None


_INTERACTION: Mode[InteractionType | None] = Mode("interaction_type", None)


def interaction_type() -> InteractionType | None:
    """Return the type that :class:`set_interaction_type` sets.

    ``None`` if no block is open: each module then uses its own ``default_interaction_type``.

    Example:
        >>> from tensorclass.nn import interaction_type
        >>> interaction_type() is None
        True
    """
    return _INTERACTION.current()


class set_interaction_type(ProgramSetting["InteractionType | None"]):
    """Set the value that all probabilistic modules take from their distributions, whatever their defaults.

    A context manager and a decorator.

    Args:
        type: a member of :class:`InteractionType` or its name; ``None`` restores the defaults of the modules.
        thread_local: limit a block to its own thread; otherwise it holds for all threads while it is open.

    Raises:
        ValueError: there is no such type.

    Example:
        >>> from tensorclass.nn import interaction_type, set_interaction_type
        >>> with set_interaction_type("random"):
        ...     interaction_type()
        <InteractionType.RANDOM: 'random'>
        >>> interaction_type() is None
        True
    """

    def __init__(
        self, type: InteractionType | str | None = InteractionType.DETERMINISTIC, *, thread_local: bool = False
    ) -> None:
        super().__init__(thread_local)
        self.type: InteractionType | None = None if type is None else as_interaction_type(type, "set_interaction_type")

    def _mode_and_value(self) -> tuple[Mode[InteractionType | None], InteractionType | None]:
        return _INTERACTION, self.type
