"""The checklist is a guest in every project: it changes no command, touches nothing, and sees what the user runs."""

import json
import os
import re
import shlex
import subprocess
import sys
import time

import pytest
from strange_projects import CONFIG, PLAIN, TRAIN, changed
from training_checklist.experiments.distributed.presence import has_ended


def passed(finished, *items):
    assert [finished.verdict(item) for item in items] == ["passed"] * len(items), finished.output
    assert finished.code == 0, finished.output


def test_nothing_but_the_report_is_left_and_it_is_named_from_where_the_user_is(stranger):
    project = stranger(PLAIN)
    before = project.files()
    done = project.check(items="paths,overfit,reproducibility")
    passed(done, "paths", "overfit", "reproducibility")
    assert project.files() == before
    [report] = re.findall(r"report: (\S+)", done.output)
    assert (project.folder / report).is_file()
    assert not list(project.folder.rglob("*.ckpt")) + list(project.folder.rglob("version_*"))


def with_checkpoints(options, *pairs):
    """Return the plain project with a ModelCheckpoint of the script's own in kept/best, and further changes of it."""
    kept = f"callbacks.append(ModelCheckpoint('kept/best', {options}))"
    return changed(
        "train.py",
        ("    trainer = pl.Trainer(", f"    {kept}\n    trainer = pl.Trainer("),
        ("import Data, Net\n", "import Data, Net\nfrom pytorch_lightning.callbacks import ModelCheckpoint\n"),
        *pairs,
    )


def test_folder_that_a_callback_would_have_made_is_there_for_what_the_script_writes_beside(stranger):
    tested = "    trainer.test(net, data)\n"
    code = with_checkpoints(
        "monitor='val/loss', mode='max'",
        ("    trainer.fit(", "    trainer.validate(net, data)\n    trainer.fit("),
        (tested, f"{tested}    open('kept/best/answers.csv', 'w').close()\n"),
    )
    project = stranger(code)
    before = project.files()
    done = project.check(items="limit_batches,learning")
    assert done.verdict("limit_batches") == "passed", done.output
    assert done.verdict("learning") == "failed", done.output
    assert "ModelCheckpoint has mode=max, but more of val/loss is worse" in done.output
    assert project.files() == before
    assert not (project.folder / "kept").exists()


def test_checkpoint_that_the_script_reads_by_its_own_path_is_there(stranger):
    read = "    trainer.test(net, data)\n", "    open('kept/best/last.ckpt', 'rb').close()\n"
    project = stranger(with_checkpoints("save_last=True", read))
    before = project.files()
    passed(project.check(items="limit_batches,gradients,overfit"), "limit_batches", "gradients", "overfit")
    assert project.files() == before


def test_step_that_needs_more_steps_than_a_short_run_has_is_no_fault_of_the_command(stranger):
    step = "        return self.loss(batch)\n\n    def validation_step"
    every = "        assert self.global_step % int(0.1 * self.trainer.estimated_stepping_batches) >= 0\n"
    project = stranger(changed("net.py", (step, f"{every}{step}")))
    done = project.check(items="fast_dev_run,anomaly,overfit")
    assert [done.verdict(item) for item in ("fast_dev_run", "anomaly", "overfit")] == ["skipped", "passed", "passed"]
    assert (done.code, done.output.count("ends with ZeroDivisionError")) == (0, 1), done.output
    failing = project.check("trainer.max_epochs=1", "+trainer.limit_train_batches=5", items="fast_dev_run,anomaly")
    assert (failing.code, failing.verdict("fast_dev_run"), failing.verdict("anomaly")) == (1, "failed", "skipped")


def test_hidden_note_of_the_script_on_its_last_run_is_put_back(stranger):
    tested = "    trainer.test(net, data)\n"
    noted = "    with open('runs/.last_run', 'w') as note:\n        note.write(cfg.folder)\n"
    noted += "    os.makedirs('runs/new')\n    open('runs/new/.state', 'w').close()\n"
    code = changed("train.py", (tested, f"{tested}{noted}"), ("import hydra\n", "import os\n\nimport hydra\n"))
    project = stranger(code | {"runs/.last_run": "yesterday"})
    before = project.files()
    passed(project.check(items="limit_batches"), "limit_batches")
    assert project.files() == before
    assert (project.folder / "runs/.last_run").read_text() == "yesterday"
    assert not (project.folder / "runs/new").exists()


def test_stage_that_the_command_asks_for_and_an_item_leaves_out_is_a_value_of_the_command(stranger):
    code = changed("train.py", ("    trainer.test(net, data)\n", "    if cfg.test:\n        trainer.test(net, data)\n"))
    project = stranger(code | {"configs/train.yaml": f"{CONFIG}test: false\n"})
    done = project.run("+checklist=[fast_dev_run,config]", "test=true")
    passed(done, "fast_dev_run", "config")


def test_data_of_a_stage_that_the_run_never_comes_to_leave_nothing(stranger):
    predicted = """
    def predict_dataloader(self):
        sqlite3.connect(".requests.sqlite").execute("CREATE TABLE seen (address)")
        open("data/predicted.txt", "w").close()
        return self.part(4)
"""
    step = "    def predict_step(self, batch):\n        return self(batch[0])\n\n    def configure_optimizers"
    net = PLAIN["net.py"].replace("    def configure_optimizers", step)
    project = stranger(PLAIN | {"net.py": f"import sqlite3\n{net}{predicted}", "data/known.txt": ""})
    before = project.files()
    done = project.check(items="device")
    passed(done, "device")
    assert "predict_step" in done.output
    assert project.files() == before


def test_learning_rate_that_is_found_first_is_no_training_that_an_item_could_judge(stranger):
    """With fast_dev_run Lightning finds none, and returns None."""
    found = """
    finder = pl.tuner.Tuner(trainer).lr_find(net, data, num_training=8)
    print("the steepest is", finder.results["loss"][0])
    trainer.fit(net, data)"""
    done = stranger(changed("train.py", ("\n    trainer.fit(net, data)", found))).check(items="fast_dev_run,gradients")
    passed(done, "fast_dev_run", "gradients")
    assert "ran train, validate, test" in done.output


def test_config_that_a_program_does_not_stumble_over_is_a_remark(stranger):
    """It lacks an argument, has one too many, and an interpolation leads nowhere: nothing builds or reads that."""
    odd = "sampler: {_target_: torch.optim.SGD, width: 3, lr: '${rate}'}\n"
    project = stranger(PLAIN | {"configs/train.yaml": f"{CONFIG}{odd}"})
    done = project.check(items="fast_dev_run,config")
    assert done.code == 0, done.output
    for rule in ("missing-argument", "unknown-argument", "unresolved-interpolation"):
        assert f"[config/{rule}]" in done.output
    assert project.check(items="config").code == 1  # alone it has nothing to go by


def test_key_that_the_program_asks_for_and_the_config_lacks_is_its_own_affair(stranger):
    code = PLAIN | {"train.py": TRAIN.replace("Net(), Data()", "Net(lr=cfg.speed.of.learning), Data()")}
    done = stranger(code | {"configs/train.yaml": f"{CONFIG}speed: {{}}\n"}).check(items="fast_dev_run")
    assert done.verdict("fast_dev_run") == "failed", done.output


def test_term_that_the_config_switches_off_is_meant_so(stranger):
    step = "    def training_step(self, batch):\n        return self.loss(batch)\n"
    term = "    def training_step(self, batch):\n        part = self.part(batch[0]).square().mean()\n"
    net = (
        (step, f"{term}        return self.loss(batch) + self.weight * part\n"),
        ("nn.Linear(32, 4)\n", "nn.Linear(32, 4)\n        self.part, self.weight = nn.Linear(8, 2), weight\n"),
        ("lr=0.01):", "lr=0.01, weight=0.0):"),
    )
    code = changed("net.py", *net) | {"train.py": TRAIN.replace("Net()", "Net(weight=cfg.get('weight', 0.0))")}
    for line, status in (("weight: 0.0\n", "passed"), ("", "failed")):
        done = stranger(code | {"configs/train.yaml": f"{CONFIG}{line}"}).check(items="gradients")
        assert done.verdict("gradients") == status, done.output


def test_project_whose_config_sweeps_unasked_has_one_run_checked_in_its_place(stranger):
    project = stranger(PLAIN | {"configs/train.yaml": f"hydra: {{mode: MULTIRUN}}\n{CONFIG}"})
    done = project.check(items="overfit,reproducibility")
    passed(done, "overfit", "reproducibility")
    assert len(list(project.folder.glob("multirun/*/*"))) == 1
    assert "equal in both runs" in done.output


def test_command_that_asks_for_one_process_where_the_config_has_several_is_heard(stranger):
    project = stranger(PLAIN | {"configs/train.yaml": CONFIG.replace("cpu,", "cpu, devices: 2, strategy: ddp,")})
    done = project.check("trainer.devices=1", "trainer.strategy=auto", items="reproducibility")
    passed(done, "reproducibility")


@pytest.mark.parametrize("devices", ["[1, 2]", "'2'"])
def test_code_reads_the_devices_as_the_config_has_them_where_an_item_leaves_one_process(stranger, devices):
    counted = changed("train.py", ("    pl.seed", "    assert len(cfg.trainer.devices)\n    pl.seed"))
    project = stranger(counted | {"configs/train.yaml": CONFIG.replace("cpu,", f"cpu, devices: {devices},")})
    passed(project.check(items="fast_dev_run,overfit"), "fast_dev_run", "overfit")


def test_code_that_asks_for_its_rank_finds_a_group_where_an_item_leaves_one_process(stranger):
    grouped = changed(
        "net.py",
        ("16, shuffle=shuffle)", "16, sampler=DistributedSampler(labels, shuffle=shuffle))"),
        ("import DataLoader, ", "import DataLoader, DistributedSampler, "),
    )
    in_code = {"train.py": grouped["train.py"].replace("**cfg.trainer", "strategy='ddp', devices=1, **cfg.trainer")}
    in_config = {"configs/train.yaml": CONFIG.replace("cpu,", "cpu, strategy: ddp, devices: 1,")}
    items = ("fast_dev_run", "limit_batches", "trace", "overfit", "reproducibility")
    for files in (in_code, in_config):
        project = stranger(grouped | files)
        passed(project.check(items=",".join(items)), *items)


def test_callbacks_that_stand_in_a_list_have_no_keys(stranger):
    listed = "callbacks: [{_target_: pytorch_lightning.callbacks.LearningRateMonitor}]"
    project = stranger(
        changed("train.py", ("cfg.callbacks.values()", "cfg.callbacks"))
        | {"configs/train.yaml": CONFIG.replace("callbacks: {}", listed)}
    )
    done = project.check(items="config,reproducibility")
    passed(done, "config", "reproducibility")
    assert "equal in both runs" in done.output


def test_argument_whose_key_other_keys_refer_to_is_read_by_them(stranger):
    head = """

class Head(nn.Module):
    def __init__(self, layer, width):
        super().__init__()
        self.layer = layer
        self.relu = nn.ReLU()

    def forward(self, inputs):
        return self.layer(self.relu(inputs))
"""
    built = changed("train.py", ("Net(), Data()", "Net(), Data()\n    net.head = instantiate(cfg.head)"))
    for width, verdict in (("${head.width}", "passed"), ("${data.width}", "warning")):
        layer = f"{{_target_: torch.nn.Linear, in_features: '{width}', out_features: 4}}"
        config = f"{CONFIG}\nhead:\n  _target_: net.Head\n  width: 32\n  layer: {layer}\ndata: {{width: 32}}\n"
        done = stranger(built | {"net.py": PLAIN["net.py"] + head, "configs/train.yaml": config}).check(
            items="fast_dev_run"
        )
        assert done.verdict("fast_dev_run") == verdict, done.output


@pytest.mark.parametrize(("read", "verdict"), [("data.width", "passed"), ("2 * len(data)", "warning")])
def test_argument_whose_node_code_reads_has_an_effect_there(stranger, read, verdict):
    """A network is given the config of the data, whose classes hand the width on to the one that they derive from."""
    sized = """

class Sized(Data):
    def __init__(self, width):
        super().__init__()
        print("made")


class Digits(Sized):
    def __init__(self, width):
        super().__init__(width)
        print("made")


class Head(nn.Linear):
    def __init__(self, data):
        super().__init__(32, READ)
        print("made")
""".replace("READ", read)
    built = changed("train.py", ("Net(), Data()", "Net(), instantiate(cfg.data)\n    net.head = Head(cfg.data)"))
    built["train.py"] = built["train.py"].replace("import Data, Net", "import Head, Net")
    config = f"{CONFIG}\ndata: {{_target_: net.Digits, width: 4}}\n"
    done = stranger(built | {"net.py": PLAIN["net.py"] + sized, "configs/train.yaml": config}).check(
        items="fast_dev_run"
    )
    assert done.verdict("fast_dev_run") == verdict, done.output


@pytest.mark.parametrize("kept", ["self.width = width", "pass"])
@pytest.mark.parametrize(
    ("used", "verdict"),
    [
        ("nn.Linear(32, width)", "passed"),
        ("(nn.Linear(32, 4), self.save_hyperparameters())[0]", "passed"),
        ("nn.Linear(32, 4)", "warning"),
    ],
)
def test_argument_of_a_base_class_has_an_effect_where_the_class_itself_uses_it(stranger, kept, used, verdict):
    head = f"""

class Part(pl.LightningModule):
    def __init__(self, width):
        super().__init__()
        {kept}


class Head(Part):
    def __init__(self, width):
        super().__init__(width)
        self.layer = {used}

    def forward(self, inputs):
        return self.layer(inputs)
"""
    net = PLAIN["net.py"].replace("nn.Linear(32, 4)", "Head(4)") + head
    done = stranger(PLAIN | {"net.py": net}).check(items="fast_dev_run")
    assert done.verdict("fast_dev_run") == verdict, done.output


@pytest.mark.parametrize(("given", "verdict"), [("Head()", "passed"), ("Head(4)", "warning")])
def test_argument_that_nobody_gives_is_none_though_the_config_has_a_key_of_that_name(stranger, given, verdict):
    head = """

class Head(nn.Linear):
    def __init__(self, width=4):
        super().__init__(32, 4)
"""
    net = PLAIN["net.py"].replace("nn.Linear(32, 4)", given) + head
    done = stranger(PLAIN | {"net.py": net, "configs/train.yaml": f"{CONFIG}\nsize: {{width: 8}}\n"}).check()
    assert done.verdict("fast_dev_run") == verdict, done.output


def test_nested_tensors_of_padded_sequences_are_looked_into(stranger):
    """A TransformerEncoder makes them in eval mode, of what its mask leaves."""
    make = "self.first, self.head = nn.Linear(8, 32), nn.Linear(32, 4)"
    layer = "nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)"
    forward = """        inputs = inputs[:, None].expand(-1, 3, -1)
        left_out = torch.arange(3) > (torch.arange(len(inputs)) % 3)[:, None]
        seen = self.encoder(inputs, src_key_padding_mask=left_out)[:, 0]
        return self.head(torch.relu(self.first(seen)))"""
    net = changed(
        "net.py",
        (make, f"{make}\n        self.encoder = nn.TransformerEncoder({layer}, 1)"),
        ("        return self.head(torch.relu(self.first(inputs)))", forward),
    )
    passed(stranger(net).check(items="overflow"), "overflow")


def test_rank_that_ends_is_told_where_the_project_catches_what_follows(stranger):
    net = changed(
        "net.py",
        (
            "        return self.loss(batch)",
            "        if self.global_rank:\n            os.abort()\n        return self.loss(batch)",
        ),
        ("import torch\n", "import os\nimport torch\n"),
    )
    caught = """
    try:
        trainer.fit(net, data)
    except Exception:
        return
"""
    project = stranger(net | {"train.py": TRAIN.replace("\n    trainer.fit(net, data)\n", caught)})
    config = CONFIG.replace("max_epochs: 3", "max_epochs: 3, devices: 2, strategy: ddp")
    (project.folder / "configs/train.yaml").write_text(config)
    done = project.check(items="distributed")
    assert done.verdict("distributed") == "failed", done.output
    assert "rank 1" in done.output


def test_folder_of_wandb_that_a_script_begins_itself_is_told_and_stays_as_it_is(stranger):
    """Its library has two variables for what it writes; a group of the config has an option of its name."""
    begins = """
    folder = os.path.join(os.environ.get("WANDB_DIR", "."), "wandb")
    os.makedirs(folder, exist_ok=True)
    trainer.fit(net, data)
    open(f"{folder}/run.log", "w").close()
    staged = os.environ.get("WANDB_DATA_DIR", "staged")
    os.system(f"mkdir -p {staged}; echo 1 >{staged}/artifact")
"""
    pairs = ("\n    trainer.fit(net, data)\n", begins), ("import hydra\n", "import os\nimport hydra\n")
    chosen = "defaults: [{logger: wandb}, _self_]\nlogger_name: ${hydra:runtime.choices.logger}\n"
    files = {"configs/train.yaml": chosen + CONFIG, "configs/logger/wandb.yaml": "{}\n", "wandb/run.log": "earlier"}
    project = stranger(changed("train.py", *pairs) | files)
    before = project.files()
    done = project.check(items="paths,gradients")
    assert (done.verdict("gradients"), done.verdict("paths")) == ("passed", "failed"), done.output
    assert "wandb/run.log" in done.output
    assert "logger_name" not in done.output
    assert (project.folder / "wandb/run.log").read_text() == "earlier"
    assert project.files() == before


def test_step_that_freezes_weights_as_it_goes_is_overfitted_too(stranger):
    pairs = ("        return self.loss(batch)", "        self.first.requires_grad_(self.global_step > 0)\n")
    freezing = changed("net.py", (pairs[0], pairs[1] + pairs[0]))
    passed(stranger(freezing).check(items="overfit"), "overfit")


@pytest.mark.parametrize(
    ("precision", "command", "verdict"),
    [("bf16-mixed", [], "passed"), ("32-true", ["trainer.precision=bf16-mixed"], "failed")],
)
def test_fp16_is_no_matter_of_a_project_whose_files_ask_for_bf16(stranger, precision, command, verdict):
    wide = "self.head(torch.relu(self.first(inputs)) * 6e5) / 6e5"
    config = CONFIG.replace("accelerator: cpu,", f"accelerator: cpu, precision: {precision},")
    pair = "self.head(torch.relu(self.first(inputs)))", wide
    project = stranger(changed("net.py", pair) | {"configs/train.yaml": config})
    done = project.check(*command, items="overflow")
    assert done.verdict("overflow") == verdict, done.output


@pytest.mark.parametrize("caught", ["Exception", "ZeroDivisionError"])
def test_training_that_raises_has_failed_though_the_program_catches_it(stranger, caught):
    fit = "    trainer.fit(net, data)\n    trainer.test(net, data)\n"
    tried = "".join(f"    {line}\n" for line in fit.splitlines())
    train = (fit, f"    try:\n{tried}    except {caught}:\n        return -1\n")
    raises = "        if batch_idx == 1:\n            raise RuntimeError('boom')\n        return self.loss(batch)\n"
    step = "    def training_step(self, batch):\n        return self.loss(batch)\n"
    net = changed("net.py", (step, f"    def training_step(self, batch, batch_idx):\n{raises}"))
    done = stranger(net | {"train.py": changed("train.py", train)["train.py"]}).check(items="limit_batches,paths")
    assert (done.verdict("limit_batches"), done.verdict("paths")) == ("failed", "failed"), done.output
    assert "RuntimeError: boom" in done.output
    assert done.code == 1


OWN_METHODS = """
        self.first = torch.compile(self.first, backend="eager")
        self.head = Chosen(32, 4)
        self.forward = lambda inputs: self.head(torch.relu(self.first(inputs)))
        self.training_step, self.log = self.one_step, self.log_by_name
        self.on_train_batch_end = self.on_fit_start = self.lr_scheduler_step = lambda *_: None
        self.configure_optimizers = lambda: torch.optim.Adam(self.parameters(), lr=self.hparams.lr)

    def log_by_name(self, name, value, **options):
        super().log(f"by name/{name}", value, **options)

    def one_step(self, batch):
        return self.loss(batch)
"""
CHOSEN = """
class Chosen(nn.Linear):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.forward = super().forward

    def forward(self, inputs):
        raise NotImplementedError


class Net("""


def test_methods_that_an_object_has_of_its_own_are_there_in_every_item_and_after_it(stranger):
    layers = "        self.first, self.head = nn.Linear(8, 32), nn.Linear(32, 4)\n"
    unused = ("    def training_step(self, batch):\n        return self.loss(batch)\n", "")
    optimizer = (
        "    def configure_optimizers(self):\n        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)\n"
    )
    pairs = ("\nclass Net(", CHOSEN), (layers, layers + OWN_METHODS), unused, (optimizer, "")
    forward = "    def forward(self, inputs):\n        return self.head(torch.relu(self.first(inputs)))\n"
    project = stranger(changed("net.py", (forward, ""), *pairs))
    assert project.run().code == 0
    items = "fast_dev_run,device,limit_batches,trace,anomaly,gradients,overflow,memory,gradcheck,overfit,learning"
    done = project.check(items=f"{items},profile,reproducibility")
    passed(done, *items.split(","), "profile", "reproducibility")


def test_loader_that_is_made_by_what_the_module_says_as_fit_starts_is_overfitted(stranger):
    told = (
        "    def on_fit_start(self):\n        self.trainer.datamodule.seed = 1\n\n    def configure_optimizers(self):\n"
    )
    files = changed("net.py", ("    def configure_optimizers(self):\n", told), ("self.part(1,", "self.part(self.seed,"))
    passed(stranger(files).check(items="overfit"), "overfit")


def test_object_that_only_looks_like_a_callback_leaves_every_rule_its_judgement(stranger):
    # As a callback of the other one of Lightning's two packages does: it has all the hooks and is none of this one's.
    other = """
    def configure_callbacks(self):
        return [Other()]


class Other:
    def __getattr__(self, name):
        if name not in dir(pl.Callback) or name.startswith("_"):
            raise AttributeError(name)
        return lambda *_, **__: None
"""
    start, data, end = PLAIN["net.py"].partition("\n\nclass Data")
    done = stranger(PLAIN | {"net.py": f"{start}{other}\n{data}{end}"}).check(items="fast_dev_run")
    passed(done, "fast_dev_run")


def test_step_finds_its_own_loader_in_the_trainer(stranger):
    asking = "        assert len(self.trainer.test_dataloaders.dataset) == 160\n"
    tested = "    def test_step(self, batch):\n"
    done = stranger(changed("net.py", (tested, tested + asking))).check(items="device,trace")
    passed(done, "device", "trace")
    assert "test_step (" in done.output, done.output


@pytest.mark.parametrize(("device", "verdict"), [("${trainer.accelerator}", "passed"), ("cpu", "failed")])
def test_device_that_the_config_tells_is_the_accelerators_there(stranger, device, verdict):
    net = (
        PLAIN["net.py"]
        .replace("lr=0.01):", "device, lr=0.01):")
        .replace("self(batch[0])", "self(batch[0] + self.shift)")
    )
    net = net.replace(
        "        self.first, ", "        self.shift = torch.zeros(8, device=device)\n        self.first, "
    )
    files = changed("train.py", ("Net(), Data()", "Net(cfg.device), Data()"))
    config = f"{CONFIG}device: {device}\n"
    done = stranger(files | {"net.py": net, "configs/train.yaml": config}).check(items="device")
    assert done.verdict("device") == verdict, done.output


def test_keys_that_are_made_of_the_time_name_the_folder_of_the_run(stranger):
    timed = CONFIG.replace("${hydra:runtime.output_dir}", "outputs/${now:%Y-%m-%d}/${now:%H-%M-%S}")
    project = stranger(PLAIN | {"configs/train.yaml": timed})
    before = project.files()
    passed(project.check(items="config,paths"), "config", "paths")
    assert project.files() == before


def test_items_can_be_asked_for_together_and_fail_by_themselves(stranger):
    done = stranger(PLAIN).run("+checklist=[trace,limit_batches]")
    passed(done, "trace", "limit_batches")


def test_own_debug_group_keeps_its_options(stranger):
    project = stranger(
        PLAIN
        | {
            "configs/debug/overfit.yaml": "# @package _global_\ntrainer: {overfit_batches: 1}\n",
            "configs/debug/default.yaml": "# @package _global_\ntrainer: {max_epochs: 1}\n",
            "configs/train.yaml": f"defaults: [_self_, {{debug: null}}]\n{CONFIG}",
        }
    )
    own = project.run("debug=overfit", "--cfg", "job")
    assert "overfit_batches: 1" in own.output
    assert "checklist" not in project.run("--help").output
    passed(project.check("debug=default"), "fast_dev_run", "trace")


def test_plain_key_called_debug_stays_a_key(stranger):
    project = stranger(PLAIN | {"configs/train.yaml": f"debug: false\n{CONFIG}"})
    assert "debug: true" in project.run("debug=true", "--cfg", "job").output
    passed(project.check("debug=true"), "fast_dev_run")


def test_options_of_a_config_store_stay_options(stranger):
    store = """
from hydra.core.config_store import ConfigStore

ConfigStore.instance().store("overfit", {"trainer": {"overfit_batches": 1}}, group="debug", package="_global_")
"""
    project = stranger(changed("train.py", ("\n\n@hydra.main", f"{store}\n\n@hydra.main")))
    assert "overfit_batches: 1" in project.run("+debug=overfit", "--cfg", "job").output


def test_resolver_that_main_registers_is_registered_once_in_each_item(stranger):
    resolver = (
        "    OmegaConf.register_new_resolver('twice', lambda number: 2 * number)\n    pl.seed_everything(cfg.seed)"
    )
    project = stranger(
        changed(
            "train.py",
            ("    pl.seed_everything(0)", resolver),
            ("import hydra\n", "import hydra\nfrom omegaconf import OmegaConf\n"),
        )
        | {"configs/train.yaml": f"{CONFIG}seed: '${{twice:3}}'\n"}
    )
    passed(project.check(), "fast_dev_run", "trace")


def test_seed_that_is_set_before_main_is_every_items(stranger):
    """What is imported for an item, between two of them, draws nothing."""
    above = ("    main()\n", "    pl.seed_everything(0)\n    main()\n")
    done = stranger(changed("train.py", ("    pl.seed_everything(0)\n", ""), above)).check(
        items="limit_batches,reproducibility"
    )
    assert done.verdict("reproducibility") == "passed", done.output


def test_handler_that_a_library_binds_to_the_error_stream_outlives_no_item(stranger):
    library = """
import logging
import sys

log = logging.getLogger("library")
log.addHandler(logging.StreamHandler(sys.stderr))
"""
    use = "    from library import log\n    log.warning('hello')\n    pl.seed_everything(0)"
    project = stranger(changed("train.py", ("    pl.seed_everything(0)", use)) | {"library.py": library})
    done = project.check()
    passed(done, "fast_dev_run", "trace")
    [log] = project.folder.rglob("debug/trace/output.log")
    assert "hello" in log.read_text()
    assert "hello" not in done.output


def test_relative_paths_are_the_users_also_where_jobs_change_the_directory(stranger):
    project = stranger(
        changed("train.py", ("Data()", "Data(cfg.data)"))
        | {
            "configs/train.yaml": f"{CONFIG}data: ${{hydra:runtime.cwd}}/numbers\nhydra: {{job: {{chdir: true}}}}\n",
            "numbers/numbers.txt": "1\n",
        }
    )
    done = project.check()
    passed(done, "fast_dev_run", "trace")
    [report] = re.findall(r"report: (\S+)", done.output)
    assert (project.folder / report).is_file()


def test_config_that_the_command_names_is_every_items(stranger):
    project = stranger(changed("train.py", ("Data()", "Data(cfg.data)")) | {"numbers/numbers.txt": "1\n"})
    (project.folder / "elsewhere").mkdir()
    (project.folder / "elsewhere" / "other.yaml").write_text(f"{CONFIG}data: numbers\n")
    done = project.check("--config-path", "elsewhere", "--config-name", "other", items="fast_dev_run,reproducibility")
    passed(done, "fast_dev_run", "reproducibility")


def test_trainer_is_the_users_in_every_stage(stranger):
    forces = """
    def test_step(self, batch):
        with torch.enable_grad():
            inputs = batch[0].requires_grad_()
            self.log("test/force", torch.autograd.grad(self(inputs).sum(), inputs)[0].norm())
"""
    project = stranger(
        changed(
            "net.py", ('    def test_step(self, batch):\n        self.log("test/loss", self.loss(batch))\n', forces)
        )
        | {"configs/train.yaml": CONFIG.replace("max_epochs: 3", "max_epochs: 3, inference_mode: false")}
    )
    passed(project.check(items="fast_dev_run"), "fast_dev_run")


def test_profiler_of_the_project_records_nothing_of_what_items_do(stranger):
    profiler = 'profiler=pl.profilers.PyTorchProfiler(on_trace_ready=tensorboard_trace_handler("traces"))'
    project = stranger(
        changed(
            "train.py",
            ("from net import", "from torch.profiler import tensorboard_trace_handler\nfrom net import"),
            ("default_root_dir=cfg.folder", f"default_root_dir=cfg.folder, {profiler}"),
        )
    )
    before = project.files()
    passed(project.check(items="fast_dev_run,anomaly"), "fast_dev_run", "anomaly")
    assert project.files() == before


def test_metrics_that_setup_makes_are_there_in_every_stage(stranger):
    made = """
    def setup(self, stage):
        self.seen = {"fit": [], "test": []}.get(stage)

    def test_step(self, batch):
        self.seen.append(self.loss(batch))
"""
    project = stranger(
        changed("net.py", ('    def test_step(self, batch):\n        self.log("test/loss", self.loss(batch))\n', made))
    )
    passed(project.check(items="fast_dev_run"), "fast_dev_run")


def test_project_that_builds_everything_in_code_trains_no_longer_than_an_item_says(stranger):
    train = """
import hydra
import pytorch_lightning as pl
from net import Data, Net
from pytorch_lightning.callbacks import ModelCheckpoint


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
def main(cfg):
    saved = ModelCheckpoint("kept", monitor="val/loss", save_last=True)
    trainer = pl.Trainer(accelerator="cpu", max_epochs=100_000, callbacks=[saved], enable_progress_bar=False)
    net, data = Net(), Data()
    trainer.fit(net, data)
    print("best", Net.load_from_checkpoint(saved.best_model_path).hparams)


main()
print("after main")
"""
    project = stranger(PLAIN | {"train.py": train, "configs/train.yaml": "trainer: fast\ncallbacks: [none]\n"})
    before = project.files()
    done = project.check(items="fast_dev_run,trace,gradients,overfit")
    passed(done, "fast_dev_run", "trace", "gradients", "overfit")
    assert "after main" not in done.output
    assert project.files() == before


def test_trainer_that_fits_is_judged_beside_an_earlier_one_that_does_not(stranger):
    made = "    net, data = Net(), Data()\n"
    again = f"{made}    trainer = pl.Trainer(**cfg.trainer, default_root_dir=cfg.folder)\n"
    done = stranger(changed("train.py", (made, again))).check(items="anomaly,paths,reproducibility")
    passed(done, "anomaly", "paths", "reproducibility")
    assert "equal in both runs" in done.output
    assert "backward passes" in done.output


def test_training_function_that_hydra_calls_ends_with_training(stranger):
    """What `hydra.utils.call` calls raises an InstantiationException, whatever it was."""
    train = ("    trainer.fit(net, data)\n    trainer.test(net, data)\n", "    call(cfg.entry)(trainer, net, data)\n")
    called = ("from hydra.utils import instantiate", "from hydra.utils import call, instantiate")
    fit = "def fit(trainer, net, data):\n    trainer.fit(net, data)\n    trainer.test(net, data)\n"
    config = CONFIG + "entry: {_target_: fit.fit, _partial_: true}\n"
    project = stranger(changed("train.py", train, called) | {"fit.py": fit, "configs/train.yaml": config})
    passed(project.check(items="overfit,reproducibility"), "overfit", "reproducibility")


def test_script_with_two_trainings_has_the_first_compared_with_the_first(stranger):
    """Pretraining and a linear probe, say: another network, whose weights begin otherwise."""
    probe = "    net.head = torch.nn.Linear(32, 4, bias=False)\n    torch.nn.init.zeros_(net.head.weight)\n"
    second = "    pl.Trainer(**cfg.trainer, default_root_dir=cfg.folder).fit(net, data)\n"
    tested = "    trainer.test(net, data)\n"
    files = changed("train.py", (tested, probe + second + tested), ("import hydra\n", "import hydra\nimport torch\n"))
    done = stranger(files).check(items="reproducibility")
    passed(done, "reproducibility")
    assert "equal in both runs" in done.output
    assert "resumed from a checkpoint, all restored" in done.output


TUNED = """

class Tuned(Net):
    def configure_optimizers(self):
        optimizer = super().configure_optimizers()
        length = self.trainer.estimated_stepping_batches
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, length)
        return [optimizer], [{{"scheduler": schedule, "interval": "{interval}"}}]
"""


@pytest.mark.parametrize(("interval", "verdict"), [("epoch", "failed"), ("step", "passed")])
def test_schedule_of_the_second_training_of_a_script_is_rehearsed_too(stranger, interval, verdict):
    tuned = "    net = Tuned()\n    trainer = pl.Trainer(**cfg.trainer, default_root_dir=cfg.folder)\n"
    second = f"{tuned}    trainer.fit(net, data)\n    trainer.test(net, data)\n"
    tested, imports = (
        "    trainer.test(net, data)\n",
        ("from net import Data, Net\n", "from net import Data, Net, Tuned\n"),
    )
    files = changed("train.py", (tested, second), imports)
    files["net.py"] += TUNED.format(interval=interval)
    done = stranger(files).check(items="learning")
    assert done.verdict("learning") == verdict, done.output
    assert ("schedule/counted-in-steps" in done.output) == (verdict == "failed")


PROBING = """

class Probing(Net):
    def configure_optimizers(self):
        return torch.optim.Adam(self.{trained}.parameters(), lr={lr})
"""


@pytest.mark.parametrize(("trained", "lr", "status"), [("head", 0.01, "passed"), ("first", 1e-9, "failed")])
def test_training_of_another_module_is_looked_at_by_itself(stranger, trained, lr, status):
    second = """    net = Probing()
    net.first.requires_grad_({wanted})
    trainer = pl.Trainer(**cfg.trainer, default_root_dir=cfg.folder)
    trainer.fit(net, data)
"""
    tested, imports = "    trainer.test(net, data)\n", ("import Data, Net\n", "import Data, Net, Probing\n")
    files = changed("train.py", (tested, second.format(wanted=trained == "first") + tested), imports)
    files["net.py"] += PROBING.format(trained=trained, lr=lr)
    done = stranger(files).check(items="fast_dev_run,gradients,overfit,learning")
    assert done.verdict("gradients") == status, done.output
    assert done.verdict("overfit") == status, done.output
    assert "ran train, validate, test; then Probing: first loss" in done.output, done.output
    for rule in ("gradients/held-by-none", "learning/setting-in-the-way"):
        assert (f"[{rule}]" in done.output) == (status == "failed"), done.output


BY_EPOCHS = """        optimizer = torch.optim.Adam(self.parameters(), lr=self.hparams.lr)
        return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, {length})]
"""


@pytest.mark.parametrize(
    ("length", "typed", "verdict"),
    [
        ("30", "trainer.max_epochs=3", "passed"),  # the epochs of the file, and by chance the steps of the typed ones
        ("30", "folder=.", "passed"),
        ("self.trainer.estimated_stepping_batches", "trainer.max_epochs=4", "failed"),
        ("300", "trainer.max_epochs=4", "failed"),  # the steps of the file
    ],
)
def test_length_of_a_schedule_is_held_against_the_run_of_the_files_too(stranger, length, typed, verdict):
    adam = "        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)\n"
    files = changed("net.py", (adam, BY_EPOCHS.format(length=length)))
    files["configs/train.yaml"] = files["configs/train.yaml"].replace("max_epochs: 3", "max_epochs: 30")
    done = stranger(files).check(typed, items="learning")
    assert done.verdict("learning") == verdict, done.output
    assert ("schedule/counted-in-steps" in done.output) == (verdict == "failed")


@pytest.mark.parametrize(("length", "interval"), [("estimated_stepping_batches", "step"), ("max_epochs", "epoch")])
def test_schedule_of_which_a_warm_up_leaves_nothing_in_a_short_run_is_that_of_the_users_run(stranger, length, interval):
    adam = "        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)\n"
    cosine = f"""        optimizer = torch.optim.Adam(self.parameters(), lr=self.hparams.lr)
        steps = self.trainer.{length}
        warm = max(1, steps // 10)
        parts = [LinearLR(optimizer, 0.1, total_iters=warm), CosineAnnealingLR(optimizer, steps - warm)]
        return [optimizer], [{{"scheduler": SequentialLR(optimizer, parts, [warm]), "interval": "{interval}"}}]
"""
    imported = "from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR\n"
    files = changed("net.py", (adam, cosine), ("from torch import nn\n", f"from torch import nn\n{imported}"))
    passed(stranger(files).check(items="fast_dev_run,trace"), "fast_dev_run", "trace")


SAVING = """
    def on_save_checkpoint(self, checkpoint):
        checkpoint[{key!r}] = {value}
"""
AVERAGED = SAVING.format(key="state_dict", value="{name: each / 2 for name, each in checkpoint['state_dict'].items()}")
PICKLED = SAVING.format(key="kind", value="Net")


@pytest.mark.parametrize(("given", "verdict"), [("", "passed"), (", ckpt_path=cfg.get('resume')", "failed")])
@pytest.mark.parametrize(
    ("saves", "told"),
    [
        ("", "they hold weights only"),
        (AVERAGED, "not what they were when training is resumed"),
        (PICKLED, "checkpoints hold pickled objects"),
    ],
)
def test_checkpoints_that_cannot_be_resumed_fail_where_the_script_can_resume(stranger, saves, told, given, verdict):
    kept, before = "pl.callbacks.ModelCheckpoint(save_weights_only=True)", "    def configure_optimizers(self):\n"
    files = changed("train.py", ("fit(net, data)", f"fit(net, data{given})"))
    files["net.py"] = files["net.py"].replace(before, f"{saves}\n{before}")
    if not saves:
        files["train.py"] = files["train.py"].replace("callbacks=callbacks", f"callbacks=[{kept}]")
    done = stranger(files).check(items="reproducibility")
    assert done.verdict("reproducibility") == verdict
    assert told in " ".join(done.output.split())


def test_checkpoint_that_only_a_shorter_run_keeps_is_kept_without_the_item_too(stranger):
    """What is wrong with it shows where the user's own run is long enough to keep one."""
    before = "    def configure_optimizers(self):\n"
    files = changed(
        "train.py",
        ("callbacks=callbacks", "callbacks=[kept := pl.callbacks.ModelCheckpoint(every_n_epochs=10)]"),
        ("trainer.test(net, data)", "trainer.test(net, data, ckpt_path=kept.best_model_path or None)"),
    )
    files["net.py"] = files["net.py"].replace(before, f"{PICKLED}\n{before}")
    done = stranger(files).check(items="paths")
    assert done.verdict("paths") == "failed", done.output
    assert "crash/pickled-objects" in done.output


def test_files_that_callbacks_and_the_script_write_are_as_they_were_before(stranger):
    """A table that grows with every run, weights that the last run leaves, and a cache of data, which may stay."""
    grows = """
import os
import pytorch_lightning as pl


class Table(pl.Callback):
    def on_train_epoch_end(self, trainer, pl_module):
        os.makedirs("tables/own", exist_ok=True)
        for path in ("table.csv", "tables/own/new.csv"):
            with open(path, "a") as file:
                file.write("1\\n")
"""
    tested = "    trainer.test(net, data)\n"
    saves = "    torch.save(net.state_dict(), 'final.pt')\n    open('result.txt', 'w').write('mine')\n"
    saves += "    torch.jit.save(torch.jit.trace(torch.nn.Linear(2, 2), torch.ones(2)), 'final.jit')\n"
    saves += "    open('data/scores.txt', 'w').write('mine')\n"
    imports = ("import hydra\n", "import hydra\nimport torch\n")
    made = ("    net, data = Net(), Data()\n", "    open('cache.bin', 'wb').close()\n    net, data = Net(), Data()\n")
    train = changed("train.py", (tested, tested + saves), imports, made)
    config = CONFIG.replace("callbacks: {}", "callbacks: {table: {_target_: table.Table}}")
    project = stranger(train | {"table.py": grows, "configs/train.yaml": config})
    before = ("table.csv", "final.pt", "final.jit", "data/scores.txt")
    (project.folder / "data").mkdir()
    for name in before:
        (project.folder / name).write_text("of an earlier run\n")
    project.check(items="fast_dev_run,config,paths,gradients,reproducibility")
    assert {(project.folder / name).read_text() for name in before} == {"of an earlier run\n"}
    assert not any((project.folder / name).exists() for name in ("result.txt", "tables"))
    assert (project.folder / "cache.bin").exists()


@pytest.mark.parametrize("first", ["folder", "logger"])
def test_folder_that_the_script_makes_for_its_run_is_gone_with_it(stranger, first):
    """Named by the time, with the config and a copy of the code in it; what the script makes of data may stay."""
    run = "    run = Path('runs') / datetime.now().strftime('%H-%M-%S-%f')\n"
    logger = "    logger = pl.loggers.CSVLogger(run)\n"
    made = "    run.mkdir(parents=True)\n    shutil.copytree('configs', run / 'configs')\n"
    made += "    OmegaConf.save(cfg, run / 'config.yaml')\n    Path('cache').mkdir(exist_ok=True)\n"
    made += "    Path('cache/numbers').write_text('1')\n"
    early = run + (made + logger if first == "folder" else logger + made)
    imports = "import shutil\nfrom datetime import datetime\nfrom pathlib import Path\n\nimport hydra\n"
    imports += "from omegaconf import OmegaConf\n"
    pairs = [("    net, data = Net(), Data()\n", "    net, data = Net(), Data()\n    trainer.save = run\n")]
    pairs += [("    callbacks =", f"{early}    callbacks ="), ("import hydra\n", imports)]
    pairs += [("callbacks=callbacks, ", "callbacks=callbacks, logger=logger, ")]
    project = stranger(changed("train.py", *pairs))
    before = project.files()
    project.check(items="fast_dev_run,config,paths,gradients,reproducibility")
    assert project.files() == before | {"cache/numbers"}
    assert not (project.folder / "runs").exists()


def test_files_that_a_logger_and_the_script_remove_are_there_again(stranger):
    """The table of an earlier run, which Lightning's logger takes away before it writes its own, and its results."""
    tested = "    trainer.test(net, data)\n"
    anew = f"{tested}    shutil.rmtree('results')\n    os.remove('best.txt')\n    os.makedirs('results/new')\n"
    logger = "default_root_dir=cfg.folder, logger=pl.loggers.CSVLogger('.', 'csv', '')"
    imports = ("import hydra\n", "import os\nimport shutil\n\nimport hydra\n")
    project = stranger(changed("train.py", (tested, anew), ("default_root_dir=cfg.folder", logger), imports))
    earlier = [project.folder / name for name in ("csv/metrics.csv", "results/old/scores.txt", "best.txt")]
    for path in earlier:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("of an earlier run\n")
    before = project.files()
    project.check(items="fast_dev_run,config,paths,gradients,reproducibility")
    assert {path.read_text() for path in earlier} == {"of an earlier run\n"}
    assert project.files() == before


def test_what_fails_only_in_several_processes_is_the_projects_where_its_config_asks_for_them(stranger):
    ends = "        if self.trainer.world_size > 1:\n            raise ValueError('not in a group')\n"
    files = changed("configs/train.yaml", ("max_epochs: 3", "max_epochs: 3, devices: 2"))
    files["net.py"] = files["net.py"].replace(
        "        return self.loss(batch)\n", f"{ends}        return self.loss(batch)\n"
    )
    done = stranger(files).check(items="paths")
    assert done.verdict("paths") == "failed", done.output
    assert "ValueError: not in a group" in done.output


def test_what_the_script_moves_and_links_has_its_own_name_again(stranger):
    """Results of earlier runs, which make room for those of this one, a link to the last run, and files of this one."""
    tested = "    trainer.test(net, data)\n"
    moved = "    os.replace('best.txt', 'best_before.txt')\n    shutil.move('results', 'archive')\n"
    moved += "    open('best.txt', 'w').write('mine')\n    os.makedirs('results')\n    os.unlink('latest')\n"
    moved += "    os.symlink(cfg.folder, 'latest')\n    os.symlink(cfg.folder, 'newest')\n"
    # As code in C++ writes a file, which Python does not see opened.
    moved += "    os.system('echo mine > scores.tmp')\n    os.replace(b'scores.tmp', b'scores.txt')\n"
    moved += "    os.system('echo mine > aside.txt')\n    os.remove('aside.txt')\n"
    imports = ("import hydra\n", "import os\nimport shutil\n\nimport hydra\n")
    project = stranger(changed("train.py", (tested, f"{tested}{moved}"), imports))
    names = ("best.txt", "best_before.txt", "scores.txt", "results/old/scores.txt")
    earlier = [project.folder / name for name in names]
    for path in earlier:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(path.name)
    (project.folder / "latest").symlink_to("results")
    before = project.files()
    done = project.check(items="fast_dev_run,config,paths,gradients,reproducibility")
    assert done.verdict("gradients") == "passed", done.output
    assert [path.read_text() for path in earlier] == [path.name for path in earlier]
    assert os.readlink(project.folder / "latest") == "results"
    assert project.files() == before


def test_script_that_empties_the_directory_of_its_run_is_judged_by_what_was_there(stranger):
    """It takes nothing of the check's away: neither its own files, nor what is kept to be put back."""
    tested = "    trainer.test(net, data)\n"
    saves = "    open('result.txt', 'w').write('mine')\n"
    emptied = "    for path in Path(cfg.folder).iterdir():\n"
    emptied += "        shutil.rmtree(path) if path.is_dir() else path.unlink()\n"
    imports = ("import hydra\n", "import shutil\nfrom pathlib import Path\n\nimport hydra\n")
    project = stranger(changed("train.py", (tested, tested + saves + emptied), imports))
    (project.folder / "result.txt").write_text("of an earlier run\n")
    before = project.files()
    done = project.check(items="fast_dev_run,trace,paths,profile,reproducibility")
    items = ("fast_dev_run", "trace", "profile", "reproducibility")
    assert {item: done.verdict(item) for item in items} == dict.fromkeys(items, "passed"), done.output
    report = min(project.folder.rglob("debug/report.json"), key=lambda path: len(path.parts))  # of the whole check
    [verdict] = [each for each in json.loads(report.read_text())["items"] if each["item"] == "paths"]
    assert "train.py:21 removes what it has held" in verdict["seen"], verdict
    assert {each["rule"] for each in verdict["findings"]} == {"paths/outside-run-directory"}
    assert (project.folder / "result.txt").read_text() == "of an earlier run\n"
    assert project.files() == before


def test_hook_that_fails_at_the_end_of_a_training_which_an_item_has_made_another_one_takes_no_verdict_away(stranger):
    """It divides by what the project's own run always has: an epoch of ten batches."""
    lines = """    def on_train_batch_end(self, *given):
        self.seen = getattr(self, "seen", 0) + 1

    def on_train_end(self):
        assert self.seen % 10 == 0, "no whole epochs"

    def configure_optimizers"""
    project = stranger(changed("net.py", ("    def configure_optimizers", lines)))
    done = project.check(items="overfit,learning,profile")
    passed(done, "overfit", "learning", "profile")


@pytest.mark.parametrize("asked", ["device", "fast_dev_run,overfit,device"])
def test_exception_that_always_comes_after_training_is_told_once_and_where_the_program_is_asked_about(stranger, asked):
    """Of several items fast_dev_run tells it: what the others ask about has nothing to do with it."""
    ends = ("    trainer.test(net, data)\n", "    raise LookupError('nothing to register')\n")
    done = stranger(changed("train.py", ends)).check(items=asked)
    first, *others = asked.split(",")
    assert done.code == 1
    assert done.verdict(first) == "failed", done.output
    assert [done.verdict(each) for each in others] == ["passed"] * len(others)
    assert f"{first} failed: LookupError: nothing to register" in done.output


def test_end_of_a_test_that_needs_all_of_its_batches_is_no_fault_of_the_program(stranger):
    """Items take a few: a threshold of the labels there, say, is one of none."""
    lines = """    def on_test_batch_end(self, *given):
        self.tested = getattr(self, "tested", 0) + 1

    def on_test_epoch_end(self):
        assert self.tested >= 10, "no anomaly among the labels"

    def configure_optimizers"""
    project = stranger(changed("net.py", ("    def configure_optimizers", lines)))
    passed(project.check(items="fast_dev_run,limit_batches,device"), "fast_dev_run", "limit_batches", "device")


MLFLOW = """
import os
import sqlite3

uri = None


def get_tracking_uri():
    return uri or os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{os.path.abspath('mlflow.db')}"


def set_tracking_uri(other):
    global uri
    uri = other


def start_run():
    if uri and uri.startswith("file:"):
        run = os.path.join(uri.removeprefix("file:"), str(os.getpid()))
        os.makedirs(run)
        with open(os.path.join(run, "meta.yaml"), "w") as file:
            file.write("run: 1")
        return
    with sqlite3.connect(get_tracking_uri().removeprefix("sqlite:///")) as store:
        store.execute("create table if not exists runs (id integer primary key)")
        store.execute("insert into runs default values")
"""


@pytest.mark.parametrize("asked", ["", "    mlflow.set_tracking_uri('sqlite:///kept/runs.db')\n"])
def test_database_that_the_script_itself_logs_to_has_no_run_of_an_item(stranger, asked):
    """SQLite writes it, so that Python does not see it: the store is another one meanwhile."""
    starts = ("    net, data = Net(), Data()\n", f"{asked}    mlflow.start_run()\n    net, data = Net(), Data()\n")
    imports = ("import hydra\n", "import hydra\nimport mlflow\n")
    project = stranger(changed("train.py", starts, imports) | {"mlflow.py": MLFLOW})
    database = project.folder / ("kept/runs.db" if asked else "mlflow.db")
    database.parent.mkdir(exist_ok=True)
    assert project.run().code == 0
    before = database.read_bytes()
    done = project.check(items="fast_dev_run,paths,reproducibility,trace")
    assert done.verdict("trace") == "passed", done.output
    assert database.read_bytes() == before


def test_store_of_mlflow_keeps_runs_apart_wherever_the_script_has_it(stranger):
    trained = "    trainer.test(net, data)\n    mlflow.set_tracking_uri('file:kept/store')\n    mlflow.start_run()\n"
    imports = ("import hydra\n", "import hydra\nimport mlflow\n")
    files = changed("train.py", ("    trainer.test(net, data)\n", trained), imports) | {"mlflow.py": MLFLOW}
    done = stranger(files).check(items="paths")
    passed(done, "paths")
    assert "its store keeps runs apart by their ids" in done.output.replace("\n", " ")


def test_folder_that_tempfile_makes_is_no_place_that_runs_share(stranger):
    wrote = "    trainer.test(net, data)\n    Path(tempfile.mkdtemp(prefix='mine_'), 'net.pkl').write_text('net')\n"
    imports = ("import hydra\n", "import tempfile\nfrom pathlib import Path\n\nimport hydra\n")
    files = changed("train.py", ("    trainer.test(net, data)\n", wrote), imports)
    passed(stranger(files).check(items="paths"), "paths")


@pytest.mark.parametrize(
    ("folder", "verdict"),
    [
        ("cfg.name", "passed"),
        ("time.strftime('%d%m%y%H%M%S')", "passed"),
        ("time.strftime('%Y-%m-%d')", "failed"),
    ],
)
def test_folder_that_has_the_time_of_the_run_in_its_name_is_shared_by_no_other_run(stranger, folder, verdict):
    """That what belongs to the run lies in two places is remarked."""
    wrote = f"    trainer.test(net, data)\n    trainer.save_checkpoint('kept/' + {folder} + '/last.ckpt')\n"
    imports = ("import hydra\n", "import time\n\nimport hydra\n")
    files = changed("train.py", ("    trainer.test(net, data)\n", wrote), imports)
    files["configs/train.yaml"] += "name: net_${now:%Y-%m-%d_%H-%M-%S}\n"
    done = stranger(files).check(items="paths")
    assert done.verdict("paths") == verdict, done.output
    assert "outside the run's directory: kept/" in done.output


def test_batch_that_a_step_has_changed_is_as_it_was_loaded_in_the_next_one(stranger):
    """Items repeat batches, of which the run itself takes each once."""
    marked = """    def training_step(self, batch):
        batch[0].add_(0.001).requires_grad_(True)
        return self.loss(batch)
"""
    plain = "    def training_step(self, batch):\n        return self.loss(batch)\n"
    passed(stranger(changed("net.py", (plain, marked))).check(items="overfit,learning"), "overfit", "learning")


def test_stage_that_the_command_switches_off_is_not_run(stranger):
    """What it needs may not be there then."""
    tests = ('        self.log("test/loss", self.loss(batch))', "        self.tester.test(batch)")
    files = changed("net.py", tests, ("        self.save_hyper", "        self.tester = None\n        self.save_hyper"))
    files["train.py"] = files["train.py"].replace("    trainer.test", "    if cfg.test:\n        trainer.test")
    files["configs/train.yaml"] += "test: true\n"
    project = stranger(files)
    assert project.check(items="fast_dev_run").verdict("fast_dev_run") == "failed"
    done = project.check("test=false", items="fast_dev_run")
    passed(done, "fast_dev_run")
    assert "test=false" in done.output


def test_file_that_a_script_writes_anew_before_it_trains_is_as_it_was(stranger):
    """Such as a copy of the config, in a folder that all runs share: an item's is another one."""
    pair = ("    trainer.fit", "    open('tree.txt', 'w').write(str(cfg))\n    trainer.fit")
    project = stranger(changed("train.py", pair))
    (project.folder / "tree.txt").write_text("of an earlier run\n")
    done = project.check(items="fast_dev_run,paths,reproducibility")
    assert done.verdict("fast_dev_run") == "passed", done.output
    assert "tree.txt" in done.output
    assert (project.folder / "tree.txt").read_text() == "of an earlier run\n"


def test_log_that_a_script_opens_before_it_trains_keeps_its_lines_alone(stranger):
    """Whoever else has it open goes on writing to the same file; one that is too long gets another name meanwhile."""
    opened = "    logging.getLogger().addHandler(logging.FileHandler('runs.log'))\n"
    opened += "    logging.getLogger().addHandler(logging.FileHandler('other.log'))\n"
    opened += "    logging.getLogger().warning('begun')\n"
    turned = "    os.rename('other.log', 'other.1.log')\n    open('other.log', 'w').close()\n"
    pair = ("    trainer.fit", f"    import logging, os\n{opened}    trainer.fit")
    tested = "    trainer.test(net, data)\n"
    project = stranger(changed("train.py", pair, (tested, tested + turned)))
    for name in ("runs.log", "other.log"):
        (project.folder / name).write_text("of an earlier run\n")
    with (project.folder / "runs.log").open("a") as elsewhere:
        done = project.check(items="fast_dev_run,reproducibility")
        elsewhere.write("of another run\n")
    assert done.verdict("fast_dev_run") == "passed", done.output
    assert (project.folder / "runs.log").read_text() == "of an earlier run\nof another run\n"
    assert (project.folder / "other.log").read_text() == "of an earlier run\n"
    assert not (project.folder / "other.1.log").exists()


def test_pictures_that_opencv_writes_are_as_they_were(stranger):
    """By code in C++, of which Python sees nothing."""
    opencv = """
import ctypes

libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p


def imwrite(path, image):
    file = ctypes.c_void_p(libc.fopen(path.encode(), b"w"))
    libc.fputs(b"mine", file)
    libc.fclose(file)
"""
    tested = "    trainer.test(net, data)\n"
    draws = "    cv2.imwrite('best.png', None)\n    cv2.imwrite('new.png', None)\n"
    project = stranger(changed("train.py", ("import hydra\n", "import hydra\nimport cv2\n"), (tested, tested + draws)))
    (project.folder / "cv2.py").write_text(opencv)
    (project.folder / "best.png").write_text("of an earlier run")
    assert project.check(items="fast_dev_run,reproducibility").verdict("fast_dev_run") == "passed"
    assert (project.folder / "best.png").read_text() == "of an earlier run"
    assert not (project.folder / "new.png").exists()


def test_notes_on_a_run_in_a_folder_of_data_are_as_they_were(stranger):
    """A folder for what is large has that name on many machines; what code of the data writes there stays."""
    lines = """    open('data/run.json', 'w').write(str(cfg))
    open('data/new.json', 'w').write('made')
    trainer.fit"""
    project = stranger(changed("train.py", ("    trainer.fit", lines)) | {"data/run.json": "of an earlier run"})
    passed(project.check(items="gradients,distributed"), "gradients", "distributed")
    assert (project.folder / "data/run.json").read_text() == "of an earlier run"
    assert (project.folder / "data/new.json").read_text() == "made"


def test_folder_that_a_script_makes_for_its_run_is_put_back_with_all_that_it_has_written_there(stranger):
    """The places of checkpoints and logs lie in folders within it, which it has made, too."""
    made = """    folder = os.path.abspath(f"experiments/{time.time_ns()}")
    os.makedirs(f"{folder}/checkpoints")
    open(f"{folder}/config.txt", "w").write(str(cfg))
    callbacks = [pl.callbacks.ModelCheckpoint(f"{folder}/checkpoints")]
"""
    old = "    callbacks = [instantiate(each) for each in cfg.callbacks.values()]\n"
    files = changed("train.py", ("import hydra\n", "import os\nimport time\n\nimport hydra\n"), (old, made))
    project = stranger(files | {"experiments/first/config.txt": "of an earlier run"})
    before = project.files()
    passed(project.check(items="gradients,fast_dev_run"), "gradients", "fast_dev_run")
    assert {path for path in project.files() - before if path.startswith("experiments")} == set()


STORE = """

class MLFlowLogger(pl.loggers.CSVLogger):
    def __init__(self, tracking_uri):
        super().__init__(tracking_uri.removeprefix("file:"), name="0", version=str(time.time_ns()))
"""


def test_store_that_keeps_runs_apart_by_their_ids_may_be_one_of_all_runs(stranger):
    """That it lies outside of the run's directory is remarked, with the key that says where it is."""
    imported = ("from net import Data, Net\n", f"from net import Data, Net\n{STORE}")
    given = ("callbacks=callbacks,", "callbacks=callbacks, logger=MLFlowLogger(cfg.tracking_uri),")
    files = changed("train.py", imported, given, ("import hydra\n", "import time\n\nimport hydra\n"))
    files["configs/train.yaml"] += "tracking_uri: file:./mlruns\n"
    done = stranger(files).check(items="paths")
    passed(done, "paths")
    assert "outside the run's directory: mlruns/0" in done.output
    assert "keeps runs apart" in done.output
    assert "tracking_uri=" in done.output


def test_log_that_all_runs_share_is_as_it_was_before(stranger):
    """Hydra's log lies in the working directory, as with hydra-colorlog, and each rank has one by its job's name."""
    logging = "hydra: {job_logging: {handlers: {file: {filename: '${hydra.job.name}.log'}}}}\n"
    project = stranger(changed("configs/train.yaml", ("callbacks: {}", f"{logging}callbacks: {{}}")))
    (project.folder / "train.log").write_text("of an earlier run\n")
    before = project.files()
    done = project.check(items="paths,reproducibility,distributed")
    assert "the log of the run lies outside its directory: train.log" in done.output
    assert (project.folder / "train.log").read_text() == "of an earlier run\n"
    assert {path for path in project.files() - before if path.endswith(".log")} == set()


def test_script_that_goes_on_from_its_last_checkpoint_trains_a_batch_more(stranger):
    """It was saved in the validation that ended an epoch of more batches than an item takes."""
    saved = "pl.callbacks.ModelCheckpoint('kept', monitor='val/loss', save_last=True)"
    last = "    last = 'kept/last.ckpt' if os.path.exists('kept/last.ckpt') else None\n"
    pairs = [
        ("callbacks=callbacks", f"callbacks=[*callbacks, {saved}]"),
        ("import hydra\n", "import os\n\nimport hydra\n"),
    ]
    pairs += [("    trainer.fit(net, data)\n", f"{last}    trainer.fit(net, data, ckpt_path=last)\n")]
    project = stranger(changed("train.py", *pairs))
    assert project.run().code == 0
    before = project.files()
    done = project.check(items="fast_dev_run")
    passed(done, "fast_dev_run")
    assert "ran train, validate, test" in done.output
    assert project.files() == before


def test_script_that_validates_before_it_trains_gets_its_numbers(stranger):
    fit = "    trainer.fit(net, data)\n"
    files = changed(
        "train.py", (fit, f"    (before,) = trainer.validate(net, data)\n    print(before['val/loss'])\n{fit}")
    )
    done = stranger(files).check(items="fast_dev_run,device,overfit")
    passed(done, "fast_dev_run", "device", "overfit")


def test_checkpoints_that_a_callback_saves_for_itself_are_the_users_again_after_each_item(stranger):
    """Its own run goes on from what it finds in a folder; a callback fills that, and removes its earlier files."""
    saves = """
import os
import pytorch_lightning as pl


class Save(pl.Callback):
    last = None

    def on_train_epoch_end(self, trainer, pl_module):
        path = f"kept/run/epoch={trainer.current_epoch}.ckpt"
        trainer.save_checkpoint(path)
        trainer.save_checkpoint("kept/run/last.ckpt")
        if self.last not in (None, path):
            os.remove(self.last)
        self.last = path
"""
    resumed = (
        "    trainer.fit(net, data)",
        "    found = sorted(Path('kept/run').glob('*.ckpt'))\n"
        "    print('found', [path.name for path in found])\n"
        "    trainer.fit(net, data, ckpt_path=found[-1] if found else None)",
    )
    config = CONFIG.replace("callbacks: {}", "callbacks: {save: {_target_: save.Save}}")
    train = changed("train.py", ("import hydra\n", "import hydra\nfrom pathlib import Path\n"), resumed)
    project = stranger(train | {"save.py": saves, "configs/train.yaml": config})
    passed(project.check(items="fast_dev_run,overfit"), "fast_dev_run", "overfit")
    assert not (project.folder / "kept").exists()
    assert "found []" in project.run().output
    before, kept = project.files(), {path: path.read_bytes() for path in project.folder.glob("kept/run/*.ckpt")}
    done = project.check(items="paths,overfit,reproducibility")
    assert [done.verdict(item) for item in ("paths", "overfit", "reproducibility")] == ["failed", "passed", "passed"]
    assert project.files() == before
    assert {path: path.read_bytes() for path in kept} == kept
    assert "found ['epoch=2.ckpt', 'last.ckpt']" in project.run().output


def test_lightning_that_is_imported_in_main_is_the_one_that_the_project_uses(stranger):
    inside = TRAIN.replace("import pytorch_lightning as pl\n", "").replace("from net import Data, Net\n", "")
    inside = inside.replace(
        "    pl.seed_everything(0)",
        "    import pytorch_lightning as pl\n    from net import Data, Net\n\n    pl.seed_everything(0)",
    )
    passed(stranger(PLAIN | {"train.py": inside}).check(anew=True), "fast_dev_run", "trace")


def test_what_fails_under_an_item_alone_is_a_mistake_of_the_checklist(stranger):
    crash = """
        if torch.is_anomaly_enabled():
            raise RuntimeError("not like this")
        return self.loss(batch)"""
    project = stranger(
        changed(
            "net.py",
            (
                "    def training_step(self, batch):\n        return self.loss(batch)",
                "    def training_step(self, batch):" + crash,
            ),
        )
    )
    done = project.check(items="anomaly,overflow")
    assert (done.code, done.verdict("anomaly"), done.verdict("overflow")) == (2, "tool error", "passed"), done.output
    assert "not like this" in done.output


def test_data_that_refuse_to_train_on_one_batch_are_asked_for_two(stranger):
    endless = "        assert self.trainer.limit_train_batches > 1, 'the loaders have no end'\n"
    loader = "    def train_dataloader(self):\n"
    config = CONFIG.replace("max_epochs: 3,", "max_epochs: 3, limit_train_batches: 20, val_check_interval: 10,")
    files = changed("net.py", (loader, loader + endless), **{"configs/train.yaml": config})
    done = stranger(files).check(items="fast_dev_run")
    passed(done, "fast_dev_run")
    assert re.search("first loss .*ran train, validate, test", done.output)


def test_callback_that_refuses_fast_dev_run_is_given_limits_instead(stranger):
    saves = """
import pytorch_lightning as pl


class Images(pl.Callback):
    def on_train_start(self, trainer, pl_module):
        if trainer.fast_dev_run:
            raise RuntimeError("there is no logger in fast_dev_run")
"""
    config = CONFIG.replace("callbacks: {}", "callbacks: {images: {_target_: images.Images}}")
    project = stranger(PLAIN | {"images.py": saves, "configs/train.yaml": config})
    before = project.files()
    done = project.check(items="fast_dev_run,trace")
    passed(done, "fast_dev_run", "trace")
    assert re.search("ran train, validate, test", done.output)
    assert project.files() == before
    passed(project.run("+checklist=fast_dev_run"), "fast_dev_run")


def test_crash_that_a_logger_of_the_project_forestalls_without_an_item_is_the_projects(stranger):
    """`fast_dev_run` has a logger that takes every call, and comes to mistakes behind one that another refuses."""
    refused = "        self.logger.experiment.show()\n"
    crash = "    def test_step(self, batch):\n"
    later = stranger(
        changed(
            "net.py",
            ("    def validation_step(self, batch):\n", f"    def validation_step(self, batch):\n{refused}"),
            (crash, f"{crash}        raise ValueError('a mistake behind it')\n"),
        )
    ).check(items="fast_dev_run")
    assert (later.code, later.verdict("fast_dev_run")) == (1, "failed"), later.output
    assert "has no attribute 'show'" in later.output
    assert "python -m pdb -c continue train.py stops at the error" in later.output
    here = stranger(
        changed(
            "net.py",
            (
                "    def validation_step(self, batch):\n",
                f"    def validation_step(self, batch):\n{refused}        raise ValueError('a mistake behind it')\n",
            ),
        )
    ).check(items="fast_dev_run")
    assert (here.code, here.verdict("fast_dev_run")) == (1, "failed"), here.output
    assert "a mistake behind it" in here.output


def test_crash_of_the_training_step_is_the_projects_and_skips_what_needs_a_step(stranger):
    crash = "    def training_step(self, batch):\n        self.head(batch[0])"
    done = stranger(changed("net.py", ("    def training_step(self, batch):", crash))).check(
        items="fast_dev_run,limit_batches,trace"
    )
    assert done.code == 1
    assert [done.verdict(item) for item in ("fast_dev_run", "limit_batches", "trace")] == [
        "failed",
        "failed",
        "skipped",
    ]


def test_monitor_that_nobody_logs_is_the_projects_whichever_callback_says_so(stranger):
    """Without an item EarlyStopping would raise first, which items leave out."""
    callbacks = "[pl.callbacks.EarlyStopping('val/f1'), pl.callbacks.ModelCheckpoint(monitor='val/f1')]"
    project = stranger(
        changed("train.py", ("[instantiate(each) for each in cfg.callbacks.values()]", f"{callbacks} if cfg else []"))
    )
    done = project.check(items="trace,learning")
    assert done.code == 1, done.output
    assert (done.verdict("trace"), done.verdict("learning")) == ("failed", "failed")


def test_module_that_makes_its_datasets_in_setup_and_copies_itself_between_epochs(stranger):
    own = """
    def setup(self, stage):
        self.parts = Data()

    def train_dataloader(self):
        return self.parts.train_dataloader()

    def val_dataloader(self):
        return self.parts.val_dataloader()

    def test_dataloader(self):
        return self.parts.test_dataloader()

    def on_train_epoch_end(self):
        vars(self)["best"] = copy.deepcopy(self.head), copy.deepcopy(self.first)

    def configure_optimizers(self):"""
    project = stranger(
        changed(
            "net.py",
            ("    def configure_optimizers(self):", own),
            ("import torch\n", "import copy\n\nimport torch\n"),
        )
        | {"train.py": TRAIN.replace("(net, data)", "(net)")}
    )
    passed(project.check(items="overfit,gradients,learning"), "overfit", "gradients", "learning")


def test_copy_of_earlier_weights_inside_another_module_needs_no_gradient(stranger):
    """As a rollout baseline is, of which the optimizer holds the weights without a use for them."""
    baseline = """
class Baseline(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.inner = nn.ModuleDict({"net": copy.deepcopy(net)})

    @torch.no_grad()
    def forward(self, inputs):
        return self.inner["net"](inputs).mean()


class Net(pl.LightningModule):"""
    project = stranger(
        changed(
            "net.py",
            ("import torch\n", "import copy\n\nimport torch\n"),
            ("class Net(pl.LightningModule):", baseline),
            ("nn.Linear(32, 4)\n", "nn.Linear(32, 4)\n        self.baseline = Baseline(self.first)\n"),
            ("return functional.cross_entropy(", "return self.baseline(batch[0]) + functional.cross_entropy("),
        )
    )
    passed(project.check(items="trace,gradients"), "trace", "gradients")


def test_debugger_that_a_crash_is_answered_with_stops_at_the_error(stranger):
    crash = "    def training_step(self, batch):\n        raise LookupError('nothing')"
    project = stranger(changed("net.py", ("    def training_step(self, batch):", crash)))
    done = project.check(items="fast_dev_run")
    [command] = set(re.findall(r"HYDRA_FULL_ERROR=1 python (-m pdb -c continue .+?) stops at the error", done.output))
    environment = os.environ | {"HYDRA_FULL_ERROR": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    typed = [sys.executable, *shlex.split(command)]
    seen = subprocess.run(
        typed, cwd=project.folder, env=environment, input="p batch[0].shape\nq\n", text=True, stdout=-1
    )
    assert "torch.Size([16, 8])" in seen.stdout


def test_crash_of_the_projects_own_test_step_is_said_once_and_the_rest_goes_on(stranger):
    crash = ('        self.log("test/loss", self.loss(batch))', '        raise RuntimeError("no test for you")')
    done = stranger(changed("net.py", crash)).check(items="fast_dev_run,limit_batches,trace,gradients")
    assert done.code == 1
    assert done.verdict("fast_dev_run") == "failed"
    assert [done.verdict(item) for item in ("limit_batches", "trace", "gradients")] == ["passed"] * 3
    assert len(re.findall(r"^\w+ failed: .*no test for you", done.output, re.MULTILINE)) == 1


def test_steps_of_a_model_that_is_compiled_as_a_whole_leave_its_metrics_alone(stranger):
    """`torch.compile` of a LightningModule puts its compiled steps into the attributes of the module itself."""
    compiled = changed(
        "train.py", ("import hydra\n", "import hydra\nimport torch\n"), ("data = Net()", "data = torch.compile(Net())")
    )
    seen = "        loss = self.loss(batch)\n        self.seen.update(loss)\n        self.log('loss', self.seen)\n"
    project = stranger(
        changed(
            "net.py",
            ("import torch\n", "import torch\nimport torchmetrics\n"),
            ("        self.first,", "        self.seen = torchmetrics.MeanMetric()\n        self.first,"),
            ("training_step(self, batch):\n", f"training_step(self, batch):\n{seen}"),
        )
        | {"train.py": compiled["train.py"]}
    )
    passed(project.check(items="device,learning"), "device", "learning")


def test_model_that_the_project_pickles_while_it_trains(stranger):
    """A network among the hyperparameters is pickled into each checkpoint, in the middle of a run, with its hooks."""
    kept = "        pickle.dumps(self.hparams.head)\n        return self.loss(batch)\n\n    def validation_step"
    project = stranger(
        changed(
            "net.py",
            ("import torch\n", "import pickle\n\nimport torch\n"),
            ("lr=0.01):", "lr=0.01, head=nn.Linear(32, 4)):"),
            (
                "self.first, self.head = nn.Linear(8, 32), nn.Linear(32, 4)",
                "self.first, self.head = nn.Linear(8, 32), head",
            ),
            ("        return self.loss(batch)\n\n    def validation_step", kept),
        )
    )
    items = ("gradients", "overflow", "memory", "learning", "trace")
    passed(project.check(items=",".join(items)), *items)


@pytest.mark.parametrize("loader", ["train_dataloader", "val_dataloader"])
def test_loader_that_is_given_to_the_test_alone_is_looked_at(stranger, loader):
    """Which is the first that an item hears of it."""
    tested = "    trainer.test(net, data)\n"
    files = changed("train.py", (tested, f"    trainer.test(net, data.{loader}())\n"))
    files = {name: text.replace("def test_dataloader", "def of_testing") for name, text in files.items()}
    done = stranger(files).check(items="limit_batches")
    told = {"train_dataloader": "samples of test_dataloader are in the training set", "val_dataloader": "are those of"}
    assert told[loader] in done.output


def test_interval_of_validation_that_is_typed_is_no_longer_than_an_items_run(stranger):
    items = ("fast_dev_run", "trace", "gradients", "learning", "paths")
    done = stranger(PLAIN).check("++trainer.val_check_interval=10", items=",".join(items))
    assert "tool error" not in done.output
    passed(done, *items)


ODD = '''
from dataclasses import dataclass, field


@dataclass
class Batch:
    """What a batch may hold beside inputs and labels."""

    inputs: torch.Tensor
    labels: torch.Tensor
    boxes: list
    spectrum: torch.Tensor
    neighbours: torch.Tensor
    nothing: torch.Tensor
    names: list = field(default_factory=list)

    def __getitem__(self, number):
        return (self.inputs, self.labels)[number]


def collated(samples):
    inputs, labels = map(torch.stack, zip(*samples))
    lengths = (labels + 1) % 4
    return Batch(
        inputs,
        labels,
        [inputs[:1, :4].repeat(length, 1) for length in lengths.tolist()],
        torch.fft.rfft(inputs),
        torch.eye(len(inputs)).to_sparse(),
        torch.zeros(len(inputs), 0),
        [str(label) for label in labels],
    )


class Data(pl.LightningDataModule):'''
OF_ODD = """    def loss(self, batch):
        spectrum = batch.spectrum * self.filter
        inputs = batch.neighbours @ torch.fft.irfft(spectrum, n=8)
        return functional.cross_entropy(self(inputs), batch.labels)
"""


def test_batch_of_whatever_tensors_there_are_is_looked_at(stranger):
    """Without entries, sparse, complex, and ones of which each sample has as many as it likes."""
    files = changed(
        "net.py",
        ("\n\nclass Data(pl.LightningDataModule):", ODD),
        ("16, shuffle=shuffle)", "16, shuffle=shuffle, collate_fn=collated)"),
        (
            "        self.save_hyper",
            "        self.filter = nn.Parameter(torch.ones(5, dtype=torch.cfloat))\n        self.save_hyper",
        ),
        ("    def loss(self, batch):\n        return functional.cross_entropy(self(batch[0]), batch[1])\n", OF_ODD),
    )
    items = ("device", "limit_batches", "trace", "gradients", "memory", "overfit", "learning")
    passed(stranger(files).check(items=",".join(items)), *items)


def test_sweeper_and_launcher_that_are_not_installed_and_that_the_command_replaces(stranger):
    """As the basic ones stand in the place of Optuna and of Submitit."""
    lines = "".join(f"  - override hydra/{part}: not_installed\n" for part in ("sweeper", "launcher"))
    project = stranger(PLAIN | {"configs/train.yaml": f"defaults:\n  - _self_\n{lines}{CONFIG}"})
    done = project.check("hydra/sweeper=basic", "hydra/launcher=basic", items="config,gradients")
    passed(done, "config", "gradients")


def test_checkpoint_callback_of_a_training_is_asked_for_its_files_after_a_test(stranger):
    """A test makes another one, where `configure_callbacks` gives it."""
    lines = """    def configure_callbacks(self):
        return [pl.callbacks.ModelCheckpoint(monitor="val/loss")]

    def configure_optimizers"""
    done = stranger(changed("net.py", ("    def configure_optimizers", lines))).check(items="paths")
    assert "no checkpoint was written" not in done.output
    assert done.verdict("paths") == "passed", done.output


def test_what_a_program_needs_of_its_tests_is_no_fault_of_its_ranks(stranger):
    """`distributed` leaves tests out; what they bring about in one process says nothing of several."""
    files = changed(
        "train.py",
        (
            "    trainer.test(net, data)\n",
            "    if cfg.test:\n        tested = trainer.test(net, data)\n    print(tested)\n",
        ),
    )
    files["configs/train.yaml"] += "test: true\n"
    project = stranger(files)
    passed(project.check(items="distributed"), "distributed")
    passed(project.check("++trainer.devices=2", items="distributed"), "distributed")
    done = project.check("++trainer.devices=2", "test=false", items="distributed")
    assert done.verdict("distributed") == "failed", done.output


def test_test_step_has_its_batch_in_the_precision_of_the_trainer(stranger):
    done = stranger(PLAIN).check("++trainer.precision=64-true", items="device")
    passed(done, "device")
    assert "ended early" not in done.output


def test_what_a_batch_lists_for_each_sample_is_moved_with_it(stranger):
    """A step may make its targets of lists of plain values, and what else belongs to a sample of an array."""
    files = changed(
        "net.py",
        (
            "class Data(pl",
            "def collated(samples):\n    inputs, labels = zip(*samples)\n"
            "    return {'inputs': torch.stack(inputs), 'labels': [int(label) for label in labels]}\n\n\nclass Data(pl",
        ),
        ("16, shuffle=shuffle)", "16, shuffle=shuffle, collate_fn=collated)"),
        ("self(batch[0]), batch[1])", "self(batch['inputs']), torch.tensor(batch['labels'], device=self.device))"),
    )
    items = ("device", "limit_batches", "trace", "gradients", "overfit", "learning")
    passed(stranger(files).check(items=",".join(items)), *items)


def test_checkpoints_of_a_training_are_known_after_another_one_has_been_loaded(stranger):
    """It sets each callback back to what it knew when that one was saved."""
    kept = """    callbacks = [instantiate(each) for each in cfg.callbacks.values()]
    callbacks.append(pl.callbacks.ModelCheckpoint(f"{cfg.folder}/best", monitor="val/loss"))
    callbacks.append(pl.callbacks.ModelCheckpoint(f"{cfg.folder}/every", every_n_train_steps=20, save_top_k=-1))
"""
    files = changed(
        "train.py",
        ("    callbacks = [instantiate(each) for each in cfg.callbacks.values()]\n", kept),
        ("trainer.test(net, data)", "trainer.test(net, data, ckpt_path='best')"),
    )
    assert "no checkpoint was written" not in stranger(files).check(items="paths").output


def test_program_that_changes_the_directory_before_it_starts_is_repeated(stranger):
    ends = "    os.chdir(os.path.dirname(os.path.abspath(__file__)))\n    main()\n"
    files = changed("train.py", ("import hydra\n", "import os\n\nimport hydra\n"), ("    main()\n", ends))
    project = stranger({f"src/{name}": text for name, text in files.items()})
    passed(project.check(items="reproducibility", program="src/train.py", anew=True), "reproducibility")


def test_key_that_code_reads_of_a_container_is_no_argument_without_effect(stranger):
    """The class must take it: it is built of all keys of the container."""
    built = """    net_config = OmegaConf.to_container(cfg.net)
    print(net_config['label'])
    net, data = instantiate(net_config), Data()
"""
    files = changed(
        "train.py",
        ("    net, data = Net(), Data()\n", built),
        ("from net import Data, Net\n", "from net import Data\nfrom omegaconf import OmegaConf\n"),
    )
    files["configs/train.yaml"] += "net: {_target_: net.Net, lr: 0.01, label: small}\n"
    files["net.py"] = (
        files["net.py"]
        .replace("lr=0.01):", "lr, label):")
        .replace("save_hyperparameters()", "save_hyperparameters('lr')")
    )
    passed(stranger(files).check(items="fast_dev_run"), "fast_dev_run")


def test_what_only_several_processes_would_harm_is_remarked_where_a_project_has_one(stranger):
    """Weights that begin with what each rank's first batch is like, say."""
    begun = """    def on_train_batch_start(self, batch, batch_idx):
        if not self.global_step:
            with torch.no_grad():
                self.head.bias.copy_(batch[0].mean().expand(4))

    def configure_optimizers"""
    project = stranger(changed("net.py", ("    def configure_optimizers", begun)))
    done = project.check(items="distributed,trace")
    passed(done, "distributed", "trace")
    assert "distributed/weights-differ" in done.output
    assert project.run("+checklist=distributed").verdict("distributed") == "failed"


@pytest.mark.parametrize(("given", "verdict"), [("", "warning"), (", lr=self.hparams.lr / 2", "passed")])
def test_rate_that_is_saved_and_that_no_code_reads_is_told(stranger, given, verdict):
    files = changed("train.py", ("Net()", "Net(0.5)"))
    files["net.py"] = files["net.py"].replace("lr=0.01):", "lr):").replace(", lr=self.hparams.lr", given)
    done = stranger(files).check(items="fast_dev_run")
    assert done.verdict("fast_dev_run") == verdict, done.output
    assert ("saves lr=0.5, which no code reads" in done.output) is (verdict == "warning")


def test_what_only_another_rank_ends_with_is_remarked_where_a_project_has_one_process(stranger):
    """What prepare_data keeps on the first rank, say."""
    raising = """    def on_train_start(self):
        if self.global_rank:
            raise ValueError("no luck")

    def configure_optimizers"""
    project = stranger(changed("net.py", ("    def configure_optimizers", raising)))
    done = project.check(items="distributed,trace")
    passed(done, "trace")
    assert done.verdict("distributed") == "skipped"
    assert "this project runs in one process; in several it ends with ValueError" in done.output
    assert project.run("+checklist=distributed").verdict("distributed") == "failed"


def test_criteria_are_given_nothing_where_a_batch_has_nothing_for_them(stranger):
    """As a loss of boxes is, for an image without any."""
    boxed = """
    def loss(self, batch):
        answers, loss = self(batch[0]), 0.0
        for number in range(6):
            here = batch[1] == number
            loss = loss + functional.smooth_l1_loss(answers[here], batch[0][here, :4], reduction="sum") / 16
            loss = loss + functional.cross_entropy(answers[here], batch[1][here], reduction="sum") / 16
        return loss

    def training_step"""
    project = stranger(changed("net.py", ("\n    def training_step", boxed)))
    items = ("fast_dev_run", "limit_batches", "trace", "overfit", "learning", "gradients", "gradcheck", "device")
    passed(project.check(items=",".join(items)), *items)


def test_test_data_that_no_code_reads_are_not_judged(stranger):
    net = PLAIN["net.py"].replace(
        '    def test_step(self, batch):\n        self.log("test/loss", self.loss(batch))\n', ""
    )
    net = net.replace("return self.part(3)", "return self.part(1)")
    for added, verdict in (("", "passed"), ("    print(len(list(data.test_dataloader())))\n", "failed")):
        code = TRAIN.replace("    trainer.test(net, data)\n", added)
        done = stranger(PLAIN | {"net.py": net, "train.py": code}).check(items="limit_batches")
        assert done.verdict("limit_batches") == verdict, done.output


def test_what_a_step_drives_past_lightning_is_not_said_to_have_passed(stranger):
    step = """
    def training_step(self, batch):
        optimizer = self.configure_optimizers()
        optimizer.zero_grad()
        self.loss(batch).backward()
        optimizer.step()
"""
    init = (
        "        self.save_hyperparameters()\n",
        "        self.automatic_optimization = False\n        self.save_hyperparameters()\n",
    )
    files = changed("net.py", ("\n    def training_step(self, batch):\n        return self.loss(batch)\n", step), init)
    done = stranger(files).check(items="gradients,overflow")
    assert [done.verdict(item) for item in ("gradients", "overflow")] == ["skipped", "skipped"], done.output


def test_folder_that_a_network_makes_for_itself_is_gone_after_each_item(stranger):
    """It has the time in its name, to the second: the next item's would be the same."""
    made = "        self.save_hyperparameters()\n        os.makedirs('results/of_now')\n"
    files = changed("net.py", ("        self.save_hyperparameters()\n", made))
    project = stranger(files | {"net.py": f"import os\n{files['net.py']}"})
    before = project.files()
    passed(project.check(items="config,limit_batches,trace,overfit"), "config", "limit_batches", "trace", "overfit")
    assert project.files() == before
    assert not (project.folder / "results").exists()


def test_classes_of_tasks_that_are_learned_one_after_the_other_are_no_unseen_ones(stranger):
    """The replay of earlier samples draws from a generator of its own, so that no step gives the same loss twice."""
    replayed = """
    def training_step(self, batch):
        old = self.kept[torch.randint(0, 64, (8,), generator=self.drawn)]
        return self.loss(batch) + functional.mse_loss(self(old), self.answers[:8])
"""
    kept = """        self.save_hyperparameters()
        self.drawn = torch.Generator().manual_seed(0)
        self.register_buffer("kept", torch.randn(64, 8))
        self.register_buffer("answers", torch.randn(64, 4))
"""
    net = changed(
        "net.py",
        ("\n    def training_step(self, batch):\n        return self.loss(batch)\n", replayed),
        ("        self.save_hyperparameters()\n", kept),
        ("        labels = torch.arange(160) % 4", "        labels = torch.arange(160) % 2 + self.first"),
        ("    def part(self", "    first = 0\n\n    def part(self"),
        (
            "return self.part(3)",
            "return [self.part(3), Data.other().part(3)]\n\n    @classmethod\n    def other(cls):\n"
            "        made = cls()\n        made.first = 2\n        return made",
        ),
        ("def test_step(self, batch):", "def test_step(self, batch, batch_idx, dataloader_idx=0):"),
    )
    fits = "    for data.first in (0, 2):\n        trainer = pl.Trainer(**cfg.trainer, default_root_dir=cfg.folder)\n"
    fits += "        trainer.fit(net, data)\n"
    files = changed("train.py", ("    trainer.fit(net, data)\n", fits)) | {"net.py": net["net.py"]}
    passed(stranger(files).check(items="limit_batches,gradcheck"), "limit_batches", "gradcheck")


def test_second_view_where_other_splits_have_labels_is_another_part_of_a_sample(stranger):
    views = """
    def training_step(self, batch):
        one, other = (functional.normalize(self(each), dim=1) for each in batch)
        return 1 + functional.cross_entropy(5 * one @ other.T, torch.arange(len(one)))
"""
    paired = "        if shuffle:\n            inputs = (inputs - inputs.mean()) / inputs.std()\n"
    paired += (
        "            return DataLoader(TensorDataset(inputs, inputs + 0.1 * torch.randn(160, 8)), 16, shuffle=True)\n"
    )
    files = changed(
        "net.py",
        ("\n    def training_step(self, batch):\n        return self.loss(batch)\n", views),
        ("        return DataLoader(TensorDataset((", f"{paired}        return DataLoader(TensorDataset(("),
    )
    done = stranger(files).check(items="limit_batches")
    assert "[data/form-varies]" not in done.output, done.output


def test_folder_that_a_logger_names_by_the_id_of_the_run_is_shared_by_no_other_run(stranger):
    logger = """
class Service(pl.loggers.logger.DummyLogger):
    @property
    def save_dir(self):
        return "service"

    @property
    def name(self):
        return "project"

    @property
    def version(self):
        return self.id

    id = uuid.uuid4().hex[:8]


@hydra"""
    files = changed(
        "train.py",
        ("\n@hydra", logger),
        ("import hydra\n", "import uuid\n\nimport hydra\n"),
        ("callbacks=callbacks,", "callbacks=callbacks, logger=Service(),"),
    )
    done = stranger(files).check(items="paths")
    passed(done, "paths")
    assert "the id" in done.output.replace("\n", " ") or "its id" in done.output.replace("\n", " ")


def test_folder_that_is_named_as_the_run_is_shared_by_no_other_run(stranger):
    config = CONFIG + "run_name: first\nhydra: {run: {dir: 'logs/hydra/${run_name}'}}\n"
    logger = "callbacks=callbacks, logger=pl.loggers.CSVLogger('logs/csv', cfg.run_name, ''),"
    files = changed("train.py", ("callbacks=callbacks,", logger)) | {"configs/train.yaml": config}
    done = stranger(files).check(items="paths")
    assert "remark: CSVLogger" in done.output, done.output


def test_fields_of_a_batch_in_the_order_of_a_set_are_the_same_samples(stranger):
    net = changed(
        "net.py",
        ("16, shuffle=shuffle)", "16, shuffle=shuffle, collate_fn=fields)"),
        (
            "class Net(",
            "def fields(pairs):\n    made = dict(zip(('x', 'y'), map(torch.stack, zip(*pairs))))\n"
            "    return {name: made[name] for name in {'x', 'y'}}\n\n\nclass Net(",
        ),
        ("self(batch[0]), batch[1]", "self(batch['x']), batch['y']"),
    )
    for _ in range(3):
        passed(stranger(net).check(items="reproducibility"), "reproducibility")


def test_item_that_has_judged_nothing_has_passed_nothing_whatever_its_script_misses_then(stranger):
    """A script asks for the score of checkpoints, which `overfit` leaves out, and its optimizers work by hand."""
    by_hand = """
    def training_step(self, batch):
        for optimizer in self.optimizers():
            optimizer.zero_grad()
            self.manual_backward(self.loss(batch))
            optimizer.step()

    def configure_optimizers(self):
        return [torch.optim.SGD(self.parameters(), lr=0.1) for _ in range(2)]

    def configured"""
    net = changed(
        "net.py",
        (
            "        self.save_hyperparameters()\n",
            "        self.save_hyperparameters()\n        self.automatic_optimization = False\n",
        ),
        ("\n    def training_step(self, batch):\n        return self.loss(batch)\n", ""),
        ("\n    def configure_optimizers", by_hand),
    )["net.py"]
    train = TRAIN.replace(
        "in cfg.callbacks.values()]",
        "in cfg.callbacks.values()]\n    best = pl.callbacks.ModelCheckpoint(monitor='val/loss')",
    )
    train = train.replace("callbacks=callbacks", "callbacks=[*callbacks, best]").replace(
        "    trainer.test(net, data)", "    print(float(best.best_model_score))"
    )
    done = stranger(PLAIN | {"net.py": net, "train.py": train}).check(items="overfit")
    assert done.verdict("overfit") == "skipped", done.output


def test_seed_that_code_asks_a_config_for_is_to_be_given(stranger):
    code = TRAIN.replace(
        "pl.seed_everything(0)", 'if cfg.get("seed"):\n        pl.seed_everything(cfg.seed, workers=True)'
    )
    done = stranger(PLAIN | {"train.py": code}).check(items="reproducibility")
    assert "train.py +checklist=reproducibility +seed=42" in " ".join(done.output.split()), done.output


@pytest.mark.parametrize("test", ["true", "false"])
def test_test_set_without_samples_is_told_where_the_config_asks_for_tests(stranger, test):
    net = changed(
        "net.py",
        ("return self.part(3)", "return DataLoader(TensorDataset(torch.zeros(0, 8), torch.zeros(0).long()), 16)"),
    )
    code = TRAIN.replace("    trainer.test(net, data)\n", "    if cfg.test:\n        trainer.test(net, data)\n")
    done = stranger(net | {"train.py": code, "configs/train.yaml": CONFIG + f"test: {test}\n"}).check(
        items="limit_batches"
    )
    assert ("test_dataloader has no batch: 0 samples" in done.output) is (test == "true"), done.output


def test_crash_of_validation_is_told_and_not_what_a_schedule_of_few_steps_raises(stranger):
    """A crash is looked for once more without the item, in a run as short as the item's."""
    optimizer = (
        "        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)\n",
        """        optimizer = torch.optim.Adam(self.parameters(), lr=self.hparams.lr)
        steps = int(self.trainer.estimated_stepping_batches)
        return [optimizer], [torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=steps, pct_start=0.2)]
""",
    )
    crash = (
        '        self.log("val/loss", self.loss(batch))\n',
        "        torch.autograd.grad(self.loss(batch), self.head.weight)\n",
    )
    done = stranger(changed("net.py", optimizer, crash)).check(items="limit_batches")
    assert "crash/detached" in done.output, done.output
    assert "ZeroDivisionError" not in done.output


def test_checkpoint_that_a_script_removes_before_it_trains_is_put_back_among_data(stranger):
    removed = """    weights = pathlib.Path("data/weights")
    for old in weights.glob("best*.ckpt"):
        old.unlink()
    trainer.fit(net, data)
"""
    code = "import pathlib\n" + TRAIN.replace("    trainer.fit(net, data)\n", removed)
    weights = "the best of all" * 2**17  # more than what is small enough to be notes
    project = stranger(PLAIN | {"train.py": code, "data/weights/best.ckpt": weights})
    passed(project.check(items="fast_dev_run"), "fast_dev_run")
    assert (project.folder / "data/weights/best.ckpt").read_text() == weights


def test_validation_that_the_project_has_switched_off_is_not_run(stranger):
    step = "    def validation_step(self, batch):\n"
    code = changed("net.py", (step, f"{step}        raise RuntimeError('nobody validates')\n"))
    items = ["limit_batches", "trace", "anomaly", "paths", "gradients", "memory", "overfit", "learning"]
    passed(stranger(code).check("+trainer.limit_val_batches=0", items=",".join(items)), *items)


def test_check_that_is_ended_leaves_no_repetition_that_trains_on(stranger):
    """Nor does it write on, when all files are put back already."""
    waits = "        if batch_idx:\n            import time\n            time.sleep(600)\n"
    code = changed(
        "net.py", ("    def training_step(self, batch):\n", f"    def training_step(self, batch, batch_idx):\n{waits}")
    )
    project = stranger(code)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "train.py", "+checklist=reproducibility"]
    with subprocess.Popen(command, cwd=project.folder, env=environment, stdout=subprocess.DEVNULL) as process:
        while not (notes := [*project.folder.rglob("*.started")]):
            assert process.poll() is None
        repetition = int(notes[0].read_text())
        process.terminate()
        time.sleep(0.3)
        process.terminate()  # as `timeout` does, to the process and to its group
    assert has_ended(repetition)
    assert not [*project.folder.rglob(".reproducibility-*")]
