import weakref
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchmetrics import CatMetric, Metric
from training_checklist.engines.held import all_kept, held
from training_checklist.probes.memory.peak_above_budget import largest_owner

KEPT = []


def test_healthy_network_fits_and_stays_in_memory(examine, net):
    verdict = examine("memory", net())
    assert verdict.status == "passed"
    assert verdict.facts["largest_batch"] > 1000
    assert "no graph is kept" in verdict.seen


def test_samples_that_are_compared_with_one_another_fill_memory_with_their_square(examine, net):
    class Compared(net):
        def loss(self, batch):
            answers = self(batch[0])
            return super().loss(batch) + (answers[:, None] * answers[None]).sum(2).exp().mean()

    largest, budget = examine("memory", Compared()).facts["largest_batch"], 2 * 2**30
    assert budget / 64 < 4 * largest**2 < budget  # between 1 and 64 float32 matrices of (B, B) at a time


def test_step_takes_as_many_arguments_as_the_project_has_given_it(examine, net):
    class Short(net):
        def training_step(self, batch):
            return self.loss(batch)

    assert "predicted_gb" in examine("memory", Short()).facts


def test_step_that_clears_the_callbacks_where_it_raises_is_looked_at_all_the_same(examine, net):
    class Clearing(net):
        def training_step(self, batch, batch_idx):
            loss = super().training_step(batch, batch_idx)
            try:
                float(loss)
            except Exception:  # of the pretended step, which has no values
                self.trainer.callbacks.clear()
                raise
            return loss

    verdict = examine("memory", Clearing())
    assert verdict.status == "passed"
    assert "no graph is kept" in verdict.seen


@pytest.mark.parametrize(("key", "grows"), [("index", False), ("len(self.cache)", True)])
def test_cache_of_a_dataset_is_told_from_a_leak(examine, net, data, key, grows):
    class Caching(Dataset):
        def __init__(self, samples):
            self.samples, self.cache = samples, {}

        def __len__(self):
            return len(self.samples)

        def __getitem__(self, index):
            entry = index if key == "index" else len(self.cache)
            return self.cache.setdefault(entry, self.samples[index])

    class Cached(data):
        def train_dataloader(self):
            return DataLoader(Caching(self.part(1)), 16)

    places = [finding.where for finding in examine("memory", net(), Cached()).findings]
    assert places == (["train_dataloader, Caching.cache"] if grows else [])


@pytest.mark.parametrize(
    "optimizer", [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.RMSprop, torch.optim.Adagrad]
)
def test_prediction_knows_optimizers(examine, net, optimizer):
    class Optimized(net):
        def configure_optimizers(self):
            return optimizer(self.parameters(), lr=0.01)

    assert "predicted peak" in examine("memory", Optimized()).seen


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU())
        self.head = nn.Linear(4096, 4)

    def forward(self, inputs):
        return self.head(self.body(inputs))


def test_module_that_holds_most_parameters_is_found(net):
    module = net()
    assert largest_owner(module) == "first"
    module.first = Wide()
    assert largest_owner(module) == "first.body.2"
    module.extra = nn.Linear(4096, 4096)
    assert largest_owner(module) == ""


def test_prediction_counts_weights_gradients_and_state(examine, net):
    class Large(net):
        def __init__(self):
            super().__init__()
            self.first = Wide()
            self.head = nn.Identity()

    verdict = examine("memory", Large(), limit_train_batches=1, max_epochs=1)
    parts, weights = verdict.facts["parts_bytes"], 4 * (9 * 4096 + 4097 * 4096 + 4097 * 4)
    assert parts["parameters"] == pytest.approx(weights, rel=0.01)
    assert parts["optimizer state"] == pytest.approx(2 * weights, rel=0.01)
    assert verdict.facts["stages_bytes"]["optimizer"] >= 4 * weights


class TestHealthy:
    """What may stay."""

    def judge(self, examine, module):
        verdict = examine("memory", module)
        assert (verdict.status, verdict.findings) == ("passed", [])

    def test_metric_that_collects(self, examine, net):
        class Collecting(net):
            def __init__(self):
                super().__init__()
                self.outputs = CatMetric()

            def training_step(self, batch, batch_idx):
                self.outputs.update(self(batch[0]).detach())
                return self.loss(batch)

        self.judge(examine, Collecting())

    def test_gradient_that_validation_takes_with_a_graph_of_its_own(self, examine, net):
        class Forces(net):
            def validation_step(self, batch, batch_idx):
                for _ in range(self.global_step):
                    super().validation_step(batch, batch_idx)

            def forward(self, inputs):
                with torch.inference_mode(False), torch.enable_grad():
                    inputs = inputs.clone().requires_grad_()
                    energy = self.head(torch.tanh(self.first(inputs)))
                    [forces] = torch.autograd.grad(energy.square().sum(), inputs, create_graph=True)
                    return energy + forces[:, :4]

        verdict = examine("memory", Forces(), limit_train_batches=2, max_epochs=4)
        assert (verdict.status, verdict.findings) == ("passed", [])

    def test_last_loss_and_outputs_that_are_cleared(self, examine, net):
        class Clearing(net):
            def on_train_epoch_start(self):
                self.outputs = []

            def training_step(self, batch, batch_idx):
                self.outputs.append(self(batch[0]).detach())
                self.last = self.loss(batch)
                return self.last

            def on_train_epoch_end(self):
                self.outputs.clear()

        self.judge(examine, Clearing())

    def test_validation_that_needs_gradients(self, examine, net):
        class Sensitive(net):
            def validation_step(self, batch, batch_idx):
                with torch.inference_mode(False), torch.enable_grad():
                    inputs = batch[0].clone().requires_grad_()
                    self.log("val/slope", torch.autograd.grad(self.head(self.first(inputs)).sum(), inputs)[0].norm())

        self.judge(examine, Sensitive())


class TestFault:
    """What fills memory, with the place that the verdict names."""

    def judge(self, examine, module, **trainer):
        verdict = examine("memory", module, **trainer)
        [finding] = verdict.findings
        return verdict.status, finding

    def test_losses_kept_with_their_graph(self, examine, net):
        class Keeping(net):
            def __init__(self):
                super().__init__()
                self.history = []

            def training_step(self, batch, batch_idx):
                self.history.append(self.loss(batch))
                return self.history[-1]

        status, finding = self.judge(examine, Keeping())
        assert status == "failed"
        assert finding.where == "Keeping.history"
        assert "grows by one graph per step" in finding.what

    def test_answers_that_a_metric_keeps_until_the_epoch_is_over(self, examine, net):
        class Samples(Metric):
            def __init__(self):
                super().__init__()
                self.add_state("drawn", default=[], dist_reduce_fx="cat")

            def update(self, values):
                self.drawn.append(values)

            def compute(self):
                return torch.cat(self.drawn).mean()

        class Keeping(net):
            def __init__(self):
                super().__init__()
                self.samples = Samples()

            def training_step(self, batch, batch_idx):
                answers = self(batch[0])
                self.samples.update(answers)
                self.log("train/samples", self.samples, on_step=False, on_epoch=True)
                return torch.nn.functional.cross_entropy(answers, batch[1])

        status, finding = self.judge(examine, Keeping())
        assert (status, finding.where) == ("failed", "Samples.drawn")

    def test_running_sum_of_losses(self, examine, net):
        class Summing(net):
            total = 0.0

            def training_step(self, batch, batch_idx):
                loss = self.loss(batch)
                self.total = self.total + loss
                return loss

        status, finding = self.judge(examine, Summing())
        assert status == "failed"
        assert finding.where == "Summing.total"

    def test_outputs_in_a_global_list(self, examine, net):
        class Global(net):
            def training_step(self, batch, batch_idx):
                KEPT.append(self(batch[0]))
                return self.loss(batch)

        try:
            status, finding = self.judge(examine, Global())
        finally:
            KEPT.clear()
        assert status == "failed"
        assert finding.where == f"{__name__}.KEPT"

    @pytest.mark.slow
    def test_outputs_that_a_function_keeps(self, examine, net):
        def keeper(output, kept=[]):  # noqa: B006
            kept.append(output)

        class Closure(net):
            def training_step(self, batch, batch_idx):
                keeper(self(batch[0]))
                return self.loss(batch)

        status, finding = self.judge(examine, Closure())
        assert status == "failed"
        assert finding.where.startswith("a variable of ")
        assert finding.where.endswith("keeper")

    def test_average_in_a_buffer(self, examine, net):
        class Averaging(net):
            def __init__(self):
                super().__init__()
                self.register_buffer("average", torch.zeros(()), persistent=False)

            def training_step(self, batch, batch_idx):
                loss = self.loss(batch)
                self.average = 0.9 * self.average + 0.1 * loss
                return loss

        status, finding = self.judge(examine, Averaging())
        assert (status, finding.where) == ("failed", "Averaging.average")

    def test_losses_that_an_object_outside_of_the_model_keeps(self, examine, net):
        class Tracker:
            def __init__(self):
                self.losses = {"train": []}

        tracker = Tracker()

        class Tracked(net):
            def training_step(self, batch, batch_idx):
                loss = self.loss(batch)
                tracker.losses["train"].append(loss)
                return loss

        status, finding = self.judge(examine, Tracked())
        assert (status, finding.where) == ("failed", "Tracker.losses")

    def test_outputs_that_are_never_cleared(self, examine, net):
        class Hoarding(net):
            def __init__(self):
                super().__init__()
                self.outputs = []

            def validation_step(self, batch, batch_idx):
                self.outputs.append(self(batch[0]).repeat(10, 1))

        status, finding = self.judge(examine, Hoarding())
        assert status == "warning"
        assert finding.where == "Hoarding.outputs"

    def test_validation_that_builds_graphs(self, examine, net):
        class Grad(net):
            def validation_step(self, batch, batch_idx):
                with torch.enable_grad():
                    self.log("val/loss", self.loss(batch).detach())

        status, finding = self.judge(examine, Grad(), inference_mode=False)
        assert status == "warning"
        assert finding.place.function.endswith("Grad.validation_step")

    def test_batch_that_does_not_fit(self, examine, net, data):
        class Huge(net):
            def forward(self, inputs):
                body = self.first(inputs)
                for _ in range(6):
                    body = torch.relu(body[:, :, None].expand(-1, -1, 100_000)).mean(2)
                return self.head(body)

        status, finding = self.judge(examine, Huge())
        assert status == "warning"  # nobody has said what the accelerator has
        assert "largest part: " in finding.what
        assert finding.fix.overrides[0].startswith("data.batch_size=")
        assert "callbacks.debug_memory.budget_gb=" in finding.fix.advice


@pytest.mark.parametrize("look", [lambda thing: held(thing, ""), lambda thing: all_kept(thing, (torch.Tensor,))])
def test_container_that_refuses_to_be_gone_through_keeps_nothing(look):
    class Refusing(dict):
        def items(self):
            raise OSError("its file is closed")

    gone = SimpleNamespace(of=weakref.proxy(Refusing()))
    assert len([*look([Refusing(one=torch.ones(1)), gone, torch.ones(1)])]) == 1
