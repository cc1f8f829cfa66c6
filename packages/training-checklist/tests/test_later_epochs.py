"""Layers that are frozen at first."""

import pytest
import torch


@pytest.mark.parametrize("held", ["from the beginning", "when it is unfrozen", "never"])
def test_what_is_unfrozen_later_is_held_by_an_optimizer(examine, net, data, held):
    class Finetuned(net):
        def __init__(self):
            super().__init__()
            self.first.requires_grad_(False)

        def on_train_epoch_start(self):
            if self.current_epoch == 2:
                self.first.requires_grad_(True)
                if held == "when it is unfrozen":
                    self.optimizers().add_param_group({"params": list(self.first.parameters())})

        def configure_optimizers(self):
            every = held == "from the beginning"
            return torch.optim.Adam([each for each in self.parameters() if every or each.requires_grad])

    model = Finetuned()
    found = [each for each in examine("gradients", model, data()).findings if "unfrozen" in each.rule]
    assert len(found) == (held == "never")
    assert not model.first.weight.requires_grad
    for each in found:
        assert "epoch 2" in each.what
        assert each.place.function.endswith("Finetuned.on_train_epoch_start")
