import os
import pickle
import shutil
import zipfile

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


def test_one_bit_that_has_changed_anywhere_in_the_values_is_refused(tmp_path):
    path = tmp_path / "last.ckpt"
    AtomicCheckpointIO().save_checkpoint({"weights": torch.arange(300.0), "step": 7}, path)
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as file:
        parts = [(part.header_offset, part.file_size) for part in file.infolist()]
    first, size = max(parts, key=lambda part: part[1])
    for place in range(first + 200, first + size, 97):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(CheckpointError, match=r"last\.ckpt is damaged"):
            AtomicCheckpointIO().load_checkpoint(path, weights_only=True)


def test_checkpoint_of_an_older_torch_without_checksums_is_read(path):
    torch.save({"step": 3}, path, _use_new_zipfile_serialization=False)
    assert AtomicCheckpointIO().load_checkpoint(path, weights_only=True) == {"step": 3}


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


def test_folder_that_somebody_removes_is_not_made_again(tmp_path):
    saving = AtomicCheckpointIO()
    saving.save_checkpoint({"step": 1}, tmp_path / "run" / "checkpoints" / "last.ckpt")
    shutil.rmtree(tmp_path / "run")
    with pytest.raises(CheckpointError, match=r"last\.ckpt cannot be written: No such file"):
        saving.save_checkpoint({"step": 2}, tmp_path / "run" / "checkpoints" / "last.ckpt")
    assert list(tmp_path.iterdir()) == []
