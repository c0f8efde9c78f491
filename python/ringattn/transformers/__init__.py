# SPDX-License-Identifier: Apache-2.0
"""Attention for Hugging Face transformers on CPUs: attn_implementation="ringattn".

    >>> import ringattn.transformers, transformers
    >>> ringattn.transformers.register()
    >>> config = transformers.LlamaConfig(vocab_size=32, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
    ...                                   num_attention_heads=2, num_key_value_heads=1)
    >>> model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="ringattn")
    >>> model.config._attn_implementation
    'ringattn'

masks.py turns the masks of transformers into patterns of the library. forward.py is the attention function.
"""
import inspect

import ringattn

NAME = "ringattn"


def register(name: str = NAME) -> None:
    """Make an attention implementation of this name known to transformers: attention and mask functions.

        >>> import ringattn.transformers
        >>> ringattn.transformers.register()
    """
    import transformers

    try:
        from transformers import AttentionInterface
        from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
    except ImportError:
        sdpa_mask = None
    if sdpa_mask is None or "q_length" not in inspect.signature(sdpa_mask).parameters:
        raise ringattn.UnsupportedError(
            f"transformers is {transformers.__version__}: its mask functions take no q_length and q_offset; "
            "use a newer version, such as 5.23")
    from .forward import attention_forward
    from .masks import make_mask
    from .support import refuse_others

    AttentionInterface.register(name, attention_forward)
    AttentionMaskInterface.register(name, make_mask)
    refuse_others(name)


__all__ = ["register"]
