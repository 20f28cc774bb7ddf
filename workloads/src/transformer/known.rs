//! Models that can be named: the dimensions that their makers published.
//!
//! Dimensions are facts and are written down here, so that no file of a maker ships. Every row says
//! where its numbers come from; [`Known::published`] is the number of parameters that somebody else
//! counted, which the test compares with what follows from the dimensions, to the last one.

use super::card::{Card, Experts, Family, Latent};

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// What it is called in scenarios and on the command line.
    pub name: &'static str,
    /// Whose family it is.
    pub family: Family,
    /// Blocks, width of the residual stream, width of the feed-forward part.
    size: (u32, u32, u32),
    /// Query heads, key and value heads, width of a head.
    heads: (u32, u32, u32),
    vocab: u32,
    positions: u32,
    tied: bool,
    /// How many there are and how many are active.
    experts: Option<(u32, u32)>,
    window: Option<u32>,
    full_attention_every: Option<u32>,
    /// Experts that every token goes through, blocks in front without experts, and the width of an
    /// expert, where blocks differ.
    mixed: Option<(u32, u32, u32)>,
    latent: Option<Latent>,
    /// Parameters, as counted on the published weights or the makers' code.
    pub published: Option<u64>,
    /// Where the dimensions come from.
    pub source: &'static str,
}

const MEMORY: &str = "config.json as published with the weights, from memory";
const FLEXGEN: &str = "FlexGen, flexgen/opt_config.py";
const LARGE: &str = "Korthikanti et al., 2022, table 3; vocabulary 51,200, sequence 2,048";

const fn gpt2(name: &'static str, layers: u32, hidden: u32, heads: u32) -> Known {
    Known {
        name,
        family: Family::Gpt2,
        size: (layers, hidden, 4 * hidden),
        heads: (heads, heads, hidden / heads),
        vocab: 50_257,
        positions: 1024,
        tied: true,
        experts: None,
        window: None,
        full_attention_every: None,
        mixed: None,
        latent: None,
        published: None,
        source: MEMORY,
    }
}

const fn megatron(name: &'static str, layers: u32, hidden: u32, heads: u32) -> Known {
    let gpt = gpt2(name, layers, hidden, heads);
    Known { vocab: 51_200, positions: 2048, source: LARGE, ..gpt }
}

const fn opt(name: &'static str, layers: u32, hidden: u32, heads: u32) -> Known {
    let gpt = gpt2(name, layers, hidden, heads);
    Known { family: Family::Opt, vocab: 50_272, positions: 2048, source: FLEXGEN, ..gpt }
}

const fn llama(name: &'static str, size: (u32, u32, u32), heads: (u32, u32), vocab: u32) -> Known {
    Known {
        name,
        family: Family::Llama,
        size,
        heads: (heads.0, heads.1, size.1 / heads.0),
        vocab,
        positions: 0,
        tied: false,
        experts: None,
        window: None,
        full_attention_every: None,
        mixed: None,
        latent: None,
        published: None,
        source: MEMORY,
    }
}

const fn qwen(
    name: &'static str,
    size: (u32, u32, u32),
    heads: (u32, u32),
    vocab: u32,
    published: u64,
) -> Known {
    of(counted(llama(name, size, heads, vocab), published), Family::Qwen)
}

const fn qwen3(
    name: &'static str,
    size: (u32, u32, u32),
    heads: (u32, u32),
    tied: bool,
    published: u64,
) -> Known {
    let (family, heads_of) = (Family::Qwen, (heads.0, heads.1, 128));
    let like = llama(name, size, heads, 151_936);
    let source =
        "config.json as published, from memory; parameters as the weights' index counts them";
    Known { source, family, heads: heads_of, tied, published: Some(published), ..like }
}

/// Every second block, and in Gemma 3 every sixth, attends to all tokens.
const fn gemma(
    name: &'static str,
    size: (u32, u32, u32),
    heads: (u32, u32, u32),
    (window, full_attention_every): (u32, u32),
) -> Known {
    let is_third = full_attention_every == 6;
    Known {
        family: if is_third { Family::Gemma3 } else { Family::Gemma2 },
        heads,
        tied: true,
        window: Some(window),
        full_attention_every: Some(full_attention_every),
        ..llama(name, size, (heads.0, heads.1), if is_third { 262_208 } else { 256_000 })
    }
}

/// The first blocks have no experts; keys and values are compressed to 512 numbers and 64 of a key
/// that all heads share.
const fn deepseek(
    name: &'static str,
    size: (u32, u32, u32),
    (heads, queries): (u32, Option<u32>),
    vocab: u32,
    experts: (u32, u32),
    mixed: (u32, u32, u32),
) -> Known {
    Known {
        family: Family::Deepseek,
        heads: (heads, heads, 192),
        experts: Some(experts),
        mixed: Some(mixed),
        latent: Some(Latent { queries, rank: 512, rotary: 64, value: 128 }),
        ..llama(name, size, (heads, heads), vocab)
    }
}

/// Attention is wider than the residual stream.
const fn gpt_oss(name: &'static str, layers: u32, experts: u32, published: u64) -> Known {
    Known {
        family: Family::GptOss,
        heads: (64, 8, 64),
        experts: Some((experts, 4)),
        window: Some(128),
        full_attention_every: Some(2),
        published: Some(published),
        source: "docs.nvidia.com/nemo/megatron-bridge/latest/models/llm/gpt-oss.html; parameters as \
                 files for llama.cpp state them",
        ..llama(name, (layers, 2880, 2880), (64, 8), 201_088)
    }
}

/// One norm before attention and the feed-forward part, or two, and no gate.
const fn parallel(family: Family, gpt: Known, kv_heads: u32) -> Known {
    let (heads, _, width) = gpt.heads;
    Known { family, heads: (heads, kv_heads, width), positions: 0, source: MEMORY, ..gpt }
}

const fn mpt(gpt: Known) -> Known {
    Known { family: Family::Mpt, vocab: 50_432, positions: 0, ..gpt }
}

/// As of DeepSeek, keys and values of every head, 128 wide.
const fn glm_moe(
    name: &'static str,
    family: Family,
    size: (u32, u32, u32),
    experts: (u32, u32),
    mixed: (u32, u32, u32),
) -> Known {
    Known {
        family,
        heads: (96, 8, 128),
        experts: Some(experts),
        mixed: Some(mixed),
        ..llama(name, size, (96, 8), 151_552)
    }
}

const fn counted(known: Known, published: u64) -> Known {
    Known { published: Some(published), ..known }
}

const fn tied(known: Known) -> Known {
    Known { tied: true, ..known }
}

const fn from(known: Known, source: &'static str) -> Known {
    Known { source, ..known }
}

const fn of(known: Known, family: Family) -> Known {
    Known { family, ..known }
}

/// Every model that can be named, by family and size.
pub const KNOWN: &[Known] = &[
    from(
        counted(gpt2("gpt2", 12, 768, 12), 124_439_808),
        "config.json, github.com/540-540-540/icct-research, ca1682a4",
    ),
    counted(gpt2("gpt2-medium", 24, 1024, 16), 354_823_168),
    counted(gpt2("gpt2-large", 36, 1280, 20), 774_030_080),
    counted(gpt2("gpt2-xl", 48, 1600, 25), 1_557_611_200),
    megatron("megatron-22b", 48, 6144, 64),
    megatron("megatron-175b", 96, 12_288, 96),
    megatron("megatron-530b", 105, 20_480, 128),
    megatron("megatron-1t", 128, 25_600, 160),
    counted(llama("llama-2-7b", (32, 4096, 11_008), (32, 32), 32_000), 6_738_415_616),
    counted(llama("llama-2-13b", (40, 5120, 13_824), (40, 40), 32_000), 13_015_864_320),
    counted(llama("llama-2-70b", (80, 8192, 28_672), (64, 8), 32_000), 68_976_648_192),
    from(
        counted(llama("llama-3-8b", (32, 4096, 14_336), (32, 8), 128_256), 8_030_261_248),
        "config.json as published; tensors as of transformers 5.23",
    ),
    from(
        counted(llama("llama-3-70b", (80, 8192, 28_672), (64, 8), 128_256), 70_553_706_496),
        "config.json, github.com/MiMiGame-1/Reflection-Llama-3.1-70B, 458962ed, with the vocabulary of Llama 3",
    ),
    counted(llama("llama-3.1-8b", (32, 4096, 14_336), (32, 8), 128_256), 8_030_261_248),
    counted(llama("llama-3.1-70b", (80, 8192, 28_672), (64, 8), 128_256), 70_553_706_496),
    counted(llama("llama-3.3-70b", (80, 8192, 28_672), (64, 8), 128_256), 70_553_706_496),
    tied(counted(llama("llama-3.2-1b", (16, 2048, 8192), (32, 8), 128_256), 1_235_814_400)),
    tied(counted(llama("llama-3.2-3b", (28, 3072, 8192), (24, 8), 128_256), 3_212_749_824)),
    counted(llama("llama-3.1-405b", (126, 16_384, 53_248), (128, 8), 128_256), 405_853_388_800),
    Known {
        window: Some(4096),
        ..of(
            counted(llama("mistral-7b", (32, 4096, 14_336), (32, 8), 32_000), 7_241_732_096),
            Family::Mistral,
        )
    },
    // Later releases attend to everything; the last one knows more words.
    of(
        counted(llama("mistral-7b-v0.2", (32, 4096, 14_336), (32, 8), 32_000), 7_241_732_096),
        Family::Mistral,
    ),
    of(
        counted(llama("mistral-7b-v0.3", (32, 4096, 14_336), (32, 8), 32_768), 7_248_023_552),
        Family::Mistral,
    ),
    // Attention is less wide than the residual stream.
    Known {
        heads: (32, 8, 128),
        ..of(
            counted(llama("mistral-nemo", (40, 5120, 14_336), (32, 8), 131_072), 12_247_782_400),
            Family::Mistral,
        )
    },
    Known {
        heads: (32, 8, 128),
        ..of(
            counted(
                llama("mistral-small-24b", (40, 5120, 32_768), (32, 8), 131_072),
                23_572_403_200,
            ),
            Family::Mistral,
        )
    },
    Known {
        experts: Some((8, 2)),
        source: "config.json as published; tensors as of transformers 5.23",
        ..of(
            counted(llama("mixtral-8x7b", (32, 4096, 14_336), (32, 8), 32_000), 46_702_792_704),
            Family::Mixtral,
        )
    },
    Known {
        experts: Some((8, 2)),
        source: "config.json as published, from memory; bytes of a derivative's weights, \
                 github.com/tbressers/WizardLM-2-8x22B, c2092670",
        ..of(
            counted(llama("mixtral-8x22b", (56, 6144, 16_384), (48, 8), 32_000), 140_620_634_112),
            Family::Mixtral,
        )
    },
    tied(qwen("qwen2.5-0.5b", (24, 896, 4864), (14, 2), 151_936, 494_032_768)),
    tied(qwen("qwen2.5-1.5b", (28, 1536, 8960), (12, 2), 151_936, 1_543_714_304)),
    tied(qwen("qwen2.5-3b", (36, 2048, 11_008), (16, 2), 151_936, 3_085_938_688)),
    qwen("qwen2.5-7b", (28, 3584, 18_944), (28, 4), 152_064, 7_615_616_512),
    qwen("qwen2.5-14b", (48, 5120, 13_824), (40, 8), 152_064, 14_770_033_664),
    qwen("qwen2.5-32b", (64, 5120, 27_648), (40, 8), 152_064, 32_763_876_352),
    qwen("qwen2.5-72b", (80, 8192, 29_568), (64, 8), 152_064, 72_706_203_648),
    Known {
        heads: (32, 4, 128),
        experts: Some((128, 8)),
        ..of(
            counted(llama("qwen3-30b-a3b", (48, 2048, 768), (32, 4), 151_936), 30_532_122_624),
            Family::Qwen,
        )
    },
    qwen3("qwen3-0.6b", (28, 1024, 3072), (16, 8), true, 596_049_920),
    qwen3("qwen3-1.7b", (28, 2048, 6144), (16, 8), true, 1_720_574_976),
    qwen3("qwen3-4b", (36, 2560, 9728), (32, 8), true, 4_022_468_096),
    qwen3("qwen3-8b", (36, 4096, 12_288), (32, 8), false, 8_190_735_360),
    qwen3("qwen3-14b", (40, 5120, 17_408), (40, 8), false, 14_768_307_200),
    qwen3("qwen3-32b", (64, 5120, 25_600), (64, 8), false, 32_762_123_264),
    Known {
        experts: Some((128, 8)),
        ..qwen3("qwen3-235b-a22b", (94, 4096, 1536), (64, 4), false, 235_093_634_560)
    },
    Known {
        experts: Some((160, 8)),
        ..qwen3("qwen3-480b-a35b", (62, 6144, 2560), (96, 8), false, 480_154_875_392)
    },
    counted(gemma("gemma-2-2b", (26, 2304, 9216), (8, 4, 256), (4096, 2)), 2_614_341_888),
    counted(gemma("gemma-2-9b", (42, 3584, 14_336), (16, 8, 256), (4096, 2)), 9_241_705_984),
    counted(gemma("gemma-2-27b", (46, 4608, 36_864), (32, 16, 128), (4096, 2)), 27_227_128_320),
    Known {
        vocab: 262_144,
        ..counted(gemma("gemma-3-1b", (26, 1152, 6912), (4, 1, 256), (512, 6)), 999_885_952)
    },
    gemma("gemma-3-4b", (34, 2560, 10_240), (8, 4, 256), (1024, 6)),
    gemma("gemma-3-12b", (48, 3840, 15_360), (16, 8, 256), (1024, 6)),
    gemma("gemma-3-27b", (62, 5376, 21_504), (32, 16, 128), (1024, 6)),
    counted(
        deepseek(
            "deepseek-v2-lite",
            (27, 2048, 10_944),
            (16, None),
            102_400,
            (64, 6),
            (2, 1, 1408),
        ),
        15_706_484_224,
    ),
    counted(
        deepseek(
            "deepseek-v2",
            (60, 5120, 12_288),
            (128, Some(1536)),
            102_400,
            (160, 6),
            (2, 1, 1536),
        ),
        235_741_434_880,
    ),
    deepseek("deepseek-v3", (61, 7168, 18_432), (128, Some(1536)), 129_280, (256, 8), (1, 3, 2048)),
    deepseek("kimi-k2", (61, 7168, 18_432), (64, Some(1536)), 163_840, (384, 8), (1, 1, 2048)),
    gpt_oss("gpt-oss-20b", 24, 32, 20_914_757_184),
    gpt_oss("gpt-oss-120b", 36, 128, 116_829_156_672),
    counted(
        glm_moe("glm-4.5", Family::Glm4MoeNormed, (92, 5120, 12_288), (160, 8), (1, 3, 1536)),
        352_797_814_784,
    ),
    counted(
        glm_moe("glm-4.5-air", Family::Glm4Moe, (46, 4096, 10_944), (128, 8), (1, 1, 1408)),
        106_852_245_504,
    ),
    Known {
        family: Family::Olmoe,
        heads: (48, 8, 128),
        experts: Some((256, 8)),
        ..counted(llama("minimax-m2", (62, 3072, 1536), (48, 8), 200_064), 228_689_748_992)
    },
    Known {
        family: Family::Olmo2,
        ..counted(llama("olmo-2-13b", (40, 5120, 13_824), (40, 40), 100_352), 13_716_198_400)
    },
    Known {
        family: Family::Cohere,
        tied: true,
        ..counted(llama("command-r", (40, 8192, 22_528), (64, 64), 256_000), 34_980_831_232)
    },
    Known {
        family: Family::CohereNormed,
        tied: true,
        ..counted(llama("command-r-plus", (64, 12_288, 33_792), (96, 8), 256_000), 103_810_674_688)
    },
    Known {
        family: Family::Starcoder2,
        window: Some(4096),
        ..counted(llama("starcoder2-15b", (40, 6144, 24_576), (48, 4), 49_152), 15_957_889_024)
    },
    of(
        counted(llama("minitron-4b", (32, 3072, 9216), (24, 8), 256_000), 4_190_509_056),
        Family::Nemotron,
    ),
    Known {
        family: Family::Dbrx,
        experts: Some((16, 4)),
        ..counted(llama("dbrx", (40, 6144, 10_752), (48, 8), 100_352), 131_596_523_520)
    },
    Known {
        family: Family::Llama4,
        heads: (40, 8, 128),
        experts: Some((16, 1)),
        mixed: Some((1, 0, 8192)),
        window: Some(8192),
        full_attention_every: Some(4),
        ..counted(llama("llama-4-scout", (48, 5120, 8192), (40, 8), 202_048), 107_769_861_120)
    },
    Known {
        family: Family::Granitemoe,
        tied: true,
        experts: Some((40, 8)),
        ..counted(llama("granite-3.0-3b-a800m", (32, 1536, 512), (24, 8), 49_155), 3_298_793_472)
    },
    // Its window is as long as its longest sequence.
    Known {
        family: Family::Phimoe,
        experts: Some((16, 2)),
        ..counted(llama("phi-3.5-moe", (32, 4096, 6400), (32, 8), 32_064), 41_873_153_344)
    },
    from(
        of(
            counted(
                llama("nemotron-4-340b", (96, 18_432, 73_728), (96, 8), 256_000),
                341_029_195_776,
            ),
            Family::Nemotron,
        ),
        "NVIDIA, Nemotron-4 340B Technical Report, 2024, table 1",
    ),
    mpt(counted(gpt2("mpt-7b", 32, 4096, 32), 6_649_286_656)),
    mpt(counted(gpt2("mpt-30b", 48, 7168, 64), 29_957_200_896)),
    Known {
        vocab: 50_432,
        tied: false,
        ..parallel(Family::GptNeox, counted(gpt2("pythia-6.9b", 32, 4096, 32), 6_857_302_016), 32)
    },
    Known {
        vocab: 50_432,
        tied: false,
        ..parallel(Family::GptNeox, counted(gpt2("gpt-neox-20b", 44, 6144, 64), 20_554_567_680), 64)
    },
    Known {
        vocab: 50_400,
        tied: false,
        ..parallel(Family::Gptj, counted(gpt2("gpt-j-6b", 28, 4096, 16), 6_050_882_784), 16)
    },
    Known {
        vocab: 51_200,
        tied: false,
        ..parallel(Family::Phi, counted(gpt2("phi-2", 32, 2560, 32), 2_779_683_840), 32)
    },
    Known {
        vocab: 65_024,
        ..parallel(Family::Falcon, counted(gpt2("falcon-7b", 32, 4544, 71), 6_921_720_704), 1)
    },
    Known {
        vocab: 65_024,
        ..parallel(Family::Falcon40b, counted(gpt2("falcon-40b", 60, 8192, 128), 41_303_293_952), 8)
    },
    counted(opt("opt-125m", 12, 768, 12), 125_239_296),
    counted(opt("opt-1.3b", 24, 2048, 32), 1_315_758_080),
    counted(opt("opt-2.7b", 32, 2560, 32), 2_651_596_800),
    counted(opt("opt-6.7b", 32, 4096, 32), 6_658_473_984),
    counted(opt("opt-13b", 40, 5120, 40), 12_853_473_280),
    counted(opt("opt-30b", 48, 7168, 56), 29_974_540_288),
    opt("opt-66b", 64, 9216, 72),
    counted(opt("opt-175b", 96, 12_288, 96), 174_604_468_224),
    Known {
        family: Family::Bloom,
        positions: 0,
        vocab: 250_880,
        source: "config.json, github.com/amansingh61/bloom, 3b1c6223",
        ..counted(gpt2("bloom-176b", 70, 14_336, 112), 176_247_271_424)
    },
];

/// The model called `name`.
pub fn known(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name == name)
}

impl Known {
    /// Its card.
    pub fn card(&self) -> Card {
        let (layers, hidden, ffn) = self.size;
        let (heads, kv_heads, head_dim) = self.heads;
        // Qwen3 has norms instead; its width of a head is not the residual stream's share.
        let qwen3 = self.family == Family::Qwen && self.name.starts_with("qwen3");
        let open = matches!(self.family, Family::Qwen | Family::Glm4Moe | Family::Glm4MoeNormed)
            || self.family == Family::Phimoe;
        let biased = open || self.family.has_qkv_bias();
        Card {
            name: self.name.to_owned(),
            family: self.family,
            layers,
            hidden,
            ffn,
            heads,
            kv_heads,
            head_dim,
            vocab: self.vocab,
            positions: self.positions,
            tied: self.tied,
            qkv_bias: biased && !qwen3,
            experts: self.experts.map(|(count, active)| {
                let (shared, dense_first, ffn) = self.mixed.unwrap_or((0, 0, ffn));
                Experts { count, active, ffn, shared, dense_first }
            }),
            window: self.window,
            full_attention_every: self.full_attention_every,
            latent: self.latent,
        }
    }
}
