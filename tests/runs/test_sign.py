"""A new rule of digests: what was fresh stays fresh, what was stale stays stale, nothing is recomputed."""

import json
import subprocess

import pytest

from tests.runs.test_verify import DRAWS, RUN, change, records, stale, verification

RULE = ("src/companion/runs/digest.py", "parts = [self", 'parts = ["as it was", self')
CHANGES = ({"code": "0" * 64}, {"data": {"name": "digits", "sha256": "0" * 64}}, {})
OF = "sha = hashlib.sha256({})\n    for key"
DATA = ("src/alignbook/data/images.py", OF.format(""), OF.format('b"as it was"'))


@pytest.fixture
def older(checkout):
    """A checkout whose quick results were stored and committed under another rule for code and data."""
    text = checkout.experiment.read_text().replace('"label": label', '"dataset": "digits", "label": label')
    checkout.experiment.write_text(text.replace("def compute(*,", "def compute(*, dataset,"))
    new = {path: (checkout.root / path).read_text() for path, _, _ in (RULE, DATA)}
    for path, old, instead in (RULE, DATA):
        assert new[path].count(old) == 1
        (checkout.root / path).write_text(new[path].replace(old, instead))
    checkout.run(*RUN)
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for arguments in (["init", "-q"], ["add", "src", "notebooks"], [*who, "commit", "-qm", "as it was"]):
        subprocess.run(["git", *arguments], cwd=checkout.root, check=True, capture_output=True)
    checkout.to_the_new_rule = lambda: [(checkout.root / path).write_text(text) for path, text in new.items()]
    return checkout


def provenance(checkout):
    return {path.name: json.loads(path.read_text()) for path in checkout.results.glob("toy/*/plain-*.json")}


def signed(checkout):
    status, out, err = checkout.run("sign", "--base", "HEAD", "--json")
    assert status == 0, err
    return json.loads(out)


def test_what_was_fresh_is_fresh_under_the_new_rule_and_says_so(older):
    before = provenance(older)
    older.to_the_new_rule()
    assert stale(older) == {"quick": 3}
    found = signed(older)
    assert found == {"signed": 3, "entries": 0, "stale": 0, "without_data": []}
    assert stale(older) == {"quick": 0}
    for name, record in provenance(older).items():
        old, (signature,) = before[name], record.pop("signed")
        assert (signature["code"], signature["data"]) == (old["code"], old["data"]["sha256"])
        assert record.pop("code") != old.pop("code") and record.pop("data") != old.pop("data")
        assert len(signature["rule"]) == 12 and signature["date"] and record == old
    assert signed(older)["signed"] == 0  # once is enough


def test_what_was_stale_stays_stale(older):
    places = sorted(older.results.glob("toy/fig99_toy/plain-*.json"))
    for place, change_ in zip(places, CHANGES, strict=True):
        place.write_text(json.dumps(json.loads(place.read_text()) | change_))
    older.to_the_new_rule()
    assert signed(older)["stale"] == 2 and stale(older) == {"quick": 2}


def test_code_that_has_changed_since_is_not_vouched_for(older):
    older.to_the_new_rule()
    change(older, f"1.01 * {DRAWS}")
    assert signed(older)["stale"] == 3


def test_what_only_the_old_rule_counted_may_have_changed_since(older):
    """The rule of the commit differs between its sources and today's, today's rule does not."""
    rule = older.root / RULE[0]
    text = rule.read_text()
    counted = text.replace("_UNSEEN = {", "_UNSEEN = set() and {")
    rule.write_text(counted)  # here: the kind of a text, u"…"
    assert counted != text
    older.run(*RUN, "--recompute", "all")
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", *who, "commit", "-qam", "counts more"], cwd=older.root, check=True)
    older.to_the_new_rule()
    change(older, '{"step": [0, 1, 2], u"value"', '{"step": [0, 1, 2], "value"')
    assert signed(older)["stale"] == 0 and stale(older) == {"quick": 0}


def test_records_of_verification_are_carried_over(older):
    change(older, f"1 * {DRAWS}")
    assert verification(older)[1]["verified"] == 3
    before = records(older)
    older.to_the_new_rule()
    change(older, DRAWS, f"1 * {DRAWS}")  # back: the code that the records lead from
    assert signed(older)["entries"] == len(before) > 0
    for old, new in zip(before, records(older), strict=True):
        assert new["from"] != old["from"]
        assert new == old | {end: new[end] for end in ("from", "to")}
    assert stale(older) == {"quick": 0}


def test_a_base_that_is_no_commit_is_told(older):
    assert older.run("sign", "--base", "nothing") == (2, "", "alignbook: git: nothing is no commit\n")
