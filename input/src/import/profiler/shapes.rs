//! What the recorded shapes of an op's inputs say: bytes of the first, FLOPs and shapes of products.

use super::events::Args;
use tiersim_models::kernel::Product;

/// Bytes of one element of a type, in the profiler's spelling; none for what is no tensor.
fn element_bytes(word: &str) -> Option<u64> {
    Some(match word {
        "double" | "long int" | "long" | "long long" | "c10::complex<float>" => 8,
        "float" | "int" => 4,
        "c10::Half" | "c10::BFloat16" | "short" | "short int" => 2,
        "bool" | "unsigned char" | "signed char" | "c10::Float8_e4m3fn" | "c10::Float8_e5m2" => 1,
        _ => return None,
    })
}

/// Bytes of the first input; 0 where its shape or type is not known.
pub(super) fn input_bytes(args: &Args) -> u64 {
    let (Some(shape), Some(word)) = (args.shapes.first(), args.types.first()) else { return 0 };
    let Some(element) = element_bytes(word) else { return 0 };
    let count = |sum: u64, size: &i64| sum.checked_mul(u64::try_from(*size).ok()?);
    shape.iter().try_fold(element, count).unwrap_or(0)
}

/// Which input is the left matrix of a product; the right one follows it.
fn left_matrix(name: &str) -> Option<usize> {
    match name {
        "aten::mm" | "aten::bmm" => Some(0),
        "aten::addmm" | "aten::baddbmm" => Some(1),
        _ => None,
    }
}

/// FLOPs of a product of matrices; 0 for any other op, or where the shapes are not known.
pub(super) fn flops(name: &str, args: &Args) -> u64 {
    let Some(first) = left_matrix(name) else { return 0 };
    let (Some(left), Some(right)) = (args.shapes.get(first), args.shapes.get(first + 1)) else {
        return 0;
    };
    let Some(columns) = right.last().filter(|_| left.len() == right.len() && left.len() >= 2)
    else {
        return 0;
    };
    let sizes = left.iter().chain([columns, &2]);
    let mut flops = sizes.map(|size| u64::try_from(*size).ok());
    let flops = flops.try_fold(1u64, |product, size| product.checked_mul(size?));
    // Sums over any trace stay below 2^64.
    flops.filter(|&flops| flops < 1 << 50).unwrap_or(0)
}

/// Precision and shape of a product of two matrices, of numbers that op times know.
pub(super) fn product(name: &str, args: &Args) -> Option<(&'static str, Product)> {
    let first = left_matrix(name)?;
    let (left, right) = (args.shapes.get(first)?, args.shapes.get(first + 1)?);
    let (&[m, k], &[inner, n]) = (&left[..], &right[..]) else { return None };
    let precision = match args.types.get(first)?.as_str() {
        "c10::BFloat16" => "bf16",
        "c10::Half" => "fp16",
        "float" => "fp32",
        _ => return None,
    };
    // What a table of ops may have.
    let side =
        |side: i64| u64::try_from(side).ok().filter(|side| (1..=1_000_000_000).contains(side));
    let (m, n, k) = (side(m)?, side(n)?, side(k)?);
    (k == u64::try_from(inner).ok()?).then_some((precision, Product::new(m, n, k)))
}

#[cfg(test)]
mod tests {
    use super::{Args, Product, flops, input_bytes, product};

    #[test]
    fn products_and_bytes_follow_from_shapes() {
        let args = |shapes: &[&[i64]], word: &str| Args {
            shapes: shapes.iter().map(|shape| shape.to_vec()).collect(),
            types: vec![word.to_owned(); shapes.len()],
            ..Args::default()
        };
        assert_eq!(flops("aten::mm", &args(&[&[3, 5], &[5, 7]], "float")), 2 * 3 * 5 * 7);
        assert_eq!(flops("aten::addmm", &args(&[&[7], &[3, 5], &[5, 7]], "float")), 210);
        assert_eq!(flops("aten::bmm", &args(&[&[2, 3, 5], &[2, 5, 7]], "float")), 420);
        assert_eq!(flops("aten::add", &args(&[&[3, 5], &[5, 7]], "float")), 0);
        assert_eq!(flops("aten::mm", &args(&[&[3, 5]], "float")), 0);
        assert_eq!(flops("aten::mm", &args(&[&[1 << 40, 1 << 40], &[1 << 40, 9]], "float")), 0);
        let shape = Product::new(3, 7, 5);
        let of = |name: &str, shapes: &[&[i64]], word: &str| product(name, &args(shapes, word));
        assert_eq!(of("aten::mm", &[&[3, 5], &[5, 7]], "c10::Half"), Some(("fp16", shape)));
        assert_eq!(of("aten::addmm", &[&[7], &[3, 5], &[5, 7]], "float"), Some(("fp32", shape)));
        assert_eq!(of("aten::mm", &[&[3, 5], &[4, 7]], "float"), None);
        assert_eq!(of("aten::mm", &[&[3, 5], &[5, 7]], "long"), None);
        assert_eq!(of("aten::bmm", &[&[2, 3, 5], &[2, 5, 7]], "float"), None);
        assert_eq!(input_bytes(&args(&[&[3, 5]], "c10::BFloat16")), 30);
        assert_eq!(input_bytes(&args(&[&[]], "float")), 4);
        assert_eq!(input_bytes(&args(&[&[3]], "Scalar")), 0);
        assert_eq!(input_bytes(&args(&[&[-3]], "float")), 0);
    }
}
