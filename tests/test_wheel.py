"""The distribution that users install: the wheel is built and imported where nothing but torch is there."""

import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]

BLOCKED = """\
import sys
needless = {"numpy", "pydantic", "safetensors", "yaml", "pandas", "numba", "matplotlib", "scipy", "IPython"}
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in needless and not inside_torch():
            raise ModuleNotFoundError(f"{name} is not installed", name=name)
def inside_torch():
    frame = sys._getframe(2)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("rationale"):
            return False
        if module.startswith("torch"):
            return True
        frame = frame.f_back
    return False
sys.meta_path.insert(0, Missing())
"""
WORKS = """\
import rationale
from rationale.distributions import HardKuma
assert rationale.__file__.startswith(sys.prefix), rationale.__file__
print(HardKuma(0.5, 0.5).prob_zero.item())
"""


def test_the_distributions_need_torch_alone():
    program = BLOCKED + "from rationale.distributions import HardKuma; print(HardKuma(0.5, 0.5).mean.item())"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert not result.returncode, result.stderr
    assert result.stdout.startswith("0.5365")


@pytest.mark.deep
def test_the_wheel_is_built_and_imports_in_a_new_environment(tmp_path):
    """The new environment sees torch of this one through a path file, and nothing else of the repository."""
    source = tmp_path / "source"  # a copy, because setuptools leaves files beside what it builds
    shutil.copytree(ROOT / "rationale", source / "rationale", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet"]  # needs no network
    build += ["--wheel-dir", str(tmp_path), str(source)]
    built = subprocess.run(build, capture_output=True, text=True, cwd=tmp_path)
    assert not built.returncode, built.stderr
    (wheel,) = tmp_path.glob("rationale_kuma-*.whl")
    venv.create(tmp_path / "fresh", with_pip=True)
    (python,) = (tmp_path / "fresh").glob("*/python")
    installed = [str(python), "-m", "pip", "install", "--no-deps", "--no-index", "--quiet", str(wheel)]
    done = subprocess.run(installed, capture_output=True, text=True, cwd=tmp_path)
    assert not done.returncode, done.stderr
    packages = next((tmp_path / "fresh").glob("lib/**/site-packages"))
    (packages / "torch_of_the_tests.pth").write_text(str(Path(torch.__file__).parents[1]) + "\n")
    program = BLOCKED + WORKS
    result = subprocess.run([str(python), "-I", "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert not result.returncode, result.stderr
    assert result.stdout.startswith("0.15659")
    assert (packages / "rationale" / "py.typed").exists(), "users do not get the annotations"
