"""What every test shares: hypothesis profiles, one torch thread a worker, the order of files, public data."""

import gc
import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

from tests import native_code, scheduling

REPOSITORY = Path(__file__).resolve().parents[1]

# The first example of a property pays for torch's lazy set-up, so no example has a deadline.
_common = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", _common, derandomize=True, print_blob=True)
settings.register_profile("thorough", _common, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_configure(config: pytest.Config) -> None:
    """Forks run the tests; see ``tests/scheduling.py``."""
    scheduling.configure(config)


def pytest_report_header() -> str:
    """Say whether operations run in C++."""
    return native_code.header()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests of operations that have native code run with it and without."""
    native_code.parametrize(metafunc)


@pytest.fixture(scope="module")
def native_mode(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run the tests of a module with native code, or in Python; see ``tests/native_code.py``."""
    with native_code.native_code(request.param == "native"):
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Undo what a test may have done to the process, and collect garbage behind the last test of a file.

    Compiling a distribution makes torch check no arguments of any, in the whole process and for good. What is left of a
    file once its garbage is collected are modules and caches: the collector never looks at them again.
    """
    try:
        return (yield)
    finally:
        torch.distributions.Distribution.set_default_validate_args(True)
        if nextitem is None or nextitem.path != item.path:
            gc.collect()
            gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """The number of workers for this machine."""
    return scheduling.workers()


if find_spec("zarr") is None:  # there is none for Python 3.10

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call() -> Iterator[None]:
        """Skip tests that turn out to need zarr."""
        try:
            return (yield)
        except Exception as error:  # of another process, too
            if "zarr" in f"{error} {error.__cause__}":
                pytest.skip("zarr is not installed")
            raise


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """The garbage collector need not look at modules and tests, which stay: not while they are made, nor later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()
        gc.set_threshold(10_000, 10, 50)  # Python's 700 cost a sixth of the time of tests that compile
        if "torch._dynamo" in sys.modules:
            # otherwise each write to an argument is described, with its stack, for a log that nobody reads
            torch._dynamo.config.side_effect_replay_policy = "silent"


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of public results, `../shared/data` beside the repository; skips where it is absent."""
    folder = Path(os.environ.get("TENSORCLASS_TEST_DATA", REPOSITORY.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no public results at {folder}")
    return folder


@pytest.fixture(scope="session")
def redis_socket() -> Iterator[Path]:
    """The socket of a Redis server, one for each process of tests; skips where there is none."""
    from tests.storage.key_value.servers import redis_server

    with redis_server() as socket:
        yield socket
