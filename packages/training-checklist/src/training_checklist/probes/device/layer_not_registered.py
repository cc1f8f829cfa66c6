import torch
from torch import nn

from training_checklist.instruments import WHY, AcceleratorStep, with_part
from training_checklist.probe import Fix, Hits, Limits, Probe


def detect(step: AcceleratorStep, limits: Limits) -> Hits:
    for mix in step.of("layer"):
        yield mix.fixed(
            f"{mix.origin.name.partition(' ')[0]} is not registered as a submodule",
            f"keep layers in nn.ModuleList or nn.ModuleDict: self.{mix.attribute} = nn.ModuleList(...)",
        )
    for mix in step.of("parameter"):
        yield mix.fixed(
            f"the parameter {mix.origin.name} is not registered",
            f"self.{mix.attribute} = nn.ParameterList(...), which registers what it holds",
        )


PROBE = Probe(
    question="Is every layer and nn.Parameter that a step uses registered in its module?",
    why=f"{WHY}; nor is it in parameters() or state_dict(), so that it is never trained or saved",
    detect=detect,
    fix=Fix("keep layers in nn.ModuleList or nn.ModuleDict"),
    aliases=("device/parameter-not-registered",),
    faulty=with_part(lambda: [nn.Linear(4, 4)], lambda layers, answers: layers[0](answers)),
    also_faulty=(with_part(lambda: [nn.Parameter(torch.ones(4))], lambda scales, answers: scales[0] * answers),),
    healthy=with_part(lambda: nn.ModuleList([nn.Linear(4, 4)]), lambda layers, answers: layers[0](answers)),
    also_healthy=(with_part(lambda: nn.ParameterList([torch.ones(4)]), lambda scales, answers: scales[0] * answers),),
)
