"""The modules that pages become for mypy; the gate checks them."""

import ast

import pytest
from type_pages import PAGES, module_of, name_of

PAGE = """# Title

```python
x = 1
```

```text
no code
```

```python
y: int = x
```
"""


def test_blocks_keep_their_lines():
    assert module_of(PAGE).splitlines() == ["", "", "", "x = 1", *[""] * 7, "y: int = x", ""]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_page_is_a_module(page):
    ast.parse(module_of(page.read_text(encoding="utf-8")))
    assert name_of(page).isidentifier()
