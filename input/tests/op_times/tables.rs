//! What tables of ops mean: kinds told by their columns, sizes up to a billion, times or none.

use crate::files::{file, shared};
use crate::op_times::{DEVICES, shipped};
use crate::specs::hardware::shipped_hardware;
use tiersim_input::op_table::read_ops;
use tiersim_models::collective::CollectiveKind;
use tiersim_models::kernel::{Attention, Kernel, Product, Work};
use tiersim_models::measured_op::{MeasuredOp, What};
use tiersim_models::op_times::PricedBy;
use tiersim_models::op_times::experts::{Layer, Spread};

fn ops(text: &str) -> Vec<MeasuredOp> {
    read_ops(&file("ops", "table.csv", text)).unwrap_or_else(|found| panic!("{found}"))
}

fn work(op: &MeasuredOp) -> Work {
    match op.what {
        What::Kernel(Kernel { work, .. }) => work,
        _ => panic!("{op:?} is no kernel"),
    }
}

#[test]
fn products_are_told_by_their_sizes() {
    let all = ops("us,k,n,m,dtype\n12.5,3,2,1,bfloat16\n,6,5,4,fp8\n");
    assert_eq!(work(&all[0]), Work::Product(Product::new(1, 2, 3)));
    assert_eq!((all[0].line, all[0].precision, all[0].seconds), (2, "bf16", Some(12.5 * 1e-6)));
    assert_eq!((all[1].line, all[1].precision, all[1].seconds), (3, "fp8", None));
    let What::Kernel(kernel) = all[1].what else { panic!("it is a kernel") };
    // 4 x 6 and 6 x 5 in bytes, 4 x 5 in two.
    assert_eq!((kernel.flops, kernel.bytes.get()), (240, 24 + 30 + 40));
    assert_eq!([all[0].kind(), all[1].kind()], ["product"; 2]);
}

/// A log of a program of nccl-tests on one host, with these rows.
fn log(begins: &str, ranks: u32, rows: &str) -> String {
    let rank = |rank| format!("#  Rank {rank} Group  0 Pid 7 on  node-{} device {rank}\n", 0);
    let ranks: String = (0..ranks).map(rank).collect();
    format!(
        "{begins}# nThread 1 nGpus 4 minBytes 8 maxBytes 2048 step: 2(factor)\n#\n{ranks}#\n\
         #                             out-of-place             in-place\n\
         #  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n\
         #   (B)  (elements)                (us)  (GB/s)\n{rows}# Avg bus bandwidth : 1\n"
    )
}

#[test]
fn a_log_of_nccl_tests_is_a_table_of_collectives() {
    let sums = "  1024  256  float  sum  -1  10.0  0.10  0.15  0  9.0  0.11  0.17  0\n\
                2048  512  float  sum  -1  20.5  0.10  0.15  0  N/A\n";
    let of = |text: &str| {
        let of = |op: &MeasuredOp| match op.what {
            What::Collective(of, _) => {
                let us = op.seconds.map(|seconds| (seconds * 1e6).round());
                (op.line, op.precision, of.kind, of.ranks(), of.bytes.get(), us)
            }
            _ => panic!("{op:?} is no collective"),
        };
        ops(text).iter().map(of).collect::<Vec<_>>()
    };
    // 2 x 3 / 4 of the algorithm's bandwidth on the bus is an all-reduce of four.
    let reduced = CollectiveKind::AllReduce;
    assert_eq!(
        of(&log("", 4, sums)),
        [(11, "fp32", reduced, 4, 1024, Some(10.0)), (12, "fp32", reduced, 4, 2048, Some(21.0))]
    );
    let gathered = "1024  128  half  none  -1  10.0  0.10  0.08  0  9.0  0.11  0.08  0\n";
    let named = log("$ mpirun -np 1 ./build/all_gather_perf -g 4\n", 4, gathered);
    assert_eq!(of(&named), [(12, "fp16", CollectiveKind::AllGather, 4, 1024, Some(10.0))]);
    let scattered = sums.replace("0.15", "0.075");
    // Several programs one after the other, and sizes of which nothing is sent.
    let second = log("# Collective test starting: alltoall_perf\n", 4, gathered);
    let both = log("", 4, &format!("0 0 float sum -1 3.0 0 0 0 3.0 0 0 0\n{scattered}")) + &second;
    let kinds: Vec<_> = of(&both).iter().map(|op| op.2).collect();
    let scatter = CollectiveKind::ReduceScatter;
    assert_eq!(kinds, [scatter, scatter, CollectiveKind::AllToAll]);
    let refused = |text: &str| read_ops(&file("ops", "log.txt", text)).expect_err(text).to_string();
    for (text, why) in [
        (log("", 4, gathered), "does not say which collective"),
        (log("", 2, sums), "does not say which collective"),
        (log("broadcast_perf\n", 4, sums), "that are priced"),
        (log("", 4, ""), "has rows"),
        (log("", 4, &sums.replace("float", "double")), "type is one of"),
        (log("", 4, &sums.replace("20.5", "nan")), "time is a number above 0"),
        (log("", 4, sums).replace("node-0 device 3", "node-1 device 3"), "2 hosts"),
        (log("", 1, sums).replace("Rank", "Task"), "0 lines"),
    ] {
        assert!(refused(&text).contains(why), "{}", refused(&text));
    }
}

#[test]
fn attention_is_of_prompts_or_of_single_tokens() {
    let prompts = ops("dtype,kv_dtype,batch,sequence,past,heads,kv_heads,head_dim,window\n\
                       bf16,fp8,2,64,,8,2,128,\nbf16,bf16,2,1,9,8,2,128,5\n");
    let of = Attention {
        batch: 2,
        new: 64,
        past: 0,
        heads: 8,
        kv_heads: 2,
        head_dim: 128,
        window: 0,
        kv_bytes: 1,
        causal: true,
    };
    assert_eq!(work(&prompts[0]), Work::Attention(of));
    let one = Attention { new: 1, past: 9, window: 5, kv_bytes: 2, ..of };
    assert_eq!(work(&prompts[1]), Work::Attention(one));
    assert_eq!([prompts[0].kind(), prompts[1].kind()], ["prefill", "decode"]);
    // The token that a step makes is the last of those that it attends to.
    let steps = ops("dtype,kv_dtype,batch,kv_length,heads,kv_heads,head_dim,window,us\n\
                     bf16,bf16,2,10,8,2,128,5,3\n");
    assert_eq!(work(&steps[0]), Work::Attention(one));
}

#[test]
fn experts_are_shared_out_and_may_have_no_gate() {
    let all = ops(
        "dtype,tokens,hidden,intermediate,top_k,experts,tensor_parallel,expert_parallel,distribution\n\
         bf16,16,64,96,2,8,3,4,power_law_1.2\nfp8,16,2048,5120,2,512,,,balanced\n",
    );
    let layer = Layer {
        tokens: 16,
        hidden: 64,
        ffn: 32,
        gated: true,
        top_k: 2,
        experts: 8,
        expert_parallel: 4,
    };
    let law = Spread::PowerLaw { inverse: 5 };
    assert_eq!(all[0].what, What::Experts(layer, law));
    let What::Experts(layer, Spread::Balanced) = all[1].what else { panic!("it is balanced") };
    assert!(!layer.gated, "by its sizes");
    let own = ops("dtype,tokens,hidden,intermediate,top_k,experts,gated\n\
                   bf16,1,2048,5120,2,512,true\nbf16,1,8,8,2,8,false\n");
    let gates = own.iter().map(|op| match op.what {
        What::Experts(layer, _) => layer.gated,
        _ => panic!("it is a layer of experts"),
    });
    assert_eq!(gates.collect::<Vec<_>>(), [true, false]);
}

#[test]
fn collectives_have_bytes_and_may_be_summed_in_a_switch() {
    let all = ops("collective,dtype,gpus,elements,us\nall_reduce,half,8,512,9\n\
                   alltoall,int8,4,512,9\n");
    let of = |op: &MeasuredOp| match op.what {
        What::Collective(of, adds) => (of.kind, of.bytes.get(), of.within, of.servers, adds),
        _ => panic!("{op:?} is no collective"),
    };
    assert_eq!(of(&all[0]), (CollectiveKind::AllReduce, 1024, 8, 1, true));
    assert_eq!(of(&all[1]), (CollectiveKind::AllToAll, 512, 4, 1, false));
}

/// Sizes of a billion are priced or left out, and overflow nowhere.
#[test]
fn the_largest_sizes_are_priced() {
    const B: &str = "1000000000";
    let tables = [
        format!("dtype,m,n,k\nbf16,{B},{B},{B}\nfp8,{B},{B},{B}\nfp32,{B},{B},{B}\n"),
        format!(
            "dtype,kv_dtype,batch,sequence,past,heads,kv_heads,head_dim,window\n\
             bf16,bf16,{B},{B},{B},{B},{B},{B},\nfp8,fp8,{B},{B},{B},{B},1,{B},{B}\n\
             fp32,fp32,{B},{B},{B},{B},{B},{B},\n"
        ),
        format!(
            "dtype,kv_dtype,batch,kv_length,heads,kv_heads,head_dim\nbf16,fp8,{B},{B},{B},{B},{B}\n"
        ),
        format!(
            "dtype,tokens,hidden,intermediate,top_k,experts,expert_parallel,distribution\n\
             bf16,{B},{B},{B},{B},{B},1,power_law_1.01\nbf16,{B},{B},{B},1,{B},{B},power_law_1.2\n\
             fp32,{B},{B},{B},{B},{B},{B},\nbf16,{B},8,8,4096,4096,1,power_law_1.001\n"
        ),
        format!("collective,dtype,gpus,elements\nall_reduce,half,{B},18446744073709551615\n"),
    ];
    for name in ["h100-sxm-pcie5", "dgx-h100"] {
        let machine = shipped_hardware(name);
        for op in tables.iter().flat_map(|table| ops(table)) {
            if let Some((seconds, _)) = op.on(&machine) {
                assert!(seconds.is_finite() && seconds > 0.0, "{op:?}: {seconds}");
            }
        }
    }
}

#[test]
fn ops_of_other_precisions_are_left_to_the_roofline() {
    let machine = shipped_hardware("h100-sxm-pcie5");
    let by = |text: &str| ops(text)[0].on(&machine).map(|(_, by)| by);
    assert_eq!(by("dtype,m,n,k\nbf16,8,8,8\n"), Some(PricedBy::Measurement));
    assert_eq!(by("dtype,m,n,k\ntf32,8,8,8\n"), Some(PricedBy::Roofline));
    let head = "dtype,tokens,hidden,intermediate,top_k,experts\n";
    assert_eq!(by(&format!("{head}bf16,8,8,8,2,8\n")), Some(PricedBy::Measurement));
    assert_eq!(by(&format!("{head}tf32,8,8,8,2,8\n")), Some(PricedBy::Roofline));
    assert_eq!(by(&format!("{head}int8,8,8,8,2,8\n")), None, "it states no such peak");
}

/// What the shipped files say of their own errors is what these readers and formulas make of the
/// tables, where those lie beside the checkout.
#[test]
fn the_published_tables_have_the_errors_that_the_files_state() {
    let bounds = [("gemm", 8.0), ("attention-prefill", 9.0), ("attention-decode", 9.0)];
    for device in DEVICES {
        for (kind, bound) in bounds.into_iter().chain([("moe", 13.0), ("nccl", 7.0)]) {
            let Some(path) = shared(&format!("gpu-op-times/{device}-{kind}.csv.gz")) else {
                continue;
            };
            let times = shipped(device).times;
            let mut errors = Vec::new();
            // Every tenth row: enough for a median.
            for op in read_ops(&path).unwrap().iter().step_by(10) {
                let of = op.by_formula(&times, &op.loads(&times)).unwrap().0;
                errors.push((of / op.seconds.unwrap() - 1.0).abs() * 100.0);
            }
            errors.sort_by(f64::total_cmp);
            let median = errors[errors.len() / 2];
            assert!(median < bound, "{device} {kind}: {median} % in the median");
        }
    }
}
