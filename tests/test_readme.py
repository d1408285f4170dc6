"""What the README shows is what is there and runs."""

import re
from pathlib import Path

import pytest

from app import look
from lab.cli import parser
from lab.settings import Settings, split_words

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", TEXT, flags=re.S)
PYTHON = [block for language, block in BLOCKS if language == "python"]
TASK = (ROOT / "assets" / "my_task.py").read_text(encoding="utf-8")


def test_the_task_it_shows_is_the_one_that_ships():
    assert TASK in PYTHON


@pytest.mark.parametrize("block", [block for block in PYTHON if block != TASK])
def test_its_python_runs(block, capsys):
    exec(compile(block, "README", "exec"), {})
    printed = capsys.readouterr().out.split()
    for said in re.findall(r"# ([\d.]+),", block):
        assert said in printed


@pytest.mark.parametrize("query", re.findall(r"\?(\w+=[^`)\s]+)", TEXT))
def test_its_addresses_are_legal(query):
    given = split_words(query.split("&"))
    _, refused = look.read(given)
    assert not refused
    Settings.from_query({name: value for name, value in given.items() if name not in look.Look._fields})


@pytest.mark.parametrize(
    "line", [line for _, block in BLOCKS for line in block.splitlines() if re.match("training-lab (run|inspect)", line)]
)
def test_its_commands_are_understood(line):
    given = parser().parse_args(line.partition("#")[0].split()[1:])
    Settings.from_words(word for word in given.words if not word.startswith("table="))


def test_its_pictures_are_there():
    for picture in re.findall(r"!\[.*?\]\((.*?)\)", TEXT):
        assert (ROOT / picture).is_file()
