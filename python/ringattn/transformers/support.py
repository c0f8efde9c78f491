# SPDX-License-Identifier: Apache-2.0
"""Which models of transformers call the attention function that a name stands for, and a refusal of those that do not.

Models with attention of their own take any registered name, and then compute what they please.
"""
import functools

from transformers import PreTrainedModel

import ringattn

_names = set()


def _refusing(choose):
    """transformers' choice of an implementation for a model, behind a check for the names of this package."""

    @functools.wraps(choose)
    def checked(self, requested_attention, *rest, **options):
        if requested_attention in _names and not self._can_set_attn_implementation():
            raise ringattn.UnsupportedError(
                f"{type(self).__name__} has attention of its own and calls no attention function of transformers: "
                f'attn_implementation="{requested_attention}" would change nothing; use "eager"')
        return choose(self, requested_attention, *rest, **options)

    return checked


def refuse_others(name: str) -> None:
    """From now on, a model that would not use the attention function of this name is refused when it is made."""
    if not _names and hasattr(PreTrainedModel, "_can_set_attn_implementation"):
        PreTrainedModel.get_correct_attn_implementation = _refusing(PreTrainedModel.get_correct_attn_implementation)
    _names.add(name)
