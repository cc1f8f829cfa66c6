import torch

from training_checklist.instruments import MemoryUse, Small, of_function
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe


def detect(use: MemoryUse, limits: Limits) -> Hits:
    # Where validation asks for gradients, as forces are, its graph is meant, whatever lies beside their way. A network
    # may ask within its own forward: then they come to what its inner modules return.
    if use.validated and not use.asked:
        first, place = use.validated[0], of_function(type(use.pl_module).validation_step)
        what = f"validation builds a graph: the output of {first} requires gradients, and nothing asks for them"
        yield Hit(what, place.beside(module=first))


class Enabled(Small):
    gradients = True

    def validation_step(self, batch: list, batch_idx: int) -> None:
        with torch.inference_mode(False), torch.set_grad_enabled(self.gradients):
            self.loss(self(batch[0].clone()), batch[1].clone())


PROBE = Probe(
    question="Does validation run without building an autograd graph?",
    why="all activations stay in memory until the batch ends, or for as long as an output is kept",
    severity=WARNING,
    fix=Fix("leave out torch.enable_grad() and set_grad_enabled(True) there, and keep trainer.inference_mode=true"),
    detect=detect,
    faulty=Enabled,
    healthy=type("Disabled", (Enabled,), {"gradients": False}),
)
