"""What a user gets who installs the wheel and has no checkout."""

import configparser
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def wheel(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)],
        cwd=repository,
        check=True,
        capture_output=True,
        text=True,
    )
    (path,) = folder.glob("aioum-*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


def test_the_wheel_holds_both_packages_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {name for name in tops if not name.endswith(".dist-info")} == {"aioum", "aioum_node"}


def test_the_wheel_says_that_both_packages_are_typed(wheel: zipfile.ZipFile) -> None:
    assert {"aioum/py.typed", "aioum_node/py.typed"} <= set(wheel.namelist())


@pytest.mark.parametrize(
    ("folder", "pattern"), [("aioum/chain/artifacts", "*.json"), ("aioum/devnet", "*.toml")]
)
def test_the_wheel_carries_contract_artifacts_and_devnet_configuration(
    wheel: zipfile.ZipFile, repository: Path, folder: str, pattern: str
) -> None:
    sources = list((repository / folder).glob(pattern))
    assert sources
    for source in sources:
        assert wheel.read(f"{folder}/{source.name}") == source.read_bytes()


def test_the_wheel_carries_the_licence(wheel: zipfile.ZipFile, repository: Path) -> None:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/licenses/LICENSE"))
    assert wheel.read(name) == (repository / "LICENSE").read_bytes()


def test_every_entry_point_of_the_wheel_names_a_module_in_it(wheel: zipfile.ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/entry_points.txt"))
    entry_points = configparser.ConfigParser()
    entry_points.read_string(wheel.read(name).decode())
    assert set(entry_points["console_scripts"]) == {"aioum", "aioum-node", "verify-evidence"}
    names = set(wheel.namelist())
    for section in entry_points.sections():
        for target in entry_points[section].values():
            path = target.partition(":")[0].replace(".", "/")
            assert {f"{path}.py", f"{path}/__init__.py"} & names, target
