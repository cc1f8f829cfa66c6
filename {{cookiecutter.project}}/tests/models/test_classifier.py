import pytest
import torch
from hydra.errors import InstantiationException
from pytorch_lightning import Trainer
from training_config.building import instantiate
from training_config.errors import ConfigError


@pytest.fixture
def build(compose):
    """`build(*overrides)`: the model of a config."""
    return lambda *overrides: instantiate(compose(*overrides).model)


@pytest.fixture
def fit(compose):
    """`fit(*overrides)`: the Trainer of a run of two steps that writes nothing."""

    def run(*overrides: str) -> Trainer:
        cfg = compose("trainer.max_epochs=1", *overrides)
        quiet = dict.fromkeys(("enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
        limits = {"limit_train_batches": 2, "limit_val_batches": 1}
        trainer = instantiate(cfg.trainer, accelerator="cpu", logger=False, **quiet, **limits)
        trainer.fit(instantiate(cfg.model), datamodule=instantiate(cfg.data))
        return trainer

    return run


def test_initialization_is_the_one_asked_for(build):
    assert build("model.init=pytorch").net.head.bias.any()
    assert not build("model.init=kaiming_normal").net.head.bias.any()


def test_prediction_is_a_probability_of_each_class(build):
    model = build()
    batch = torch.rand(3, 1, 28, 28), torch.zeros(3, dtype=torch.int64)
    probabilities = model.eval().predict_step(batch, 0)
    assert probabilities.shape == (3, 10)
    assert (probabilities >= 0).all()
    torch.testing.assert_close(probabilities.sum(dim=1), torch.ones(3))


def test_weight_decay_leaves_norms_and_biases_alone_unless_asked(build):
    def decays(*overrides: str) -> list[float]:
        optimizer = build("optimizer=adamw", "optimizer.weight_decay=0.3", *overrides).configure_optimizers()
        return [group["weight_decay"] for group in optimizer.param_groups]

    assert decays() == [0.3, 0.0]
    assert decays("model.decay_norms_and_biases=true") == [0.3]


def test_schedule_learns_the_number_of_optimizer_steps(fit):
    trainer = fit("scheduler=one_cycle", "trainer.max_epochs=3", "trainer.accumulate_grad_batches=2")
    assert trainer.lr_scheduler_configs[0].scheduler.total_steps == 3


def test_schedule_without_an_end_is_refused_with_the_fix(fit):
    with pytest.raises(ConfigError, match=r"set trainer\.max_epochs or trainer\.max_steps, or choose scheduler="):
        fit("scheduler=cosine", "trainer.max_epochs=-1", "+trainer.max_time=00:00:01:00")


def test_metrics_are_named_by_their_split(fit):
    names = fit().callback_metrics.keys()
    assert names == {"train/loss", "train/accuracy", "val/loss", "val/accuracy"}


def test_loss_of_a_step_is_logged_at_the_interval_of_the_trainer(fit):
    assert "train/loss_step" in fit("trainer.log_every_n_steps=2").callback_metrics
    assert "train/loss_step" not in fit("trainer.log_every_n_steps=3").callback_metrics


def test_class_weights_are_a_list_in_the_config_and_a_tensor_on_the_device_of_the_model(build):
    weights = build("+criterion.weight=[2,1,1,1,1,1,1,1,1,0.5]").to("meta").criterion.weight
    assert (weights.dtype, weights.shape, weights.device.type) == (torch.float32, (10,), "meta")


def test_what_a_criterion_takes_is_said_by_the_config(build):
    takes = build("criterion=mse", "model.criterion_takes=[probabilities,indices]").criterion.takes
    assert (takes.scores, takes.targets) == ("probabilities", "indices")


@pytest.mark.parametrize("channels_last", [True, False])
def test_convolutions_lie_in_memory_as_asked(build, channels_last):
    net = build(f"model.channels_last={channels_last}").net
    for features in (net.stage2[0].weight, net.stage2(net.stage1(torch.rand(2, 1, 28, 28)))):
        assert features.is_contiguous(memory_format=torch.channels_last) is channels_last


def test_recomputed_stages_give_the_same_loss_and_gradients_to_the_last_bit_under_the_same_names(build):
    def trained(*stages: str):
        torch.manual_seed(0)
        net = build("model.net.dropout=0.5", f"model.checkpoint_stages=[{','.join(stages)}]").net
        loss = net(torch.rand(4, 1, 28, 28)).square().mean()
        torch.manual_seed(2)  # what happens between forward and backward does not reach the recomputation
        loss.backward()
        return loss, {name: parameter.grad for name, parameter in net.named_parameters()}

    loss, gradients = trained()
    for stages in (["stage1"], ["stage1", "stage2", "stage3"], ["stage2.0"]):
        again, theirs = trained(*stages)
        assert torch.equal(again, loss)
        assert theirs.keys() == gradients.keys()
        assert all(torch.equal(theirs[name], gradients[name]) for name in gradients)


@pytest.mark.parametrize("stage", ["stage4", "''"])
def test_unknown_stage_is_refused_with_those_that_there_are(build, stage):
    with pytest.raises(InstantiationException, match=r"no stage .*; it has stage1, stage2, stage3, head"):
        build(f"model.checkpoint_stages=[{stage}]")


def test_compiled_network_keeps_the_names_of_a_checkpoint(build):
    plain, compiled = build(), build("model.compile=true")
    assert plain.net._compiled_call_impl is None
    assert compiled.net._compiled_call_impl is not None
    assert compiled.state_dict().keys() == plain.state_dict().keys()
