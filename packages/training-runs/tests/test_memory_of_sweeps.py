"""Jobs that run in one process leave nothing of themselves behind."""

import gc
import signal
from collections import Counter
from typing import ClassVar

import pytest
from in_project import own_conftest
from pytorch_lightning import Callback, LightningModule, Trainer


class Census(Callback):
    """Counts in each job what there is of this job and those before it."""

    found: ClassVar[list[Counter]] = []

    def on_fit_start(self, *arguments):
        gc.collect()
        kinds = (Trainer, LightningModule)
        Census.found.append(Counter(kind for each in gc.get_objects() for kind in kinds if isinstance(each, kind)))


@pytest.mark.slow
def test_jobs_of_a_sweep_keep_no_trainer_and_no_network_of_those_before(script, monkeypatch):
    monkeypatch.setattr(Census, "found", [])
    before = signal.getsignal(signal.SIGTERM)
    tiny = (*own_conftest().TINY, "++trainer.limit_train_batches=1", f"+callbacks.census._target_={__name__}.Census")
    script("train.py", "-m", *tiny, "seed=1,2,3,4,5")
    signal.signal(signal.SIGTERM, before)
    # What the process holds anyway, and the job before, which Hydra's own variables still name.
    assert [count[Trainer] for count in Census.found[2:]] == [Census.found[1][Trainer]] * 3
    assert [count[LightningModule] for count in Census.found[2:]] == [Census.found[1][LightningModule]] * 3
