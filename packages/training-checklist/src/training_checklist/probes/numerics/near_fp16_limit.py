import torch
from torch.nn import functional

from training_checklist.instruments import Numbers, in_mixed_precision
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe, Threshold

FP16_MAX = torch.finfo(torch.float16).max


def detect(numbers: Numbers, limits: Limits) -> Hits:
    for place, largest in numbers.largest_in_fp16.items():
        if largest > limits.near * FP16_MAX:
            share = largest / FP16_MAX
            yield Hit(f"FP16 values up to {largest:.3g}: {share:.0%} of its range, which ends at {FP16_MAX:g}", place)


PROBE = Probe(
    item="overflow",
    question="Do values in FP16 stay well below its largest number, 65504?",
    why="a batch with somewhat larger values makes it Inf, and NaN after that",
    severity=WARNING,
    fix=Fix("bf16-mixed has the range of FP32", ("trainer.precision=bf16-mixed",)),
    detect=detect,
    thresholds={
        "near": Threshold(0.5, "share of 65504: FP16 has no value twice as large, one more binary digit is Inf")
    },
    faulty=in_mixed_precision(lambda answers, labels: functional.cross_entropy(5e4 * answers.cos() / 5e4, labels)),
    healthy=in_mixed_precision(lambda answers, labels: functional.cross_entropy(2e4 * answers.cos() / 2e4, labels)),
)
