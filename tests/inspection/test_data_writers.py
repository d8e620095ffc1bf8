"""Writers of ``tensorclass convert``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from tensorclass import TensorDict
from tensorclass.inspection.data_writers import WRITERS


@pytest.mark.parametrize("form,what", [("parquet", "writing Parquet"), ("arrow", "writing Arrow files")])
def test_a_missing_library_is_named_for_what_was_asked(
    form: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pyarrow", "pyarrow.parquet", "pyarrow.ipc"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=f"{what} needs pyarrow"):
        WRITERS[form](TensorDict(a=torch.arange(3)), iter(()), tmp_path / "rows")
