# Types of the public face, which is imported on first use. Arrays may be NumPy's, tensors or nested lists.
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Generator, Tensor, nn

from alignbook.data.images import ImageSet
from alignbook.errors import AlignbookError as AlignbookError
from alignbook.metrics.cka import cka as cka
from alignbook.metrics.hessian_eigenvalues import HessianEigenvalues
from alignbook.metrics.landscape import Landscape
from alignbook.metrics.loss_variation import LossVariation
from alignbook.metrics.patch_covariance import PatchCovariance
from alignbook.metrics.spectral_density import SpectralDensity
from alignbook.metrics.weight_deviation import WeightDeviation
from alignbook.probing import Probe as Probe
from alignbook.probing.layer_cka import layer_cka as layer_cka
from alignbook.probing.representations import activations as activations
from alignbook.probing.representations import layer_ranks as layer_ranks
from alignbook.recording import Recorder as Recorder

__version__: str
PUBLIC: dict[str, str]

_Array: TypeAlias = ArrayLike | Tensor
_Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]
_Names: TypeAlias = str | Sequence[str]
_Direction: TypeAlias = Mapping[str, Tensor]

def load(
    name: str, split: Literal["train", "test"] = "train", n: int | None = None, seed: int = 0
) -> ImageSet: ...
def patch_covariance(images: Tensor | ImageSet, size: int = 3, stride: int = 1) -> PatchCovariance: ...
def misalignment(a: _Array, b: _Array, rtol: float | None = None) -> float: ...
def transfer_function(
    cov_x: _Array, cov_w: _Array, rtol: float | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
def alignment_curve(
    features: _Array, labels: _Array, thresholds: _Array | None = None, bias: bool = True
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
def tangent_alignment(
    model: nn.Module, inputs: Tensor, labels: Tensor, *, parameters: _Names = "trainable"
) -> NDArray[np.float64]: ...
def hessian_eigenvalues(
    model: nn.Module,
    loss: _Loss | None,
    inputs: Any,
    targets: _Array | None = None,
    k: int = 20,
    tol: float = 0.001,
    batch_size: int = 256,
    basis: int | None = None,
    max_products: int = 2000,
    seed: int = 0,
    matrix: Literal["hessian", "gauss-newton"] = "hessian",
    *,
    parameters: _Names = "trainable",
) -> HessianEigenvalues: ...
def spectral_density(
    model: nn.Module,
    loss: _Loss | None,
    inputs: Any,
    targets: _Array | None = None,
    vectors: int = 10,
    steps: int = 40,
    matrix: Literal["hessian", "gauss-newton"] = "hessian",
    batch_size: int = 256,
    seed: int = 0,
    *,
    parameters: _Names = "trainable",
) -> SpectralDensity: ...
def tangent_kernel(
    model: nn.Module,
    inputs: Tensor,
    columns: Tensor | None = None,
    outputs: Sequence[int] | None = None,
    *,
    parameters: _Names = "trainable",
) -> NDArray[np.float64]: ...
def weight_deviation(
    before: nn.Module | Mapping[str, Tensor], after: nn.Module | Mapping[str, Tensor], n: int | None = None
) -> WeightDeviation: ...
def filter_normalised_directions(
    model: nn.Module,
    generator: Generator,
    count: int = 2,
    layer: str | None = None,
    *,
    parameters: _Names = "trainable",
) -> list[dict[str, Tensor]]: ...
def landscape(
    model: nn.Module,
    loss: _Loss,
    inputs: Tensor,
    targets: Tensor,
    directions: Sequence[_Direction] | None = None,
    *,
    generator: Generator | None = None,
    radius: float = 0.1,
    points: int = 21,
    layer: str | None = None,
    mode: Literal["eval", "train"] = "eval",
    parameters: _Names = "trainable",
) -> Landscape: ...
def loss_variation(
    model: nn.Module,
    loss: _Loss,
    inputs: Tensor,
    targets: Tensor,
    lengths: Iterable[float],
    scaled: bool = True,
    mode: Literal["eval", "train"] = "train",
    *,
    parameters: _Names = "trainable",
) -> LossVariation: ...
def probe(
    model: nn.Module,
    data: Any,
    targets: _Array | None = None,
    *,
    before: nn.Module | Mapping[str, Any] | str | Path | None = None,
    forward: Callable[[nn.Module, Any], Any] | None = None,
    loss: _Loss | None = None,
    layers: str | Sequence[str] | None = None,
    examples: int | None = None,
    only: str | Sequence[str] | None = None,
    without: str | Sequence[str] = (),
    parameters: _Names = "trainable",
    seed: int = 0,
    minutes: float = 10.0,
    memory: float = 4e9,
    device: str | torch.device | None = None,
    report: Callable[[str], object] | None = None,
) -> Probe: ...
def compare(*probes: Probe, **named: Probe) -> Probe: ...
