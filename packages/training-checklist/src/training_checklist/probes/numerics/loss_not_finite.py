import math

from torch.nn import functional

from training_checklist.instruments import Numbers
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe


def detect(numbers: Numbers, limits: Limits) -> Hits:
    passes = numbers.backward
    if math.isfinite(passes.loss):
        return
    forward = passes.forward
    made = "what makes it was not seen" if forward is None else f"{forward.name} makes the first {forward.kind}"
    place = Place() if forward is None else forward.place
    yield Hit(f"the loss is {passes.loss} before backward has begun: {made}", place.beside(batch=passes.steps))


PROBE = Probe(
    item="anomaly",
    question="Is the loss finite before backward begins?",
    why="the forward pass made it, and every gradient is NaN or Inf after it",
    detect=detect,
    fix=Fix("it shows the ranges up to there, and tells the data, the weights and 16 bits apart", items=("overflow",)),
    symptom=True,
    faulty=lambda answers, labels: functional.cross_entropy(answers * math.inf, labels),
    healthy=lambda answers, labels: functional.cross_entropy(answers * 1, labels),
)
