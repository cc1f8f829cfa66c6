from omegaconf import DictConfig, ListConfig
from training_config.targets import Parameters, required
from training_config.walk import value_of

from training_checklist.instruments import Code, Job, JobConfig, calls, source
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe

CONSTRUCTORS = {"get_class", "get_method", "get_object"}  # of hydra.utils: the code calls a target itself


def detect(config: JobConfig, limits: Limits) -> Hits:
    for call in calls(config):
        code = source(config)
        lacks = absent_arguments(call.key, call.node, call.parameters, code) if call.is_built else []
        if lacks:
            fix = Fix(overrides=tuple(f"+{call.key}.{name}=VALUE" for name in lacks))
            advice = "whoever builds it supplies them; where nothing builds it, it has no effect: take it out"
            if {*lacks} <= {"params", "optimizer"}:
                fix = Fix(advice, overrides=(f"+{call.key}._partial_=true",))
            elif code.built and (code.built | code.looped).isdisjoint(call.key.split(".")):
                fix = Fix(advice, overrides=(f"~{call.key}",))
            yield Hit(f"{call.key} lacks {', '.join(lacks)} of {call.callee}", config.place(call.key), fix=fix)


def absent_arguments(owner: str, node: DictConfig, parameters: Parameters, code: Code) -> list[str]:
    """Return the required arguments that neither the node nor, as far as its source tells, the code gives.

    Args:
        owner: key of the node. `instantiate(cfg.model, net=...)` puts something into model.net, or in its place.
    """
    # Code may build nodes as partials, too, and call these.
    is_partial = value_of(node, "_partial_") is True or "_partial_" in code.supplied
    if code.supplies or code.words & CONSTRUCTORS or is_partial:
        return []
    if "." in owner and owner.rpartition(".")[2] in code.supplied:
        return []
    positional = value_of(node, "_args_") if "_args_" in node else []
    given = len(positional) if isinstance(positional, (list, ListConfig)) else 0
    supplied = code.supplied | {key.rpartition(".")[2] for key in code.assigned}
    return [name for name in required(parameters)[given:] if name not in node and name not in supplied]


PROBE = Probe(
    question="Does every _target_ get all the arguments that its signature requires?",
    why="calling it raises a TypeError",
    predicts_crash=True,
    fix=Fix("give them in the config, or in the code"),
    detect=detect,
    faulty=Job(("+callbacks.early={_target_: pytorch_lightning.callbacks.EarlyStopping}",)),
    healthy=Job(("+callbacks.early={_target_: pytorch_lightning.callbacks.EarlyStopping, monitor: train/loss}",)),
)
