import json
import os

import pytest
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
    # The ReLU puts 0 in the place of its Inf.
    assert (finding.rule, finding.severity) == ("numerics/backward-not-finite", "warning")
    assert "Sqrt" in finding.what
    assert (finding.place.module, finding.place.file) == ("Rooted", os.path.relpath(__file__))
    assert finding.place.line == line_of("relu makes zeros")


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
    assert (finding.place.module, finding.place.line) == ("masking (Masking)", line_of("log of what is masked"))


def test_loss_that_is_nan_before_backward_is_named_by_the_forward_operation(examine, net):
    class Broken(net):
        def forward(self, inputs):
            hidden = self.first(inputs)
            return self.head(hidden / hidden.new_zeros(1))  # division by nothing

    finding = examine("anomaly", Broken()).findings[0]
    assert (finding.rule, finding.symptom) == ("numerics/loss-not-finite", True)
    assert finding.what.startswith("the loss is nan before backward has begun: ")
    assert (finding.place.line, finding.place.batch) == (line_of("division by nothing"), 0)
    assert finding.fix.items == ("overflow",)


def test_slope_that_is_not_finite_is_worse_where_it_reaches_a_weight(examine, net):
    class Rooted(net):
        def forward(self, inputs):
            return self.head((0 * self.first(inputs)).sqrt())

    assert examine("anomaly", Rooted()).status == "failed"


def test_row_that_is_masked_wholly_is_named_and_the_mask_is_not(examine, net):
    class Masked(net):
        def forward(self, inputs):
            scores = self.first(inputs).masked_fill(torch.ones(32, dtype=torch.bool), float("-inf"))
            return self.head(scores.softmax(1))  # of nothing but -inf

    finding = examine("anomaly", Masked()).findings[0]
    assert finding.place.line == line_of("of nothing but -inf")


def test_nan_that_is_never_used_is_not_blamed_for_the_loss(examine, net):
    class Broken(net):
        def forward(self, inputs):
            torch.zeros(1).log()
            hidden = self.first(inputs)
            hidden.sub_(hidden.detach() + 1).log_()  # of -1, in place
            return self.head(hidden)

    finding = examine("anomaly", Broken()).findings[0]
    assert finding.place.line == line_of("of -1, in place")


def test_command_on_a_training_that_diverges_fails_and_is_no_mistake_of_the_checklist(train, tmp_path):
    with pytest.raises(SystemExit):
        train("+debug=anomaly", "optimizer=sgd", "optimizer.lr=1e20", "trainer.limit_train_batches=8")
    [path] = tmp_path.glob("outputs/train/*/*/debug/report.json")
    [item] = json.loads(path.read_text(encoding="utf-8"))["items"]
    assert (item["verdict"], item["error"]) == ("failed", None)
    assert item["findings"][0]["rule"] == "numerics/loss-not-finite"


def test_nan_that_the_code_puts_zeros_for_is_only_remarked(examine, net):
    """Attention in which a padded query sees nothing, say."""

    class Padded(net):
        def forward(self, inputs):
            scores = self.first(inputs).masked_fill(torch.arange(len(inputs))[:, None] < 2, -torch.inf)
            return self.head(torch.nan_to_num(scores.softmax(1), 0))

    done = examine("anomaly", Padded())
    assert [finding.severity for finding in done.findings] == ["remark"], done
    assert done.seen.startswith("10 backward passes")
