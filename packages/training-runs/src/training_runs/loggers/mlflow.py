"""MLflow that takes the hyperparameters of a run that goes on."""

from typing import Any

from pytorch_lightning import loggers
from pytorch_lightning.utilities import rank_zero_only


class MLFlowLogger(loggers.MLFlowLogger):
    """Leaves the hyperparameters that its run has as they are: MLflow refuses other values, such as of `max_epochs`."""

    @rank_zero_only
    def log_hyperparams(self, params: dict[str, Any]) -> None:
        had = self.experiment.get_run(self.run_id).data.params
        super().log_hyperparams({name: value for name, value in params.items() if name not in had})
