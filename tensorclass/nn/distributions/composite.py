"""Several variables with a distribution each, as one distribution over collections."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias, TypeVar

from torch import Size, Tensor
from torch.distributions import Distribution
from typing_extensions import Self

from tensorclass.td.base import TensorCollection
from tensorclass.td.keys import FlatKey, NestedKey, unravel_key
from tensorclass.td.tensordict import TensorDict

from .aggregation import composite_lp_aggregate
from .deterministic import deterministic_sample

T = TypeVar("T")

#: what makes a distribution from its parameters, given by keyword
DistributionMaker: TypeAlias = Callable[..., Distribution]


class MissingVariables(KeyError, ValueError):
    """A sample does not have what there are distributions for."""

    def __str__(self) -> str:
        return Exception.__str__(self)  # that of KeyError quotes the message


def suffixed(key: FlatKey, suffix: str) -> FlatKey:
    """The key whose last name has ``suffix`` behind it."""
    return key + suffix if isinstance(key, str) else (*key[:-1], key[-1] + suffix)


def _by_flat_key(mapping: Mapping[Any, T] | None) -> dict[FlatKey, T]:
    return {unravel_key(key): value for key, value in mapping.items()} if mapping else {}


def _names(name_map: Mapping[Any, Any] | None, keys: Sequence[FlatKey]) -> dict[FlatKey, FlatKey]:
    """The key under which each variable stands in samples."""
    names = _by_flat_key(name_map)
    unknown = [key for key in names if key not in keys]
    if unknown:
        raise KeyError(f"name_map: there are no distributions for {unknown}; there are {list(keys)}")
    return {key: unravel_key(names.get(key, key)) for key in keys}


def _expanded(distribution: Any, batch_shape: Size) -> Distribution:
    expanded: Distribution = distribution.expand(batch_shape)
    return expanded


class CompositeDistribution(Distribution, Mapping[Any, Distribution]):
    """Independent variables with a distribution each; a sample is a ``TensorDict`` that has all of them.

    It is a mapping, too, from the key of each variable to its distribution.

    >>> import torch
    >>> from torch.distributions import Categorical, Normal
    >>> params = TensorDict(
    ...     {"speed": {"loc": torch.zeros(3, 2), "scale": torch.ones(3, 2)}, "gear": {"logits": torch.zeros(3, 5)}}, [3]
    ... )
    >>> both = CompositeDistribution(params, {"speed": Normal, "gear": Categorical})
    >>> both.sample()["speed"].shape
    torch.Size([3, 2])
    >>> sorted(both.log_prob(both.sample()).keys())
    ['gear_log_prob', 'speed_log_prob']

    Args:
        params: a collection or a record with a nested collection for each variable: the parameters of its
            distribution, under the names of its arguments. Its batch size is the ``batch_shape``.
        distribution_map: the class (or another callable) for each variable.
        name_map: the key in samples for variables whose parameters stand under another one.
        extra_kwargs: more arguments for the class of a variable.
        log_prob_key: where the sum of log-probabilities stands, ``"sample_log_prob"`` by default.
        entropy_key: where the sum of entropies stands, ``"entropy"`` by default.

    Raises:
        KeyError: variables without parameters, names or arguments for what is no variable.
        TypeError: parameters that are no arguments of the class.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {}  # pyright: ignore[reportIncompatibleMethodOverride]

    def __eq__(self, other: object) -> bool:
        return self is other  # as for distributions, not for mappings

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __init__(
        self,
        params: TensorCollection,
        distribution_map: Mapping[Any, DistributionMaker],
        *,
        name_map: Mapping[Any, NestedKey] | None = None,
        extra_kwargs: Mapping[Any, Mapping[str, Any]] | None = None,
        log_prob_key: NestedKey | None = None,
        entropy_key: NestedKey | None = None,
    ) -> None:
        if not isinstance(params, TensorCollection):
            raise TypeError(f"CompositeDistribution: params is a collection or a record, got {type(params).__name__}")
        makers = _by_flat_key(distribution_map)
        more = _by_flat_key(extra_kwargs)
        names = _names(name_map, list(makers))
        unknown = [key for key in more if key not in makers]
        if unknown:
            raise KeyError(f"extra_kwargs: there are no distributions for {unknown}; there are {list(makers)}")
        given = {key: params.get(key, None) for key in makers}
        missing = [key for key, found in given.items() if found is None]
        if missing:
            raise KeyError(
                f"CompositeDistribution: no params for {missing}; "
                f"there are {list(params.keys(include_nested=True, leaves_only=True))}"
            )
        dists: dict[FlatKey, Distribution] = {}
        for key, found in given.items():
            if not isinstance(found, TensorCollection):
                raise TypeError(
                    f"CompositeDistribution: params of {key!r} are a nested collection, whose keys are the names of "
                    f"arguments; got {type(found).__name__}"
                )
            arguments: dict[str, Any] = {**dict(found.items()), **more.get(key, {})}
            try:
                dists[names[key]] = makers[key](**arguments)
            except TypeError as error:
                raise TypeError(
                    f"CompositeDistribution: {key!r}: {makers[key]!r} does not take {sorted(arguments)}: {error}"
                ) from error
        self._take(params.batch_size, dists, log_prob_key, entropy_key)

    def _take(
        self,
        batch_shape: Size,
        dists: dict[FlatKey, Distribution],
        log_prob_key: NestedKey | None,
        entropy_key: NestedKey | None,
    ) -> None:
        self.dists: dict[FlatKey, Distribution] = dists
        self._log_prob_key: NestedKey = "sample_log_prob" if log_prob_key is None else log_prob_key
        self._entropy_key: NestedKey = "entropy" if entropy_key is None else entropy_key
        super().__init__(batch_shape, validate_args=False)

    @classmethod
    def from_distributions(
        cls,
        params: TensorCollection,
        distributions: Mapping[Any, Distribution],
        *,
        name_map: Mapping[Any, NestedKey] | None = None,
        log_prob_key: NestedKey | None = None,
        entropy_key: NestedKey | None = None,
    ) -> Self:
        """From distributions that are made already.

        Args:
            params: a collection or a record whose batch size is the ``batch_shape``.
            distributions: that of each variable.
            name_map: as for the class.
            log_prob_key: as for the class.
            entropy_key: as for the class.
        """
        made = _by_flat_key(distributions)
        names = _names(name_map, list(made))
        new = cls.__new__(cls)
        new._take(params.batch_size, {names[key]: made[key] for key in made}, log_prob_key, entropy_key)
        return new

    def expand(self, batch_shape: Size | Sequence[int], _instance: object = None) -> Self:
        """The same distributions for a larger batch."""
        size, ndim = Size(batch_shape), len(self._batch_shape)
        new = type(self).__new__(type(self))
        dists: Any = {key: _expanded(dist, size + dist.batch_shape[ndim:]) for key, dist in self.dists.items()}
        new._take(size, dists, self._log_prob_key, self._entropy_key)
        return new

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.dists})"

    # -- a mapping ----------------------------------------------------------------------------------------------------

    def __getitem__(self, key: NestedKey) -> Distribution:
        return self.dists[unravel_key(key)]

    def __iter__(self) -> Iterator[FlatKey]:
        return iter(self.dists)

    def __len__(self) -> int:
        return len(self.dists)

    @property
    def log_prob_key(self) -> NestedKey:
        """The key of the sum of log-probabilities."""
        return self._log_prob_key

    @log_prob_key.setter
    def log_prob_key(self, key: NestedKey) -> None:
        self._log_prob_key = key

    @property
    def entropy_key(self) -> NestedKey:
        """The key of the sum of entropies."""
        return self._entropy_key

    @entropy_key.setter
    def entropy_key(self, key: NestedKey) -> None:
        self._entropy_key = key

    # -- samples ------------------------------------------------------------------------------------------------------

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether gradients flow through samples of all variables."""
        return all(dist.has_rsample for dist in self.dists.values())

    def _collected(self, values: Mapping[Any, Any], shape: Size | Sequence[int] = ()) -> TensorDict:
        return TensorDict(values, Size(shape) + self._batch_shape if shape else self._batch_shape)

    def sample(self, shape: Size | Sequence[int] | None = None) -> TensorDict:  # type: ignore[override]
        """Random values of all variables, with the batch size ``[*shape, *batch_shape]``; no gradients."""
        size = Size(shape or ())
        return self._collected({key: dist.sample(size) for key, dist in self.dists.items()}, size)

    def rsample(self, shape: Size | Sequence[int] | None = None) -> TensorDict:  # type: ignore[override]
        """Random values through which gradients flow, with the batch size ``[*shape, *batch_shape]``.

        Raises:
            NotImplementedError: a distribution cannot be reparametrized.
        """
        cannot = [key for key, dist in self.dists.items() if not dist.has_rsample]
        if cannot:
            raise NotImplementedError(
                f"CompositeDistribution.rsample: no gradients flow through samples of {cannot}; use sample"
            )
        size = Size(shape or ())
        return self._collected({key: dist.rsample(size) for key, dist in self.dists.items()}, size)

    @property
    def mode(self) -> TensorDict:  # type: ignore[override]
        """The most probable value of each variable."""
        return self._collected({key: dist.mode for key, dist in self.dists.items()})

    @property
    def mean(self) -> TensorDict:  # type: ignore[override]
        """The expected value of each variable."""
        return self._collected({key: dist.mean for key, dist in self.dists.items()})

    @property
    def deterministic_sample(self) -> TensorDict:
        """One value for each variable: see :func:`deterministic_sample`.

        Raises:
            NotImplementedError: a distribution has no such value.
        """
        values: dict[FlatKey, Any] = {}
        for key, dist in self.dists.items():
            try:
                values[key] = deterministic_sample(dist)
            except NotImplementedError as error:
                raise NotImplementedError(
                    f"CompositeDistribution.deterministic_sample: {key!r}: {type(dist).__name__} has neither "
                    "a deterministic_sample nor a formula for its mean"
                ) from error
        return self._collected(values)

    # -- log-probabilities --------------------------------------------------------------------------------------------

    def _value(self, sample: TensorCollection, key: FlatKey) -> Any:
        value = sample.get(key, None)
        if value is None:
            missing = [key for key in self.dists if sample.get(key, None) is None]
            raise MissingVariables(
                f"CompositeDistribution: the sample has no {missing}; "
                f"it has {list(sample.keys(include_nested=True, leaves_only=True))}"
            )
        return value

    def _log_probs(self, sample: TensorCollection) -> dict[FlatKey, Any]:
        return {key: dist.log_prob(self._value(sample, key)) for key, dist in self.dists.items()}

    @staticmethod
    def _sum(values: Mapping[FlatKey, Any], ndim: int) -> Tensor:
        """The sum of all values over all but the first ``ndim`` dimensions."""
        total: Any = None
        for value in values.values():
            if isinstance(value, TensorCollection):  # of a distribution over collections
                value = value.sum(dim="feature", reduce=True)
            if value.ndim > ndim:
                value = value.flatten(ndim).sum(-1)
            total = value if total is None else total + value
        if total is None:
            raise ValueError("CompositeDistribution: there are no variables whose values could be added up")
        result: Tensor = total
        return result

    def log_prob(self, sample: TensorCollection) -> Any:  # type: ignore[override]
        """The log-probability of a sample.

        Args:
            sample: a collection or a record with all variables; what else it holds is not looked at.

        Returns:
            a tensor with the batch size of the sample where they are added up
            (:class:`set_composite_lp_aggregate`); otherwise a ``TensorDict`` with ``"<variable>_log_prob"`` for each.

        Raises:
            KeyError: variables that the sample does not have.
        """
        values = self._log_probs(sample)
        if composite_lp_aggregate():
            return self._sum(values, sample.batch_dims)
        return self._suffixed(values, "_log_prob", sample.batch_size)

    def log_prob_composite(self, sample: TensorCollection, *, include_sum: bool | None = None) -> TensorCollection:
        """The log-probability of each variable, under ``"<variable>_log_prob"``.

        Where they are added up (:class:`set_composite_lp_aggregate`) the values are written into the sample, which is
        given back, unless ``include_sum`` is ``False``.

        Args:
            sample: a collection or a record with all variables.
            include_sum: their sum, too, under ``log_prob_key``; by default where log-probabilities are added up.

        Raises:
            KeyError: variables that the sample does not have.
        """
        aggregate = composite_lp_aggregate()
        values = self._log_probs(sample)
        result = {suffixed(key, "_log_prob"): value for key, value in values.items()}
        if aggregate if include_sum is None else include_sum:
            result[unravel_key(self._log_prob_key)] = self._sum(values, sample.batch_dims)
        if not aggregate:
            return TensorDict(result, sample.batch_size)
        if include_sum is False:
            sample = sample.copy()
        return sample.update(result)

    def _suffixed(self, values: Mapping[FlatKey, Any], suffix: str, size: Size) -> TensorDict:
        return TensorDict({suffixed(key, suffix): value for key, value in values.items()}, size)

    def sample_and_log_prob(self, shape: Size | Sequence[int] | None = None) -> tuple[TensorDict, Any]:
        """:meth:`sample`, and :meth:`log_prob` of it."""
        sample = self.sample(shape)
        return sample, self.log_prob(sample)

    def rsample_and_log_prob(self, shape: Size | Sequence[int] | None = None) -> tuple[TensorDict, Any]:
        """:meth:`rsample`, and :meth:`log_prob` of it."""
        sample = self.rsample(shape)
        return sample, self.log_prob(sample)

    # -- entropies ----------------------------------------------------------------------------------------------------

    def _entropies(self, samples_mc: int) -> dict[FlatKey, Any]:
        values: dict[FlatKey, Any] = {}
        for key, dist in self.dists.items():
            try:
                values[key] = dist.entropy()
            except NotImplementedError:  # H = -E[log p(x)], by the mean of samples
                draw = dist.rsample if dist.has_rsample else dist.sample
                values[key] = -dist.log_prob(draw(Size((samples_mc,)))).mean(0)
        return values

    def entropy(
        self, samples_mc: int = 1, *, aggregate_probabilities: bool | None = None, include_sum: bool | None = None
    ) -> Any:
        """The entropy.

        Args:
            samples_mc: how many samples estimate the entropy of a distribution that has no formula for it.
            aggregate_probabilities: whether entropies are added up, whatever the mode says.
            include_sum: where they are not added up, their sum, too, under ``entropy_key``.

        Returns:
            a tensor with the batch size where they are added up (:class:`set_composite_lp_aggregate`); otherwise
            a ``TensorDict`` with ``"<variable>_entropy"`` for each.
        """
        aggregate = composite_lp_aggregate() if aggregate_probabilities is None else aggregate_probabilities
        if aggregate:
            return self._sum(self._entropies(samples_mc), len(self._batch_shape))
        return self.entropy_composite(samples_mc, include_sum=bool(include_sum))

    def entropy_composite(self, samples_mc: int = 1, *, include_sum: bool | None = None) -> TensorDict:
        """The entropy of each variable, under ``"<variable>_entropy"``.

        Args:
            samples_mc: how many samples estimate the entropy of a distribution that has no formula for it.
            include_sum: their sum, too, under ``entropy_key``; by default where they are added up.
        """
        values = self._entropies(samples_mc)
        result = {suffixed(key, "_entropy"): value for key, value in values.items()}
        if composite_lp_aggregate() if include_sum is None else include_sum:
            result[unravel_key(self._entropy_key)] = self._sum(values, len(self._batch_shape))
        return self._collected(result)

    # -- distribution functions ---------------------------------------------------------------------------------------

    def cdf(self, sample: TensorCollection) -> TensorCollection:  # type: ignore[override]
        """Writes the probability below each value into the sample, under ``"<variable>_cdf"``.

        Raises:
            KeyError: variables that the sample does not have.
            NotImplementedError: a distribution has no formula for it.
        """
        return sample.update(
            {suffixed(key, "_cdf"): dist.cdf(self._value(sample, key)) for key, dist in self.dists.items()}
        )

    def icdf(self, sample: TensorCollection) -> TensorCollection:  # type: ignore[override]
        """Writes the value that has a probability below it into the sample, under ``"<variable>_icdf"``.

        Args:
            sample: probabilities, under ``"<variable>_cdf"`` where there is such a key, else under ``"<variable>"``.

        Raises:
            KeyError: variables that the sample does not have.
            NotImplementedError: a distribution has no formula for it.
        """
        values: dict[FlatKey, Any] = {}
        for key, dist in self.dists.items():
            probability = sample.get(suffixed(key, "_cdf"), None)
            values[suffixed(key, "_icdf")] = dist.icdf(self._value(sample, key) if probability is None else probability)
        return sample.update(values)
