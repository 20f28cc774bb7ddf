//! `ops`: tables of single ops priced, graded and fitted. What it refuses is in `tests/errors`.

use crate::common::*;

const MACHINE: &str = "h100-sxm-pcie5";

/// Products of shapes far apart, with what a column `us` says of each.
fn products(us: impl Fn(usize, [u64; 3]) -> String) -> String {
    let mut text = "dtype,m,n,k,us\n".to_owned();
    let mut index = 0;
    for m in [1, 8, 32, 64, 100, 256, 1000, 4096, 16_384] {
        for n in [64, 256, 1024, 4096, 8192, 28_672] {
            for k in [128, 512, 2048, 4096, 14_336] {
                text += &format!("bf16,{m},{n},{k},{}\n", us(index, [m, n, k]));
                index += 1;
            }
        }
    }
    text
}

/// Microseconds that a machine takes for each op of a table.
fn predicted(project: &Project, table: &str, hardware: &str) -> Vec<f64> {
    let ran = project.run(&["ops", table, "--hardware", hardware, "--out", "priced", "--quiet"]);
    assert_eq!((ran.code, &*ran.stdout), (Some(0), ""), "{}", ran.stderr);
    let text = project.text("priced/ops.csv");
    let cells = text.lines().skip(1).map(|line| line.split(',').nth(3).unwrap());
    cells.map(|cell| cell.parse().unwrap()).collect()
}

/// From -1 to 1, the same on every computer.
fn noise(index: usize) -> f64 {
    let mut x = (index as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

#[test]
fn errors_are_those_of_the_measured_times() {
    let project = Project::empty();
    project.write("plain.csv", products(|_, _| String::new()));
    let times = predicted(&project, "plain.csv", MACHINE);
    // A quarter is measured as slower, and half as quicker, than predicted; one is twice as slow.
    project.write(
        "t.csv",
        products(|index, _| match index {
            7 => format!("{}", times[index] * 2.0),
            _ if index % 4 == 0 => format!("{}", times[index] / 0.8),
            _ if index % 2 == 1 => format!("{}", times[index] / 1.1),
            _ => String::new(),
        }),
    );
    let ran = project.run(&["ops", "t.csv", "--hardware", MACHINE]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("270 priced by measurement of this device"), "{}", ran.stdout);
    let json = project.json("out/t/ops.json");
    let all = &json["grades"][0];
    assert_eq!((&all["kind"], &all["count"]), (&"product".into(), &203.into()));
    // 68 of 0.2, 134 of 0.1, one of 0.5; signed, 69 below and 134 above.
    for (field, want) in [("median", 0.1), ("p95", 0.2), ("bias", 0.1), ("worst", -0.5)] {
        let got = all[field].as_f64().unwrap();
        assert!((got - want).abs() < 1e-6, "{field}: {got} and not {want}");
    }
    assert_eq!(all["worst_line"], 9, "the eighth op, behind the header");
    let counts: u64 = json["grades"].as_array().unwrap()[1..]
        .iter()
        .map(|grade| grade["count"].as_u64().unwrap())
        .sum();
    assert_eq!(counts, 203, "every op is in one range of measured times");
    let files = ["ops.csv", "ops.json", "predicted-vs-measured.png", "predicted-vs-measured.svg"];
    let names = project.names("out/t");
    assert_eq!(names, files);
    // The document on stdout is the file's.
    let ran = project.run(&["ops", "t.csv", "--hardware", MACHINE, "--format", "json"]);
    assert_eq!(ran.stdout, project.text("out/t/ops.json"));
}

#[test]
fn ops_without_a_peak_are_left_out_and_told() {
    let project = Project::empty();
    project.write("t.csv", "dtype,m,n,k\nint8,8,8,8\nbf16,8,8,8\ntf32,8,8,8\n");
    let ran = project.run(&["ops", "t.csv", "--hardware", MACHINE]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for line in [
        "1 left out: no peak of their precision, or no link",
        "1 priced by measurement of this device",
        "1 priced by roofline",
        "without a column us nothing is graded",
    ] {
        assert!(ran.stdout.contains(line), "{line}: {}", ran.stdout);
    }
    assert!(!project.names("out/t").iter().any(|name| name.contains("predicted-vs-measured")));
    // A device that no number was measured on takes the roofline, or those of another.
    project.write("half.csv", "dtype,m,n,k\nfp16,8,8,8\n");
    let by = |hardware: &str| project.run(&["ops", "half.csv", "--hardware", hardware]).stdout;
    assert!(by("v100-32g-dgx2").contains("1 priced by roofline"));
    assert!(by("h100-pcie").contains("1 priced by inheritance from another device"));
    let none = project.run(&["ops", "half.csv", "--hardware", "rubin-pcie7-cxl4", "--fit"]);
    assert_eq!(none.code, Some(2), "{}", none.stdout);
    assert!(none.stderr.contains("has no `compute.op_times`"), "{}", none.stderr);
}

/// The second column of `ops.csv`'s times, of one shape by each kernel of attention.
#[test]
fn attention_runs_on_the_kernel_that_is_named() {
    let project = Project::empty();
    let head = "dtype,kv_dtype,batch,sequence,past,heads,kv_heads,head_dim";
    project.write("t.csv", format!("{head}\nbf16,bf16,1,16384,0,32,8,128\n"));
    let by = |attention: &[&str]| {
        let of = [&["ops", "t.csv", "--hardware", MACHINE], attention].concat();
        let ran = project.run(&of);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(ran.stdout.contains("1 priced by measurement of this device"), "{}", ran.stdout);
        project.text("out/t/ops.csv")
    };
    let named = |name| by(&["--attention", name]);
    let all = ["flash_attention_2", "flash_attention_3", "cudnn"].map(named);
    assert_eq!(all[1], by(&[]), "the engine's is FlashAttention 3");
    assert!(all[0] != all[1] && all[1] != all[2] && all[0] != all[2]);
    for (machine, name, says) in [
        ("dgx-a100-80g", "cudnn", "write flash_attention_2, or leave it out"),
        ("rubin-pcie7-cxl4", "cudnn", "it has no op times; name another machine"),
        (MACHINE, "flash", "write one of flash_attention_2, flash_attention_3, cudnn"),
    ] {
        let ran = project.run(&["ops", "t.csv", "--hardware", machine, "--attention", name]);
        assert_eq!(ran.code, Some(2), "{}", ran.stdout);
        assert!(ran.stderr.contains(says), "{}", ran.stderr);
    }
}

/// What no machine of a kind can do takes no time of another's.
#[test]
fn collectives_without_a_way_are_left_out() {
    let project = Project::empty();
    let of = |gpus: u32| format!("all_reduce,bf16,{gpus},268435456\n");
    project.write("t.csv", format!("collective,dtype,gpus,elements\n{}{}", of(8), of(72)));
    for (machine, left_out) in [
        ("dgx-h100", 1),
        ("dgx-b200", 1),
        ("mi300x", 2),
        ("v100-32g-dgx2", 2),
        ("rtx-4090", 2),
        ("l40s", 2),
        // Such devices have links to others; how many, a file of one does not say.
        ("h200-sxm-pcie5", 0),
    ] {
        let ran = project.run(&["ops", "t.csv", "--hardware", machine]);
        let told = format!("{left_out} left out: no peak of their precision, or no link");
        assert_eq!(ran.stdout.contains(&told), left_out > 0, "{machine}: {}", ran.stdout);
    }
}

/// Times of a machine whose numbers are known, 3 % of noise on them: a fit that starts from
/// numbers of half and twice the size gives them back, and the file that it writes is one that the
/// machine can name.
#[test]
fn a_fit_gives_back_the_numbers_that_times_were_made_of() {
    let project = Project::shipped();
    project.write("plain.csv", products(|_, _| String::new()));
    let times = predicted(&project, "plain.csv", MACHINE);
    project.write(
        "t.csv",
        products(|index, _| format!("{}", times[index] * (1.0 + 0.03 * noise(index)))),
    );
    let truth = "hardware-specs/op-times/h100.ron";
    for (from, to) in [
        ("launch: us(2.45)", "launch: us(4.9)"),
        ("flops: tflops(858.8)", "flops: tflops(430)"),
        ("memory: gb_per_s(2878)", "memory: gb_per_s(4000)"),
        ("fill: gb_per_s(222.5)", "fill: gb_per_s(300)"),
        ("split: us(2.658)", "split: us(1.3)"),
        ("store: gb_per_s(35.55)", "store: gb_per_s(60)"),
    ] {
        project.edit(truth, from, to);
    }
    let fit = ["ops", "t.csv", "--hardware", MACHINE, "--fit", "--out", "fit"];
    let ran = project.run(&fit);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stdout.contains("    products: (\n        source: measured("), "{}", ran.stdout);
    let json = project.json("fit/ops.json");
    let section = &json["fits"][0];
    assert_eq!(section["section"], "products");
    let error = |which: &str| section[which]["median"].as_f64().unwrap();
    assert!(error("before") > 0.1 && error("held_out") < 0.03 && error("after") < 0.03);
    assert!(section["after"]["p95"].as_f64().unwrap() < 0.05, "{section}");
    for (name, want, off) in [
        ("launch", 2.45e-6, 0.03),
        ("flops", 858.8e12, 0.03),
        ("memory", 2878e9, 0.03),
        ("fill", 222.5e9, 0.1),
        ("split", 2.658e-6, 0.1),
        ("overlap", 4.0, 0.0),
    ] {
        let numbers = section["numbers"].as_array().unwrap();
        let number = numbers.iter().find(|number| number["name"] == name).unwrap();
        let got = number["after"].as_f64().unwrap();
        assert!((got / want - 1.0).abs() <= off, "{name}: {got} and not {want}");
    }
    // The same again is the same to the byte.
    let before = project.files("fit");
    assert_eq!(project.run(&fit).stdout, ran.stdout);
    assert_eq!(project.files("fit"), before);
    // What was written is in order, and prices as the fit said that it would.
    let check = project.run(&["check", "fit/op-times.ron"]);
    assert_eq!(check.stdout, "fit/op-times.ron: op times of a device, no problems\n");
    project.write("hardware-specs/op-times/h100.ron", project.text("fit/op-times.ron"));
    let ran = project.run(&["ops", "t.csv", "--hardware", MACHINE, "--out", "again"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let again = project.json("again/ops.json");
    let got = again["grades"][0]["median"].as_f64().unwrap();
    assert!((got - error("after")).abs() < 1e-6, "{got} and not {}", error("after"));
}

/// What is no number of a formula goes along: for which experts a kernel has tuned tiles.
#[test]
fn a_fit_keeps_what_tiles_were_tuned_for() {
    let project = Project::shipped();
    project.write("p.csv", products(|index, _| format!("{}", 5 + index)));
    project.write(
        "e.csv",
        "dtype,tokens,hidden,intermediate,top_k,experts,tensor_parallel,expert_parallel,distribution\n\
         bfloat16,4096,4096,14336,2,8,2,1,balanced\n",
    );
    let experts = |out: &str| {
        project.run(&["ops", "e.csv", "--hardware", "dgx-a100-80g", "--out", out]).ends_with(0);
        project.text(&format!("{out}/ops.csv"))
    };
    let before = experts("before");
    let fit = ["ops", "p.csv", "--hardware", "dgx-a100-80g", "--fit", "--out", "fit"];
    project.run(&fit).ends_with(0);
    project.write("hardware-specs/op-times/a100.ron", project.text("fit/op-times.ron"));
    assert_eq!(experts("after"), before);
}

/// Prompts and single tokens share rates, which prompts alone tell: a table of single tokens moves
/// none of them, and one of prompts nothing that is of single tokens.
#[test]
fn prompts_and_single_tokens_are_fitted_apart() {
    let project = Project::empty();
    for (table, column, own) in [("p", "sequence,past", false), ("d", "kv_length", true)] {
        let mut text = format!("dtype,kv_dtype,batch,{column},heads,kv_heads,head_dim,us\n");
        for index in 0..120u64 {
            let (batch, length) = (1 << (index % 7), 64 << (index % 9));
            let length = if own { format!("{length}") } else { format!("{length},0") };
            text +=
                &format!("bf16,bf16,{batch},{length},{},8,128,{}\n", 8 << (index % 3), 40 + index);
        }
        project.write(&format!("{table}.csv"), text);
        let ran = project.run(&["ops", &format!("{table}.csv"), "--hardware", MACHINE, "--fit"]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let json = project.json(&format!("out/{table}/ops.json"));
        let numbers = json["fits"][0]["numbers"].as_array().unwrap();
        let told = numbers.iter().filter(|number| number["told"] == true);
        let names: Vec<&str> = told.map(|number| number["name"].as_str().unwrap()).collect();
        assert!(names.len() > 2, "{names:?}");
        assert!(names.iter().all(|name| name.starts_with("decode_") == own), "{names:?}");
        for number in numbers.iter().filter(|number| number["told"] == false) {
            assert_eq!(number["before"], number["after"], "{number}");
        }
    }
}

/// Published times of an H100, where they lie beside the checkout: numbers that were fitted with
/// another program are as good as a fit from numbers that are not.
#[test]
fn published_collectives_are_fitted_as_well_as_the_shipped_numbers_are() {
    let Some(table) = beside("gpu-op-times/h100-nccl.csv.gz") else { return };
    let project = Project::shipped();
    let table = table.to_str().unwrap();
    let truth = "hardware-specs/op-times/h100.ron";
    let shipped = fit_of(&project, table);
    project.edit(truth, "            start: us(4.49)", "            start: us(9)");
    project.edit(truth, "            share: 0.805", "            share: 0.5");
    let other = fit_of(&project, table);
    assert!(other[0] > 0.1, "{other:?}");
    for after in [shipped[1], other[1]] {
        assert!(after < shipped[0] * 1.1, "{after} and not {}", shipped[0]);
    }
}

/// The median errors before and after.
fn fit_of(project: &Project, table: &str) -> [f64; 2] {
    let ran = project.run(&["ops", table, "--hardware", "h100-sxm-pcie5", "--fit", "--out", "o"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let json = project.json("o/ops.json");
    ["before", "after"].map(|which| json["fits"][0][which]["median"].as_f64().unwrap())
}

#[test]
fn structured_operators_are_held_against_dense_ones_and_attention() {
    let project = Project::shipped();
    let table = |hardware: &str, heads: &str| -> Value {
        let args = ["ops", "--structured", "--hardware", hardware, "--heads", heads];
        let args = [&args[..], &["--out", "o", "--format", "json"]].concat();
        let found = project.run(&args).ends_with(0).json();
        assert_eq!(found, project.json("o/operators.json"));
        found
    };
    let found = table("t4", "1");
    let sizes = found["sizes"].as_array().expect("sizes");
    let asked: Vec<u64> = sizes.iter().filter_map(|size| size["size"].as_u64()).collect();
    assert_eq!(asked, (9..=17).map(|power| 1 << power).collect::<Vec<u64>>());
    let mut products = "dtype,m,n,k,us\n".to_owned();
    for size in sizes {
        let of = |way: &str, key: &str| {
            size["ways"][way][key].as_u64().unwrap_or_else(|| panic!("{way} has no {key}: {size}"))
        };
        let (n, r, b) = (size["size"].as_u64().unwrap(), size["rank"].as_u64().unwrap(), 128);
        assert_eq!(r, u64::from(n.ilog2()));
        // Two products with factors and three diagonals; all pairs; scores and softmax.
        assert_eq!(of("structured", "flops"), 2 * 2 * n * r * b + 2 * (3 * n - 2) * b);
        assert_eq!(of("dense", "flops"), 2 * n * n * b);
        assert_eq!(of("flash attention", "flops"), 4 * n * n * b);
        assert_eq!(of("eager attention", "flops"), 4 * n * n * b + 5 * n * n);
        // LU is 2/3 N^3 but for its panels, and a substitution each way.
        let (lu, whole) = (of("dense solve", "flops") as f64, (n as f64).powi(3) * 2.0 / 3.0);
        let panels = whole - (lu - 2.0 * (n * n * b) as f64);
        assert!((0.0..=512.0 * (n * n) as f64).contains(&panels), "{n}: {panels}");
        // What formulas of memory say of the same operator.
        let line = ["memory", "--semiseparable", &n.to_string(), "--format", "json"];
        let memory = project.run(&line).ends_with(0).json();
        assert_eq!(memory["gpu_bytes"], of("structured", "bytes"));
        assert_eq!(of("dense", "bytes"), 2 * n * n);
        assert_eq!(of("structured solve", "kernels"), 2 * r + 3);
        products += &format!("fp16,{b},{n},{n},\n");
    }
    // A dense product takes what the same product of a table takes.
    project.write("dense.csv", products);
    let priced = predicted(&project, "dense.csv", "t4");
    for (size, us) in sizes.iter().zip(priced) {
        let own = size["ways"]["dense"]["us"].as_f64().expect("a number");
        assert!((own - us).abs() < 1e-5, "{own} {us}");
    }
    // From where on it is quicker is what the times say.
    for (way, from) in found["quicker_from"].as_object().expect("a map") {
        let own = if way.ends_with("solve") { "structured solve" } else { "structured" };
        let from = from.as_u64().expect("it wins at last");
        let us = |size: &Value, way: &str| size["ways"][way]["us"].as_f64().expect("a number");
        let quicker: Vec<bool> = sizes.iter().map(|size| us(size, own) < us(size, way)).collect();
        let least = asked.iter().position(|&size| size == from).expect("a size");
        assert!(quicker[least..].iter().all(|&quicker| quicker), "{way} from {from}");
        assert!(least == 0 || !quicker[least - 1], "{way} from {from}");
    }
    assert_eq!(project.text("o/operators.csv").lines().count(), 1 + 9 * 6);
    // The page has what the machines give.
    let page = fs::read_to_string(shipped("docs/howto/memory.md")).expect("it is there");
    for hardware in ["rtx-3090", "rtx-4090", "a100-80g-pcie4", "h100-sxm-pcie5", "t4"] {
        let [one, many] = ["1", "32"].map(|heads| table(hardware, heads));
        let from = |way: &str| one["quicker_from"][way].to_string();
        let ways = ["dense", "flash attention", "eager attention", "dense solve"].map(from);
        let last = &many["quicker_from"]["flash attention"];
        let row = format!("| `{hardware}` | {} | {last} |", ways.join(" | "));
        // Attention of 32 heads computes as much more in one kernel; operators take as long 32 times.
        let of = |found: &Value, way: &str, key: &str| {
            found["sizes"][3]["ways"][way][key].as_f64().expect("a number")
        };
        for key in ["us", "flops", "bytes", "kernels"] {
            let ratio = of(&many, "structured", key) / of(&one, "structured", key);
            assert!((ratio - 32.0).abs() < 1e-9, "{key}: {ratio}");
        }
        let flash =
            |key: &str| of(&many, "flash attention", key) / of(&one, "flash attention", key);
        assert_eq!((flash("flops"), flash("bytes"), flash("kernels")), (32.0, 32.0, 1.0));
        assert!(flash("us") < 32.0, "{hardware}");
        assert!(page.contains(&row), "docs/howto/memory.md lacks {row}");
    }
    for map in [&found, &sizes[0], &sizes[0]["ways"]["dense"]] {
        for key in map.as_object().expect("a map").keys() {
            assert!(page.contains(&format!("`{key}`")), "docs/howto/memory.md lacks `{key}`");
        }
    }
}
