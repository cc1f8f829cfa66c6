from training_checklist.instruments import Job, RunFiles
from training_checklist.probe import REMARK, Fix, Hit, Hits, Limits, Probe

TEST = ("test=true", "+callbacks.checkpoint.monitor=train/loss")


def detect(files: RunFiles, limits: Limits) -> Hits:
    metric, as_trained, place = files.tested
    if as_trained:
        yield Hit(f"the network is tested as the last step leaves it, and checkpoints keep the best {metric}", place)


PROBE = Probe(
    question="Does test use the best checkpoint, where ModelCheckpoint keeps the best by a metric?",
    why="the score is that of the last epoch, which may have learnt the training set by heart",
    severity=REMARK,
    fix=Fix('trainer.test(datamodule=datamodule, ckpt_path="best"); if the last weights are meant, silence this rule'),
    detect=detect,
    faulty=Job(TEST),
    healthy=Job((*TEST, "tested=best")),
)
