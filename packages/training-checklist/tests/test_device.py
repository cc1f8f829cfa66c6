import pickle
from dataclasses import dataclass

import pytest
import torch
from pytorch_lightning import Callback, Trainer
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset, default_collate
from torchmetrics import ClasswiseWrapper, MeanMetric, Metric, MetricCollection
from torchmetrics.classification import MulticlassAUROC, MulticlassRecall
from torchvision import tv_tensors
from training_checklist import check
from training_checklist.engines.stand_in import FirstBatches


def test_healthy_network_meets_one_device(examine, net):
    verdict = examine("device", net())
    assert verdict.status == "passed"
    assert "training_step" in verdict.seen
    assert "validation_step" in verdict.seen


def test_module_and_random_numbers_are_left_as_they_were(examine, net):
    class Counting(net):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(8)
            self.noise = []

        def loss(self, batch):
            self.noise.append(float(torch.rand(())))
            return super().loss([self.norm(batch[0]), batch[1]])

        def validation_step(self, batch, batch_idx):
            pass

    module = Counting()
    examine("device", module)
    assert int(module.norm.num_batches_tracked) == len(module.noise) == 2
    assert module.first.weight.device.type == "cpu"
    assert type(module.first.weight) is nn.Parameter


def test_callback_keeps_what_it_has_been_given(net, data):
    class Weighing(Callback):
        def __init__(self):
            self.layers, self.weight = {}, None

        def on_train_end(self, trainer, pl_module):
            assert self.weight is pl_module.head.weight
            assert self.layers == {"head": pl_module.head}

    class Weighed(net):
        def on_fit_start(self):
            [callback] = [each for each in self.trainer.callbacks if isinstance(each, Weighing)]
            callback.weight, callback.layers["head"] = self.head.weight, self.head

        def configure_callbacks(self):
            return [Weighing()]

    assert check(Weighed(), data(), items=["device"])["device"].status == "passed"


class WithTag(Tensor):
    """A subclass that refuses deep copies, as its `new_empty` does not give one of itself."""


def wrapped(samples, kind):
    inputs, labels = default_collate(samples)
    return [inputs.as_subclass(kind), labels]


def slope(outputs: Tensor, inputs: Tensor) -> Tensor:
    gradient = torch.autograd.grad([outputs.sum()], [inputs], create_graph=True)[0]
    assert gradient is not None
    return gradient


@pytest.mark.parametrize("step", ["test_step", "predict_step"])
def test_steps_after_training_are_gone_through_too(examine, net, data, step):
    class Full(net):
        def at_end(self, batch, batch_idx):
            return self(batch[0]) * torch.ones(len(batch[0]), 1)

    class Tested(data):
        def test_dataloader(self):
            return DataLoader(self.part(3), batch_size=16)

        predict_dataloader = test_dataloader

    setattr(Full, step, Full.at_end)
    [finding] = examine("device", Full(), Tested()).findings
    assert "torch.ones makes its tensor on the CPU" in finding.what
    setattr(Full, step, net.validation_step)
    verdict = examine("device", Full(), Tested())
    assert (verdict.findings, step in verdict.seen) == ([], True)


@pytest.mark.parametrize("item", ["device", "gradcheck"])
def test_samples_of_16_bits_that_autocast_lets_meet_weights_of_32(examine, net, data, item):
    class Halved(data):
        def part(self, seed):
            inputs, labels = super().part(seed).tensors
            return TensorDataset(inputs.half(), labels)

    verdict = examine(item, net(), Halved(), precision="bf16-mixed")
    assert (verdict.status, verdict.skipped) == ("passed", None)


@pytest.mark.parametrize("hook", ["setup", "configure_optimizers", "configure_callbacks", "on_fit_start"])
def test_exception_before_the_first_step_is_the_projects_own(examine, net, hook):
    def fail(self, *_, **__):
        raise KeyError("of the project")

    with pytest.raises(KeyError, match="of the project"):
        examine("device", type("Failing", (net,), {hook: fail})())


class TestHealthy:
    """What may lie on the CPU, or gets to the accelerator by other ways."""

    def judge(self, examine, module, data=None):
        verdict = examine("device", module, data)
        assert (verdict.status, verdict.skipped, verdict.findings) == ("passed", None, [])

    def test_branches_on_values_scalars_and_indices_of_the_cpu(self, examine, net):
        class Branching(net):
            def forward(self, inputs):
                hidden = self.first(inputs)
                if hidden.mean().item() > 100 or bool(torch.isnan(hidden).any()):
                    raise ValueError
                order = torch.randperm(len(hidden))
                hidden = hidden[order][torch.argsort(order)] * torch.tensor(2.0)
                return self.head(torch.relu(hidden))

        self.judge(examine, Branching())

    def test_device_of_an_input_or_of_the_module(self, examine, net):
        class Asking(net):
            def forward(self, inputs):
                hidden = self.first(inputs) + torch.zeros(1, device=self.device) + inputs.new_tensor([0.0])
                mask = torch.ones(len(hidden)).type_as(hidden) * torch.ones(len(hidden)).to(hidden.device)
                device = "cuda" if torch.cuda.is_available() else "cpu"
                return self.head(hidden * mask[:, None] * torch.ones(1, device=device))

        self.judge(examine, Asking())

    def test_questions_about_cuda_itself(self, examine, net):
        class Careful(net):
            def forward(self, inputs):
                if torch.cuda.is_available() and not torch.cuda.is_current_stream_capturing():
                    assert torch.cuda.is_bf16_supported()
                    assert torch.cuda.get_device_capability() >= (8, 0)
                    torch.cuda.synchronize()
                return super().forward(inputs)

        self.judge(examine, Careful())

    def test_library_that_knows_a_tensor_by_the_name_of_its_type(self, examine, net):
        class Drawn(net):
            def validation_step(self, batch, batch_idx):
                kind = type(batch[0])
                is_known = f"{kind.__module__}.{kind.__name__}" == "torch.Tensor"
                (batch[0].cpu() if is_known else batch[0]).numpy()

        assert examine("device", Drawn()).status == "passed"

    def test_name_of_a_type_to_convert_to(self, examine, net):
        class Named(net):
            def loss(self, batch):
                return super().loss([batch[0].double().type(self.head.weight.type()), batch[1]])

        verdict = examine("device", Named())
        assert (verdict.status, verdict.skipped) == ("passed", None)

    def test_number_in_a_message(self, examine, net):
        class Telling(net):
            def training_step(self, batch, batch_idx):
                loss = super().training_step(batch, batch_idx)
                assert f"{loss.detach():.3f}"
                return loss

        self.judge(examine, Telling())

    def test_scripted_layer_that_is_called_several_times(self, examine, net):
        """By then TorchScript has seen its tensors, and compiles what it does with them."""

        class Scripted(net):
            def __init__(self):
                super().__init__()
                self.squashed = torch.jit.script(nn.Sequential(nn.Tanh(), nn.Sigmoid()))

            def forward(self, inputs):
                for _ in range(4):
                    inputs = self.squashed(inputs)
                return super().forward(inputs)

        self.judge(examine, Scripted())

    def test_numbers_that_a_tensor_is_made_of(self, examine, net):
        class Listed(net):
            def training_step(self, batch, batch_idx):
                loss = super().training_step(batch, batch_idx)
                of_both = torch.tensor([loss, loss.detach() / 2], device=self.device)
                counts = torch.tensor([batch[1].sum()], device=self.device)
                return loss + (of_both.sum() + counts.sum()) * 0

        self.judge(examine, Listed())

    def test_generator_on_the_device_of_an_input(self, examine, net):
        class Seeded(net):
            def training_step(self, batch, batch_idx):
                inputs = batch[0]
                generator = torch.Generator(device=inputs.device).manual_seed(1)
                assert isinstance(generator, torch.Generator)
                noise = torch.randn(inputs.shape, generator=generator, device=inputs.device)
                kept = torch.empty_like(inputs).bernoulli_(0.5, generator=generator)
                again = generator.manual_seed(1)
                assert torch.equal(noise, torch.randn(inputs.shape, generator=again, device=inputs.device))
                return super().training_step([inputs * kept + noise, *batch[1:]], batch_idx)

        self.judge(examine, Seeded())

    def test_attribute_that_a_hook_moves(self, examine, net):
        class Moving(net):
            def on_fit_start(self):
                self.weight = torch.ones(32).to(self.device)

            def forward(self, inputs):
                return self.head(self.first(inputs) * self.weight)

        self.judge(examine, Moving())

    def test_metrics_whose_states_are_lists_or_depend_on_values(self, examine, net):
        class Measuring(net):
            def __init__(self):
                super().__init__()
                self.auroc = MulticlassAUROC(4)
                self.mean = MeanMetric()
                each = ClasswiseWrapper(MulticlassRecall(4, average=None))  # which shares the states of the other
                self.both = MetricCollection({"recall": MulticlassRecall(4), "each": each})

            def validation_step(self, batch, batch_idx):
                self.auroc(self(batch[0]).softmax(1), batch[1])
                self.mean.update(self.loss(batch))
                self.both.update(self(batch[0]), batch[1])
                self.log("val/auroc", self.auroc)

        self.judge(examine, Measuring())

    @pytest.mark.parametrize("recurrent", [nn.LSTM, nn.GRU])
    def test_packed_sequences(self, examine, net, recurrent):
        class Recurrent(net):
            def __init__(self):
                super().__init__()
                self.recurrent = recurrent(8, 8, batch_first=True)

            def forward(self, inputs):
                lengths = torch.full((len(inputs),), 3)
                packed = nn.utils.rnn.pack_padded_sequence(inputs[:, None].expand(-1, 3, -1), lengths, batch_first=True)
                output, _ = nn.utils.rnn.pad_packed_sequence(self.recurrent(packed)[0], batch_first=True)
                return self.head(self.first(output[:, -1]))

        self.judge(examine, Recurrent())

    @pytest.mark.parametrize("lengths", [torch.tensor, tuple])
    def test_ctc_loss(self, examine, net, lengths):
        class Reading(net):
            def loss(self, batch):
                scores = self(batch[0]).log_softmax(-1)[:, None]  # (T, N, C) of one line
                targets = batch[1][None, :4] % 3 + 1
                return functional.ctc_loss(scores, targets, lengths([len(scores)]), lengths([4]))

        verdict = examine("device", Reading())
        assert (verdict.status, verdict.skipped) == ("passed", None)

    def test_attention_in_half_precision_and_tied_weights(self, examine, net):
        class Attending(net):
            def __init__(self):
                super().__init__()
                self.attention = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
                self.tied = nn.Linear(8, 32)
                self.tied.weight = self.first.weight

            def forward(self, inputs):
                return super().forward(self.attention(inputs[:, None])[:, 0]) + self.head(self.tied(inputs)).half()

        self.judge(examine, Attending())

    def test_distribution_that_the_first_step_makes_once(self, examine, net):
        class Lazy(net):
            prior = None

            def training_step(self, batch, batch_idx):
                if self.prior is None:
                    self.prior = torch.distributions.Normal(*torch.tensor([0.0, 1.0], device=self.device))
                return super().training_step(batch, batch_idx) - 0.01 * self.prior.log_prob(self(batch[0])).mean()

        assert examine("device", Lazy()).findings == []

    def test_last_loss_kept_with_its_graph(self, examine, net):
        class Keeping(net):
            def training_step(self, batch, batch_idx):
                self.last = self.loss(batch)
                return self.last

        self.judge(examine, Keeping())

    def test_step_that_takes_the_batch_alone(self, examine, net):
        class Brief(net):
            def training_step(self, batch):
                return self.loss(batch)

            def validation_step(self, batch):
                self.log("val/loss", self.loss(batch))

        self.judge(examine, Brief())

    def test_graph_that_moves_itself_and_keeps_what_it_has_computed(self, examine, net, data):
        class Graph:
            def __init__(self, x, y):
                self.store = {"x": x, "y": y}
                self.cache = [torch.ones(3)]

            def to(self, device, **_):
                self.store = {name: value.to(device) for name, value in self.store.items()}
                return self

        class Graphs(data):
            def train_dataloader(self):
                def collate(samples):
                    inputs, labels = zip(*samples, strict=True)
                    return Graph(torch.stack(inputs), torch.stack(labels))

                return DataLoader(self.part(1), 16, collate_fn=collate)

            val_dataloader = train_dataloader

        class Taking(net):
            def loss(self, batch):
                return super().loss([batch.store["x"], batch.store["y"]])

            def validation_step(self, batch, batch_idx):
                self.log("val/loss", self.loss(batch), batch_size=16)

        self.judge(examine, Taking(), Graphs())

    def test_attribute_that_a_step_makes_where_its_input_lies(self, examine, net):
        class Lazy(net):
            def __init__(self):
                super().__init__()
                self.positions, self.cache = None, {}

            def forward(self, inputs):
                if self.positions is None:
                    self.positions = torch.linspace(0, 1, 32, device=inputs.device)
                scale = self.cache.setdefault("scale", inputs.new_ones(32))
                return self.head(self.first(inputs) * scale + self.positions)

        self.judge(examine, Lazy())

    def test_tuple_of_a_class_whose_constructor_takes_its_parts(self, examine, net):
        class Degree(tuple):
            def __new__(cls, order, parity):
                return super().__new__(cls, (order, parity))

            def __getnewargs__(self):  # it can be copied
                return tuple(self)

        class Equivariant(net):
            def __init__(self):
                super().__init__()
                self.degrees = [Degree(1, -1)]

        self.judge(examine, Equivariant())

    def test_inference_mode_of_a_metric(self, examine, net):
        class Measuring(net):
            @torch.inference_mode()
            def measure(self, batch):
                return (self(batch[0]).argmax(1) == batch[1]).float().mean()

            def training_step(self, batch, batch_idx):
                self.log("train/accuracy", self.measure(batch))
                with torch.inference_mode(False):
                    return self.loss(batch)

        self.judge(examine, Measuring())

    @pytest.mark.parametrize("batched", [WithTag, tv_tensors.Image])
    def test_batch_of_a_subclass_of_tensor(self, examine, net, data, batched):
        class Tagged(data):
            def train_dataloader(self):
                return DataLoader(self.part(1), 16, collate_fn=lambda samples: wrapped(samples, batched))

        self.judge(examine, net(), Tagged())

    @pytest.mark.parametrize("slope", [slope, torch.jit.script(slope)], ids=["plain", "scripted"])
    def test_gradient_in_a_loss(self, examine, net, slope):
        class Penalised(net):
            def loss(self, batch):
                inputs = batch[0].clone().requires_grad_()
                with torch.enable_grad():
                    return super().loss(batch) + slope(self(inputs), inputs).square().mean()

        self.judge(examine, Penalised())

    def test_network_that_a_step_moves_to_the_device_it_was_made_for(self, examine, net):
        class Moving(net):
            def __init__(self):
                super().__init__()
                self.chosen = "cuda" if torch.cuda.is_available() else "cpu"

            def forward(self, inputs):
                noise = torch.randn(inputs.shape, device=self.chosen)
                return self.head.to(self.chosen)(self.first(inputs.to(self.chosen) + noise))

        self.judge(examine, Moving())

    def test_gradient_of_an_input_that_backward_leaves(self, examine, net):
        """A sampler follows the slope of an energy, step by step."""

        class Sampled(net):
            def loss(self, batch):
                at = torch.randn_like(batch[0]).requires_grad_()
                for _ in range(2):
                    with torch.enable_grad():
                        self(at).logsumexp(1).sum().backward()
                    with torch.no_grad():
                        at += 0.1 * at.grad
                    at.grad.zero_()
                return super().loss((at.detach() + batch[0], batch[1]))

        self.judge(examine, Sampled())

    def test_gradients_that_a_step_scales_itself(self, examine, net):
        class Scaled(net):
            automatic_optimization = False

            def training_step(self, batch, batch_idx):
                self.manual_backward(self.loss(batch), inputs=list(self.head.parameters()))
                for parameter in self.head.parameters():
                    parameter.grad *= 0.5 / parameter.grad.norm()
                self.optimizers().step()

        self.judge(examine, Scaled())

    def test_manual_optimization(self, examine, net):
        class Manual(net):
            automatic_optimization = False

            def training_step(self, batch, batch_idx):
                optimizer, schedule = self.optimizers(), self.lr_schedulers()
                assert isinstance(optimizer, torch.optim.Optimizer)
                optimizer.zero_grad()
                self.manual_backward(self.loss(batch))
                optimizer.step()
                schedule.step()
                optimizer.param_groups[0]["lr"] = 0.5 * schedule.get_last_lr()[0]

            def configure_optimizers(self):
                optimizer = super().configure_optimizers()
                return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]

        self.judge(examine, Manual())


class TestFault:
    """What only an accelerator would show, with the place that the verdict names."""

    def judge(self, examine, module, data=None):
        verdict = examine("device", module, data)
        assert verdict.status == "failed"
        [finding] = verdict.findings
        return finding

    def test_batch_of_a_subclass_of_tensor(self, examine, net, data):
        class Tagged(data):
            def train_dataloader(self):
                return DataLoader(self.part(1), 16, collate_fn=lambda samples: wrapped(samples, tv_tensors.Image))

        class Weighted(net):
            def forward(self, inputs):
                return self.head(self.first(inputs) * torch.ones(len(inputs), 1))

        assert "torch.ones makes its tensor on the CPU" in self.judge(examine, Weighted(), Tagged()).what

    def test_weights_of_a_gradient_in_a_loss(self, examine, net):
        class Penalised(net):
            def loss(self, batch):
                inputs = batch[0].clone().requires_grad_()
                with torch.enable_grad():
                    answers = self(inputs)
                    ones = torch.ones(answers.shape)
                    [gradient] = torch.autograd.grad(answers, inputs, grad_outputs=ones, create_graph=True)
                return super().loss(batch) + gradient.square().mean()

        assert "torch.ones makes its tensor on the CPU" in self.judge(examine, Penalised()).what

    def test_tensor_made_on_the_default_device(self, examine, net):
        class Block(nn.Module):
            def forward(self, inputs):
                mask = torch.ones(len(inputs))
                return inputs * mask[:, None]

        class Masking(net):
            def __init__(self):
                super().__init__()
                self.first = nn.Sequential(nn.Linear(8, 32), Block())

        finding = self.judge(examine, Masking())
        assert finding.what.endswith("torch.ones makes its tensor on the CPU")
        assert finding.place.module == "first.1 (Block)"
        assert finding.place.source == "mask = torch.ones(len(inputs))"
        assert finding.place.note.startswith("used in first.1")
        assert finding.fix.advice.startswith("torch.ones(..., device=x.device)")

    @pytest.mark.parametrize("kept", [lambda layer: [layer], lambda layer: {"a": layer}])
    def test_layer_that_is_not_registered(self, examine, net, kept):
        class Hiding(net):
            def __init__(self):
                super().__init__()
                self.extra = kept(nn.Linear(8, 8))

            def forward(self, inputs):
                [layer] = self.extra.values() if isinstance(self.extra, dict) else self.extra
                return super().forward(layer(inputs))

        finding = self.judge(examine, Hiding())
        assert "Hiding.extra[" in finding.what
        assert "is not registered as a submodule" in finding.what
        assert finding.place.parameter.startswith("Hiding.extra[")

    def test_plain_attribute_instead_of_a_buffer(self, examine, net):
        class Plain(net):
            def __init__(self):
                super().__init__()
                self.shift = torch.zeros(32)

            def forward(self, inputs):
                return self.head(self.first(inputs) + self.shift[None])

        finding = self.judge(examine, Plain())
        assert "Plain.shift is a plain attribute and no buffer" in finding.what
        assert 'self.register_buffer("shift"' in finding.fix.advice

    def test_tensor_of_the_datamodule_that_nothing_moves(self, examine, net, data):
        class Normalising(data):
            def __init__(self):
                super().__init__()
                self.mean = torch.zeros(8)

            def on_after_batch_transfer(self, batch, dataloader_idx):
                return [batch[0] - self.mean, batch[1]]

        finding = self.judge(examine, net(), Normalising())
        assert "Normalising.mean is a tensor of the CPU" in finding.what
        assert finding.place.parameter == "Normalising.mean"
        assert finding.place.source == "return [batch[0] - self.mean, batch[1]]"
        assert finding.fix.advice.startswith("move it where it is used: self.mean.to(x.device)")

    def test_accelerator_named_by_a_number(self, examine, net):
        class Numbering(net):
            def forward(self, inputs):
                device = "cuda:1" if torch.cuda.is_available() else "cpu"
                return self.head(self.first(inputs) + torch.zeros(32, device=device))

        finding = self.judge(examine, Numbering())
        assert finding.what == "zeros puts a tensor on cuda:1, and the step is on cuda:0"
        assert "torch.zeros(32, device=device)" in finding.place.source

    def test_part_of_a_batch_that_the_transfer_leaves_behind(self, examine, net, data):
        class Sample:
            def __init__(self, inputs, labels):
                self.inputs, self.labels = inputs, labels

        class Objects(data):
            def train_dataloader(self):
                def collate(samples):
                    inputs, labels = zip(*samples, strict=True)
                    return {"sample": Sample(torch.stack(inputs), torch.stack(labels))}

                return DataLoader(self.part(1), 16, collate_fn=collate)

        class Taking(net):
            def training_step(self, batch, batch_idx):
                return self.loss([batch["sample"].inputs, torch.zeros(16, dtype=torch.long, device=self.device)])

        finding = self.judge(examine, Taking(), Objects())
        assert "batch['sample'].inputs is left behind" in finding.what

    def test_dataclass_is_moved_but_its_private_list_of_tensors_too(self, examine, net, data):
        @dataclass
        class Sample:
            inputs: list
            labels: torch.Tensor

        class Dataclasses(data):
            def train_dataloader(self):
                def collate(samples):
                    inputs, labels = zip(*samples, strict=True)
                    return Sample([torch.stack(inputs)], torch.stack(labels))

                return DataLoader(self.part(1), 16, collate_fn=collate)

        class Taking(net):
            def training_step(self, batch, batch_idx):
                return self.loss([batch.inputs[0], batch.labels])

        assert examine("device", Taking(), Dataclasses()).status == "passed"

    def test_initial_state_of_a_recurrent_layer(self, examine, net):
        class Recurrent(net):
            def __init__(self):
                super().__init__()
                self.recurrent = nn.GRU(8, 8, batch_first=True)

            def forward(self, inputs):
                output, _ = self.recurrent(inputs[:, None], torch.zeros(1, len(inputs), 8))
                return super().forward(output[:, 0])

        verdict = examine("device", Recurrent())
        assert verdict.status == "failed"
        assert verdict.findings[0].rule == "device/two-devices"
        assert verdict.findings[0].place.module == "recurrent (GRU)"
        assert "torch.zeros(1, len(inputs), 8)" in verdict.findings[0].place.source

    def test_average_of_weights_that_a_later_hook_updates(self, examine, net):
        class Averaging(net):
            def __init__(self):
                super().__init__()
                self.shadow = {name: weight.detach().clone() for name, weight in self.named_parameters()}

            def on_train_batch_end(self, *_):
                for name, weight in self.named_parameters():
                    self.shadow[name].lerp_(weight.detach(), 0.1)

        assert "Averaging.shadow['first.weight']" in self.judge(examine, Averaging()).what

    def test_metric_in_a_list(self, examine, net):
        class Mean(Metric):
            def __init__(self):
                super().__init__()
                self.add_state("total", torch.zeros(2), "sum")

            def update(self, value):
                self.total += value.detach()

            def compute(self):
                return self.total

        class Measuring(net):
            def __init__(self):
                super().__init__()
                self.means = [Mean()]

            def training_step(self, batch, batch_idx):
                loss = self.loss(batch)
                self.means[0].update(loss.expand(2))
                return loss

        assert "Measuring.means[0]" in self.judge(examine, Measuring()).what

    def test_numpy_of_a_tensor_of_the_accelerator(self, examine, net):
        class Exporting(net):
            def training_step(self, batch, batch_idx):
                self.seen = batch[0].numpy()
                return self.loss(batch)

        finding = self.judge(examine, Exporting())
        assert "numpy()" in finding.what
        assert finding.fix.advice.endswith("tensor.detach().cpu().numpy()")

    def test_numpy_that_takes_a_tensor_off_first_is_no_mistake(self, examine, net):
        class Exporting(net):
            def training_step(self, batch, batch_idx):
                self.seen = batch[0].numpy(force=True)
                return self.loss(batch)

        assert examine("device", Exporting()).status == "passed"

    def test_tensors_of_data_that_are_told_their_device_lie_where_the_program_wants_them(self, examine, net, data):
        class Target:
            def __init__(self, device):
                self.device, self.centre = device, torch.zeros(4, device=device)

            def loss(self, answers):
                return (answers - self.centre).square().mean() * torch.tensor([1.0], device=self.device)

        class Sampled(data):
            def __init__(self):
                super().__init__()
                self.target = Target("cuda" if torch.cuda.is_available() else "cpu")

        class Drawn(net):
            def loss(self, batch):
                return self.trainer.datamodule.target.loss(self(batch[0])).sum()

        verdict = examine("device", Drawn(), Sampled())
        assert verdict.status == "passed", verdict.findings

    def test_function_that_holds_its_module_goes_with_the_copy(self, examine, net):
        class Choosing(net):
            def __init__(self):
                super().__init__()

                def scaled(inputs):
                    return self.first(inputs) * self.first.weight.mean()

                self.chosen = lambda inputs: scaled(inputs).relu()

            def forward(self, inputs):
                return self.head(self.chosen(inputs))

        verdict = examine("device", Choosing())
        assert verdict.status == "passed", verdict.findings

    def test_detour_over_the_cpu(self, examine, net):
        class Detour(net):
            def forward(self, inputs):
                return self.head(self.first(inputs) + self.first(inputs).cpu())

        finding = self.judge(examine, Detour())
        assert "a tensor was moved to the CPU" in finding.what


def test_trainer_can_be_pickled_while_batches_are_kept(net):
    trainer = Trainer(accelerator="cpu", logger=False, enable_checkpointing=False)
    kept = FirstBatches(trainer)
    assert pickle.dumps(trainer.strategy.batch_to_device)
    kept.remove()
    assert "batch_to_device" not in vars(trainer.strategy)
