"""Tables from files: what people write, read as they mean it, or refused with the place."""

import gzip

import numpy as np
import pandas as pd
import pytest

from fisherkit.columns.frames import is_number
from fisherkit.columns.kinds import Column, date_columns, match, stray_text
from fisherkit.tables.reading import TableError, read_table

ROWS = "age,town,smokes\n31,Bonn,yes\n42,Köln,no\n,Bonn,yes\n"


@pytest.fixture
def file(tmp_path):
    """Writes bytes (or text, as UTF-8) to a file of the name given."""

    def write(content, name="data.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def refusal(path, **options):
    with pytest.raises(TableError) as error:
        read_table(path, **options)
    message = str(error.value)
    assert str(path) in message
    return message


def same(table, other):
    pd.testing.assert_frame_equal(table, other)
    return True


def test_numbers_are_numbers_text_is_text_and_rows_know_their_lines(file):
    table = read_table(file(ROWS))
    assert list(table.columns) == ["age", "town", "smokes"]
    assert is_number(table["age"]) and not is_number(table["town"])
    assert np.isnan(table["age"].iloc[2])
    assert table.index.name == "line" and table.index.tolist() == [2, 3, 4]


@pytest.mark.parametrize(
    ("content", "name", "options"),
    [
        (ROWS.replace("\n", "\r\n").encode(), "crlf.csv", {}),
        (ROWS.replace("\n", "\r").encode(), "old_mac.csv", {}),
        (b"\xef\xbb\xbf" + ROWS.encode(), "mark.csv", {}),
        (ROWS.encode("utf-16"), "utf16.csv", {}),
        (ROWS.encode("cp1252"), "windows.csv", {"encoding": "cp1252"}),
        (ROWS.replace(",", ";").encode(), "semicolons.csv", {}),
        (ROWS.replace(",", "\t").encode(), "tabs.tsv", {}),
        (ROWS.replace(",", "|").encode(), "bars.txt", {}),
        (ROWS.replace(",", ", ").encode(), "spaces.csv", {}),
        (ROWS.replace(",Bonn", ',"Bonn"').encode(), "quotes.csv", {}),
        (gzip.compress(ROWS.encode()), "packed.csv.gz", {}),
        (ROWS.rstrip("\n").encode(), "no_last_line_end.csv", {}),
        (ROWS.replace("\n,", "\n?,").encode(), "question_mark.csv", {}),
        (ROWS.replace("\n,", "\nNA,").encode(), "na.csv", {}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_same_table_in_another_dress(file, content, name, options):
    assert same(read_table(file(content, name), **options), read_table(file(ROWS)))


@pytest.mark.parametrize("ending", ["parquet", "feather", "arrow"])
def test_columnar_files(file, tmp_path, ending):
    pytest.importorskip("pyarrow", reason="Parquet and Arrow files need pyarrow")
    table = read_table(file(ROWS)).reset_index(drop=True).assign(old=[True, False, True])
    path = tmp_path / f"data.{ending}"
    table.to_parquet(path) if ending == "parquet" else table.to_feather(path)
    read = read_table(path)
    assert read.index.name == "row" and read.index.tolist() == [1, 2, 3]
    assert read["age"].tolist()[:2] == [31, 42] and read["old"].tolist() == [
        "True",
        "False",
        "True",
    ]
    path.write_bytes(path.read_bytes()[:-20])
    assert ending in refusal(path)


def test_lines_are_those_of_the_file_where_records_span_several(file):
    table = read_table(file('a,b\n1,"two\nlines"\n\n2,x\n'))
    assert table.index.tolist() == [2, 5]
    assert table["b"].tolist() == ["two\nlines", "x"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"a,b\n", "no rows"),
        (b"a,b\n1,2\n3\n", "line 3: 1 fields where the header has 2; the first one missing is 'b'"),
        (b"a,b\n1,2\n3,4,5\n", "line 3: 3 fields where the header has 2"),
        (b"a,b,a\n1,2,3\n", "line 1: columns 1 and 3 are both called 'a'"),
        (b'a,b\n1,2\n3,"4\n', "line 3"),
        (b"a,b\n1,x\n2,caf\xe9\n", "line 3: byte 0xe9 is not utf-8"),
        (b"a,b\n1,\0\n", "line 2: there is a zero byte"),
        (b'a,b\n1,2\n3,"x\n5,6\n7,8\n', "line 3: unexpected end of data (is a quote"),
        (b"a,b\n1,2\ninf,4\n", "line 3, column 'a': the value is infinite"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_is_said_with_its_place(file, content, said):
    assert said in refusal(file(content))


def test_files_that_are_not_there_or_of_no_known_kind(file, tmp_path):
    assert "does not exist" in refusal(tmp_path / "none.csv")
    assert "is a folder" in refusal(tmp_path)
    assert ".xlsx" in refusal(file("a", "data.xlsx"))
    assert "not a known encoding" in refusal(file(ROWS), encoding="latin-x")
    assert "gzip" in refusal(file(gzip.compress(ROWS.encode())[:-12], "cut.csv.gz"))


def test_a_hundred_thousand_columns(file):
    names = ",".join(f"c{k}" for k in range(100_000))
    table = read_table(file(f"{names}\n{'1,' * 99_999}2\n{'3,' * 99_999}4\n"))
    assert table.shape == (2, 100_000) and table["c99999"].tolist() == [2, 4]


def test_truth_values_are_text_written_one_way(file):
    table = read_table(file("a,b,c\nTRUE,true,true\nFALSE,,no\nTRUE,false,False\n"))
    assert table["a"].tolist() == ["True", "False", "True"]
    assert table["b"].dropna().tolist() == ["True", "False"]
    assert table["c"].tolist() == ["True", "no", "False"]


def test_blanks_around_a_text_do_not_count(file):
    table = read_table(file('a,b\n"hi ",1\n hi,2\n"? ",3\n'))
    assert table["a"].tolist()[:2] == ["hi", "hi"] and table["a"].isna().tolist()[2]


def test_decimal_commas_are_read_where_commas_do_not_separate(file):
    table = read_table(file("a;b;c\n1,5;x;2\n-2,25;y;3\n"))
    assert table["a"].tolist() == [1.5, -2.25] and table["c"].tolist() == [2, 3]


def test_decimal_commas_change_no_other_column(file):
    table = read_table(file("a;b;c\n1,5;7;x\n2;;y\n"))
    assert table["a"].tolist() == [1.5, 2] and is_number(table["b"])
    mixed = read_table(file("a\tb\n1,5\t0.5\n2,5\t1.5\n", "mixed.tsv"))
    assert mixed["a"].tolist() == ["1,5", "2,5"] and mixed["b"].tolist() == [0.5, 1.5]


@pytest.mark.parametrize(
    ("content", "name", "values"),
    [
        ('a,b\n"1,234",x\n"-12,345,678.5",y\n999,z\n', "t.csv", [1234, -12345678.5, 999]),
        ("a\tb\n1,234\tx\n999\ty\n", "t.tsv", [1234, 999]),
        ("a;b\n1,234,567;x\n1,000;y\n", "t.csv", [1234567, 1000]),
        ("a;b\n1,234;0.5\n1,000;1.5\n", "t.csv", [1234, 1000]),
        ("a;b\n1,234;x\n1,000;y\n", "t.csv", [1.234, 1]),
        ('a,b\n"1,234",x\n,y\n', "t.csv", [1234, None]),
    ],
    ids=["quoted", "tabs", "surely", "points elsewhere", "semicolons", "missing"],
)
def test_digits_in_groups_are_numbers(file, content, name, values):
    read = read_table(file(content, name))["a"]
    assert is_number(read)
    assert read.dropna().tolist() == [value for value in values if value is not None]


@pytest.mark.parametrize("odd", ["12,34", "1,2345", "0,123", ",123", "1,234x"])
def test_other_commas_are_text(file, odd):
    assert read_table(file(f'a,b\n"{odd}",1\n"1,234",2\n'))["a"].tolist() == [odd, "1,234"]


def test_text_asked_for_keeps_leading_zeros(file):
    table = read_table(file("zip,n\n01067,1\n53111,2\n"), text=["zip", "absent"])
    assert table["zip"].tolist() == ["01067", "53111"]


def test_words_for_missing_values_are_texts_where_text_is_asked_for(file):
    path = file("a,b,c\nNone,NA,1\n,None,2\n?,x,3\n")
    table = read_table(path, text=["a"], levels=["b"])
    assert table["a"].iloc[0] == "None" and table["a"].isna().tolist() == [False, True, True]
    assert table["b"].isna().tolist() == [True, True, False]


def test_a_column_without_a_name_gets_its_number(file):
    assert list(read_table(file(",b\n1,2\n")).columns) == ["column 1", "b"]


@pytest.mark.parametrize(
    "value", ["2024-03-01", "2024-03-01 12:30", "1/3/2024", "01.03.24", "2024/03/01"]
)
def test_dates_are_recognised(file, value):
    table = read_table(file(f"when,n\n{value},1\n{value},2\n"))
    assert date_columns(table) == {"when": value}


def test_times_of_columnar_files_are_dates():
    table = pd.DataFrame({"t": pd.to_datetime(["2024-01-01"]), "s": pd.to_timedelta(["1h"])})
    assert set(date_columns(table)) == {"t", "s"}


def test_numbers_and_words_are_no_dates(file):
    assert date_columns(read_table(file("a,b,c\n1.5,x-1,1/2\n2.5,y-2,3/4\n"))) == {}


def test_a_text_among_numbers_is_found(file):
    rows = "\n".join(["n", *map(str, range(9)), "unknown"])
    assert stray_text(read_table(file(f"{rows}\n"))["n"]) == 9
    assert stray_text(pd.Series(["a", "1", "b"])) is None
    assert stray_text(pd.Series([1.0, 2.0])) is None


COLUMNS = [Column("age", "number", 0, (0.0, 9.0)), Column("town", "text", 0, (2.0,))]


def test_columns_are_matched_by_name_in_any_order(file):
    table = match(read_table(file("town,other,age\nBonn,1,31\n")), COLUMNS, "new.csv")
    assert list(table.columns) == ["age", "town"] and table.iloc[0].tolist() == [31, "Bonn"]


def test_a_text_column_that_now_looks_like_numbers_stays_text(file):
    table = match(read_table(file("age,town\n31,7\n")), COLUMNS, "new.csv")
    assert table["town"].tolist() == ["7"]


def test_a_column_that_is_empty_now_is_missing(file):
    table = match(read_table(file("age,town\n,\n,Bonn\n")), COLUMNS, "new.csv")
    assert table["age"].isna().all() and table["town"].isna().tolist() == [True, False]


def test_missing_columns_and_text_for_numbers_are_refused(file):
    with pytest.raises(TableError, match=r"new.csv lacks 1 of the 2 columns.*'town'"):
        match(read_table(file("age\n1\n")), COLUMNS, "new.csv")
    with pytest.raises(TableError, match=r"new.csv, line 3, column 'age': 'old' is not a number"):
        match(read_table(file("age,town\n1,a\nold,b\n")), COLUMNS, "new.csv")
