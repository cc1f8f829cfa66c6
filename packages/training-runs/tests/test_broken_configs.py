"""Files of conf/ that cannot be read: named where they are used, and in nobody's way where they are not."""

import shutil
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from in_project import own_conftest

TINY = own_conftest().TINY
BOMB = "\n".join(["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30))])
BROKEN = {
    "a tab": "lr:\n\t1",
    "a key twice": "lr: 1\nlr: 2",
    "latin-1": "lr: 1 # größe".encode("latin-1"),
    "aliases that never end": BOMB,
    "defaults of another kind": "defaults: 5",
    "defaults that lead back": "defaults: [broken]",
}


@contextmanager
def option(path: Path, kind: str):
    """An option of a group that cannot be read."""
    text = BROKEN[kind]
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    try:
        yield path
    finally:
        path.unlink()


@pytest.fixture(params=BROKEN)
def broken(request, root):
    with option(Path(root, "conf/optimizer/broken.yaml"), request.param) as path:
        yield path


@pytest.fixture
def all_broken(root):
    with ExitStack() as files:
        for number, kind in enumerate(BROKEN):
            files.enter_context(option(Path(root, f"conf/optimizer/broken{number}.yaml"), kind))
        yield


def test_file_that_is_used_is_named_in_one_line(broken, script, tmp_path, capfd):
    with pytest.raises(SystemExit) as exited:
        script("train.py", *TINY, "optimizer=broken")
    said = capfd.readouterr().err
    assert exited.value.code == 1
    assert said.splitlines()[-1].startswith(str(broken))
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("all_broken")
def test_files_that_nobody_uses_stop_neither_evaluation_nor_resume_nor_rerun(tiny, script, evaluate, tmp_path):
    run = shutil.copytree(tiny, tmp_path / "run")
    evaluate(f"run={run}")
    script("train.py", f"resume={run}", "trainer.max_epochs=2")
    script("train.py", f"rerun={run}")
