from training_checklist.instruments import Data, labelled, on_datasets, tested, tests_by_itself
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Place, Probe


def detect(data: Data, limits: Limits) -> Hits:
    error = tested(data)[1]
    if error and not tests_by_itself():
        function = f"{type(data.source).__name__}.setup('test'), test_dataloader"
        yield Hit(f"the test split cannot be loaded: {error}", Place(loader="test_dataloader", function=function))


def missing() -> None:
    raise FileNotFoundError("data/test")


PROBE = Probe(
    question="Do setup('test') and test_dataloader() work?",
    why="testing after training will end in the same error",
    severity=WARNING,
    fix=Fix(items=("fast_dev_run",)),
    detect=detect,
    faulty=on_datasets(test=missing),
    healthy=on_datasets(test=labelled),
)
