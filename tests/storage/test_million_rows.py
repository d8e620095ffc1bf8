"""The example of a data set on disk, with fewer rows."""

from pathlib import Path

from tensorclass import TensorDict
from tests import fresh_python

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "million_rows.py"


def test_the_example_writes_and_reads_all_rows(tmp_path: Path) -> None:
    done = fresh_python.run([str(EXAMPLE), "50001", str(tmp_path)], check=True)
    assert done.stdout.startswith("50,001 rows: written in")
    data = TensorDict.load_memmap(tmp_path / "samples")
    assert data["label"].tolist() == list(range(50001))
    assert data["image"][:, 3].tolist() == [row % 256 for row in range(50001)]
