"""What a Trainer on one device, or on the CPU, can't have of its config. Nothing here imports torch."""

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, read_write
from training_config.overrides import key_of
from training_config.processes import needs_processes

ON_CPU = {"16": "bf16-mixed", "16-mixed": "bf16-mixed", "16-true": "bf16-true"}  # as Lightning chooses for mixed ones
ONE_DEVICE = {"trainer.devices": 1, "trainer.strategy": "auto", "trainer.num_nodes": 1}


def without_fp16(config: DictConfig) -> None:
    """Let the Trainer of an item that goes to the CPU compute in BF16 where the run would on its GPU in FP16."""
    trainer = config.get("trainer")
    there = isinstance(trainer, DictConfig) and trainer.get("accelerator") == "cpu"
    if there and (precision := ON_CPU.get(str(trainer.get("precision")))):
        with read_write(config):
            trainer.precision = precision


def without_devices(overrides: list[str]) -> list[str]:
    """Return a command line's overrides without those that ask for several processes; those for one stay."""
    return [text for text in overrides if key_of(text) not in ONE_DEVICE or asks_for_one(text)]


def asks_for_one(text: str) -> bool:
    override = OverridesParser.create().parse_override(text)
    if override.is_delete() or override.is_sweep_override() or "${" in text:
        return False  # what it comes to is not known here
    return not needs_processes({override.key_or_group.rpartition(".")[2]: override.value()})
