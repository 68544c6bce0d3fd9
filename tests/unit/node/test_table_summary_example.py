"""The example service that is a WebAssembly module: its template, its answers, its build."""

import json
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from aioum.core.problem import problem_code
from aioum.core.signing import LocalKey
from aioum.core.transcript import canonical_request
from aioum.core.wire import JsonObject
from aioum_node.card_builder import build_card
from aioum_node.init import init_node
from aioum_node.service import load_tools
from aioum_node.settings import Settings, load_settings
from tests.tools import missing
from tests.unit.node.test_card_builder import FACTS

MODULE = "table_summary.wasm"


@pytest.fixture(scope="session")
def example(repository: Path) -> Path:
    return repository / "examples" / "services" / "table_summary"


async def test_folder_is_a_template_whose_card_pins_the_module(example: Path, tmp_path: Path) -> None:
    made = init_node(Settings(node_dir=tmp_path / "node"), key=LocalKey(b"\x11" * 32), template=example)

    settings = load_settings(made.config_file)
    async with load_tools(settings) as box:
        offer = build_card(settings, box.tools, FACTS)

    digest = sha256((example / MODULE).read_bytes()).hexdigest()
    assert json.loads(offer.canonical)["deterministic"] == {"kind": "wasm", "module": digest}
    assert offer.card.reexecutable("summarize-table")


async def summary(example: Path, csv: str) -> str:
    """The tool's response, or the code of its failure."""
    arguments: JsonObject = {"csv": csv}
    async with load_tools(load_settings(example / "node.toml")) as box:
        request = canonical_request("summarize-table", arguments).encode()
        answer = await box.tools["summarize-table"].upstream.run(arguments, request, 60)
    return problem_code(answer.response) or answer.response.decode()


async def test_columns_of_numbers_have_exact_figures(example: Path) -> None:
    table = 'item,price,count\nnuts,0.1,1\nbolts,0.2,\n"screws, ""long""\n",-3,2\n'

    assert await summary(example, table) == (
        '{"columns":['
        '{"empty":0,"filled":3,"name":"item"},'
        '{"empty":0,"filled":3,"maximum":"0.2","mean":"-0.9","minimum":"-3","name":"price","sum":"-2.7"},'
        '{"empty":1,"filled":2,"maximum":"2","mean":"1.5","minimum":"1","name":"count","sum":"3"}'
        '],"rows":3}'
    )


@pytest.mark.parametrize(
    "cells, figures",
    [
        (["2", "2", "1"], {"maximum": "2", "mean": "1.666667", "minimum": "1", "sum": "5"}),
        (["-2", "-2", "-1"], {"maximum": "-1", "mean": "-1.666667", "minimum": "-2", "sum": "-5"}),
        (["999999999999.999999", "0.000001"], {"maximum": "999999999999.999999", "mean": "500000000000",
                                               "minimum": "0.000001", "sum": "1000000000000"}),
        ([" +7 ", "007.50"], {"maximum": "7.5", "mean": "7.25", "minimum": "7", "sum": "14.5"}),
        (["-0"], {"maximum": "0", "mean": "0", "minimum": "0", "sum": "0"}),
        (["0.1", "0.2", "0.3"] * 100, {"maximum": "0.3", "mean": "0.2", "minimum": "0.1", "sum": "60"}),
        *(([cell], {}) for cell in ("1.", ".5", "1e3", "1_5", "--1", "1.0000001",
                                    "1000000000000", "-", "١")),
    ],
)  # fmt: skip
async def test_figures_are_decimals_and_text_has_none(
    example: Path, cells: list[str], figures: dict[str, str]
) -> None:
    (column,) = json.loads(await summary(example, "\n".join(["n", *cells])))["columns"]

    assert column == {"empty": 0, "filled": len(cells), "name": "n", **figures}


@pytest.mark.parametrize(
    "name", ["é", "\t\b\f\x01\x1f\x7f", '"quoted"', "back\\slash", "line\r\nend", "💶", "\u2028"]
)
async def test_any_text_of_a_head_comes_back_as_canonical_json(example: Path, name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'

    text = await summary(example, quoted)

    answer = {"columns": [{"empty": 0, "filled": 0, "name": name}], "rows": 0}
    assert text == json.dumps(answer, ensure_ascii=False, separators=(",", ":"))


@pytest.mark.parametrize(
    "table",
    ["", "\n\n", "a,b\n1", "a\n1,2", 'a\n"1', '"a"b\n', "," * 1_000, "a\n" + "999999999999\n" * 10],
    ids=["empty", "no-head", "short", "long", "open-quote", "after-quote", "wide", "sum"],
)
async def test_what_is_no_table_is_a_failed_call(example: Path, table: str) -> None:
    assert await summary(example, table) == "tool-failed"


@pytest.mark.parametrize("table", ["," * 999, "a\n" * 30_000, "a\n" + "\n" * 59_000, '""\r\n""'])
async def test_the_largest_tables_fit_into_the_limits(example: Path, table: str) -> None:
    assert json.loads(await summary(example, table))["columns"]


def test_the_committed_module_is_what_its_source_compiles_to(repository: Path) -> None:
    if not (repository / "node_modules" / "assemblyscript").is_dir():
        missing("the compiler is not installed; scripts/setup installs it")

    built = subprocess.run(
        [repository / "scripts" / "build_wasm", "--check"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert (built.returncode, built.stdout, built.stderr) == (0, "", "")
