"""Cells and tables as HTML."""

import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text
from scipy import stats

from companion.pages.names import speak
from companion.pages.tables import interval, marked, measured, number, numbers, typeset


@pytest.mark.parametrize(
    ("plain", "shown"),
    [
        ("l^-2", "l<sup>−2</sup>"),
        ("L^(3/5)", "L<sup>3/5</sup>"),
        ("c_l", "c<sub>l</sub>"),
        ("σ_max^2", "σ<sub>max</sub><sup>2</sup>"),
        ("I^f_l(x)", "I<sup>f</sup><sub>l</sub>(x)"),
        ("(L/l)^-3 (ε)", "(L/l)<sup>−3</sup> (ε)"),
    ],
)
def test_powers_and_indices(plain, shown):
    assert marked("L^1.5 or") == '<span class="ab-letter">L<sup>1.5</sup></span> or'
    bare = marked(plain).replace('<span class="ab-letter">', "").replace("</span>", "")
    assert bare == shown


@pytest.mark.parametrize(
    ("plain", "shown"),
    [
        ("-0.0 (-0.6 to -0) and -0.05", "0.0 (−0.6 to 0) and −0.05"),
        ("5 % of (1 to 2) %", "5\u00a0% of (1 to 2)\u00a0%"),
        ("-7.32e-05 (-1 to 3)", "−7.32\u00a0×\u00a010<sup>−5</sup> (−1 to 3)"),
        ("0.0e+00 and 2e+10", "0 and 2\u00a0×\u00a010<sup>10</sup>"),
        ("4 jobs, 31136e151277", "4 jobs, 31136e151277"),  # the name of a commit
        ("Office-31, 10-20, (x)^-3, 3e, c1e-3, 2019-05", "Office-31, 10-20, (x)^-3, 3e, c1e-3, 2019-05"),
    ],
)
def test_numbers_are_set_as_by_hand(plain, shown):
    assert typeset(plain) == shown


def test_data_sets_have_their_names():
    assert marked("cifar10-natural and fashion_mnist, on mnist.") == (
        "animals of CIFAR-10 and Fashion-MNIST, on MNIST."
    )
    figure, ax = plt.subplots()
    ax.plot([0, 1], label="cifar100")
    ax.legend()
    ax.set(title="on mnist")
    ax.set_xticks([0, 1], ["cifar10", "mine"])
    speak(figure)
    figure.draw_without_rendering()
    said = {text.get_text() for text in figure.findobj(Text)}
    plt.close(figure)
    assert {"CIFAR-100", "on MNIST", "CIFAR-10", "mine"} <= said


def test_text_cannot_become_tags():
    assert marked("a < b & <i>") == "a &lt; b &amp; &lt;i&gt;"
    assert number("<b>") == "&lt;b&gt;" and number(None) == "" and number(-0.123456) == "−0.123"


def test_interval_of_a_mean():
    half = stats.t.ppf(0.975, 3) * np.std([1, 2, 3, 6], ddof=1) / 2
    assert interval([1, 2, 3, 6], "{:+.1f}") == f"+3.0 ({3 - half:+.1f} to {3 + half:+.1f})"
    assert interval([2.0, 4.0]) == "3.00" and interval([2, 2, 2]) == "2.00" and interval([]) == "–"


def test_interval_of_what_is_bounded():
    assert interval([0.0, 0.01, 0.05], "{:.2f}") == "0.02 (-0.05 to 0.09)"
    assert interval([0.0, 0.01, 0.05], "{:.2f}", within=(0, 1)) == "0.02 (0.00 to 0.09)"
    assert interval([99, 100, 98], "{:.0f}", within=(0, 100)) == "99 (97 to 100)"


@pytest.mark.parametrize(
    ("value", "ends", "bars", "shown"),
    [
        (4.1734, (-3.3912, 11.712), (), ["4.2", "−3.4", "11.7"]),
        (0.9951, (0.99264, 0.99761), (0.5,), ["0.995", "0.993", "0.998"]),
        (1234.2, (1210.0, 1260.0), (), ["1,234", "1,210", "1,260"]),
        (0.021, (-0.00032, 0.0422), (), ["0.0210", "−0.0003", "0.0422"]),  # not 0.000, which would decide it
        (0.53, (0.50004, 0.56), (0.5, None), ["0.53000", "0.50004", "0.56000"]),
        (2e-5, (-1.7e-5, 5.8e-5), (), [number(2e-5), number(-1.7e-5), number(5.8e-5)]),
        (2.0, (2.0, 2.0), (), ["2", "2", "2"]),
        (0.3, (0.1, np.inf), (), ["0.3", "0.1", "inf"]),
    ],
)
def test_a_value_and_its_interval_have_the_same_decimals(value, ends, bars, shown):
    assert measured(value, ends, bars) == shown


def test_numbers_of_counted_rows():
    frame = pd.DataFrame({"c_l": ["x < 1", None], "n": [3, 4], "ok": [True, False], "r": [0.12345, np.nan]})
    text = numbers(frame).data
    assert "c<sub>l</sub>" in text and "<th>0</th>" not in text
    cells = re.findall("<td>(.*?)</td>", text)
    assert cells == ["x &lt; 1", "3", "yes", "0.123", "–", "4", "no", "–"]
