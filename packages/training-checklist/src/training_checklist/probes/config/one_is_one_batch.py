from training_checklist.instruments import Job, JobConfig, given_to
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe


def detect(config: JobConfig, limits: Limits) -> Hits:
    for name in ("limit_train_batches", "val_check_interval"):
        for key, node, value in given_to(config, name):
            so = "validates after every single training batch: nearly all time goes into validation"
            if name == "limit_train_batches":
                epochs = node.get("max_epochs") if node.get("max_steps", -1) in (-1, None) else None
                if epochs == 1 or node.get("check_val_every_n_epoch", 1) != 1:  # an epoch is a step on purpose
                    continue
                so = f"is one batch in each of {'many' if epochs is None else epochs} epochs"
            if type(value) is int and value == 1:
                fix = Fix("leave it as it is if that is meant", overrides=(f"{key}=1.0",))
                yield Hit(f"{key}=1 {so}", config.place(key), fix=fix)


PROBE = Probe(
    question="Are limit_train_batches and val_check_interval shares (1.0), and not the integer 1, which is one batch?",
    why="the whole number 1 is one batch to Lightning, and 1.0 a whole epoch",
    severity=WARNING,
    fix=Fix("1.0 for all batches"),
    aliases=("config/one-batch-an-epoch", "config/validates-every-batch"),
    detect=detect,
    faulty=Job(("+trainer.limit_train_batches=1",)),
    also_faulty=(Job(("+trainer.val_check_interval=1",)),),
    healthy=Job(("+trainer.limit_train_batches=1.0", "+trainer.val_check_interval=1.0")),
    also_healthy=(
        Job(("+trainer.limit_train_batches=1", "+trainer.max_epochs=1")),
        Job(("+trainer.limit_train_batches=1", "+trainer.max_epochs=60", "+trainer.check_val_every_n_epoch=20")),
    ),
)
