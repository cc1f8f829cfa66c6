from difflib import get_close_matches

from training_checklist.instruments import FILES, Job, JobConfig, Trainer, calls, override, unknown_arguments
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe

# What took the place of arguments of Lightning 1's Trainer: its changelogs of 1.5 to 2.0.
SUCCESSORS = {
    "gpus": "accelerator=gpu and devices",
    "tpu_cores": "accelerator=tpu and devices",
    "num_processes": "accelerator=cpu and devices",
    "auto_select_gpus": "devices=auto",
    "resume_from_checkpoint": "Trainer.fit(ckpt_path=...)",
    "checkpoint_callback": "enable_checkpointing",
    "weights_summary": "enable_model_summary",
    "progress_bar_refresh_rate": "enable_progress_bar, or TQDMProgressBar(refresh_rate=...)",
    "terminate_on_nan": "detect_anomaly",
    "track_grad_norm": "log_dict(grad_norm(...)) in on_before_optimizer_step",
    "stochastic_weight_avg": "the callback StochasticWeightAveraging",
    "replace_sampler_ddp": "use_distributed_sampler",
    "multiple_trainloader_mode": "CombinedLoader(..., mode=...)",
    "auto_lr_find": "Tuner(trainer).lr_find",
    "auto_scale_batch_size": "Tuner(trainer).scale_batch_size",
    "amp_backend": "precision",
    "amp_level": "precision",
}


def detect(config: JobConfig, limits: Limits) -> Hits:
    for call in calls(config):
        for name in unknown_arguments(call.given(), call.parameters, config.code):
            takes, key = [*call.parameters], f"{call.key}.{name}"
            # Typed, it may be meant for what a file gives already; in a file, both stand beside each other.
            is_typed = config.place(key).is_typed
            near = get_close_matches(name, [each for each in takes if is_typed or each not in call.given()], n=3)
            hint = f"it takes {', '.join(takes[:6])}{' and more' * (len(takes) > 6)}"
            hint = f"did you mean {' or '.join(near)}?" if near else hint
            if call.found is Trainer and name in SUCCESSORS:
                hint = f"since Lightning 2 that is {SUCCESSORS[name]}"
            what = f"{key}={override(call.node, name)} is no argument of {call.callee}; {hint}"
            yield Hit(what, config.place(key), fix=Fix(overrides=(f"~{key}",)))


def of_one_name() -> Job:
    """Return a program with a function whose **params are not the `params` of its config."""
    made = "import torch\n\n\ndef layer(**params):\n    return torch.nn.Linear(**params)\n\n\n@hydra"
    code = FILES["train.py"].replace("@hydra", made, 1)
    return Job(("+params={wide: 8}", "+width=${params.wide}"), {"train.py": code})


def read_by_the_program() -> Job:
    """Return a program that reads a key beside a _target_ from which it builds nothing."""
    code = FILES["train.py"].replace("    module.quiet", "    assert cfg.net.kind == 'flat'\n    module.quiet", 1)
    return Job(("+net={_target_: torch.nn.Flatten, kind: flat}",), {"train.py": code})


PROBE = Probe(
    question="Is every key beside a _target_ an argument of it?",
    why="calling it raises a TypeError",
    predicts_crash=True,
    fix=Fix("take it out"),
    detect=detect,
    faulty=Job(("+logger.csv.title=first",)),
    also_faulty=(Job(("+trainer.gpus=1",)),),
    healthy=Job(("+logger.csv.name=first",)),
    also_healthy=(of_one_name(), read_by_the_program(), Job(("+_target_=torch.nn.Flatten",))),
)
