import json

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.modules import module as hooks


def whats(verdict):
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
    "pairs of samples": lambda x, y: -((x @ x.T).softmax(0).diagonal().log()).mean(),
}


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("case", HEALTHY)
def test_criterion_that_fits_is_no_finding(examine, losing, case):
    assert whats(examine("trace", losing(HEALTHY[case]))) == []


MISFITS = {
    "cross_entropy gets probabilities": lambda x, y: nn.CrossEntropyLoss()(x.softmax(1), y),
    "cross_entropy gets probabilities and not logits": lambda x, y: functional.cross_entropy(x.sigmoid(), y),
    "cross_entropy gets logits that are never negative": lambda x, y: functional.cross_entropy(x.relu(), y),
    "cross_entropy gets probabilities over dim 0": lambda x, y: functional.cross_entropy(x.softmax(0), y),
    "cross_entropy gets one output": lambda x, y: functional.cross_entropy(x[:, :1], torch.zeros_like(y)),
    "nll_loss gets logits": lambda x, y: nn.NLLLoss()(x, y),
    "nll_loss gets probabilities": lambda x, y: functional.nll_loss(x.softmax(1), y),
    "nll_loss gets log-probabilities over dim 0": lambda x, y: functional.nll_loss(x.log_softmax(0), y),
    "binary_cross_entropy_with_logits gets probabilities": lambda x, y: nn.BCEWithLogitsLoss()(x.sigmoid(), one_hot(y)),
    "binary_cross_entropy gets -": lambda x, y: nn.BCELoss()(x - x.max() - 1, one_hot(y)),
    "mse_loss gets 16x1 against 16: broadcast to 16x16": lambda x, y: functional.mse_loss(x[:, :1], y.float()),
    "kl_div gets probabilities": lambda x, y: nn.KLDivLoss(reduction="batchmean")(x.softmax(1), one_hot(y)),
    "the loss is -": lambda x, y: -functional.cross_entropy(x, y),
    "cross_entropy has no effect": lambda x, y: functional.cross_entropy(x, y) * 0 + x.mean(),
    "label 4 in the batch": lambda x, y: functional.cross_entropy(x, y + 1),
}


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("what", MISFITS)
def test_criterion_that_gets_what_it_is_not_made_for_is_named_with_the_line(examine, losing, what):
    verdict = examine("trace", losing(MISFITS[what]))
    assert verdict.status == "failed"
    assert [start for start in whats(verdict) if start.startswith(what)], whats(verdict)
    assert "test_trace.py:" in verdict.findings[0].where


def test_softmax_over_the_samples_is_found_inside_the_network(examine, net):
    class Gated(net):
        def forward(self, inputs):
            hidden = torch.relu(self.first(inputs))
            return self.head(hidden * hidden.softmax(dim=0))

    [finding] = examine("trace", Gated()).findings
    assert finding.what == "softmax over dim 0 of 16x32: over the 16 samples"
    assert finding.where.startswith("softmax, ")
    assert finding.where.endswith(" in Gated.forward")


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
            return self.head(self.extra[0](torch.relu(self.first(inputs))))

    [finding] = examine("trace", Listed()).findings
    assert finding.where == "extra[0]"
    assert "is not registered" in finding.what


def test_inputs_that_only_dropout_makes_differ_are_found(examine, net):
    class Blind(net):
        def forward(self, inputs):
            return self.head(functional.dropout(torch.relu(self.first(inputs * 0)), 0.5, self.training))

    module = Blind()
    [finding] = examine("trace", module).findings
    assert finding.what == "all 16 samples have the same output"
    assert finding.where == "before first (Linear)"
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
    assert verdict.findings[0].where == "cut (ReLU)"


def test_output_that_is_too_narrow_for_a_metric_is_named(examine, net):
    from torchmetrics.classification import MulticlassAccuracy

    class Narrow(net):
        def __init__(self):
            super().__init__()
            self.accuracy = MulticlassAccuracy(5)

    [finding] = examine("trace", Narrow()).findings
    assert finding.what == "the network has 4 outputs but accuracy counts 5 classes"


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
