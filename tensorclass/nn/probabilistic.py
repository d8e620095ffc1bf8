"""Modules that make a distribution of the values of a collection, and write what they take from it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import torch
from torch import Size, Tensor, nn
from torch.distributions import Distribution
from torch.fx import Proxy

from tensorclass.td.base import TensorCollection
from tensorclass.td.keys import FlatKey, NestedKey, unravel_key
from tensorclass.td.reading import MISSING

from .base import DISCARDED, MissingKeys, T, TensorDictModuleBase, as_keys, missing_keys, names_of
from .dispatch import as_outputs, collected, given_values
from .distributions.aggregation import composite_lp_aggregate
from .distributions.composite import CompositeDistribution, suffixed
from .distributions.continuous import Delta
from .distributions.deterministic import deterministic_sample
from .interaction import InteractionType, as_interaction_type, interaction_type
from .randomness import Randomness, Source
from .skipping import SKIPPING, skips
from .tracing import as_call
from .writing import write

#: what makes a distribution from its parameters, given by keyword
DistributionClass: TypeAlias = Callable[..., Distribution]


class MissingValues(MissingKeys, ValueError):
    """Parameters of a distribution are not there, or samples whose log-probability is asked for."""


class ChangedMode(RuntimeError):
    """Log-probabilities are added up now, and were not when the module was made, or the other way round."""


class ProbabilisticTensorDictModule(TensorDictModuleBase):
    """Makes a distribution of parameters in a collection, and writes a sample of it, or one of its statistics.

    >>> import torch
    >>> from tensorclass import TensorDict
    >>> module = ProbabilisticTensorDictModule(
    ...     in_keys=["loc", "scale"],
    ...     out_keys=["action"],
    ...     distribution_class=torch.distributions.Normal,
    ...     default_interaction_type="random",
    ...     return_log_prob=True,
    ... )
    >>> data = module(TensorDict(loc=torch.zeros(3), scale=torch.ones(3), batch_size=[3]))
    >>> sorted(data.keys())
    ['action', 'action_log_prob', 'loc', 'scale']
    >>> module.get_dist(data)
    Normal(loc: torch.Size([3]), scale: torch.Size([3]))

    It is called with a collection, and gives it back; a record comes back as the record that it is, so the keys must be
    fields of it. Or it is called with the parameters, by position or by key, and gives what stands under ``out_keys``.

    Args:
        in_keys: the keys of the parameters: the last name of each is that of the argument; or a dict that says which
            key each argument comes from, ``{"loc": "mean"}``.
        out_keys: the key of the sample; of a :class:`CompositeDistribution` those of its variables, which are known
            if nothing is said. Without a key, or with ``"_"``, a sample is not written.
        default_interaction_type: what is taken from the distribution where :class:`set_interaction_type` says nothing:
            see :class:`InteractionType`.
        distribution_class: makes the distribution, with the parameters and ``distribution_kwargs`` as keywords.
        distribution_kwargs: further arguments.
        return_log_prob: write the log-probability of the sample, too.
        log_prob_keys: where to, for each key of a sample: by default ``"<key>_log_prob"``.
        log_prob_key: the same for one key. Where log-probabilities are added up (:class:`set_composite_lp_aggregate`),
            the key of the sum: by default ``"sample_log_prob"``.
        cache_dist: keep the distribution, and call its ``update`` with new parameters, where it has that; what was
            given before changes, too.
        n_empirical_estimate: how many samples estimate a mean for which there is no formula.
        num_samples: draw several samples: the collection that is given has dimensions of this size in front.
        generator: where random numbers come from: a generator, a seed, or the key of one of both in the collection. A
            seed in a collection is exchanged for the next one at each call.

    Raises:
        ValueError: keys are no keys; there is no such interaction type; there are more or fewer keys of
            log-probabilities than of samples.
        RuntimeError: ``log_prob_keys`` are given while log-probabilities are added up.
        TypeError: an argument of the distribution is given twice.

    A call raises ``KeyError`` where parameters are missing, ``TypeError`` where the distribution does not take them,
    ``NotImplementedError`` where it does not have what is to be taken from it. The collection is then as it was.
    """

    _selects = True

    distribution_class: DistributionClass
    distribution_kwargs: dict[str, Any]
    default_interaction_type: InteractionType
    return_log_prob: bool
    cache_dist: bool
    n_empirical_estimate: int
    num_samples: Size | None
    dist_keys: list[str]

    def __init__(
        self,
        in_keys: NestedKey | Sequence[NestedKey] | Mapping[str, NestedKey],
        out_keys: NestedKey | Sequence[NestedKey] | None = None,
        *,
        default_interaction_type: InteractionType | str = InteractionType.DETERMINISTIC,
        distribution_class: DistributionClass = Delta,
        distribution_kwargs: Mapping[str, Any] | None = None,
        return_log_prob: bool = False,
        log_prob_keys: Sequence[NestedKey] | None = None,
        log_prob_key: NestedKey | None = None,
        cache_dist: bool = False,
        n_empirical_estimate: int = 1000,
        num_samples: int | Size | Sequence[int] | None = None,
        generator: Source | None = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        self.distribution_class = distribution_class
        self.distribution_kwargs = dict(distribution_kwargs or {})
        if isinstance(in_keys, Mapping):
            self.dist_keys = [*in_keys]
            self._in_keys = as_keys([*in_keys.values()], f"{name}: in_keys")
        else:
            self._in_keys = as_keys(in_keys, f"{name}: in_keys")
            self.dist_keys = [key if isinstance(key, str) else key[-1] for key in self._in_keys]
        arguments = [*self.dist_keys, *self.distribution_kwargs]
        twice = sorted({key for key in arguments if arguments.count(key) > 1})
        if twice:
            raise TypeError(
                f"{name}: the arguments {twice} of the distribution are given twice: by in_keys {self._in_keys} "
                f"and distribution_kwargs {[*self.distribution_kwargs]}; a dict of in_keys names them"
            )
        keys = self._variables() if out_keys is None else as_keys(out_keys, f"{name}: out_keys")
        self._sample_keys: list[FlatKey] = keys
        self.default_interaction_type = as_interaction_type(
            default_interaction_type, f"{name}: default_interaction_type"
        )
        self.return_log_prob = return_log_prob
        self.cache_dist = cache_dist
        self._cached: Any = None
        if n_empirical_estimate < 1:
            raise ValueError(f"{name}: n_empirical_estimate is at least 1, got {n_empirical_estimate}")
        self.n_empirical_estimate = n_empirical_estimate
        if num_samples is not None:
            num_samples = Size((num_samples,)) if isinstance(num_samples, int) else Size(num_samples)
        self.num_samples = num_samples
        self._randomness: Randomness | None = None if generator is None else Randomness(generator, name)
        self._aggregate: bool = composite_lp_aggregate()
        self._lp_keys: list[FlatKey] = self._keys_of_log_probs(log_prob_keys, log_prob_key)
        self._out_keys = self._sample_keys + self._lp_keys if return_log_prob else [*self._sample_keys]

    def _variables(self) -> list[FlatKey]:
        """The keys of a sample, where the user gives none."""
        made: object = self.distribution_class
        if not (isinstance(made, type) and issubclass(made, CompositeDistribution)):
            return [DISCARDED]
        given: Mapping[NestedKey, NestedKey] = self.distribution_kwargs.get("name_map") or {}
        makers: Mapping[NestedKey, DistributionClass] = self.distribution_kwargs.get("distribution_map") or {}
        names = {unravel_key(key): name for key, name in given.items()}
        keys = [unravel_key(key) for key in makers]
        return [unravel_key(names.get(key, key)) for key in keys]

    def _keys_of_log_probs(self, several: Sequence[NestedKey] | None, one: NestedKey | None) -> list[FlatKey]:
        name = type(self).__name__
        if self._aggregate:
            if several is not None:
                raise RuntimeError(
                    f"{name}: log_prob_keys are given, but log-probabilities are added up "
                    "(composite_lp_aggregate() is True); log_prob_key= names the sum"
                )
            return [unravel_key("sample_log_prob" if one is None else one)]
        if several is None and one is None:
            return [suffixed(key, "_log_prob") for key in self._sample_keys]
        if several is not None and one is not None:
            raise ValueError(f"{name}: give log_prob_key or log_prob_keys, not both: {one!r}, {list(several)}")
        found = as_keys([one] if several is None else list(several), f"{name}: log_prob_keys")
        if len(found) != len(self._sample_keys):
            raise ValueError(
                f"{name}: expected a key of log-probabilities for each of the out_keys {self._sample_keys}, got {found}"
            )
        return found

    # -- keys ---------------------------------------------------------------------------------------------------------

    @property
    def dist_params_keys(self) -> list[FlatKey]:
        """The keys of the parameters."""
        return self._in_keys

    @property
    def dist_sample_keys(self) -> list[FlatKey]:
        """The keys of the sample."""
        return self._sample_keys

    @property
    def log_prob_keys(self) -> list[FlatKey]:
        """The keys of the log-probabilities, one for each key of the sample, or that of their sum.

        Raises:
            RuntimeError: they were not added up when the module was made, and are now, or the other way round.
        """
        self._check_mode()
        return self._lp_keys

    @property
    def log_prob_key(self) -> FlatKey:
        """The key of the log-probability.

        Raises:
            RuntimeError: there are several.
        """
        return only_key(self, self.log_prob_keys)

    def _check_mode(self) -> None:
        if composite_lp_aggregate() is not self._aggregate:
            raise ChangedMode(
                f"{type(self).__name__}: composite_lp_aggregate() was {self._aggregate} when the module was made, and "
                f"is {not self._aggregate} now; the keys of its log-probabilities depend on it"
            )

    # -- the distribution ---------------------------------------------------------------------------------------------

    def get_dist(self, tensordict: TensorCollection) -> Distribution:
        """The distribution with the parameters in a collection.

        Args:
            tensordict: a collection or a record that has the ``in_keys``.

        Raises:
            KeyError: keys that are missing.
            TypeError: the distribution does not take the parameters.
        """
        store = tensordict._store
        params: dict[str, Any] = {}
        absent: list[FlatKey] = []
        for name, key in zip(self.dist_keys, self._in_keys, strict=True):
            value: Any = store.get(key) if type(key) is str else None
            if type(value) is not Tensor:
                value = tensordict._find((key,) if isinstance(key, str) else key)
                if value is MISSING:
                    absent.append(key)
                elif not isinstance(value, Tensor):
                    value = tensordict._out(value, key)
            params[name] = value
        if absent:
            raise MissingValues(str(missing_keys(self, absent, tensordict)))
        if self._cached is not None:
            self._cached.update(**params)
            cached: Distribution = self._cached
            return cached
        try:
            dist = self.distribution_class(**params, **self.distribution_kwargs)
        except TypeError as error:
            raise TypeError(
                f"{type(self).__name__}: {names_of(self.distribution_class)} does not take the parameters "
                f"{self.dist_keys}, of the in_keys {self._in_keys}"
                + (f", with the distribution_kwargs {[*self.distribution_kwargs]}" if self.distribution_kwargs else "")
                + f": {error}; a dict of in_keys says which argument each key is for"
            ) from error
        if self.cache_dist and hasattr(dist, "update"):
            self._cached = dist
        return dist

    def build_dist_from_params(self, tensordict: TensorCollection) -> Distribution:
        """:meth:`get_dist`."""
        return self.get_dist(tensordict)

    def log_prob(self, tensordict: TensorCollection, *, dist: Distribution | None = None) -> Any:
        """The log-probability of the sample in a collection.

        Args:
            tensordict: it has the sample, and the parameters where ``dist`` is not given.
            dist: the distribution; by default that of the parameters.

        Returns:
            a tensor; for a :class:`CompositeDistribution` whose log-probabilities are not added up a ``TensorDict``.

        Raises:
            KeyError: the sample or parameters are missing.
        """
        self._check_mode()
        if dist is None:
            dist = self.get_dist(tensordict)
        if not isinstance(dist, CompositeDistribution):
            if len(self._sample_keys) == 1:
                key = self._sample_keys[0]
                value: Any = tensordict._store.get(key) if type(key) is str else None
                if type(value) is Tensor:
                    return dist.log_prob(value)
            return _log_prob_of(dist, tuple(self._sample_of(tensordict)))
        self._sample_of(tensordict)  # what is missing is named with the keys of this module
        log_prob: Any = dist.log_prob(tensordict)
        if isinstance(log_prob, TensorCollection):
            for key, given in zip(self._sample_keys, self._lp_keys, strict=True):
                if suffixed(key, "_log_prob") != given:
                    log_prob.rename_key_(suffixed(key, "_log_prob"), given)
        return log_prob

    def _sample_of(self, data: TensorCollection) -> list[Any]:
        found = [data._find((key,) if isinstance(key, str) else key) for key in self._sample_keys]
        absent = [key for key, value in zip(self._sample_keys, found, strict=True) if value is MISSING]
        if absent:
            there = list(data.keys(True, True))
            raise MissingValues(f"{type(self).__name__}: no samples under {absent}; the keys that are there: {there}")
        return found

    # -- calling it ---------------------------------------------------------------------------------------------------

    @overload
    def forward(self, tensordict: T, tensordict_out: None = None, _requires_sample: bool = True) -> T: ...
    @overload
    def forward(self, tensordict: TensorCollection, tensordict_out: T, _requires_sample: bool = True) -> T: ...
    @overload
    def forward(self, *args: Any, **kwargs: Any) -> Any: ...
    def forward(
        self,
        tensordict: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """The collection with the sample, or what is written of a call with parameters.

        Args:
            tensordict: a collection or a record that has the ``in_keys``.
            tensordict_out: the collection to write to; by default the first one.
            _requires_sample: with ``False`` the sample is there already, and only its log-probability is written.
        """
        if not isinstance(tensordict, TensorCollection):
            return self._call_with_tensors(tensordict, args, kwargs)
        return self._run(tensordict, *args, **kwargs)

    if TYPE_CHECKING:

        @overload
        def __call__(self, tensordict: T, tensordict_out: None = None, _requires_sample: bool = True) -> T: ...
        @overload
        def __call__(self, tensordict: TensorCollection, tensordict_out: T, _requires_sample: bool = True) -> T: ...
        @overload
        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    else:
        __call__ = nn.Module.__call__

    def _run(
        self,
        tensordict: TensorCollection,
        tensordict_out: TensorCollection | None = None,
        _requires_sample: bool = True,
    ) -> TensorCollection:
        if SKIPPING.current() and skips(tensordict, self._in_keys, self._out_keys):
            return tensordict
        if self.return_log_prob:
            self._check_mode()
        dist = self.get_dist(tensordict)
        data = tensordict
        keys: list[FlatKey] = []
        values: list[Any] = []
        sample: Any = tensordict
        if _requires_sample:
            sample = self._taken(dist, tensordict)
            keys += self._sample_keys
            values += self._by_key(sample, isinstance(dist, CompositeDistribution))
            if self.num_samples is not None and tensordict_out is None:
                data = tensordict.expand(self.num_samples + tensordict.batch_size)
        elif self.return_log_prob:
            found = self._sample_of(tensordict)
            sample = tensordict if isinstance(dist, CompositeDistribution) else tuple(found)
        if self.return_log_prob:
            keys += self._lp_keys
            values += self._log_probs(dist, sample)
        out = data if tensordict_out is None else tensordict_out
        if self._source is not None or DISCARDED in keys:
            chosen = [at for at, key in enumerate(keys) if key != DISCARDED and key in self._out_keys]
            keys, values = [keys[at] for at in chosen], [values[at] for at in chosen]
        if keys:
            write(out, keys, values)
        return out

    def _by_key(self, sample: Any, is_composite: bool) -> list[Any]:
        """The values for the keys of the sample."""
        keys = self._sample_keys
        if isinstance(sample, TensorCollection):
            there = sample.keys(True)
            absent = [key for key in keys if key not in there]
            if not absent:
                return [sample._get_key(key) for key in keys]
            if len(keys) > 1 or is_composite:
                raise ValueError(
                    f"{type(self).__name__}: the distribution has no variables for the out_keys {absent}; "
                    f"it has {list(sample.keys(True, True))}"
                )
        if type(sample) is Tensor and len(keys) == 1:
            return [sample]
        given: object = sample
        values: list[Any] = [*sample] if isinstance(given, (tuple, list)) else [sample]
        if len(values) != len(keys):
            raise ValueError(
                f"{type(self).__name__}: expected {len(keys)} values, for the out_keys {keys}, got {len(values)} "
                f"from {names_of(self.distribution_class)}"
            )
        return values

    def _log_probs(self, dist: Distribution, sample: Any) -> list[Any]:
        log_prob = _log_prob_of(dist, sample)
        if not isinstance(log_prob, TensorCollection) or self._aggregate:
            return [log_prob]
        return [log_prob._get_key(suffixed(key, "_log_prob")) for key in self._sample_keys]

    # -- what is taken from the distribution --------------------------------------------------------------------------

    def _taken(self, dist: Distribution, data: TensorCollection) -> Any:
        """The sample, or the statistic that stands for it, in ``num_samples`` copies where that is asked for."""
        kind = interaction_type() or self.default_interaction_type
        if self._randomness is None:
            value = self._value(dist, kind)
        else:
            with self._randomness.over(data, self._device_of(data)):
                value = self._value(dist, kind)
        if self.num_samples is None or kind is InteractionType.RANDOM:
            return value
        return value.expand(self.num_samples + value.shape)

    def _value(self, dist: Any, kind: InteractionType) -> Any:
        if kind is InteractionType.RANDOM:
            size = Size() if self.num_samples is None else self.num_samples
            return dist.rsample(size) if dist.has_rsample else dist.sample(size)
        if kind is InteractionType.DETERMINISTIC:
            try:
                return deterministic_sample(dist)
            except NotImplementedError:
                if isinstance(dist, CompositeDistribution):
                    raise
            warnings.warn(
                f"{type(self).__name__}: {type(dist).__name__} has neither a deterministic_sample nor a formula "
                f"for its mean, which is estimated from {self.n_empirical_estimate} samples; give it "
                "a deterministic_sample, or choose another interaction type",
                category=UserWarning,
                stacklevel=2,
            )
            return self._estimated_mean(dist)
        if kind is InteractionType.MEAN:
            try:
                return dist.mean
            except (AttributeError, NotImplementedError):
                return self._estimated_mean(dist)
        if kind is InteractionType.MODE:
            return dist.mode
        return _median(dist)

    def _device_of(self, data: TensorCollection) -> torch.device:
        """Where the parameters are."""
        for key in self._in_keys:
            value: Any = data.get(key)
            if isinstance(value, TensorCollection):
                value = next(iter(value.values(True, True)), None)
            if isinstance(value, Tensor):
                return value.device
        return torch.device("cpu")

    def _estimated_mean(self, dist: Any) -> Any:
        size = Size((self.n_empirical_estimate,))
        return (dist.rsample(size) if dist.has_rsample else dist.sample(size)).mean(0)

    def _call_with_tensors(self, first: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if isinstance(first, Proxy):
            return as_call(self, first)
        name = type(self).__name__
        given = given_values(name, self._in_keys, "_", args if first is None else (first, *args), kwargs)
        result = self._run(collected(given, False), **kwargs)
        return as_outputs([result._get_key(key) for key in self._out_keys if key != DISCARDED])

    # -- what it is ---------------------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        more = "" if self.num_samples is None else f", num_samples={[*self.num_samples]}"
        kwargs = f", distribution_kwargs={self.distribution_kwargs}" if self.distribution_kwargs else ""
        return (
            f"{super().extra_repr()}, distribution_class={names_of(self.distribution_class)}{kwargs}, "
            f"default_interaction_type={self.default_interaction_type}{more}"
        )


def only_key(module: object, keys: list[FlatKey]) -> FlatKey:
    """The key of log-probabilities where there is one, for ``log_prob_key``; an error where there are several."""
    if len(keys) != 1:
        raise RuntimeError(
            f"{type(module).__name__}.log_prob_key: there are several log-probabilities; use log_prob_keys: {keys}"
        )
    return keys[0]


def _log_prob_of(dist: Distribution, sample: Any) -> Any:
    """The log-probability of a sample, or of several values that are one."""
    made: Any = dist
    given: object = sample
    return made.log_prob(*sample) if isinstance(given, (tuple, list)) else made.log_prob(sample)


def _median(dist: Any) -> Any:
    """The median of a distribution: its own, or where half of the probability is below."""
    try:
        return dist.median
    except AttributeError:
        pass
    try:
        return dist.icdf(torch.full_like(dist.mean, 0.5))
    except NotImplementedError:
        raise NotImplementedError(
            f"{type(dist).__name__} has neither a median nor an icdf, so the interaction type 'median' has no value"
        ) from None
