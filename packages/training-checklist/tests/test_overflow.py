import random

import numpy as np
import pytest
import torch
from torch import nn
from training_checklist.experiments.overflow import overflow as overflow
from training_checklist.experiments.overflow.overflow import detect_overflow


def line_of(text: str) -> str:
    with open(__file__, encoding="utf-8") as file:
        number = next(number for number, line in enumerate(file, 1) if text in line and "line_of" not in line)
    return f"packages/training-checklist/tests/test_overflow.py:{number}"


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_healthy_network_stays_in_range(examine, net, precision):
    verdict = examine("overflow", net(), precision=precision)
    assert (verdict.status, verdict.findings) == ("passed", [])
    assert verdict.seen.startswith("10 steps; largest output ")
    assert ("probe" in verdict.facts) == (precision == "bf16-mixed")


def test_mask_of_minus_infinity_is_no_overflow(examine, net):
    class Masked(net):
        def forward(self, inputs):
            hidden = self.first(inputs).masked_fill(torch.arange(32) > 16, float("-inf"))
            return self.head(hidden.softmax(1))

    assert examine("overflow", Masked()).status == "passed"


def test_project_that_clips_its_gradients_passes(examine, net):
    class Clipped(net):
        def on_after_backward(self):
            nn.utils.clip_grad_norm_(self.parameters(), 0.1)

    assert examine("overflow", Clipped()).status == "passed"


def test_running_once_more_changes_no_result(examine, net, monkeypatch):
    class Normed(net):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(32)
            self.drop = nn.Dropout(0.5)

        def forward(self, inputs):
            return self.head(torch.relu(self.drop(self.norm(self.first(inputs)))))

    states = []
    for mixed in (overflow.MIXED, ()):
        monkeypatch.setattr(overflow, "MIXED", mixed)
        torch.manual_seed(0)
        module = Normed()
        assert ("probe" in examine("overflow", module, precision="bf16-mixed").facts) == bool(mixed)
        states.append(module.state_dict())
    for one, two in zip(states[0].values(), states[1].values(), strict=True):
        assert torch.equal(one, two)


@pytest.mark.parametrize("draw", [random.random, np.random.random], ids=["python", "numpy"])
def test_step_that_is_run_once_more_draws_the_same_numbers(examine, net, draw):
    drawn = []

    class Drawing(net):
        def training_step(self, batch, batch_idx):
            drawn.append(draw())
            return super().training_step(batch, batch_idx) * (float("inf") if batch_idx == 2 else 1)

    assert examine("overflow", Drawing()).status == "failed"
    assert drawn[-1] == drawn[-2]


def test_factor_that_fp16_cannot_hold_is_found_on_a_cpu(examine, net):
    class Wide(net):
        def forward(self, inputs):
            hidden = torch.relu(self.first(inputs))
            return self.head(hidden * 6e5) / 6e5  # beyond 65504

    [finding] = examine("overflow", Wide(), precision="bf16-mixed").findings
    assert finding.rule == "numerics/leaves-16-bit-range"
    assert "mul makes the first Inf (float16)" in finding.what
    assert f"{finding.place.file}:{finding.place.line}" == line_of("# beyond 65504")
    assert (finding.place.module, finding.place.note) == ("Wide", "it goes into head")
    assert "run Wide in FP32" in finding.fix.advice
    assert finding.fix.overrides == ("trainer.precision=bf16-mixed",)


@pytest.mark.parametrize("inside", [False, True])
def test_operation_that_a_gpu_computes_in_fp32_is_so_on_a_cpu(examine, net, inside):
    """And not where the project has switched autocast off."""

    class Alike(net):
        def loss(self, batch):
            same = super().loss(batch)
            hidden = 0 * self.first(batch[0]).detach()  # beside which the eps of 1e-8 is 0 in FP16
            with torch.autocast("cpu", enabled=not inside):
                return same + torch.nn.functional.cosine_similarity(hidden, hidden + 1e-6).mean()

    findings = examine("overflow", Alike(), precision="bf16-mixed").findings
    assert [finding.rule for finding in findings] == (["numerics/leaves-16-bit-range"] if inside else [])


def test_values_near_the_limit_are_a_warning(examine, net):
    class Near(net):
        def forward(self, inputs):
            hidden = torch.relu(self.first(inputs))
            return self.head(hidden / hidden.max().detach() * 50000) / 50000

    verdict = examine("overflow", Near(), precision="bf16-mixed")
    assert verdict.status == "warning"
    assert verdict.findings[0].what.startswith("FP16 values up to 5e+04")


def test_division_by_zero_is_named_with_its_line_and_is_no_matter_of_16_bits(examine, net, capsys):
    class Divided(net):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(32)

        def forward(self, inputs):
            hidden = torch.relu(self.norm(self.first(inputs)))
            return self.head(hidden / (0 * hidden).std(1, keepdim=True))  # by zero

    [finding] = examine("overflow", Divided()).findings
    assert finding.rule == "numerics/forward-not-finite"
    assert "div makes the first NaN (float32)" in finding.what
    assert finding.where.startswith(f"Divided, {line_of('# by zero')}")
    assert "the last forward frames of batch 0" in capsys.readouterr().out


def test_function_in_the_loss_is_found_like_a_module(examine, net):
    class Logged(net):
        def loss(self, batch):
            return (super().loss(batch) * 0).log()  # of zero

    [finding] = examine("overflow", Logged()).findings
    assert finding.where.startswith(f"Logged, {line_of('# of zero')}")


def test_backward_that_overflows_is_named(examine, net):
    class Rooted(net):
        def forward(self, inputs):
            return self.head((0 * self.first(inputs)).sqrt())  # a root of 0

    [finding] = examine("overflow", Rooted()).findings
    assert (finding.rule, finding.symptom) == ("numerics/gradients-not-finite", True)
    assert "backward of Sqrt makes the first" in finding.what
    assert finding.fix.items == ("anomaly",)
    assert line_of("# a root of 0") in finding.where


def test_data_that_is_not_finite_is_said_to_be_the_data(examine, net, data):
    class Broken(data):
        def part(self, seed):
            part = super().part(seed)
            part.tensors[0][:] = float("nan")
            return part

    [finding] = examine("overflow", net(), Broken()).findings
    assert (finding.rule, finding.fix.items) == ("numerics/batch-not-finite", ("limit_batches",))


def test_clipping_of_scaled_gradients_is_named_with_its_hook(examine, net):
    class Scaled(net):
        def on_after_backward(self):
            for parameter in self.parameters():
                parameter.grad *= 65536
            nn.utils.clip_grad_norm_(self.parameters(), 1.0)
            for parameter in self.parameters():
                parameter.grad /= 65536

    [finding] = examine("overflow", Scaled()).findings
    assert "to 1.53e-05 in the optimizer's step" in finding.what
    assert finding.rule == "numerics/clipped-to-nothing"
    assert (finding.place.function.rpartition(".")[2], finding.place.file) == (
        "on_after_backward",
        "packages/training-checklist/tests/test_overflow.py",
    )


def test_step_that_drives_its_optimizer_itself_is_judged_as_it_runs(examine, net):
    class Manual(net):
        automatic_optimization = False

        def training_step(self, batch, batch_idx):
            self.steps = getattr(self, "steps", 0) + 1
            self.manual_backward((self.loss(batch) * 0).log())  # by hand
            self.optimizers().step()

    module = Manual()
    found = examine("overflow", module).findings
    assert [finding.rule for finding in found] == ["numerics/forward-not-finite"]
    assert f"{found[0].place.file}:{found[0].place.line}" == line_of("# by hand")
    assert module.steps == 1


@pytest.mark.parametrize("broken", ["setup", "configure_optimizers", "on_fit_start", "training_step"])
@pytest.mark.parametrize("item", ["overflow", "anomaly", "gradients", "gradcheck"])
def test_exception_before_training_begins_stays_the_projects_own(examine, net, item, broken):
    def fail(*_, **__):
        raise ZeroDivisionError(broken)

    with pytest.raises(ZeroDivisionError, match=broken):
        examine(item, type("Broken", (net,), {broken: fail})())


def test_detect_overflow_tells_of_a_tensor(capsys):
    assert not detect_overflow(torch.ones(3), "hidden")
    assert detect_overflow(torch.tensor([1.0, float("inf"), float("nan")]), "hidden")
    assert capsys.readouterr().out == "hidden: 1 NaN and 1 Inf of 3 (float32), the rest 1 to 1\n"


def test_traced_batches_show_every_module_and_end_the_run(train, capfd):
    options = "trace_batches=[1]", "abort_after_batch=1"
    folder = train("+debug=overflow", *(f"callbacks.debug_overflow.{option}" for option in options))
    out = capfd.readouterr().out
    assert "batch 1: abs-min and abs-max" in out
    assert "batch 0: abs-min" not in out
    assert '"2 steps; ' in (folder / "debug" / "report.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("eps", [1e-8, 1e-4])
def test_eps_that_is_zero_in_fp16_is_named(examine, net, eps):
    class Half(net):
        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=1e-3, eps=eps)

    verdict = examine("overflow", Half(), precision="16-true")
    if eps == 1e-4:
        assert verdict.findings == []
    else:
        [finding] = verdict.findings
        assert (finding.rule, finding.place.key) == ("numerics/eps-is-zero", "optimizer.eps")
        assert "is 0 in float16" in finding.why
