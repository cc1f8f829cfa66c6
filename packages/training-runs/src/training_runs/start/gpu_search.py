import os

import torch


def stop_searching_for_gpus() -> None:
    """Spare every optimizer step of a machine without a GPU the search for one, a quarter of a millisecond.

    torch 2.15 asks in every step of Adam whether there is a GPU, and importing Lightning 2.6.6 makes it look for
    NVIDIA's management library each time. Can go when either stops.
    """
    if not torch.cuda.is_available():
        os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "0"
