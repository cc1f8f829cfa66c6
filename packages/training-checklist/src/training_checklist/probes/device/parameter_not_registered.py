import torch
from torch import nn

from training_checklist.instruments import WHY, AcceleratorStep, with_part
from training_checklist.probe import Fix, Hits, Limits, Probe


def detect(step: AcceleratorStep, limits: Limits) -> Hits:
    for mix in step.of("parameter"):
        yield mix.fixed(
            f"the parameter {mix.origin.name} is not registered",
            f"self.{mix.attribute} = nn.ParameterList(...), which registers what it holds",
        )


PROBE = Probe(
    question="Is every nn.Parameter that a step uses registered in a module?",
    why=f"{WHY}; nor is it in parameters() or state_dict(), so that it is never trained or saved",
    detect=detect,
    fix=Fix("keep parameters in nn.ParameterList or nn.ParameterDict"),
    faulty=with_part(lambda: [nn.Parameter(torch.ones(4))], lambda scales, answers: scales[0] * answers),
    healthy=with_part(lambda: nn.ParameterList([torch.ones(4)]), lambda scales, answers: scales[0] * answers),
)
