//! The dimensions that Megatron's arguments give a model, as a card.
//!
//! Invariant: what a card cannot say is refused, or its row says what is left out.

use super::super::reader::{Reader, not_said};
use super::super::{Fate, Row};

/// Flags that say what a model is made of.
const DIMENSIONS: [&str; 29] = [
    "num-layers",
    "hidden-size",
    "ffn-hidden-size",
    "num-attention-heads",
    "group-query-attention",
    "num-query-groups",
    "kv-channels",
    "max-position-embeddings",
    "vocab-size",
    "padded-vocab-size",
    "pad-vocab-size-to",
    "embed-layernorm",
    "tokenizer-type",
    "make-vocab-size-divisible-by",
    "swiglu",
    "normalization",
    "position-embedding-type",
    "use-rotary-position-embeddings",
    "no-position-embedding",
    "add-qkv-bias",
    "disable-bias-linear",
    "untie-embeddings-and-output-weights",
    "num-experts",
    "moe-router-topk",
    "moe-ffn-hidden-size",
    "moe-shared-expert-intermediate-size",
    "qk-layernorm",
    "apply-layernorm-1p",
    "squared-relu",
];

/// The command names a model: dimensions say nothing.
pub(super) fn said_elsewhere(of: &mut Reader<'_>) {
    DIMENSIONS.iter().for_each(|key| of.ignore(key, "the command says another model"));
}

/// What results call the model, and its card.
pub(super) fn card(
    of: &mut Reader<'_>,
    sequence: u64,
    tensor: u64,
    vocab: Option<u64>,
    defaults: &mut Vec<Row>,
) -> (String, Option<String>) {
    let layers = required(of, "num-layers", [1, 10_000], "layers: {}");
    let hidden = required(of, "hidden-size", [1, 1 << 20], "hidden: {}");
    let heads = required(of, "num-attention-heads", [1, 1 << 14], "heads: {}");
    let gated = of.flag("swiglu", ["", "family: llama"]).unwrap_or(false);
    let experts = experts(of, gated);
    let positions_by =
        of.find("position-embedding-type").and_then(|(_, entry)| entry.value.as_deref());
    let family = match (bert(of, gated, tensor), gated, experts.is_some()) {
        (true, ..) => "bert",
        (_, false, _) if positions_by == Some("alibi") => "bloom",
        (_, true, true) => "mixtral",
        (_, true, false) => "llama",
        (_, false, _) => "gpt2",
    };
    let ffn = ffn(of, gated, hidden, experts.is_some(), defaults);
    let mut words = vec![
        format!("family: {family}"),
        format!("layers: {layers}"),
        format!("hidden: {hidden}"),
        format!("ffn: {ffn}"),
        format!("heads: {heads}"),
    ];
    let grouped =
        of.flag("group-query-attention", ["", "kv_heads, by the groups"]).unwrap_or(false);
    let groups = of.number("num-query-groups", [1, 1 << 14], "kv_heads: {}");
    match grouped {
        true => words.push(format!("kv_heads: {}", groups.unwrap_or(1))),
        false => of.ignore("num-query-groups", "of --group-query-attention"),
    }
    let wide = of.number("kv-channels", [1, 1 << 14], "head_dim: {}");
    words.extend(wide.map(|wide| format!("head_dim: {wide}")));
    words.push(format!("vocab: {}", rows(of, tensor, vocab)));
    let table = positions(of, family, [sequence, hidden], defaults);
    words.extend(table.map(|many| format!("positions: {many}")));
    let told = ["tied: true", "tied: false"];
    let own = of.flag("untie-embeddings-and-output-weights", told).unwrap_or(false);
    words.push(format!("tied: {}", !own));
    if !own {
        not_said(defaults, "untie-embeddings-and-output-weights", "tied: true, Megatron's default");
    }
    let biased = of.flag("add-qkv-bias", ["", "qkv_bias: true"]).unwrap_or(false);
    words.extend((biased && !is_ungated(family)).then(|| "qkv_bias: true".to_owned()));
    small(of, family);
    words.extend(experts);
    (format!("{family} of {layers} x {hidden}"), Some(words.join(", ")))
}

/// Whether blocks are like those of GPT-2: norms and matrices with biases.
fn is_ungated(family: &str) -> bool {
    matches!(family, "gpt2" | "bert" | "bloom")
}

fn required(of: &mut Reader<'_>, key: &str, range: [u64; 2], told: &str) -> u64 {
    if of.find(key).is_none() {
        of.missing(key, "pass --model NAME for a model that is known");
    }
    of.number(key, range, told).unwrap_or(1)
}

/// Whether the program trains BERT, whose tokens see those behind them as well; other programs than
/// that and GPT's are of other blocks.
fn bert(of: &mut Reader<'_>, gated: bool, tensor: u64) -> bool {
    let key = "launcher.program";
    let Some(path) = of.find(key).and_then(|(_, entry)| entry.value.as_deref()) else {
        return false;
    };
    let name = path.rsplit('/').next().unwrap_or(path);
    let place = of.find(key).expect("it was found").1.place;
    let other = ["t5", "ict", "biencoder", "vision", "vit", "mamba", "hybrid", "retro", "vlm"];
    if name.split(['_', '-', '.']).any(|word| other.contains(&word)) {
        let rule = "programs of Megatron that train GPT or BERT are modelled";
        of.wrong(place, rule, name, "pass --model with a model that is known");
    }
    let is_bert = name.split(['_', '-', '.']).any(|word| word == "bert");
    if is_bert {
        of.text(key, |_| Fate::Taken("family: bert".to_owned()));
        if gated {
            of.wrong(place, "a block of BERT has no gate", name, "leave out --swiglu");
        }
        if let Some((_, entry)) = of.find("tensor-model-parallel-size").filter(|_| tensor > 1) {
            let rule = "layers of BERT are whole on each rank here";
            of.wrong(entry.place, rule, &tensor.to_string(), "write 1: ranks are then replicas");
        }
    }
    is_bert
}

/// The width between the matrices of the feed-forward part, or of one expert.
fn ffn(
    of: &mut Reader<'_>,
    gated: bool,
    hidden: u64,
    experts: bool,
    defaults: &mut Vec<Row>,
) -> u64 {
    let said = of.number("ffn-hidden-size", [1, 1 << 22], "ffn: {}");
    let key = "moe-ffn-hidden-size";
    let expert = of.number(key, [1, 1 << 22], "ffn: {}");
    if !experts {
        of.ignore(key, "there are no experts");
    } else if let Some(expert) = expert {
        of.ignore("ffn-hidden-size", "every block has experts, whose width is said");
        return expert;
    }
    said.unwrap_or_else(|| {
        // As `validate_args` has it: a gated part as large as one that is not.
        let wide = if gated { 8 * hidden / 3 / 64 * 64 } else { 4 * hidden };
        not_said(defaults, "ffn-hidden-size", &format!("ffn: {wide}, Megatron's default"));
        wide.max(1)
    })
}

/// Rows of the table of tokens, which every rank has as many of.
fn rows(of: &mut Reader<'_>, tensor: u64, said: Option<u64>) -> u64 {
    let range = [1, 1 << 26];
    let by = of.number("make-vocab-size-divisible-by", [1, 1 << 20], "vocab, rounded up to {}");
    let round = by.unwrap_or(128) * tensor;
    let padded = of.number("padded-vocab-size", range, "vocab: {}");
    let padded = padded.or(of.number("pad-vocab-size-to", range, "vocab: {}"));
    let tokenizer = of.text("tokenizer-type", |word| match word {
        "GPT2BPETokenizer" => Fate::Taken("vocab: 50257, rounded up".to_owned()),
        _ => {
            Fate::Ignored("a tokenizer is not opened: --vocab-size says how many words".to_owned())
        }
    });
    let own = of.number("vocab-size", range, "vocab: {}, rounded up");
    // Scripts from before tokenizers had types name the files of GPT-2's.
    let gpt2 = match tokenizer {
        Some((word, _)) => word == "GPT2BPETokenizer",
        None => of.find("merge-file").is_some(),
    };
    if said.is_some() {
        of.ignore("vocab-size", "the command says another");
    }
    match (padded, said.or(own), gpt2) {
        (Some(padded), ..) => padded,
        (None, Some(words), _) => words.div_ceil(round) * round,
        (None, None, true) => 50_257_u64.div_ceil(round) * round,
        (None, None, false) => {
            of.missing("vocab-size", "pass --vocab N, the words of the tokenizer");
            1
        }
    }
}

/// Rows of learned positions.
fn positions(
    of: &mut Reader<'_>,
    family: &str,
    [sequence, hidden]: [u64; 2],
    defaults: &mut Vec<Row>,
) -> Option<u64> {
    let learned = is_ungated(family) && family != "bloom";
    let key = "max-position-embeddings";
    let many = of.number(key, [1, 1 << 26], "positions: {}");
    if let Some(many) = many.filter(|&many| many < sequence) {
        let place = of.find(key).expect("it was read").1.place;
        let rule = format!("`{key}` is no less than `seq-length`, here {sequence}");
        of.wrong(place, &rule, &many.to_string(), "write a larger one");
    }
    of.text("position-embedding-type", |word| match (word, learned) {
        ("learned_absolute", true) => Fate::Taken("positions".to_owned()),
        ("alibi", false) if family == "bloom" => Fate::Taken("family: bloom".to_owned()),
        ("rope", false) if family != "bloom" => Fate::Taken("family: llama".to_owned()),
        (_, true) => {
            Fate::Ignored(format!("a {family} block stands for it: it has a table of positions"))
        }
        (_, false) => {
            Fate::Ignored(format!("a {family} block stands for it: it has no table of positions"))
        }
    });
    let told = |learned: bool| match learned {
        true => {
            Fate::Ignored(format!("a {family} block stands for it: it has a table of positions"))
        }
        false => Fate::Taken(format!("family: {family}")),
    };
    for key in ["use-rotary-position-embeddings", "no-position-embedding"] {
        of.text(key, |_| told(learned));
    }
    let ways =
        ["position-embedding-type", "use-rotary-position-embeddings", "no-position-embedding"];
    if !learned && ways.iter().all(|key| of.find(key).is_none()) {
        let parameters = many.unwrap_or(sequence).saturating_mul(hidden);
        let why = format!(
            "Megatron's default is learned_absolute, a table of {parameters} parameters on each \
             rank of the ends, which a {family} block has not: write rope, or count them by hand"
        );
        let value = "not said".to_owned();
        defaults.push(Row { line: 0, key: ways[0].to_owned(), value, fate: Fate::Ignored(why) });
        of.ignore(key, "of the table of positions that is left out");
    } else if !learned {
        of.ignore(key, "positions have no table");
    }
    learned.then(|| many.unwrap_or(sequence))
}

fn experts(of: &mut Reader<'_>, gated: bool) -> Option<String> {
    let count = of.number("num-experts", [1, 1 << 16], "experts: (count: {})");
    let active = of.number("moe-router-topk", [1, 1 << 16], "experts: (active: {})");
    let shared = of.find("moe-shared-expert-intermediate-size");
    let Some(count) = count else {
        for key in ["moe-router-topk", "moe-shared-expert-intermediate-size"] {
            of.ignore(key, "there are no experts");
        }
        return None;
    };
    if !gated {
        let place = of.find("num-experts").expect("it was read").1.place;
        let rule = "experts are modelled with a gated feed-forward part";
        of.wrong(place, rule, &count.to_string(), "add --swiglu");
    }
    let key = "moe-shared-expert-intermediate-size";
    let wide = of.number(key, [1, 1 << 22], "experts: (shared: ...)");
    let each = ["moe-ffn-hidden-size", "ffn-hidden-size"].iter().find_map(|key| of.find(key));
    let each: Option<u64> = each.and_then(|(_, entry)| entry.value.as_deref()?.parse().ok());
    let many = wide.map(|wide| wide / each.unwrap_or(wide).max(1)).unwrap_or(0);
    if let (Some(wide), Some((_, entry))) = (wide, shared)
        && many * each.unwrap_or(wide) != wide
    {
        let rule = format!("`{key}` is a multiple of the width of an expert");
        of.wrong(entry.place, &rule, &wide.to_string(), "write one, or leave it out");
    }
    let shared = if many > 0 { format!(", shared: {many}") } else { String::new() };
    Some(format!("experts: (count: {count}, active: {}{shared})", active.unwrap_or(2)))
}

/// Vectors that one of the two kinds of block has and the other has not.
fn small(of: &mut Reader<'_>, family: &str) {
    let ungated = is_ungated(family);
    of.text("normalization", |word| match (word, ungated) {
        ("RMSNorm", false) | ("LayerNorm", true) => Fate::Taken(format!("family: {family}")),
        (_, true) => Fate::Ignored(format!("a {family} block has LayerNorm: a vector more")),
        (_, false) => Fate::Ignored("a llama block has RMSNorm: a vector less".to_owned()),
    });
    of.text("embed-layernorm", |_| match family {
        "bloom" => Fate::Taken("family: bloom".to_owned()),
        _ => {
            Fate::Ignored("a norm behind the embedding: two vectors that are not there".to_owned())
        }
    });
    of.text("disable-bias-linear", |_| match ungated {
        true => Fate::Ignored(format!("a {family} block has biases, a vector for each matrix")),
        false => Fate::Taken(format!("family: {family}")),
    });
    if ungated {
        of.text("add-qkv-bias", |_| Fate::Taken(format!("family: {family}")));
    }
    of.ignore("qk-layernorm", "norms of heads are not modelled: a vector for each");
    of.ignore("apply-layernorm-1p", "how a norm's weight is stored: it has as many bytes");
    of.ignore("squared-relu", "which function lies between the matrices: it moves as many bytes");
}
