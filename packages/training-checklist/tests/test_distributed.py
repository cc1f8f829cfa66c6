"""+debug=distributed: two real processes with planted mistakes, and what it is built of in this one.

python test_distributed.py RANK FOLDER MISTAKE... is one of those processes.
"""

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

import numpy
import pytest
import torch
from omegaconf import OmegaConf
from pytorch_lightning import LightningModule, Trainer, seed_everything
from pytorch_lightning.callbacks import EarlyStopping, RichProgressBar, TQDMProgressBar
from torch import distributed
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset, TensorDataset, WeightedRandomSampler
from torchmetrics.classification import Accuracy
from training_checklist import session
from training_checklist.engines import salted
from training_checklist.engines.drawn_indices import DrawnIndices, content_of
from training_checklist.engines.fingerprints import checksums
from training_checklist.engines.first_difference import differing_names
from training_checklist.engines.own_code import shorten
from training_checklist.experiments.distributed import distributed as distributed_item
from training_checklist.experiments.distributed import (
    forked_ranks,
    meetings,
    network,
    peers,
    presence,
    processes,
    shares,
)
from training_checklist.experiments.distributed.distributed import Distributed
from training_checklist.experiments.distributed.peers import Parted
from training_checklist.experiments.distributed.presence import Interrupted, Presence
from training_checklist.experiments.distributed.stages import RENDEZVOUS
from training_checklist.finding import FAILED, REMARK, Finding, Place, Verdict
from training_checklist.hydra_callbacks.one_device import without_fp16
from training_checklist.lab.ranks import Loader, MissingRank, Ranks, Shares, UnusedParameters
from training_checklist.probes.distributed import same_data, unused_parameters
from training_checklist.probes.distributed.same_data import same_batches
from training_checklist.reporting import ranks

SETTINGS = {"timeout": 20, "rendezvous_timeout": 20, "prepare_timeout": 60, "memory_mb": 1}
SETTINGS |= {"topics": ["distributed"]}


BARS = {"bar": TQDMProgressBar, "rich_bar": RichProgressBar}  # they compute metrics, and so reduce them, on rank 0


class Net(LightningModule):
    """Dropout, batch normalisation and noise differ between ranks, as they may."""

    def __init__(self, mistake: str) -> None:
        super().__init__()
        self.mistake = mistake
        self.seen = Accuracy("multiclass", num_classes=2)
        self.body = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout())
        self.head = torch.nn.Linear(8, 2)
        if mistake in ("unused", "allowed"):
            self.extra = torch.nn.Linear(8, 8)

    def on_train_batch_start(self, batch, batch_idx):
        if self.mistake == "bias" and batch_idx == 1:
            self.head.bias.data += self.global_rank
        return -1 if self.mistake == "stop" and batch_idx == 2 and self.global_rank == 1 else None

    def training_step(self, batch, batch_idx):
        if self.mistake == "skip" and batch_idx == 2 and self.global_rank == 1:
            return None
        if self.mistake == "gather" and batch_idx == 2 and self.global_rank == 0:
            self.all_gather(torch.ones(1))
        logits = self.head(self.body(batch["x"]))
        loss = torch.nn.functional.cross_entropy(logits, batch["y"])
        if self.mistake in BARS:
            self.seen(logits, batch["y"])
            self.log("train/accuracy", self.seen, prog_bar=True, on_step=True, on_epoch=True)
            self.log("train/loss", loss, prog_bar=True, on_epoch=True, sync_dist=True)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val/loss", batch["x"].sum(), sync_dist=self.mistake != "alone")

    def val_dataloader(self):
        return DataLoader(Samples(), 8)

    def on_after_backward(self):
        if self.mistake == "gradient" and self.global_rank == 1:
            self.head.weight.grad *= 2

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def train_dataloader(self):
        data = Samples()
        if self.mistake == "uneven":
            data = Subset(data, range(64 if self.global_rank == 0 else 48))
        if self.mistake == "sharded":
            data = Subset(data, range(self.global_rank, 64, 2))
        if self.mistake == "places":
            return DataLoader(OfRank(self.global_rank), 8, sampler=[(0, place) for place in range(32)])
        if self.mistake == "one_share":
            return DataLoader(data, 8, sampler=DistributedSampler(data, num_replicas=2, rank=0))
        return DataLoader(data, 8, shuffle=True)


class Samples(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        noise = 0.1 * torch.randn(4)
        return {"x": torch.randn(4, generator=generator) + noise, "y": index % 2}


class OfRank(Samples):
    """Samples by their position, and by (epoch, place) those of a rank."""

    def __init__(self, rank):
        self.rank = rank

    def __getitem__(self, key):
        return super().__getitem__(2 * key[1] + self.rank if isinstance(key, tuple) else key)


def run_rank(rank: int, folder: Path, mistakes: list[str]) -> None:
    """Train once for each mistake and write down what is found: one rank of two, started like Lightning's."""
    os.environ["LOCAL_WORLD_SIZE"] = "2"
    presence.BEAT, presence.BUSY, meetings.STUCK, peers.GRACE = 0.1, 0.2, 0.3, 1.0  # nothing here is slow
    for mistake in mistakes:
        seed_everything(rank if mistake in ("seeds", "apart") else 0, verbose=False)
        session.begin()
        check = Distributed(**SETTINGS | {"timeout": 3 if mistake in ("stop", "gather") else 20})
        (folder / mistake / "debug").mkdir(parents=True, exist_ok=True)
        check.begin(folder / mistake)
        findings = check.findings
        met = (folder / mistake / "met").as_uri()  # by a file: a port that is free now may be taken by then
        distributed.init_process_group("gloo", init_method=met, rank=rank, world_size=2)
        try:
            Trainer(
                accelerator="cpu",
                devices=2,
                strategy="ddp_find_unused_parameters_true" if mistake == "allowed" else "ddp",
                max_epochs=2,
                callbacks=[
                    *(bar() for bar in [BARS.get(mistake)] if bar is not None),
                    check,
                    EarlyStopping("val/loss", check_on_train_epoch_end=False),
                ],
                logger=False,
                enable_checkpointing=False,
                enable_progress_bar=mistake in BARS,
                enable_model_summary=False,
                use_distributed_sampler=mistake not in ("uneven", "sharded", "all", "apart", "places"),
            ).fit(Net(mistake))
            check.conclude(folder / mistake)
        except Exception as error:
            last = check.explain(error) or Finding("run/crashed", FAILED, repr(error))
            findings = [*(known for known in findings if known != last), last]
            ranks.write_rank(ranks.rank_file(folder / mistake, rank), [Verdict("distributed", "", findings=[last])])
        told = [[finding.rule.partition("/")[2], finding.what, finding.where] for finding in findings]
        (folder / mistake / f"{rank}.json").write_text(json.dumps(told), encoding="utf-8")
        if distributed.is_initialized():
            distributed.destroy_process_group()
        while not (folder / mistake / f"{1 - rank}.json").is_file():
            time.sleep(0.02)


MISTAKES = {
    "bias": ("weights-differ", "1 of 6 parameters differ", "head.bias.*changed before the backward pass of batch 1"),
    "gradient": ("gradients-differ", "gradients of 1 of 6 parameters", r"head.weight.*Net\.on_after_backward"),
    "skip": ("step-skipped", "rank 1 skips batch 2 after 2 optimizer steps", r"Net\.training_step"),
    "stop": ("ranks-part", "rank 1 is at the end of epoch 0", "rank 1: "),
    "unused": ("unused-parameters", "2 of 8 parameters got no gradient: extra.weight", r"Net\.training_step"),
    "uneven": ("batch-counts-differ", "rank 0 8, rank 1 6", "rank 1: train_dataloader"),
    "all": ("same-data", "get the same 8 of their 8 first batches", "use_distributed_sampler=false"),
    "apart": ("same-data", "get all 64 samples in every epoch", "use_distributed_sampler=false"),
    "one_share": ("same-data", "get the same", "DistributedSampler over Samples"),
    # Each rank seeds its sampler.
    "seeds": ("overlapping-shares", "shares of the data that overlap", "DistributedSampler over Samples"),
    "alone": ("monitored-value-differs", "val/loss, which EarlyStopping monitors", r"self\.log\('val/loss', \.\.\.\)"),
    "gather": ("lone-collective", "rank 0 alone has called", r"self\.all_gather\(torch\.ones\(1\)\)"),
}
HEALTHY = ("none", "sharded", "places", "allowed", *BARS)


@pytest.fixture(autouse=True)
def no_other_checks():
    session.begin()
    yield
    session.begin()


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What each rank found for every mistake and healthy variant: {mistake: {rank: [(rule, what, where)]}}."""
    folder = tmp_path_factory.mktemp("ranks")
    shared = {"WORLD_SIZE": "2", "NODE_RANK": "0", "PYTHONPATH": os.pathsep.join(sys.path)}
    names = [*HEALTHY, *MISTAKES]
    ranks = [
        subprocess.Popen(
            [sys.executable, __file__, str(rank), str(folder), *names],
            env=os.environ | shared | {"LOCAL_RANK": str(rank)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        errors = [rank.communicate(timeout=100)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    for name in names:
        assert (folder / name / "1.json").is_file(), errors
    return {
        name: {rank: json.loads((folder / name / f"{rank}.json").read_text()) for rank in range(2)} for name in names
    }


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_is_named_with_its_place_on_every_rank(found, mistake):
    rule, what, where = MISTAKES[mistake]
    for findings in found[mistake].values():
        assert [finding[0] for finding in findings] == [rule]
        assert what in findings[0][1]
        assert re.search(where, findings[0][2])


@pytest.mark.parametrize("variant", HEALTHY)
def test_healthy_ranks_have_no_finding(found, variant):
    assert found[variant] == {0: [], 1: []}


@pytest.mark.parametrize(("asked", "severity"), [(True, FAILED), (False, REMARK)])
@pytest.mark.parametrize("samples", [None, 64])
def test_findings_are_remarks_where_the_project_runs_in_one_process(samples, asked, severity):
    check, lab = Distributed(**SETTINGS), Ranks()
    check.asked = asked
    lab.unused = UnusedParameters(0, ["extra"], 8)
    lab.shares = Shares([[Loader(samples=samples)], [Loader(samples=samples)]], [list("abcd"), list("abcd")])
    for probe in (unused_parameters.PROBE, same_data.PROBE):
        for finding in probe.findings(lab, {}):
            check.add(finding)
    assert [(each.rule, each.severity) for each in check.findings] == [
        ("distributed/unused-parameters", severity),
        ("distributed/same-data", severity),
    ]


def test_names_whose_numbers_differ_on_any_rank_are_found():
    assert differing_names([{"a": 1, "b": 2}, {"a": 1, "b": 3}]) == ["b"]


def test_checksum_changes_with_any_bit():
    values = torch.tensor([1.0, 2.0, float("nan")])
    variants = [values, values.flip(0), values * 1.0000001, -values, values.nan_to_num()]
    assert len({checksums({"w": variant})["w"] for variant in variants}) == len(variants)
    for dtype in (torch.bfloat16, torch.float64, torch.complex64, torch.uint8):
        assert checksums({"w": torch.ones(3, dtype=dtype)}) == checksums({"w": torch.ones(3, dtype=dtype)})


def test_content_of_a_dataset_leaves_random_numbers_alone():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    one = content_of(Samples())
    assert torch.rand(1) == expected
    numpy.random.rand(), random.random(), torch.rand(1)
    assert content_of(Samples()) == one
    assert content_of(Subset(Samples(), range(1, 64))) != one


def test_dataset_that_cannot_be_read_by_number_has_no_content():
    assert content_of({"a": 1}) is None
    assert content_of(iter([1])) is None


def test_drawn_indices_are_those_of_each_loader_and_end_with_it():
    data = TensorDataset(torch.arange(6))
    loader, other = DataLoader(data, 2), DataLoader(data, 3, shuffle=True)
    with DrawnIndices() as drawn:
        batches = [list(batch[0]) for batch in loader]
        list(other)
    list(loader)
    assert drawn.of(loader, 2) == [[0, 1], [2, 3]] == batches[:2]
    assert len(drawn.of(other, 9)) == 2


@pytest.mark.parametrize(("sampler", "whole"), [(None, True), (WeightedRandomSampler([1.0] * 6, 6), False)])
def test_only_a_sampler_without_replacement_goes_through_the_whole_dataset(sampler, whole):
    assert shares.describe(DataLoader(TensorDataset(torch.arange(6)), 2, sampler=sampler)).whole is whole


def test_batches_that_are_all_alike_say_nothing_about_shares():
    assert same_batches(["a"] * 8, ["a"] * 8) == 0
    assert same_batches(list("abcd"), list("abxd")) == 3


def test_rank_that_hangs_is_woken_when_another_has_gone(tmp_path):
    own = Presence(tmp_path, 0, lambda: "rank 1 has gone", patience=0.0)
    try:
        with pytest.raises(Interrupted, match="rank 1 has gone"):
            time.sleep(30)
    finally:
        own.leave()
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL


def test_prepare_data_that_never_ends_is_interrupted(tmp_path, monkeypatch):
    monkeypatch.setattr(peers, "GRACE", 0.0)
    check = Distributed(**SETTINGS | {"prepare_timeout": 0.1})
    check.begin(tmp_path)
    check.peers.presence.reach(RENDEZVOUS)
    with pytest.raises(Interrupted) as interrupted:
        time.sleep(30)
    finding = check.explain(interrupted.value)
    assert (finding.rule, finding.place.rank) == ("distributed/rank-hangs", "0")


def test_killed_process_counts_as_dead_and_former_runs_do_not_count(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    own = Presence(tmp_path, 0, lambda: None, patience=1.0)
    try:
        sign = presence.Sign(1, process.pid, socket.gethostname(), time=time.time())
        assert not presence.is_dead(sign)
        process.kill()
        while not presence.is_dead(sign):  # a zombie, until it is waited for
            time.sleep(0.01)
        process.communicate()
        assert presence.is_dead(sign)
        old = asdict(sign) | {"time": time.time() - 3600}
        (tmp_path / ".presence1.json").write_text(json.dumps(old), encoding="utf-8")
        assert own.others() == {}
    finally:
        own.remove()
    assert not list(tmp_path.glob(".presence0.*"))


def test_line_of_a_stack_is_the_projects_and_what_it_waits_in():
    event = threading.Event()
    waiter = threading.Thread(target=event.wait)
    waiter.start()
    line, waits = presence.line_of(traceback.extract_stack())
    event.set()
    assert line.file == shorten(__file__)
    assert line.source.startswith("line, waits = ")
    assert waits == ""


def test_self_test_names_the_collective_with_a_wrong_value(tmp_path, monkeypatch):
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    stages = []
    try:
        assert "rank 0 of 1 OK" in network.self_test(torch.device("cpu"), 1, stages.append)
        monkeypatch.setattr(distributed, "all_reduce", lambda tensor: tensor.mul_(3))
        with pytest.raises(network.NetworkError, match="all-reduce of 1 to 1 gives 3 and not 1 on rank 0"):
            network.self_test(torch.device("cpu"), 1, stages.append)
    finally:
        distributed.destroy_process_group()
    assert stages == ["all-reduce", "broadcast", "barrier", "memory", "all-reduce"]


@pytest.mark.parametrize(("given", "gpus", "accelerator", "devices"), [(None, 0, "cpu", 2), (None, 4, "gpu", 4)])
def test_ranks_are_all_gpus_or_two_on_the_cpu(compose, monkeypatch, given, gpus, accelerator, devices):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(processes, "survives_detail", lambda: True)
    monkeypatch.delenv("TORCH_DISTRIBUTED_DEBUG", raising=False)
    cfg = compose("+debug=distributed")
    before = dict(os.environ)
    callback = processes.Processes()
    callback.on_run_start(cfg)
    callback.on_job_start(cfg)
    try:
        assert (cfg.trainer.accelerator, cfg.trainer.devices) == (accelerator, devices)
        # Where gloo is used, DETAIL ends in a segmentation fault.
        assert os.environ["TORCH_DISTRIBUTED_DEBUG"] == ("DETAIL" if gpus else "INFO")
    finally:
        callback.on_job_end(cfg)
    assert dict(os.environ) == before


PLAIN_DDP = {"_target_": "pytorch_lightning.Trainer", "accelerator": "cpu", "devices": 2}


@pytest.mark.parametrize(
    ("changed", "forked"),
    [
        ({}, True),
        ({"strategy": "ddp_find_unused_parameters_true"}, True),
        ({"strategy": {"_target_": "pytorch_lightning.strategies.DDPStrategy", "broadcast_buffers": False}}, True),
        ({"strategy": {"_target_": "pytorch_lightning.strategies.DDPStrategy", "start_method": "spawn"}}, False),
        ({"strategy": "ddp_spawn"}, False),
        ({"strategy": "fsdp"}, False),
        ({"accelerator": "gpu"}, False),
        ({"num_nodes": 2}, False),
        ({"devices": 1}, False),
        ({"plugins": [{"_target_": "pytorch_lightning.plugins.environments.MPIEnvironment"}]}, False),
        ({"_target_": None}, False),
    ],
)
def test_ranks_are_forked_where_the_config_says_nothing_of_how_they_begin(changed, forked):
    given = {name: value for name, value in {**PLAIN_DDP, **changed}.items() if value is not None}
    assert forked_ranks.is_plain_ddp(OmegaConf.create(given)) is forked


@pytest.mark.parametrize(
    ("code", "otherwise"),
    [
        ("import random\n\n\ndef draw():\n    return random.random()\n", False),
        ("import random\n\nORDER = random.sample(range(9), 9)\n", True),
        ("import numpy\n\n\nclass Data:\n    rng = numpy.random.default_rng()\n", True),
        ("def names(texts):\n    return list(set(texts))\n", True),
    ],
)
def test_ranks_are_not_forked_where_each_interpreter_begins_otherwise(tmp_path, monkeypatch, code, otherwise):
    (tmp_path / "of_this_test.py").write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(forked_ranks, "files_beside", lambda: [tmp_path / "of_this_test.py"])
    monkeypatch.setattr(forked_ranks, "is_own", lambda file: file == str(tmp_path / "of_this_test.py"))
    monkeypatch.setattr(salted, "is_own", lambda file: file == str(tmp_path / "of_this_test.py"))
    import_module("of_this_test")
    try:
        assert forked_ranks.begins_otherwise() is otherwise
    finally:
        del sys.modules["of_this_test"]


def test_forked_ranks_meet_on_a_port_that_nobody_else_can_take():
    program = f"""
import sys
sys.path[:] = {sys.path!r}
import os, random
from torch import distributed
from training_checklist.experiments.distributed.forked_ranks import ForkedRanks

before, ranks = random.getstate(), ForkedRanks(2)
distributed.init_process_group("gloo")
answers = [None, None]
distributed.all_gather_object(answers, (int(os.environ["RANK"]), random.getstate() == before))
distributed.destroy_process_group()
assert answers == [(0, True), (1, False)], answers
assert [os.waitpid(other.pid, 0)[1] for other in ranks.others] == ([0] if os.environ["RANK"] == "0" else [])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_one_process_is_no_fault_and_says_how_to_have_two(tmp_path):
    check = Distributed(**SETTINGS)
    check.begin(tmp_path)
    trainer = Trainer(accelerator="cpu", devices=1, max_steps=1, logger=False, enable_checkpointing=False)
    trainer.callbacks.append(check)
    trainer.fit(Net("none"))
    check.conclude(tmp_path)
    assert check.verdict("").status == "skipped"
    assert "trainer.devices=2" in check.skipped


def test_owner_that_was_killed_is_reported_for_once(tmp_path, monkeypatch):
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    monkeypatch.setenv(ranks.OWNER, f"{socket.gethostname()}:{gone.stdout.strip()}")
    assert [ranks.inherits(tmp_path), ranks.inherits(tmp_path)] == [True, False]
    monkeypatch.setenv(ranks.OWNER, f"{socket.gethostname()}:{os.getpid()}")
    assert not ranks.inherits(tmp_path)


def test_finding_of_several_ranks_is_told_once():
    def verdict(**place):
        return Verdict("distributed", "", findings=[Finding("a/b", FAILED, "lost", Place(**place))])

    merged = ranks.merge(verdict(rank="1", file="a.py", line=3), {1: [verdict(file="a.py", line=3)]}, is_rank=True)
    assert [finding.where for finding in merged.findings] == ["rank 1: a.py:3"]


def test_finding_travels_with_the_exception_that_ends_the_run(tmp_path):
    check = Distributed(**SETTINGS)
    check.begin(tmp_path)
    finding = check.explain(Parted(MissingRank(1, 2, (0, "rendezvous"))))
    assert (finding.rule, finding.place.rank) == ("distributed/rank-ended", "1")


@pytest.mark.parametrize(("asked", "severity"), [(True, FAILED), (False, REMARK)])
def test_rank_that_goes_on_alone_after_training_is_told_of_with_its_line(tmp_path, asked, severity):
    check = Distributed(**SETTINGS)
    check.begin(tmp_path)
    check.asked, check.peers.expected, check.peers.trains = asked, 2, True
    with pytest.raises(RuntimeError) as raised:
        exec(compile("raise RuntimeError('[1] Connection closed by peer')", torch.__file__, "exec"))  # as gloo does
    finding = check.explain(raised.value)
    assert (finding.rule, finding.severity) == ("distributed/rank-ended", severity)
    assert "rank 1 has trained" in finding.what
    assert "test_distributed.py" in finding.where
    assert bool(check.skipped) is not asked


def test_rank_that_ends_before_its_trainer_is_built_says_nothing_against_one_process(tmp_path, monkeypatch):
    monkeypatch.setattr(distributed_item, "asks_for_processes", lambda: False)
    check = Distributed(**SETTINGS)
    check.begin(tmp_path)
    finding = check.explain(AttributeError("'function' object has no attribute 'update'"))
    assert (finding.severity, check.skipped) == (
        REMARK,
        "this project runs in one process; in several it ends with AttributeError",
    )


def test_finding_of_another_rank_stands_as_it_is(tmp_path):
    check = Distributed(**SETTINGS)
    check.begin(tmp_path)
    finding = Finding("run/crashed", FAILED, "ValueError: no luck", Place(rank="1"))
    assert check.explain(Parted(finding)) == finding


@pytest.mark.parametrize("error", [ValueError("timeout must be > 0"), RuntimeError("the socket timeout is wrong")])
def test_exception_of_the_project_is_not_taken_for_a_lost_rank(tmp_path, error):
    check = Distributed(**SETTINGS)
    check.begin(tmp_path)
    with pytest.raises(type(error)) as raised:
        raise error
    assert check.explain(raised.value) is None


if __name__ == "__main__":
    run_rank(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])


@pytest.mark.parametrize("item", ["device", "distributed"])
def test_item_that_goes_to_the_cpu_computes_in_bf16_where_the_run_would_in_fp16(compose, item):
    cfg = compose(f"+debug={item}", "trainer=amp")
    assert (cfg.trainer.accelerator, cfg.trainer.precision) == ("cpu", "16-mixed")
    without_fp16(cfg)
    assert cfg.trainer.precision == "bf16-mixed"


def test_item_that_stays_on_the_gpu_keeps_fp16(compose):
    cfg = compose("+debug=trace", "trainer=amp")
    without_fp16(cfg)
    assert (cfg.trainer.accelerator, cfg.trainer.precision) == ("gpu", "16-mixed")
