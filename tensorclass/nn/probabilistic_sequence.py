"""Sequences of modules of which some are probabilistic, as one distribution."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from torch import Size, nn
from torch.distributions import Distribution
from torch.fx import Proxy

from tensorclass.support.printable import type_name
from tensorclass.td.base import TensorCollection
from tensorclass.td.keys import FlatKey, NestedKey
from tensorclass.td.tensordict import TensorDict

from .distributions.composite import CompositeDistribution, rename_log_probs
from .interaction import InteractionType
from .module import as_inplace
from .module_base import T, TensorDictModuleBase, as_key_list
from .outputs import Inplace, write
from .probabilistic import MissingValues, ProbabilisticTensorDictModule, only_key
from .sequence import TensorDictSequential, WrongArguments, keys_of


class ProbabilisticTensorDictSequential(TensorDictSequential):
    """Run modules on a collection one after another; some of them draw samples.

    Args:
        *modules: as in :class:`TensorDictSequential`; at least one.
        partial_tolerant: as in :class:`TensorDictSequential`.
        return_composite: make the distribution a :class:`CompositeDistribution` of the samples of all probabilistic
            modules. With ``False`` it is the distribution of the last probabilistic module. By default it is composite
            unless the last module is the only probabilistic one.
        selected_out_keys: as in :class:`TensorDictSequential`.
        inplace: as in :class:`TensorDictSequential`.

    Raises:
        ValueError: there are no modules.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from torch.distributions import Normal
        >>> from tensorclass import TensorDict
        >>> from tensorclass.nn import (
        ...     NormalParamExtractor,
        ...     ProbabilisticTensorDictModule,
        ...     ProbabilisticTensorDictSequential,
        ...     TensorDictModule,
        ... )
        >>> policy = ProbabilisticTensorDictSequential(
        ...     TensorDictModule(nn.Sequential(nn.Linear(3, 4), NormalParamExtractor()), "obs", ["loc", "scale"]),
        ...     ProbabilisticTensorDictModule(["loc", "scale"], "action", distribution_class=Normal),
        ... )
        >>> data = policy(TensorDict(obs=torch.ones(5, 3), batch_size=[5]))
        >>> data["action"].shape, policy.log_prob(data).shape
        (torch.Size([5, 2]), torch.Size([5, 2]))
        >>> policy.get_dist(data)
        Normal(loc: torch.Size([5, 2]), scale: torch.Size([5, 2]))
        >>> policy.get_dist_params(data)["scale"].shape
        torch.Size([5, 2])
    """

    return_composite: bool | None

    def __init__(
        self,
        *modules: Callable[..., Any] | Sequence[Callable[..., Any]] | Mapping[str, Callable[..., Any]],
        partial_tolerant: bool = False,
        return_composite: bool | None = None,
        selected_out_keys: Sequence[NestedKey] | None = None,
        inplace: bool | str | None = None,
    ) -> None:
        # a class between this one and its base may take fewer options
        super().__init__(*modules, partial_tolerant=partial_tolerant)
        if inplace is not None:
            self.inplace: Inplace = as_inplace(inplace, type(self).__name__)
        if selected_out_keys is not None:
            self.select_out_keys(*as_key_list(selected_out_keys, f"{type_name(self)}: selected_out_keys"))
        if not len(self):
            raise ValueError("ProbabilisticTensorDictSequential: expected at least one module, the last of which draws")
        self.return_composite = return_composite

    # -- keys ---------------------------------------------------------------------------------------------------------

    def _flat(self) -> list[TensorDictModuleBase]:
        """Return the modules, with nested probabilistic sequences replaced by their modules."""
        flat: list[TensorDictModuleBase] = []
        for module in self:
            flat += module._flat() if isinstance(module, ProbabilisticTensorDictSequential) else [module]
        return flat

    def _drawing(self) -> list[ProbabilisticTensorDictModule]:
        """Return the probabilistic modules.

        Raises:
            RuntimeError: there are none.
        """
        found = [module for module in self._flat() if isinstance(module, ProbabilisticTensorDictModule)]
        if not found:
            raise RuntimeError(f"{type_name(self)}: none of the modules is probabilistic: there is no distribution")
        return found

    def _is_composite(self) -> bool:
        if self.return_composite is not None:
            return self.return_composite
        return len(self._drawing()) > 1 or not isinstance(self._flat()[-1], ProbabilisticTensorDictModule)

    @property
    def det_part(self) -> TensorDictSequential:
        """A sequence of all modules but the last; it shares them.

        Example:
            >>> import torch
            >>> from tensorclass.nn import (
            ...     ProbabilisticTensorDictModule,
            ...     ProbabilisticTensorDictSequential,
            ...     TensorDictModule,
            ... )
            >>> policy = ProbabilisticTensorDictSequential(
            ...     TensorDictModule(torch.exp, "x", "param"), ProbabilisticTensorDictModule("param", "y")
            ... )
            >>> len(policy), len(policy.det_part)
            (2, 1)
        """
        return TensorDictSequential(*[*self][:-1], partial_tolerant=self.partial_tolerant, inplace=self.inplace)

    @property
    def dist_params_keys(self) -> list[FlatKey]:
        """The keys of the parameters of all distributions, starting with the last.

        Example:
            >>> from tensorclass.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential
            >>> ProbabilisticTensorDictSequential(ProbabilisticTensorDictModule("param", "x")).dist_params_keys
            ['param']
        """
        return [key for module in reversed(self._drawing()) for key in module.dist_params_keys]

    @property
    def dist_sample_keys(self) -> list[FlatKey]:
        """The keys of all samples, starting with the last.

        Example:
            >>> from tensorclass.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential
            >>> ProbabilisticTensorDictSequential(ProbabilisticTensorDictModule("param", "x")).dist_sample_keys
            ['x']
        """
        return [key for module in reversed(self._drawing()) for key in module.dist_sample_keys]

    @property
    def log_prob_keys(self) -> list[FlatKey]:
        """The keys of all log-probabilities, starting with the last.

        Example:
            >>> from tensorclass.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential
            >>> draw = ProbabilisticTensorDictModule("param", "x", return_log_prob=True)
            >>> ProbabilisticTensorDictSequential(draw).log_prob_keys
            ['x_log_prob']
        """
        return [key for module in reversed(self._drawing()) for key in module.log_prob_keys]

    @property
    def log_prob_key(self) -> FlatKey:
        """The key of the log-probability.

        Raises:
            RuntimeError: there are several.

        Example:
            >>> from tensorclass.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential
            >>> draw = ProbabilisticTensorDictModule("param", "x", return_log_prob=True)
            >>> ProbabilisticTensorDictSequential(draw).log_prob_key
            'x_log_prob'
        """
        return only_key(self, self.log_prob_keys)

    @property
    def default_interaction_type(self) -> InteractionType:
        """The default interaction type of the last probabilistic module.

        Example:
            >>> from tensorclass.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential
            >>> draw = ProbabilisticTensorDictModule("param", "x", default_interaction_type="mean")
            >>> ProbabilisticTensorDictSequential(draw).default_interaction_type
            <InteractionType.MEAN: 'mean'>
        """
        return self._drawing()[-1].default_interaction_type

    @property
    def num_samples(self) -> Size:
        """The sample dimensions that the modules add in front.

        Example:
            >>> from tensorclass.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential
            >>> draw = ProbabilisticTensorDictModule("param", "x", num_samples=5)
            >>> ProbabilisticTensorDictSequential(draw).num_samples
            torch.Size([5])
        """
        size = Size()
        for module in self._flat():
            if isinstance(module, ProbabilisticTensorDictModule):
                size = Size(module.num_samples or ()) + size
        return size

    # -- the distribution ---------------------------------------------------------------------------------------------

    def get_dist_params(
        self, tensordict: TensorCollection, tensordict_out: TensorCollection | None = None, **kwargs: Any
    ) -> TensorCollection:
        """Run all modules but the last, and return the collection with the parameters.

        Args:
            tensordict: a collection or record that has the ``in_keys``.
            tensordict_out: the collection to write to; by default the input.

        Returns:
            The collection with the parameters: ``tensordict_out`` if it is given.

        Raises:
            KeyError: keys are missing.

        Example:
            >>> from torch.distributions import Normal
            >>> from tensorclass import TensorDict
            >>> from tensorclass.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential
            >>> policy = ProbabilisticTensorDictSequential(
            ...     lambda data: data.set("scale", data["loc"] + 1.0),
            ...     ProbabilisticTensorDictModule(["loc", "scale"], "x", distribution_class=Normal),
            ... )
            >>> policy.get_dist_params(TensorDict(loc=1.0))["scale"]
            tensor(2.)
        """
        self._refuse(kwargs)
        return self.det_part(tensordict, tensordict_out=tensordict_out)

    def get_dist(
        self, tensordict: TensorCollection, tensordict_out: TensorCollection | None = None, **kwargs: Any
    ) -> Distribution:
        """Run the modules and return the distribution of the samples.

        The distribution of a single module leaves its parameters in the collection. For a composite distribution
        nothing is written to the collection; samples are drawn where later modules need them.

        Args:
            tensordict: a collection or record that has the ``in_keys``.
            tensordict_out: the collection to write parameters to.

        Raises:
            KeyError: keys are missing.
            RuntimeError: no module is probabilistic.

        Example:
            >>> from tensorclass import TensorDict
            >>> from tensorclass.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential
            >>> policy = ProbabilisticTensorDictSequential(ProbabilisticTensorDictModule("param", "x"))
            >>> policy.get_dist(TensorDict(param=[1.0, 2.0]))
            Delta(param: torch.Size([2]))
        """
        self._refuse(kwargs)
        return self._dist(tensordict, tensordict_out, fixed=False)

    def build_dist_from_params(self, tensordict: TensorCollection) -> Distribution:
        """Build the distribution from parameters in the collection. No other module runs.

        Args:
            tensordict: a collection or record that has the ``dist_params_keys``.

        Raises:
            KeyError: parameters are missing.

        Example:
            >>> from tensorclass import TensorDict
            >>> from tensorclass.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential
            >>> policy = ProbabilisticTensorDictSequential(ProbabilisticTensorDictModule("param", "x"))
            >>> policy.build_dist_from_params(TensorDict(param=[1.0, 2.0]))
            Delta(param: torch.Size([2]))
        """
        dists = [(module, module.build_dist_from_params(tensordict)) for module in self._drawing()]
        return self._combined(tensordict, dists) if self._is_composite() else dists[-1][1]

    def _dist(self, data: TensorCollection, out: TensorCollection | None, fixed: bool) -> Distribution:
        """Build the distribution. With ``fixed`` the samples in the collection are used, and none are drawn."""
        composite = self._is_composite()
        last = self._drawing()[-1]
        run: Any = data.copy()
        dists: list[tuple[ProbabilisticTensorDictModule, Distribution]] = []
        written: list[FlatKey] = []
        for module in self._flat():
            if isinstance(module, ProbabilisticTensorDictModule):
                if composite or module is last:
                    dists.append((module, module.get_dist(run)))
                if module is last:
                    break
                if fixed:
                    continue
            run = self._run_tolerant(module, run) if self.partial_tolerant else module(run)
            written += keys_of(module, "out_keys")
        if out is None and not composite:
            out = data
        if out is not None:
            there = run.keys(True)
            keys = [key for key in dict.fromkeys(written) if key in there]
            write(out, keys, [run._get_key(key) for key in keys])
        return self._combined(run, dists) if composite else dists[-1][1]

    def _combined(
        self, data: TensorCollection, dists: Sequence[tuple[ProbabilisticTensorDictModule, Distribution]]
    ) -> CompositeDistribution:
        """Combine the distributions of all samples."""
        by_key: dict[FlatKey, Distribution] = {}
        for module, dist in dists:
            if isinstance(dist, CompositeDistribution):
                by_key.update(dist.dists)
                continue
            keys = module.dist_sample_keys
            if len(keys) != 1:
                raise RuntimeError(
                    f"{type_name(self)}: {type_name(dist)} stands for the keys {keys}; each distribution in "
                    "a composite one has a key of its own"
                )
            by_key[keys[0]] = dist
        return CompositeDistribution.from_distributions(data, by_key)

    def log_prob(
        self,
        tensordict: TensorCollection,
        tensordict_out: TensorCollection | None = None,
        *,
        dist: Distribution | None = None,
        **kwargs: Any,
    ) -> Any:
        """Compute the log-probability of the samples in a collection. None are drawn.

        Args:
            tensordict: has the samples, and the ``in_keys`` if ``dist`` is not given.
            tensordict_out: the collection to write parameters to.
            dist: the distribution; by default that of the modules.

        Returns:
            A tensor; for a composite distribution whose log-probabilities are not summed, a ``TensorDict``.

        Raises:
            KeyError: samples or parameters are missing.

        Example:
            >>> from tensorclass import TensorDict
            >>> from tensorclass.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential
            >>> policy = ProbabilisticTensorDictSequential(ProbabilisticTensorDictModule("param", "x"))
            >>> policy.log_prob(TensorDict(param=[1.0, 2.0], x=[1.0, 2.0]))
            tensor(inf)
        """
        self._refuse(kwargs)
        modules = self._drawing()
        composite = self._is_composite()
        there = tensordict.keys(True)
        absent = [
            key
            for module in (modules if composite else modules[-1:])
            for key in module.dist_sample_keys
            if key not in there
        ]
        if absent:
            raise MissingValues(f"{type_name(self)}: no samples under {absent}; the keys that are there: {list(there)}")
        if dist is None:
            dist = self._dist(tensordict, tensordict_out, fixed=True)
        if not composite:
            return modules[-1].log_prob(tensordict, dist=dist)
        made: Any = dist
        log_prob: Any = made.log_prob(tensordict)
        if isinstance(log_prob, TensorDict):
            rename_log_probs(log_prob, self.dist_sample_keys, self.log_prob_keys)
        return log_prob

    def _refuse(self, kwargs: Mapping[str, Any]) -> None:
        if kwargs:
            raise WrongArguments(f"{type_name(self)}: unknown keywords {[*kwargs]}")

    # -- calling it ---------------------------------------------------------------------------------------------------

    @overload
    def forward(self, tensordict: T, tensordict_out: None = None, _requires_sample: bool | None = None) -> T: ...
    @overload
    def forward(self, tensordict: TensorCollection, tensordict_out: T, _requires_sample: bool | None = None) -> T: ...
    @overload
    def forward(self, *args: Any, **kwargs: Any) -> Any: ...
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, tensordict: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        """Run the modules on a collection, or on tensors.

        Args:
            tensordict: a collection or record that has the ``in_keys``; or the first tensor.
            *args: further tensors, in the order of ``in_keys``.
            tensordict_out: the collection to write to; by default the input.
            _requires_sample: with ``False`` the last module, if it is probabilistic, draws no sample.
            **kwargs: tensors by keyword.

        Returns:
            The collection with the outputs; for a call with tensors the values of ``out_keys``.

        Example:
            >>> from tensorclass import TensorDict
            >>> from tensorclass.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential
            >>> policy = ProbabilisticTensorDictSequential(ProbabilisticTensorDictModule("param", "x"))
            >>> policy(TensorDict(param=[1.0, 2.0]))["x"]
            tensor([1., 2.])
        """
        if isinstance(tensordict, Proxy):
            return self._trace(tensordict)
        if not isinstance(tensordict, TensorCollection):
            return super().forward(tensordict, *args, **kwargs)
        return self._forward(tensordict, *args, **kwargs)

    if TYPE_CHECKING:

        @overload
        def __call__(self, tensordict: T, tensordict_out: None = None, _requires_sample: bool | None = None) -> T: ...
        @overload
        def __call__(
            self, tensordict: TensorCollection, tensordict_out: T, _requires_sample: bool | None = None
        ) -> T: ...
        @overload
        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...  # pyright: ignore[reportIncompatibleMethodOverride]

    else:
        __call__ = nn.Module.__call__

    def _forward(
        self,
        tensordict: TensorCollection,
        tensordict_out: TensorCollection | None = None,
        _requires_sample: bool | None = None,
        **kwargs: Any,
    ) -> TensorCollection:
        self._refuse(kwargs)
        last: Any = self[-1]
        if _requires_sample is not False or not isinstance(last, _PROBABILISTIC):
            run: Any = super().forward
            result: TensorCollection = run(tensordict, tensordict_out=tensordict_out)
            return result
        data = self.det_part(tensordict, tensordict_out=tensordict_out)
        if tensordict_out is not None:  # the sample is in the input
            data = tensordict.copy().update(data)
        given: TensorCollection = last(data, tensordict_out, _requires_sample=False)
        return given


_PROBABILISTIC = (ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential)
