import os
import pty
import subprocess
import sys
from pathlib import Path

import click
import pytest

from aioum.cli.output import print_facts, print_json, print_response, print_table, write_file
from aioum.cli.plain import one_line, printable
from aioum.cli.references import CALL_INDEXES, SESSION, is_number


def on_terminal(program: str) -> str:
    """What a program writes to a terminal of 80 columns."""
    parent, child = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "NO_COLOR": ""}
    with subprocess.Popen([sys.executable, "-c", program], stdout=child, env=environment) as process:
        os.close(child)
        written = b""
        while True:
            try:
                part = os.read(parent, 65_536)
            except OSError:
                # Linux reports the other end's close like this.
                break
            if not part:
                break
            written += part
    os.close(parent)
    assert process.returncode == 0
    return written.decode()


def test_a_table_is_plain_text_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("id", "name"), [("1", "a\nb"), ("22", "[bold]c[/]\x1b[1m")], empty="none")
    assert capsys.readouterr().out == "id  name\n1   a b\n22  [bold]c[/]\\x1b[1m\n"


def test_a_table_without_rows_is_a_word_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("id",), [], empty="none")
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "none\n")


def test_a_table_on_a_terminal_shows_markup_as_text() -> None:
    shown = on_terminal(
        "from aioum.cli.output import print_table; "
        "print_table(('id',), [('[red]x[/red]\\x1b[5m',)], empty='')"
    )
    assert "[red]x[/red]\\x1b[5m" in shown
    assert "\x1b[5m" not in shown


def test_a_table_wider_than_the_terminal_loses_nothing() -> None:
    shown = on_terminal(
        "from aioum.cli.output import print_table; print_table(('id', 'x'), [('y' * 90, 'z' * 90)], empty='')"
    )
    assert (shown.count("y"), shown.count("z")) == (90, 90)


def test_a_response_is_exact_in_a_pipe_and_safe_on_a_terminal() -> None:
    program = "from aioum.cli.output import print_response; print_response('a\\x1b[2J\\u202eb')"
    piped = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout
    assert piped == "a\x1b[2J\u202eb".encode()
    assert on_terminal(program) == "a\\x1b[2J\\u202eb\r\n"


def test_facts_without_a_value_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    print_facts([("name", "x"), ("why", ""), ("longer name", "y")])
    assert capsys.readouterr().out == "name         x\nlonger name  y\n"


def test_json_is_one_line_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": "é\x1b"})
    assert capsys.readouterr().out == '{"a": "\\u00e9\\u001b"}\n'


def test_text_without_control_characters_stays_as_it_is() -> None:
    assert printable("Ähre 中文\n\t👍") == "Ähre 中文\n\t👍"
    assert one_line(" a\n\tb ") == "a b"
    assert printable("\x00\x7f\x9b\u2066\udc80") == "\\x00\\x7f\\x9b\\u2066\\udc80"


def test_a_file_is_replaced_whole_or_not_at_all(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")
    write_file(path, b"new")
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("out", b"new")]
    with pytest.raises(OSError):
        write_file(tmp_path / "none" / "out", b"new")
    capsysbinary.readouterr()
    write_file(None, b"\xff\x00")
    assert capsysbinary.readouterr().out == b"\xff\x00"


def test_print_response_goes_to_standard_output(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    print_response("é")
    assert capsysbinary.readouterr().out == "é".encode()


@pytest.mark.parametrize(
    "text, indexes", [("1,2,5", (1, 2, 5)), ("5,1-3,2", (1, 2, 3, 5)), ("0", (0,)), (" 1, 2 ", (1, 2))]
)
def test_calls_are_named_by_indexes_and_ranges(text: str, indexes: tuple[int, ...]) -> None:
    assert CALL_INDEXES.convert(text, None, None) == indexes


@pytest.mark.parametrize("text", ["", "1,", "a", "-1", "3-1", "1-", "0-99999999", "١"])
def test_indexes_that_mean_nothing_are_wrong_usage(text: str) -> None:
    with pytest.raises(click.BadParameter):
        CALL_INDEXES.convert(text, None, None)


def test_a_session_is_named_by_number_or_channel_id() -> None:
    assert SESSION.convert("42", None, None) == 42
    assert SESSION.convert("0x" + "Ab" * 32, None, None) == b"\xab" * 32
    for text in ("0", "-1", "", "0x12", "1.5", "9" * 79, "٣"):
        with pytest.raises(click.BadParameter):
            SESSION.convert(text, None, None)
    assert not is_number("9" * 79)
