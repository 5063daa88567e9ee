"""Models of keras-hub in tiny configurations with random weights; nothing is downloaded."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import keras
import numpy as np
from keras import layers

from zoo.architecture import UNSAVED_SEED, Architecture, Data, Deviation, slow_momentum

PACKAGE: Final = "keras_hub"
WORDS, LENGTH, CLASSES = 50, 8, 3
SPARSE = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
SIZES: Final[Mapping[str, Any]] = {
    "vocabulary_size": WORDS,
    "num_layers": 2,
    "hidden_dim": 16,
    "intermediate_dim": 32,
}
HEADS: Final = {"num_heads": 2}
QUERIES: Final = {"num_query_heads": 4, "num_key_value_heads": 2}


def models() -> Any:
    """The module `keras_hub.models`."""
    import keras_hub

    return keras_hub.models


def tokens(random: np.random.Generator, examples: int, shape: tuple[int, ...] = (LENGTH,)) -> Any:
    """Token ids from 1."""
    return random.integers(1, WORDS, (examples, *shape)).astype(np.int32)


def padding(examples: int) -> Any:
    """A mask of two padded positions."""
    return np.tile((np.arange(LENGTH) < LENGTH - 2).astype(np.int32), (examples, 1))


def language_model(family: str, sizes: Mapping[str, Any]) -> Any:
    """The causal language model of a family."""
    backbone = getattr(models(), f"{family}Backbone")(**{**SIZES, **sizes})
    return getattr(models(), f"{family}CausalLM")(backbone=backbone, preprocessor=None)


def next_tokens(random: np.random.Generator, examples: int) -> Data:
    """Tokens with a mask, and those one position ahead with weights."""
    rows, mask = tokens(random, examples, (LENGTH + 1,)), padding(examples)
    return (
        {"token_ids": rows[:, :-1], "padding_mask": mask},
        rows[:, 1:],
        mask.astype(np.float32),
    )


def gemma_with_lora() -> Any:
    """Gemma with adapters of rank 2; its other weights are frozen."""
    model = language_model("Gemma", {**QUERIES, "head_dim": 4})
    model.backbone.enable_lora(2)
    return model


def classifier(family: str, sizes: Mapping[str, Any]) -> Any:
    """The text classifier of a family."""
    backbone = getattr(models(), f"{family}Backbone")(**{**SIZES, "dropout": 0.0, **sizes})
    task = getattr(models(), f"{family}TextClassifier")
    return task(backbone=backbone, num_classes=CLASSES, preprocessor=None, dropout=0.0)


def text_classes(random: np.random.Generator, examples: int, *names: str) -> Data:
    """Tokens with what a family wants beside them, and classes."""
    known = {
        "token_ids": tokens(random, examples),
        "padding_mask": padding(examples),
        "segment_ids": np.zeros((examples, LENGTH), np.int32),
    }
    return {name: known[name] for name in names}, random.integers(CLASSES, size=examples)


def masked_language_model() -> Any:
    """BERT with its output for masked tokens."""
    backbone = models().BertBackbone(**SIZES, **HEADS, dropout=0.0)
    return models().BertMaskedLM(backbone=backbone, preprocessor=None)


def masked_tokens(random: np.random.Generator, examples: int) -> Data:
    """Tokens, the positions that are masked, and the tokens there."""
    x, _ = text_classes(random, examples, "token_ids", "padding_mask", "segment_ids")
    x["mask_positions"] = random.integers(LENGTH, size=(examples, 2)).astype(np.int32)
    return x, tokens(random, examples, (2,)), np.ones((examples, 2), np.float32)


def bart() -> Any:
    """The encoder and decoder of BART as a language model."""
    backbone = models().BartBackbone(**SIZES, **HEADS, dropout=0.0)
    return models().BartSeq2SeqLM(backbone=backbone, preprocessor=None)


def t5() -> Any:
    """T5 with an output of tokens."""
    backbone = models().T5Backbone(**SIZES, **HEADS, dropout=0.0)
    outputs = layers.Dense(WORDS)(backbone.output["decoder_sequence_output"])
    return keras.Model(backbone.input, outputs)


def token_pairs(random: np.random.Generator, examples: int) -> Data:
    """Tokens of an encoder and of a decoder, each with a mask."""
    x = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (
            ("token_ids", tokens(random, examples)),
            ("padding_mask", padding(examples)),
        )
    }
    return x, tokens(random, examples)


def whisper() -> Any:
    """Whisper with an output of tokens."""
    backbone = models().WhisperBackbone(
        **SIZES,
        **HEADS,
        num_mels=8,
        max_encoder_sequence_length=32,
        max_decoder_sequence_length=LENGTH,
    )
    outputs = layers.Dense(WORDS)(backbone.output["decoder_sequence_output"])
    return keras.Model(backbone.input, outputs)


def speech(random: np.random.Generator, examples: int) -> Data:
    """Spectrograms, tokens of the decoder with a mask, and tokens."""
    x = {
        "encoder_features": random.normal(size=(examples, 32, 8)).astype(np.float32),
        "decoder_token_ids": tokens(random, examples),
        "decoder_padding_mask": padding(examples),
    }
    return x, tokens(random, examples)


def vit() -> Any:
    """The image classifier of ViT."""
    backbone = models().ViTBackbone(
        image_shape=(16, 16, 3),
        patch_size=(4, 4),
        num_layers=2,
        num_heads=2,
        hidden_dim=16,
        mlp_dim=32,
    )
    return models().ViTImageClassifier(backbone=backbone, num_classes=CLASSES, preprocessor=None)


def resnet() -> Any:
    """The image classifier of ResNet."""
    backbone = models().ResNetBackbone(
        input_conv_filters=[64],
        input_conv_kernel_sizes=[7],
        stackwise_num_filters=[64, 64],
        stackwise_num_blocks=[2, 2],
        stackwise_num_strides=[1, 2],
        block_type="basic_block",
        image_shape=(32, 32, 3),
    )
    return models().ResNetImageClassifier(backbone=backbone, num_classes=CLASSES, preprocessor=None)


def images(random: np.random.Generator, examples: int, side: int) -> Data:
    """Images and classes."""
    x = random.normal(size=(examples, side, side, 3)).astype(np.float32)
    return x, random.integers(CLASSES, size=examples)


def mix_transformer() -> Any:
    """MiT, the encoder of SegFormer, as it is without its decoder."""
    return models().MiTBackbone(
        layerwise_depths=[1, 1],
        num_layers=2,
        layerwise_num_heads=[1, 2],
        layerwise_sr_ratios=[2, 1],
        max_drop_path_rate=0.1,
        layerwise_patch_sizes=[3, 3],
        layerwise_strides=[4, 2],
        image_shape=(32, 32, 3),
        hidden_dims=[8, 16],
    )


def segformer() -> Any:
    """SegFormer's image segmenter."""
    backbone = models().SegFormerBackbone(image_encoder=mix_transformer(), projection_filters=16)
    task = models().SegFormerImageSegmenter(
        backbone=backbone, num_classes=CLASSES, preprocessor=None
    )
    # The task compiles metrics of its own, which do not take pictures.
    return keras.Model(task.input, task.output)


def segments(random: np.random.Generator, examples: int) -> Data:
    """Images, and a class for each pixel."""
    x, _ = images(random, examples, 32)
    return x, random.integers(CLASSES, size=(examples, 32, 32))


def sam() -> Any:
    """The Segment Anything Model with prompts."""
    import keras_hub

    encoder = models().ViTDetBackbone(
        hidden_size=16,
        num_layers=2,
        intermediate_dim=32,
        num_heads=2,
        global_attention_layer_indices=[1],
        patch_size=8,
        num_output_channels=8,
        window_size=2,
        image_shape=(32, 32, 3),
    )
    prompts = keras_hub.layers.SAMPromptEncoder(
        hidden_size=8, image_embedding_size=(4, 4), input_image_size=(32, 32), mask_in_channels=8
    )
    decoder = keras_hub.layers.SAMMaskDecoder(
        num_layers=1,
        hidden_size=8,
        intermediate_dim=16,
        num_heads=2,
        embedding_dim=8,
        num_multimask_outputs=3,
        iou_head_depth=2,
        iou_head_hidden_dim=8,
    )
    backbone = models().SAMBackbone(
        image_encoder=encoder, prompt_encoder=prompts, mask_decoder=decoder
    )
    task = models().SAMImageSegmenter(backbone=backbone, preprocessor=None)
    # The task itself takes no dictionary of targets in `train_on_batch`.
    return keras.Model(task.input, task.output)


def prompts(random: np.random.Generator, examples: int) -> Data:
    """Images with points, boxes and masks; the masks and their quality."""
    x = {
        "images": random.normal(size=(examples, 32, 32, 3)).astype(np.float32),
        "points": random.uniform(0, 32, (examples, 1, 2)).astype(np.float32),
        "labels": np.ones((examples, 1), np.float32),
        "boxes": random.uniform(0, 32, (examples, 1, 2, 2)).astype(np.float32),
        "masks": random.normal(size=(examples, 1, 16, 16, 1)).astype(np.float32),
    }
    y = {
        "masks": random.normal(size=(examples, 4, 16, 16)).astype(np.float32),
        "iou_pred": random.uniform(size=(examples, 4)).astype(np.float32),
    }
    return x, y


def autoencoder() -> Any:
    """The autoencoder of Stable Diffusion 3, which samples with a seed generator."""
    from keras_hub.src.models.vae.vae_backbone import VAEBackbone  # not exported

    return VAEBackbone(
        encoder_num_filters=[32, 32],
        encoder_num_blocks=[1, 1],
        decoder_num_filters=[32, 32],
        decoder_num_blocks=[1, 1],
        sample_channels=4,
    )


def same_images(random: np.random.Generator, examples: int) -> Data:
    """Images as inputs and as targets."""
    x, _ = images(random, examples, 16)
    return x, x


def _architecture(name: str, kind: str, build: Any, data: Any, **options: Any) -> Architecture:
    settings = {"loss": SPARSE, "steps": 4, **options}
    return Architecture(
        name=name, source=f"keras-hub: {kind}", build=build, data=data, module=PACKAGE, **settings
    )


def _language_model(family: str, sizes: Mapping[str, Any], **options: Any) -> Architecture:
    build = partial(language_model, family, sizes)
    return _architecture(f"hub_{family}", "causal language model", build, next_tokens, **options)


def _classifier(family: str, sizes: Mapping[str, Any], *names: str, **options: Any) -> Architecture:
    def data(random: np.random.Generator, examples: int) -> Data:
        return text_classes(random, examples, *names)

    build = partial(classifier, family, sizes)
    return _architecture(f"hub_{family}", "text classifier", build, data, **options)


MIXED_EXPERTS = Deviation(
    "its block of experts computes with two dtypes, in Keras, too: refused by its name with the "
    "override that helps",
    r"mixtral_sparse_moe_block.*override",
    in_keras="cannot compute|dtype|type",
)
UNLOADED_SAM = Deviation(
    "Keras does not load the weights of its prompt encoder and mask decoder, which a functional "
    "model holds without building them",
    "objects could not be loaded",
    in_keras=True,
)
T5_OVERFLOWS = Deviation(
    "it overflows in float16 at any loss scale, in Keras, too: every step is skipped, and the run "
    "says so",
    "every step was skipped",
    in_keras="not finite",
)
MASKED: Final = ("token_ids", "padding_mask")
SEGMENTED: Final = (*MASKED, "segment_ids")
ARCHITECTURES = (
    _classifier("Bert", HEADS, *SEGMENTED),
    _architecture(
        "hub_BertMaskedLM", "masked language model", masked_language_model, masked_tokens
    ),
    _classifier("Roberta", HEADS, *MASKED),
    _classifier("DistilBert", HEADS, *MASKED),
    _classifier("Albert", {**HEADS, "embedding_dim": 8}, *SEGMENTED),
    _classifier("DebertaV3", HEADS, *MASKED),
    _classifier("FNet", {}, "token_ids", "segment_ids"),
    _language_model("GPT2", {**HEADS, "dropout": 0.0}),
    _language_model("OPT", {**HEADS, "dropout": 0.0}),
    _language_model("Bloom", HEADS),
    _language_model("Falcon", {"num_attention_heads": 2}),
    _language_model("Llama", QUERIES),
    _language_model("Mistral", QUERIES),
    _language_model("Qwen", QUERIES),
    _language_model("Phi3", QUERIES),
    _language_model(
        "Mixtral",
        {**QUERIES, "num_experts": 2},
        deviations=dict.fromkeys(("mixed_bfloat16", "mixed_float16"), MIXED_EXPERTS),
    ),
    _language_model("Gemma", {**QUERIES, "head_dim": 4}),
    _architecture("hub_GemmaLora", "causal language model, LoRA", gemma_with_lora, next_tokens),
    _architecture("hub_Bart", "sequence to sequence", bart, token_pairs),
    _architecture(
        "hub_T5", "backbone", t5, token_pairs, deviations={"mixed_float16": T5_OVERFLOWS}
    ),
    _architecture("hub_Whisper", "backbone", whisper, speech),
    _architecture("hub_ViT", "image classifier", vit, partial(images, side=16)),
    _architecture(
        "hub_ResNet",
        "image classifier",
        resnet,
        partial(images, side=32),
        optimizer=slow_momentum,
    ),
    _architecture("hub_SegFormer", "image segmenter", segformer, segments),
    _architecture(
        "hub_SAM",
        "image segmenter with prompts",
        sam,
        prompts,
        loss={"masks": "mse", "iou_pred": "mse"},
        deviations={"saved": UNLOADED_SAM},
    ),
    _architecture(
        "hub_VAE",
        "autoencoder of a diffusion model",
        autoencoder,
        same_images,
        loss="mse",
        deviations={"saved": UNSAVED_SEED},
    ),
)
