"""A recorder in Lightning's Trainer and in Hugging Face's, which are imported only here, when asked for."""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from .recorder import Recorder

STATE = "alignbook-recorder.pt"  # in a checkpoint's folder


def lightning(recorder: "Recorder") -> Any:
    """A ``lightning.pytorch.Callback`` that records before the first step and after every one.

    Cost: that of ``recorder.step``.
    Checkpoints of the Trainer hold the recorder's state, so that a resumed run goes on with its table. In one
    that is resumed from a checkpoint without it, and without ``start=``, ``deviation`` is left out.

    Parameters
    ----------
    recorder : Recorder

    Returns
    -------
    lightning.pytorch.Callback
        For ``callbacks=`` of a Trainer.

    Raises
    ------
    ImportError
        Where neither ``lightning`` nor ``pytorch_lightning`` is installed.

    Examples
    --------
    >>> import torch, alignbook
    >>> from lightning.pytorch import Callback
    >>> recorder = alignbook.Recorder((torch.randn(60, 8), torch.randint(0, 3, (60,))))
    >>> callback = alignbook.recording.lightning(recorder)  # Trainer(..., callbacks=[callback])
    >>> isinstance(callback, Callback)
    True
    """

    class Recording(_base(("lightning.pytorch", "pytorch_lightning"), "Callback")):
        def on_train_start(self, trainer, pl_module):
            if trainer.global_step > 0:
                recorder.goes_on()
            recorder.step(pl_module, trainer.global_step)

        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            recorder.step(pl_module, trainer.global_step)

        def state_dict(self):
            return recorder.state_dict()

        def load_state_dict(self, state_dict):
            recorder.load_state_dict(state_dict)

    return Recording()


def hugging_face(recorder: "Recorder") -> Any:
    """A ``transformers.TrainerCallback`` that records before the first step and after every one.

    Cost: that of ``recorder.step``.
    With every checkpoint the recorder's state is written into its folder, as ``alignbook-recorder.pt``. A run
    that is resumed takes it up from the folder that ``args.resume_from_checkpoint`` names, or else from
    ``checkpoint-N`` in the Trainer's ``output_dir``. Where there is none, ``deviation`` is left out unless
    the recorder has the weights at the start (``start=``), and ``recorder.left_out`` says so.

    Parameters
    ----------
    recorder : Recorder

    Returns
    -------
    transformers.TrainerCallback
        For ``callbacks=`` of a Trainer.

    Raises
    ------
    ImportError
        Where ``transformers`` is not installed.

    Examples
    --------
    >>> import torch, alignbook
    >>> from transformers import TrainerCallback
    >>> recorder = alignbook.Recorder((torch.randn(60, 8), torch.randint(0, 3, (60,))))
    >>> callback = alignbook.recording.hugging_face(recorder)  # Trainer(..., callbacks=[callback])
    >>> isinstance(callback, TrainerCallback)
    True
    """

    class Recording(_base(("transformers",), "TrainerCallback")):
        def on_train_begin(self, args, state, control, model=None, **kwargs):
            if state.global_step > 0:
                _take_up(recorder, args, state.global_step)
            recorder.step(model, state.global_step)

        def on_step_end(self, args, state, control, model=None, **kwargs):
            recorder.step(model, state.global_step)

        def on_save(self, args, state, control, **kwargs):
            if getattr(state, "is_world_process_zero", True):
                torch.save(recorder.state_dict(), _folder(args, state.global_step) / STATE)

    return Recording()


def _folder(args, step):
    return Path(args.output_dir) / f"checkpoint-{step}"


def _take_up(recorder, args, step):
    """Go on from the state in the checkpoint's folder; without one the weights at the start are not known."""
    recorder.goes_on()
    named = getattr(args, "resume_from_checkpoint", None)
    folders = [*([Path(named)] if isinstance(named, str) else []), _folder(args, step)]
    path = next((folder / STATE for folder in folders if (folder / STATE).is_file()), None)
    if path is None:
        recorder.left_out["state"] = f"step {step}: {folders[0]} holds no {STATE}"
    else:
        recorder.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))


def _base(modules, name):
    for module in modules:
        try:
            return getattr(importlib.import_module(module), name)
        except ModuleNotFoundError as error:
            if error.name not in (module, module.partition(".")[0]):
                raise
    raise ImportError(f"this callback needs {' or '.join(modules)}")
