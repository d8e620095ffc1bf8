"""Messages between processes that torchrun has started."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("under_torchrun.py")


def test_messages_under_torchrun() -> None:
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(SCRIPT)]
    found = subprocess.run(run, capture_output=True, text=True, timeout=120, cwd=SCRIPT.parents[2])
    assert found.returncode == 0, found.stderr
    assert "received [0.0, 0.0, 0.0] of 0 of 0" in found.stdout
