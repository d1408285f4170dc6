"""CSV files: what is read is what the file says, and what is not is refused with the row, the column, the cure."""

import csv
import io
import math
import threading

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from lab import SettingsError, tables
from lab.tables.encode import FARTHEST, LEAST_ROWS, MOST_CATEGORIES, MOST_CLASSES, MOST_FEATURES, encode
from lab.tables.parse import LONGEST_NAME, MOST_BYTES, MOST_COLUMNS, MOST_ROWS, Table, parse

ROWS = [f"{i},{i % 3},{'xyz'[i % 3]}" for i in range(20)]
GOOD = "\n".join(["a,b,c", *ROWS])


def read(text: str | bytes) -> Table:
    return parse(text if isinstance(text, bytes) else text.encode(), "d.csv")


def cells(table: Table) -> dict[str, list]:
    """Every column as a list of numbers or texts, None where missing."""
    return {
        column.name: [
            None if math.isnan(value) else value if column.texts is None else column.texts[int(value)]
            for value in column.values
        ]
        for column in table.columns
    }


def with_last(column: list) -> str:
    """A table of a number and this column."""
    return "\n".join(["n,last", *[f"{i},{cell}" for i, cell in enumerate(column)]])


READ = {
    "plain": ("a,b\n1,x\n2,y\n", {"a": [1, 2], "b": ["x", "y"]}),
    "no newline at the end": ("a,b\n1,x", {"a": [1], "b": ["x"]}),
    "semicolons": ("a;b\n1;x\n", {"a": [1], "b": ["x"]}),
    "semicolons and decimal commas": ("a;b\n1,5;2\n2,5;3\n", {"a": ["1,5", "2,5"], "b": [2, 3]}),
    "tabs": ("a\tb\n1\tx, y; z\n", {"a": [1], "b": ["x, y; z"]}),
    "a comma where two would do": ("a,b;c\n1,2;3\n", {"a": [1], "b;c": ["2;3"]}),
    "windows newlines": ("a,b\r\n1,x\r\n", {"a": [1], "b": ["x"]}),
    "old newlines": ("a,b\r1,x\r2,y", {"a": [1, 2], "b": ["x", "y"]}),
    "byte order mark": ("\ufeffa,b\n1,x", {"a": [1], "b": ["x"]}),
    "windows-1252": ("a,b\n1,naïve €".encode("cp1252"), {"a": [1], "b": ["naïve €"]}),
    "quotes": ('a,b\n1,"x, ""y"""\n', {"a": [1], "b": ['x, "y"']}),
    "quoted newlines": ('"a\nb",c\n1,"x\r\ny"\n2,z', {"a b": [1, 2], "c": ["x y", "z"]}),
    "blanks before a quote": ('a, "b"\n1, "x, y"', {"a": [1], "b": ["x, y"]}),
    "blanks around": (" a , b  c \n 1 ,  x   y ", {"a": [1], "b c": ["x y"]}),
    "blank lines": ("\n\na,b\n\n1,x\n  \n2,y\n\n", {"a": [1, 2], "b": ["x", "y"]}),
    "missing": (
        "a,b\n,x\nNA,?\nn/a,NaN\nnan,null\n-nan,None\n3,\n",
        {"a": [None, None, None, None, None, 3], "b": ["x", None, None, None, None, None]},
    ),
    "nothing in a column": ("a,b\n,1\nNA,2", {"a": [None, None], "b": [1, 2]}),
    "numbers": ("a,b\n-1.5e3,+.5\n1e-320,007", {"a": [-1500, 1e-320], "b": [0.5, 7]}),
    "no numbers": (
        "a,b,c,d\n1_000,0x10,12%,2024-01-01\n1 000,$5,1/2,٣x",
        {"a": ["1_000", "1 000"], "b": ["0x10", "$5"], "c": ["12%", "1/2"], "d": ["2024-01-01", "٣x"]},
    ),
    "infinite beside text": ("a,b\ninf,1\nx,2", {"a": ["inf", "x"], "b": [1, 2]}),
    "formulas are text": ("a,b\n=1+1,@x\n=cmd|' /C'!A0,-", {"a": ["=1+1", "=cmd|' /C'!A0"], "b": ["@x", "-"]}),
    "html is text": ("<b>a</b>,b\n<script>,1", {"<b>a</b>": ["<script>"], "b": [1]}),
    "a column without a name": (",b\n1,x", {"column 1": [1], "b": ["x"]}),
    "a name that is a number": ("2019,b\n1,x", {"2019": [1], "b": ["x"]}),
    "emoji": ("😀,b\n1,😀", {"😀": [1], "b": ["😀"]}),
}


@pytest.mark.parametrize("case", READ)
def test_what_is_read_is_what_the_file_says(case):
    text, want = READ[case]
    assert cells(read(text)) == want


REFUSED = {
    "nothing": ("", ["is empty", "the first row must name the columns"]),
    "blanks": (" \n\n", ["is empty"]),
    "a mark and nothing": ("\ufeff", ["is empty"]),
    "one column": ("a\n1\n2", ["row 1", "names one column", "commas, semicolons or tabs"]),
    "header only": ("a,b\n", ["no row below the header", "add rows"]),
    "too few cells": ("a,b,c\n1,2,3\n1,2", ["row 3", "its cells is 2 and of the columns 3", "in quotes"]),
    "too many cells": ("a,b\n1,2\n\n1,2,3", ["row 4", "its cells is 3 and of the columns 2"]),
    "a name twice": ("a,b, a\n1,2,3", ["row 1", "columns 1 and 3 are both called a", "rename one"]),
    "a place's name twice": ("column 2,,c\n1,2,3", ["row 1", "columns 1 and 2 are both called column 2"]),
    "no header": ("1,2\n3,4", ["row 1", "put a row of names above it"]),
    "a long name": (f"a,{'b' * 201}\n1,2", ["row 1, column 2", "201 characters", f"{LONGEST_NAME} at most"]),
    "infinity": ("a,b\n1,2\n3,-inf", ["row 3, column b", "-inf is not a finite number", "leave the cell empty"]),
    "a huge number": ("a,b\n1,1e999", ["row 2, column b", "1e999 is not a finite number"]),
    "an open quote": ('a,b\n1,2\n1,"2\n3,4', ["row 3", "quote out of place", "is written twice"]),
    "a quote inside": ('a,b\n"1"x,2', ["row 2", "quote out of place"]),
    "a long cell": (f"a,b\n1,{'x' * 200_000}", ["row 2", "a cell of more than 131,072 characters"]),
    "a nul": (b"a,b\n1,2\n\0,3", ["line 3", "holds a NUL", "save the table as CSV"]),
    "utf-16": ("a,b\n1,2".encode("utf-16"), ["UTF-16", "save it as CSV in UTF-8"]),
    "a workbook": (b"PK\x03\x04\x14\x00", ["a workbook", "save the sheet as CSV"]),
    "no text": (b"a,b\n1,\x81", ["line 2", "is not UTF-8", "save the table as CSV in UTF-8"]),
    "too many bytes": (b"a" * (MOST_BYTES + 1), ["larger than 5 MB", "leave out rows or columns"]),
    "too many rows": ("a,b\n" + "1,2\n" * (MOST_ROWS + 1), [f"row {MOST_ROWS + 2}", "20,000 rows", "leave out some"]),
    "too many columns": (
        ",".join(f"c{i}" for i in range(MOST_COLUMNS + 1)) + "\n",
        ["row 1", "201 columns", "at most 200", "leave out some"],
    ),
}  # fmt: skip


def one_sentence(refusal: pytest.ExceptionInfo, *pieces: str):
    text = str(refusal.value)
    assert len(text.splitlines()) == 1 and len(text) < 1000
    for piece in pieces:
        assert piece in text


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_refused_with_its_place_and_the_cure(case):
    text, pieces = REFUSED[case]
    with pytest.raises(SettingsError) as refusal:
        read(text)
    one_sentence(refusal, "d.csv: ", *pieces)


def test_the_largest_table_is_read():
    header = ",".join(f"c{i}" for i in range(MOST_COLUMNS))
    assert len(read(header + "\n" + ",".join("1" * MOST_COLUMNS)).columns) == MOST_COLUMNS
    assert read("a,b\n" + "1,2\n" * MOST_ROWS).rows == MOST_ROWS


WORDS = [f"word{'abcdefgh'[i % 8]}{i}" for i in range(1000)]
NOT_ENCODED = {
    "no target at all": (with_last([""] * 20), ["column last", "filled in 0 of 20 rows", "choose another"]),
    "a target in few rows": (with_last([1, 2, 1, 2] + [""] * 9), ["column last", "4 of 13", f"at least {LEAST_ROWS}"]),
    "one class": (with_last(["x"] * 20), ["column last", "is x in every row", "another class"]),
    "one class that trains": (with_last(["x", "x", "x", "x", "y"] * 4), ["column last", "in every row that trains"]),
    "one number": (with_last([0.5] * 20), ["column last", "the same in every row", "choose another target"]),
    "one whole number": (with_last([3] * 20), ["column last", "is 3 in every row"]),
    "a thousand classes": (with_last(WORDS), ["column last", "1,000 different texts", "at most 20 classes"]),
    "a mistyped number": (
        with_last([*[i / 7 for i in range(30)], "1.2.3", *range(30)]),
        ["row 32, column last", "1.2.3 is no number", "leave the cell empty"],
    ),
    "decimal commas": (with_last([f'"{i},5"' for i in range(30)]), ["row 2, column last", "0,5 is no number"]),
    "a mistyped input": (
        "\n".join(["a,b", *[f"{'o' if i == 70 else i},{i % 2}" for i in range(100)]]),
        ["row 72, column a", "o is no number, as most of the column is"],
    ),
    "nothing to learn from": ("\n".join(["a,b", *[f"7,{i % 2}" for i in range(9)]]), ["no column besides b is left"]),
    "too many inputs": (
        "\n".join([",".join([*[f"c{j}" for j in range(30)], "y"]),
                   *[",".join([*[f"t{(i // 5 + j) % 50}" for j in range(1, 31)], str(i % 2)]) for i in range(250)]]),
        ["inputs", f"at most {MOST_FEATURES:,}", "such as c0 with 50"],
    ),
    "a number out of reach": (
        with_last([0.5, 1, 2, 3, 1e300] * 4), ["row 6, column last", "1e+300", f"{FARTHEST:,.0f} standard deviations"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NOT_ENCODED)
def test_what_cannot_be_learned_is_refused_with_its_place_and_the_cure(case):
    text, pieces = NOT_ENCODED[case]
    table = read(text)
    with pytest.raises(SettingsError) as refusal:
        encode(table, "")
    one_sentence(refusal, "d.csv: ", *pieces)


def test_a_wrong_target_is_refused_with_the_columns_and_the_nearest():
    table = read(GOOD.replace("a,b,c", "price,size,kind"))
    for wrong, hint in (("prise", "; did you mean price?"), ("wholly other", "price, size, kind")):
        with pytest.raises(SettingsError) as refusal:
            encode(table, wrong)
        one_sentence(refusal, f"target={wrong}: d.csv has no such column", "its columns are price, size, kind", hint)


def test_many_columns_are_cut_short():
    table = read(",".join(f"c{i}" for i in range(100)) + "\n" + ",".join("1" * 100))
    with pytest.raises(SettingsError, match=r"c10, c11 and 88 more$"):
        table.column("wholly other")


KINDS = {
    "text": (["x", "y", "z"], ("x", "y", "z")),
    "whole numbers": ([10, 9, 2], ("2", "9", "10")),
    "whole numbers with a point": (["1.0", "0", "-0.0"], ("0", "1")),
    "as many as may be": (list(range(MOST_CLASSES)), tuple(map(str, range(MOST_CLASSES)))),
    "one more": (list(range(MOST_CLASSES + 1)), ()),
    "a fraction": ([1, 2, 2.5], ()),
}


@pytest.mark.parametrize("case", KINDS)
def test_a_target_is_classes_or_a_number(case):
    values, classes = KINDS[case]
    encoded = encode(read(with_last(values * 12)), "")
    assert encoded.classes == classes
    assert encoded.train["y"].dtype == (np.int32 if classes else np.float32)


NOTES = {
    "constant": ("a,k,b\n" + "\n".join(f"{i},7,{i % 2}" for i in range(9)), "left out: k."),
    "empty": ("a,k,b\n" + "\n".join(f"{i},NA,{i % 2}" for i in range(9)), "left out: k."),
    "names": ("a,k,b\n" + "\n".join(f"{i},{WORDS[i]},{i % 2}" for i in range(100)), "k has 80 different texts"),
    "no target": (with_last(["x", "y", "", "x", "y", "x", "y"]), "1 of 7 rows have no last and are left out."),
    "no name": (",b\n" + "\n".join(f"{i},{i % 2}" for i in range(9)), "Column 1 has no name and is called column 1."),
    "mixed": ("a,b\n" + "\n".join(f"{i if i % 4 else 'none!'},{i % 2}" for i in range(20)), "such as none!"),
    "encoding": (b"a,b\n" + b"\n".join(b"%d,\xe9%d" % (i, i % 2) for i in range(9)), "Line 2 is not UTF-8"),
    "unseen": (
        "a,b\n" + "\n".join(f"{'pqrst'[i % 5]},{i % 2}" for i in range(20)),
        "a holds a text that never trained in 4",
    ),
    "unseen class": (with_last(["x", "y", "x", "y", "z"] * 4), "No row that trains has the last z"),
    "classes": (GOOD, "c has 3 classes: x, y, z."),
    "a number": (with_last([i + 0.5 for i in range(10)]), "from its mean: 4.5 plus or minus 2.74"),
}


@pytest.mark.parametrize("case", NOTES)
def test_what_was_done_is_noted(case):
    text, piece = NOTES[case]
    notes = encode(read(text), "").notes
    assert any(piece in note for note in notes), notes
    assert all(len(note.splitlines()) == 1 and note.endswith(".") for note in notes)
    assert all(piece not in note for note in encode(read("n,m\n" + "1,2\n3,5\n4,4\n6,7.5\n8,8\n"), "").notes)


ODD = st.sampled_from(
    ['"', ",", ";", "\t", "\n", "\r", "a", "1", "-2.5", "inf", "nan", "1e308", "", " ", "é", "\ufeff"]
)


def table_or_refusal(data: bytes):
    """Reads and encodes for every target; nothing but a refusal may come."""
    try:
        table = parse(data, "d.csv")
    except SettingsError as refusal:
        assert len(str(refusal).splitlines()) == 1
        return
    for column in table.columns:
        try:
            encoded = encode(table, column.name)
        except SettingsError as refusal:
            assert len(str(refusal).splitlines()) == 1
            continue
        for part in (encoded.train, encoded.held_out):
            assert part["x"].shape == (len(part["y"]), len(encoded.features))
            assert np.isfinite(part["x"]).all() and np.isfinite(part["y"]).all()


@given(st.binary(max_size=300))
@example(b"a,b\n" + b"\xff\n" * 9)
@hypothesis_settings(max_examples=400)
def test_any_bytes_are_a_table_or_refused(data):
    table_or_refusal(data)


@given(st.lists(ODD, max_size=60).map("".join))
@hypothesis_settings(max_examples=400)
def test_any_text_is_a_table_or_refused(text):
    table_or_refusal(text.encode())


NUMBER = st.floats(allow_nan=False, allow_infinity=False).map(repr)
CELL = st.one_of(
    NUMBER, st.integers(-3, 3).map(str), st.sampled_from(["", "NA", "x", "y", "1,5", "<b>"]), st.text(max_size=5)
)


@given(st.integers(2, 4).flatmap(lambda f: st.lists(st.lists(CELL, min_size=f, max_size=f), min_size=5, max_size=30)))
@hypothesis_settings(max_examples=300)
def test_any_rows_are_encoded_or_refused(rows):
    text = io.StringIO()
    csv.writer(text).writerows([[f"c{i}" for i in range(len(rows[0]))], *rows])
    table_or_refusal(text.getvalue().encode("utf-8", "replace"))


@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), min_size=1, max_size=20))
@hypothesis_settings(max_examples=100)
def test_numbers_are_read_to_the_last_bit(rows):
    text = "\n".join(["a;b;c", *[";".join(map(repr, row)) for row in rows]])
    np.testing.assert_array_equal(np.array([column.values for column in read(text).columns]).T, rows)


def test_a_table_is_known_by_its_bytes():
    one, other = tables.add(GOOD.encode(), "one.csv"), tables.add(GOOD.encode() + b"\n", "other.csv")
    assert one == tables.add(GOOD.encode(), "again.csv") != other
    assert tables.is_fingerprint(one) and tables.get(one) is tables.get(one) and tables.get(one).name == "one.csv"
    assert tables.get(one).kinds == {"a": "numeric", "b": "numeric", "c": "text"}


def test_what_is_refused_is_not_kept():
    with pytest.raises(SettingsError):
        tables.add(b"a,b\n1", "d.csv")
    assert tables.find("0123456789ab") is None
    with pytest.raises(SettingsError) as refusal:
        tables.get("0123456789ab")
    one_sentence(refusal, "table=0123456789ab", "cannot carry its data", "choose the file again", "table=FILE")


def test_few_tables_are_kept_and_the_one_used_longest_ago_goes_first():
    first, second = (tables.add(f"{GOOD}\n{i},1,x".encode(), "d.csv") for i in (100, 101))
    for i in range(tables.MOST_TABLES - 1):
        assert tables.find(first)
        tables.add(f"{GOOD}\n{i},2,y".encode(), "d.csv")
    assert tables.find(first) and tables.find(second) is None
    assert tables.get("example").name == "example.csv"


def test_threads_may_add_and_read_at_once():
    broken = []

    def work(number: int):
        try:
            for i in range(30):
                tables.get(tables.add(f"{GOOD}\n{i % 9},{number % 2},x".encode(), "d.csv"))
                tables.get("example")
        except Exception as error:
            broken.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not broken


def test_more_categories_than_can_be_told_apart_are_left_out():
    def features(number: int) -> int:
        rows = [f"{WORDS[i % number]},{i % 2}" for i in range(5 * number)]
        table = read(
            "\n".join(["a,n,b", *[f"{row.split(',')[0]},{i},{row.split(',')[1]}" for i, row in enumerate(rows)]])
        )
        return len(encode(table, "").features)

    assert features(MOST_CATEGORIES - 1) == MOST_CATEGORIES and features(MOST_CATEGORIES + 2) == 1


def test_the_first_line_of_excel_names_the_delimiter():
    table = parse(b"sep=;\na;p\n0;0.5\n1;1.5\n", "x.csv")
    assert [column.name for column in table.columns] == ["a", "p"] and table.rows == 2
    with pytest.raises(SettingsError, match="row 4: the number of its cells is 1"):
        parse(b"sep=|\na|p\n0|0.5\n1\n", "x.csv")
