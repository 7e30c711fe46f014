"""What the model learns of tables, columns and tensors, and what it does not."""

from __future__ import annotations

import pytest

from kin_nb.notebook.namespace import variables as looking


class TestTables:
    @pytest.fixture(autouse=True)
    def frame(self, shell):
        pandas = pytest.importorskip("pandas")
        data = {"city": ["Bonn", "Köln", None], "n": [1, 2, 3], "api_token": ["hunter2"] * 3}
        shell.user_ns["df"] = pandas.DataFrame(data)
        shell.user_ns["s"] = shell.user_ns["df"]["n"]

    def test_a_table_is_its_columns_types_missing_values_and_index(self, told):
        text = told("variables", names=["df"])
        assert "(3 x 3, " in text
        assert "  n: int64" in text
        assert "missing: city 1" in text
        assert "index: RangeIndex, int64" in text
        assert "Bonn" not in text

    def test_its_first_rows_come_only_when_asked_for_and_without_secret_columns(self, told):
        text = told("variables", names=["df"], values=True)
        assert "Bonn" in text
        assert "hunter2" not in text
        assert "[not shown: api_token]" in text

    @pytest.mark.parametrize(
        "code",
        [
            "df['password']",
            "df.iloc[0]",
            "df.T",
            "df.set_index('password')",
            "pandas.concat({'x': df}, axis=1)",
            "pandas.DataFrame({'key': ['password'], 'value': ['hunter2-Zq8']})",
            "df.to_records()",
        ],
    )
    def test_what_a_secret_column_becomes_is_not_shown_either(self, shell, told, code):
        shell.run_cell("import pandas\ndf = pandas.DataFrame({'user': ['ann'], 'password': ['hunter2-Zq8']})")
        shell.run_cell(f"found = {code}")
        assert "hunter2" not in told("variables", names=["found"], values=True)

    def test_a_series_is_its_type_and_name(self, told):
        text = told("variables", names=["s"])
        assert "dtype int64, name n" in text
        assert "missing: 0" in text

    def test_an_array_is_its_shape_and_type(self, shell, told):
        numpy = pytest.importorskip("numpy")
        shell.user_ns["a"] = numpy.zeros((3, 4))
        text = told("variables", names=["a"])
        assert text == "a: numpy.ndarray (3 x 4, 96 B)\ndtype float64"

    @pytest.mark.parametrize("values", [False, True])
    def test_labels_that_stood_in_a_secret_column_are_not_shown(self, shell, told, values):
        shell.run_cell("found = df.set_index('api_token').T")
        text = told("variables", names=["found"], values=values)
        assert "3 columns:" in text
        assert "hunter2" not in text

    @pytest.mark.parametrize("values", [False, True])
    def test_labels_that_look_like_secrets_are_not_shown(self, shell, told, values):
        key = "sk-" + "abcd1234" * 20
        shell.user_ns["found"] = shell.user_ns["df"].rename(columns={"city": key, "n": "DB_PASSWORD=hunter2"})
        shell.user_ns["keys"] = {key: 1, "password=hunter2": 2}
        text = told("variables", names=["found", "keys"], values=values)
        assert "  [secret]: " in text
        assert "  DB_PASSWORD=[secret]: int64" in text
        assert "abcd" not in text
        assert "hunter2" not in text

    def test_of_a_table_whose_labels_are_data_few_are_shown(self, shell, told):
        pandas = pytest.importorskip("pandas")
        shell.user_ns["wide"] = pandas.DataFrame({f"id-{n}": [n, None] for n in range(5_000)})
        text = told("variables", names=["wide"])
        assert "5,000 columns:" in text
        assert "  id-9: float64\n  … 4,990 more columns" in text
        assert len(text) < 600


class TestTablesOfOthers:
    """polars and pyarrow: schema and missing values; rows only when asked for, and without what is secret by name."""

    DATA = {"city": ["Bonn", "Köln", None], "n": [1, 2, 3], "api_token": ["hunter2"] * 3}  # noqa: RUF012

    @pytest.fixture(params=["polars.DataFrame", "pyarrow.table", "pyarrow.RecordBatch.from_pydict"])
    def frame(self, request, shell) -> str:
        """A variable `df`; the type that its whole numbers have."""
        module, *names = request.param.split(".")
        make = pytest.importorskip(module)
        for name in names:
            make = getattr(make, name)
        shell.user_ns["df"] = make(self.DATA)
        return "Int64" if module == "polars" else "int64"

    def test_a_frame_is_its_columns_types_and_missing_values(self, told, frame):
        text = told("variables", names=["df"])
        assert "(3 x 3, " in text
        assert "3 columns:\n  city: " in text
        assert f"  n: {frame}" in text
        assert text.endswith("missing: city 1")

    @pytest.mark.usefixtures("frame")
    def test_its_rows_come_only_when_asked_for_and_without_secrets(self, told):
        text = told("variables", names=["df"], values=True)
        assert "{'api_token': [secret], 'city': 'Bonn', 'n': 1}" in text
        assert "hunter2" not in text

    @pytest.mark.parametrize("kind", ["Table", "RecordBatch"])
    def test_columns_of_one_name_are_all_shown_and_a_secret_one_is_secret_each_time(self, shell, told, kind):
        pyarrow = pytest.importorskip("pyarrow")
        arrays = [pyarrow.array([value]) for value in (1, 2, "hunter2", "hunter3")]
        names = ["a", "a", "key", "key"]
        shell.user_ns["df"] = getattr(pyarrow, kind).from_arrays(arrays, names=names)
        text = told("variables", names=["df"], values=True)
        assert "4 columns:" in text
        assert "{'a': 1, ('a', 2): 2, 'key': [secret], ('key', [secret]): [secret]}" in text
        assert "hunter" not in text

    @pytest.mark.usefixtures("frame")
    def test_a_row_that_names_a_secret_is_only_named(self, shell, told):
        kind = type(shell.user_ns["df"])
        shell.user_ns["df"] = getattr(kind, "from_pydict", kind)(
            {"name": ["host", "password"], "value": ["db", "hunter2"]}
        )
        text = told("variables", names=["df"], values=True)
        assert "{'name': 'host', 'value': 'db'}\n[not shown: row 1]" in text
        assert "hunter2" not in text

    def test_the_source_of_a_lazy_frame_is_not_opened_to_look_at_it(self, shell, told, tmp_path):
        """Opening may ask a server that never answers, and nothing can interrupt it; here it would raise."""
        polars = pytest.importorskip("polars")
        lf = polars.scan_parquet(tmp_path / "gone.parquet")
        with pytest.raises(FileNotFoundError):
            lf.collect_schema()
        shell.user_ns.update(lf=lf, several=[lf])
        text = told("variables", names=["lf", "several"], values=True)
        assert "lazy: its columns are known when it is collected\nvalue:\n<lazy frame>" in text
        assert text.endswith("value:\n[<lazy frame>]")
        assert "raised" not in text
        assert looking.label("lf", lf).startswith("lf (lazy, ")

    @pytest.mark.parametrize("made", ["polars.Series", "pyarrow.array", "pyarrow.chunked_array"])
    def test_a_column_is_its_type_and_missing_values(self, shell, told, made):
        module, name = made.split(".")
        values = [1, None, 3]
        shell.user_ns["s"] = getattr(pytest.importorskip(module), name)([values] if "chunked" in made else values)
        text = told("variables", names=["s"])
        assert "dtype int64" in text.lower()
        assert text.endswith("missing: 1")
        assert told("variables", names=["s"], values=True).endswith("value:\n1\nNone\n3")

    @pytest.mark.usefixtures("frame")
    def test_a_card_says_how_many_columns(self, shell):
        assert looking.label("df", shell.user_ns["df"]).startswith("df (3 columns, ")


def test_a_tensor_is_its_shape_type_and_device(shell, told):
    shell.run_cell(
        "class Size(tuple): pass\nclass Tensor:\n    shape, dtype, device = Size((3, 4)), 'torch.float32', 'cuda:0'\n"
        "    nbytes = 48\n    def __len__(self): raise RuntimeError\nt = Tensor()"
    )
    assert told("variables", names=["t"]) == "t: Tensor (3 x 4, 48 B)\ndtype torch.float32, device cuda:0"
