//! The knapsack against all choices, and its rounding against its bound.

use crate::placements::worlds::Dice;
use tiersim_policies::packing::{Packing, Period};

fn random(dice: &mut Dice, items: usize, periods: u64) -> Packing {
    let sizes: Vec<u64> = (0..items).map(|_| 1 + dice.below(50)).collect();
    let mut packing = Packing {
        values: (0..items).map(|_| dice.below(100)).collect(),
        sizes,
        periods: Vec::new(),
    };
    for _ in 0..1 + dice.below(periods) {
        let items: Vec<usize> = (0..items).filter(|_| dice.below(4) > 0).collect();
        let total: u64 = items.iter().map(|&item| packing.sizes[item]).sum();
        packing.periods.push(Period { capacity: dice.below(total + 2), items });
    }
    packing
}

fn fits(packing: &Packing, chosen: impl Fn(usize) -> bool) -> bool {
    packing.periods.iter().all(|period| {
        let items = period.items.iter().filter(|&&item| chosen(item));
        items.map(|&item| packing.sizes[item]).sum::<u64>() <= period.capacity
    })
}

fn worth(packing: &Packing, chosen: impl Fn(usize) -> bool) -> u64 {
    (0..packing.values.len()).filter(|&item| chosen(item)).map(|item| packing.values[item]).sum()
}

#[test]
fn few_items_are_chosen_as_well_as_any_choice_on_5000_instances() {
    for seed in 0..5000 {
        let mut dice = Dice::new(seed);
        let items = 1 + dice.below(10) as usize;
        let packing = random(&mut dice, items, 4);
        let packed = packing.clone().solve();
        let takes = |choice: u32| move |item: usize| choice >> item & 1 == 1;
        let choices = (0..1u32 << items).filter(|&choice| fits(&packing, takes(choice)));
        let best = choices.map(|choice| worth(&packing, takes(choice))).max();
        assert!(packed.exact && fits(&packing, |item| packed.chosen[item]), "seed {seed}");
        assert_eq!(worth(&packing, |item| packed.chosen[item]), packed.value, "seed {seed}");
        assert_eq!(Some(packed.value), best, "seed {seed}");
    }
}

/// The best value for one period, by filling a table over its capacity.
fn table(packing: &Packing) -> u64 {
    let period = &packing.periods[0];
    let mut best = vec![0; period.capacity as usize + 1];
    for &item in &period.items {
        let size = packing.sizes[item] as usize;
        for full in (size..best.len()).rev() {
            best[full] = best[full].max(best[full - size] + packing.values[item]);
        }
    }
    let free = (0..packing.values.len()).filter(|item| !period.items.contains(item));
    best[period.capacity as usize] + free.map(|item| packing.values[item]).sum::<u64>()
}

#[test]
fn many_items_are_rounded_to_within_what_the_relaxation_cuts() {
    for seed in 0..200 {
        let mut dice = Dice::new(seed);
        let items = 40 + dice.below(60) as usize;
        let packing = random(&mut dice, items, 1);
        let packed = packing.clone().solve();
        let best = table(&packing);
        assert!(fits(&packing, |item| packed.chosen[item]), "seed {seed}");
        assert!(packed.value <= best && best as f64 <= packed.bound, "seed {seed}");
        assert!(packed.value + packed.cut >= best, "seed {seed}: the gap is larger than stated");
    }
    for seed in 0..200 {
        let mut dice = Dice::new(seed);
        let packing = random(&mut dice, 50, 8);
        let packed = packing.clone().solve();
        assert!(!packed.exact && fits(&packing, |item| packed.chosen[item]), "seed {seed}");
        let gap = packed.bound - packed.value as f64;
        assert!((0.0..=packed.cut as f64 + 1.0).contains(&gap), "seed {seed}: {gap}");
        assert!(packed.cut <= 100 * packing.periods.len() as u64, "seed {seed}: no corner");
    }
}
