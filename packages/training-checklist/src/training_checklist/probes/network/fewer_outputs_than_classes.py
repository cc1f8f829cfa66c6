from torchmetrics import Metric
from torchmetrics.classification import MulticlassAccuracy

from training_checklist.instruments import Small, Step, leaves, same
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(step: Step, limits: Limits) -> Hits:
    call, modules = step.criteria.classification, step.pl_module.named_modules()
    if call is None:
        raise CannotJudge("not exactly one cross_entropy or nll_loss compares answers with class indices")
    if not any(same(call.target.flatten(), leaf.flatten()) for leaf in leaves(step.batch).values()):
        raise CannotJudge("the classes are none of the batch's labels, as where a sample's partner is to be found")
    counted = {path: getattr(module, "num_classes", None) for path, module in modules if isinstance(module, Metric)}
    counted = {path: classes for path, classes in counted.items() if isinstance(classes, int)}
    if not counted:
        raise CannotJudge("no metric has num_classes")
    if len({*counted.values()}) > 1 and call.num_classes in counted.values():
        raise CannotJudge("metrics count other numbers of classes, as of tasks that take turns")
    for classes in {each: None for each in counted.values() if call.num_classes < each}:
        paths = ", ".join(path for path, each in counted.items() if each == classes)
        yield Hit(
            f"the network has {call.num_classes} outputs, and {classes} classes are counted: {paths}",
            call.place,
            fix=Fix(f"give the last layer {classes} outputs, or the metric num_classes={call.num_classes}"),
        )


class Counting(Small):
    classes = 5

    def __init__(self) -> None:
        super().__init__()
        self.accuracy = MulticlassAccuracy(self.classes)


class CountingOwn(Counting):
    classes = 4


PROBE = Probe(
    question="Does the network have at least as many outputs as its metrics' num_classes?",
    why="a label of a class that it has no output for ends training with an error; where there is none, the class is "
    "counted in vain",
    severity=WARNING,
    fix=Fix("give the last layer an output for each class"),
    detect=detect,
    faulty=Counting,
    healthy=CountingOwn,
)
