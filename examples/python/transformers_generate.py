# SPDX-License-Identifier: Apache-2.0
"""Generate text with a model of Hugging Face transformers, its attention by ringattn.

The model is a small Llama with random weights; transformers.AutoModelForCausalLM.from_pretrained takes the same
attn_implementation. Two prompts of different lengths are padded on the left.
"""
import torch
import transformers

import ringattn.transformers


def main():
    ringattn.transformers.register()
    torch.manual_seed(1)
    config = transformers.LlamaConfig(vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                                      num_attention_heads=8, num_key_value_heads=2, pad_token_id=0, bos_token_id=1,
                                      eos_token_id=2)
    prompts = torch.tensor([[0, 0, 0, 5, 6, 7], [3, 4, 5, 6, 7, 8]])
    results = []
    for implementation in ("eager", "ringattn"):
        torch.manual_seed(2)
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=implementation).eval()
        results.append(model.generate(prompts, attention_mask=(prompts != 0).long(), max_new_tokens=12, do_sample=False))
        print(f"{implementation:8} {results[-1][0, 6:].tolist()}")
    return torch.equal(*results)


if __name__ == "__main__":
    assert main()
