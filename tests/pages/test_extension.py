"""What the book does to a page's text beyond Jupyter Book."""

from companion.pages.extension import keep_numbers, keep_punctuation


def test_brackets_and_punctuation_stay_with_their_formula():
    formula = '<span class="math notranslate nohighlight">\\(a &lt; b\\)</span>'
    context = {"body": f"<p>If {formula}, all of {formula} holds ({formula}).</p>"}
    keep_punctuation(None, "page", "page.html", context, None)
    kept = '<span class="ab-formula">'
    first, last = f"{kept}{formula},</span>", f"{kept}({formula}).</span>"
    assert context["body"] == f"<p>If {first} all of {formula} holds {last}</p>"


def test_a_number_keeps_its_sign_in_the_line():
    context = {"body": '<p title="5 %">90 % of <code>5 % 2</code>, 3 ± 1</p>'}
    keep_numbers(None, "page", "page.html", context, None)
    assert context["body"] == '<p title="5 %">90\u00a0% of <code>5 % 2</code>, 3 ±\u00a01</p>'
