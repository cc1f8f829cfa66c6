import os
import pickle

import pytest
import torch
from training_runs.checkpoints.checkpoint_io import AtomicCheckpointIO
from training_runs.errors import CheckpointError


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "checkpoints" / "last.ckpt"
    AtomicCheckpointIO().save_checkpoint({"step": 1}, path)
    return path


def test_checkpoint_comes_back_and_leaves_no_draft(path):
    assert AtomicCheckpointIO().load_checkpoint(path, weights_only=True) == {"step": 1}
    assert list(path.parent.iterdir()) == [path]


def test_checkpoint_that_cannot_be_written_leaves_the_one_before(path, monkeypatch):
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match=r"last\.ckpt cannot be written: No space left on device; the one before"):
        AtomicCheckpointIO().save_checkpoint({"step": 2}, path)
    assert torch.load(path, weights_only=True) == {"step": 1}
    assert list(path.parent.iterdir()) == [path]


class Code:
    def __reduce__(self):
        return os.mkdir, ("ran",)


@pytest.mark.parametrize("content", [b"", b"PK half a file", pickle.dumps(Code())])
def test_file_that_is_damaged_or_holds_code_is_refused(path, content, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"last\.ckpt is damaged, or more than tensors and plain values"):
        AtomicCheckpointIO().load_checkpoint(path, weights_only=True)
    assert not (tmp_path / "ran").exists()
