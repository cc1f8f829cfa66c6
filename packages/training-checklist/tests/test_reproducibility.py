import importlib
import inspect
import random
import re
from copy import deepcopy
from pathlib import Path

import numpy
import pytest
import torch
from hydra.core.utils import JobReturn, JobStatus
from omegaconf import OmegaConf
from own_project import run_project
from pytorch_lightning import Trainer, seed_everything
from pytorch_lightning.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate, get_worker_info, random_split
from training_checklist.engines.fingerprints import rows_of
from training_checklist.engines.salted import salted
from training_checklist.engines.unseeded import unseeded
from training_checklist.experiments.reproducibility.repetition import Repetition
from training_checklist.experiments.reproducibility.reproducibility import Reproducibility
from training_checklist.finding import FAILED, PASSED, Place
from training_checklist.lab.seeded_runs import SeededRuns, TwoRuns, made
from training_checklist.probe import CannotJudge
from training_checklist.probes.data.workers_read_the_same import PROBE as READ_THE_SAME
from training_checklist.probes.reproducibility import other_samples

PROJECT = {
    "train.py": """
import hydra
import pytorch_lightning as pl
import torch
from hydra.utils import instantiate
from torch import nn


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 4)

    def training_step(self, batch, batch_idx):
        return nn.functional.cross_entropy(self.head(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


@hydra.main(version_base="1.3", config_path="conf", config_name="train")
def main(cfg):
    pl.seed_everything(cfg.seed, workers=True, verbose=False)
    net = Net()
    data = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.arange(64) % 4)
    callbacks = [instantiate(each) for each in cfg.callbacks.values()]
    trainer = pl.Trainer(**cfg.trainer, callbacks=callbacks, default_root_dir=cfg.output_dir)
    trainer.fit(net, torch.utils.data.DataLoader(data, batch_size=8, shuffle=True))


main()
""",
    "conf/train.yaml": """
defaults: [_self_, {debug: null}]
seed: 1
output_dir: ${hydra:runtime.output_dir}
callbacks:
  checkpoint: {_target_: pytorch_lightning.callbacks.ModelCheckpoint}
trainer: {accelerator: cpu, enable_progress_bar: false, enable_model_summary: false, logger: false}
""",
}


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.bfloat16, torch.complex64], ids=str)
def test_tensors_of_every_type_are_compared(dtype):
    [row] = rows_of("batch", 0, {"mask": torch.ones(4).to(dtype)})
    assert row.digest != rows_of("batch", 0, {"mask": torch.zeros(4).to(dtype)})[0].digest
    assert row.norm == 2


@pytest.fixture
def twice(examine, tmp_path, monkeypatch):
    """`twice(make, make_data)`: the verdict on two runs in this process, where each builds its module and data anew."""

    def run(make, make_data=lambda: None, **trainer):
        for repeated in (True, False):
            repetition = Repetition(timeout=0, repeated=repeated)
            repetition.config, repetition.folder = OmegaConf.create({"hydra": {}}), tmp_path
            monkeypatch.setattr(Repetition, "current", repetition)
            if repeated:
                (tmp_path / "again").mkdir()
                (tmp_path / "debug").symlink_to(tmp_path / "again" / "debug")
                (tmp_path / "again" / "debug").mkdir()
            torch.manual_seed(0)
            verdict = examine("reproducibility", make(), make_data(), **trainer)
        return verdict

    return run


def found(verdict):
    assert verdict.status == "failed"
    [finding] = verdict.findings
    return finding


def test_lazy_layer_that_is_never_called_keeps_a_run_from_being_resumed(twice, net, data):
    class Waiting(net):
        def __init__(self):
            super().__init__()
            self.never = nn.LazyLinear(4)

    finding = found(twice(Waiting, data, enable_checkpointing=True))
    assert (finding.rule, finding.what.rpartition(".")[2]) == (
        "reproducibility/pickled-objects",
        "UninitializedParameter",
    )
    assert finding.fix.advice == "call the lazy layer, which no batch has reached, or remove it"


def test_what_fails_in_a_repetition_is_a_mistake_of_the_checklist(tmp_path, monkeypatch):
    repetition, check = Repetition(timeout=0, repeated=False), Reproducibility()
    repetition.threads, repetition.saved, check.step = torch.get_num_threads(), tmp_path / "first_epoch.ckpt", 1
    monkeypatch.setattr(Repetition, "current", repetition)
    repetition.on_job_end(None, JobReturn(status=JobStatus.COMPLETED))  # without the config that it resumes with
    with pytest.raises(AttributeError):
        check.conclude(tmp_path)


def test_a_training_function_that_ends_with_an_exit_is_repeated(tmp_path):
    train = PROJECT["train.py"].replace("\n\n\nmain()", "\n    raise SystemExit(0)\n\n\nmain()")
    [verdict] = run_project(tmp_path, "reproducibility", PROJECT | {"train.py": train})
    assert "equal in both runs" in verdict["seen"]


def test_a_seed_of_hash_is_none_though_lightning_prints_it(tmp_path):
    train = PROJECT["train.py"].replace("seed_everything(cfg.seed", "seed_everything(hash(str(cfg.seed)) % 2**31")
    train = train.replace("verbose=False", "verbose=True")
    [verdict] = run_project(tmp_path, "reproducibility", PROJECT | {"train.py": train})
    place = verdict["findings"][0]["place"]
    assert (verdict["verdict"], verdict["findings"][0]["rule"]) == ("failed", "reproducibility/no-seed")
    assert "hash(str(cfg.seed))" in place["source"]
    assert "hash() of a text" in verdict["findings"][0]["why"]
    assert "zlib.crc32" in verdict["findings"][0]["fix"]


@pytest.mark.parametrize(("line", "fix"), [("cfg.seed and pl.seed_everything(cfg.seed)", "seed=42"), ("", "cfg.seed,")])
def test_key_of_a_seed_is_set_where_something_sets_a_seed(tmp_path, line, fix):
    code = re.sub(r"pl\.seed_everything\(.*\)", line, PROJECT["train.py"])
    [verdict] = run_project(tmp_path, "reproducibility", PROJECT | {"train.py": code}, "seed=null")
    [finding] = verdict["findings"]
    assert finding["rule"] == "reproducibility/no-seed"
    assert fix in finding["fix"]


def test_missing_seed_and_lost_state_are_named_with_the_first_tensor(tmp_path):
    seed_everything(3)  # as something else in this process may have: it is not this run's
    unseeded = PROJECT["train.py"].replace("    pl.seed_everything", "    0 and pl.seed_everything")
    forgetful = unseeded.replace(
        "    def configure_optimizers",
        "    def on_load_checkpoint(self, checkpoint):\n"
        "        checkpoint['state_dict']['head.bias'] *= 0\n\n"
        "    def on_train_start(self):\n"
        "        nn.init.zeros_(self.head.weight)\n\n"
        "    def configure_optimizers",
    )
    unordered = forgetful.replace(
        "    def configure_optimizers", "    names = list({'a', 'b'})\n\n    def configure_optimizers"
    )
    [verdict] = run_project(tmp_path, "reproducibility", PROJECT | {"train.py": unordered})
    weights, resumed = verdict["findings"]
    assert weights["rule"] == "reproducibility/no-seed"
    assert (weights["place"].get("line"), "a process begins with a seed" in weights["why"]) == (None, True)
    assert weights["what"].startswith("although the config has seed=1, no seed is set")
    assert {name: weights["place"][name] for name in ("key", "value", "parameter")} == {
        "key": "seed",
        "value": "1",
        "parameter": "head.weight",
    }
    assert resumed["rule"] == "reproducibility/state-not-restored"
    assert "head.weight, head.bias" in resumed["what"]
    assert resumed["place"]["parameter"] == "head.weight"


COUNTING = PROJECT["train.py"].replace(
    "        return nn.functional.cross_entropy(self.head(batch[0]), batch[1])",
    "        self.seen += 1\n"
    "        logits = self.head(nn.functional.dropout(batch[0]))\n"
    "        return nn.functional.cross_entropy(logits, batch[1]) + {use} * logits.square().mean()",
)


def counting(use):
    return COUNTING.replace("{use}", use).replace("super().__init__()", "super().__init__()\n        self.seen = 0")


def test_counter_that_a_checkpoint_does_not_hold_is_named(tmp_path):
    script = counting("max(0, 1 - self.seen / 50)")
    [verdict] = run_project(tmp_path, "reproducibility", PROJECT | {"train.py": script})
    [finding] = verdict["findings"]
    assert (finding["rule"], finding["severity"]) == ("reproducibility/attribute-not-saved", "failed")
    assert finding["where"] == "Net.seen is 4 without interruption and 0 here"


def test_what_fails_after_a_resumed_fit_is_none_of_the_checkpoint(tmp_path):
    script = PROJECT["train.py"].replace(
        "    def configure_optimizers",
        "    def on_train_start(self):\n"
        "        self.trainer.should_stop = self.global_step > 0\n\n"
        "    def configure_optimizers",
    )
    script = script.replace(
        "\n\n\nmain()",
        "\n    trainer._checkpoint_connector._parse_ckpt_path("
        "pl.trainer.states.TrainerFn.TESTING, 'best', model_provided=True, model_connected=True)\n\n\nmain()",
    )
    [verdict] = run_project(tmp_path, "reproducibility", PROJECT | {"train.py": script})
    assert (verdict["verdict"], verdict["findings"]) == ("passed", [])
    assert "the resumed run did not come to a step" in verdict["seen"]


@pytest.mark.slow
def test_counter_that_training_does_not_depend_on_is_no_finding(tmp_path):
    script = counting("1 / (1 + self.global_step)")
    [verdict] = run_project(tmp_path, "reproducibility", PROJECT | {"train.py": script})
    assert verdict["findings"] == []
    assert verdict["seen"].endswith("4 further steps equal")


class TestTwoRuns:
    def test_healthy_network_passes(self, twice, net):
        verdict = twice(net)
        assert verdict.status == "passed"
        assert verdict.seen.startswith("8 steps, ")

    def test_batch_whose_keys_hold_addresses_is_no_other_one(self, twice, net, data):
        class Keyed(net):
            def training_step(self, batch, batch_idx):
                return self.loss([*batch.values()])

        class Terms(data):
            def train_dataloader(self):
                keys = [f"input of {self}", f"target of {object()}"]
                loader = super().train_dataloader()
                loader.collate_fn = lambda rows: dict(zip(keys, default_collate(rows), strict=True))
                return loader

        assert twice(Keyed, Terms).status == PASSED

    def test_weights_from_elsewhere(self, twice, net):
        class Drawn(net):
            def __init__(self):
                super().__init__()
                self.head.weight.data = torch.from_numpy(numpy.random.default_rng().normal(size=(4, 32))).float()

        finding = found(twice(Drawn))
        assert (finding.rule, finding.place.parameter) == ("reproducibility/initial-weights-differ", "head.weight")
        assert "1 of 4 tensors" in finding.what

    def test_order_of_samples(self, twice, net, data):
        class Ordered(data):
            def train_dataloader(self):
                generator = torch.Generator()
                generator.seed()
                return DataLoader(self.part(1), self.batch_size, shuffle=True, generator=generator)

        finding = found(twice(net, Ordered))
        assert (finding.rule, finding.where) == ("reproducibility/other-samples", "train_dataloader, batch 0")
        assert "samplers draw other positions" in finding.what

    def test_split_without_a_seed_is_told_from_augmentation(self, twice, net, data):
        class Split(data):
            def train_dataloader(self):
                generator = torch.Generator()
                generator.seed()
                return DataLoader(random_split(self.part(1), [64, 96], generator)[0], self.batch_size)

        finding = found(twice(net, Split))
        assert (finding.rule, finding.place.batch) == ("reproducibility/other-samples", 0)
        assert "other samples stand there" in finding.why

    def test_positions_that_follow_from_other_values_are_none_of_the_samplers(self, twice, net, data):
        class Split(data):
            def train_dataloader(self):
                generator = torch.Generator()
                generator.seed()
                return DataLoader(random_split(self.part(1), [64, 96], generator)[0], self.batch_size, shuffle=True)

        class Drawing(net):
            def training_step(self, batch, batch_idx):
                torch.rand(int(batch[0].abs().sum() * 1000) % 997)  # another count for other values
                return super().training_step(batch, batch_idx)

        finding = found(twice(Drawing, Split))
        assert (finding.rule, finding.place.batch) == ("reproducibility/other-samples", 0)
        assert "draw the same positions" in finding.what

    def test_iterable_data_that_come_in_another_order(self, twice, net, data):
        class Streamed(data):
            def train_dataloader(self):
                return DataLoader(Stream(self.part(1)), self.batch_size)

        finding = found(twice(net, Streamed))
        assert (finding.rule, finding.place.batch) == ("reproducibility/other-samples", 0)
        assert "iterable" in finding.what

    def test_augmentation_from_a_generator_without_a_seed(self, twice, net, data):
        class Noisy(data):
            def train_dataloader(self):
                return DataLoader(Augmented(self.part(1), numpy.random.default_rng()), self.batch_size)

        finding = found(twice(net, Noisy))
        assert finding.rule == "reproducibility/other-samples"
        assert finding.where == "train_dataloader, batch 0, Augmented.rng (Generator)"
        assert "a generator of its own" in finding.why

    def test_noise_in_the_network_is_named_with_its_line(self, twice, net):
        own = random.Random()

        class Noisy(net):
            def forward(self, inputs):
                hidden = torch.relu(self.first(inputs))
                return self.head(hidden * own.random())

        finding = found(twice(Noisy))
        assert "the first operation with another result is mul" in finding.what
        assert (finding.rule, finding.place.module) == ("reproducibility/steps-differ", "Noisy")
        assert finding.place.source == "return self.head(hidden * own.random())"

    def test_noise_on_gradients(self, twice, net):
        class Noisy(net):
            def on_after_backward(self):
                self.first.weight.grad *= random.SystemRandom().random()

        finding = found(twice(Noisy))
        assert (finding.rule, finding.place.parameter) == ("reproducibility/steps-differ", "first.weight")
        assert finding.place.function.endswith("Noisy.on_after_backward")

    def test_step_that_takes_the_batch_alone_is_given_that(self, twice, net):
        class Short(net):
            def training_step(self, batch):
                return self.loss(batch)

        assert twice(Short, enable_checkpointing=True).status == "passed"

    def test_two_fits_of_copies_are_compared_where_there_is_no_command_to_repeat(self, net, data, tmp_path):
        module, checks = net(), [Reproducibility(["reproducibility"]) for _ in range(2)]
        options = {"accelerator": "cpu", "max_epochs": 2, "limit_train_batches": 2, "default_root_dir": tmp_path}
        for check in checks:
            seed_everything(0, verbose=False)
            Trainer(**options, logger=False, callbacks=[check]).fit(deepcopy(module), datamodule=data())
        first, second = checks
        second.other = first.recording
        second.conclude(tmp_path)
        verdict = second.verdict("")
        assert verdict.status == "passed"
        assert "copies of one network" in verdict.unjudged["reproducibility/initial-weights-differ"]

    def test_memory_that_nobody_has_written_is_no_difference(self, twice, net):
        class Allocating(net):
            def forward(self, inputs):
                room = torch.empty(64)[:32]
                return super().forward(inputs) + 0 * room.isnan().sum()

        assert twice(Allocating).status == "passed"


class TestCheckpoint:
    def test_pickled_classes_are_named_with_their_key(self, twice, net):
        class Configured(net):
            def on_save_checkpoint(self, checkpoint):
                checkpoint["settings"] = {"net": OmegaConf.create({"width": 3})}

        finding = found(twice(Configured, enable_checkpointing=True))
        assert finding.rule == "reproducibility/pickled-objects"
        assert finding.what.startswith("checkpoints hold pickled objects: omegaconf")
        assert finding.where == "settings.net (omegaconf.dictconfig.DictConfig)"

    @pytest.mark.parametrize(("module", "status"), [(__name__, FAILED), ("torchmetrics.metric", PASSED)])
    def test_classes_that_a_librarys_module_keeps_are_a_remark(self, twice, net, module, status):
        class Published(net):
            __module__ = module

            def __init__(self):
                super().__init__()
                self.save_hyperparameters({"net": OmegaConf.create({"width": 3})})

        verdict = twice(Published, enable_checkpointing=True)
        [finding] = verdict.findings
        assert (finding.rule, verdict.status) == ("reproducibility/pickled-objects", status)

    def test_weights_only(self, twice, net, monkeypatch):
        monkeypatch.setattr(ModelCheckpoint, "save_weights_only", property(lambda self: True, lambda *_: None), False)
        assert found(twice(net, enable_checkpointing=True)).rule == "reproducibility/weights-only"

    def test_run_without_checkpoints_leaves_their_rules_without_a_verdict(self, twice, net):
        unjudged = twice(net).unjudged
        assert unjudged["reproducibility/weights-only"] == "the run keeps no checkpoint"
        assert "reproducibility/state-not-restored" in unjudged


class Augmented(Dataset):
    def __init__(self, samples, rng):
        self.samples, self.rng = samples, rng

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        inputs, label = self.samples[index]
        shift = self.rng.random() if isinstance(self.rng, numpy.random.Generator) else self.rng()
        return inputs + shift, label


class Stream(IterableDataset):
    def __init__(self, samples):
        self.samples = samples

    def __iter__(self):
        return iter(random.SystemRandom().sample(list(self.samples), len(self.samples)))


class TestWorkers:
    """Two workers that draw; the network does not matter."""

    def judge(self, twice, net, data, rng, **options):
        class Loading(data):
            def train_dataloader(self):
                return DataLoader(Augmented(self.part(1), rng()), self.batch_size, num_workers=2, **options)

        return twice(net, Loading)

    def test_copies_of_one_generator(self, twice, net, data):
        finding = found(self.judge(twice, net, data, lambda: numpy.random.default_rng(0)))
        assert finding.rule == "reproducibility/workers-draw-alike"
        assert finding.where == "train_dataloader, Augmented.rng (Generator)"

    def test_workers_that_begin_each_epoch_alike(self, twice, net, data):
        verdict = self.judge(twice, net, data, lambda: numpy.random.rand, worker_init_fn=numpy.random.seed)
        assert verdict.status == "warning"
        assert [finding.rule for finding in verdict.findings] == ["reproducibility/workers-draw-alike"]

    def test_global_generators_pass(self, twice, net, data):
        assert self.judge(twice, net, data, lambda: numpy.random.rand).status == "passed"


class Numbers(IterableDataset):
    """160 samples; what each worker reads of them is up to the test."""

    def __init__(self, order, made=torch.tensor):
        self.order, self.made = order, made

    def __iter__(self):
        return map(self.made, self.order(160, get_worker_info()))


def all_of_them(number, info):
    return range(number)


def shuffled(number, info):
    return torch.randperm(number).tolist()


def share(number, info):
    return range(number)[info.id :: info.num_workers]


def share_of_one_order(number, info):
    generator = torch.Generator().manual_seed(info.seed - info.id)
    return torch.randperm(number, generator=generator).tolist()[info.id :: info.num_workers]


def share_of_orders_of_their_own(number, info):
    return shuffled(number, info)[info.id :: info.num_workers]


def drawn_again_and_again(number, info):
    return torch.randint(number, (160,)).tolist()


def noisy(index):
    return index + torch.rand(())


def named(index):
    return {"text": f"sentence {index}", "position": index}


class TestSharesOfWorkers:
    """Two workers that read an iterable dataset, by themselves."""

    def findings(self, dataset, **options):
        loader = DataLoader(dataset, **({"batch_size": 8, "num_workers": 2} | options))
        seeded = SeededRuns()
        seeded.loaders = [("train_dataloader", loader)]
        return READ_THE_SAME.findings(seeded, {})

    @pytest.mark.parametrize("made", [torch.tensor, named, str], ids=["tensor", "dict", "text"])
    @pytest.mark.parametrize("order", [all_of_them, shuffled, share_of_orders_of_their_own])
    def test_samples_that_several_workers_read_are_named_with_the_code_that_yields_them(self, order, made):
        [finding] = self.findings(Numbers(order, made))
        assert "two workers read the same samples" in finding.what
        assert (finding.place.loader, finding.place.function) == ("train_dataloader", "Numbers.__iter__")

    @pytest.mark.parametrize("order", [share, share_of_one_order])
    def test_shares_of_their_own_pass(self, order):
        assert self.findings(Numbers(order)) == []

    def test_share_that_the_worker_init_fn_takes_passes(self):
        def take(worker):
            get_worker_info().dataset.order = share

        assert self.findings(Numbers(all_of_them), worker_init_fn=take) == []

    @pytest.mark.parametrize(("order", "count"), [(all_of_them, 1), (share, 0)])
    def test_batches_that_the_dataset_makes_are_cut_up(self, order, count):
        class Batches(Numbers):
            def __iter__(self):
                samples = torch.stack(list(super().__iter__()))
                yield from zip(samples.split(8), samples.split(8), strict=True)

        assert len(self.findings(Batches(order), batch_size=None)) == count

    @pytest.mark.parametrize(
        ("order", "made", "why"),
        [
            (drawn_again_and_again, torch.tensor, "samples repeat within one worker"),
            (all_of_them, noisy, "random augmentation"),
            (all_of_them, lambda index: torch.tensor(index % 4), "samples repeat within one worker"),
            (lambda number, info: [], torch.tensor, "a worker has read 0 samples"),
            (lambda number, info: 1 // 0, torch.tensor, "a sample, read again, raises ZeroDivisionError"),
        ],
    )
    def test_data_that_cannot_tell_are_left_without_a_verdict(self, order, made, why):
        with pytest.raises(CannotJudge, match=why):
            self.findings(Numbers(order, made))

    def test_one_process_and_samplers_are_not_asked(self):
        with pytest.raises(CannotJudge, match="loaded by one process only"):
            self.findings(Numbers(all_of_them), num_workers=1)
        with pytest.raises(CannotJudge, match="not iterable"):
            self.findings([1, 2, 3])

    def test_training_data_are_looked_at(self, twice, net, data):
        class Streamed(data):
            def train_dataloader(self):
                return DataLoader(InOrder(self.part(1)), self.batch_size, num_workers=2)

        assert found(twice(net, Streamed)).rule == "data/workers-read-the-same"


class InOrder(IterableDataset):
    def __init__(self, samples):
        self.samples = samples

    def __iter__(self):
        return iter(self.samples)


@pytest.mark.parametrize(
    ("line", "is_salted"),
    [
        ("tag = hash(name) % 100", True),
        ("for label in set(labels): pass", True),
        ("order = list({word for word in words})", True),
        ("pairs = [label for label in {'cat', 'dog'}]", True),
        ("vocabulary = Vocabulary(set(words))", True),
        ("known = set(words); ids = [index[word] for word in known]", True),
        ("known.update(set(words))", False),
        ("tag = zlib.crc32(name.encode())", False),
        ("for label in sorted(set(labels)): pass", False),
        ("known = name in set(labels)", False),
        ("known = set(words); read = lambda known: Path(known)", False),
        ("for size in {1, 2}: pass", False),
        ("def __hash__(self): return hash(self.name)", False),
    ],
)
def test_lines_that_come_out_differently_in_each_process(tmp_path, line, is_salted):
    path = tmp_path / "split.py"
    path.write_text(f"import zlib\n{line}\n")
    assert [(place.line, place.source) for place in salted([path])] == [(2, line)] * is_salted


def test_split_by_salted_hash_is_blamed():
    one, two = (made(name, kind="batch", drawn={"train_dataloader": [name]}) for name in "ab")
    seeded = SeededRuns()
    seeded.runs = TwoRuns(
        one, two, salted=[Place(file="src/split.py", line=7, source="hash(name)"), Place(file="b.py", line=2)]
    )
    [hit] = other_samples.detect(seeded, None)
    assert (hit.place.file, hit.place.line, hit.place.loader) == ("src/split.py", 7, "train_dataloader")
    assert "hash() of a text" in hit.why
    assert "b.py:2" in hit.why


def test_generators_that_a_package_makes_while_it_is_imported_are_none_of_the_projects(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "drawing.py").write_text("import random\nMADE = random.Random()\n", encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    with unseeded() as lines:
        importlib.import_module("drawing")
    assert lines == set()


def test_lines_that_make_generators_without_a_seed():
    with unseeded() as lines:
        assert isinstance(numpy.random.default_rng(3), numpy.random.Generator)
        assert isinstance(random.Random(3), random.Random)
        # What was made before is of the class, too: scipy and scikit-learn ask.
        assert isinstance(numpy.random.mtrand._rand, numpy.random.RandomState)
        assert lines == set()
        here = inspect.currentframe().f_lineno
        made = [numpy.random.default_rng(), numpy.random.RandomState(None), random.Random()]
    assert {(Path(file).name, line) for file, line in lines} == {("test_reproducibility.py", here + 1)}
    assert [isinstance(one, kind) for one, kind in zip(made, UNSEEDED, strict=True)] == [True] * 3


UNSEEDED = numpy.random.Generator, numpy.random.RandomState, random.Random
