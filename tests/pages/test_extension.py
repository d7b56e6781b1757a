"""What the book does to a page's text beyond Jupyter Book."""

from alignbook.pages.extension import keep_numbers, keep_punctuation


def test_punctuation_stays_with_the_formula_before_it():
    formula = '<span class="math notranslate nohighlight">\\(a &lt; b\\)</span>'
    context = {"body": f"<p>If {formula}, all of {formula} holds ({formula}).</p>"}
    keep_punctuation(None, "page", "page.html", context, None)
    kept = f'<span class="ab-formula">{formula}'
    assert context["body"] == f"<p>If {kept},</span> all of {formula} holds ({kept}).</span></p>"


def test_a_number_keeps_its_sign_in_the_line():
    context = {"body": '<p title="5 %">90 % of <code>5 % 2</code>, 3 ± 1</p>'}
    keep_numbers(None, "page", "page.html", context, None)
    assert context["body"] == '<p title="5 %">90\u00a0% of <code>5 % 2</code>, 3 ±\u00a01</p>'
