from pytorch_lightning import loggers
from pytorch_lightning.utilities import rank_zero_only
from tensorboard.compat.proto.event_pb2 import Event, SessionLog


class TensorBoardLogger(loggers.TensorBoardLogger):
    """Lightning's, but that a resumed run's curves have each step once."""

    @rank_zero_only
    def rewind(self, step: int) -> None:
        """Have TensorBoard hide what was logged at `step` or later: it will be logged again."""
        if step:
            restart = Event(step=step, session_log=SessionLog(status=SessionLog.START))
            self.experiment.file_writer.add_event(restart)
