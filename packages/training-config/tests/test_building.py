import pytest
import torch
from omegaconf import OmegaConf
from training_config.building import instantiate


class Weighing:
    def __init__(self, weights: torch.Tensor | None, sizes: list[int]) -> None:
        self.weights, self.sizes = weights, sizes


NODE = {"_target_": f"{__name__}.Weighing", "weights": [2, 1, 0.5], "sizes": [1, 2]}


def test_list_becomes_a_tensor_where_the_annotation_says_so_and_nowhere_else():
    built = instantiate(OmegaConf.create(NODE))
    assert torch.equal(built.weights, torch.tensor([2.0, 1.0, 0.5]))
    assert built.sizes == [1, 2]


def test_part_of_a_part_is_found_through_an_interpolation_and_the_config_stays_as_it_was():
    cfg = OmegaConf.create({"inner": NODE, "outer": {"_target_": "builtins.dict", "inner": "${inner}"}})
    before = OmegaConf.to_yaml(cfg)
    assert torch.equal(instantiate(cfg.outer, other=1)["inner"].weights, torch.tensor([2.0, 1.0, 0.5]))
    assert OmegaConf.to_yaml(cfg) == before


def test_what_cannot_be_built_is_named_by_its_key():
    cfg = OmegaConf.create({"model": {"net": NODE | {"other": 1}}})
    with pytest.raises(Exception, match=r"full_key: model\.net"):
        instantiate(cfg.model)


def test_tensor_that_a_node_builds_is_left_alone():
    node = NODE | {"weights": {"_target_": "torch.tensor", "data": [1, 2]}}
    assert instantiate(OmegaConf.create(node)).weights.dtype == torch.int64
