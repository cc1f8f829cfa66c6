import os

import torch
import torch.utils.checkpoint


def test_healthy_network_has_finite_gradients(examine, net):
    verdict = examine("anomaly", net())
    assert (verdict.status, verdict.seen) == ("passed", "10 backward passes, all finite")


def test_recomputed_activations_raise_no_alarm(examine, net):
    class Recomputing(net):
        def forward(self, inputs):
            hidden = torch.utils.checkpoint.checkpoint(self.first, inputs, use_reentrant=False)
            return self.head(torch.relu(hidden))

    assert examine("anomaly", Recomputing()).findings == []


def line_of(text: str) -> int:
    with open(__file__, encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, 1) if text in line and "line_of" not in line)


def test_root_at_zero_is_named_with_its_module_and_line(examine, net):
    class Rooted(net):
        def forward(self, inputs):
            hidden = torch.relu(self.first(inputs))
            return self.head(hidden.sqrt())  # relu makes zeros

    [finding] = examine("anomaly", Rooted()).findings
    assert "Sqrt" in finding.what
    assert finding.where == f"Rooted, {os.path.relpath(__file__)}:{line_of('relu makes zeros')}"


def test_masked_branch_that_is_not_finite_is_named_in_its_submodule(examine, net):
    class Masking(torch.nn.Module):
        def forward(self, inputs):
            return torch.where(inputs > 0, inputs.log(), inputs)  # log of what is masked

    class Masked(net):
        def __init__(self):
            super().__init__()
            self.masking = Masking()

        def forward(self, inputs):
            return self.head(self.masking(torch.relu(self.first(inputs))))

    [finding] = examine("anomaly", Masked()).findings
    assert finding.where == f"masking, {os.path.relpath(__file__)}:{line_of('log of what is masked')}"


def test_loss_that_is_nan_before_backward_is_named_by_the_forward_operation(examine, net):
    class Broken(net):
        def forward(self, inputs):
            hidden = self.first(inputs)
            return self.head(hidden / hidden.new_zeros(1))  # division by nothing

    finding = examine("anomaly", Broken()).findings[0]
    assert finding.what.startswith("the loss is nan before backward has begun: ")
    assert finding.where == f"Broken, {os.path.relpath(__file__)}:{line_of('division by nothing')}, batch 0"
