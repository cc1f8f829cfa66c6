from training_checklist.instruments import BY_HAND, OneBatch, Small, explanation, hooks_of, trained_with
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe

HOOKS = (
    "optimizer_step",
    "on_train_batch_start",
    "on_before_zero_grad",
    "optimizer_zero_grad",
    "on_before_backward",
    "backward",
    "on_after_backward",
    "on_before_optimizer_step",
    "on_train_batch_end",
)


def detect(batch: OneBatch, limits: Limits) -> Hits:
    trial = explanation(batch, BY_HAND)
    if trial is not None:
        still = "; not one weight changed in the first step" if batch.update == 0 else ""
        around = hooks_of(batch.trainer, batch.pl_module, HOOKS)
        place = around if str(around) else Place(note="what Lightning calls around a step")
        yield Hit(f"{batch.failure}{still}; a copy whose steps call no hooks and no callbacks: {trial}", place)


class Zeroing(Small):
    def on_before_optimizer_step(self, optimizer):
        optimizer.zero_grad()


PROBE = Probe(
    question="Do hooks and callbacks leave weights and gradients as the optimizer needs them?",
    why="network, batch, criterion and optimizer are able to learn: what is called around the steps undoes it, such as "
    "zeroed gradients, an optimizer_step that takes none, or weights that are set anew",
    fix=Fix("look at what these change between backward and the next forward pass", items=("gradients",)),
    detect=detect,
    faulty=trained_with(module=Zeroing),
    healthy=trained_with(),
)
