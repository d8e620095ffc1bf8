"""Functions of other libraries that take something like an array, a sequence, a number or a mapping, on our values.

Each of them gives the right answer, or raises. An answer is right if it is that of the same call with the content in
plain Python, numpy or torch: as a whole, for each field, or for each row. ``takers.txt`` has the answers.

    python -m tests.takers            compare, and print what differs
    python -m tests.takers --write    find the functions of the installed libraries, and write their answers
    python -m tests.takers --write numpy
"""

from __future__ import annotations

import argparse
import contextlib
import enum
import importlib
import itertools
import keyword
import os
import random
import re
import sys
import tempfile
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from torch import Tensor

import tensorclass as tc
from tensorclass.td import native
from tensorclass.td.collection import Collection
from tensorclass.td.shape_operations import Shaping

FILE = Path(__file__).with_name("takers.txt")

# -- values -----------------------------------------------------------------------------------------------------------


class Sample(tc.TensorClass):
    a: Tensor
    b: Tensor


@dataclass
class Value:
    """One of our values, and its content in plain forms."""

    make: Callable[[], Any]
    #: plain forms of all of it
    forms: Callable[[], list[Any]]
    #: its fields, for functions that act on each
    fields: Callable[[], dict[str, Any]] = dict
    #: its rows, for functions that act on each
    rows: Callable[[], list[Any]] = list
    #: the content of each row, or of the one row, for functions that only move rows
    items: list[Any] = field(default_factory=list)
    #: it has batch dimensions
    many: bool = True
    #: a leaf of the peer: it has no keys, and arithmetic leaves it alone
    of_peer: bool = False


def _arrays() -> dict[str, Tensor]:
    return {"a": torch.tensor([4, 7]), "b": torch.tensor([[1.5, 2.5, 0.5], [3.5, 0.25, 1.0]])}


def _row() -> dict[str, Tensor]:
    return {key: array[0].clone() for key, array in _arrays().items()}


def _tree(make: Callable[[dict[str, Tensor]], Any], content: Callable[[], dict[str, Tensor]] = _arrays) -> Value:
    def forms() -> list[Any]:
        own = content()
        return [own, [{key: array[i] for key, array in own.items()} for i in range(2)] if many else [own]]

    many = content is _arrays
    parts = [{key: array[i] for key, array in content().items()} for i in range(2)] if many else [content()]
    items = [{key: array.tolist() for key, array in part.items()} for part in parts]
    return Value(lambda: make(content()), forms, content, items=items, many=many)


def _objects(make: Callable[[], Any], content: Any, of_peer: bool = False) -> Value:
    many = isinstance(content, list)
    items = content if many else [content]

    def forms() -> list[Any]:
        plain = [_copied(content)]
        if isinstance(items[0], int):
            plain += [torch.tensor(content), np.array(content)]
        return [
            *plain,
            *(
                [_object_array(items), pd.Series(items)]
                if many
                else [pd.Series([content] * 2, dtype=object), _array_of(content)]
            ),
        ]

    return Value(make, forms, items=items, many=many, of_peer=of_peer)


def _copied(content: Any) -> Any:
    return [_copied(item) for item in content] if isinstance(content, list) else content


def _array_of(content: Any) -> Any:
    array = np.empty((), object)
    array[()] = content
    return array


def _object_array(items: list[Any]) -> Any:
    array = np.empty(len(items), object)
    array[:] = items
    return array


def _ragged(lists: list[list[int]]) -> Value:
    def forms() -> list[Any]:
        equal = len({len(row) for row in lists}) == 1
        arrays = _object_array([np.array(row) for row in lists])
        tensors = [torch.tensor(row) for row in lists]
        return [*([torch.tensor(lists), np.array(lists)] if equal else []), tensors, _copied(lists), arrays]

    return Value(lambda: tc.Ragged(lists), forms, rows=lambda: [torch.tensor(row) for row in lists], items=lists)


def _unbatched(tensor: Callable[[], Tensor], *size: int) -> Value:
    def forms() -> list[Any]:
        return [tensor(), tensor().numpy(), tensor().tolist(), *([[tensor()] * size[0]] if size else [])]

    items = [tensor().tolist()] * (size[0] if size else 1)
    make = lambda: tc.UnbatchedTensor(tensor(), batch_size=size)
    return Value(make, forms, items=items, many=bool(size), of_peer=True)


def _lazy(content: dict[str, Tensor]) -> Any:
    return tc.lazy_stack([tc.TensorDict({key: array[i] for key, array in content.items()}) for i in range(2)])


FOLDER = tempfile.TemporaryDirectory(prefix="takers-")
FILES = itertools.count()


def _mapped(content: dict[str, Tensor]) -> Any:
    return tc.TensorDict(content, [2]).memmap(str(Path(FOLDER.name, f"{os.getpid()}-{next(FILES)}")))


def _persistent(content: dict[str, Tensor]) -> Any:
    return tc.PersistentTensorDict.from_dict(
        content, Path(FOLDER.name, f"{os.getpid()}-{next(FILES)}.h5"), batch_size=[2]
    )


def _part(content: dict[str, Tensor]) -> Any:
    return tc.TensorDict(
        {key: torch.stack([array, array]) for key, array in content.items()}, [2, 2]
    ).get_sub_tensordict(0)


VALUES: dict[str, Value] = {
    "record": _tree(lambda content: Sample(**content, batch_size=[2])),
    "row of a record": _tree(lambda content: Sample(**content), _row),
    "TensorDict": _tree(lambda content: tc.TensorDict(content, [2])),
    "row of a TensorDict": _tree(lambda content: tc.TensorDict(content), _row),
    "lazy stack": _tree(_lazy),
    "Text": _objects(lambda: tc.Text(["ab", "12"]), ["ab", "12"]),
    "row of a Text": _objects(lambda: tc.Text("12"), "12"),
    "Ragged": _ragged([[3, 1], [2]]),
    "equal Ragged": _ragged([[3, 1], [2, 5]]),
    "row of a Ragged": Value(
        lambda: tc.Ragged([[3, 1], [2]])[0],
        lambda: [torch.tensor([3, 1]), np.array([3, 1]), [3, 1], pd.Series([3, 1])],
        rows=lambda: [torch.tensor([3, 1])],
        items=[[3, 1]],
        many=False,
    ),
    "Column of numbers": _objects(lambda: tc.Column([2, 5]), [2, 5]),
    "Column of lists": _objects(lambda: tc.Column([[3, 1], [2]]), [[3, 1], [2]]),
    "row of a Column": _objects(lambda: tc.Column([5]).reshape(()), 5),
    "NonTensorData": _objects(lambda: tc.NonTensorData("ab"), "ab", True),
    "NonTensorData of a number": _objects(lambda: tc.NonTensorData(3), 3, True),
    "NonTensorData of rows": _objects(lambda: tc.NonTensorData("ab", batch_size=[2]), ["ab", "ab"], True),
    "NonTensorStack": _objects(lambda: tc.NonTensorStack("ab", "12"), ["ab", "12"], True),
    "UnbatchedTensor": _unbatched(lambda: torch.tensor([1.5, 2.5, 0.5]), 2),
    "UnbatchedTensor of a number": _unbatched(lambda: torch.tensor(3)),
    "memory-mapped": _tree(_mapped),
    "persistent": _tree(_persistent),
    "parameters": _tree(
        lambda content: tc.nn.TensorDictParams(tc.TensorDict(content)),
        lambda: {"b": _arrays()["b"], "c": torch.ones(())},
    ),
    "part of a TensorDict": _tree(_part),
}
#: on another store: only the calls in ``MORE`` take them
STORED = frozenset(("memory-mapped", "persistent", "parameters", "part of a TensorDict"))

TREES = ("record", "TensorDict", "lazy stack", "memory-mapped", "persistent", "part of a TensorDict")
#: cells that are wrong, and why they stay so
KNOWN: dict[tuple[str, str], str] = {
    **dict.fromkeys(
        itertools.product(("random.shuffle(v)", "np.random.shuffle(v)"), TREES),
        "rows are views, as those of a tensor: in a swap, what was read changes with the first write",
    ),
    ("np.argwhere(v)", "row of a Ragged"): "numpy asks for ndim, which is that of the batch",
}

# -- answers ----------------------------------------------------------------------------------------------------------

MOST = 40


def plain(value: Any) -> Any:
    """Return content in lists, dicts and numbers, so that answers of all libraries can be compared."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return value
    if isinstance(value, Tensor):
        if value.is_nested:
            return [plain(row) for row in value.unbind()]
        return value.detach().to_dense().tolist() if value.layout != torch.strided else value.detach().tolist()
    if isinstance(value, Collection):
        if isinstance(value, tc.UnbatchedTensor):
            return plain(value.data)
        if value._is_tree():
            return {key: plain(item) for key, item in value.items()}  # type: ignore[attr-defined]
        return plain(value.tolist())  # type: ignore[attr-defined]
    if isinstance(value, (np.ndarray, np.generic, memoryview, bytearray)):
        return plain(value.tolist() if not isinstance(value, bytearray) else list(value))
    if isinstance(value, pd.DataFrame):
        return {key: plain(column) for key, column in value.items()}
    if isinstance(value, (pd.Series, pd.Index)):
        return [plain(item) for item in value]
    if isinstance(value, (pa.Table, pa.RecordBatch)):
        return plain(value.to_pydict())
    if isinstance(value, (pa.Array, pa.ChunkedArray)):
        return plain(value.to_pylist())
    if isinstance(value, pa.Scalar):
        return plain(value.as_py())
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted((plain(item) for item in value), key=repr)
    if isinstance(value, (type, types.FunctionType, torch.dtype, np.dtype, re.Pattern)):
        return str(value)
    if hasattr(type(value), "__next__") or hasattr(type(value), "__iter__"):
        listed = [plain(item) for item in itertools.islice(iter(value), MOST)]
        keys = listed[0].keys() if listed and isinstance(listed[0], dict) else ()
        if keys and all(isinstance(item, dict) and item.keys() == keys for item in listed):  # rows, or columns
            return {key: [item[key] for item in listed] for key in keys}
        return listed
    return re.sub(r"0x[0-9a-f]+", "", repr(value))


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(item, other[key]) for key, item in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    inexact, number = (float, complex), (int, float, complex)
    if (isinstance(one, inexact) and isinstance(other, number)) or (
        isinstance(other, inexact) and isinstance(one, number)
    ):
        return one == other or (one != one and other != other) or abs(one - other) <= 1e-5 * abs(other)
    return type(one) is type(other) and bool(one == other)


#: the other arguments of a call
OTHERS: dict[str, Callable[[], Any]] = {
    "t": lambda: torch.tensor([1.0, 2.0]),
    "i": lambda: torch.tensor([0, 1]),
    "a": lambda: np.array([1.0, 2.0]),
    "l": lambda: [1, 2],
    "d": lambda: {"x": 1},
    "s": lambda: pd.Series([1, 2]),
    "q": lambda: pa.array([1, 2]),
}


@dataclass
class Taker:
    """A call of a function with one of our values as ``v``."""

    source: str
    names: tuple[str, ...] = ()
    call: Callable[..., Any] = field(init=False)

    def __post_init__(self) -> None:
        self.names = tuple(sorted(set(re.findall(rf"\b[{''.join(OTHERS)}]\b(?!')", self.source))))
        self.call = eval(f"lambda {', '.join(('v', *self.names))}: {self.source}", MODULES)

    def answer(self, value: Any) -> Any:
        """Return the result for a value, and what the call has changed."""
        others = [OTHERS[name]() for name in self.names]
        random.seed(1)
        np.random.seed(0)  # noqa: NPY002 - some of the functions are the old ones
        torch.manual_seed(1)
        before = plain(value)
        result = plain(self.call(value, *others))
        after = plain(value)
        return result, None if same(before, after) else after, plain(others)


def _candidates(taker: Taker, value: Value) -> Iterator[Any]:
    """Yield the right answers, as far as calls with plain content give them."""
    swaps = "shuffle" in taker.source  # which is wrong for tensors, too
    for form in value.forms():
        if not (swaps and isinstance(form, Tensor)):
            with contextlib.suppress(Exception):
                yield taker.answer(form)
    if value.of_peer and (taker.source in OF_KEYS):
        yield taker.answer({})
    if isinstance(value.make(), tc.UnbatchedTensor) and taker.source.startswith("torch."):  # moved rows are the same
        for result in (value.items[0], value.items):
            yield result, None, plain([OTHERS[name]() for name in taker.names])
    if taker.source in OF_BATCH:
        yield taker.answer(torch.zeros([len(value.items)] if value.many else []))
    if comparison := COMPARISONS.search(taker.source):
        (other,) = [OTHERS[name]() for name in taker.names] or [1]
        equal = [bool(item == (other[i] if taker.names else 1)) for i, item in enumerate(value.items)]
        equal = [is_equal == (comparison[2] == "eq") for is_equal in equal]
        for result in (equal, equal[0]):
            yield result, None, plain([other] if taker.names else [])
    if value.rows():
        with contextlib.suppress(Exception):  # all items of rows of different length, as one row
            result, _, others = taker.answer(torch.cat(value.rows()))
            yield from (([result], None, others), (result, None, others))
    if value.fields():
        with contextlib.suppress(Exception):  # one answer for all fields
            result, _, others = taker.answer(torch.cat([part.reshape(-1).double() for part in value.fields().values()]))
            yield result, None, others
    if value.items:  # rows that are moved
        marks = torch.tensor([-1.7, 2.3], dtype=torch.float64)[: len(value.items)]
        known = dict(zip(marks.tolist(), value.items, strict=True))
        for form in (marks, list(marks)) if value.many else (marks[0],):
            with contextlib.suppress(Exception):
                result, changed, others = taker.answer(form)
                yield plain(_renamed(result, known)), changed and plain(_renamed(changed, known)), others
    for parts in (value.fields(), dict(enumerate(value.rows()))):
        if not parts or swaps:
            continue
        rows = 0 in parts
        with contextlib.suppress(Exception):
            answers = {key: taker.answer(part) for key, part in parts.items()}
            results, changes, (others, *_) = zip(*answers.values(), strict=True)
            after = [
                plain(part) if change is None else change for part, change in zip(parts.values(), changes, strict=True)
            ]
            changed = _listed(dict(zip(answers, after, strict=True)), rows) if any(changes) else None
            yield _listed(dict(zip(answers, results, strict=True)), rows), changed, others
            if len({len(result) for result in results}) == 1:  # several results: a collection of each
                each = zip(*results, strict=True)
                yield [_listed(dict(zip(answers, own, strict=True)), rows) for own in each], changed, others
        with contextlib.suppress(Exception):  # an operand with a value for each row
            operands = [OTHERS[name]() for name in taker.names]
            per_row = [[operand[i] for operand in operands] for i in range(2)]
            if rows:
                aligned: Any = [plain(taker.call(part, *per_row[i])) for i, part in parts.items()]
            else:
                aligned = {
                    key: [plain(taker.call(part[i] if value.many else part, *per_row[i])) for i in range(2)]
                    for key, part in parts.items()
                }
            yield aligned, None, plain(operands)
            if not rows:  # as above, over all rows
                whole = {
                    key: plain(taker.call(part, *[operand.reshape(-1, *[1] * (part.ndim - 1)) for operand in operands]))
                    for key, part in parts.items()
                }
                yield whole, None, plain(operands)


def _renamed(result: Any, known: dict[float, Any]) -> Any:
    """Replace marks of rows by the rows."""
    if isinstance(result, dict):
        return {key: _renamed(item, known) for key, item in result.items()}
    return [_renamed(item, known) for item in result] if isinstance(result, list) else known[result]


def _listed(parts: dict[Any, Any], rows: bool) -> Any:
    return list(parts.values()) if rows else parts


#: codes of errors: lower case if another library raised it
CODES = {
    "TypeError": "T", "ValueError": "V", "RuntimeError": "R", "IndexError": "I", "KeyError": "K", "AttributeError": "A",
    "BufferError": "B", "NotImplementedError": "N", "OverflowError": "O",
}  # fmt: skip
RIGHT, WRONG, STAYS_WRONG = "=", "?", "!"


def judge(taker: Taker, value: Value, known: bool = False) -> str:
    """Return the answer as a code: :data:`RIGHT`, :data:`WRONG`, or that of the error. ``known``: the cell is wrong."""
    made = value.make()
    try:
        answer = taker.answer(made)
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:
        code = next((CODES[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in CODES), "E")
        return code if _is_ours(error) else code.lower()
    if any(_equal(answer, candidate) for candidate in _candidates(taker, value)):
        return RIGHT
    return STAYS_WRONG if known else WRONG


def _is_ours(error: BaseException) -> bool:
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None or not last.tb_frame.f_globals.get("__name__", "").startswith("tensorclass."):
        return False
    # wrong arguments are no errors of a wrapper: of one that tries native code, or of that of the legacy mode
    wrappers = [*(method for tried in native.TRIED.values() for method in tried), Shaping.view]
    return all(last.tb_frame.f_code is not method.__code__ for method in wrappers)


def _equal(answer: Any, candidate: Any) -> bool:
    """Return whether result, change and other arguments are the same. A result can be new where a list changes."""
    changed = answer[1] if answer[0] is not None and answer[1] is None else candidate[1]
    return all(map(same, answer, (candidate[0], changed, candidate[2])))


# -- calls ------------------------------------------------------------------------------------------------------------

#: libraries: the modules of each whose functions are tried, and the forms of calls
LIBRARIES: dict[str, tuple[str, tuple[str, ...]]] = {
    "torch": (
        (
            "torch torch.special torch.linalg torch.fft torch.nn.functional torch.nn.utils.rnn torch.nested "
            "torch.utils.data torch.utils.dlpack t"
        ),
        ("v", "v, 1", "v, t", "v, 0, i", "v, 0, i, t", "t, v", "1, v", "t, 0, v", "t, t, v"),
    ),
    "numpy": (
        "np np.linalg np.fft np.random np.testing np.lib.stride_tricks a",
        ("v", "v, 1", "v, a", "a, v", "1, v", "a, a, v"),
    ),
    "pandas": ("pd pd.MultiIndex pd.DataFrame s", ("v", "v, 1", "v, s", "s, v", "1, v")),
    "pyarrow": ("pa pc", ("v", "v, 1", "v, q", "q, v")),
    "Python": (
        (
            "builtins math cmath statistics operator itertools functools collections heapq bisect random array struct "
            "json fractions decimal copy pickle marshal csv string textwrap html base64 binascii zlib hashlib types "
            "dataclasses datetime l d '' b'' bytearray() set() () (1) (1.5) collections.deque() collections.Counter() "
            "array.array('i')"
        ),
        ("v", "v, 1", "v, l", "v, len", "len, v", "l, v", "1, v", "'i', v", "l, l, v"),
    ),
}

#: functions that are not tried: they answer about the Python object, show it, wrap it unseen, or act on the process,
#: on files or on devices
SKIPPED = re.compile(
    r"_.*|PyTorch.*|Script.*|Serial.*|.*Type|.*Storage|.*Sampler|.*DataPipe.*|.*backend.*|.*deterministic.*|.*autocast.*|"
    r".*compile.*|.*cpu_count|.*inference.*|.*memory_pool.*|.*printoptions|.*seed.*|.*thread.*|.*tracing.*|.*fromtxt|"
    r"create_.*|decorate.*|describe_.*|foreign_.*|get_.*|import_ir_module.*|jemalloc.*|load.*|mimalloc.*|parse_.*|read_.*|"
    r"rec.*|register.*|reset_.*|run.*|save.*|set_.*|show_.*|supported_.*|suppress.*|system_.*|temp.*|unregister.*|use_.*|"
    r"to_(csv|excel|pickle|parquet|hdf|sql|json|feather|stata|xml|orc|clipboard|gbq|iceberg|html|latex|markdown|string)|"
    r".*empty.*|.*rand.*|is_.*|has_torch.*|.*dropout.*|resize.*|gumbel_softmax|bernoulli.*|multinomial|normal|poisson|"
    r"as_strided.*|bytes_|str_|void|size|iterable|bmat|no_grad|enable_grad|vmap|typename|copy_method_params|PackedSequence|"
    r"TensorDataset|SkipTest|array2string|array_repr|array_str|GradScaler|kaiser|"
    r"array_take|call_function|log_memory.*|.*MemoryPool|"  # pyarrow crashes if it is given numbers
    r"DataLoader|DataSource|DictReader|DictWriter|Field|Generator|GenericAlias|Grouper|NamedAgg|InitVar|MT19937|Module|PCG64.*|Philox|RLock|"
    r"Random|RandomState|SFC64|SystemRandom|ascii|boxplot|breakpoint|build_err_msg|call|callable|check_support.*|classmethod|"
    r"clear_and.*|compat_mode|copyright|cpu|credits|cuda|defaultdict|deepcopy|dir|dumps|eval|exec|exit|ewm|expanding|fork|format|"
    r"formatwarning|from_file|fromfile|fromregex|fromtextfile|getstate|globals|help|hist|hub|id|infer_dtype|info|input|isinstance|"
    r"issubclass|is_dataclass|itemgetter|jiffies|length_hint|license|locals|lookup|lru_cache|measure|memmap|memusage|methodcaller|mps|"
    r"new|new_class|object|open|option_context|partial|partialmethod|plot|prepare_class|print|property|quit|randbytes|reader|repr|"
    r"resolve_bases|rolling|setstate|share_memory_|single.*dispatch.*|slice|source|staticmethod|str|style|super|test|tofile|type|"
    r"update_wrapper|vars|vitals_enabled|wait|whichmodule|wraps|writer|xpu|dump|tofile|cached_property|cache|total_ordering|cmp_to_key|coroutine|"
    r"DynamicClassAttribute|Repr|SimpleNamespace|namedtuple|make_dataclass|field|dataclass|Dialect|register_dialect|reload_library"
)

#: calls that ask for keys, of which leaves of the peer have none
OF_KEYS = frozenset((
    "dict(v)", "dict(**v)", "{**v}", "d.update(v)", "collections.OrderedDict(v)", "collections.UserDict(v)",
    "collections.Counter().update(v)", "s.replace(v)", "pa.Table.from_pydict(v)", "1 in v", "operator.contains(v, 1)",
))  # fmt: skip
#: calls that ask for the shape of the batch
OF_BATCH = frozenset(("torch.numel(v)", "np.ndim(v)", "np.shape(v)"))
COMPARISONS = re.compile(r"^(torch|t)\.(eq|ne|not_equal)\(")

#: calls that are not in the modules above, or of another form
MORE = """
torch.tensor([v, v])
torch.as_tensor([v, v])
torch.asarray([v, v])
torch.as_tensor(v, dtype=torch.float64)
torch.stack([v, v])
torch.cat([v, v])
torch.utils.data.default_collate([v, v])
torch.utils.data.default_convert(v)
torch.nn.utils.rnn.pad_sequence([v, v])
torch.Tensor([v])
t[v]
t[v, ]
t[0:1][v]
t + v
v + t
t @ v
torch.from_dlpack(v)
np.asarray([v, v])
np.array([v, v], dtype=object)
np.asarray(v, dtype=object)
np.asarray(v, dtype=float)
np.array(v, copy=True)
np.stack([v, v])
np.fromiter(v, float)
np.fromiter(v, object)
np.from_dlpack(v)
a[v]
a + v
v + a
np.float64(2) * v
pd.Series([v, v])
pd.DataFrame({'x': v})

pd.Series({'x': v})
s[v]
s.loc[v]
s + v
pa.array([v, v])
pa.table({'x': v})
pa.Table.from_pylist(v)
pa.Table.from_pydict(v)
pa.scalar(v)
dict(v)
dict(**v)
{**v}
[*v]
(lambda *rows: rows)(*v)
list(v)
list(reversed(v))
[v[i] for i in range(len(v))]
len(v)
1 in v
l[v]
l[v:]
l[:] + v
range(v)
1 + v
v + 1
v * l
'%s' % len(v)
'%d' % v
f'{v:d}'
f'{v:.2f}'
'{x}'.format(**v)
bytes(v)
bytearray(v)
memoryview(v)
json.dumps([v])
json.dumps({'x': v})
dict(zip('xy', v))
collections.ChainMap(v)['a']
copy.deepcopy(v)
copy.copy(v)
pickle.loads(pickle.dumps(v))
operator.index(v)

float(v)
int(v)
complex(v)
bool(v)
round(v)
"""


def _modules() -> dict[str, Any]:
    """Return the names of modules in the sources of calls."""
    found: dict[str, Any] = {"np": np, "pd": pd, "pc": importlib.import_module("pyarrow.compute"), "pa": pa}
    for modules, _ in LIBRARIES.values():
        for name in modules.split():
            if name.split(".")[0] not in found and re.fullmatch(r"[a-z][a-z_0-9.]{2,}", name):
                importlib.import_module(name)
                found[name.split(".")[0]] = sys.modules[name.split(".")[0]]
    return found


MODULES = _modules()


def discover(library: str) -> Iterator[str]:
    """Yield a call for each argument of each function of a library that takes some plain content there."""
    modules, arguments = LIBRARIES[library]
    seen: set[int] = set()
    for module in modules.split():
        owner = eval(module, {**MODULES, **{name: make() for name, make in OTHERS.items()}})
        for name in sorted(dir(owner)):
            member = getattr(owner if isinstance(owner, types.ModuleType) else type(owner), name, None)
            source = f"{module}.{name}" if module != "builtins" else name
            if not callable(member) or SKIPPED.fullmatch(name) or keyword.iskeyword(name):
                continue
            if getattr(member, "__module__", None) == "typing":
                continue
            if isinstance(member, type) and issubclass(member, (BaseException, enum.Enum, torch.nn.Module)):
                continue
            if isinstance(owner, types.ModuleType):
                if id(member) in seen:
                    continue
                seen.add(id(member))
            yield from _calls(source, arguments)


PLAIN = tuple(
    VALUES[name].forms
    for name in ("row of a TensorDict", "Text", "row of a Text", "equal Ragged", "row of a Ragged", "row of a Column")
)


def _calls(source: str, arguments: tuple[str, ...]) -> Iterator[str]:
    """Yield a call for each argument with which a function takes plain content."""
    slots = set[int]()
    for given in arguments:
        slot = given.split(", ").index("v")
        if slot in slots or (source.endswith("Tensor") and given != "v"):  # a size: memory that nobody has written
            continue
        taker = Taker(f"{source}({given})")
        if any(_takes(taker, form) for forms in PLAIN for form in forms()):
            slots.add(slot)
            yield taker.source


def _takes(taker: Taker, form: Any) -> bool:
    try:
        taker.answer(form)
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException:
        return False
    return True


# -- the file ---------------------------------------------------------------------------------------------------------


def version(library: str) -> str:
    """Return the version of a library as the file has it."""
    if library == "Python":
        return f"{sys.version_info[0]}.{sys.version_info[1]}"
    return str(importlib.import_module(library).__version__).partition("+")[0]


def row(source: str) -> str:
    """Return the answers of a taker for all values, one character each."""
    taker = Taker(source)
    more = source in MORE.split("\n")
    return "".join(
        judge(taker, value, (source, name) in KNOWN) if more or name not in STORED else " "
        for name, value in VALUES.items()
    )


def recorded() -> dict[str, tuple[str, dict[str, str]]]:
    """Return the version and the answers of each library in the file."""
    sections: dict[str, tuple[str, dict[str, str]]] = {}
    answers: dict[str, str] = {}
    for line in FILE.read_text().splitlines():
        if line.startswith("["):
            library, known = line[1:-1].split()
            answers = {}
            sections[library] = known, answers
        elif line and line[0] not in "#":
            answers[line[len(VALUES) + 1 :]] = line[: len(VALUES)]
    return sections


def differences(library: str, sample: bool = False) -> Iterator[str]:
    """Yield what is not as recorded: of the recorded version every answer, of another one those that are wrong.

    Args:
        library: a section of the file.
        sample: try one call of those that all values answer in the same way.
    """
    known, answers = recorded()[library]
    exact = library == "more" or known == version(library)
    if library == "more":
        yield from sorted(answers.keys() ^ set(calls_of("more")))
    elif sample:
        answers = {source: codes for codes, source in {codes: source for source, codes in answers.items()}.items()}
    for source, expected in answers.items():
        try:
            found = row(source)
        except AttributeError:  # another version has no such function
            if exact:
                raise
            continue
        for name, before, now in zip(VALUES, expected, found, strict=True):
            if now == WRONG or (exact and now != before):
                yield f"{source}, {name}: {before!r} became {now!r}"


def calls_of(library: str) -> Iterator[str]:
    """Yield the calls of a section."""
    return filter(None, MORE.split("\n")) if library == "more" else discover(library)


def _write(libraries: list[str]) -> int:
    """Find the calls, and write their answers, unless one is wrong. Other sections stay as they are."""
    sections = recorded() if FILE.exists() else {}
    wrong: list[str] = []
    for library in libraries:
        answers = {source: row(source) for source in calls_of(library)}
        wrong += [
            f"{source}, {name}"
            for source, codes in answers.items()
            for name, code in zip(VALUES, codes, strict=True)
            if code == WRONG
        ]
        if library != "more":  # what is a TypeError of the library for every value says nothing
            answers = {source: codes for source, codes in answers.items() if codes.strip("t ")}
        sections[library] = "-" if library == "more" else version(library), answers
    print(*wrong, sep="\n")
    if not wrong:
        lines = [f"# {line}" for line in HEAD.splitlines()]
        for library, (known, answers) in sections.items():
            lines += [f"[{library} {known}]", *(f"{codes} {source}" for source, codes in answers.items())]
        FILE.write_text("\n".join(lines) + "\n")
    return bool(wrong)


HEAD = f"""Answers of `python -m tests.takers --write`: a character for each value, and the call.
{RIGHT} right, {STAYS_WRONG} wrong and known; errors: {", ".join(f"{code} {name}" for name, code in CODES.items())},
E another; in lower case if another library raised it; a space is not tried
values: {", ".join(VALUES)}"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sections = ("more", *LIBRARIES)
    parser.add_argument(
        "--write", nargs="*", choices=sections, help="find the calls of the installed libraries, and write"
    )
    options = parser.parse_args()
    with warnings.catch_warnings(), contextlib.chdir(FOLDER.name):
        warnings.simplefilter("ignore")
        if options.write is not None:
            return _write(options.write or list(sections))
        found = [difference for library in sections for difference in differences(library)]
        print(*found, sep="\n")
        return bool(found)


if __name__ == "__main__":
    sys.exit(main())
