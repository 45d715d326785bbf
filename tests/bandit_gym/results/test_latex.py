import dataclasses

import pytest

from bandit_gym.results.latex import escape, write_latex


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a_b $x^2$ 5 %", r"a\_b \$x\textasciicircum{}2\$ 5 \%"),
        ("#1 {c} & ~", r"\#1 \{c\} \& \textasciitilde{}"),
        ("\\input{x}", r"\textbackslash{}input\{x\}"),
        ("<script>", r"\textless{}script\textgreater{}"),
        ("--- `'", r"-{}-{}- \textasciigrave{}\textquotesingle{}"),
        ("[/red] |", r"{[}/red{]} \textbar{}"),
        ("אב", "אב"),
    ],
)
def test_latex_shows_text_as_it_is(text, written):
    assert escape(text) == written


def test_tables_have_the_rules_of_booktabs_and_a_row_an_agent(results):
    text = write_latex(results)
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 3  # two worlds, and all
    for rule in ("toprule", "midrule", "bottomrule"):
        assert text.count(f"\\{rule}") == 3
    rows = [line for line in text.splitlines() if line.startswith("best & ")]
    assert rows[0].startswith(
        r"best & 0.0 $\pm$ 0.0 & $-$35.0 $\pm$ 0.0 & \textless{}0.001 & better"
    )
    assert len(rows) == 3


def test_every_row_has_as_many_cells_as_columns(results):
    for table in write_latex(results).split(r"\begin{tabular}{")[1:]:
        columns = table.partition("}")[0]
        rows = [line for line in table.splitlines() if line.endswith(r"\\")]
        assert {line.count(" & ") for line in rows} == {len(columns) - 1}


def test_results_that_were_kept_say_so(results):
    assert "kept all the same: a" in write_latex(dataclasses.replace(results, kept="a"))
