"""Independent variables, each with its own distribution, as one distribution over collections."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias, TypeVar

from torch import Size, Tensor
from torch.distributions import Distribution
from typing_extensions import Self

from tensorclass.support.printable import type_name
from tensorclass.td.base import TensorCollection
from tensorclass.td.keys import FlatKey, NestedKey, unravel_key
from tensorclass.td.tensordict import TensorDict

from .aggregation import composite_lp_aggregate
from .deterministic import deterministic_sample

T = TypeVar("T")

#: a class or function that makes a distribution from its parameters, given by keyword
DistributionMaker: TypeAlias = Callable[..., Distribution]


class MissingVariables(KeyError, ValueError):
    """A sample lacks variables of the distribution."""

    def __str__(self) -> str:
        return Exception.__str__(self)  # KeyError would quote the message


def suffixed(key: FlatKey, suffix: str) -> FlatKey:
    """Return the key with ``suffix`` appended to its last name."""
    return key + suffix if isinstance(key, str) else (*key[:-1], key[-1] + suffix)


def _suffixed(values: Mapping[FlatKey, Any], suffix: str) -> dict[FlatKey, Any]:
    return {suffixed(key, suffix): value for key, value in values.items()}


def rename_log_probs(data: TensorCollection, variables: Iterable[FlatKey], keys: Iterable[FlatKey]) -> None:
    """Move the log-probability of each variable to its key, in place."""
    for variable, key in zip(variables, keys, strict=True):
        if suffixed(variable, "_log_prob") != key:
            data.rename_key_(suffixed(variable, "_log_prob"), key)


def _by_flat_key(mapping: Mapping[Any, T] | None) -> dict[FlatKey, T]:
    return {unravel_key(key): value for key, value in mapping.items()} if mapping else {}


def _entries_of(mapping: Mapping[Any, T] | None, argument: str, variables: Mapping[FlatKey, Any]) -> dict[FlatKey, T]:
    """Return an argument with an entry for some variables. Raise if a key is none of them."""
    entries = _by_flat_key(mapping)
    unknown = [key for key in entries if key not in variables]
    if unknown:
        raise KeyError(f"{argument}: there are no distributions for {unknown}; there are {list(variables)}")
    return entries


def _sample_keys(name_map: Mapping[Any, Any] | None, variables: Mapping[FlatKey, Any]) -> dict[FlatKey, FlatKey]:
    """Map each variable to its key in samples."""
    names = _entries_of(name_map, "name_map", variables)
    return {key: unravel_key(names.get(key, key)) for key in variables}


def _expanded(distribution: Any, batch_shape: Size) -> Distribution:
    expanded: Distribution = distribution.expand(batch_shape)
    return expanded


class CompositeDistribution(Distribution, Mapping[Any, Distribution]):
    """Independent variables, each with its own distribution. A sample is a ``TensorDict`` of all variables.

    It is also a mapping from the key of each variable to its distribution.

    Args:
        params: a collection or record with a nested collection for each variable: the parameters of its distribution,
            under the names of its arguments. Its batch size is the ``batch_shape``.
        distribution_map: the class (or another callable) for each variable.
        name_map: the key in samples, for variables whose parameters have another key.
        extra_kwargs: further arguments for the class of a variable.
        log_prob_key: the key of the sum of log-probabilities, ``"sample_log_prob"`` by default.
        entropy_key: the key of the sum of entropies, ``"entropy"`` by default.

    Raises:
        KeyError: a variable has no parameters; ``name_map`` or ``extra_kwargs`` has a key that is not a variable.
        TypeError: the class of a variable does not take its parameters.

    Example:
        >>> import torch
        >>> from torch.distributions import Categorical, Normal
        >>> from tensorclass import TensorDict
        >>> from tensorclass.nn import CompositeDistribution
        >>> params = TensorDict(
        ...     {"speed": {"loc": torch.zeros(3, 2), "scale": torch.ones(3, 2)}, "gear": {"logits": torch.zeros(3, 5)}},
        ...     [3],
        ... )
        >>> both = CompositeDistribution(params, {"speed": Normal, "gear": Categorical})
        >>> both["gear"]
        Categorical(logits: torch.Size([3, 5]))
        >>> both.sample()["speed"].shape
        torch.Size([3, 2])
        >>> sorted(both.log_prob(both.sample()).keys())
        ['gear_log_prob', 'speed_log_prob']
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
            raise TypeError(f"CompositeDistribution: params is a collection or a record, got {type_name(params)}")
        makers = _by_flat_key(distribution_map)
        names = _sample_keys(name_map, makers)
        more = _entries_of(extra_kwargs, "extra_kwargs", makers)
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
                    f"arguments; got {type_name(found)}"
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
        """Build from existing distributions.

        Args:
            params: a collection or record whose batch size is the ``batch_shape``.
            distributions: the distribution of each variable.
            name_map: the key in samples for variables with another key.
            log_prob_key: the key of the sum of log-probabilities.
            entropy_key: the key of the sum of entropies.

        Raises:
            KeyError: ``name_map`` has a key that is not a variable.

        Example:
            >>> import torch
            >>> from torch.distributions import Normal
            >>> from tensorclass import TensorDict
            >>> from tensorclass.nn import CompositeDistribution
            >>> normal = Normal(torch.zeros(3), torch.ones(3))
            >>> CompositeDistribution.from_distributions(TensorDict({}, [3]), {"x": normal}).mean["x"]
            tensor([0., 0., 0.])
        """
        made = _by_flat_key(distributions)
        names = _sample_keys(name_map, made)
        new = cls.__new__(cls)
        new._take(params.batch_size, {names[key]: made[key] for key in made}, log_prob_key, entropy_key)
        return new

    def expand(self, batch_shape: Size | Sequence[int], _instance: object = None) -> Self:
        """Return the same distributions for a larger batch, as views of their parameters.

        Args:
            batch_shape: the new batch shape, to which the old one broadcasts.

        Example:
            >>> import torch
            >>> from torch.distributions import Normal
            >>> from tensorclass import TensorDict
            >>> from tensorclass.nn import CompositeDistribution
            >>> one = CompositeDistribution.from_distributions(TensorDict(), {"x": Normal(0.0, 1.0)})
            >>> one.expand([4]).batch_shape
            torch.Size([4])
        """
        size, ndim = Size(batch_shape), len(self._batch_shape)
        new = type(self).__new__(type(self))
        dists: Any = {key: _expanded(dist, size + dist.batch_shape[ndim:]) for key, dist in self.dists.items()}
        new._take(size, dists, self._log_prob_key, self._entropy_key)
        return new

    def __repr__(self) -> str:
        return f"{type_name(self)}({self.dists})"

    # -- a mapping ----------------------------------------------------------------------------------------------------

    def __getitem__(self, key: NestedKey) -> Distribution:
        return self.dists[unravel_key(key)]

    def __iter__(self) -> Iterator[FlatKey]:
        return iter(self.dists)

    def __len__(self) -> int:
        return len(self.dists)

    @property
    def log_prob_key(self) -> NestedKey:
        """The key of the sum of log-probabilities.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> from tensorclass.nn import CompositeDistribution
            >>> params = TensorDict(x=TensorDict(loc=torch.zeros(2), scale=torch.ones(2)))
            >>> CompositeDistribution(params, {"x": torch.distributions.Normal}).log_prob_key
            'sample_log_prob'
        """
        return self._log_prob_key

    @log_prob_key.setter
    def log_prob_key(self, key: NestedKey) -> None:
        self._log_prob_key = key

    @property
    def entropy_key(self) -> NestedKey:
        """The key of the sum of entropies.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> from tensorclass.nn import CompositeDistribution
            >>> params = TensorDict(x=TensorDict(loc=torch.zeros(2), scale=torch.ones(2)))
            >>> CompositeDistribution(params, {"x": torch.distributions.Normal}).entropy_key
            'entropy'
        """
        return self._entropy_key

    @entropy_key.setter
    def entropy_key(self, key: NestedKey) -> None:
        self._entropy_key = key

    # -- samples ------------------------------------------------------------------------------------------------------

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """``True`` if gradients flow through the samples of all variables.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> from tensorclass.nn import CompositeDistribution
            >>> params = TensorDict(x=TensorDict(loc=torch.zeros(2), scale=torch.ones(2)))
            >>> CompositeDistribution(params, {"x": torch.distributions.Normal}).has_rsample
            True
        """
        return all(dist.has_rsample for dist in self.dists.values())

    def _collected(self, values: Mapping[Any, Any], shape: Size | Sequence[int] = ()) -> TensorDict:
        return TensorDict(values, Size(shape) + self._batch_shape if shape else self._batch_shape)

    def sample(self, shape: Size | Sequence[int] | None = None) -> TensorDict:  # type: ignore[override]
        """Draw all variables, without gradients.

        Args:
            shape: dimensions of samples in front of the batch; none by default.

        Returns:
            A ``TensorDict`` of batch size ``[*shape, *batch_shape]``.

        Example:
            >>> from torch.distributions import Normal
            >>> from tensorclass import TensorDict
            >>> from tensorclass.nn import CompositeDistribution
            >>> CompositeDistribution.from_distributions(TensorDict(), {"x": Normal(0.0, 1.0)}).sample([4])["x"].shape
            torch.Size([4])
        """
        size = Size(shape or ())
        return self._collected({key: dist.sample(size) for key, dist in self.dists.items()}, size)

    def rsample(self, shape: Size | Sequence[int] | None = None) -> TensorDict:  # type: ignore[override]
        """Draw all variables, with gradients through the samples.

        Args:
            shape: dimensions of samples in front of the batch; none by default.

        Returns:
            A ``TensorDict`` of batch size ``[*shape, *batch_shape]``.

        Raises:
            NotImplementedError: a distribution cannot be reparametrized.

        Example:
            >>> from torch.distributions import Normal
            >>> from tensorclass import TensorDict
            >>> from tensorclass.nn import CompositeDistribution
            >>> CompositeDistribution.from_distributions(TensorDict(), {"x": Normal(0.0, 1.0)}).rsample([4])["x"].shape
            torch.Size([4])
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
        """The most probable value of each variable.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> from tensorclass.nn import CompositeDistribution
            >>> params = TensorDict(x=TensorDict(loc=torch.zeros(2), scale=torch.ones(2)))
            >>> CompositeDistribution(params, {"x": torch.distributions.Normal}).mode["x"]
            tensor([0., 0.])
        """
        return self._collected({key: dist.mode for key, dist in self.dists.items()})

    @property
    def mean(self) -> TensorDict:  # type: ignore[override]
        """The expected value of each variable.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> from tensorclass.nn import CompositeDistribution
            >>> params = TensorDict(x=TensorDict(loc=torch.zeros(2), scale=torch.ones(2)))
            >>> CompositeDistribution(params, {"x": torch.distributions.Normal}).mean["x"]
            tensor([0., 0.])
        """
        return self._collected({key: dist.mean for key, dist in self.dists.items()})

    @property
    def deterministic_sample(self) -> TensorDict:
        """A representative value of each variable: see :func:`deterministic_sample`.

        Raises:
            NotImplementedError: a distribution has no such value.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> from tensorclass.nn import CompositeDistribution
            >>> params = TensorDict(x=TensorDict(loc=torch.zeros(2), scale=torch.ones(2)))
            >>> CompositeDistribution(params, {"x": torch.distributions.Normal}).deterministic_sample["x"]
            tensor([0., 0.])
        """
        values: dict[FlatKey, Any] = {}
        for key, dist in self.dists.items():
            try:
                values[key] = deterministic_sample(dist)
            except NotImplementedError as error:
                raise NotImplementedError(
                    f"CompositeDistribution.deterministic_sample: {key!r}: {type_name(dist)} has neither "
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
        """Sum all values over all but the first ``ndim`` dimensions."""
        parts: list[Tensor] = []
        for value in values.values():
            if isinstance(value, TensorCollection):  # of a distribution over collections
                value = value.sum(dim="feature", reduce=True)
            parts.append(value.flatten(ndim).sum(-1) if value.ndim > ndim else value)
        if not parts:
            raise ValueError("CompositeDistribution: there are no variables whose values could be added up")
        total: Tensor = functools.reduce(operator.add, parts)
        return total

    def log_prob(self, sample: TensorCollection) -> Any:  # type: ignore[override]
        """Compute the log-probability of a sample.

        Args:
            sample: a collection or record with all variables; other keys are ignored.

        Returns:
            If log-probabilities are summed (:class:`set_composite_lp_aggregate`), a tensor of the sample's batch size;
            otherwise a ``TensorDict`` with ``"<variable>_log_prob"`` for each variable.

        Raises:
            KeyError: the sample lacks variables.

        Example:
            >>> from torch.distributions import Normal
            >>> from tensorclass import TensorDict
            >>> from tensorclass.nn import CompositeDistribution
            >>> normal = CompositeDistribution.from_distributions(TensorDict(), {"x": Normal(0.0, 1.0)})
            >>> normal.log_prob(TensorDict(x=0.0))["x_log_prob"]
            tensor(-0.9189)
        """
        values = self._log_probs(sample)
        if composite_lp_aggregate():
            return self._sum(values, sample.batch_dims)
        return TensorDict(_suffixed(values, "_log_prob"), sample.batch_size)

    def log_prob_composite(self, sample: TensorCollection, *, include_sum: bool | None = None) -> TensorCollection:
        """Compute the log-probability of each variable, under ``"<variable>_log_prob"``.

        If log-probabilities are summed (:class:`set_composite_lp_aggregate`) the values are written into ``sample``,
        unless ``include_sum`` is ``False``, which writes them into a copy.

        Args:
            sample: a collection or record with all variables.
            include_sum: also return the sum, under ``log_prob_key``; by default if log-probabilities are summed.

        Returns:
            ``sample`` or its copy with the values; a new ``TensorDict`` of the values if log-probabilities are not
            summed.

        Raises:
            KeyError: the sample lacks variables.

        Example:
            >>> from torch.distributions import Normal
            >>> from tensorclass import TensorDict
            >>> from tensorclass.nn import CompositeDistribution
            >>> normal = CompositeDistribution.from_distributions(TensorDict(), {"x": Normal(0.0, 1.0)})
            >>> sorted(normal.log_prob_composite(TensorDict(x=0.0), include_sum=True).keys())
            ['sample_log_prob', 'x_log_prob']
        """
        aggregate = composite_lp_aggregate()
        values = self._log_probs(sample)
        result = _suffixed(values, "_log_prob")
        if aggregate if include_sum is None else include_sum:
            result[unravel_key(self._log_prob_key)] = self._sum(values, sample.batch_dims)
        if not aggregate:
            return TensorDict(result, sample.batch_size)
        if include_sum is False:
            sample = sample.copy()
        return sample.update(result)

    def sample_and_log_prob(self, shape: Size | Sequence[int] | None = None) -> tuple[TensorDict, Any]:
        """Return a :meth:`sample` and its :meth:`log_prob`.

        Args:
            shape: the dimensions of the sample in front of the batch size; none by default.

        Returns:
            The sample, and its log-probability: a tensor, or a TensorDict if log-probabilities are not summed.

        Example:
            >>> from torch.distributions import Normal
            >>> from tensorclass import TensorDict
            >>> from tensorclass.nn import CompositeDistribution
            >>> normal = CompositeDistribution.from_distributions(TensorDict(), {"x": Normal(0.0, 1.0)})
            >>> sample, log_prob = normal.sample_and_log_prob([4])
            >>> sample.batch_size, log_prob.batch_size
            (torch.Size([4]), torch.Size([4]))
        """
        sample = self.sample(shape)
        return sample, self.log_prob(sample)

    def rsample_and_log_prob(self, shape: Size | Sequence[int] | None = None) -> tuple[TensorDict, Any]:
        """Return an :meth:`rsample` and its :meth:`log_prob`.

        Args:
            shape: the dimensions of the sample in front of the batch size; none by default.

        Returns:
            The sample, and its log-probability: a tensor, or a TensorDict if log-probabilities are not summed.

        Example:
            >>> from torch.distributions import Normal
            >>> from tensorclass import TensorDict
            >>> from tensorclass.nn import CompositeDistribution
            >>> normal = CompositeDistribution.from_distributions(TensorDict(), {"x": Normal(0.0, 1.0)})
            >>> sample, log_prob = normal.rsample_and_log_prob([4])
            >>> sample.batch_size, log_prob.batch_size
            (torch.Size([4]), torch.Size([4]))
        """
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
        """Compute the entropy, in nats.

        Args:
            samples_mc: the number of samples that estimate the entropy of a distribution without a formula.
            aggregate_probabilities: sum the entropies, or do not; by default as :func:`composite_lp_aggregate` says.
            include_sum: if they are not summed, also return the sum, under ``entropy_key``.

        Returns:
            If entropies are summed, a tensor of the batch size; otherwise a ``TensorDict`` with
            ``"<variable>_entropy"`` for each variable.

        Example:
            >>> from torch.distributions import Normal
            >>> from tensorclass import TensorDict
            >>> from tensorclass.nn import CompositeDistribution
            >>> normal = CompositeDistribution.from_distributions(TensorDict(), {"x": Normal(0.0, 1.0)})
            >>> normal.entropy(aggregate_probabilities=True)
            tensor(1.4189)
        """
        aggregate = composite_lp_aggregate() if aggregate_probabilities is None else aggregate_probabilities
        if aggregate:
            return self._sum(self._entropies(samples_mc), len(self._batch_shape))
        return self.entropy_composite(samples_mc, include_sum=bool(include_sum))

    def entropy_composite(self, samples_mc: int = 1, *, include_sum: bool | None = None) -> TensorDict:
        """Compute the entropy of each variable, in nats, under ``"<variable>_entropy"``.

        Args:
            samples_mc: the number of samples that estimate the entropy of a distribution without a formula.
            include_sum: also return the sum, under ``entropy_key``; by default as :func:`composite_lp_aggregate` says.

        Example:
            >>> from torch.distributions import Normal
            >>> from tensorclass import TensorDict
            >>> from tensorclass.nn import CompositeDistribution
            >>> normal = CompositeDistribution.from_distributions(TensorDict(), {"x": Normal(0.0, 1.0)})
            >>> sorted(normal.entropy_composite(include_sum=True).keys())
            ['entropy', 'x_entropy']
        """
        values = self._entropies(samples_mc)
        result = _suffixed(values, "_entropy")
        if composite_lp_aggregate() if include_sum is None else include_sum:
            result[unravel_key(self._entropy_key)] = self._sum(values, len(self._batch_shape))
        return self._collected(result)

    # -- distribution functions ---------------------------------------------------------------------------------------

    def cdf(self, sample: TensorCollection) -> TensorCollection:  # type: ignore[override]
        """Write the cumulative probability of each value into the sample, under ``"<variable>_cdf"``.

        Args:
            sample: a collection or record with all variables; changed.

        Returns:
            ``sample``.

        Raises:
            KeyError: the sample lacks variables.
            NotImplementedError: a distribution has no formula for it.

        Example:
            >>> from torch.distributions import Normal
            >>> from tensorclass import TensorDict
            >>> from tensorclass.nn import CompositeDistribution
            >>> normal = CompositeDistribution.from_distributions(TensorDict(), {"x": Normal(0.0, 1.0)})
            >>> normal.cdf(TensorDict(x=0.0))["x_cdf"]
            tensor(0.5000)
        """
        values = {key: dist.cdf(self._value(sample, key)) for key, dist in self.dists.items()}
        return sample.update(_suffixed(values, "_cdf"))

    def icdf(self, sample: TensorCollection) -> TensorCollection:  # type: ignore[override]
        """Write the quantile of each probability into the sample, under ``"<variable>_icdf"``.

        Args:
            sample: probabilities under ``"<variable>_cdf"``; changed. Where such a key is missing, the probability is
                that of the value under ``"<variable>"``, which is its own quantile.

        Returns:
            ``sample``.

        Raises:
            KeyError: the sample lacks variables.
            NotImplementedError: a distribution has no formula for it.

        Example:
            >>> from torch.distributions import Normal
            >>> from tensorclass import TensorDict
            >>> from tensorclass.nn import CompositeDistribution
            >>> normal = CompositeDistribution.from_distributions(TensorDict(), {"x": Normal(0.0, 1.0)})
            >>> normal.icdf(TensorDict(x_cdf=0.5))["x_icdf"]
            tensor(0.)
        """
        values: dict[FlatKey, Any] = {}
        for key, dist in self.dists.items():
            probability = sample.get(suffixed(key, "_cdf"), None)
            if probability is None:
                probability = dist.cdf(self._value(sample, key))
            values[key] = dist.icdf(probability)
        return sample.update(_suffixed(values, "_icdf"))
