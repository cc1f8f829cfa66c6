import pytest
import yaml
from training_config.yaml_files import check_size, read_plain

BOMB = "\n".join(["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30))])


@pytest.mark.parametrize("text", [BOMB, "a: &a [*a]", "a: &a {b: *a}"], ids=["bomb", "list in itself", "mapping"])
def test_file_whose_aliases_never_end_is_refused(text, tmp_path):
    (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="its aliases"):
        read_plain(tmp_path / "a.yaml")


@pytest.mark.parametrize("text", ["", "a: 1", "a: &a [1, 2]\nb: *a\n", "x: &x {y: 1}\nz:\n  <<: *x\n", "a: '*.png'"])
def test_other_files_are_read_as_they_are(text, tmp_path):
    (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    assert read_plain(tmp_path / "a.yaml") == yaml.safe_load(text)


def test_what_is_no_yaml_is_said_by_who_reads_it():
    check_size("a: [1")
