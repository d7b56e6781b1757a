"""Appendix D: traces and steps against matrices, verdicts on made-up tables."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED
from alignbook.kernels.mlp_sgd import MLP
from alignbook.metrics.tangent_alignment import tangent_alignment
from alignbook.runs import notebooks, parameters
from alignbook.statements import judged
from alignbook.studies.signal_propagation import tangent_step
from alignbook.studies.signal_propagation.appD_feature_evolution import experiment, reading
from alignbook.studies.signal_propagation.dense import centred_labels, error_signal
from tests import judging

PARAMETERS = {"learning_rate": 0.003, "shorter": [1.0, 10000.0], "examples": 256}
X = torch.randn(12, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
Y = torch.arange(12) % 10


def network(depth=3, width=4):
    return MLP(5, width, depth, 10, torch.Generator().manual_seed(2), dtype=torch.float64).sequential()


def hessian(net, v):
    product = tangent_step.product(net, X, v)
    return torch.stack([product(e) for e in torch.eye(product.size, dtype=torch.float64)])


def test_traces_are_those_of_the_matrix():
    net = network()
    with torch.no_grad():
        w = error_signal(net(X), Y)
    matrix = hessian(net, w)
    torch.manual_seed(0)
    ratios, vectors, signs = experiment.moments(net.float(), X.float(), Y, 8, 300, 0)
    sizes = [p.numel() for p in net.parameters()]
    powers = [
        torch.stack([part.sum() for part in torch.linalg.matrix_power(matrix, m).diagonal().split(sizes)])
        for m in (2, 3, 4)
    ]
    third, fourth = powers[1] / powers[0], powers[2] / powers[0]
    assert ((ratios[0] - third).abs() < 4 * ratios[2] + 1e-3).all()
    torch.testing.assert_close(ratios[1], fourth, rtol=0.1, atol=0)
    of_vectors = (vectors @ matrix * vectors).sum(1)
    assert (of_vectors.sign() == signs).all() and vectors.shape == (8, sum(sizes))


def test_steps_against_formulas():
    net, rate = network(), 1e-7
    others = {kind: experiment.orthogonal(Y, kind, 3, 0) for kind in experiment.KINDS}
    target = centred_labels(Y).double()
    for u in torch.cat(list(others.values())):
        assert abs(float((u * target).sum())) < 1e-9 and float(u.norm()) == pytest.approx(
            float(target.norm())
        )
    traces = torch.tensor([[1.0, 2, 3], [4, 5, 6], [0, 0, 0]], dtype=torch.float64)
    theta = tangent_step.flat(net)
    *rows, ((_, before, after),) = _flattened(experiment.evolution(net, X, Y, others, [rate], traces))
    torch.testing.assert_close(tangent_step.flat(net), theta)  # left as it was
    with torch.no_grad():
        w = error_signal(net(X), Y)
    descent = tangent_step.gradient(net, X, w)
    torch.testing.assert_close(after - before, -rate * hessian(net, target) @ descent, rtol=1e-3, atol=1e-12)
    step = rows[1]
    for kind, several in others.items():
        lengths = [float((hessian(net, u) @ descent).square().sum()) for u in several]
        expected = np.sqrt(np.mean(lengths)) / float((hessian(net, target) @ descent).norm())
        assert step[f"moved_{kind}"] == pytest.approx(expected, rel=1e-3)
    layers = pd.DataFrame(rows[2:])
    assert layers["by_25"].tolist() == pytest.approx([-2 * rate * n for n in (1, 2, 3)], rel=1e-5)
    moved = experiment.squares(net, before - rate * hessian(net, w) @ before) / experiment.squares(
        net, before
    )
    assert layers["by_23"].tolist() == pytest.approx(moved - 1, rel=1e-5)
    tangent_step.put(net, theta - rate * descent)
    grown = tangent_alignment(net, X, Y) / layers["alignment"] - 1
    assert layers["growth"].tolist() == pytest.approx(grown.tolist())


def _flattened(found):
    return [*found[:-1], found[-1]]


def test_steps_that_are_looked_at():
    assert experiment.steps_to_look_at(391, 6) == [0, 1, 4, 20, 88, 391]
    assert experiment.steps_to_look_at(2, 3) == [0, 1, 2]


def made_up(
    order=1, moved=0.0, grown=0.0, label=1.0, gain=(1.0, -1.0), factor=1.0, fourth=0.1, seeds=7, unsure=0.0
):
    rng, rows = np.random.default_rng(0), []
    for seed in range(seeds):
        for step in (0, 10, 100):
            here, wobble = {"seed": seed, "step": step, "epoch": step / 100}, 1 + 1e-2 * rng.standard_normal()
            kernel = {
                "label": 2 ** (label * step / 100 * wobble),
                "random": 2 ** (grown * step / 100) * wobble,
            }
            rows.append({"kind": "state", **here, **kernel, "shuffled": kernel["random"]})
            for rate in reading.rates(PARAMETERS):
                moves = {f"moved_{kind}": moved + 0.01 * rng.random() for kind in reading.KINDS}
                rows.append({"kind": "step", "rate": rate, **here, **moves, "cosine": 0.5})
                for layer in range(1, 7):
                    odd = 1 + 2 * (seed == 0 and layer == 3)  # that ranks have a spread
                    ratio = -0.1 * layer
                    growth = -2 * rate * ratio * factor if order > 0 else 2 * rate * (ratio + 0.7)
                    if order == 0:
                        growth = rate * (3, 1, 4, 1.5, 5, 2)[(layer + 5 * seed + step) % 6]
                    row = {"alignment": 0.01, "growth": growth * odd, "third": ratio, "unsure": unsure}
                    row["by_25"] = -2 * rate * ratio * (1 + fourth * wobble)
                    rows.append({"kind": "layer", "rate": rate, "layer": layer, **here, **row})
                for sign, value in zip((-1, 1), gain, strict=True):
                    new = 1 + 2 * rate * value * wobble
                    rows.append({"kind": "pair", "rate": rate, "sign": sign, **here, "old": 1.0, "new": new})
    return pd.DataFrame(rows)


claims, outcomes, said = judging.of(reading, PARAMETERS)


def test_claims_hold():
    found = outcomes(made_up())
    printed = [found.pop(id) for id in list(found) if "printed-size" in id]
    assert printed == [CONTRADICTED] * 3 and set(found.values()) == {HOLDS} and len(found) == 19
    assert said(made_up()).startswith("In very short steps, layers gain alignment in the order of the Hess")
    assert "right angles" not in said(made_up()) and "longer ones" not in said(made_up())
    heads = [id for id, claim in claims(made_up()).items() if claim.headline]
    assert heads == ["hierarchy-short"]  # where first order, from which (25) is derived, can hold
    tiny = made_up(factor=100.0)  # the measured change is as large as what is printed
    assert outcomes(tiny)["printed-size-rate"] == HOLDS and outcomes(tiny)["factor-size-rate"] == CONTRADICTED


def test_one_step_in_which_a_relu_switched_does_not_decide_the_median():
    table = made_up()
    odd = (table["kind"] == "pair") & (table["step"] == 10) & (table["rate"] < 1e-6)
    table.loc[odd, "new"] -= 1e-2 * table["sign"] * -1 * (1 + table["seed"] % 3)
    assert outcomes(table)["negative-short"] == CONTRADICTED
    claim = claims(table)["typical-negative"]
    assert claim.outcome == HOLDS and claim.seeds == 4 and claim.measured == pytest.approx(1, abs=0.05)
    early = claims(table[table["seed"] < 3])["typical-negative"]
    assert early.outcome == NOT_JUDGED and early.measured is not None


def test_claims_are_contradicted():
    table = made_up(-1, moved=0.9, grown=0.8, label=-1, gain=(-1, 1), fourth=3)
    found = outcomes(table)
    sizes = {id for id in found if "size" in id}
    assert {outcome for id, outcome in found.items() if id not in sizes} == {CONTRADICTED}
    assert "against the order" in said(
        table
    ) and "labels move, too, which the paper's model rules out" in said(table)
    mixed = claims(table) | {"hierarchy-rate": claims(made_up())["hierarchy-rate"]}
    assert "; that order shows in training's longer ones (0." in reading.finding(table, PARAMETERS, mixed)


def test_other_verdicts():
    nothing = pd.DataFrame({"unit": []})
    assert "No network" in said(nothing)
    few = made_up(seeds=2)
    assert outcomes(few)["hierarchy-short"] == UNDECIDED and "undecided" in said(few)
    none = made_up(0, moved=0.9, seeds=24)
    assert outcomes(none)["hierarchy-short"] == ABSENT and "moments do not order the layers" in said(none)
    noisy = made_up(0, moved=0.9, seeds=24, unsure=0.33)
    assert outcomes(noisy)["hierarchy-short"] == UNDECIDED
    assert "with the errors of our estimates, even an exact order would correlate by only" in said(noisy)
    assert len(reading.key_numbers(made_up(), PARAMETERS)) == 3
    assert max(map(len, (said(none), said(made_up(-1, moved=0.9)), said(few)))) <= 300
    known = claims(made_up(-1, moved=0.9))
    for one, other in itertools.product((HOLDS, CONTRADICTED, ABSENT, UNDECIDED), repeat=2):
        turned = {"hierarchy-short": one, "hierarchy-rate": other}
        turned = {id: replace(known[id], outcome=outcome, measured=-0.2) for id, outcome in turned.items()}
        assert len(reading.finding(few, PARAMETERS, known | turned)) <= 300


def test_a_rank_correlation_is_held_against_what_errors_leave_of_an_exact_one():
    short = reading.rates(PARAMETERS)[-1]
    assert reading.if_exact(made_up(), short) == pytest.approx(1)  # no errors
    mild, strong = (reading.if_exact(made_up(unsure=error, seeds=40), short) for error in (0.1, 0.3))
    assert 0.2 < strong < mild - 0.2 < 0.8
    # Errors drawn as they are in a table: its exact order reads as if_exact says.
    table, rng = made_up(seeds=200), np.random.default_rng(3)
    errors = 0.2 * rng.standard_normal(len(table))
    table = table.assign(third=table["third"] + errors, by_25=table["by_25"] - 2 * table["rate"] * errors)
    table["unsure"] = 0.2
    read, exact = reading.ranks(table, short).mean(), reading.if_exact(table, short)
    assert exact == pytest.approx(read, abs=0.1)
    (of_one,) = {reading.if_exact(table, short), exact}  # the generator is fixed
    beside = reading.beside_exact(table, PARAMETERS, short)
    assert beside.mean() == pytest.approx(read / of_one)
    # The spread over seeds is that of r - R e, over the mean of e: the divisor's error is in it.
    ranks, spoilt = reading.ranks(table, short), reading.exact_ranks(table, short)
    assert spoilt.mean() == pytest.approx(of_one) and len(beside) == len(spoilt) == 200
    assert beside.std() == pytest.approx((ranks - read / of_one * spoilt).std() / of_one)


def test_errors_of_the_traces_are_no_size():
    table, short = made_up(seeds=30), reading.rates(PARAMETERS)[-1]
    clean = reading.size(table, short, "factor").mean()
    errors = 0.4 * np.random.default_rng(3).standard_normal(len(table))
    noisy = table.assign(third=table["third"] + errors, by_25=table["by_25"] - 2 * table["rate"] * errors)
    noisy["unsure"] = 0.4
    assert reading.size(noisy, short, "factor").mean() == pytest.approx(clean, abs=0.05)
    assert reading.size(noisy.assign(unsure=0.0), short, "factor").mean() > clean + 0.1


def test_smoke_job_gives_what_is_read():
    book = notebooks.find("signal_propagation/appD_feature_evolution")
    values = parameters.resolve(book, "smoke")
    run = {"device": torch.device("cpu"), "report": lambda *_: None}
    table = experiment.jobs(values)[0].compute(**experiment.jobs(values)[0].arguments, **run).assign(seed=0)
    assert NOT_RUN not in {claim.outcome for claim in judged(reading.STATEMENTS, table, values)}
    assert sorted(table["step"].unique()) == [0, 1, 2]
