"""A metrics.csv that a resumed run goes on with."""

import csv
import io
from pathlib import Path

from pytorch_lightning.loggers import csv_logs
from pytorch_lightning.loggers.logger import rank_zero_experiment
from pytorch_lightning.utilities import rank_zero_only

from training_runs.records.curves import read_rows
from training_runs.records.runs import replace_text


class CSVLogger(csv_logs.CSVLogger):
    """Lightning's, but for what lies there already: it stays until `rewind`, and is never half rewritten."""

    @property
    @rank_zero_experiment
    def experiment(self) -> "Writer":
        if self._experiment is None:
            Path(self.root_dir).mkdir(parents=True, exist_ok=True)
            self._experiment = Writer(log_dir=self.log_dir)
        return self._experiment

    @rank_zero_only
    def rewind(self, step: int) -> None:
        """Forget what was logged at `step` or later: it will be logged again."""
        self.experiment.rewind(step)


class Writer(csv_logs.ExperimentWriter):
    def _check_log_dir_exists(self) -> None:  # Lightning's deletes the file
        self.metrics_keys = list(next(iter(read_rows(Path(self.metrics_file_path))), ()))

    def rewind(self, step: int) -> None:
        path = Path(self.metrics_file_path)
        if not path.is_file():
            return
        rows = [row for row in read_rows(path) if int(row["step"]) < step]
        self.metrics_keys = [key for key in self.metrics_keys if any(row[key] for row in rows)]
        if rows:
            self._replace(rows)
        else:
            path.unlink()

    def _rewrite_with_new_header(self, fieldnames: list[str]) -> None:
        self._replace(read_rows(Path(self.metrics_file_path)))

    def _replace(self, rows: list[dict[str, str]]) -> None:
        content = io.StringIO(newline="")
        writer = csv.DictWriter(content, fieldnames=self.metrics_keys, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
        replace_text(Path(self.metrics_file_path), content.getvalue())
