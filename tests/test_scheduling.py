"""Workers that are forked of one process: every test is reported once, whatever becomes of the processes."""

import re
import textwrap
from pathlib import Path

import pytest

from tests import fresh_python, scheduling

REPOSITORY = Path(__file__).resolve().parents[1]

FILES = {
    "pytest.ini": "[pytest]\n",
    "conftest.py": """
        import tempfile
        from tests import scheduling
        folder = tempfile.TemporaryDirectory(dir=".", prefix="kept-")
        def pytest_configure(config):
            scheduling.configure(config)
        def pytest_unconfigure():
            print("still there:", sorted(path.name for path in __import__("pathlib").Path().glob("kept-*")))
        """,
    "test_crash.py": """
        import os, signal, struct
        def test_before(): pass
        def test_killed(): os.kill(os.getpid(), signal.SIGKILL)
        def test_between(): pass
        def test_ended(): os._exit(3)
        def test_ended_well(): os._exit(0)
        def test_killed_while_it_reports(request):
            pipe = request.config.pluginmanager.getplugin("reporter").reports.fileno()
            os.write(pipe, struct.pack("!i", 1000) + b"the begin of a message")
            os.kill(os.getpid(), signal.SIGKILL)
        def test_last(): pass
        """,
    "test_behind.py": "def test_behind(): pass",
    "test_outcomes.py": r"""
        import pytest, warnings
        @pytest.fixture
        def late():
            yield
            raise ValueError("late")
        def test_wrong(tmp_path):
            print("shown", tmp_path.parent.name)
            assert 0, "not UTF-8: \\udc80"
        @pytest.mark.skip(reason="why")
        def test_skipped(): pass
        def test_warns(): warnings.warn("careful")
        def test_torn_down(late): pass
        """,
    "test_one.py": """
        import os, pathlib, pytest
        pytestmark = pytest.mark.xdist_group("shared")
        def test_one(): pathlib.Path("one").write_text(str(os.getpid()))
        """,
    "test_two.py": """
        import os, pathlib, pytest
        pytestmark = pytest.mark.xdist_group("shared")
        def test_two(): assert pathlib.Path("one").read_text() == str(os.getpid())
        """,
}


def run(folder: Path, *arguments: str, **other: str) -> str:
    """Run the files in a folder; ``other`` has other contents of some, by the stems of their names."""
    for name, source in {**FILES, **{f"{stem}.py": source for stem, source in other.items()}}.items():
        (folder / name).write_text(textwrap.dedent(source))
    command = ["-m", "pytest", "-p", "no:cacheprovider", "-n", "2", "--dist", "loadgroup", *arguments]
    environment = {"PYTHONPATH": str(REPOSITORY), "PATH": ""}
    return fresh_python.run(command, cwd=folder, env=environment, timeout=100).stdout


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    return run(tmp_path_factory.mktemp("run"), "-rA")


def reported(output: str, outcome: str) -> set[str]:
    return set(re.findall(rf"^{outcome} (?:\S+::)(\S+)", output, flags=re.MULTILINE))


def test_every_test_is_reported_with_its_outcome(output: str) -> None:
    passed = {"test_before", "test_between", "test_last", "test_behind", "test_warns", "test_one", "test_two"}
    ended = {"test_killed", "test_ended", "test_ended_well", "test_killed_while_it_reports"}
    assert reported(output, "PASSED") == {*passed, "test_torn_down"}
    assert reported(output, "FAILED") == {*ended, "test_wrong"}
    assert reported(output, "ERROR") == {"test_torn_down"}
    assert "5 failed, 8 passed, 1 skipped, 1 warning, 1 error" in output


@pytest.mark.parametrize("end", ["was killed by SIGKILL", "ended with exit code 3", "ended with exit code 0"])
def test_a_process_that_ends_is_replaced_and_its_test_fails(output: str, end: str) -> None:
    assert re.search(rf"the process of worker \d {end} in this test", output)


def test_a_failure_comes_with_its_output_and_a_folder_of_its_worker(output: str) -> None:
    assert re.search(r"Captured stdout call -+\nshown worker\d-\d+\n", output)
    assert "UserWarning: careful" in output


def test_a_worker_removes_nothing_that_was_made_before_it(output: str) -> None:
    assert "still there: ['kept-" in output


def test_the_run_is_broken_off_where_pytest_says_so(tmp_path: Path) -> None:
    output = run(tmp_path, "-x", "test_outcomes.py", "test_behind.py")
    assert "stopping after 1 failures" in output
    assert "test_warns" not in output


def test_a_stop_that_a_test_asks_for_ends_the_run(tmp_path: Path) -> None:
    stops = """
        def test_stops(request): request.session.shouldstop = "enough"
        def test_not_run(): pass
        """
    output = run(tmp_path, "test_outcomes.py", test_outcomes=stops)
    assert "1 passed" in output
    assert "Interrupted: enough" in output


def test_workers_that_cannot_begin_end_the_run(tmp_path: Path) -> None:
    broken = """
        from tests import scheduling
        def broken(*args): raise OSError("no space left")
        scheduling.Workers._work = broken
        def pytest_configure(config):
            scheduling.configure(config)
        """
    output = run(tmp_path, "test_behind.py", conftest=broken)
    assert "Interrupted: worker 0 ended with exit code 1 before its first test" in output
    assert "failed" not in output


def test_all_reports_are_sent_where_a_file_is_written(tmp_path: Path) -> None:
    run(tmp_path, "--junitxml=report.xml", "test_outcomes.py")
    assert 'errors="1" failures="1" skipped="1" tests="4"' in (tmp_path / "report.xml").read_text()


@pytest.mark.parametrize("busy, expected", [(0.0, 3), (1.9, 3), (2.0, 4), (4.3, 5), (40.0, 5)])
def test_a_busy_machine_gets_more_workers(monkeypatch: pytest.MonkeyPatch, busy: float, expected: int) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.setattr("os.getloadavg", lambda: (busy, 0.0, 0.0))
    assert scheduling.workers() == expected


def test_folders_that_take_long_come_first() -> None:
    ids = ["tests/td/test_keys.py::test_x", "tests/typing/test_corpus.py::test_x[a/b]", "tensorclass/nn/__init__.py::x"]
    assert sorted(ids, key=scheduling.order) == [ids[1], ids[0], ids[2]]
