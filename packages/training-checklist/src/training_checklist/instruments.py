"""All that a probe looks with, by one door: `from training_checklist.instruments import Step, criterion_inputs`.

What it is stands in `lab/` and `engines/`. A module is imported when a name of it is asked for.
"""

from importlib import import_module
from typing import Any

MODULES = {
    "diagnosis.diagnose": ("diagnose",),
    "engines.batches": ("batch_size", "leaves", "same", "tensors"),
    "engines.chance": ("CHANCE", "at_least", "at_most", "of_one_order"),
    "engines.compared": ("ROUNDING", "SAMPLES", "first_of", "replaced"),
    "engines.criteria": ("CRITERIA", "Criteria", "CriterionCall"),
    "engines.drawn_indices": ("content_of", "length"),
    "engines.entrances": ("Entrances",),
    "engines.fingerprints": ("digest",),
    "engines.first_difference": ("first_difference",),
    "engines.graph": ("operation",),
    "engines.held": ("NOWHERE", "holder", "with_graph"),
    "engines.loads": ("LoadedWeights",),
    "engines.own_config": ("own_config",),
    "engines.own_code": ("is_own", "is_own_class", "pass_on", "shorten"),
    "engines.parameter_names": ("shown",),
    "engines.places": ("Places", "of_frame", "of_function"),
    "engines.replay": ("call_step", "isolated", "loss_in", "seed_all"),
    "engines.sizes": ("GIB", "in_bytes"),
    "engines.slow_code": ("BUILT_IN", "share_in", "slowest", "title_of"),
    "engines.source_trees": ("source_tree",),
    "engines.splits": ("Split", "as_in", "splits"),
    "engines.tracer": ("Call", "Listener", "Tracer"),
    "engines.uncopied": ("after_forward",),
    "experiments.config.code_reads": ("read_code", "sources"),
    "experiments.experiment": ("NoWorkers",),
    "experiments.paths.written_files": ("Written",),
    "experiments.overflow.overflow": ("detect_overflow",),
    "lab.accelerator": ("WHY", "AcceleratorStep"),
    "lab.compared_tensors": ("ComparedTensor", "compared_tensors"),
    "lab.criterion_inputs": ("SUM", "CriterionInput", "criterion_inputs"),
    "lab.data": (
        *("LEAST", "RAISED", "TOGETHER", "UNREAD"),
        *("Data", "Order", "Part"),
        *("batches", "by_index", "differing", "in_order", "is_within", "load", "order_of", "part", "tested"),
    ),
    "lab.effects": ("copied_parameters", "without_effect"),
    "lab.examples": (
        "Changed",
        "Example",
        "Small",
        "Validated",
        "Regression",
        "labelled",
        "normal",
        "loader",
        "of_data",
        "project",
        "samples",
        "with_part",
    ),
    "lab.history": ("history",),
    "lab.loading": ("caller_of_numpy", "mixed_by_collate", "reloaded", "seeds_of", "watch"),
    "lab.jobs": ("Job",),
    "lab.loss_slopes": ("Losses", "slopes"),
    "lab.made_by": ("VIEWS", "behind_views", "made_by_weights"),
    "lab.memory_use": ("MemoryUse", "rises"),
    "lab.module_calls": ("SAME", "ModuleCall", "spread"),
    "lab.numerics": ("Numbers", "mixed"),
    "lab.numerical_slopes": ("CheckedStep", "around_apply", "double", "is_float"),
    "lab.padding_masks": ("PaddingMasks",),
    "lab.peak_memory": ("ACTIVATIONS", "OF_PARAMETERS", "Peak", "predict", "samples_of"),
    "lab.reshapes": ("exchanges_axes", "to_transpose"),
    "lab.roles": ("Roles",),
    "lab.scales": ("differ", "numbers_of_targets", "scale_of"),
    "lab.run_files": ("OUTPUT_DIR", "RunFiles", "checkpoints", "job", "logged", "records"),
    "lab.sequences": (
        *("ADDED", "MOVED", "OVER_TIME"),
        *("answered", "answers", "differences", "more_padding", "scores", "trailing"),
    ),
    "lab.shapes": ("Reshape", "Shape", "broadcast", "by"),
    "lab.shared": ("known", "of_the_project", "once"),
    "lab.stages": ("Stages",),
    "lab.step": ("STEPS", "Step", "StepListener", "look", "smaller", "train_split"),
    "lab.step_times": ("StepTimes", "loading", "reading"),
    "lab.stored": ("digest_row", "origin", "row_size", "shared_samples"),
    "lab.tables": ("MOST", "scaling", "shift", "tables", "whole_table"),
    "lab.texts": ("Reader", "texts"),
    "lab.whole_training": ("WholeTraining", "ends", "looked_at", "measured", "parts"),
    "lightning": (
        "Callback",
        "Checkpoint",
        "CombinedLoader",
        "LightningDataModule",
        "LightningModule",
        "is_overridden",
        "isolate_rng",
    ),
    "starting.placement": ("Asked", "raw_directory"),
}


def __getattr__(name: str) -> Any:
    module = next((module for module, names in MODULES.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"training_checklist.{module}"), name)
