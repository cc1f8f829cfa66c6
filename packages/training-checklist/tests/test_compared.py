"""What a loss that is written by hand compares with, and what weights are after validation."""

from copy import deepcopy
from dataclasses import dataclass, field

import pytest
import torch
from pytorch_lightning import Callback, LightningDataModule, Trainer
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import MulticlassAUROC
from training_checklist import check
from training_checklist.engines.compared import Look, move, rolled
from training_checklist.engines.replay import call_step
from training_checklist.engines.splits import WITHOUT_GRAPH, splits
from training_checklist.engines.tracer import Tracer
from training_checklist.engines.trial import Drawn


class Series(LightningDataModule):
    """Numbers, targets of three steps with gaps that are 0, and a mask that is 1 where there is none."""

    def part(self, seed):
        generator = torch.Generator().manual_seed(seed)
        inputs = torch.randn(160, 8, generator=generator)
        mask = (torch.rand(160, 3, generator=generator) > 0.2).float()
        return TensorDataset(inputs, (inputs[:, :3] + inputs[:, 3:6]) * mask, mask)

    def train_dataloader(self):
        return DataLoader(self.part(1), 16, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.part(2), 16)


LOSSES = {
    "of observed steps": lambda answer, wanted, mask: ((answer - wanted).abs() * mask).sum() / mask.sum(),
    "of all steps": lambda answer, wanted, mask: (answer - wanted).square().mean(),
    "of gaps": lambda answer, wanted, mask: ((answer - wanted).abs() * (1 - mask)).sum() / (1 - mask).sum(),
    "of all pairs": lambda answer, wanted, mask: (answer[:, None] - wanted).square().mean(),
}
RULES = {"of gaps": ["network/targets-of-filling"], "of all pairs": ["network/targets-interchangeable"]}


@pytest.fixture
def forecast(net):
    class Forecast(net):
        def __init__(self, loss, zeros=False):
            super().__init__()
            self.head = nn.Linear(32, 3)
            self.of_answers = loss
            if zeros:
                nn.init.zeros_(self.head.weight)

        def loss(self, batch):
            return self.of_answers(self(batch[0]), *batch[1:])

    return Forecast


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_what_the_loss_compares_with_is_judged(examine, forecast, loss, zeros):
    findings = examine("trace", forecast(LOSSES[loss], zeros), Series()).findings
    assert [finding.rule for finding in findings] == RULES.get(loss, [])


def test_boxes_of_one_image_may_change_places(examine, net):
    """Each sample has a tensor of its own, whose entries are all compared with that sample's output."""

    class Detector(net):
        def training_step(self, batch, batch_idx):
            images, targets = batch
            owner = torch.cat([torch.full((len(boxes),), number) for number, boxes in enumerate(targets)])
            boxes = torch.cat(targets)
            return (self(images)[owner, (boxes[:, 0] > 0).long()] - boxes[:, 1]).abs().mean()

    class Boxes(LightningDataModule):
        def train_dataloader(self):
            draw = torch.Generator().manual_seed(0)
            found = [(torch.randn(8, generator=draw), torch.randn(4, 4, generator=draw)) for _ in range(32)]
            return DataLoader(
                found, 4, collate_fn=lambda each: (torch.stack([one for one, _ in each]), [b for _, b in each])
            )

    assert examine("trace", Detector(), Boxes()).findings == []


def test_numbers_that_are_read_without_a_slope_are_read(examine, forecast):
    class Marked(Series):
        """Yes, no, and a mark for what is not known."""

        def part(self, seed):
            inputs, wanted, mask = super().part(seed).tensors
            return TensorDataset(inputs, torch.where(mask > 0, (wanted > 1).float(), -2.0), mask)

    def of_known(answer, wanted, mask):
        losses = nn.functional.softplus(answer) - answer * wanted.clamp(min=0)
        return (losses * (wanted > -1)).sum() / (wanted > -1).sum()

    assert examine("trace", forecast(of_known), Marked()).findings == []


def test_indices_that_only_tell_samples_apart_are_no_targets(examine, forecast):
    class Indexed(Series):
        def part(self, seed):
            return TensorDataset(*super().part(seed).tensors[:2], torch.arange(160))

    def contrastive(answer, wanted, index):
        alike = (answer @ wanted.T).log_softmax(1)
        return -alike[index[:, None] == index].mean()

    assert examine("trace", forecast(contrastive), Indexed()).findings == []


def test_samples_that_are_matched_with_others_may_change_places(net):
    """As by optimal transport, where the way from one to the other is what is learnt."""

    class Matching(net):
        def training_step(self, batch, batch_idx):
            first, second = (part[part[:, 0].argsort()] for part in batch)
            return (self.head(self.first((first + second) / 2)) - (second - first)[:, :4]).square().mean()

    class Pairs(LightningDataModule):
        def train_dataloader(self):
            return DataLoader(TensorDataset(torch.randn(160, 8), torch.randn(160, 8)), 16)

    [verdict] = check(Matching(), Pairs(), items=["trace"]).verdicts
    assert verdict.error is None
    assert "network/targets-interchangeable" not in {each.rule for each in verdict.findings}


def test_answers_that_a_metric_keeps_keep_nothing_else(net):
    """A step that no backward pass follows would keep all that it has computed."""

    class Scored(net):
        def __init__(self):
            super().__init__()
            self.auroc = MulticlassAUROC(4)

        def training_step(self, batch, batch_idx):
            answers = self(batch[0]).softmax(1)
            self.auroc.update(answers, batch[1])
            return functional.nll_loss(answers.log(), batch[1])

    module = Scored()
    module._trainer = Trainer(logger=False, barebones=True)
    assert call_step(module, "training_step", [torch.randn(8, 8), torch.arange(8) % 4]).requires_grad
    assert [each.requires_grad for each in module.auroc.preds] == [False]


def test_samples_are_as_many_as_there_is_memory_for_what_hooks_make_of_them(net, data):
    found = []

    class Enlarging(net):
        factor = 1

        def on_after_batch_transfer(self, batch, dataloader_idx):
            return [batch[0].repeat(1, self.factor), batch[1]]

        def forward(self, inputs):
            return super().forward(inputs[:, :8])

        def on_train_start(self):
            [split] = splits("train", self.trainer.train_dataloader)
            found.append([len(split.holdable(64, self.trainer, times)) for times in (1, WITHOUT_GRAPH)])

    module = Enlarging()
    for module.factor in (1, 2**15):  # of 32 bytes
        Trainer(fast_dev_run=True, enable_model_summary=False, enable_progress_bar=False).fit(
            module, data(batch_size=4)
        )
    assert found == [[64, 64], [4, 32]]


def test_edges_whose_ends_are_picked_from_answers_for_all_nodes_have_no_order(net):
    """As in link prediction, where a batch is one graph with the edges that are to be found again."""

    class Links(net):
        def training_step(self, batch, batch_idx):
            start, end = batch["known"]
            nodes = self(batch["nodes"].index_add(0, end, batch["nodes"][start]))
            edges = batch["edges"]
            return -nn.functional.logsigmoid((nodes[edges[0]] * nodes[edges[1]]).sum(1)).mean()

    class Graph(LightningDataModule):
        def train_dataloader(self):
            known, edges = torch.randint(20, (2, 2, 30))
            graph = {"nodes": torch.randn(20, 8), "known": known, "edges": edges}
            return DataLoader([graph], collate_fn=lambda graphs: graphs[0])

    [verdict] = check(Links(), Graph(), items=["trace"]).verdicts
    assert verdict.error is None
    assert "network/targets-interchangeable" not in {each.rule for each in verdict.findings}


def test_operation_in_which_all_targets_meet_all_answers_is_named(examine, forecast):
    [finding] = examine("trace", forecast(LOSSES["of all pairs"]), Series()).findings
    assert "sub of 16x1x3 with 16x3" in finding.what
    assert (finding.place.file.rpartition("/")[2], finding.place.line > 0) == ("test_compared.py", True)


def test_labels_of_a_loss_by_hand_are_held_against_the_inputs(examine, forecast):
    class Unrelated(Series):
        def part(self, seed):
            inputs, wanted, mask = super().part(seed).tensors
            return TensorDataset(inputs, wanted[torch.randperm(160)], mask)

    rules = [
        examine("learning", forecast(LOSSES["of all steps"]), data(), max_epochs=5) for data in (Series, Unrelated)
    ]
    assert "learning/labels-unrelated" in rules[0].judged
    assert [finding.rule for finding in rules[0].findings] == []


class Averaging(Callback):
    """Validates averaged weights, and puts the trained ones back or does not."""

    def __init__(self, puts_back):
        self.puts_back = puts_back

    def on_validation_start(self, trainer, pl_module):
        self.kept = [weight.detach().clone() for weight in pl_module.parameters()]
        for weight in pl_module.parameters():
            weight.data.mul_(0.9)

    def on_validation_end(self, trainer, pl_module):
        for weight, kept in zip(pl_module.parameters(), self.kept, strict=True):
            weight.data.copy_(kept if self.puts_back else weight)


@pytest.mark.parametrize("puts_back", [True, False])
def test_weights_that_validation_leaves_behind_are_found(net, data, puts_back):
    result = check(net(), data(), items=["learning"], trainer={"callbacks": [Averaging(puts_back)], "max_epochs": 5})
    found = [(finding.rule, "Averaging" in finding.where) for finding in result["learning"].findings]
    assert found == ([] if puts_back else [("learning/validation-changes-weights", True)])


@pytest.mark.parametrize("buffers", [True, False])
def test_average_without_the_running_statistics_is_found(examine, net, buffers):
    class Averaged(net):
        def __init__(self):
            super().__init__()
            self.first = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32))
            self.average = deepcopy(self.first).eval().requires_grad_(False)

        def on_train_batch_end(self, *_):
            state = self.first.state_dict() if buffers else dict(self.first.named_parameters())
            self.average.load_state_dict(state, strict=False)

        def validation_step(self, batch, batch_idx):
            self.log("val/norm", self.average.eval()(batch[0]).norm())

    rules = [finding.rule for finding in examine("learning", Averaged(), max_epochs=5).findings]
    assert ("learning/statistics-of-nothing" in rules) is not buffers


def test_run_with_a_second_trainer_is_judged_once(net, data, tmp_path):
    from training_checklist import session
    from training_checklist.experiments.overfit import Overfit

    session.begin()
    options = {
        "topics": (),
        "max_loss": 0.05,
        "min_accuracy": 1.0,
        "min_fall": 0.05,
        "learnt": 0.5,
        "settled": 10,
        "nearly": 0.1,
        "max_steps": 300,
        "patience": 100,
        "least_gain": 0.01,
        "seconds": 60,
    }
    first, second = Overfit(**options), Overfit(**options)
    session.add(first)
    session.add(second)
    quiet = {
        "logger": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "enable_checkpointing": False,
    }
    Trainer(max_epochs=1, limit_val_batches=0, callbacks=[first], **quiet).fit(net(), data())
    with pytest.raises(Exception, match="training is over"):
        Trainer(max_epochs=1, limit_val_batches=0, callbacks=[second], **quiet).fit(net(), data())
    assert session.find("overfit") is first
    assert first.verdict("").status == "passed"
    session.begin()


@pytest.mark.parametrize("item", ["fast_dev_run", "limit_batches", "trace", "gradients"])
def test_schedule_that_so_few_steps_are_too_short_for_is_no_finding(examine, net, item):
    class Short(net):
        def configure_optimizers(self):
            if self.trainer.estimated_stepping_batches < 100:
                raise ZeroDivisionError("float division by zero")
            return torch.optim.SGD(self.parameters(), 0.1)

    assert examine(item, Short()).findings == []


class Ordered(LightningDataModule):
    """Sequences of eight numbers."""

    def train_dataloader(self):
        inputs = torch.randn(160, 8, generator=torch.Generator().manual_seed(1))
        return DataLoader(TensorDataset(inputs, (inputs * torch.arange(8)).sum(1, keepdim=True)), 16, shuffle=True)


PLACES = {
    "by time": lambda inputs, places: inputs + places[: inputs.shape[1]],
    "by place in the batch": lambda inputs, places: inputs + places[: len(inputs), None],
    "with noise": lambda inputs, places: inputs + torch.randn_like(inputs),
    "over the batch": lambda inputs, places: inputs - inputs.mean(0),
}


@pytest.mark.parametrize("places", PLACES)
def test_sample_that_depends_on_its_place_in_the_batch_is_found(examine, net, places):
    class Placed(net):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(32, 1)
            self.register_buffer("places", torch.randn(16))

        def loss(self, batch):
            return (self(PLACES[places](batch[0], self.places)) - batch[1]).square().mean()

    found = [finding.rule for finding in examine("trace", Placed(), Ordered()).findings]
    assert found == (["network/depends-on-place-in-batch"] if places == "by place in the batch" else [])


@dataclass
class Built:
    """A batch that makes its tensors itself, as one of graphs does."""

    number: int
    inputs: torch.Tensor = field(init=False)

    def __post_init__(self):
        self.inputs = torch.arange(8.0 * self.number).view(self.number, 8)


def test_batch_of_which_a_part_cannot_be_moved_is_not_called_blind():
    network = nn.Linear(8, 1)
    look = Look(network, lambda batch: (network(batch[0].inputs)[:, 0] - batch[1]).square().mean())
    batch = (Built(4), torch.arange(4.0))
    assert rolled(batch, 1) is None
    assert not look.is_blind(batch)
    assert look.moved(batch) is None


def test_layers_of_no_features_are_moved_with_the_others():
    layers = nn.ModuleList([nn.Linear(8, 0), nn.Linear(0, 8), nn.Linear(8, 8)])
    before = layers[2].weight.clone()
    move(layers)
    assert not torch.equal(layers[2].weight, before)


def test_network_that_is_given_the_numbers_of_nodes_is_not_called_blind():
    class Nodes(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 1)
            self.inputs, self.targets = torch.randn(12, 8), torch.randn(12)

        def loss(self, batch):
            return (self.layer(self.inputs)[batch[0], 0] - self.targets[batch[0]]).square().mean()

        def blind_loss(self, batch):
            return (self.layer(torch.zeros(len(batch[0]), 8))[:, 0] - self.targets[batch[0]]).square().mean()

    network, batch = Nodes(), [torch.arange(6)]
    assert not Look(network, network.loss).is_blind(batch)
    assert Look(network, network.blind_loss).is_blind(batch)


def test_generator_that_is_fed_noise_is_not_called_blind():
    network = nn.Sequential(nn.Linear(2, 2))

    def sorted_distance(batch):  # Wasserstein's, along each axis
        return (network(torch.randn(len(batch[0]), 2)).sort(0).values - batch[0].sort(0).values).square().mean()

    batch = [torch.randn(16, 2)]
    assert not Look(network, sorted_distance).is_blind(batch)
    with torch.no_grad():
        nn.init.zeros_(network[0].weight)  # noise or not, all samples are the same
    assert Look(network, sorted_distance).is_blind(batch)


def test_memory_that_is_filled_is_not_what_random_numbers_are_drawn_by():
    drawn, probabilities = Drawn(), torch.full((4,), 0.5)
    with Tracer(nn.Linear(1, 1), drawn):
        torch.empty(4).bernoulli_(0.5)
        torch.empty(4).bernoulli_(probabilities)
        torch.bernoulli(probabilities)
    assert [torch.equal(given, probabilities) for given in drawn.given] == [True, True]
