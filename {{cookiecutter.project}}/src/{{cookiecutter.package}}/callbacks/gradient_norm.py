from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.strategies import FSDPStrategy, ModelParallelStrategy
from torch.nn.utils import get_total_norm
from torch.optim import Optimizer


class GradientNorm(Callback):
    """Logs `train/gradient_norm` over all parameters, before clipping, at the steps that are logged.

    Where a strategy shards the model it is not logged: every rank sees a part of the gradients.
    """

    def __init__(self, norm_type: float | str) -> None:
        self.norm_type = float(norm_type)

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer) -> None:
        every = trainer.log_every_n_steps
        if not every or (trainer.global_step + 1) % every:
            return
        if isinstance(trainer.strategy, (FSDPStrategy, ModelParallelStrategy)):
            return
        gradients = [parameter.grad for parameter in pl_module.parameters() if parameter.grad is not None]
        norm = get_total_norm(gradients, self.norm_type)
        # Not self.log: that would cost a step as much as a small network, and make a metric of the run of it.
        for logger in trainer.loggers:
            logger.log_metrics({"train/gradient_norm": norm}, step=trainer.global_step)
