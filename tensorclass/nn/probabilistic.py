"""Modules that build a distribution from the values of a collection, and write a sample or a statistic of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import torch
from torch import Size, Tensor, nn
from torch.distributions import Distribution
from torch.fx import Proxy

from tensorclass.support.printable import type_name
from tensorclass.td.base import TensorCollection
from tensorclass.td.get import MISSING
from tensorclass.td.keys import FlatKey, NestedKey, unravel_key

from .dispatch import as_outputs, collected, given_values
from .distributions.aggregation import composite_lp_aggregate
from .distributions.composite import CompositeDistribution, rename_log_probs, suffixed
from .distributions.continuous import Delta
from .distributions.deterministic import deterministic_sample
from .fx_tracing import as_call
from .interaction import InteractionType, as_interaction_type, interaction_type
from .module_base import DISCARDED, MissingKeys, T, TensorDictModuleBase, as_keys, missing_keys, names_of
from .outputs import write
from .randomness import GeneratorLike, RandomSource
from .skipping import SKIPPING, skips

#: a class or function that makes a distribution from its parameters, given by keyword
DistributionClass: TypeAlias = Callable[..., Distribution]


class MissingValues(MissingKeys, ValueError):
    """The collection lacks parameters of a distribution, or samples whose log-probability is wanted."""


class ChangedMode(RuntimeError):
    """``composite_lp_aggregate()`` differs from its value when the module was made."""


class ProbabilisticTensorDictModule(TensorDictModuleBase):
    """Build a distribution from parameters in a collection, and write a sample or a statistic of it.

    Call it with a collection: it returns the collection. A record stays a record, so the keys must be its fields. Or
    call it with the parameters, by position or by keyword: it returns the values under ``out_keys``.

    A call raises ``KeyError`` if parameters are missing, ``TypeError`` if the distribution does not take them, and
    ``NotImplementedError`` if the distribution lacks the wanted statistic. The collection is then unchanged.

    Args:
        in_keys: the keys of the parameters. The last name of each key is the name of the argument; or pass a dict from
            arguments to keys, ``{"loc": "mean"}``.
        out_keys: the key of the sample; for a :class:`CompositeDistribution` the keys of its variables, by default all
            of them. Without a key, or with ``"_"``, the sample is not written.
        default_interaction_type: the value to take from the distribution, unless :class:`set_interaction_type` says
            otherwise; see :class:`InteractionType`.
        distribution_class: makes the distribution, called with the parameters and ``distribution_kwargs`` as keywords.
        distribution_kwargs: further arguments.
        return_log_prob: also write the log-probability of the sample.
        log_prob_keys: the key of the log-probability for each key of the sample; by default ``"<key>_log_prob"``.
        log_prob_key: the same for one key. If log-probabilities are summed (:class:`set_composite_lp_aggregate`), the
            key of the sum, by default ``"sample_log_prob"``.
        cache_dist: keep the distribution and call its ``update`` with new parameters, if it has that method.
            Distributions that were returned earlier change too.
        n_empirical_estimate: the number of samples that estimate a mean without a formula.
        num_samples: draw several samples; the returned collection has dimensions of this size in front.
        generator: the source of random numbers: a generator, a seed, or the key of either in the collection. A seed in
            a collection is replaced by the next one at each call.

    Raises:
        ValueError: a key is not valid; there is no such interaction type; the keys of log-probabilities and of samples
            differ in number.
        RuntimeError: ``log_prob_keys`` is given while log-probabilities are summed.
        TypeError: an argument of the distribution is given twice.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict
        >>> from tensorclass.nn import ProbabilisticTensorDictModule
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
        >>> module.log_prob(data).shape
        torch.Size([3])
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
        generator: GeneratorLike | None = None,
    ) -> None:
        super().__init__()
        name = type_name(self)
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
        self._randomness: RandomSource | None = None if generator is None else RandomSource(generator, name)
        self._aggregate: bool = composite_lp_aggregate()
        self._lp_keys: list[FlatKey] = self._keys_of_log_probs(log_prob_keys, log_prob_key)
        self._out_keys = self._sample_keys + self._lp_keys if return_log_prob else [*self._sample_keys]

    def _variables(self) -> list[FlatKey]:
        """Return the default keys of a sample."""
        made: object = self.distribution_class
        if not (isinstance(made, type) and issubclass(made, CompositeDistribution)):
            return [DISCARDED]
        name_map: Mapping[NestedKey, NestedKey] = self.distribution_kwargs.get("name_map") or {}
        makers: Mapping[NestedKey, DistributionClass] = self.distribution_kwargs.get("distribution_map") or {}
        names = {unravel_key(key): name for key, name in name_map.items()}
        keys = [unravel_key(key) for key in makers]
        return [unravel_key(names.get(key, key)) for key in keys]

    def _keys_of_log_probs(self, several: Sequence[NestedKey] | None, one: NestedKey | None) -> list[FlatKey]:
        name = type_name(self)
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
        """The keys of the parameters.

        Example:
            >>> from torch.distributions import Normal
            >>> from tensorclass.nn import ProbabilisticTensorDictModule
            >>> ProbabilisticTensorDictModule(["loc", "scale"], "x", distribution_class=Normal).dist_params_keys
            ['loc', 'scale']
        """
        return self._in_keys

    @property
    def dist_sample_keys(self) -> list[FlatKey]:
        """The keys of the sample.

        Example:
            >>> from torch.distributions import Normal
            >>> from tensorclass.nn import ProbabilisticTensorDictModule
            >>> ProbabilisticTensorDictModule(["loc", "scale"], "x", distribution_class=Normal).dist_sample_keys
            ['x']
        """
        return self._sample_keys

    @property
    def log_prob_keys(self) -> list[FlatKey]:
        """The keys of the log-probabilities, one per key of the sample; or the key of their sum.

        Raises:
            RuntimeError: ``composite_lp_aggregate()`` has changed since the module was made.

        Example:
            >>> from tensorclass.nn import ProbabilisticTensorDictModule
            >>> ProbabilisticTensorDictModule("param", "x", return_log_prob=True).log_prob_keys
            ['x_log_prob']
        """
        self._check_mode()
        return self._lp_keys

    @property
    def log_prob_key(self) -> FlatKey:
        """The key of the log-probability.

        Raises:
            RuntimeError: there are several.

        Example:
            >>> from tensorclass.nn import ProbabilisticTensorDictModule
            >>> ProbabilisticTensorDictModule("param", "x", return_log_prob=True).log_prob_key
            'x_log_prob'
        """
        return only_key(self, self.log_prob_keys)

    def _check_mode(self) -> None:
        if composite_lp_aggregate() is not self._aggregate:
            raise ChangedMode(
                f"{type_name(self)}: composite_lp_aggregate() was {self._aggregate} when the module was made, and "
                f"is {not self._aggregate} now; the keys of its log-probabilities depend on it"
            )

    # -- the distribution ---------------------------------------------------------------------------------------------

    def get_dist(self, tensordict: TensorCollection) -> Distribution:
        """Build the distribution from the parameters in a collection.

        Args:
            tensordict: a collection or record that has the ``in_keys``.

        Raises:
            KeyError: parameters are missing.
            TypeError: the distribution does not take the parameters.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> from tensorclass.nn import ProbabilisticTensorDictModule
            >>> ProbabilisticTensorDictModule("param").get_dist(TensorDict(param=torch.ones(2)))
            Delta(param: torch.Size([2]))
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
                f"{type_name(self)}: {names_of(self.distribution_class)} does not take the parameters "
                f"{self.dist_keys}, of the in_keys {self._in_keys}"
                + (f", with the distribution_kwargs {[*self.distribution_kwargs]}" if self.distribution_kwargs else "")
                + f": {error}; a dict of in_keys says which argument each key is for"
            ) from error
        if self.cache_dist and hasattr(dist, "update"):
            self._cached = dist
        return dist

    def build_dist_from_params(self, tensordict: TensorCollection) -> Distribution:
        """Build the distribution from parameters in a collection: the same as :meth:`get_dist`.

        :class:`ProbabilisticTensorDictSequential` has a method of this name.

        Args:
            tensordict: a collection or record that has the ``dist_params_keys``.

        Raises:
            KeyError: parameters are missing.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> from tensorclass.nn import ProbabilisticTensorDictModule
            >>> ProbabilisticTensorDictModule("param").build_dist_from_params(TensorDict(param=torch.ones(2)))
            Delta(param: torch.Size([2]))
        """
        return self.get_dist(tensordict)

    def log_prob(self, tensordict: TensorCollection, *, dist: Distribution | None = None) -> Any:
        """Compute the log-probability of the sample in a collection.

        Args:
            tensordict: has the sample, and the parameters if ``dist`` is not given.
            dist: the distribution; by default built from the parameters.

        Returns:
            A tensor; for a :class:`CompositeDistribution` whose log-probabilities are not summed, a ``TensorDict``.

        Raises:
            KeyError: the sample or parameters are missing.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> from tensorclass.nn import ProbabilisticTensorDictModule
            >>> module = ProbabilisticTensorDictModule(
            ...     ["loc", "scale"], "x", distribution_class=torch.distributions.Normal
            ... )
            >>> module.log_prob(TensorDict(loc=0.0, scale=1.0, x=0.0))
            tensor(-0.9189)
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
        self._sample_of(tensordict)  # raises with the keys of this module
        log_prob: Any = dist.log_prob(tensordict)
        if isinstance(log_prob, TensorCollection):
            rename_log_probs(log_prob, self._sample_keys, self._lp_keys)
        return log_prob

    def _sample_of(self, data: TensorCollection) -> list[Any]:
        found = [data._find((key,) if isinstance(key, str) else key) for key in self._sample_keys]
        absent = [key for key, value in zip(self._sample_keys, found, strict=True) if value is MISSING]
        if absent:
            there = list(data.keys(True, True))
            raise MissingValues(f"{type_name(self)}: no samples under {absent}; the keys that are there: {there}")
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
        """Sample from the distribution, and write the sample.

        Args:
            tensordict: a collection or record that has the ``in_keys``; or the first parameter.
            *args: further parameters, in the order of ``in_keys``.
            tensordict_out: the collection to write to; by default the input.
            _requires_sample: with ``False`` the sample is already present, and only its log-probability is written.
            **kwargs: parameters by keyword.

        Returns:
            The collection; for a call with parameters the values under ``out_keys``.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> from tensorclass.nn import ProbabilisticTensorDictModule
            >>> module = ProbabilisticTensorDictModule("param", "x")
            >>> module(TensorDict(param=torch.ones(2)))["x"], module(torch.zeros(2))
            (tensor([1., 1.]), tensor([0., 0.]))
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
        """Return the values of the sample, in the order of its keys."""
        keys = self._sample_keys
        if isinstance(sample, TensorCollection):
            there = sample.keys(True)
            absent = [key for key in keys if key not in there]
            if not absent:
                return [sample._get_key(key) for key in keys]
            if len(keys) > 1 or is_composite:
                raise ValueError(
                    f"{type_name(self)}: the distribution has no variables for the out_keys {absent}; "
                    f"it has {list(sample.keys(True, True))}"
                )
        if type(sample) is Tensor and len(keys) == 1:
            return [sample]
        given: object = sample
        values: list[Any] = [*sample] if isinstance(given, (tuple, list)) else [sample]
        if len(values) != len(keys):
            raise ValueError(
                f"{type_name(self)}: expected {len(keys)} values, for the out_keys {keys}, got {len(values)} "
                f"from {names_of(self.distribution_class)}"
            )
        return values

    def _log_probs(self, dist: Distribution, sample: Any) -> list[Any]:
        log_prob = _log_prob_of(dist, sample)
        if not isinstance(log_prob, TensorCollection) or self._aggregate:
            return [log_prob]
        return [log_prob._get_key(suffixed(key, "_log_prob")) for key in self._sample_keys]

    # -- sampling -----------------------------------------------------------------------------------------------------

    def _taken(self, dist: Distribution, data: TensorCollection) -> Any:
        """Return the sample, or the statistic in ``num_samples`` copies."""
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
                f"{type_name(self)}: {type_name(dist)} has neither a deterministic_sample nor a formula "
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
        """Return the device of the parameters."""
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
        name = type_name(self)
        given = given_values(name, self._in_keys, "_", args if first is None else (first, *args), kwargs)
        result = self._run(collected(given, False), **kwargs)
        return as_outputs([result._get_key(key) for key in self._out_keys if key != DISCARDED])

    # -- repr ---------------------------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """Return the keys and arguments, for the repr of the module.

        Example:
            >>> import torch
            >>> from tensorclass.nn import ProbabilisticTensorDictModule
            >>> module = ProbabilisticTensorDictModule(
            ...     in_keys=["loc", "scale"], out_keys=["action"], distribution_class=torch.distributions.Normal
            ... )
            >>> "distribution_class=Normal" in module.extra_repr()
            True
        """
        more = "" if self.num_samples is None else f", num_samples={[*self.num_samples]}"
        kwargs = f", distribution_kwargs={self.distribution_kwargs}" if self.distribution_kwargs else ""
        return (
            f"{super().extra_repr()}, distribution_class={names_of(self.distribution_class)}{kwargs}, "
            f"default_interaction_type={self.default_interaction_type}{more}"
        )


def only_key(module: object, keys: list[FlatKey]) -> FlatKey:
    """Return the only key of log-probabilities, or raise if there are several."""
    if len(keys) != 1:
        raise RuntimeError(
            f"{type_name(module)}.log_prob_key: there are several log-probabilities; use log_prob_keys: {keys}"
        )
    return keys[0]


def _log_prob_of(dist: Distribution, sample: Any) -> Any:
    """Return the log-probability of a sample that is one value or a tuple of values."""
    made: Any = dist
    given: object = sample
    return made.log_prob(*sample) if isinstance(given, (tuple, list)) else made.log_prob(sample)


def _median(dist: Any) -> Any:
    """Return the median of a distribution, or its quantile at one half."""
    try:
        return dist.median
    except AttributeError:
        pass
    try:
        return dist.icdf(torch.full_like(dist.mean, 0.5))
    except NotImplementedError:
        raise NotImplementedError(
            f"{type_name(dist)} has neither a median nor an icdf, so the interaction type 'median' has no value"
        ) from None
