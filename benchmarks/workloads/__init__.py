"""The table of workloads, a module a family."""

from benchmarks.workloads import (
    accessing,
    combining,
    constructing,
    contexts,
    converting,
    copying,
    dictionary,
    functional,
    indexing,
    lazy,
    mapping,
    modules,
    names,
    objects,
    one_piece,
    parameters,
    pointwise,
    probabilistic,
    shaping,
)
from benchmarks.workloads.table import Workload

FAMILIES = (
    constructing,
    accessing,
    indexing,
    shaping,
    copying,
    pointwise,
    combining,
    dictionary,
    contexts,
    mapping,
    objects,
    lazy,
    names,
    functional,
    modules,
    parameters,
    probabilistic,
    converting,
    one_piece,
)

WORKLOADS: tuple[Workload, ...] = tuple(workload for family in FAMILIES for workload in family.WORKLOADS)

__all__ = ["FAMILIES", "WORKLOADS", "Workload"]
