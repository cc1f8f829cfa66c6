import copy

import pytest
import torch
from pytorch_lightning import Callback
from torch import nn
from torch.nn import functional
from training_checklist.python_call import check


class TestHealthy:
    """Networks that train, on which no alarm may sound."""

    def silent(self, examine, module, data=None, **trainer):
        verdict = examine("gradients", module, data, **trainer)
        assert (verdict.status, verdict.findings) == ("passed", [])
        return verdict

    def test_classifier_passes_with_its_norms(self, examine, net):
        verdict = self.silent(examine, net())
        assert "4 parameters, 10 steps" in verdict.seen
        assert len(verdict.facts["gradient_norms"]["first.weight"]) == 10

    @pytest.mark.parametrize("lr", [1e-5, 0.03])
    def test_sensible_learning_rates_pass(self, examine, net, lr):
        self.silent(examine, net(lr))

    def test_frozen_layer_is_listed_and_no_fault(self, examine, net):
        module = net()
        module.first.requires_grad_(False)
        assert "frozen: first.weight, first.bias" in self.silent(examine, module).seen

    @pytest.mark.parametrize("left", [False, True])
    def test_frozen_layer_that_an_optimizer_holds_in_part(self, examine, net, left):
        class Later(net):
            def configure_optimizers(self):
                self.first.requires_grad_(False)
                held = [p for name, p in self.named_parameters() if not (left and name == "first.weight")]
                return torch.optim.Adam(held, lr=0.01)

        found = [finding.what for finding in examine("gradients", Later()).findings]
        assert found == ["an optimizer holds first.bias, frozen for now, and none holds first.weight"] * left

    def test_rows_that_have_parted_stay_parted_whatever_a_callback_leaves_in_the_end(self, net, data):
        class Untrained(Callback):
            """Puts the first weights back, as an average over no epoch does."""

            def on_train_start(self, trainer, pl_module):
                self.first = copy.deepcopy(pl_module.state_dict())

            def on_train_end(self, trainer, pl_module):
                pl_module.load_state_dict(self.first)

        module = net()
        nn.init.zeros_(module.head.weight)
        results = check(module, data(), ["gradients"], trainer={"callbacks": [Untrained()]})
        assert results["gradients"].findings == []

    def test_weights_that_begin_at_zero_and_a_warm_up(self, examine, net):
        class Warmed(net):
            def __init__(self):
                super().__init__()
                self.first, self.head = nn.Identity(), nn.Linear(8, 4)
                nn.init.zeros_(self.head.weight)

            def configure_optimizers(self):
                optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
                warm_up = torch.optim.lr_scheduler.LinearLR(optimizer, 0.001, total_iters=100)
                return [optimizer], [{"scheduler": warm_up, "interval": "step"}]

        self.silent(examine, Warmed())

    def test_nodes_of_one_graph_see_each_other(self, examine, net):
        class Graph(net):
            def __init__(self):
                super().__init__()
                self.register_buffer("beside", torch.eye(16) + torch.eye(16).roll(1, 0))

            def forward(self, inputs):
                return super().forward(self.beside @ inputs)

        self.silent(examine, Graph())

    def test_loss_of_each_sample_may_compare_it_with_others(self, examine, net):
        class Contrast(nn.Module):
            def forward(self, one, two):
                return functional.cross_entropy(one @ two.T, torch.arange(len(one)), reduction="none")

        class Contrasted(net):
            def __init__(self):
                super().__init__()
                self.network, self.contrast = nn.Linear(8, 4), Contrast()
                self.first = self.head = None

            def loss(self, batch):
                return self.contrast(self.network(batch[0]), self.network(batch[0].flip(1))).mean()

        self.silent(examine, Contrasted(), limit_val_batches=0)

    def test_head_that_starts_from_zero_passes(self, examine, net):
        module = net()
        nn.init.zeros_(module.head.weight)
        self.silent(examine, module)

    def test_accumulated_batches_are_steps_of_the_optimizer(self, examine, net):
        assert "steps" in self.silent(examine, net(), accumulate_grad_batches=4).seen

    def test_deep_network_with_layer_norm_passes(self, examine, net):
        class Deep(net):
            def __init__(self):
                super().__init__()
                layers = [[nn.Linear(32, 32), nn.LayerNorm(32), nn.ReLU()] for _ in range(20)]
                self.deep = nn.Sequential(*[module for layer in layers for module in layer])

            def forward(self, inputs):
                return self.head(self.deep(self.first(inputs)))

        self.silent(examine, Deep())

    def test_plain_network_of_four_layers_passes(self, examine, net):
        self.silent(examine, deep(net, 4, nn.ReLU))

    def test_batch_norm_mixes_samples_in_training_only(self, examine, normed):
        self.silent(examine, normed())

    def test_model_is_left_as_it_was_by_the_second_look(self, examine, net):
        class Counting(net):
            def __init__(self):
                super().__init__()
                self.norm = nn.BatchNorm1d(32)
                self.calls = 0

            def forward(self, inputs):
                self.calls += 1
                return self.head(torch.relu(self.norm(self.first(inputs))))

        module = Counting()
        self.silent(examine, module, limit_val_batches=0)
        assert (module.calls, int(module.norm.num_batches_tracked)) == (10, 10)

    def test_stop_gradient_beside_a_path_that_learns_is_no_cut(self, examine, net):
        class Detached(net):
            def forward(self, inputs):
                hidden = self.first(inputs)
                return self.head(torch.relu(hidden / hidden.detach().norm(dim=1, keepdim=True)))

        self.silent(examine, Detached())

    def test_attention_with_the_batch_first_passes(self, examine, net):
        self.silent(examine, attending(net, batch_first=True))


def deep(net, depth, activation, weight=None):
    class Deep(net):
        def __init__(self):
            super().__init__()
            self.deep = nn.Sequential(*[part for _ in range(depth) for part in (nn.Linear(32, 32), activation())])
            for module in self.deep if weight is not None else ():
                if isinstance(module, nn.Linear):
                    nn.init.normal_(module.weight, std=weight)

        def forward(self, inputs):
            return self.head(self.deep(self.first(inputs)))

    return Deep()


def attending(net, batch_first):
    class Attending(net):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(1, 1, batch_first=batch_first)

        def forward(self, inputs):
            tokens = inputs[:, :, None]  # (B, 8, 1)
            return self.head(torch.relu(self.first(self.attention(tokens, tokens, tokens)[0].squeeze(2))))

    return Attending()


class TestFault:
    """What is wrong with a gradient, and the place that the verdict names."""

    def judge(self, examine, module, **trainer):
        verdict = examine("gradients", module, **trainer)
        assert verdict.status == "failed"
        [finding] = verdict.findings
        return finding

    def test_detached_layer_is_named_between_its_neighbours(self, examine, net):
        class Cut(net):
            def forward(self, inputs):
                return self.head(torch.relu(self.first(inputs)).detach())

        finding = self.judge(examine, Cut())
        assert finding.rule == "gradients/cut-off"
        assert finding.what.startswith("2 of 4 parameters get no gradient: first; detach ")
        assert finding.what.endswith("between first and head")
        assert (finding.place.module, finding.place.parameter) == ("Cut", "first.weight, first.bias")

    def test_gradients_that_are_never_zeroed(self, examine, net):
        class Adding(net):
            def optimizer_zero_grad(self, *_):
                pass

        finding = self.judge(examine, Adding())
        assert finding.what.startswith("gradients are never zeroed: in all of 9 steps")
        assert finding.rule == "gradients/never-zeroed"
        assert finding.place.function.endswith("Adding.optimizer_zero_grad")

    def test_gradients_that_are_zeroed_once_an_epoch(self, examine, net):
        class Adding(net):
            def optimizer_zero_grad(self, epoch, batch_idx, optimizer):
                if (batch_idx + 1) % self.trainer.num_training_batches == 0:
                    optimizer.zero_grad()

        finding = self.judge(examine, Adding())
        assert finding.what.startswith("gradients are rarely zeroed: in 8 of 9 steps")
        assert finding.rule == "gradients/never-zeroed"

    def test_gradients_that_a_manual_step_never_zeroes(self, examine, net):
        class Adding(net):
            automatic_optimization = False

            def training_step(self, batch, batch_idx):
                self.manual_backward(self.loss(batch))
                self.optimizers().step()

        finding = self.judge(examine, Adding())
        assert finding.what.startswith("gradients are never zeroed: in all of 9 steps")
        assert finding.place.function.endswith("Adding.training_step")

    def test_optimizer_whose_state_is_thrown_away(self, examine, net):
        class Forgetful(net):
            def on_train_batch_start(self, batch, batch_idx):
                self.optimizers().optimizer.state.clear()

        finding = self.judge(examine, Forgetful())
        assert finding.rule == "gradients/state-lost"
        assert finding.what.endswith("that of 4 of 4 parameters is thrown away or set back, 9 times of 9")

    def test_no_grad_is_named_with_the_module_that_runs_under_it(self, examine, net):
        class Cut(net):
            def forward(self, inputs):
                with torch.no_grad():
                    hidden = self.first(inputs)
                return self.head(torch.relu(hidden))

        finding = self.judge(examine, Cut())
        assert finding.rule == "gradients/cut-off"
        assert "first runs under torch.no_grad()" in finding.what
        assert finding.place.source == "hidden = self.first(inputs)"

    def test_unused_layer_is_said_to_be_unused(self, examine, net):
        class Unused(net):
            def __init__(self):
                super().__init__()
                self.extra = nn.Linear(8, 8)

        finding = self.judge(examine, Unused())
        assert (finding.rule, finding.place.module) == ("gradients/unused", "extra")

    def test_loss_that_is_cut_from_the_network(self, examine, net):
        class Detached(net):
            def loss(self, batch):
                return super().loss(batch).detach()

        finding = self.judge(examine, Detached())
        assert finding.rule == "gradients/loss-cut-off"
        assert finding.what.startswith("4 of 4 parameters get no gradient, for the loss leads to none: detach ")
        assert finding.place.source == "return super().loss(batch).detach()"

    @pytest.mark.parametrize("make", ["tensor", "requires_grad_"])
    def test_loss_that_is_made_anew_and_wants_a_gradient(self, examine, net, make):
        class Wrapped(net):
            def loss(self, batch):
                loss = super().loss(batch)
                if make == "tensor":
                    return torch.tensor(loss.item(), requires_grad=True)
                return loss.detach().requires_grad_()

        finding = self.judge(examine, Wrapped())
        assert (finding.rule, make in finding.place.source) == ("gradients/loss-cut-off", True)

    @pytest.mark.parametrize("hook", ["on_after_backward", "on_before_optimizer_step"])
    def test_gradients_that_are_zeroed_before_the_step_gets_them(self, examine, net, hook):
        def zero(self, *_):
            self.zero_grad()

        finding = self.judge(examine, type("Zeroing", (net,), {hook: zero})())
        assert finding.rule == "gradients/unchanged-by-step"
        assert "they are zeroed before the step gets them" in finding.what
        assert finding.place.function.endswith(".zero")

    def test_weights_that_are_put_back_after_each_step(self, examine, net):
        class Frozen(net):
            def on_train_batch_start(self, batch, batch_idx):
                self.kept = {name: value.clone() for name, value in self.state_dict().items()}

            def on_train_batch_end(self, *_):
                self.load_state_dict(self.kept)

        finding = self.judge(examine, Frozen())
        assert finding.rule == "gradients/unchanged-by-step"
        assert "before the next one they are what they were" in finding.what

    def test_rate_of_zero_is_named_as_such(self, examine, net):
        finding = self.judge(examine, net(lr=0.0))
        assert (finding.rule, finding.place.key) == ("gradients/unchanged-by-step", "optimizer.lr")

    def test_layer_that_is_replaced_after_the_optimizer_was_made(self, examine, net):
        class Replacing(net):
            def on_train_start(self):
                self.head = nn.Linear(32, 4)

        finding = self.judge(examine, Replacing())
        assert (finding.rule, finding.place.parameter) == ("gradients/held-by-none", "head.weight, head.bias")
        assert "what they hold instead is no parameter of the model: (4, 32), (4,)" in finding.what

    def test_parameters_that_no_optimizer_holds(self, examine, net):
        class Forgotten(net):
            def configure_optimizers(self):
                return torch.optim.Adam(self.head.parameters(), lr=0.01)

        finding = self.judge(examine, Forgotten())
        assert (finding.rule, finding.place.parameter) == ("gradients/held-by-none", "first.weight, first.bias")
        assert finding.place.function.endswith("Forgotten.configure_optimizers")

    def test_layer_in_a_list(self, examine, net):
        class Listed(net):
            def __init__(self):
                super().__init__()
                self.layers = [nn.Linear(32, 32)]

            def forward(self, inputs):
                return self.head(torch.relu(self.layers[0](self.first(inputs))))

        assert "(32, 32), (32,)" in self.judge(examine, Listed()).what

    def test_loss_times_zero(self, examine, net):
        class Zero(net):
            def loss(self, batch):
                return 0.0 * super().loss(batch)  # the factor

        finding = self.judge(examine, Zero())
        assert "4 of 4 parameters are exactly 0" in finding.what
        assert "backward of Mul " in finding.what
        assert (finding.rule, finding.place.line) == ("gradients/always-zero", line_of("# the factor"))

    def test_dead_relu(self, examine, net):
        module = net()
        nn.init.constant_(module.first.bias, -100.0)
        finding = self.judge(examine, module)
        assert "backward of Relu " in finding.what
        assert finding.place.parameter == "first.weight, first.bias, head.weight"

    def test_term_that_is_ramped_up_by_epochs(self, examine, net):
        class Ramped(net):
            def __init__(self):
                super().__init__()
                self.extra = nn.Linear(8, 1)

            def loss(self, batch):
                share = min(1.0, self.current_epoch / 3)
                weight = 0.1 * share
                return super().loss(batch) + weight * self.extra(batch[0]).square().mean()

        verdict = examine("gradients", Ramped())
        assert verdict.findings == []
        assert "depends on the epoch or step" in verdict.unjudged["gradients/always-zero"]

    def test_constant_initialisation(self, examine, net):
        module = net()
        for layer in (module.first, module.head):
            nn.init.constant_(layer.weight, 0.1)
            nn.init.zeros_(layer.bias)
        finding = self.judge(examine, module)
        assert finding.where == "first.weight, head.weight"
        assert finding.rule == "gradients/equal-rows"

    def test_vanishing_along_depth(self, examine, net):
        torch.manual_seed(0)
        finding = self.judge(examine, deep(net, 12, nn.Sigmoid))
        assert finding.what.startswith("gradients vanish along depth")
        assert finding.where.startswith("first to head")
        assert "most of it from deep." in finding.where

    def test_depth_behind_a_layer_that_starts_from_zero_is_not_judged(self, examine, net):
        torch.manual_seed(0)
        module = deep(net, 12, nn.Sigmoid)
        nn.init.zeros_(module.head.weight)
        verdict = examine("gradients", module)
        assert "began at 0" in verdict.unjudged["gradients/uneven-along-depth"]

    @pytest.mark.parametrize("scale", [0.0, 1e-9])
    def test_small_gradients_behind_a_scale_that_starts_from_zero_are_not_judged(self, examine, net, scale):
        class Branch(net):
            def __init__(self):
                super().__init__()
                self.branch = nn.Sequential(nn.Linear(8, 64), nn.Linear(64, 8))
                self.scale = nn.Parameter(torch.tensor(scale))

            def forward(self, x):
                return super().forward(x + self.scale * self.branch(x))

            def configure_optimizers(self):
                return torch.optim.Adam(self.parameters(), lr=1e-9)

        verdict = examine("gradients", Branch())
        rule = "gradients/eps-exceeds-gradients"
        assert (rule in [each.rule for each in verdict.findings]) == (scale > 0)
        assert ("began at 0" in verdict.unjudged.get(rule, "")) == (scale == 0)

    def test_weights_that_begin_near_zero_are_not_torn(self, examine, net):
        class Near(net):
            def configure_optimizers(self):
                return torch.optim.Adam(self.parameters(), lr=1e-3)

        module = Near()
        with torch.no_grad():
            for weight in module.parameters():
                weight.mul_(1e-4)
        assert "gradients/torn-weights" not in [finding.rule for finding in examine("gradients", module).findings]

    def test_exploding_along_depth(self, examine, net):
        finding = self.judge(examine, deep(net, 8, nn.Identity, weight=1.0), gradient_clip_val=1e-3)
        assert finding.what.startswith("gradients explode along depth")

    def test_gradient_that_is_not_finite(self, examine, net):
        class Rooted(net):
            def forward(self, inputs):
                return self.head((0 * self.first(inputs)).sqrt())

        finding = self.judge(examine, Rooted())
        assert "NaN or Inf in step 0" in finding.what
        assert (finding.rule, finding.symptom, finding.fix.items) == ("gradients/not-finite", True, ("anomaly",))

    def test_learning_rate_that_moves_nothing(self, examine, net):
        [finding] = examine("gradients", net(lr=1e-8)).findings
        assert (finding.rule, finding.severity, finding.symptom) == ("gradients/tiny-updates", "warning", True)
        assert finding.where == "optimizer.lr=1e-08"

    def test_learning_rate_that_tears_the_weights(self, examine, net):
        [finding] = examine("gradients", net(lr=10)).findings
        assert (finding.rule, finding.severity, finding.symptom) == ("gradients/torn-weights", "warning", True)
        assert finding.where == "optimizer.lr=10"

    def test_clipping_that_leaves_next_to_nothing_is_told_with_the_tiny_steps(self, examine, net):
        class Descending(net):
            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.01)

        [finding] = examine("gradients", Descending(), gradient_clip_val=1e-6).findings
        assert finding.rule == "gradients/tiny-updates"
        assert "of the gradients" in finding.what

    def test_steps_that_are_longer_than_the_weights_though_norms_hide_it(self, examine, net):
        class Normalised(net):
            def __init__(self):
                super().__init__(lr=0.5)
                self.norm, self.last = nn.BatchNorm1d(32, affine=False), nn.BatchNorm1d(4, affine=False)

            def forward(self, inputs):
                return self.last(self.head(torch.relu(self.norm(self.first(inputs)))))

        [finding] = examine("gradients", Normalised()).findings
        assert (finding.rule, finding.where) == ("gradients/torn-weights", "optimizer.lr=0.5")

    def test_normalisation_over_as_many_samples_as_there_are_features(self, examine, net, data):
        class Mixing(net):
            def forward(self, inputs):
                return self.head(functional.normalize(torch.relu(self.first(inputs)), dim=0))  # over all samples

        [finding] = examine("gradients", Mixing(), data(batch_size=8)).findings
        assert (finding.rule, finding.place.line) == ("gradients/samples-mix", line_of("# over all samples"))

    def test_softmax_over_the_batch(self, examine, net):
        class Mixing(net):
            def forward(self, inputs):
                hidden = torch.relu(self.first(inputs))
                return self.head(hidden * functional.softmax(hidden, dim=0))  # over the batch

        finding = self.judge(examine, Mixing())
        assert "softmax mixes the 16 samples" in finding.what
        assert (finding.rule, finding.place.line) == ("gradients/samples-mix", line_of("# over the batch"))

    def test_sample_that_is_changed_keeps_a_mask_of_zeros_and_ones(self, examine, net):
        class Nodes(nn.Linear):
            def forward(self, inputs, mask):
                """The nodes of all samples lie in one row, of which a sample has as many as its mask counts."""
                size = len(inputs)
                nodes = torch.cat([inputs.flatten(), inputs.new_zeros(8)])
                for index, count in enumerate(mask.sum(1).int().tolist()):
                    own = slice(8 * index, 8 * index + count)
                    nodes = nodes.index_add(0, torch.arange(own.start, own.stop), nodes[own].mean().expand(count))
                return super().forward(nodes[: 8 * size].reshape(size, 8))

        class Graphs(net):
            def __init__(self):
                super().__init__()
                self.first = Nodes(8, 32)

            def loss(self, batch):
                hidden = self.first(batch[0], torch.ones_like(batch[0]))
                return functional.cross_entropy(self.head(torch.relu(hidden)), batch[1])

        assert [each.rule for each in examine("gradients", Graphs()).findings if "mix" in each.rule] == []

    def test_attention_over_the_batch(self, examine, net):
        finding = self.judge(examine, attending(net, batch_first=False))
        assert finding.place.module == "attention (MultiheadAttention)"


@pytest.mark.parametrize("when", ["before backward", "after the step"])
def test_manual_steps_that_zero_gradients_are_no_finding(examine, net, when):
    class Zeroing(net):
        automatic_optimization = False

        def training_step(self, batch, batch_idx):
            optimizer = self.optimizers()
            if when == "before backward":
                optimizer.zero_grad()
            self.manual_backward(self.loss(batch))
            optimizer.step()
            if when == "after the step":
                optimizer.zero_grad(set_to_none=False)

    assert examine("gradients", Zeroing()).findings == []


def test_manual_step_for_several_backward_passes_and_second_step_for_one_are_no_finding(examine, net):
    class Accumulating(net):
        automatic_optimization = False

        def training_step(self, batch, batch_idx):
            optimizer = self.optimizers()
            self.manual_backward(self.loss(batch) / 2)
            if batch_idx % 2:
                optimizer.step()
                optimizer.step()
                optimizer.zero_grad()

    assert examine("gradients", Accumulating()).findings == []


def test_one_layer_in_several_places_is_warned_of(examine, net):
    class Repeating(net):
        def __init__(self):
            super().__init__()
            self.deep = nn.Sequential(*[nn.Linear(32, 32)] * 3, *[nn.ReLU()] * 2)

        def forward(self, inputs):
            return self.head(self.deep(self.first(inputs)))

    [finding] = examine("gradients", Repeating()).findings
    assert (finding.severity, finding.where) == ("warning", "deep.0, deep.1, deep.2")


@pytest.mark.parametrize("by", ["samples", "number"])
def test_expert_that_no_sample_has_chosen_is_remarked_on_and_a_layer_that_is_left_out_is_warned_of(examine, net, by):
    class Routing(net):
        def __init__(self):
            super().__init__()
            self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

        def forward(self, inputs):
            chosen = (inputs[:, 0] > 0).long()
            for number, expert in enumerate(self.experts):
                rows = (chosen == number).nonzero()[:, 0]
                if len(rows):
                    inputs = inputs.index_add(0, rows, expert(inputs[rows]))
            return super().forward(inputs)

    class LeavingOut(Routing):
        def forward(self, inputs):
            for number, expert in enumerate(self.experts):
                if number < 2:
                    inputs = inputs + expert(inputs)
            return net.forward(self, inputs)

    kind, severity = (Routing, "remark") if by == "samples" else (LeavingOut, "warning")
    for item, rule in (("gradients", "gradients/unused"), ("trace", "network/module-without-gradient")):
        [finding] = [each for each in examine(item, kind()).findings if each.rule == rule]
        assert finding.severity == severity


def line_of(text: str) -> int:
    with open(__file__, encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, 1) if text in line and "line_of" not in line)


def adversarial(net, cut=False):
    """Two networks against each other, where `cut` lets the first one's own step detach what it made."""

    class Adversarial(net):
        automatic_optimization = False

        def training_step(self, batch, batch_idx):
            for_first, for_head = self.optimizers()
            made = self.first(batch[0])
            for_head.zero_grad()
            self.manual_backward(self.head(made.detach()).square().mean())
            for_head.step()
            for_first.zero_grad()
            self.manual_backward(self.head(made.detach() if cut else made).mean())
            for_first.step()

        def configure_optimizers(self):
            return [torch.optim.Adam(part.parameters()) for part in (self.first, self.head)]

    return Adversarial()


def test_weight_of_a_state_of_zeros_is_not_laid_at_the_door_of_a_sign_behind_it(examine, net):
    """As the first layer of an unrolled shrinkage (LISTA) has one: the sign is beside a factor that has a slope."""

    class Unrolled(net):
        def __init__(self):
            super().__init__()
            self.state = torch.nn.Linear(32, 32, bias=False)

        def forward(self, inputs):
            sum_of_both = self.first(inputs) + self.state(inputs.new_zeros(len(inputs), 32))
            return self.head(sum_of_both.sign() * (sum_of_both.abs() - 0.01).relu())

    [finding] = examine("gradients", Unrolled()).findings
    assert finding.rule == "gradients/always-zero"
    assert "Sign" not in finding.what
    assert "self.state(" in finding.place.source


def test_optimizer_that_is_cut_off_is_named_with_the_detach_of_its_own_step(examine, net):
    verdict = examine("gradients", adversarial(net, cut=True))
    [finding] = verdict.findings
    assert (finding.rule, finding.severity) == ("gradients/cut-off", "failed")
    assert finding.what.startswith("2 of 4 parameters get no gradient: first; detach ")
    assert finding.place.line == adversarial.__code__.co_firstlineno + 13


def test_detach_of_the_other_networks_step_is_no_cut(examine, net):
    assert examine("gradients", adversarial(net)).findings == []


class TestUnits:
    """Functions and layers that take part and do not do what they are for."""

    @pytest.mark.parametrize("function", [torch.relu, torch.tanh, torch.sigmoid])
    def test_function_that_is_flat_for_nearly_all_units_is_warned_of(self, examine, net, function):
        class Flat(net):
            def forward(self, inputs):
                offset = torch.where(torch.arange(32) < 2, 0.0, -200.0)
                return self.head(function(self.first(inputs) + offset))  # flat

        [finding] = examine("gradients", Flat()).findings
        assert (finding.rule, finding.severity) == ("gradients/dead-units", "warning")
        assert finding.what.startswith(f"30 of 32 units of {function.__name__} ")
        assert finding.place.line == line_of("# flat")

    @pytest.mark.parametrize("again", [True, False])
    def test_batch_norm_that_counts_a_batch_twice_is_warned_of(self, examine, net, again):
        class Twice(net):
            def __init__(self):
                super().__init__()
                self.norm = nn.BatchNorm1d(32)

            def forward(self, inputs):
                return self.head(torch.relu(self.norm(self.first(inputs))))

            def training_step(self, batch, batch_idx):
                inputs, labels = batch
                loss = functional.cross_entropy(self(inputs), labels)
                other = inputs if again else inputs.flip(0) + 1  # another view of the samples
                with torch.no_grad():
                    self.log("accuracy", (self(other).argmax(1) == labels).float().mean())
                return loss

        found = examine("gradients", Twice()).findings
        assert [finding.rule for finding in found] == ["gradients/batch-norm-twice"] * again


class TestUnusual:
    """What is unusual, and no fault."""

    @pytest.mark.parametrize("kind", ["sparse", "complex", "inference", "tied", "parametrized", "lazy", "empty expert"])
    def test_is_no_finding(self, examine, net, kind):
        assert examine("gradients", unusual(net, kind)).findings == []

    def test_gradients_of_one_part_that_are_dropped_on_purpose_are_no_finding(self, examine, net):
        class Frozen(net):  # as DINO does with its last layer
            def on_after_backward(self):
                self.head.zero_grad()

        assert examine("gradients", Frozen()).findings == []

    def test_network_that_returns_its_loss_beside_the_logits_is_no_finding(self, examine, net):
        class Network(net):
            def forward(self, inputs, labels):
                logits = super().forward(inputs)
                return {"logits": logits, "loss": functional.cross_entropy(logits, labels)}

            def loss(self, batch):
                return self(*batch)["loss"]

        assert examine("gradients", Network()).findings == []

    def test_batch_without_targets_whose_loss_is_a_new_zero_is_no_finding(self, examine, net):
        class Skipping(net):
            def training_step(self, batch, batch_idx):
                return self.loss(batch) if batch_idx else torch.zeros((), requires_grad=True)

        assert examine("gradients", Skipping()).findings == []


def unusual(net, kind):
    class Unusual(net):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(10, 8, sparse=True) if kind == "sparse" else None
            self.wave = nn.Parameter(torch.randn(8, 8, dtype=torch.cfloat)) if kind == "complex" else None
            self.lazy = nn.LazyLinear(8) if kind == "lazy" else None
            self.expert = nn.Linear(8, 8) if kind == "empty expert" else None
            if kind == "tied":
                self.second = nn.Linear(32, 32)
                self.second.weight = nn.Parameter(torch.randn(32, 32) / 6)
                self.third = nn.Linear(32, 32)
                self.third.weight = self.second.weight
            if kind == "parametrized":
                nn.utils.parametrizations.weight_norm(self.first)

        def forward(self, inputs):
            if kind == "sparse":
                inputs = inputs + self.table((inputs[:, 0] > 0).long())
            if kind == "complex":
                inputs = inputs + (inputs.to(torch.cfloat) @ self.wave).real
            if kind == "lazy":
                inputs = self.lazy(inputs)
            if kind == "empty expert":
                chosen = inputs[:, 0] > 1e6
                inputs = inputs.index_put((chosen,), self.expert(inputs[chosen]))
            hidden = torch.relu(self.first(inputs))
            return self.head(self.third(torch.relu(self.second(hidden))) if kind == "tied" else hidden)

        def training_step(self, batch, batch_idx):
            loss = self.loss(batch)
            if kind == "inference":
                with torch.inference_mode():
                    self.log("accuracy", (self.head(batch[0].repeat(1, 4)).argmax(1) == batch[1]).float().mean())
            return loss

        def configure_optimizers(self):
            if kind == "sparse":
                return torch.optim.SGD(self.parameters(), lr=0.01)
            return super().configure_optimizers()

    return Unusual()


@pytest.mark.parametrize(
    ("eps", "clip", "key"), [(1.0, None, "optimizer.eps"), (1e-8, 1e-10, "trainer.gradient_clip_val")]
)
def test_eps_that_outweighs_the_gradients_is_named_or_the_clipping_that_makes_them_small(examine, net, eps, clip, key):
    class Slow(net):
        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=0.01, eps=eps)

    found = examine("gradients", Slow(), gradient_clip_val=clip, gradient_clip_algorithm="value").findings
    [finding] = [each for each in found if each.rule == "gradients/eps-exceeds-gradients"]
    assert finding.place.key == key


def test_schedule_that_makes_nothing_of_the_rate_is_named_and_not_the_rate(examine, net):
    class Waiting(net):
        def configure_optimizers(self):
            optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
            schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, step // 400))
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    [finding] = examine("gradients", Waiting()).findings
    assert (finding.rule, finding.place.note) == ("gradients/unchanged-by-step", "the learning rate schedule")
    assert "lr=0.01" in finding.what


def test_norm_that_a_list_of_names_does_not_meet_is_decayed_by_oversight(examine, net):
    class Normed(net):
        def __init__(self):
            super().__init__()
            self.norm1, self.ln_2 = nn.LayerNorm(8), nn.LayerNorm(8)

        def forward(self, inputs):
            return super().forward(self.ln_2(self.norm1(inputs)))

        def configure_optimizers(self):
            exempt = {name for name, _ in self.named_parameters() if "bias" in name or "norm" in name}
            groups = [
                {
                    "params": [p for name, p in self.named_parameters() if (name in exempt) == without],
                    "weight_decay": rate,
                }
                for without, rate in ((True, 0.0), (False, 0.1))
            ]
            return torch.optim.AdamW(groups, lr=0.01)

    [finding] = examine("gradients", Normed()).findings
    assert (finding.rule, finding.place.parameter) == ("gradients/decayed-by-oversight", "ln_2.weight")


def test_decay_of_everything_is_no_oversight(examine, net):
    class Decayed(net):
        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=0.01, weight_decay=0.1)

    assert examine("gradients", Decayed()).status == "passed"


class Accumulating:
    """Mixed into a network: a step for four batches, by hand."""

    zeroed_first, optimizers_of = True, 1

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        optimizer = self.optimizers()
        if self.zeroed_first or batch_idx % 4 == 0:
            optimizer.zero_grad()
        self.manual_backward(self.loss(batch) / 4)
        if batch_idx % 4 == 3:
            optimizer.step()


@pytest.mark.parametrize("first", [False, True])
def test_gradients_that_are_zeroed_before_any_step(examine, net, first):
    kind = type("Kind", (Accumulating, net), {"zeroed_first": first})
    found = {each.rule for each in examine("gradients", kind()).findings}
    assert ("gradients/zeroed-before-use" in found) is first


@pytest.mark.parametrize("clips", ["itself", "something else", "nothing"])
def test_gradients_that_are_longer_than_clipping_leaves_them(examine, net, clips):
    class Clipped(net):
        def configure_gradient_clipping(self, optimizer, gradient_clip_val, gradient_clip_algorithm):
            if clips == "something else":
                nn.utils.clip_grad_norm_([torch.nn.Parameter(torch.zeros(3))], gradient_clip_val)
            elif clips == "itself":
                self.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)

    found = [
        each for each in examine("gradients", Clipped(), gradient_clip_val=0.05).findings if "clipped" in each.rule
    ]
    assert [each.place.function.endswith("configure_gradient_clipping") for each in found] == [True] * (
        clips != "itself"
    )
