"""Measurements that need a process of their own: imports, class definitions, memory of an instance, a long score log.

Each is a script, made for a library and run in a fresh interpreter; it prints its figures.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks import scores
from benchmarks.report import Row, ScoreLog

REPOSITORY = Path(__file__).resolve().parents[1]
LIBRARIES = ("tensorclass", "tensordict")

IMPORT = """
import time, torch
start = time.perf_counter()
from {library} import TensorClass, TensorDict, tensorclass
print((time.perf_counter() - start) * 1e6)
"""

DEFINE = """
import statistics, time
from dataclasses import dataclass
import torch
from torch import Tensor
{imports}

def define():
    start = time.perf_counter()
    {decorator}
    class Sample{bases}:
        image: Tensor
        label: Tensor
        weight: Tensor
    return time.perf_counter() - start

for _ in range(20):
    define()
print(statistics.median(define() for _ in range(200)) * 1e6)
"""

MEMORY = """
import gc, tracemalloc
import torch
from torch import Tensor
{imports}

class Record{bases}:
    observation: Tensor
    action: Tensor
    reward: Tensor
    value: Tensor

tensor = torch.zeros(32)

def construct():
    return {construct}

kept = [construct() for _ in range(100)]
gc.collect()
tracemalloc.start()
before = tracemalloc.get_traced_memory()[0]
kept = [None] * 2000
listed = tracemalloc.get_traced_memory()[0] - before
for i in range(len(kept)):
    kept[i] = construct()
gc.collect()
print((tracemalloc.get_traced_memory()[0] - before - listed) / len(kept))
"""

_FIELDS = ("observation", "action", "reward", "value")
_RECORD = f"Record({', '.join(f'{field}=tensor' for field in _FIELDS)}, batch_size=[32])"
_BY_HAND = f"({{{', '.join(f'{field!r}: tensor' for field in _FIELDS)}}}, (tensor.shape[0],))"


@dataclass(frozen=True)
class ProcessWorkload:
    """A script for each side; `hand` is empty where nothing hand-written compares."""

    name: str
    unit: str
    ours: str
    peer: str
    hand: str = ""
    times: int = 3
    summary: Callable[[list[float]], float] = min

    def measure(self, quick: bool = False) -> Row:
        """Runs the scripts in turns, after one run of each that only warms the disk's cache."""
        scripts = [script for script in (self.ours, self.peer, self.hand) if script]
        numbers: list[list[float]] = [[] for _ in scripts]
        for script in scripts:
            _number(script)
        for _ in range(1 if quick else self.times):
            for script, taken in zip(scripts, numbers, strict=True):
                taken.append(_number(script))
        ours, peer, *hand = (self.summary(taken) for taken in numbers)
        return Row(self.name, ours, peer, hand[0] if hand else None, self.unit)


#: compiled modules are kept, as those of an installed package are
_ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def _number(script: str) -> float:
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, env=_ENVIRONMENT
    )
    if done.returncode:
        raise RuntimeError(f"a measurement failed:\n{script}\n{done.stderr}")
    return float(done.stdout)


def _import() -> ProcessWorkload:
    ours, peer = (IMPORT.format(library=library) for library in LIBRARIES)
    return ProcessWorkload("import, over torch's own", "us", ours, peer, times=7, summary=statistics.median)


def _define(name: str, imported: str, decorator: str, bases: str) -> ProcessWorkload:
    ours, peer = (
        DEFINE.format(imports=f"from {library} import {imported}", decorator=decorator, bases=bases)
        for library in LIBRARIES
    )
    hand = DEFINE.format(imports="", decorator="@dataclass", bases="")
    return ProcessWorkload(name, "us", ours, peer, hand)


def _memory() -> ProcessWorkload:
    ours, peer = (
        MEMORY.format(imports=f"from {library} import TensorClass", bases="(TensorClass)", construct=_RECORD)
        for library in LIBRARIES
    )
    hand = MEMORY.format(imports="", bases="", construct=_BY_HAND)
    return ProcessWorkload("memory of a record, without its tensors", "B", ours, peer, hand, times=1)


PROCESS_WORKLOADS = (
    _import(),
    _define("define a class of three fields (subclass)", "TensorClass", "", "(TensorClass)"),
    _define("define a class of three fields (decorated)", "tensorclass", "@tensorclass", ""),
    _memory(),
)

SCORE_LOG = "score log"
"""The name by which a filter finds it."""


def measure_score_log(rows: int = 200_000, shape: str = "choice") -> ScoreLog:
    """Writes a sample log of `rows` rows and aggregates it; beside it, pandas reads it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "samples.jsonl")
        scores.write_log(path, rows, shape)
        path.read_bytes()  # so that both find it in the system's cache
        programs = {"ours": scores.OURS, "pandas": scores.PANDAS.format(metrics=scores.SHAPES[shape][1])}
        found = scores.measure({name: scores.PROCESS.format(code=code) for name, code in programs.items()}, path)
    ours, pandas = found["ours"], found["pandas"]
    return ScoreLog(rows, ours["seconds"], ours["megabytes"], pandas["seconds"], pandas["megabytes"])
