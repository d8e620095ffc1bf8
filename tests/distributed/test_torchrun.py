"""Messages between processes that torchrun has started."""

from pathlib import Path

from tests import fresh_python

SCRIPT = Path(__file__).with_name("under_torchrun.py")


def test_messages_under_torchrun() -> None:
    run = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    program = ["--no-python", *fresh_python.command(), str(SCRIPT)]
    found = fresh_python.run(run + program, cwd=SCRIPT.parents[2], check=True)
    assert "received [0.0, 0.0, 0.0] of 0 of 0" in found.stdout
