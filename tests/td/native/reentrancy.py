"""Code in the middle of operations: ``python -m tests.td.native.reentrancy --count 200000 --seed 1``.

Each operation runs on new collections, which an intruder (:mod:`tests.td.native.intruder`) changes from within: from
the garbage collector, which runs at each allocation, from finalizers and callbacks of weak references, from subclasses,
modes and hooks of torch, from keys, sizes, mappings and lists of the user's. All of it runs in child processes, with
native code and without. Afterwards:

- No process has crashed, or hung.
- Each result is whole, or an error: it is the one that Python gives for a state that the collections had meanwhile, and
  so is what was written in place.

``--native 1 --seed S --first N --count 1`` repeats one operation. ``--entries`` says which functions of the library the
operations call.
"""

from __future__ import annotations

import argparse
import copy
import dis
import faulthandler
import gc
import itertools
import json
import os
import pickle
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from random import Random
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import tensorclass
from tensorclass import LazyStackedTensorDict, NonTensorStack, TensorClass, TensorDict, Text
from tests.native_code import native_code, results
from tests.td.native.intruder import SIZE, FiringInt, FiringKey, FiringMapping, Intruder, Point, fire
from tests.td.native.test_native_comparison import COLLECTIONS, MASK, OPERATIONS

SECONDS = 600  #: after which an operation hangs
CHUNK = 2000  #: operations of a process

#: errors of programs that say nothing about the change
NO_ANSWERS = (SystemError, AssertionError, UnboundLocalError, MemoryError, ReferenceError)

# -- operations whose results are compared ----------------------------------------------------------------------------


def reads_once(operation: Callable[[Any], Any]) -> bool:
    """Whether an operation uses its collection in one place: otherwise its parts may see different states."""
    code = getattr(operation, "__code__", None)
    if code is None:
        return False
    name = code.co_varnames[0]
    uses = [step for step in dis.get_instructions(code) if step.argval == name and "LOAD" in step.opname]
    return len(uses) == 1


#: in these, the one use is a call that the library answers with several operations, or is followed by another call
SEVERAL_STEPS = {"iterate", "write when locked"}

ONE: dict[str, Callable[[Any], Any]] = {
    **{name: work for name, work in OPERATIONS.items() if reads_once(work) and name not in SEVERAL_STEPS},
    "to_pytree": lambda d: d.to_pytree(),
    "tree_flatten": lambda d: pytree.tree_flatten(d)[0],
    "tree_map": lambda d: pytree.tree_map(lambda value: value, d),
}

TWO: dict[str, Callable[[Any, Any], Any]] = {
    "stack": lambda d, o: torch.stack([d, o], 1),
    "stack 0": lambda d, o: torch.stack([d, o]),
    "cat": lambda d, o: torch.cat([d, o], 0),
    "cat 1": lambda d, o: torch.cat([d, o], 1),
    "+": lambda d, o: d + o,
    "*": lambda d, o: d * o,
    "==": lambda d, o: d == o,
    "<": lambda d, o: d < o,
    "maximum": lambda d, o: d.maximum(o),
    "lerp": lambda d, o: d.lerp(o, 0.5),
    "addcmul": lambda d, o: d.addcmul(o, o, value=2),
    "add_": lambda d, o: d.add_(o),
    "where": lambda d, o: d.where(MASK, o),
    "lazy stack": lambda d, o: LazyStackedTensorDict.lazy_stack([d, o], 0).contiguous(),
    "key of a lazy stack": lambda d, o: LazyStackedTensorDict.lazy_stack([d, o], 0)["a"],
    "[0] = ": lambda d, o: d.__setitem__(slice(0, 4), o),
    "[rows] = ": lambda d, o: d.__setitem__(torch.arange(4), o),
    "[mask] = ": lambda d, o: d.__setitem__(torch.ones(4, dtype=torch.bool), o),
    "copy_": lambda d, o: d.copy_(o),
    "update_": lambda d, o: d.update_(o),
    "apply two": lambda d, o: d.apply(lambda value, second: value + second, o),
}

# -- operations that must not crash -----------------------------------------------------------------------------------


class FiringModule(nn.Module):
    """A module whose attributes run Python code when they are written."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 2)
        self.norm = nn.BatchNorm1d(2)
        self.register_buffer("scale", torch.ones(2))

    def __setattr__(self, name: str, value: Any) -> None:
        fire()
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        fire()
        return super().__getattr__(name)


class FunctionMode(TorchFunctionMode):
    """Runs Python code at each call of a function."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        fire()
        return func(*args, **(kwargs or {}))


class DispatchMode(TorchDispatchMode):
    """Runs Python code at each call of an operator."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        fire()
        return func(*args, **(kwargs or {}))


def _same(value: Any) -> Any:
    fire()
    return value


@contextmanager
def _saved() -> Iterator[None]:
    with torch.autograd.graph.saved_tensors_hooks(_same, _same):
        yield


@contextmanager
def _warnings() -> Iterator[None]:
    before = warnings.showwarning
    warnings.showwarning = fire
    try:
        yield
    finally:
        warnings.showwarning = before


MODES: dict[str, Callable[[], Any]] = {
    "function mode": FunctionMode,
    "dispatch mode": DispatchMode,
    "saved tensors": _saved,
    "warnings": _warnings,
}


def _items(intruder: Intruder, d: Any) -> list[Any]:
    """A list of collections, which is changed, too."""
    items = [d, *(intruder.collection("flat") for _ in range(3))]
    intruder.lists.append(items)
    return items


def _mapping(intruder: Intruder) -> FiringMapping:
    inner = FiringMapping({"c": intruder.tensor("c")})
    return FiringMapping({FiringKey("a"): intruder.tensor("a"), "inner": inner, "z": intruder.tensor("z")})


def _entries(intruder: Intruder) -> dict[str, Any]:
    """A dict that is changed by what its values do."""
    entries: dict[str, Any] = {f"k{i}": intruder.tensor(f"k{i}") for i in range(5)}
    intruder.lists.append(_Entries(entries, intruder))
    return entries


class _Entries(list[Any]):
    """A dict, for those who change lists."""

    def __init__(self, entries: dict[str, Any], intruder: Intruder) -> None:
        self.entries, self.intruder = entries, intruder

    def __len__(self) -> int:
        return len(self.entries)

    def pop(self, *ignored: Any) -> Any:
        return self.entries.popitem()

    def clear(self) -> None:
        self.entries.clear()

    def __setitem__(self, at: Any, value: Any) -> None:
        self.entries[self.intruder.rng.choice(list(self.entries))] = self.intruder.tensor("a")

    def extend(self, values: Any) -> None:
        for number, value in enumerate(values):
            self.entries[f"new{number}"] = value


def _in_module(intruder: Intruder, work: Callable[[Any, Any], Any]) -> Any:
    module = FiringModule()
    parameters = intruder.register(TensorDict.from_module(module))
    intruder.register_all(parameters)
    return work(module, parameters)


def _call_in(module: Any, parameters: Any) -> Any:
    with parameters.apply(lambda value: value.detach().clone()).to_module(module):
        return module.first(torch.ones(4, 2))


def _written_lazily(d: Any, intruder: Intruder) -> Any:
    stack = intruder.collection("lazy")
    stack.set("new", torch.ones(SIZE))
    stack.append(intruder.collection("row"))
    return stack.unbind(0), stack[1], stack[1:3], stack["a"], stack.contiguous()


def _objects(d: Any, intruder: Intruder) -> Any:
    stack = NonTensorStack(*[{"number": i} for i in range(4)])
    data = TensorDict({"o": stack, "a": torch.ones(4)}, [4])
    intruder.register_all(data)
    return data["o"], data[1:3], torch.stack([data, data]), data.unbind(0), stack.tolist()


def _text(d: Any, intruder: Intruder) -> Any:
    strings = [FiringKey(f"text {i}") for i in range(5)]
    intruder.lists.append(strings)
    column = Text.from_list(strings)
    return column.tolist(), column[1:3].tolist(), column[torch.tensor([0, 2])].tolist(), column[1]


class Noted(TensorClass, stack_objects=True):
    """A record with a list of objects for each row."""

    x: torch.Tensor
    note: list[str]


HOOKS: dict[str, Callable[[Any, Intruder], Any]] = {
    "apply": lambda d, i: d.apply(_same),
    "apply two": lambda d, i: d.apply(lambda one, two: _same(one), i.collection("flat")),
    "apply in place": lambda d, i: d.apply_(_same),
    "apply batch size": lambda d, i: d.apply(lambda value: _same(value).sum(0), batch_size=[3]),
    "named_apply": lambda d, i: d.named_apply(lambda name, value: _same(value), nested_keys=True),
    "tree_map": lambda d, i: pytree.tree_map(_same, d),
    "update mapping": lambda d, i: d.update(_mapping(i)),
    "update_ mapping": lambda d, i: d.update_(_mapping(i)),
    "constructor": lambda d, i: TensorDict(_mapping(i), SIZE),
    "constructor of a dict": lambda d, i: TensorDict(_entries(i), SIZE),
    "constructor of a dict, device": lambda d, i: TensorDict(_entries(i), SIZE, device="cpu"),
    "from_dict": lambda d, i: TensorDict.from_dict(_mapping(i)),
    "from_dict of a dict": lambda d, i: TensorDict.from_dict(_entries(i), batch_size=SIZE),
    "from_pytree": lambda d, i: TensorDict.from_pytree({"one": _entries(i), "two": [i.tensor("a"), i.tensor("z")]}),
    "from_pytree, batch size": lambda d, i: TensorDict.from_pytree(_entries(i), batch_size=SIZE),
    "in one buffer": lambda d, i: d.consolidate().to("meta"),
    "objects of a field": lambda d, i: (
        Noted(i.tensor("x"), NonTensorStack(["a"], ["b"], ["c"], ["d"]), batch_size=[4])[1:].note
    ),
    "set a field": lambda d, i: setattr(Point(x=i.tensor("a"), y=i.tensor("z"), batch_size=SIZE), "x", i.tensor("a")),
    "record": lambda d, i: Point(x=i.tensor("x"), y=_same(i.tensor("y")), batch_size=SIZE),
    "record from": lambda d, i: Point.from_tensordict(d),
    "update dict": lambda d, i: d.update(_entries(i)),
    "set of a dict": lambda d, i: d.set("new", _entries(i)),
    "stack a list": lambda d, i: torch.stack(_items(i, d)),
    "cat a list": lambda d, i: torch.cat(_items(i, d), 0),
    "stack a list last": lambda d, i: torch.stack(_items(i, d), -1),
    "lazy stack a list": lambda d, i: LazyStackedTensorDict.lazy_stack(_items(i, d), 0).contiguous(),
    "maybe_dense_stack": lambda d, i: LazyStackedTensorDict.maybe_dense_stack(_items(i, d), 0),
    "lazy stack": _written_lazily,
    "objects": lambda d, i: _objects(d, i),
    "text": _text,
    "[list]": lambda d, i: d[_changing(i, [0, 2, 1])],
    "[list] = ": lambda d, i: d.__setitem__(_changing(i, [0, 2, 1]), 0),
    "[index]": lambda d, i: d[FiringInt(1)],
    "[index, index]": lambda d, i: d[FiringInt(1), FiringInt(2)],
    "[slice]": lambda d, i: d[FiringInt(1) : FiringInt(3)],  # type: ignore[misc]
    "[slice] = ": lambda d, i: d.__setitem__(slice(FiringInt(1), FiringInt(3)), 0),
    "reshape": lambda d, i: d.reshape(FiringInt(12)),
    "view": lambda d, i: d.view(FiringInt(3), FiringInt(4)),
    "expand": lambda d, i: d.expand(FiringInt(2), *SIZE),
    "permute": lambda d, i: d.permute(FiringInt(1), FiringInt(0)),
    "split": lambda d, i: d.split(_changing(i, [1, 3])),
    "split firing": lambda d, i: d.split([FiringInt(1), FiringInt(3)]),
    "unbind": lambda d, i: d.unbind(FiringInt(0)),
    "batch size": lambda d, i: TensorDict({"a": i.tensor("a")}, [FiringInt(4)]),
    "get": lambda d, i: (d.get(FiringKey("a"), None), FiringKey("a") in d, d[FiringKey("inner"), FiringKey("c")]),
    "set": lambda d, i: d.set(FiringKey("a"), i.tensor("a")).set(("inner", FiringKey("c")), i.tensor("c")),
    "set plain": lambda d, i: d.set("a", i.tensor("a")).set("z", i.tensor("z")),
    "set new": lambda d, i: [d.set(f"n{n}", i.tensor("a")) for n in range(9)],
    "pop": lambda d, i: d.pop(FiringKey("a"), None),
    "pop plain": lambda d, i: d.pop("a"),
    "rename": lambda d, i: d.rename_key_("a", FiringKey("q")),
    "select": lambda d, i: d.select(FiringKey("a"), ("inner", FiringKey("c")), strict=False),
    "exclude": lambda d, i: d.exclude(FiringKey("a"), ("inner", FiringKey("c"))),
    "rows of a stack": lambda d, i: torch.unbind(LazyStackedTensorDict.lazy_stack([d, d], 0)["a"]),
    "unbind objects": lambda d, i: NonTensorStack(*"pqrs").unbind(0),
    "+ firing": lambda d, i: d + i.tensor("a"),
    "keys": lambda d, i: [_same(key) for key in d.keys(True, True)],
    "items": lambda d, i: [_same(item) for item in d.items(True, True)],
    "items, one level": lambda d, i: [_same(item) for item in d.items()],
    "values": lambda d, i: [_same(value) for value in d.values(True)],
    "rows": lambda d, i: [_same(row) for row in d],
    "from_module": lambda d, i: _in_module(i, lambda module, parameters: TensorDict.from_module(module)),
    "to_module": lambda d, i: _in_module(i, _call_in),
    "to_module for good": lambda d, i: _in_module(i, lambda module, parameters: parameters.to_module(module)),
    "parameters": lambda d, i: tensorclass.nn.TensorDictParams(d),
    "pickle": lambda d, i: pickle.loads(pickle.dumps(d)),
    "deepcopy": lambda d, i: copy.deepcopy(d),
    "copy": lambda d, i: copy.copy(d),
    "memmap_like": lambda d, i: d.consolidate(),
    "vmap": lambda d, i: torch.vmap(lambda row: row + 1)(d),
    "backward": lambda d, i: sum(value.sum() for value in (d * 2).values(True, True)),
    "locked": lambda d, i: d.lock_().unlock_(),
    "block": lambda d, i: _block(d, lambda inner: inner.set("new", torch.ones(12))),
    "repr": lambda d, i: repr(d),
}


def _changing(intruder: Intruder, items: list[int]) -> list[Any]:
    intruder.lists.append(items)
    return items


def _block(d: Any, write: Callable[[Any], Any]) -> Any:
    with d.flatten(0, 1) as inner:
        write(inner)
    return d


# -- one operation ----------------------------------------------------------------------------------------------------

#: the collections in which results are compared
WHOLE = ("flat", "wide", "nested", "objects", "lazy", "record")

#: moments of an operation: by far the most have fewer
MOMENTS = {"flat": 80, "wide": 400, "nested": 200, "objects": 120, "lazy": 300, "record": 60}


def chosen(seed: int, number: int) -> tuple[str, Callable[[], str]]:
    """Return the name of an operation, and what runs it and says what came of it."""
    rng = Random(f"{seed} {number}")
    name, kind = "", rng.choice(WHOLE)
    if rng.random() < 0.6:
        two = rng.random() < 0.3
        name = rng.choice(list(TWO if two else ONE))
        operation: Callable[..., Any] = TWO[name] if two else ONE[name]
        return f"{name} of {kind}", lambda: compared(operation, Intruder(f"{seed} {number}", MOMENTS[kind]), kind)
    intruder = Intruder(f"{seed} {number}", 200, reaches_results=rng.random() < 0.3)
    mode = rng.choice([*MODES, *[""] * 8])
    if rng.random() < 0.5:
        name, kind = rng.choice(list(OPERATIONS)), rng.choice(list(COLLECTIONS))
        return f"{name} of {kind}, {mode}", lambda: survived(OPERATIONS[name], intruder, COLLECTIONS[kind](), mode)
    name = rng.choice(list(HOOKS))
    work = HOOKS[name]
    return f"{name} of {kind}, {mode}", lambda: survived(
        lambda d: work(d, intruder), intruder, intruder.collection(kind), mode
    )


def survived(operation: Callable[[Any], Any], intruder: Intruder, data: Any, mode: str) -> str:
    """Run an operation whose result is not compared, and return what came of it."""
    if not intruder.collections:
        intruder.register_all(data)
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("always" if mode == "warnings" else "ignore")
        if mode:
            stack.enter_context(MODES[mode]())
        try:
            with intruder.inside():
                operation(data)
        except Exception as error:
            return judged(error) if intruder.changes else "not changed"
    return "survived" if intruder.changes else "not changed"


def compared(operation: Callable[..., Any], intruder: Intruder, form: str) -> str:
    """Run an operation whose result is compared, and return what came of it."""
    collections = [intruder.collection(form) for _ in range(operation.__code__.co_argcount)]
    try:
        with warnings.catch_warnings(), intruder.inside():
            warnings.simplefilter("ignore")
            result = operation(*collections)
    except Exception as error:
        return judged(error) if intruder.changes else "not changed"
    if not intruder.changes and intruder.rng.random() < 0.9:
        return "not changed"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome = intruder.outcome(result)
        possible = intruder.possible(operation, collections)
    if form == "lazy" and possible is not None and outcome not in possible:
        # Each part of a lazy stack is in a state of its own, and the stack asks them more than once: for the order of
        # keys, and whether they are alike, which decides only how the result is kept. What holds is that each value is
        # under its own key, and that each part is read in one state.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome = intruder.outcome(result, by_value=True)
            possible = intruder.possible(operation, collections, by_value=True)
    if possible is None:
        return "not compared"
    if outcome not in possible:
        lines = [f"    possible: {shortened(other)}" for other in possible[:4]]
        return "\n".join([f"PARTIAL: {shortened(outcome)}", *lines, f"    changes: {intruder.done}"])
    return "whole"


def shortened(outcome: Any) -> str:
    """The begin of an outcome: keys, and the first numbers of the tensors."""
    return repr(outcome)[:900]


def judged(error: Exception) -> str:
    name = type(error).__name__
    if isinstance(error.__cause__, Exception) and "intruder" in str(error):
        raise error
    if isinstance(error, NO_ANSWERS):
        return f"NO ANSWER: {name}: {error}"[:400]
    return f"error: {name}"


# -- processes --------------------------------------------------------------------------------------------------------


def run_here(seed: int, first: int, count: int, on: bool) -> None:
    """Run operations in this process. Print the number and the name of each, and what came of it."""
    torch.set_num_threads(1)
    sys.setrecursionlimit(400)
    gc.collect()
    gc.freeze()
    with native_code(on):
        for number in range(first, first + count):
            name, run = chosen(seed, number)
            os.write(1, f"{json.dumps([number, name])}\n".encode())
            faulthandler.dump_traceback_later(SECONDS, exit=True)
            found = run()
            faulthandler.cancel_dump_traceback_later()
            os.write(1, f"{json.dumps(found)}\n".encode())


def run_in_processes(seed: int, first: int, count: int, on: bool) -> tuple[Counter[str], int]:
    """Run operations in processes, one after the other; another one goes on behind a crash. Print what is wrong.

    Returns:
        What came of the operations, and how many went wrong.
    """
    results: Counter[str] = Counter()
    wrong = 0
    end = first + count
    while first < end:
        command = [sys.executable, "-X", "faulthandler", "-m", "tests.td.native.reentrancy", "--here"]
        command += ["--seed", str(seed), "--first", str(first), "--native", str(int(on))]
        command += ["--count", str(min(CHUNK, end - first))]
        # memory that was freed is overwritten, so that reading it goes wrong
        done = subprocess.run(command, capture_output=True, text=True, env={"PYTHONMALLOC": "debug", **os.environ})
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        if not lines:
            raise SystemExit(f"operations cannot be run: {done.stderr[-3000:]}")
        if len(lines) % 2:
            lines.append(ended(done.returncode, done.stderr))
        elif done.returncode:
            lines += [[lines[-2][0], "or one before, at the end"], ended(done.returncode, done.stderr)]
        for (number, name), found in zip(lines[::2], lines[1::2], strict=True):
            kind = found.partition("\n")[0].partition(": ")[0] if found[:2].isupper() else found
            results[kind] += 1
            if kind is not found:
                wrong += 1
                print(f"{'native' if on else 'Python'}, seed {seed}, operation {number}, {name}: {found}", flush=True)
        first = 1 + lines[-2][0]
    return results, wrong


def ended(code: int, errors: str) -> str:
    """What a process says that has crashed."""
    end = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    trace = [line for line in errors.splitlines() if line.strip()]
    marks = ("Fatal", "ERROR:", "Timeout", "runtime error", "Debug memory block", "Traceback")
    at = min([number for number, line in enumerate(trace) if any(mark in line for mark in marks)], default=0)
    return "\n    ".join([f"CRASH: {end}", *trace[at : at + 40]])


def run_each() -> None:
    """Run each operation once on each form of collections, without changes in between."""
    for form, table in itertools.product(WHOLE, (ONE, TWO, HOOKS)):
        for operation in table.values():
            intruder = Intruder("entries")
            collections = [intruder.collection(form) for _ in range(1 + (table is TWO))]
            with warnings.catch_warnings(), suppress(Exception):  # for this form
                warnings.simplefilter("ignore")
                operation(*collections, *([intruder] if table is HOOKS else []))


def entries() -> dict[str, set[str]]:
    """The functions of the library that operations call, without changes in between, and those that they do not."""
    with results() as found:
        run_each()
    return {"called": {*filter(found.get, found)}, "not called": {name for name, made in found.items() if not made}}


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200_000, help="operations, with native code and without")
    parser.add_argument("--first", type=int, default=0, help="the number of the first operation")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--native", type=int, choices=(0, 1), help="with native code or without; both by default")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    parser.add_argument("--entries", action="store_true", help="say which functions of the library are called")
    parser.add_argument("--here", action="store_true", help="in this process, which a crash ends")
    options = parser.parse_args()
    if options.entries:
        print(json.dumps({key: sorted(names) for key, names in entries().items()}, indent=1))
        return 0
    if options.here:
        run_here(options.seed, options.first, options.count, bool(options.native))
        return 0
    begin = time.monotonic()
    total: dict[str, Any] = {"seed": options.seed}
    wrong = 0
    modes = [bool(options.native)] if options.native is not None else [True, False]
    count = -(-options.count // len(modes))
    share = -(-count // options.jobs)
    with ThreadPoolExecutor(options.jobs) as pool:
        for on in modes:
            starts = range(options.first, options.first + count, share)
            parts = list(pool.map(lambda first, on=on: run_in_processes(options.seed, first, share, on), starts))
            wrong += sum(part[1] for part in parts)
            total["native" if on else "python"] = dict(sum((part[0] for part in parts), Counter()).most_common())
    print(json.dumps({**total, "wrong": wrong, "seconds": round(time.monotonic() - begin)}, indent=1), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
