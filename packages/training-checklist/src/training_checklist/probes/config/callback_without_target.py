from omegaconf import DictConfig, OmegaConf
from training_config.walk import walk

from training_checklist.instruments import FILES, Job, JobConfig, callbacks
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(config: JobConfig, limits: Limits) -> Hits:
    groups = {call.key.rpartition(".")[0] for call in callbacks(config)}
    known = {group: OmegaConf.select(config.job, group) for group in sorted(groups) if "callback" in group.lower()}
    if not known:
        raise CannotJudge("no group of the config has callbacks")
    for group, entries in known.items():
        for name, entry in entries.items() if isinstance(entries, DictConfig) else ():
            is_set = isinstance(entry, DictConfig) and entry and name not in config.code.own_words
            if is_set and all(key != "_target_" for _, _, key in walk(entry)):
                yield Hit(
                    f"{group}.{name} has no _target_, as the others there have, and sets {', '.join(map(str, entry))}",
                    config.place(f"{group}.{name}"),
                    fix=Fix(f"give it one, choose an option of {group} that does, or leave {name} out"),
                )


PASSED_OVER = {"train.py": FILES["train.py"].replace("part.values()]", "part.values() if '_target_' in each]")}
PROBE = Probe(
    question="Does every callback of the config say what it is?",
    why="what builds callbacks passes it over, or fails: nothing is what it sets",
    fix=Fix("give it one, or leave it out"),
    detect=detect,
    faulty=Job(("+callbacks.early_stopping.patience=3",), PASSED_OVER),
    healthy=Job(("+callbacks.checkpoint.save_last=true",), PASSED_OVER),
    also_healthy=(Job(("+callbacks.names.first=1",), PASSED_OVER | {"read.py": "print(cfg.callbacks.names.first)"}),),
)
