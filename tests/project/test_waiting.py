import torch
from hydra.utils import instantiate
from pytorch_lightning import Callback
from torch.utils._python_dispatch import TorchDispatchMode


class ReadsBack(TorchDispatchMode):
    """Counts how often a number is fetched from the device, which waits for all that it has still to do."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function is torch.ops.aten._local_scalar_dense.default
        return function(*args, **(kwargs or {}))


def test_training_steps_that_write_nothing_never_wait_for_the_device(compose):
    # Not Adam, which reads its count of steps: that lies in the host's memory, but looks the same from here.
    cfg = compose("trainer.log_every_n_steps=100", "optimizer=sgd")
    quiet = dict.fromkeys(("enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    watch = ReadsBack()

    class Watch(Callback):
        def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
            if batch_idx == 1:
                watch.__enter__()

        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            if batch_idx == 3:
                watch.__exit__(None, None, None)

    limits = {"max_steps": 5, "limit_val_batches": 0}
    trainer = instantiate(cfg.trainer, accelerator="cpu", logger=False, callbacks=[Watch()], **quiet, **limits)
    trainer.fit(instantiate(cfg.model), datamodule=instantiate(cfg.data))
    assert trainer.global_step == 5
    assert watch.count == 0
