"""What a finding says is next runs as it is typed: in the command or the call that it was found in."""

import pytest
from training_checklist.finding import FAILED, Finding, Fix
from training_checklist.reporting.wording import in_words, without_items
from typed import assert_works, said_in


def finding(*overrides):
    return Finding("a/b", FAILED, "", fix=Fix(overrides=overrides))


@pytest.mark.parametrize(
    ("typed", "override", "then"),
    [
        # What is in no config of the project needs the sign that its user has given it.
        ("+criterion.ignore_index=0", "criterion.ignore_index=-100", "+criterion.ignore_index=-100"),
        ("++trainer.fast_dev_run=2", "trainer.fast_dev_run=false", "++trainer.fast_dev_run=false"),
        ("+trainer.benchmark=true", "~trainer.benchmark", ""),
        ("trainer.log_every_n_steps=3", "~trainer.log_every_n_steps", "~trainer.log_every_n_steps"),
        ("optimizer.lr=3", "optimizer.lr=1", "optimizer.lr=1"),
        ("seed=1", "trainer.benchmark=true", "seed=1 ++trainer.benchmark=true"),
        ("seed=1", "optimizer.eps=1e-8", "seed=1 ++optimizer.eps=1e-8"),
        ("seed=1", "data.batch_size=32", "seed=1 data.batch_size=32"),
        ("seed=1", "checks.distributed.prepare_timeout=60", "seed=1 ++checks.distributed.prepare_timeout=60"),
        ("scheduler=cosine", "scheduler.interval=epoch", "scheduler=cosine scheduler.interval=epoch"),
    ],
)
def test_override_is_spelled_so_that_hydra_takes_it_and_it_arrives(root, typed, override, then):
    said = said_in(root, finding(override), "trace", typed)
    assert said == " ".join(["python train.py +debug=trace", *then.split()])
    assert_works(said, root)


def test_key_that_is_null_in_a_file_is_to_be_taken_out_there(root):
    """Hydra takes it for missing: `~key` is an error."""
    said = said_in(root, finding("~trainer.gradient_clip_val"), "trace")
    assert said == "take trainer.gradient_clip_val out of its file: Hydra deletes no key whose value is null"
    said = said_in(root, finding("~trainer.gradient_clip_val"), "trace", "trainer.gradient_clip_val=1")
    assert said == "python train.py +debug=trace ~trainer.gradient_clip_val"


@pytest.mark.parametrize("override", ["lr_scheduler.interval=epoch", "optimizer.moments=2", "batch_norm.eps=1e-5"])
def test_what_no_part_of_the_config_reads_is_said_in_words(root, override):
    assert said_in(root, finding(override), "trace") == f"{override}, in the code: no key of this config reaches it"


def test_command_of_a_further_rank_is_told_as_it_was_typed():
    launched = ["hydra.run.dir='logs/run'", "hydra.job.name=train_ddp_process_1", "hydra.output_subdir=null"]
    assert without_items(["trainer=cpu", "+checklist=distributed", *launched]) == ["trainer=cpu"]
    assert without_items(["trainer=cpu", "hydra.output_subdir=null"]) == ["trainer=cpu", "hydra.output_subdir=null"]


def test_call_is_given_arguments_of_its_trainer_and_its_settings_and_told_the_rest():
    said = in_words(finding("trainer.gradient_clip_val=null", "optimizer.lr=1e-3"), "overfit", None)
    assert said == (
        "check(module, datamodule, items=['overfit'], trainer={'gradient_clip_val': None}) with optimizer.lr=1e-3 "
        "in the code"
    )
    assert_works(said, None)
