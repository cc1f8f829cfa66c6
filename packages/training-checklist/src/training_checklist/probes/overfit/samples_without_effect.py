from torch import Tensor
from torch.nn import functional

from training_checklist.instruments import OneBatch, Small, silent_samples, trained_with
from training_checklist.probe import FAILED, WARNING, Fix, Hit, Hits, Limits, Probe

PLAIN = {"ignore_index": -100, "label_smoothing": 0.0, "weight": None}


def detect(batch: OneBatch, limits: Limits) -> Hits:
    call, silent = batch.criterion, silent_samples(batch)
    if silent.any():
        chosen = {key: call.options[key] for key in PLAIN if call.options.get(key) is not None}
        options = ", ".join(
            f"{key}={value.tolist()[:10] if isinstance(value, Tensor) else f'{value:g}'}"
            for key, value in chosen.items()
            if isinstance(value, Tensor) or value != PLAIN[key]
        )
        classes = ", ".join(map(str, sorted({int(label) for label in call.target[silent]})[:10]))
        yield Hit(
            f"{call.name}({options}) asks nothing of {int(silent.sum())} of {len(silent)} samples, of class {classes}",
            call.place,
            severity=FAILED if silent.all() else WARNING,
        )


class Ignoring(Small):
    ignored = 0

    def loss(self, answers: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(answers, labels, ignore_index=self.ignored)


PROBE = Probe(
    question="Does every sample of the batch count in the loss?",
    why="with the same logit for all classes these samples have no gradient, and without the criterion's options they "
    "would have one: nothing is learnt from them",
    fix=Fix("change the criterion's options; leave out of the data what is to be ignored"),
    detect=detect,
    faulty=trained_with(module=Ignoring),
    healthy=trained_with(module=type("Plain", (Ignoring,), {"ignored": 255})),
)
