"""A disk that fills amid training costs what comes after it, and nothing else."""

import errno
import os

import pytest
from pytorch_lightning import Callback
from training_runs.records.runs import RESERVE, RESERVED, read_record, replace_text


class Full(Callback):
    """What a logger raises when the disk is full."""

    reserved = 0

    def on_train_batch_end(self, trainer, *arguments):
        [place] = [part.folder for part in trainer.callbacks if hasattr(part, "begun")]
        Full.reserved = (place / RESERVE).stat().st_size
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_full_disk_is_one_line_and_leaves_a_record_that_says_failed(train, tmp_path, capsys):
    with pytest.raises(SystemExit):
        train(f"+callbacks.full._target_={__name__}.Full")
    [record] = tmp_path.glob("outputs/**/run.json")
    line = f"{record.parent} cannot be written: No space left on device; the run goes on when it can be"
    told = capsys.readouterr().err
    assert line in told.splitlines()
    assert (read_record(record.parent)["state"], read_record(record.parent)["error"]) == (
        "failed",
        f"DiskError: {line}",
    )
    assert Full.reserved == RESERVED  # there is room for that record, whoever has filled the disk
    hidden = [path.name for path in record.parent.rglob(".*") if path.name != ".hydra"]
    assert hidden == []


def test_run_whose_record_cannot_be_written_either_says_so_in_one_line(train, tmp_path, capsys, monkeypatch):
    def full(path, text):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))

    def at_the_end(*arguments):
        monkeypatch.setattr("training_runs.records.runs.replace_text", full)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), "/somewhere")

    monkeypatch.setattr(Full, "on_train_batch_end", at_the_end)
    with pytest.raises(SystemExit):
        train(f"+callbacks.full._target_={__name__}.Full")
    [record] = tmp_path.glob("outputs/**/run.json")
    assert f"{record} cannot be written: Too many open files; " in capsys.readouterr().err.splitlines()[-1]


def test_file_that_cannot_be_replaced_leaves_no_draft(tmp_path):
    (tmp_path / "name").mkdir()
    with pytest.raises(OSError, match="directory"):
        replace_text(tmp_path / "name", "content")
    assert [path.name for path in tmp_path.iterdir()] == ["name"]
