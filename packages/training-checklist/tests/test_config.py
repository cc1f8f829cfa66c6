"""A small project, healthy as it stands, gets one fault at a time; the config item must name it, its file and line."""

import re

import pytest
from own_project import run_project
from training_config import building, provenance

PARTS = """
import pytorch_lightning as pl
import torch


class Net(torch.nn.Module):
    def __init__(self, width=16, dropout=0.1, betas=(0.9, 0.99), bias=True):
        super().__init__()


class Lit(pl.LightningModule):
    def __init__(self, net: torch.nn.Module, optimizer, name: str = "lit", steps: int | None = None):
        super().__init__()
        self.make_optimizer = optimizer

    def training_step(self, batch, batch_idx):
        self.log("train/loss", batch.sum())

    def validation_step(self, batch, batch_idx):
        for split in ("val",):
            self.log(f"{split}/loss", batch.sum())

    def configure_optimizers(self):
        return self.make_optimizer(params=self.parameters())


class Data(pl.LightningDataModule):
    def __init__(self, batch_size=32, num_workers=0):
        super().__init__()
        self.batch_size = batch_size

    def prepare_data(self):
        raise AssertionError("data were prepared")
"""
TRAIN = """
import hydra
import pytorch_lightning as pl
from hydra.utils import instantiate


@hydra.main(version_base="1.3", config_path="conf", config_name="train")
def main(cfg):
    pl.seed_everything(cfg.seed)
    callbacks = [instantiate(part) for part in cfg.callbacks.values()]
    trainer = pl.Trainer(**cfg.trainer, callbacks=callbacks, logger=False)
    trainer.fit(instantiate(cfg.model), instantiate(cfg.data))
    return trainer.callback_metrics["val/loss"]


if __name__ == "__main__":
    main()
"""
FILES = {
    "parts.py": PARTS,
    "train.py": TRAIN,
    "conf/train.yaml": """defaults:
  - data: digits
  - model: cnn
  - optimizer: adamw
  - callbacks: default
  - experiment: null
  - debug: null
  - _self_

seed: 1
trainer:
  max_epochs: 3
  accelerator: cpu
""",
    "conf/data/digits.yaml": "_target_: parts.Data\nbatch_size: 64\n",
    "conf/model/cnn.yaml": "_target_: parts.Lit\nnet:\n  _target_: parts.Net\n  width: 8\noptimizer: ${optimizer}\n",
    "conf/model/wide.yaml": "_target_: parts.Lit\nnet:\n  _target_: parts.Net\n  width: 64\noptimizer: ${optimizer}\n",
    "conf/optimizer/adamw.yaml": "_target_: torch.optim.AdamW\n_partial_: true\nlr: 1e-3\n",
    "conf/callbacks/default.yaml": """checkpoint:
  _target_: pytorch_lightning.callbacks.ModelCheckpoint
  monitor: val/loss
  dirpath: ${hydra:runtime.output_dir}/checkpoints
""",
    "conf/experiment/base.yaml": "# @package _global_\ndata:\n  batch_size: 128\noptimizer:\n  lr: 0.002\n",
}


@pytest.fixture
def judge(tmp_path):
    """`judge(*overrides, files=...)`: the config item's verdict on the project, with some files written anew."""

    def run(*overrides: str, files: dict[str, str] | None = None) -> dict:
        [item] = run_project(tmp_path, "config", FILES | (files or {}), "hydra.run.dir=run", *overrides)
        return item

    return run


def finding(item: dict) -> dict:
    [only] = item["findings"]
    return only


def test_call_in_another_program_beside_this_one_says_nothing_of_the_config(judge):
    other = TRAIN.replace("pl.Trainer(**cfg.trainer", "pl.Trainer(**cfg.shown")
    shown = FILES["conf/train.yaml"] + "shown:\n  colour: red\n"
    assert judge(files={"old_train.py": other, "conf/train.yaml": shown})["verdict"] == "passed"


@pytest.mark.parametrize("is_last", [True, False])
def test_option_beaten_by_what_its_own_defaults_list_names_after_self(judge, is_last):
    defaults = ["digits", "_self_"] if is_last else ["_self_", "digits"]
    text = f"defaults: [{', '.join(defaults)}]\nbatch_size: 16\n"
    item = judge("data=small", files={"conf/data/small.yaml": text})
    if is_last:
        assert item["findings"] == []
    else:
        assert finding(item)["fix"].endswith(
            "for good: put _self_ at the end of the defaults list in conf/data/small.yaml"
        )


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["experiment=base", "data.batch_size=8", "~callbacks.checkpoint", "+callbacks={}"],
        ["experiment=base", "+model.net.betas=[0.5,0.9]"],
        ["model=wide", "optimizer._target_=torch.optim.Adam", "optimizer.lr=3e-3", "+model.name='1e5'", "++seed=2"],
        ["trainer.max_epochs=1", "+trainer.limit_train_batches=0.5", "+trainer.devices='1'", "~callbacks.checkpoint"],
        ["callbacks.checkpoint.monitor=val/loss_epoch", "+callbacks.checkpoint.filename='{epoch}'"],
        ["+callbacks.checkpoint.save_last=link", "+trainer.precision='32'"],
        ["callbacks.checkpoint.monitor=step", "+callbacks.checkpoint.mode=max"],
    ],
)
def test_healthy_config_passes(judge, overrides):
    item = judge(*overrides)
    assert item["findings"] == []
    assert re.search("; [45] _target_s take their arguments$", item["seen"])


def test_every_setting_of_a_key_is_told_with_file_and_line(judge, capfd):
    item = judge("experiment=base", "optimizer.lr=0.1")
    told = "data.batch_size = 128  conf/experiment/base.yaml:3  (over conf/data/digits.yaml:2 = 64)"
    assert told in capfd.readouterr().out
    lr = [(setting["value"], setting["where"]) for setting in item["facts"]["set"]["optimizer.lr"]]
    assert lr == [
        (0.001, "conf/optimizer/adamw.yaml:3"),
        (0.002, "conf/experiment/base.yaml:5"),
        (0.1, "command line"),
    ]


def test_option_of_a_folder_further_up_is_told_with_its_file(judge, tmp_path):
    judge("data=nested", files={"conf/data/nested.yaml": "defaults: [{part: ../digits}, _self_]\n"})
    told = (tmp_path / "run" / "debug" / "config.txt").read_text()
    assert "data.part.batch_size = 64  conf/data/digits.yaml:2" in told


def test_all_shows_keys_that_were_set_once(judge, capfd):
    judge("+checks.config.all=true")
    assert "seed = 1  conf/train.yaml:10" in capfd.readouterr().out


def test_file_with_all_keys_is_always_written(judge, tmp_path):
    judge()
    assert "seed = 1  conf/train.yaml:10\n" in (tmp_path / "run" / "debug" / "config.txt").read_text()


def test_chosen_experiment_beaten_by_the_main_file_fails(judge):
    beaten = FILES["conf/train.yaml"] + "data:\n  batch_size: 16\n"
    found = finding(judge("experiment=base", files={"conf/train.yaml": beaten}))
    assert found["what"] == "data.batch_size is 16, not 128 as experiment=base says"
    beats = "conf/train.yaml:15 beats 128 of conf/experiment/base.yaml:3 and 64 of conf/data/digits.yaml:2"
    assert found["where"] == f"data.batch_size ({beats})"
    assert found["fix"].startswith("python train.py debug=config experiment=base data.batch_size=128;")


def test_chosen_experiment_listed_before_the_groups_fails(judge):
    moved = FILES["conf/train.yaml"].replace("  - experiment: null\n", "")
    moved = moved.replace("defaults:\n", "defaults:\n  - experiment: null\n")
    findings = judge("experiment=base", files={"conf/train.yaml": moved})["findings"]
    assert [found["what"].split(" ")[0] for found in findings] == ["data.batch_size", "optimizer.lr"]
    assert "put experiment below data in the defaults list of conf/train.yaml" in findings[0]["fix"]


def test_chosen_option_beaten_by_the_main_file_fails(judge):
    beaten = FILES["conf/train.yaml"] + "model:\n  net:\n    width: 4\n"
    found = finding(judge("model=wide", files={"conf/train.yaml": beaten}))
    assert found["what"] == "model.net.width is 4, not 64 as model=wide says"


def test_main_file_beaten_by_an_option_that_nobody_chose_warns(judge):
    first = FILES["conf/train.yaml"].replace("  - _self_\n", "").replace("defaults:\n", "defaults:\n  - _self_\n")
    item = judge(files={"conf/train.yaml": first + "data:\n  batch_size: 16\n"})
    assert item["verdict"] == "warning"
    assert finding(item)["what"] == "data.batch_size is 64, not 16 as conf/train.yaml says"
    assert finding(item)["where"] == "data.batch_size (conf/data/digits.yaml:2, over conf/train.yaml:15)"


def test_unchosen_option_tuned_by_the_main_file_passes(judge):
    tuned = FILES["conf/train.yaml"] + "model:\n  net:\n    width: 4\n"
    assert judge(files={"conf/train.yaml": tuned})["verdict"] == "passed"


def test_experiment_without_global_package_fails(judge):
    nested = FILES["conf/experiment/base.yaml"].replace("# @package _global_\n", "")
    found = finding(judge("experiment=base", files={"conf/experiment/base.yaml": nested}))
    assert found["what"].startswith("data.batch_size, optimizer.lr of experiment=base land in experiment.*")
    assert "# @package _global_" in found["fix"]


def test_every_target_fault_is_told_at_once(judge):
    assert building.instantiate  # it is loaded in every project of the template, and gives no argument of its own
    item = judge(
        "model._target_=parts.Litt",
        "+model.net.widht=3",
        "data._target_=part.Data",
        "optimizer._partial_=false",
        "callbacks.checkpoint._target_=torch.__version__",
    )
    told = "\n".join(found["what"] for found in item["findings"])
    assert "model._target_=parts.Litt cannot be imported: parts has no 'Litt'; did you mean Lit?" in told
    assert "model.net.widht=3 is no argument of parts.Net; did you mean width?" in told
    assert "data._target_=part.Data cannot be imported: there is no module 'part'" in told
    assert "optimizer lacks params of torch.optim.AdamW" in told
    assert "callbacks.checkpoint._target_=torch.__version__ is a TorchVersion, nothing to call" in told
    assert len(item["findings"]) == 5


def test_unknown_argument_of_the_trainer_fails(judge):
    assert finding(judge("+trainer.max_epoch=3"))["what"].startswith("trainer.max_epoch=3 is no argument of pl.Trainer")


def test_text_in_the_place_of_a_value_fails(judge):
    wanted = {
        "optimizer.lr='1e-3'": ("a number", "optimizer.lr=1e-3"),
        "+optimizer.weight_decay='0.01'": ("a number", "optimizer.weight_decay=0.01"),
        "model.net.width='64'": ("a number", "model.net.width=64"),
        "+model.net.betas='(0.9, 0.99)'": ("a list", "model.net.betas=[0.9, 0.99]"),
        "+model.net.bias=no": ("true or false", "model.net.bias=false"),
        "+model.steps=None": ("null", "model.steps=null"),
        "trainer.max_epochs='3'": ("a number", "trainer.max_epochs=3"),
    }
    findings = judge(*wanted)["findings"]
    assert len(findings) == len(wanted)
    for kind, fix in wanted.values():
        assert any(found["what"].endswith(f"not {kind}") and fix in found["fix"] for found in findings), fix


@pytest.mark.parametrize(("read", "told"), [("strip('()').split(',')", 0), ("strip(' ')", 1)])
def test_text_of_a_list_that_the_code_takes_apart_is_meant(judge, read, told):
    line = f"import torch; torch.nn.Identity().eval(); print(cfg.model.net.betas.{read})"
    code = TRAIN.replace("def main(cfg):", f"def main(cfg):\n    {line}")
    found = judge("+model.net.betas='(0.9, 0.99)'", files={"train.py": code})["findings"]
    assert [each["rule"] for each in found] == ["config/text-for-value"] * told


def test_quoted_number_is_told_where_it_was_written(judge):
    quoted = FILES["conf/optimizer/adamw.yaml"].replace("1e-3", "'1e-3'")
    found = finding(judge(files={"conf/optimizer/adamw.yaml": quoted}))
    assert found["where"] == "optimizer.lr (conf/optimizer/adamw.yaml:3)"


def test_text_that_a_literal_does_not_list_fails(judge):
    found = finding(judge("+callbacks.checkpoint.save_last='False'"))
    assert found["what"] == "callbacks.checkpoint.save_last is the text 'False', not true or false"


def test_number_read_through_an_interpolation_is_told_at_its_source(judge):
    files = {
        "conf/train.yaml": FILES["conf/train.yaml"] + "rate: '1e-3'\n",
        "conf/optimizer/adamw.yaml": FILES["conf/optimizer/adamw.yaml"].replace("1e-3", "${rate}"),
    }
    assert finding(judge(files=files))["where"] == "rate (conf/train.yaml:14)"


def test_missing_value_fails_with_the_default_to_give(judge):
    found = finding(judge("data.batch_size=???"))
    assert found["what"] == "data.batch_size is ???: nothing has given it a value"
    assert found["fix"].startswith("python train.py debug=config data.batch_size=32; ")


def test_interpolation_that_leads_nowhere_fails_with_the_nearest_key(judge):
    found = finding(judge("model.optimizer=${optimzer}"))
    assert found["what"].startswith("model.optimizer=${optimzer} does not resolve")
    assert "${optimizer}" in found["fix"]


def test_monitor_that_nothing_logs_fails_with_what_is_logged(judge):
    found = finding(judge("callbacks.checkpoint.monitor=valid/accuracy", "+callbacks.checkpoint.mode=max"))
    assert found["what"].startswith("callbacks.checkpoint.monitor is valid/accuracy, which nothing logs")
    assert found["where"] == "callbacks.checkpoint.monitor (command line, over conf/callbacks/default.yaml:3)"


@pytest.mark.parametrize(
    ("monitor", "mode", "better"), [("val/loss", "max", "min"), ("val/acc", "min", "max"), ("val/f1", "min", "max")]
)
def test_mode_that_takes_the_worst_for_the_best_fails(judge, monitor, mode, better):
    code = PARTS.replace('"train/loss"', '"val/acc"').replace(
        '("val",)', '("val",):\n            self.log("val/f1", 0.0)\n        for split in ("val",)'
    )
    chosen = [f"callbacks.checkpoint.monitor={monitor}", f"+callbacks.checkpoint.mode={mode}"]
    found = finding(judge(*chosen, files={"parts.py": code}))
    assert found["what"].startswith(f"callbacks.checkpoint.mode is {mode}, but more of {monitor} is ")
    assert found["where"].startswith("callbacks.checkpoint.mode (command line")
    assert f"callbacks.checkpoint.mode={better}" in found["fix"]


def test_mode_that_is_left_at_its_default_counts_too(judge):
    code = PARTS.replace('"train/loss"', '"val/acc"')
    found = finding(judge("callbacks.checkpoint.monitor=val/acc", files={"parts.py": code}))
    assert found["fix"].endswith("+callbacks.checkpoint.mode=max")


def test_misspelt_argument_that_kwargs_takes_is_named(judge):
    code = PARTS.replace("bias=True):", "bias=True, **options):")
    found = finding(judge("+model.net.droput=0.5", "+model.net.note=3", files={"parts.py": code}))
    assert found["what"] == "model.net.droput=0.5 is no parameter of parts.Net; did you mean dropout?"
    assert found["where"] == "model.net.droput (command line)"


def test_name_that_stands_beside_another_is_no_misspelling_of_it(judge):
    code = PARTS.replace("bias=True):", "bias=True, **options):")
    assert judge("+model.net.droput=0.5", "++model.net.dropout=0.1", files={"parts.py": code})["findings"] == []


def test_key_that_is_no_name_is_read_as_a_text(judge):
    code = TRAIN.replace("    trainer = ", "    quiet = not cfg.get('write-notes')\n    trainer = ")
    assert judge("+write-notes=false", files={"train.py": code})["findings"] == []


def test_key_that_is_no_name_and_that_nothing_reads_fails(judge):
    assert finding(judge("+write-notes=false"))["what"].startswith("nothing reads write-notes")


def test_added_key_that_nothing_reads_fails(judge):
    assert finding(judge("+learning_rate=0.1"))["what"].startswith("nothing reads learning_rate")


@pytest.mark.parametrize("reader", ["conf/callbacks/named.yaml", "conf/other.yaml", None])
def test_key_that_an_option_reads_which_is_not_chosen_now_is_in_use(judge, reader):
    files = {"conf/train.yaml": FILES["conf/train.yaml"] + "run_name: digits\n"}
    if reader is not None:
        files[reader] = "checkpoint:\n  filename: ${run_name}-{epoch}\n"
    assert len(judge(files=files)["findings"]) == (reader is None)


def test_misspelt_key_of_a_file_fails_with_the_meant_one(judge):
    misspelt = FILES["conf/experiment/base.yaml"] + "trainr:\n  max_epochs: 9\n"
    found = finding(judge("experiment=base", files={"conf/experiment/base.yaml": misspelt}))
    assert found["what"].endswith("did you mean trainer?")
    assert "conf/experiment/base.yaml:7" in found["where"]


def test_value_that_the_code_supplies_is_no_fault(judge):
    code = TRAIN.replace("instantiate(cfg.model)", "instantiate(cfg.model, name='x')")
    code = code.replace("    pl.seed", "    cfg.data.batch_size = 8\n    pl.seed")
    item = judge("+model.name=???", "data.batch_size=???", files={"train.py": code})
    assert item["findings"] == []


@pytest.mark.parametrize(
    ("adds", "found"),
    [("OmegaConf.update(cfg, 'classes', 10, force_add=True)", []), ("pass", ["config/unresolved-interpolation"])],
)
def test_key_that_the_program_adds_before_it_is_read_is_there(judge, adds, found):
    code = TRAIN.replace("    pl.seed", f"    {adds}\n    pl.seed", 1)
    code = code.replace("import hydra\n", "import hydra\nfrom omegaconf import OmegaConf\n", 1)
    item = judge("model.net.width=${classes}", files={"train.py": code})
    assert [each["rule"] for each in item["findings"]] == found
    assert item["verdict"] == ("failed" if found else "passed")


FITTING = """
def fitted(node):
    takes = inspect.signature(locate(node["_target_"])).parameters
    return {key: each for key, each in node.items() if key in takes or key.startswith("_")}


@hydra.main"""


@pytest.mark.parametrize("fits", [True, False])
def test_key_that_the_program_leaves_out_of_what_it_builds_is_no_fault(judge, fits):
    code = TRAIN.replace("@hydra.main", FITTING, 1) if fits else TRAIN
    code = code.replace("import hydra\n", "import inspect\nfrom pydoc import locate\n\nimport hydra\n", 1)
    code = code.replace("instantiate(cfg.model)", "instantiate(fitted(cfg.model))") if fits else code
    found = [each["rule"] for each in judge("+model.shared=8", files={"train.py": code})["findings"]]
    assert found == ([] if fits else ["config/unknown-argument"])


@pytest.mark.parametrize("given", ["net={'width': 8}", "net=dict(width=8)", "net=given"])
def test_argument_that_the_code_gives_to_a_nested_node_is_no_fault(judge, given):
    code = TRAIN.replace("instantiate(cfg.model)", f"instantiate(cfg.model, {given})")
    code = code.replace("    pl.seed", "    given = {'width': 8}\n    pl.seed")
    model = FILES["conf/model/cnn.yaml"].replace("  width: 8\n", "")
    assert judge(files={"train.py": code, "conf/model/cnn.yaml": model})["findings"] == []


@pytest.mark.parametrize(("limit", "verdict"), [("1", "warning"), ("1.0", "passed")])
def test_whole_number_one_for_all_batches_warns(judge, limit, verdict):
    item = judge(f"+trainer.limit_train_batches={limit}")
    assert item["verdict"] == verdict
    assert [found["rule"] for found in item["findings"]] == ["config/one-is-one-batch"] * (limit == "1")


def test_limit_that_is_typed_over_a_file_is_none_that_was_left_there(judge):
    main = FILES["conf/train.yaml"].replace("  max_epochs: 3", "  max_epochs: 3\n  limit_val_batches: null")
    assert judge("trainer.limit_val_batches=2", files={"conf/train.yaml": main})["findings"] == []


@pytest.mark.parametrize(("interval", "warns"), [("1", True), ("1.0", False), ("25", False)])
def test_validation_after_each_batch_warns(judge, interval, warns):
    item = judge(f"+trainer.val_check_interval={interval}")
    assert [found["rule"] for found in item["findings"]] == ["config/one-is-one-batch"] * warns


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("overfit_batches: 2", ["config/left-from-debugging"]),
        ("detect_anomaly: true", ["config/left-from-debugging"]),
        ("limit_train_batches: 0.1", ["config/left-from-debugging"]),
        ("limit_val_batches: 2", ["config/left-from-debugging"]),
        ("limit_val_batches: 0", []),
        ("limit_val_batches: 0.1", []),
        ("limit_test_batches: 50", []),
        ("overfit_batches: 0.0", []),
        ("limit_train_batches: 200", []),
        ("check_val_every_n_epoch: 100", ["config/interval-beyond-the-run"]),
        ("check_val_every_n_epoch: 2", []),
    ],
)
def test_settings_that_make_another_training_of_it(judge, line, found):
    main = FILES["conf/train.yaml"].replace("max_epochs: 3\n", f"max_epochs: 3\n  {line}\n")
    assert line in main
    item = judge(files={"conf/train.yaml": main})
    assert [each["rule"] for each in item["findings"]] == found


def test_limit_that_only_a_library_names_is_left_from_debugging(judge):
    main = FILES["conf/train.yaml"].replace("max_epochs: 3\n", "max_epochs: 3\n  limit_val_batches: 2\n")
    item = judge(files={"conf/train.yaml": main, "train.py": f"import training_runs.start.feasibility\n{TRAIN}"})
    assert [each["rule"] for each in item["findings"]] == ["config/left-from-debugging"]


@pytest.mark.parametrize("setting", ["overfit_batches=2", "detect_anomaly=true"])
def test_settings_for_one_run_are_its_own_affair(judge, setting):
    assert judge(f"+trainer.{setting}")["findings"] == []


@pytest.mark.parametrize("below", ["  batch_size: ???", "  ???"])
def test_value_that_a_later_file_leaves_open_keeps_its_origin(judge, below):
    left_open = FILES["conf/train.yaml"] + f"data:\n{below}\n"
    item = judge("+trainer.limit_val_batches=2", files={"conf/train.yaml": left_open})
    assert item["findings"] == []
    assert "config/value-beaten" in item["judged"]


def test_override_of_an_element_of_a_list_is_understood(judge):
    listed = FILES["conf/model/cnn.yaml"].replace("  width: 8\n", "  betas: [{a: 1, b: '${seed}'}, 0.9]\n")
    item = judge("model.net.betas.0.a=2", "model.net.betas.1=0.5", files={"conf/model/cnn.yaml": listed})
    assert (item["findings"], item["skipped"]) == ([], None)
    assert "config/value-beaten" in item["judged"]


@pytest.mark.parametrize(
    ("given", "key", "place"),
    [
        ((), "losses.1.loss.size", "conf/train.yaml:18"),
        (("losses=[{_target_: torch.nn.L1Loss, size: 3}]",), "losses.0.size", "command line"),
    ],
)
def test_mistake_inside_a_list_has_the_line_of_what_is_wrong(judge, given, key, place):
    listed = "losses:\n  - name: first\n  - loss:\n      _target_: torch.nn.L1Loss\n      size: 3\nread: ${losses}\n"
    item = judge(*given, files={"conf/train.yaml": FILES["conf/train.yaml"] + listed})
    found = next(each for each in item["findings"] if each["rule"] == "config/unknown-argument")
    assert found["what"].startswith(f"{key}=3 is no argument of torch.nn.L1Loss")
    assert found["where"].startswith(f"{key} ({place}")


def test_composition_that_is_not_understood_is_skipped_not_failed(judge, monkeypatch):
    monkeypatch.delattr(provenance, "create_defaults_list")
    item = judge("+trainer.limit_val_batches=2")
    assert item["verdict"] == "skipped"
    assert "hydra-core" in item["skipped"]


@pytest.mark.parametrize(("every", "saves"), [("100", False), ("1", True)])
def test_checkpoints_that_the_run_does_not_come_to_are_named(judge, every, saves):
    node = f"{{_target_: pytorch_lightning.callbacks.ModelCheckpoint, every_n_epochs: {every}}}"
    item = judge(f"++callbacks.kept={node}", "~callbacks.checkpoint", "++trainer.max_epochs=6")
    assert [found["rule"] for found in item["findings"]] == ["config/interval-beyond-the-run"] * (not saves)


@pytest.mark.parametrize(
    ("line", "found"), [("", ["config/unknown-argument"]), ("    options = dict(cfg.schedule.items())\n", [])]
)
def test_node_whose_keys_go_to_several_callables_is_no_fault(judge, line, found):
    code = TRAIN.replace("    pl.seed", f"{line}    make = lambda: build(**cfg.schedule)\n    pl.seed", 1)
    code = code.replace("@hydra.main", "def build(warmup=0):\n    return warmup\n\n\n@hydra.main", 1)
    item = judge("+schedule={warmup: 3, patience: 2}", files={"train.py": code})
    assert [each["rule"] for each in item["findings"] if each["rule"] == "config/unknown-argument"] == found


@pytest.mark.parametrize(
    ("line", "found"),
    [("known = dict(cfg)", ["config/unread-key"]), ("known = dict(cfg); [known[each] for each in vars(pl)]", [])],
)
def test_keys_that_are_picked_from_the_whole_config_are_read(judge, line, found):
    code = TRAIN.replace("    pl.seed", f"    {line}\n    pl.seed", 1)
    item = judge("+quit=true", files={"train.py": code})
    assert [each["rule"] for each in item["findings"] if each["rule"] == "config/unread-key"] == found


@pytest.mark.parametrize(
    ("built", "found"),
    [("cfg.model", []), ("cfg.schedule", ["config/missing-argument"]), ("cfg.schedule, _partial_=True", [])],
)
def test_node_that_nobody_builds_lacks_nothing(judge, built, found):
    code = TRAIN.replace(
        "    pl.seed", f"    make = lambda: instantiate({built})\n    width = cfg.schedule.last_epoch\n    pl.seed", 1
    )
    item = judge("+schedule={_target_: torch.optim.lr_scheduler.StepLR, last_epoch: 3}", files={"train.py": code})
    assert [each["rule"] for each in item["findings"] if each["rule"] == "config/missing-argument"] == found


@pytest.mark.parametrize(("built", "said"), [("cfg.model", "take it out"), ("cfg.net", "+net.num_features=VALUE")])
def test_node_that_lacks_arguments_where_no_code_builds_it_has_no_effect(judge, built, said):
    code = TRAIN.replace("    pl.seed", f"    make = lambda: instantiate({built})\n    pl.seed", 1)
    found = judge("+net={_target_: torch.nn.BatchNorm1d}", files={"train.py": code})["findings"]
    [found] = [each for each in found if each["rule"] == "config/missing-argument"]
    assert said in found["fix"]


@pytest.mark.parametrize(("target", "found"), [("cfg.net._target_", []), ("'net.Net'", ["config/unknown-argument"])])
def test_node_of_which_the_code_builds_a_part_is_no_fault(judge, target, found):
    code = TRAIN.replace("    pl.seed", f"    make = lambda: instantiate({{'_target_': {target}}})\n    pl.seed", 1)
    item = judge("+net={_target_: torch.nn.Flatten, batch_size: 8}", files={"train.py": code})
    assert [each["rule"] for each in item["findings"] if each["rule"] == "config/unknown-argument"] == found


def test_monitor_of_a_callback_that_reaches_no_trainer_is_not_looked_for(judge):
    code = TRAIN.replace(", callbacks=callbacks", "", 1)
    item = judge("callbacks.checkpoint.monitor=val/acc", files={"train.py": code})
    assert finding(item)["rule"] == "config/callback-in-no-trainer"
