"""Appendix C: steps and kernels against Jacobians, verdicts on made-up tables."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch.nn import functional

from alignbook.claims import ABSENT, CONTRADICTED, HOLDS, NOT_JUDGED, NOT_RUN, UNDECIDED
from alignbook.kernels.mlp_sgd import MLP
from alignbook.metrics.tangent_alignment import tangent_alignment
from alignbook.runs import notebooks, parameters
from alignbook.statements import judged
from alignbook.studies.signal_propagation.appC_freezing import experiment, reading
from alignbook.studies.signal_propagation.dense import centred_labels, error_signal
from tests import judging

PARAMETERS = {"datasets": ["mnist"], "images": 300}
RUN = {"device": torch.device("cpu"), "report": lambda *_: None}
X = torch.randn(20, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
Y = torch.arange(20) % 10


def network(depth=3, width=6):
    return MLP(7, width, depth, 10, torch.Generator().manual_seed(2), dtype=torch.float64).sequential()


def kernels(net):
    """K_l as matrices (nk, nk), from autograd's Jacobians."""
    names = [name for name, _ in net.named_parameters()]
    weights = tuple(p.detach() for p in net.parameters())

    def outputs(*weights):
        return torch.func.functional_call(net, dict(zip(names, weights, strict=True)), X).flatten()

    jacobians = torch.autograd.functional.jacobian(outputs, weights)
    return [j.flatten(1) @ j.flatten(1).T for j in jacobians]


def test_steps_against_kernels():
    net, rate = network(), 1e-4
    rows = experiment.first_steps(net, X, Y, rate)
    w, labels = error_signal(net(X).detach(), Y).flatten(), centred_labels(Y).double().flatten()
    aligned = tangent_alignment(net, X, Y)
    centring = torch.eye(200, dtype=torch.float64) - 1 / 200
    changes = list(experiment.changes(net, X, Y, rate))
    for kernel, row, (actual, first_order, by_labels), a in zip(
        kernels(net), rows, changes, aligned, strict=True
    ):
        torch.testing.assert_close(first_order.flatten(), -rate * kernel @ w)
        torch.testing.assert_close(by_labels.flatten(), rate / 20 * kernel @ labels)
        assert row["trace"] == pytest.approx(float(kernel.trace()))
        assert row["share"] == pytest.approx(float(labels @ kernel @ labels))
        norm = float((centring @ kernel @ centring).norm())
        assert row["share"] == pytest.approx(a * norm * float(labels @ labels), rel=1e-6)
        assert row["error"] < 0.05 and row["norm"] == pytest.approx(float(actual.norm()))
        assert row["bound"] == pytest.approx(row["norm"] / (rate / 20 * row["trace"] * float(labels.norm())))
        assert row["summed"] == pytest.approx(1, abs=0.05)
        mean = actual.mean(0, keepdim=True).expand_as(actual)
        assert row["common"] == pytest.approx(float((mean.norm() / actual.norm()) ** 2))
    assert rows[-1]["error"] < 1e-8  # the last layer is linear


def test_one_layer_alone():
    net = network().float()
    before = [p.clone() for p in net.parameters()]
    x = X.float()
    drop, change = experiment.alone(net, 1, x, Y, 0.05, 0.9, 2)
    assert all(torch.equal(p, kept) for p, kept in zip(net.parameters(), before, strict=True))
    twin, velocity = network().float(), 0
    for _ in range(2):
        (gradient,) = torch.autograd.grad(functional.cross_entropy(twin(x), Y), [twin[2].weight])
        velocity = 0.9 * velocity + gradient
        with torch.no_grad():
            twin[2].weight.sub_(0.05 * velocity)
    with torch.no_grad():
        losses = [float(functional.cross_entropy(n(x), Y)) for n in (net, twin)]
        assert drop == pytest.approx(losses[0] - losses[1], rel=1e-4) and drop > 0
        assert change == pytest.approx(float((twin(x) - net(x)).square().mean().sqrt()), rel=1e-4)


def test_images_are_balanced():
    x, y = experiment.balanced("digits", 45, 0, "cpu")
    assert y.bincount(minlength=10).tolist() == [4] * 10 and len(x) == 40
    assert not torch.equal(y, experiment.balanced("digits", 45, 1, "cpu")[1])


def made_up(
    norm=1.0, drop=1.0, share=1.0, error=0.02, cosine=0.97, gained=1.0, summed=1.0, bound=0.2, seeds=4
):
    """Columns that rise (1) or fall (-1) with the alignment, which rises over six layers; 0: in no order."""
    rng, rows = np.random.default_rng(0), []
    for seed in range(seeds):
        for layer in range(1, 7):
            for start in (0, 1):
                wobble = 1 + 1e-3 * rng.standard_normal()
                orders = {
                    name: (np.exp(0.1 * sign * layer) if sign else (3, 1, 4, 1.5, 5, 2)[(layer + seed) % 6])
                    * wobble
                    for name, sign in (("norm", norm), ("drop", drop), ("share", share))
                }
                odd = 1 + 0.5 * (seed == 0 and layer == 3)  # that ranks have a spread
                orders = {name: value * odd ** (name != "share") for name, value in orders.items()}
                orders["along"] = orders["share"] * odd * layer
                row = {"error": error, "cosine": cosine, "summed": summed, "bound": bound, "common": 0.8}
                row = {name: value * wobble for name, value in row.items()} | orders
                row |= {"kind": "layer", "layer": layer, "seed": seed, "dataset": "mnist", "start": start}
                rows.append(row | {"alignment": 0.01 * layer, "trace": 1.0})
            mean = {"kind": "mean", "layer": layer, "seed": seed, "dataset": "mnist"}
            rows.append(mean | {"gained": gained * wobble, "mean_cosine": 0.5})
            row |= {
                "kind": "uniform",
                "seed": seed + seeds,
                "by_labels": orders["norm"] if norm > 0 else layer * odd,
            }
            rows.append(row | {"alignment": 0.01 * layer})
    return pd.DataFrame(rows)


claims, outcomes, said = judging.of(reading, PARAMETERS)


def test_claims_hold():
    found = outcomes(made_up())
    assert found.pop("turns-mnist") == NOT_JUDGED  # its seeds had been seen
    assert set(found.values()) == {HOLDS} and len(found) == 12
    assert said(made_up()).startswith("If an untrained network found all classes equally likely, as the")
    assert "would change its outputs more. With its real" in said(made_up())
    assert "outputs, such a step changes them more (mean corr" in said(made_up())
    heads = {id for id, claim in claims(made_up()).items() if claim.headline}
    assert heads == {"would-mnist"}  # with the premise; without it the statement is ours
    assert {"controls-mnist-0", "adds-up-mnist"} < {
        id for id, claim in claims(made_up()).items() if claim.ours
    }
    # A statement of ours that drops the paper's premise is no part of what the page says the paper claims.
    parts = notebooks.find("signal_propagation/appC_freezing").parts
    assert "controls" not in parts and {id for id in claims(made_up()) if id.startswith(tuple(parts))}


def test_claims_are_contradicted():
    table = made_up(-1, -1, 1, error=0.5, cosine=0.2, gained=0.5, summed=0.5, bound=2)
    table["along"] = 1 / table["along"]
    found = outcomes(table)
    assert found.pop("would-mnist") == HOLDS and found.pop("turns-mnist") == NOT_JUDGED
    assert set(found.values()) == {CONTRADICTED}
    assert "changes them less (mean corr" in said(table) and "would change its outputs more" in said(table)
    table.loc[table["kind"] == "uniform", "by_labels"] **= -1
    assert outcomes(table)["would-mnist"] == CONTRADICTED
    assert "changes them less (mean corr" in said(table) and "would change its outputs less." in said(table)


def test_ranks_that_the_values_contradict_decide_nothing():
    """The first layer aligns best by far and changes the outputs most; the others run the other way."""
    table = made_up()
    here = table["kind"] == "uniform"
    table.loc[here, "alignment"] = table["layer"].map({1: 0.9} | {n: 0.01 * n for n in range(2, 7)})
    table.loc[here, "by_labels"] = table["layer"].map({1: 9.0} | {n: 1 - 0.1 * n for n in range(2, 7)})
    odd = here & table["seed"].eq(4) & table["layer"].eq(2)
    table.loc[odd, "by_labels"] = 0.65  # that ranks have a spread
    claim = claims(table)["would-mnist"]
    assert claim.measured < 0 and claim.outcome == NOT_JUDGED
    assert reading.BY_VALUES in claim.test
    assert reading.would(table, PARAMETERS, "mnist", ranked=False).min() > 0.9


@pytest.mark.parametrize(("sign", "outcome"), [(1, HOLDS), (-1, CONTRADICTED), (0, ABSENT)])
def test_steps_along_the_labels_are_judged_on_new_seeds(sign, outcome):
    table = made_up(seeds=24)
    odd = pd.Series([3, 1, 4, 1.5, 5, 2])[(table["layer"] + 5 * table["seed"]) % 6].to_numpy()
    wobble = 1 + 0.9 * ((table["seed"] == 7) & (table["layer"] == 3))
    cosine = (table["layer"] ** float(sign) if sign else odd) * wobble
    table["along"] = 0.1 * cosine * table["norm"]
    claim = claims(table)["turns-mnist"]
    assert claim.outcome == outcome and claim.seeds == 24 - reading.SEEN
    seen = table[(table["kind"] != "layer") | (table["seed"] < reading.SEEN)]
    few = claims(seen)["turns-mnist"]
    assert few.outcome == NOT_JUDGED and few.measured is not None
    if sign:
        word = "and turns more" if sign > 0 else "but turns less"
        assert f", {word} towards the labels." in said(table)
        assert f", {word} towards the labels (not judged)." in said(seen)


def test_other_verdicts():
    nothing = pd.DataFrame({"unit": []})
    assert "No layer" in said(nothing) and said(made_up(-1, cosine=0))
    assert "(undecided)" in said(made_up(seeds=2)) and outcomes(made_up(seeds=2))["would-mnist"] == UNDECIDED
    none = made_up(norm=0, seeds=30)
    assert outcomes(none)["controls-mnist-0"] == ABSENT and "changes them no more" in said(none)
    assert len(reading.key_numbers(made_up(), PARAMETERS)) == 3


def test_a_finding_names_the_data_sets_of_each_verdict():
    names = ["mnist", "fashion_mnist", "cifar10"]
    table = pd.concat([made_up().assign(dataset=name) for name in names])
    asked = {"datasets": names, "images": 300}
    known = {claim.id: claim for claim in judged(reading.STATEMENTS, table, asked)}

    def would(*outcomes):
        turned = {f"would-{name}": outcome for name, outcome in zip(names, outcomes, strict=True)}
        return judging.finding(reading, table, asked, judging.turned(known, turned))

    mixed = would(HOLDS, UNDECIDED, CONTRADICTED)
    assert "outputs more on MNIST and less on CIFAR-10; Fashion-MNIST is undecided. With" in mixed
    assert "less on MNIST; Fashion-MNIST and CIFAR-10 are not judged. With" in would(
        CONTRADICTED, *2 * [NOT_JUDGED]
    )
    assert "outputs maybe more (undecided). With" in would(*3 * [UNDECIDED])


def test_smoke_jobs_give_what_is_read():
    book = notebooks.find("signal_propagation/appC_freezing")
    values = parameters.resolve(book, "smoke")
    made = experiment.jobs(values)
    tables = [
        u.compute(**u.arguments, **RUN).assign(dataset="digits", seed=u.arguments["seed"]) for u in made
    ]
    table = pd.concat(tables, ignore_index=True)
    assert NOT_RUN not in {claim.outcome for claim in judged(reading.STATEMENTS, table, values)}
    assert (table["drop"].dropna() > 0).mean() > 0.7
