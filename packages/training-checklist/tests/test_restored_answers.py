"""What a trained network answers with, and whether a checkpoint holds all of it."""

import pytest
import torch


@pytest.mark.parametrize("kept", ["saved", "left out", "set again for validation", "of the loss alone"])
def test_what_a_hook_of_training_sets_is_saved(examine, net, data, kept):
    class Scaled(net):
        def __init__(self):
            super().__init__()
            self.register_buffer("scale", torch.ones(4), persistent=kept == "saved")

        def on_fit_start(self):
            self.scale.copy_(torch.tensor([1.0, 9.0, 2.0, 5.0]))

        def on_validation_start(self):
            if kept == "set again for validation":
                self.on_fit_start()

        def validation_step(self, batch, batch_idx):
            answers = self(batch[0])
            scaled = answers if kept == "of the loss alone" else answers * self.scale
            self.log("val/largest", scaled.max(1).values.mean())
            self.log("val/loss", torch.nn.functional.cross_entropy(answers, batch[1], self.scale))

    found = [each for each in examine("reproducibility", Scaled(), data()).findings if "answers" in each.rule]
    assert len(found) == (kept == "left out")
    for each in found:
        assert "val/largest" in each.what
        assert "scale is not saved" in each.what
