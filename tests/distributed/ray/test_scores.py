"""Score files that are read on a Ray cluster, and by other executors."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tensorclass.cli import main
from tensorclass.distributed import WorkerDied
from tensorclass.scores import ScoreFileError, read_runs
from tensorclass.scores.command import run_files
from tensorclass.scores.readers import parallel
from tests.checks import assert_equal

pytestmark = [pytest.mark.xdist_group("ray")]

EXAMPLE = Path(__file__).parents[3] / "examples" / "score_on_ray.py"


@pytest.fixture
def logs(tmp_path: Path) -> list[Path]:
    paths: list[Path] = []
    for number in range(5):
        rows = [
            {
                "doc_id": row,
                "doc": {"question": f"question {row}"},
                "target": "1",
                "resps": [["answer"]],
                "filtered_resps": ["answer"],
                "filter": "none",
                "metrics": ["exact_match"],
                "doc_hash": f"{row:064x}",
                "exact_match": float(row % (number + 2) == 0),
            }
            for row in range(20)
        ]
        paths.append(tmp_path / f"samples_{number}.jsonl")
        paths[-1].write_text("".join(json.dumps(row) + "\n" for row in rows))
    return paths


def assert_same_runs(found: list[Any], expected: list[Any]) -> None:
    assert [(run.name, run.files, run.format) for run in found] == [
        (run.name, run.files, run.format) for run in expected
    ]
    for one, other in zip(found, expected, strict=True):
        assert_equal(one.scores, other.scores)


@pytest.mark.parametrize("options", [["--json"], ["--compare"]])
def test_the_output_on_a_cluster_is_the_same(
    cluster: Any, logs: list[Path], options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    outputs: list[tuple[str, str]] = []
    for more in ([], ["--ray"]):
        assert main(["scores", *map(str, logs), *options, *more]) == 0
        outputs.append(tuple(capsys.readouterr()))
    assert outputs[0] == outputs[1]
    assert outputs[0][1] == ""


def test_messages_of_ray_do_not_go_to_the_output(
    cluster: Any, logs: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def read(*given: Any, **options: Any) -> Any:
        print("(raylet) A worker died")
        return read_runs(*given, **options)

    monkeypatch.setattr(run_files, "read_runs", read)
    assert main(["scores", *map(str, logs), "--json", "--ray"]) == 0
    output, errors = capsys.readouterr()
    assert len(json.loads(output)["runs"]) == len(logs)
    assert errors == "(raylet) A worker died\n"


def test_files_are_named_from_where_the_command_runs(
    cluster: Any, logs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(logs[0].parent)
    names = [path.name for path in logs]
    assert_same_runs(read_runs(names, executor=cluster), read_runs(names))


def test_threads_read_files_too(logs: list[Path]) -> None:
    with ThreadPoolExecutor(2) as threads:
        assert_same_runs(read_runs(logs, executor=threads), read_runs(logs))


def test_the_first_file_that_cannot_be_read_is_named(
    cluster: Any, logs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    with logs[1].open("a") as file:
        file.write("{")
    errors: list[str] = []
    for more in ([], ["--ray"]):
        assert main(["scores", *map(str, logs), *more]) == 2
        errors.append(capsys.readouterr().err)
    assert errors[0] == errors[1]
    assert "samples_1.jsonl:21" in errors[0]
    logs[3].unlink()
    with pytest.raises(ScoreFileError, match=r"samples_1\.jsonl:21"):
        read_runs(logs, executor=cluster)
    with pytest.raises(ScoreFileError, match=r"samples_3\.jsonl: no such file"):
        read_runs(logs[2:], executor=cluster)


def ends() -> Any:
    os._exit(1)


def test_a_process_that_ends_is_told_with_its_file(cluster: Any) -> None:
    with pytest.raises(WorkerDied, match=r"^some\.jsonl: the process of Ray that read it did not come back"):
        parallel.read_spread([ends], ["some.jsonl"], cluster, keep_going=False)


def test_without_the_extra_it_is_named(
    logs: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["scores", str(logs[0]), "--ray"]) == 2
    error = capsys.readouterr().err
    assert error == "tensorclass scores: --ray needs ray, which is not installed: pip install 'tensorclass[ray]'\n"


def test_the_example_scores_100_files(cluster: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = importlib.util.spec_from_file_location("score_on_ray", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.make_logs(tmp_path)
    example.main(tmp_path)
    first, *best, last = capsys.readouterr().out.splitlines()
    assert first == "100 files"
    assert len(best) == 3
    assert all(int(line.split()[0][-3:]) > 80 for line in best)
    assert int(last.split()[0][-3:]) < 20
    assert cluster.is_initialized()
