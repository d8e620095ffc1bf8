"""The training example: the numbers of the plain script, and a run that was stopped goes on as if it had not been."""

from pathlib import Path

import pytest
import torch

from examples import training, training_plain

ROWS = 320


def test_records_train_with_the_numbers_of_the_plain_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = training_plain.train(2, ROWS)
    shown = capsys.readouterr().out
    assert training.train(tmp_path, 2, ROWS) == pytest.approx(plain, rel=1e-6)
    assert capsys.readouterr().out == shown


def test_a_run_goes_on_from_its_checkpoint_with_the_same_numbers(tmp_path: Path) -> None:
    whole = training.train(tmp_path / "whole", 3, ROWS)
    assert whole == training.train(tmp_path / "whole", 3, ROWS)  # nothing is left to do
    first = training.train(tmp_path / "parts", 1, ROWS)
    parts = training.train(tmp_path / "parts", 3, ROWS)
    assert parts[:1] == first
    assert parts == whole
    assert whole[-1] < 0.9 * whole[0]
    ends = [
        training.Checkpoint.load_safetensors(tmp_path / name / "checkpoint.safetensors") for name in ("whole", "parts")
    ]
    assert bool((ends[0] == ends[1]).all())


def test_the_plain_script_reads_the_network_of_a_checkpoint(tmp_path: Path) -> None:
    training.train(tmp_path, 1, ROWS)
    checkpoint = training.Checkpoint.load_safetensors(tmp_path / "checkpoint.safetensors")
    network = training_plain.Network()
    network.load_state_dict(checkpoint.network.to_dict())
    assert torch.equal(network.head.weight, checkpoint.network["head.weight"])


def test_a_damaged_checkpoint_is_an_error_and_no_new_start(tmp_path: Path) -> None:
    training.train(tmp_path, 1, ROWS)
    saved = tmp_path / "checkpoint.safetensors"
    saved.write_bytes(saved.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"checkpoint\.safetensors"):
        training.train(tmp_path, 2, ROWS)
