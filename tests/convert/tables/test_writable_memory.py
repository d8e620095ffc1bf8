"""Read-only memory: files that other libraries map."""

from __future__ import annotations

import mmap
import sys
from pathlib import Path

import numpy as np
import pytest

from tensorclass.convert.tables.writable_memory import make_writable
from tests import fresh_python

#: runs in a process of its own, which a write to read-only memory would kill
SCRIPT = """
import numpy as np, pandas as pd, pyarrow as pa, sys
from tensorclass import ConversionError, TensorDict

folder = sys.argv[1]
table = pa.table({"a": np.arange(5000.0), "n": pa.array(range(5000))})
with pa.OSFile(f"{folder}/t.arrow", "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
    writer.write_table(table)
np.save(f"{folder}/a.npy", np.arange(5000.0))
mapped = pa.ipc.open_file(pa.memory_map(f"{folder}/t.arrow")).read_all()
shown = mapped.to_pandas(types_mapper=pd.ArrowDtype)
frame = pd.DataFrame({"a": np.load(f"{folder}/a.npy", mmap_mode="r")}, copy=False)

data = TensorDict.from_arrow(mapped.slice(7), copy=False)
assert data["a"].data_ptr() == mapped["a"].chunk(0).buffers()[1].address + 7 * 8  # and no copy was made
for made in (data, TensorDict.from_pandas(shown, copy=False), TensorDict.from_pandas(frame, copy=None)):
    for value in made.values():
        value.fill_(3)
        assert bool((value == 3).all())
try:
    TensorDict.from_pandas(frame, copy=False)
except ConversionError as error:
    assert "copy=False" in str(error)
else:
    raise AssertionError("what cannot be written to was shared")
again = pa.ipc.open_file(pa.OSFile(f"{folder}/t.arrow")).read_all()
assert again.equals(table) and np.load(f"{folder}/a.npy")[1] == 1
"""


@pytest.mark.skipif(sys.platform == "win32", reason="pages stay for reading alone there")
def test_tensors_of_files_that_are_mapped_can_be_written_to_and_the_file_stays(tmp_path: Path) -> None:
    done = fresh_python.run(["-c", SCRIPT, str(tmp_path)])
    assert done.returncode == 0, done.stderr


def test_memory_that_cannot_be_written_to_is_told(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"x" * mmap.PAGESIZE)
    shared = np.memmap(tmp_path / "bytes", mode="r")
    place = shared.__array_interface__["data"][0]
    assert not make_writable(place, shared.nbytes)
    assert make_writable(np.zeros(3).ctypes.data, 24)
