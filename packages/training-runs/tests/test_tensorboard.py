"""Event files of a run, read back as TensorBoard reads them."""

from pathlib import Path

import pytest
import torch
from tensorboard import context
from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins import base_plugin
from tensorboard.plugins.hparams import backend_context, metadata
from torch import nn
from training_runs.loggers import TensorBoardLogger
from training_runs.records.runs import read_record


def read(folder: Path) -> EventAccumulator:
    return EventAccumulator(str(folder), size_guidance={"images": 0}).Reload()


@pytest.fixture(scope="module")
def board(shown):
    """`board(part)`: what TensorBoard has of a part of the run."""
    return lambda part="": read(shown / "tensorboard" / part)


def test_train_val_and_test_are_in_the_same_charts(board):
    for part in ("train", "val", "test", "best"):
        assert {"loss", "accuracy"} <= set(board(part).Tags()["scalars"])


def test_train_and_val_have_a_point_for_each_epoch(board):
    for part in ("train", "val"):
        assert [event.step for event in board(part).Scalars("loss")] == [5, 11]


def test_learning_rate_gradient_norm_and_throughput_have_a_point_at_every_logged_step(board):
    assert all(event.value == pytest.approx(0.002) for event in board().Scalars("lr-Adam/pg1"))
    for tag in ("gradient_norm", "samples_per_second", "data_wait"):
        events = board("train").Scalars(tag)
        assert [event.step for event in events] == [2, 5, 8, 11]
        assert all(event.value > 0 for event in events)
    assert all(event.value < 1 for event in board("train").Scalars("data_wait"))


def test_hyperparameters_are_those_of_the_run(board):
    content = board().SummaryMetadata(metadata.SESSION_START_INFO_TAG).plugin_data.content
    values = metadata.parse_session_start_info_plugin_data(content).hparams
    assert values["optimizer.lr"].number_value == 0.002
    assert values["model.net._target_"].string_value.endswith("CNN")
    assert metadata.SESSION_END_INFO_TAG in board().summary_metadata


def test_hyperparameters_leave_out_where_the_run_lies(board, shown):
    content = board().SummaryMetadata(metadata.SESSION_START_INFO_TAG).plugin_data.content
    values = metadata.parse_session_start_info_plugin_data(content).hparams.values()
    assert not any(str(shown) in value.string_value for value in values)


def test_what_differs_between_runs_is_the_first_column_of_their_table_each_value_once(train, tmp_path):
    for rate in ("0.1", "0.2"):
        train("logger=[tensorboard,csv]", f"optimizer.lr={rate}", f"seed={rate[-1]}")
    runs = plugin_event_multiplexer.EventMultiplexer().AddRunsFromDirectory(str(tmp_path / "outputs"))
    runs.Reload()
    provider = data_provider.MultiplexerDataProvider(runs, str(tmp_path))
    table = backend_context.Context(base_plugin.TBContext(data_provider=provider, multiplexer=runs))
    request = context.RequestContext()
    logged = table.hparams_metadata(request, "")
    columns = table.experiment_from_metadata(request, "", False, logged, []).hparam_infos
    assert [column.name for column in columns if column.differs] == ["optimizer.lr", "seed"]
    assert [column.name for column in columns][:2] == ["optimizer.lr", "seed"]


def test_last_values_are_the_final_metrics_of_the_run(board, shown):
    metrics = read_record(shown)["metrics"]
    for split, part in (("train", "train"), ("val", "best"), ("test", "test")):
        for name in ("loss", "accuracy"):
            assert board(part).Scalars(name)[-1].value == pytest.approx(metrics[f"{split}/{name}"])


def test_confusion_matrix_and_worst_mistakes_are_images(board, shown):
    tags = board().Tags()["images"]
    assert {"test/confusion_matrix", "test/worst_mistakes"} <= set(tags)
    for tag in tags:
        [image] = board().Images(tag)
        assert image.encoded_image_string == (shown / "figures" / f"{tag.partition('/')[2]}.png").read_bytes()


def test_graph_names_the_layers_of_the_network(board):
    nodes = " ".join(node.name for node in board().Graph().node)
    for layer in ("stage1", "stage2", "stage3", "head"):
        assert layer in nodes


def test_compiled_network_has_no_graph(tmp_path):
    network = nn.Linear(1, 1)
    network.compile()
    logger = TensorBoardLogger(save_dir=tmp_path, name="", version="")
    logger.log_graph(network, torch.zeros(1, 1))
    logger.finalize("success")
    assert not read(tmp_path).Tags()["graph"]


class Branching(nn.Module):
    def forward(self, images):
        raise NotImplementedError("no tracing here\nat all")


def test_network_that_cannot_be_traced_has_no_graph_and_says_so(tmp_path):
    logger = TensorBoardLogger(save_dir=tmp_path, name="", version="")
    with pytest.warns(UserWarning, match="no graph: NotImplementedError: no tracing here$"):
        logger.log_graph(Branching(), torch.zeros(1))
    logger.finalize("success")


def test_run_that_goes_on_from_its_start_has_every_point_once(tmp_path):
    for _ in ("killed before its second checkpoint", "resumed"):
        logger = TensorBoardLogger(save_dir=tmp_path, name="", version="")
        logger.log_hyperparams({"lr": 0.1})
        logger.rewind(0)
        for step in range(3):
            logger.log_metrics({"train/loss": 1.0, "lr": 0.5}, step)
        logger.finalize("success")
    for part, tag in (("train", "loss"), ("", "lr")):
        assert [event.step for event in read(tmp_path / part).Scalars(tag)] == [0, 1, 2]
