"""A recorder in Lightning's Trainer and in Hugging Face's, which are imported only here, when asked for."""

import importlib


def lightning(recorder):
    """A ``lightning.pytorch.Callback`` that records before the first step and after every one.

    Checkpoints of the Trainer hold the recorder's state, so that a resumed run goes on with its table.

    Parameters
    ----------
    recorder : Recorder

    Raises
    ------
    ImportError
        Where neither ``lightning`` nor ``pytorch_lightning`` is installed.

    Examples
    --------
    ``Trainer(callbacks=[alignbook.recording.lightning(recorder)])``
    """

    class Recording(_base(("lightning.pytorch", "pytorch_lightning"), "Callback")):
        def on_train_start(self, trainer, pl_module):
            recorder.step(pl_module, trainer.global_step)

        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            recorder.step(pl_module, trainer.global_step)

        def state_dict(self):
            return recorder.state_dict()

        def load_state_dict(self, state_dict):
            recorder.load_state_dict(state_dict)

    return Recording()


def hugging_face(recorder):
    """A ``transformers.TrainerCallback`` that records before the first step and after every one.

    Parameters
    ----------
    recorder : Recorder

    Raises
    ------
    ImportError
        Where ``transformers`` is not installed.

    Examples
    --------
    ``Trainer(..., callbacks=[alignbook.recording.hugging_face(recorder)])``
    """

    class Recording(_base(("transformers",), "TrainerCallback")):
        def on_train_begin(self, args, state, control, model=None, **kwargs):
            recorder.step(model, state.global_step)

        def on_step_end(self, args, state, control, model=None, **kwargs):
            recorder.step(model, state.global_step)

    return Recording()


def _base(modules, name):
    for module in modules:
        try:
            return getattr(importlib.import_module(module), name)
        except ModuleNotFoundError as error:
            if error.name not in (module, module.partition(".")[0]):
                raise
    raise ImportError(f"this callback needs {' or '.join(modules)}")
