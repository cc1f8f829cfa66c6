import json

import pytest
import torch
from pytorch_lightning import LightningDataModule
from torch import nn
from torch.nn import functional
from torch.nn.modules import module as hooks
from torch.utils.data import DataLoader, TensorDataset
from training_checklist.engines import tracer
from training_checklist.lab import effects

RULES = {"trace": "network/module-without-gradient", "gradients": "gradients/unused"}


def whats(verdict):
    assert verdict.error is None, verdict.error
    return [finding.what for finding in verdict.findings]


@pytest.fixture
def losing(net):
    """`losing(loss)`: the healthy network with `loss(logits, labels)` for its loss."""

    def make(loss):
        class Losing(net):
            def loss(self, batch):
                return loss(self(batch[0]), batch[1])

        return Losing()

    return make


@pytest.mark.parametrize("compiled", ["false", "true"])
def test_table_has_a_row_for_each_module_in_call_order_compiled_or_not(train, compiled):
    folder = train("+debug=trace", f"model.compile={compiled}")
    lines = (folder / "debug" / "trace.md").read_text().splitlines()
    assert lines[0].startswith("| module | type | input | output | dtype | device | abs-min | abs-max | parameters |")
    rows = [line.strip("| ").split(" | ") for line in lines[2:]]
    assert rows[0][:6] == ["net.stage1.0", "Conv2d", "64x1x28x28", "64x16x24x24", "float32", "cpu"]
    assert [row[0] for row in rows[-2:]] == ["net.head", "criterion"]


def test_healthy_network_passes_and_no_hook_stays(examine, net):
    module = net()
    verdict = examine("trace", module)
    assert verdict.status == "passed"
    assert verdict.findings == []
    assert [row["path"] for row in verdict.facts["modules"]] == ["first", "head"]
    assert not hooks._global_forward_hooks
    assert not hooks._global_forward_pre_hooks
    assert "training_step" not in vars(module)


def one_hot(labels):
    return functional.one_hot(labels, 4).float()


HEALTHY = {
    "label smoothing": lambda logits, labels: functional.cross_entropy(logits, labels, label_smoothing=0.1),
    "log-probabilities into NLLLoss": lambda logits, labels: nn.NLLLoss()(logits.log_softmax(1), labels),
    "log-probabilities into CrossEntropyLoss": lambda x, y: nn.CrossEntropyLoss()(x.log_softmax(1), y),
    "logits into BCEWithLogitsLoss": lambda logits, labels: nn.BCEWithLogitsLoss()(logits, one_hot(labels)),
    "probabilities into BCELoss": lambda logits, labels: nn.BCELoss()(logits.sigmoid(), one_hot(labels)),
    "one shape into MSELoss": lambda logits, labels: nn.MSELoss()(logits, one_hot(labels)),
    "one number as the target": lambda logits, labels: functional.mse_loss(logits, torch.ones(())),
    "log-probabilities into KLDivLoss": lambda logits, labels: nn.KLDivLoss(reduction="batchmean")(
        logits.log_softmax(1), one_hot(labels)
    ),
    "a negative loss that is meant": lambda x, y: -functional.cosine_similarity(x, one_hot(y)).mean(),
    "a term of negative weight": lambda x, y: functional.cross_entropy(x, y) - functional.mse_loss(x, one_hot(y)) / 9,
    "a criterion of one's own": lambda x, y: -(x.log_softmax(1) * one_hot(y)).sum(1).mean(),
    "half precision": lambda x, y: nn.NLLLoss()(x.bfloat16().log_softmax(1), y).float(),
    "the number of all tokens": lambda x, y: x.square().sum() / y.sum(),
    "pairs of samples": lambda x, y: -((x @ x.T).softmax(0).diagonal().log()).mean(),
}


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("case", HEALTHY)
def test_criterion_that_fits_is_no_finding(examine, losing, case):
    assert whats(examine("trace", losing(HEALTHY[case]))) == []


def normalised_over_samples(logits):
    scores = logits.exp()
    return scores / scores.sum(0)


MISFITS = {
    "probabilities-into-cross-entropy": [
        lambda x, y: nn.CrossEntropyLoss()(x.softmax(1), y),
        lambda x, y: functional.cross_entropy(x.sigmoid(), y),
    ],
    "bounded-logits": [
        lambda x, y: functional.cross_entropy(x.relu(), y),
        lambda x, y: functional.cross_entropy(x.clamp(min=0), y),
        lambda x, y: functional.cross_entropy(x.tanh(), y),
        lambda x, y: functional.cross_entropy(functional.relu6(x), y),
    ],
    "softmax-over-samples": [
        lambda x, y: functional.cross_entropy(x.softmax(0), y),
        lambda x, y: functional.nll_loss(x.log_softmax(0), y),
        lambda x, y: functional.nll_loss(torch.log_softmax(x, dim=-2), y),
    ],
    "scores-normalised-over-samples": [lambda x, y: functional.cross_entropy(normalised_over_samples(x), y)],
    "one-output": [lambda x, y: functional.cross_entropy(x[:, :1], torch.zeros_like(y))],
    "no-log-probabilities": [
        lambda x, y: nn.NLLLoss()(x, y),
        lambda x, y: functional.nll_loss(x.softmax(1), y),
        lambda x, y: nn.KLDivLoss(reduction="batchmean")(x.softmax(1), one_hot(y)),
    ],
    "squashed-twice": [lambda x, y: nn.BCEWithLogitsLoss()(x.sigmoid(), one_hot(y))],
    "logits-into-bce": [lambda x, y: nn.BCELoss()(x - x.max() - 1, one_hot(y))],
    "criterion-broadcasts": [lambda x, y: functional.mse_loss(x[:, :1], y.float())],
    "pairing-of-all-samples": [
        lambda x, y: (x[:, :1] - y).square().mean(),
        lambda x, y: torch.where(y > 1, x[:, :1], -x[:, :1]).mean(),
        lambda x, y: (x.amax(1, keepdim=True) * y).mean(),
    ],
    "loss-falls-as-criterion-grows": [lambda x, y: -functional.cross_entropy(x, y)],
    "criterion-without-effect": [lambda x, y: functional.cross_entropy(x, y) * 0 + x.mean()],
}


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize(("rule", "loss"), [(rule, loss) for rule, losses in MISFITS.items() for loss in losses])
def test_criterion_that_gets_what_it_is_not_made_for_is_named_with_the_line(examine, losing, rule, loss):
    verdict = examine("trace", losing(loss))
    assert verdict.status == "failed"
    found = {finding.rule.partition("/")[2]: finding.place for finding in verdict.findings}
    assert rule in found, whats(verdict)
    assert found[rule].file.endswith("test_trace.py")


MEANT = {
    "the dimension is put in where it is used": lambda a, b: (a[:, None] - b).abs().mean(),
    "on another line of the same statement": lambda a, b: torch.where(
        a.unsqueeze(1) > b,
        a.view(-1, 1),
        b,
    ).mean(),
    "of both": lambda a, b: (a[:, None] - b[None]).abs().mean(),
    "a matrix of similarities": lambda a, b: (a[:, None] @ b[None]).mean() + torch.outer(a, b).mean(),
    "distances": lambda a, b: torch.cdist(a[:, None], b[:, None]).mean(),
    "with itself": lambda a, b: with_itself(a),
    "one number a sample times as many features": lambda a, b: (a[:, None].exp() * torch.ones(16)).mean(),
}


def with_itself(scores):
    column = scores.unsqueeze(1)
    return (column - scores).abs().mean()


@pytest.mark.parametrize("case", MEANT)
def test_pairs_that_are_meant_are_no_finding(examine, losing, case):
    pairs = MEANT[case]
    loss = losing(lambda x, y: functional.cross_entropy(x, y) + pairs(x.amax(1), x.amin(1)))
    assert whats(examine("trace", loss)) == []


@pytest.mark.parametrize("any_size", [True, False])
def test_of_a_larger_batch_of_evaluation_as_much_is_looked_at_as_training_has(examine, net, data, any_size):
    sizes = {"training_step": [], "validation_step": [], "test_step": []}

    class Counting(net):
        def training_step(self, batch, batch_idx):
            sizes["training_step"].append(len(batch[0]))
            return self.loss(batch)

        def validation_step(self, batch, batch_idx):
            sizes["validation_step"].append(len(batch[0]))
            assert any_size or len(batch[0]) > 40
            logits = self(batch[0])
            self.log("val/accuracy", (logits.argmax(1, keepdim=True) == batch[1]).float().mean())

        def test_step(self, batch, batch_idx):
            sizes["test_step"].append(len(batch[0]))

    class Larger(data):
        def val_dataloader(self):
            return DataLoader(self.part(2), batch_size=80)

        test_dataloader = val_dataloader

    (finding,) = examine("trace", Counting(), Larger(), limit_val_batches=1).findings
    assert finding.rule == "network/pairing-of-all-samples"
    if any_size:
        assert sizes["validation_step"].count(80) == 1  # the run's own
        assert max(sizes["training_step"]) == max(sizes["test_step"]) == 16


def test_metric_over_all_pairs_of_samples_is_found_in_validation_and_test(examine, net, data):
    class Accurate(net):
        def validation_step(self, batch, batch_idx):
            inputs, labels = batch
            self.log("val/accuracy", (self(inputs).argmax(1, keepdim=True) == labels).float().mean())

        def test_step(self, batch, batch_idx):
            inputs, labels = batch
            best = self(inputs).topk(1).indices
            self.log("test/accuracy", best.eq(labels).float().mean())

    class Tested(data):
        def test_dataloader(self):
            return DataLoader(self.part(3), batch_size=16)

    first, second = examine("trace", Accurate(), Tested()).findings
    assert first.rule == second.rule == "network/pairing-of-all-samples"
    assert first.what == "eq of 16x1 with 16 makes 16x16 in validation_step: all samples with all"
    assert "argmax(1, keepdim=True) == labels" in first.place.source
    assert second.place.function.endswith("test_step")


def test_pairing_that_several_steps_have_in_common_is_one_finding(examine, net, data):
    class Sharing(net):
        def loss(self, batch):
            logits = self(batch[0])
            self.accuracy = (logits.argmax(1, keepdim=True) == batch[1]).float().mean()
            return functional.cross_entropy(logits, batch[1])

    [finding] = examine("trace", Sharing()).findings
    assert finding.what.endswith("in training_step: all samples with all")


def test_square_that_does_not_follow_the_batch_is_no_finding(examine, net):
    class Binned(net):
        def __init__(self):
            super().__init__()
            self.widen = nn.Linear(1, 32)
            self.register_buffer("bins", torch.linspace(-1, 1, 16))
            self.spread = nn.Linear(16, 32)

        def forward(self, inputs):
            return self.head(self.spread(inputs.mean(1, keepdim=True) - self.bins))

    assert [what for what in whats(examine("trace", Binned())) if "all samples" in what] == []


def test_batch_that_must_keep_its_size_is_not_judged_by_one_with_less(examine, net):
    class Fixed(net):
        def loss(self, batch):
            assert len(batch[0]) == 16
            return (self(batch[0])[:, :1] - batch[1]).square().mean()

    verdict = examine("trace", Fixed())
    assert "network/pairing-of-all-samples" not in {finding.rule for finding in verdict.findings}


def test_criterion_that_raises_is_explained_by_what_it_was_given(examine, losing):
    verdict = examine("trace", losing(lambda x, y: nn.BCELoss()(x * 1e3, one_hot(y))))
    assert [finding.rule for finding in verdict.findings] == ["network/logits-into-bce"]


def test_softmax_over_the_samples_is_found_inside_the_network(examine, net):
    class Gated(net):
        def forward(self, inputs):
            hidden = torch.relu(self.first(inputs))
            return self.head(hidden * hidden.softmax(dim=0))

    [finding] = examine("trace", Gated()).findings
    assert finding.what == "softmax over dim 0 of 16x32: over the 16 samples"
    assert finding.place.function.endswith("Gated.forward")


def test_softmax_over_the_samples_is_found_where_there_are_as_many_features(examine, net, data):
    class Gated(net):
        def forward(self, inputs):
            hidden = torch.relu(self.first(inputs))
            return self.head(hidden * hidden.softmax(dim=0))

    [finding] = examine("trace", Gated(), data(batch_size=32)).findings
    assert finding.what == "softmax over dim 0 of 32x32: over the 32 samples"


def test_module_whose_output_goes_nowhere_is_named(examine, net):
    class Unused(net):
        def __init__(self):
            super().__init__()
            self.branch = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))

        def forward(self, inputs):
            self.branch(inputs)
            return super().forward(inputs)

    [finding] = examine("trace", Unused()).findings
    assert finding.what.startswith("branch has no effect on the loss: 4 parameters")
    assert "it is called" in finding.why


def test_detached_and_never_called_modules_are_told_apart(examine, net):
    class Cut(net):
        def __init__(self):
            super().__init__()
            self.spare = nn.Linear(8, 8)

        def forward(self, inputs):
            return self.head(torch.relu(self.first(inputs)).detach())

    first, spare = examine("trace", Cut()).findings
    assert first.what.startswith("first has no effect")
    assert "cut by .detach()" in first.why
    assert spare.what.startswith("spare has no effect")
    assert "never called" in spare.why


def test_module_times_zero_is_named(examine, net):
    class Zeroed(net):
        def __init__(self):
            super().__init__()
            self.branch = nn.Linear(8, 4)

        def forward(self, inputs):
            return super().forward(inputs) + 0 * self.branch(inputs)

    [finding] = examine("trace", Zeroed()).findings
    assert finding.what.startswith("branch has no effect on the loss: the gradients")


def test_layer_that_is_not_registered_is_named(examine, net):
    class Listed(net):
        def __init__(self):
            super().__init__()
            self.extra = [nn.Linear(32, 32)]

        def forward(self, inputs):
            return self.head(torch.relu(self.extra[0](torch.relu(self.first(inputs)))))

    [finding] = examine("trace", Listed()).findings
    assert finding.place.module == "extra[0]"
    assert "is not registered" in finding.what


def test_inputs_that_only_dropout_makes_differ_are_found(examine, net):
    class Blind(net):
        def forward(self, inputs):
            return self.head(functional.dropout(torch.relu(self.first(inputs * 0)), 0.5, self.training))

    module = Blind()
    [finding] = examine("trace", module).findings
    assert finding.what == "all 16 samples have the same output"
    assert (finding.place.module, finding.place.note) == ("first (Linear)", "before it")
    assert module.training


def test_positions_that_all_samples_share_raise_no_alarm(examine, net):
    class Placed(net):
        def __init__(self):
            super().__init__()
            self.place = nn.Linear(8, 32)

        def forward(self, inputs):
            hidden = functional.dropout(self.first(inputs) + self.place(torch.ones_like(inputs)), 0.5, self.training)
            return self.head(torch.relu(hidden))

    assert examine("trace", Placed()).findings == []


def test_dead_network_is_named_by_the_layer_that_makes_all_samples_equal(examine, net):
    class Dead(net):
        def __init__(self):
            super().__init__()
            self.cut = nn.ReLU()

        def forward(self, inputs):
            return self.head(self.cut(self.first(inputs) - 100))

    verdict = examine("trace", Dead())
    assert "all 16 samples have the same output" in whats(verdict)
    [same] = [finding for finding in verdict.findings if finding.rule == "network/same-output-for-all-samples"]
    assert same.place.module == "cut (ReLU)"


@pytest.mark.parametrize("found", [False, True])
def test_layer_before_a_predictor_is_an_answer_of_its_own_where_a_teacher_has_it(examine, net, found):
    class Distilled(net):
        def __init__(self):
            super().__init__()
            self.teacher, self.predictor = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)), nn.Linear(4, 4)

        def loss(self, batch):
            with torch.no_grad():
                aim = batch[0][:, :4] if found else self.teacher(batch[0])
            return -functional.cosine_similarity(self.predictor(self(batch[0])), aim).mean()

    rules = [finding.rule for finding in examine("trace", Distilled()).findings]
    assert ("network/two-linear-layers-are-one" in rules) == found


def test_output_that_is_too_narrow_for_a_metric_is_named(examine, net):
    from torchmetrics.classification import MulticlassAccuracy

    class Narrow(net):
        def __init__(self):
            super().__init__()
            self.accuracy = MulticlassAccuracy(5)

    [finding] = examine("trace", Narrow()).findings
    assert finding.what == "the network has 4 outputs, and 5 classes are counted: accuracy"


def test_posterior_sees_the_values_that_are_to_be_given_back(examine, net):
    class Latent(net):
        def __init__(self):
            super().__init__()
            self.posterior, self.decode = nn.Linear(8, 4), nn.Linear(4, 7)

        def training_step(self, batch, batch_idx):
            mean = self.posterior(batch[0])
            latent = torch.distributions.Normal(mean, torch.ones_like(mean)).rsample()
            return functional.mse_loss(self.decode(latent), batch[0][:, 1:]) + 0.1 * mean.square().mean()

    verdict = examine("trace", Latent())
    assert "network/sees-later-values" not in [finding.rule for finding in verdict.findings]
    assert "posterior" in verdict.unjudged["network/sees-later-values"]


def test_metrics_of_tasks_that_take_turns_count_other_classes(examine, net):
    from torchmetrics.classification import MulticlassAccuracy

    class OfTwoTasks(net):
        def __init__(self):
            super().__init__()
            self.accuracy, self.other = MulticlassAccuracy(5), MulticlassAccuracy(4)

    assert examine("trace", OfTwoTasks()).findings == []


def test_metric_of_classes_says_nothing_of_pairs(examine, losing):
    from torchmetrics.classification import MulticlassAccuracy

    module = losing(lambda x, y: functional.cross_entropy(x[:4] @ x[4:8].T, torch.arange(4)))
    module.nearest = MulticlassAccuracy(5)
    verdict = examine("trace", module)
    assert "partner" in verdict.unjudged["network/fewer-outputs-than-classes"]


@pytest.fixture
def tagging(net):
    """Padded sequences, (T, B) as pad_sequence stacks them, and a network that gives each token a class."""

    class Tagging(LightningDataModule):
        def train_dataloader(self):
            lengths = torch.randint(5, 12, (64,), generator=torch.Generator().manual_seed(0)).tolist()
            return DataLoader([torch.arange(length) * (length + 3) % 7 + 1 for length in lengths], 16, collate_fn=stack)

    def stack(sequences):
        tokens = nn.utils.rnn.pad_sequence(sequences)
        return tokens, torch.where(tokens > 0, tokens % 3, -100)

    class Tagger(net):
        def __init__(self):
            super().__init__()
            self.table, self.first, self.head = nn.Embedding(8, 8, 0), nn.LSTM(8, 8), nn.Linear(8, 3)

        def forward(self, tokens):
            return self.head(self.first(self.table(tokens))[0])

        def loss(self, batch):
            return functional.cross_entropy(self(batch[0]).flatten(0, 1), batch[1].flatten())

    return Tagger(), Tagging()


@pytest.mark.parametrize("item", ["trace", "gradients"])
def test_time_may_come_before_the_samples(examine, tagging, item):
    assert whats(examine(item, *tagging, limit_val_batches=0)) == []


def test_set_of_tokens_has_no_order(examine, net):
    class Sets(LightningDataModule):
        def train_dataloader(self):
            sets = torch.stack([torch.randperm(30)[:6] for _ in range(32)])
            return DataLoader(TensorDataset(sets, sets.sum(1) % 4), 16)

    class OfSets(net):
        def __init__(self):
            super().__init__()
            self.table, self.attend = nn.Embedding(30, 8), nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, tokens):
            seen = self.table(tokens)
            return super().forward(self.attend(seen, seen, seen)[0].mean(1))

    verdict = examine("trace", OfSets(), Sets(), limit_val_batches=0)
    assert verdict.findings == []
    assert "no order" in verdict.unjudged["network/order-without-effect"]


@pytest.mark.parametrize("item", ["trace", "gradients"])
@pytest.mark.parametrize("by", ["hook", "step", "criterion"])
def test_term_whose_weight_rises_later_is_no_finding(examine, net, item, by):
    class Ramped(net):
        def __init__(self):
            super().__init__()
            self.branch, self.weight = nn.Linear(8, 4), 0.0

        def on_train_epoch_start(self):
            self.weight = min(1.0, max(0, self.current_epoch - 2) / 5)

        def loss(self, batch):
            return functional.cross_entropy(self(batch[0]) + self.weight * self.branch(batch[0]), batch[1])

    class RampedInStep(Ramped):
        def loss(self, batch):
            weight = max(0, self.global_step - 50) / 100
            return functional.cross_entropy(self(batch[0]) + weight * self.branch(batch[0]), batch[1])

    class Criterion(nn.Module):
        def __init__(self):
            super().__init__()
            self.critic = nn.Linear(4, 1)

        def forward(self, answers, labels, step):
            weight = 0.1 if step > 50 else 0.0
            return functional.cross_entropy(answers, labels) - weight * self.critic(answers).mean()

    class RampedInCriterion(net):
        def __init__(self):
            super().__init__()
            self.criterion = Criterion()

        def loss(self, batch):
            return self.criterion(self(batch[0]), batch[1], self.global_step)

    module = {"hook": Ramped, "step": RampedInStep, "criterion": RampedInCriterion}[by]()
    assert whats(examine(item, module)) == []


def test_instances_of_one_bag_are_no_samples(examine, net):
    class Bags(LightningDataModule):
        def train_dataloader(self):
            return DataLoader([(torch.randn(12, 8), torch.tensor(index % 4)) for index in range(8)], batch_size=None)

    class Attending(net):
        def loss(self, batch):
            answers = self(batch[0])
            return functional.cross_entropy((answers.softmax(0) * answers).sum(0), batch[1])

    assert whats(examine("trace", Attending(), Bags(), limit_val_batches=0)) == []


@pytest.mark.parametrize("item", ["trace", "gradients"])
def test_tasks_may_take_turns_by_the_number_of_the_batch(examine, net, item):
    class InTurn(net):
        def __init__(self):
            super().__init__()
            self.other = nn.Linear(8, 1)

        def training_step(self, batch, batch_idx):
            task = ("first", "other")[batch_idx % 2]
            if task == "first":
                return self.loss(batch)
            return self.other(batch[0]).square().mean()

    assert whats(examine(item, InTurn())) == []


def test_head_of_a_task_that_another_batch_draws_is_remarked_on(examine, net):
    class Drawing(net):
        def __init__(self):
            super().__init__()
            self.heads = nn.ModuleDict({name: nn.Linear(4, 4) for name in "ab"})

        def forward(self, inputs):
            task = "a" if len(inputs) else "b"
            return self.heads[task](super().forward(inputs))

    severities = {each.rule: each.severity for each in examine("trace", Drawing()).findings}
    assert severities["network/module-without-gradient"] == "remark"


class Frozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8).requires_grad_(False)

    def forward(self, inputs):
        return self.layer(inputs)


VARIANTS = {
    "frozen": lambda module: setattr(module, "before", Frozen()),
    "attention": lambda module: setattr(module, "attend", nn.MultiheadAttention(8, 2, batch_first=True)),
    "zero head": lambda module: nn.init.zeros_(module.head.weight),
    "teacher in a list": lambda module: setattr(module, "teacher", [Frozen()]),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_deliberate_structure_is_no_finding(examine, net, variant):
    class Varied(net):
        def forward(self, inputs):
            if hasattr(self, "before"):
                inputs = self.before(inputs)
            if hasattr(self, "attend"):
                inputs = inputs + self.attend(inputs[:, None], inputs[:, None], inputs[:, None])[0][:, 0]
            if hasattr(self, "teacher"):
                inputs = inputs + self.teacher[0](inputs)
            return super().forward(inputs)

    module = Varied()
    VARIANTS[variant](module)
    assert whats(examine("trace", module)) == []


def test_modules_without_effect_for_one_reason_are_one_finding(examine, net):
    class Idle(net):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 8)

    (finding,) = examine("trace", Idle()).findings
    assert finding.what.startswith("2 modules have no effect on the loss: 4 parameters")
    assert str(finding.where).startswith("one, two, one.weight, one.bias, two.weight, two.bias")


def test_network_of_a_package_may_have_parts_that_this_task_does_not_need(examine, net, monkeypatch):
    class Packed(nn.Module):
        def __init__(self):
            super().__init__()
            self.pooler = nn.Sequential(nn.Linear(8, 8))
            self.layer = nn.Linear(8, 8)

        def forward(self, inputs):
            return torch.relu(self.layer(inputs))

    class Using(net):
        def __init__(self):
            super().__init__()
            self.packed = Packed()

        def forward(self, inputs):
            return super().forward(self.packed(inputs))

    assert [finding.rule for finding in examine("trace", Using()).findings] == ["network/module-without-gradient"]
    source = effects.inspect.getsourcefile
    packed = "/venv/lib/python3.11/site-packages/packed/net.py"
    monkeypatch.setattr(effects.inspect, "getsourcefile", lambda kind: packed if kind is Packed else source(kind))
    assert whats(examine("trace", Using())) == []


@pytest.mark.parametrize("shared", [True, False])
def test_normalisation_that_two_layers_share_is_named(examine, net, shared):
    class Normalised(net):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)])
            self.norms = nn.ModuleList([nn.BatchNorm1d(8)] * 2 if shared else [nn.BatchNorm1d(8), nn.BatchNorm1d(8)])

        def forward(self, inputs):
            for layer, norm in zip(self.layers, self.norms, strict=True):
                inputs = torch.relu(norm(layer(inputs)))
            return super().forward(inputs)

    verdict = examine("trace", Normalised())
    assert verdict.status == ("warning" if shared else "passed")
    assert [finding.place.module for finding in verdict.findings] == ["norms.0 (BatchNorm1d)"] * shared


def test_normalisation_of_two_views_and_of_the_steps_of_a_loop_is_no_finding(examine, net):
    class Looping(net):
        def __init__(self):
            super().__init__()
            self.layer, self.norm = nn.Linear(8, 8), nn.BatchNorm1d(8)

        def forward(self, inputs):
            for _ in range(3):
                inputs = torch.relu(self.norm(self.layer(inputs)))
            return super().forward(inputs)

        def loss(self, batch):
            self(batch[0] + 0.1)
            return super().loss(batch)

    assert examine("trace", Looping()).findings == []


@pytest.mark.parametrize("inverted", [True, False])
def test_attention_to_the_padding_alone_is_found(examine, net, inverted):
    class Reading(net):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(5, 8, padding_idx=0)
            self.attend = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, inputs):
            ids = torch.tensor([1, 2, 3, 4, 1, 2, 0, 0]).expand(len(inputs), 8)
            tokens = self.embed(ids) + inputs[:, :, None]
            mask = ids != 0 if inverted else ids == 0
            return super().forward(self.attend(tokens, tokens, tokens, key_padding_mask=mask)[0].mean(1))

    rules = [finding.rule for finding in examine("trace", Reading()).findings]
    assert rules == ["network/attention-to-padding-only"] * inverted


@pytest.mark.parametrize("hook", ["setup", "configure_optimizers", "on_train_start", "training_step"])
def test_exception_of_the_project_stays_what_it_is(examine, net, hook):
    def fail(self, *_, **__):
        raise KeyError("of the project")

    with pytest.raises(KeyError, match="of the project"):
        examine("trace", type("Failing", (net,), {hook: fail})())


def test_other_checks_around_the_step_go_on_when_the_trace_ends(train):
    folder = train("+debug=[trace,limit_batches]", "trainer.limit_train_batches=3")
    trace, limit_batches = json.loads((folder / "debug" / "report.json").read_text())["items"]
    assert trace["verdict"] == limit_batches["verdict"] == "passed"
    assert len(trace["facts"]["modules"]) == 12
    assert "10 classes" in limit_batches["seen"]


def test_table_is_shown_up_to_a_crash(examine, net, capsys):
    class Wide(net):
        def forward(self, inputs):
            return self.head(self.first(inputs)[:, :30])

    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        examine("trace", Wide())
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines() if "Linear" in line] == ["first", "head"]


def test_manual_optimization_is_traced_too(examine, net):
    class Manual(net):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch, batch_idx):
            optimizer = self.optimizers()
            optimizer.zero_grad()
            self.manual_backward(self.loss(batch))
            optimizer.step()

    verdict = examine("trace", Manual())
    assert verdict.status == "passed"
    assert len(verdict.facts["modules"]) == 2


def test_optimizer_whose_turn_it_is_not_leaves_its_parameters_unjudged(examine, net):
    class Critical(net):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch, batch_idx):
            optimizer = self.optimizers()[0 if batch_idx % 5 == 4 else 1]
            optimizer.zero_grad()
            hidden = torch.relu(self.first(batch[0]))
            answers = self.head(hidden if batch_idx % 5 == 4 else hidden.detach())
            self.manual_backward(nn.functional.cross_entropy(answers, batch[1]))
            optimizer.step()

        def configure_optimizers(self):
            return [torch.optim.Adam(each.parameters()) for each in (self.first, self.head)]

    assert not examine("trace", Critical()).findings


def test_dropout_on_the_answers_is_named_with_its_module(examine, net):
    class Dropping(net):
        def __init__(self):
            super().__init__()
            self.head = nn.Sequential(nn.Linear(32, 4), nn.Dropout(0.3))

    [finding] = examine("trace", Dropping()).findings
    assert (finding.rule, finding.place.module.partition(" ")[0]) == ("network/dropout-on-output", "head.1")


JOINED = {
    "with itself": (lambda x, skip: torch.cat([x, x], 1), True),
    "another view of it": (lambda x, skip: torch.hstack((x, x.view(16, 32))), True),
    "beside another one": (lambda x, skip: torch.concat([x, skip, skip, 2 * x], dim=1), True),
    "over the samples": (lambda x, skip: torch.vstack([x, x]).view(16, 64), False),
    "with another one": (lambda x, skip: torch.cat([x, skip], 1), False),
    "equal numbers in other places": (lambda x, skip: torch.cat([x, x.clone()], 1), False),
    "parts of one tensor": (lambda x, skip: torch.cat([*x.chunk(2, 1), skip], 1), False),
    "repeated on purpose": (lambda x, skip: torch.cat([x] * 2, 1), False),
    "three of one": (lambda x, skip: torch.cat([x, x, x], 1), False),
    "a list that is given by name": (lambda x, skip: torch.concatenate(tensors=[skip, skip], dim=1), True),
    "without gradient": (lambda x, skip: torch.cat([x.detach(), x.detach()], 1) + x.mean(), False),
}


@pytest.mark.parametrize("case", JOINED)
def test_concatenation_with_itself_is_warned_of(examine, net, case):
    join, twice = JOINED[case]

    class Joining(net):
        def __init__(self):
            super().__init__()
            self.second = nn.Linear(32, 32)

        def forward(self, inputs):
            skip = torch.relu(self.first(inputs))
            both = join(torch.relu(self.second(skip)), skip)
            return self.head(skip + both.view(16, -1, 32).sum(1))

    verdict = examine("trace", Joining())
    found = [each for each in verdict.findings if each.rule == "network/concatenated-with-itself"]
    assert [(each.severity, each.place.file.endswith("test_trace.py")) for each in found] == [("warning", True)] * twice
    assert all("x" in each.what for each in found)


def test_inputs_and_what_a_package_concatenates_with_itself_are_no_finding(examine, net, monkeypatch):
    class Twice(net):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(16, 32)

        def forward(self, inputs):
            return self.head(torch.cat([joined(self.first(torch.cat([inputs, inputs], 1)))], 1))

    def joined(hidden):
        return hidden + 0 * torch.cat([hidden, hidden], 1)[:, :32]

    assert len(examine("trace", Twice()).findings) == 1
    monkeypatch.setattr(tracer, "is_own", lambda file: False)
    assert whats(examine("trace", Twice())) == []


def test_line_that_concatenates_in_each_of_several_layers_is_one_finding(examine, net):
    class Deep(net):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(64, 32) for _ in range(3)])

        def forward(self, inputs):
            hidden = self.first(inputs)
            for layer in self.layers:
                hidden = torch.relu(layer(torch.cat([hidden, hidden], 1)))
            return self.head(hidden)

    [finding] = examine("trace", Deep()).findings
    assert finding.what == "cat joins a tensor of 16x32 with itself"


def test_samples_that_all_choose_one_code_at_first_are_not_judged(examine, net):
    class Quantised(net):
        def forward(self, inputs):
            answers, codes = super().forward(inputs), 100 * torch.arange(4.0)[:, None]
            chosen = codes[torch.cdist(answers.mean(1, keepdim=True), codes).argmin(1)].expand(-1, 4)
            return answers + (chosen - answers).detach()

    verdict = examine("trace", Quantised())
    assert "nearest of several codes" in verdict.unjudged["network/same-output-for-all-samples"]


class Growing(nn.Module):
    """A network that grows: it trains one block after the other, and says itself which."""

    def __init__(self):
        super().__init__()
        self.blocks, self.stage = nn.ModuleList([nn.Linear(8, 32) for _ in range(3)]), 1

    def forward(self, inputs):
        return self.blocks[self.stage](inputs)


class Stuck(Growing):
    def forward(self, inputs):
        return self.blocks[0](inputs)


@pytest.mark.parametrize("item", ["trace", "gradients"])
@pytest.mark.parametrize(("kind", "severity"), [(Growing, "remark"), (Stuck, "warning")])
def test_block_of_a_later_stage_has_no_gradient_yet(examine, net, item, kind, severity):
    class Grown(net):
        def __init__(self):
            super().__init__()
            self.first = kind()

    [finding] = examine(item, Grown()).findings
    assert (finding.rule, finding.severity) == (RULES[item], severity)


RESHAPED = {
    "to channels first": (lambda x: x.reshape(16, 4, 8), True),
    "by a view with a size to infer": (lambda x: x.view(-1, 4, 8), True),
    "samples with steps": (lambda x: x.reshape(8, 16, 4), True),
    "transposed": (lambda x: x.transpose(1, 2), False),
    "heads": (lambda x: x.reshape(16, 8, 2, 2), False),
    "flat and back": (lambda x: x.reshape(16, 32).view(16, 8, 4), False),
    "an axis of 1 elsewhere": (lambda x: x.mean(2).view(16, 8, 1).reshape(16, 1, 8), False),
    "rows moved by a column of zeros": (
        lambda x: nn.functional.pad(x[:, :, :3], (1, 0)).view(16, 4, 8)[:, 1:].view(16, 8, 3),
        False,
    ),
    "rows moved by a column in front": (
        lambda x: torch.cat([x[..., :1], x[..., :3]], 2).view(16, 4, 8),
        False,
    ),
    "made longer by two": (lambda x: nn.functional.pad(x[:, :, :2], (2, 0)).view(16, 4, 8), True),
}


@pytest.mark.parametrize("case", RESHAPED)
def test_reshape_to_the_shape_of_the_transpose_is_warned_of(examine, net, case):
    reshape, mixes = RESHAPED[case]

    class Sequences(net):
        def forward(self, inputs):
            hidden = torch.relu(self.first(inputs)).view(16, 8, 4)
            return self.head(torch.relu(self.first(inputs)) + reshape(hidden).float().sum())

    found = [each for each in examine("trace", Sequences()).findings if each.rule == "network/axes-mixed-by-reshape"]
    assert [each.severity for each in found] == ["warning"] * mixes
    assert all("gives 16x8x4 the shape" in each.what and each.place.line for each in found)


TERMS = {
    "of detached answers": (lambda loss, answers: loss + 0.1 * answers.detach().logsumexp(1).mean(), True),
    "of .data": (lambda loss, answers: loss + answers.data.square().mean(), True),
    "of the classes chosen": (lambda loss, answers: loss + 0.1 * (answers.argmax(1) != 1).float().mean(), True),
    "under no_grad": (lambda loss, answers: loss + torch.no_grad()(torch.logsumexp)(answers, 1).mean(), True),
    "of their shape": (lambda loss, answers: loss + torch.ones_like(answers).mean(), False),
    "over a detached count": (lambda loss, answers: loss + answers.square().sum() / (answers > 0).sum(), False),
    "with a gradient": (lambda loss, answers: loss + 0.1 * answers.logsumexp(1).mean(), False),
    "a number": (lambda loss, answers: loss + 0.1, False),
    "times a detached factor": (lambda loss, answers: loss * answers.detach().std(), False),
    "towards detached targets": (
        lambda loss, answers: loss + (answers - answers.detach().roll(1, 0)).abs().mean(),
        False,
    ),
}


@pytest.mark.parametrize("case", TERMS)
def test_term_of_the_loss_without_gradient_is_warned_of(examine, net, case):
    add, dead = TERMS[case]

    class Adding(net):
        def training_step(self, batch, batch_idx):
            answers = self(batch[0])
            return add(nn.functional.cross_entropy(answers, batch[1]), answers)

    found = [each for each in examine("trace", Adding()).findings if each.rule == "network/term-without-gradient"]
    assert [each.place.file.endswith("test_trace.py") for each in found] == [True] * dead


SQUASHES = {
    "difference of probabilities": (lambda answers: answers.sigmoid(), True),
    "softmax in front of log_softmax": (lambda answers: answers.softmax(1), True),
    "difference of logits": (lambda answers: answers, False),
    "probabilities in a scale of their own": (lambda answers: answers.sigmoid() * 10, False),
}


@pytest.mark.parametrize("case", SQUASHES)
def test_probabilities_where_a_loss_by_hand_takes_logits(examine, net, case):
    squash, twice = SQUASHES[case]

    class Ranking(net):
        def training_step(self, batch, batch_idx):
            answers = squash(self(batch[0]))
            if "log_softmax" in case:
                return -answers.log_softmax(1)[:, 0].mean()
            return -nn.functional.logsigmoid(answers[:, :1] - answers[:, 1:]).mean()

    found = [each for each in examine("trace", Ranking()).findings if each.rule == "network/squashed-twice"]
    assert [each.place.file.endswith("test_trace.py") for each in found] == [True] * twice


@pytest.mark.parametrize("others", [False, True])
def test_term_with_a_weight_of_nothing_is_a_remark_where_others_are_left(examine, net, others):
    class Weighted(net):
        def training_step(self, batch, batch_idx):
            answers = self(batch[0])
            term = 0.0 * nn.functional.cross_entropy(answers, batch[1])
            labels = nn.functional.one_hot(batch[1], 4)
            return term + (answers - labels).square().mean() if others else term + answers.mean()

    found = [each for each in examine("trace", Weighted()).findings if each.rule == "network/criterion-without-effect"]
    assert [each.severity for each in found] == ["remark" if others else "failed"]


@pytest.mark.parametrize("precision", ["32-true", "64-true"])
def test_weights_of_64_bits_that_nobody_asked_for(examine, net, precision):
    class Double(net):
        def on_fit_start(self):
            self.double()

        def on_after_batch_transfer(self, batch, dataloader_idx):
            return batch[0].double(), batch[1]

    found = [each.rule for each in examine("trace", Double(), precision=precision).findings]
    assert ("network/double-precision" in found) == (precision == "32-true")


@pytest.mark.parametrize("masked", [False, True])
def test_marks_for_unknown_labels_in_a_criterion_of_yes_and_no(examine, net, masked):
    class Marked(net):
        def training_step(self, batch, batch_idx):
            targets = nn.functional.one_hot(batch[1], 4).float()
            targets[:, 0] = -1.0
            weight = (targets >= 0).float() if masked else None
            return nn.functional.binary_cross_entropy_with_logits(self(batch[0]), targets, weight)

    found = [each.rule for each in examine("trace", Marked()).findings]
    assert ("network/targets-beyond-yes-and-no" in found) == (not masked)


def test_step_that_raises_is_explained_by_its_criterion_alone(examine, net):
    class Listed(net):
        def __init__(self):
            super().__init__()
            self.extra = [nn.Linear(8, 8)]

        def loss(self, batch):
            return nn.BCELoss()(self(self.extra[0](batch[0])) * 1e3, one_hot(batch[1]))

    verdict = examine("trace", Listed())
    assert [finding.rule for finding in verdict.findings] == ["network/logits-into-bce"]
    assert verdict.unjudged["network/module-not-registered"] == "training_step has raised"


def test_double_precision_that_all_tensors_have_by_default_is_meant(examine, net):
    kind, parameters = torch.get_default_dtype(), torch.float64
    torch.set_default_dtype(parameters)
    try:
        verdict = examine("trace", net().double(), precision="32-true")
    finally:
        torch.set_default_dtype(kind)
    assert "network/double-precision" not in [each.rule for each in verdict.findings]
