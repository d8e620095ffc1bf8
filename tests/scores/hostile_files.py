"""Hostile and unlucky score files: ``python -m tests.scores.hostile_files --all``.

Each format has a small run. One file of it is changed: as bytes (cut off, empty, another encoding, NUL bytes, a byte
order mark, compressed, compressed and cut off), or as JSON: a value gives way to one that no program should write
(numbers of 5,000 digits, NaN, Infinity, deep nesting, half of a surrogate pair, the same key twice, another type), or a
key to another. Then it is read as the command reads it, with its texts. It must end soon, with runs, or with a
:class:`ScoreFileError` that names a file of the run.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import io
import json
import random
import shutil
import sys
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import zstandard

from tensorclass.scores import ScoreFileError, read_runs
from tests.scores.log_samples import LOG_SAMPLES

SECONDS = 10.0  #: of the processor, for one file, in the thread that reads it
DATE = "2026-01-31T10-20-30.123456"
COLUMNS = {"prompt": "id", "accuracy": "right", "group": "level", "text": "question"}

#: what stands in the place of a value
VALUES: Mapping[str, str] = {
    "5,000 digits": "1" * 5000,
    "400 digits": "1" * 400,
    "20 digits": "1" * 20,
    "negative": "-1",
    "half": "0.5",
    "NaN": "NaN",
    "Infinity": "Infinity",
    "-Infinity": "-Infinity",
    "1e999": "1e999",
    "1e308": "1e308",
    "null": "null",
    "true": "true",
    "empty text": '""',
    "text": '"x"',
    "long text": '"' + "y" * 100_000 + '"',
    "NUL": '"\\u0000"',
    "half a pair": '"\\ud800"',
    "raw NUL": '"\0"',
    "escape": '"\\u001b[31m"',
    "digits as text": '"' + "1" * 5000 + '"',
    "inf as text": '"inf"',
    "nan as text": '"nan"',
    "array": "[]",
    "arrays": "[[[]]]",
    "numbers": "[1, 2]",
    "texts": '["a", "b"]',
    "object": "{}",
    "key twice": '{"a": 1, "a": 2}',
    "empty key": '{"": 1}',
    "deep array": "[" * 2000 + "]" * 2000,
    "deep object": '{"a": ' * 2000 + "1" + "}" * 2000,
    "very deep": "[" * 200_000 + "]" * 200_000,
    "no JSON": "nothing",
}
#: what stands in the place of a key
KEYS: Mapping[str, str] = {
    "quote": '"\\""',
    "backslash": '"\\\\"',
    "control": '"\\u0001"',
    "end of line": '"a\\nb"',
    "empty": '""',
    "half a pair": '"\\ud800"',
    "long": '"' + "k" * 10_000 + '"',
    "doc_id": '"doc_id"',
    "filter": '"filter"',
    "prompt_id": '"prompt_id"',
    "class": '"class"',
    "batch_size": '"batch_size"',
    "dunder": '"__class__"',
}
_VALUE, _KEY = "@value@", "@key@"


def _lines(rows: list[Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def _logged(number: int, metrics: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "doc_id": number,
        "doc": {"question": f"question {number}", "subject": "law"},
        "target": "1",
        "arguments": {"gen_args_0": {"arg_0": "question", "arg_1": "a"}},
        "resps": [["response"]],
        "filtered_resps": ["response"],
        "filter": "none",
        "metrics": list(metrics),
        "doc_hash": f"{number:064x}",
        **metrics,
        **more,
    }


def _ifeval(number: int) -> dict[str, Any]:
    types = ["punctuation:no_comma", "keywords:existence"]
    names = [f"{level}_level_{how}_acc" for level in ("prompt", "inst") for how in ("strict", "loose")]
    doc = {"key": number, "prompt": f"prompt {number}", "instruction_id_list": types}
    return _logged(number, {name: [True, True] if name.startswith("inst") else True for name in names}, doc=doc)


def _reference(number: int) -> dict[str, Any]:
    return {
        "follow_all_instructions": True,
        "follow_instruction_list": [True],
        "instruction_id_list": ["punctuation:no_comma"],
        "prompt": f"prompt {number}",
        "response": "response",
    }


def _sample(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "epoch": 1,
        "input": "question",
        "target": "A",
        "output": {"choices": [{"message": {"content": "yes"}}]},
        "scores": {"match": {"value": "C"}, "f1": {"value": 0.5}, "each": {"value": {"a": 1}}},
        "metadata": {"level": "easy"},
    }


_HEADER = {
    "version": 2,
    "status": "success",
    "eval": {"task": "arc", "model": "a/b", "dataset": {"name": "arc"}},
    "results": {"scores": [{"name": "match", "scorer": "match", "metrics": {"accuracy": {"value": 1.0}}}]},
}
_REDUCTIONS = [{"scorer": "f1", "reducer": "max", "samples": [{"sample_id": 1, "value": 0.5}]}]


def _stat(name: str) -> dict[str, Any]:
    return {"name": {"name": name, "split": "test"}, "count": 1, "sum": 1.0, "sum_squared": 1.0, "mean": 1.0}


def _annotation(number: int) -> dict[str, Any]:
    return {
        "instruction": f"instruction {number}",
        "output_1": "short",
        "generator_1": "davinci",
        "dataset": "koala",
        "output_2": "long",
        "generator_2": "model",
        "annotator": "judge",
        "preference": 2.0,
    }


def _detail(number: int) -> dict[str, Any]:
    return {
        "__doc__": {"query": f"question {number}", "id": str(number)},
        "__model_response__": {"text": ["answer"]},
        "__metric__": json.dumps({"em": 1.0}),
    }


_TABLE = [{"id": n, "right": 1, "level": "easy", "question": "what"} for n in (1, 2)]
_PASSED = [{"solution": "s", "base_status": "pass", "plus_status": "pass"}]

#: a run of each format. Content is text, or the members of an archive, or the rows of a Parquet file
SAMPLES: dict[str, Callable[[], dict[str, Any]]] = {
    "lm-eval": lambda: {
        f"m/samples_arc_{DATE}.jsonl": [_logged(n, {"acc": 1.0, "votes": [1, 0]}) for n in range(3)],
        f"m/results_{DATE}.json": {
            "results": {"arc": {"acc,none": 1.0, "acc_stderr,none": 0.0}},
            "n-samples": {"arc": {"original": 3, "effective": 3}},
            "higher_is_better": {"arc": {"acc": True}},
            "group_subtasks": {"all": ["arc"]},
            "configs": {"arc": {"metric_list": [{"metric": "acc", "aggregation": "mean"}]}},
            "config": {"model_args": "pretrained=a/b"},
        },
    },
    "lm-eval, pairs": lambda: {
        f"samples_cola_{DATE}.jsonl": [
            _logged(n, {"mcc": [1, 0], "macro_f1": [1, 1], "perplexity": -1.5}) for n in (1, 2)
        ]
    },
    "lm-eval, array": lambda: {
        "log.json": [{"doc_id": n, "doc": {"q": n}, "filtered_resps": ["a"], "acc": 1} for n in (1, 2)]
    },
    "lm-eval, IFEval": lambda: {f"samples_ifeval_{DATE}.jsonl": [_ifeval(n) for n in range(2)]},
    "reference": lambda: {
        f"m.eval_results_{level}.jsonl": [_reference(n) for n in (1, 2)] for level in ("strict", "loose")
    },
    "inspect": lambda: {
        "a.eval": {
            "header.json": _HEADER,
            "reductions.json": _REDUCTIONS,
            **{f"samples/{n}_epoch_1.json": _sample(n) for n in (1, 2)},
        }
    },
    "inspect, document": lambda: {"a.json": {**_HEADER, "samples": [_sample(n) for n in (1, 2)]}},
    "helm": lambda: {
        "bbq/per_instance_stats.json": [
            {"instance_id": f"id{n}", "train_trial_index": 0, "stats": [_stat("em")]} for n in (1, 2)
        ],
        "bbq/stats.json": [_stat("em")],
        "bbq/run_spec.json": {"name": "bbq:model=a", "adapter_spec": {"model": "a"}},
        "bbq/scenario_state.json": {
            "request_states": [
                {"instance": {"id": "id1"}, "request": {"prompt": "p"}, "result": {"completions": [{"text": "t"}]}}
            ]
        },
    },
    "alpaca_eval": lambda: {
        "annotations.json": [_annotation(n) for n in (1, 2)],
        "leaderboard.csv": ",win_rate,standard_error,length_controlled_winrate\nmodel,100.0,0.0,50.0\n",
    },
    "alpaca_eval, lines": lambda: {"annotations.jsonl": [_annotation(n) for n in (1, 2)]},
    "evalplus": lambda: {
        "x_eval_results.json": {
            "eval": {"HumanEval/0": _PASSED, "HumanEval/1": _PASSED},
            "pass_at_k": {"base": {"pass@1": 1.0}, "plus": {"pass@1": 1.0}},
        }
    },
    "evalplus, old": lambda: {
        "x_eval_results.json": {"eval": {"HumanEval/0": {"base": [["success", [True]]], "plus": [["success", [True]]]}}}
    },
    "human_eval": lambda: {
        "x.jsonl_results.jsonl": [
            {"task_id": f"HumanEval/{n}", "completion": "c", "result": "passed", "passed": True} for n in (1, 2)
        ]
    },
    "lighteval": lambda: {
        f"out/details/a/b/{DATE}/details_arc_{DATE}.parquet": [_detail(n) for n in (1, 2)],
        f"out/results/a/b/results_{DATE}.json": {"results": {"arc": {"em": 1.0, "em_stderr": 0.0}}},
    },
    "table, CSV": lambda: {"t.csv": "id,right,level,question\n1,1,easy,what\n2,0,hard,why\n"},
    "table, lines": lambda: {"t.jsonl": _TABLE},
    "table, array": lambda: {"t.json": _TABLE},
    "table, Parquet": lambda: {"t.parquet": _TABLE},
    **LOG_SAMPLES,
    "zip": lambda: {
        "logs.zip": {"m/tau.json": LOG_SAMPLES["tau_bench"]()["gpt-4o-retail.json"], "m/notes.txt": "no log"}
    },
}


def content(name: str, value: Any, change: Callable[[str], str] = str) -> bytes:
    """Return the bytes of a file.

    Args:
        name: its name, whose suffix says the format.
        value: its content.
        change: a function that changes JSON text.
    """
    if isinstance(value, str):
        return change(value).encode(errors="surrogatepass")
    if name.endswith(".parquet"):
        import pyarrow as pa
        import pyarrow.parquet as pq

        file = io.BytesIO()
        rows = [{key: change(one) if isinstance(one, str) else one for key, one in row.items()} for row in value]
        pq.write_table(pa.Table.from_pylist(rows), file)
        return file.getvalue()
    if name.endswith((".eval", ".zip")):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for member, inner in value.items():
                archive.writestr(member, change(json.dumps(inner)).encode(errors="surrogatepass"))
        return file.getvalue()
    text = _lines(value) if name.endswith(".jsonl") else json.dumps(value)
    return change(text).encode(errors="surrogatepass")


class Case(NamedTuple):
    """A run with one changed file."""

    form: str
    name: str  #: the changed file
    change: str
    content: Callable[[], bytes]
    suffix: str = ""  #: added to the name of the file

    def __str__(self) -> str:
        return f"{self.form}: {self.name}: {self.change}"


def byte_changes(data: bytes, seed: int) -> Iterator[tuple[str, bytes, str]]:
    """Yield changes of the bytes of a file: what they are, the result, and what is added to the file's name."""
    size = len(data)
    draw = random.Random(seed)
    yield "as it is", data, ""
    for share in (0, 1, size // 4, size // 2, size - 2, size - 1):
        yield f"cut at {share} of {size}", data[:share], ""
    yield "byte order mark", b"\xef\xbb\xbf" + data, ""
    yield "NUL bytes", bytes(size), ""
    yield "NUL in front", b"\0" + data, ""
    yield "NUL at the end", data + b"\0" * 100, ""
    yield "Windows ends of lines", data.replace(b"\n", b"\r\n"), ""
    yield "old ends of lines", data.replace(b"\n", b"\r"), ""
    for encoding in ("utf-16", "utf-32", "utf-16-be", "cp037"):
        yield encoding, data.decode("latin-1").encode(encoding), ""
    for _ in range(8):
        at, byte = draw.randrange(size), draw.randrange(256)
        yield f"byte {byte} at {at}", data[:at] + bytes([byte]) + data[at + 1 :], ""
        yield f"latin at {at}", data[:at] + b"\xe9" + data[at:], ""
    for suffix, pack in PACKERS.items():
        packed = pack(data)
        yield f"{suffix}", packed, suffix
        yield f"{suffix}, cut off", packed[: len(packed) * 2 // 3], suffix
        yield f"{suffix}, twice", pack(packed), suffix
        yield f"{suffix}, head alone", packed[:4], suffix
        yield f"{suffix}, damaged", packed[:20] + b"\0\xff\0" + packed[23:], suffix
    yield "not compressed, as named", data, ".gz"


PACKERS: Mapping[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": lambda data: zstandard.compress(data),
}


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where values are, of arrays the first and the last."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _paths(inner, (*path, key))
    elif isinstance(value, list):
        for at in sorted({0, len(value) - 1} if value else ()):
            yield from _paths(value[at], (*path, at))


def _changed(value: Any, path: tuple[Any, ...], key: bool) -> Any:
    """A copy of a value in which a mark stands in the place of an inner value or key."""
    if not path:
        return _VALUE
    first, *rest = path
    if isinstance(value, list):
        return [_changed(one, tuple(rest), key) if at == first else one for at, one in enumerate(value)]
    if key and not rest:
        return {_KEY if name == first else name: one for name, one in value.items()}
    return {name: _changed(one, tuple(rest), key) if name == first else one for name, one in value.items()}


def json_changes(name: str, value: Any) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Yield changes of the JSON in a file."""
    if isinstance(value, str):
        cells = [(row, at) for row, line in enumerate(value.split("\n")) for at in range(line.count(",") + 1) if line]
        for row, at in cells:
            for what, raw in VALUES.items():
                yield f"cell {row}, {at}: {what}", partial(_with_cell, value, row, at, raw)
        return
    for path in _paths(value):
        shown = ".".join(map(str, path))
        if name.endswith((".eval", ".parquet")) and len(path) == 1:
            continue
        for what, raw in VALUES.items():
            if name.endswith(".parquet"):
                yield f"{shown}: {what}", partial(_with_loaded, name, value, path, raw)
            else:
                yield (
                    f"{shown}: {what}",
                    partial(_with_text, name, _changed(value, path, False), f'"{_VALUE}"', raw),
                )
        if isinstance(path[-1], str) and not name.endswith(".parquet"):
            for what, raw in KEYS.items():
                yield (
                    f"{shown}: key {what}, everywhere",
                    partial(_with_text, name, value, json.dumps(path[-1]), raw),
                )
                yield (
                    f"{shown}: key {what}",
                    partial(_with_text, name, _changed(value, path, True), f'"{_KEY}"', raw),
                )


def _with_text(name: str, value: Any, text: str, other: str) -> bytes:
    return content(name, value, lambda found: found.replace(text, other))


def _with_cell(text: str, row: int, at: int, raw: str) -> bytes:
    lines = [line.split(",") for line in text.split("\n")]
    lines[row][at] = raw
    return "\n".join(map(",".join, lines)).encode(errors="surrogatepass")


def _with_loaded(name: str, value: Any, path: tuple[Any, ...], raw: str) -> bytes:
    """A Parquet file, in all rows of which a value is the text that stands for a JSON value."""
    rows = [_changed(row, path[1:], False) for row in value]
    return content(name, json.loads(json.dumps(rows).replace(f'"{_VALUE}"', json.dumps(raw))))


def cases(form: str, seed: int = 0) -> Iterator[Case]:
    """Yield the cases of a format."""
    for name, value in SAMPLES[form]().items():
        for what, data, suffix in byte_changes(content(name, value), seed):
            yield Case(form, name, what, partial(bytes, data), suffix)
        for what, make in json_changes(name, value):
            yield Case(form, name, what, make)


class Outcome(NamedTuple):
    """How reading a case ended."""

    kind: str  #: "read", "refused" or "WRONG"
    says: str
    seconds: float


def outcome_of(case: Case, folder: Path) -> Outcome:
    """Write the files of a case into an empty folder, and read them."""
    paths: list[Path] = []
    for name, value in SAMPLES[case.form]().items():
        changed = name == case.name
        path = folder / (name + case.suffix if changed else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(case.content() if changed else content(name, value))
        paths.append(path)
    start = time.thread_time()
    try:
        runs = read_runs(paths[:1], columns=COLUMNS if case.form.startswith("table") else None)
        for run in runs:
            repr(run.scores.aggregate())
            if run.texts is not None:
                list(run.texts())
    except ScoreFileError as error:
        named = any(error.path.startswith(str(path)) for path in paths)
        kind, says = ("refused" if named and "\n" not in str(error) else "WRONG", str(error))
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)
        ours = next((one for one in reversed(at) if "tensorclass" in one.filename), at[-1])
        says = f"{type(error).__name__} at {Path(ours.filename).name}:{ours.lineno}: {str(error)[:100]!r}"
        kind = "WRONG"
    else:
        kind, says = "read", ""
    seconds = time.thread_time() - start
    return Outcome("WRONG" if seconds > SECONDS else kind, says, seconds)


def search(forms: list[str], every: int, seed: int = 0, only: str = "") -> Iterator[tuple[Case, Outcome]]:
    """Try the cases of formats whose change has a text, one of every so many, and yield how each ended."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        for form in forms:
            for case in cases(form, seed):
                if only not in case.change or (every > 1 and draw.randrange(every)):
                    continue
                folder = Path(name, "files")
                folder.mkdir()
                yield case, outcome_of(case, folder)
                shutil.rmtree(folder)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="all cases; by default one of twenty")
    parser.add_argument("--only", default="", help="formats with this text")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    forms = [form for form in SAMPLES if options.only in form]
    counts: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    slowest = 0.0
    for case, outcome in search(forms, 1 if options.all else 20, options.seed):
        counts[outcome.kind] += 1
        slowest = max(slowest, outcome.seconds)
        if outcome.kind == "WRONG":
            at = outcome.says.partition(": ")[0]
            if not wrong[at]:
                print(f"WRONG {case}: {outcome.says} ({outcome.seconds:.1f} s)", flush=True)
            wrong[at] += 1
    print(f"{counts.total():,} files: {dict(counts)}; the slowest took {slowest:.1f} s; {dict(wrong)}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
