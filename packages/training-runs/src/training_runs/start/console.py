"""What a run says in the terminal, besides its progress bar."""

import logging
import warnings

from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.utilities import rank_zero_only
from rich.console import Console
from rich.style import Style
from rich.syntax import ANSISyntaxTheme, Syntax
from training_config.secret_values import secret_values, without_secrets

# Colours that are readable on black are not on white, or the other way round; weights are on both.
PLAIN = ANSISyntaxTheme({("Name", "Tag"): Style(bold=True), ("Comment",): Style(dim=True)})


def silence_known_warnings() -> None:
    """Hide warnings that tell a user nothing they can act on."""
    # Loader workers only add copies to data that lies in memory.
    warnings.filterwarnings("ignore", message=".*does not have many workers")
    # Lightning 2.6.6 on torch 2.15; can go when Lightning asks `TreeSpec.is_leaf`.
    warnings.filterwarnings("ignore", message=".*LeafSpec.* is deprecated")
    # torch 2.15 renames an argument whose new name older versions do not know.
    warnings.filterwarnings("ignore", message=".*broadcast_buffers.* is deprecated")
    # A run that goes on writes where it has written before.
    warnings.filterwarnings("ignore", message=".*Checkpoint directory .* exists and is not empty")
    # Of short epochs: steps are counted over all of them, and what an epoch logs at its end is always logged.
    warnings.filterwarnings("ignore", message=".*is smaller than the logging interval")
    # The samplers here repeat no sample, which is what this warns of.
    warnings.filterwarnings("ignore", message="Using `DistributedSampler` with the dataloaders")


@rank_zero_only
def print_config(cfg: DictConfig) -> None:
    """Print the composed config with every interpolation resolved, without secrets."""
    shown = OmegaConf.create(without_secrets(OmegaConf.to_container(cfg, resolve=True), secret_values(cfg)))
    Console().print(Syntax(OmegaConf.to_yaml(shown), "yaml", theme=PLAIN, background_color="default"))


@rank_zero_only
def say(line: str) -> None:
    print(line, flush=True)


@rank_zero_only
def record(text: str, shown: bool) -> None:
    """Write `text` to the log files of this job and, where `shown`, to the terminal."""
    logger = logging.getLogger("training_runs")
    # Not through the logger: Hydra's handler for the terminal would say it a second time, and amid a progress bar.
    files = [handler for handler in logging.getLogger().handlers if isinstance(handler, logging.FileHandler)]
    for line in text.splitlines():
        entry = logger.makeRecord(logger.name, logging.INFO, "", 0, line, (), None)
        for file in files:
            file.handle(entry)
    if shown:
        print(text, flush=True)


@rank_zero_only
def print_summary(metrics: dict[str, float], pointers: dict[str, str]) -> None:
    """Print metrics and where to go from here, a name and a value a line; lines are never folded, to be copied."""
    rows = {name: f"{value:.4f}" for name, value in sorted(metrics.items())} | pointers
    width = max(map(len, rows), default=0)
    for name, value in rows.items():
        first, *further = value.splitlines() or [""]
        print(f"  {name:<{width}}  {first}")
        for line in further:
            print(f"  {'':<{width}}  {line}")
