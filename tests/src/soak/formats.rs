//! Formats in which tiers of a drawn machine store objects packed.

use super::dice::Dice;
use crate::prelude::*;
use tiersim_models::compression::{Choice, Format, Packer, RATIO_UNIT, problem};
use tiersim_models::hardware::Link;

/// Formats of some machines, which get a link for each; none for most.
pub(super) fn choice(dice: &mut Dice, hardware: &mut Hardware) -> Choice {
    let mut choice = Choice::default();
    if !dice.chance(25) {
        return choice;
    }
    choice.only_if_it_pays = dice.chance(40);
    for number in 0..dice.pick(&[1, 1, 2, 3]) {
        let by = dice.pick(&[Packer::Cpu, Packer::Cpu, Packer::Device]);
        let outside = hardware.tier_ids().filter(|&tier| tier != HBM);
        let tiers: Vec<TierId> = match by {
            Packer::Device => outside.collect(),
            Packer::Cpu => outside.filter(|_| dice.chance(60)).collect(),
        };
        let kinds = ObjectKind::ALL.into_iter().filter(|_| dice.chance(60)).collect();
        let works = |tier: &TierId| by.works_in(hardware.tiers[tier.index()].kind);
        let there = hardware.tier_ids().find(works);
        let [setup, rate] = [dice.pick(&[0, 0, 1_000, 5_000_000]), dice.pick(&[1, 20, 3_000])];
        let ratio = dice.pick(&[RATIO_UNIT, 1_060_000, 1_500_000, 3_938_461, 64 * RATIO_UNIT]);
        let Some(there) = there.filter(|_| !tiers.is_empty()) else { continue };
        let link = LinkId::at(hardware.links.len());
        let (name, channels) = (format!("format-{number}"), Format::channels(link));
        let format = Format { name, tiers, kinds, dtypes: Vec::new(), ratio, by, channels };
        let routes = hardware.routes().expect("every drawn machine is joined");
        if problem(&format, hardware, &routes).is_some() {
            continue;
        }
        let laws = [rate, 1 + rate / 3].map(|gb| Law {
            setup: Span::from_ps(setup),
            rate: Bandwidth::new(gb * 1_000_000_000).expect("above zero"),
        });
        choice.formats.push(format);
        if choice.overlap().is_some() && !choice.only_if_it_pays {
            choice.formats.pop();
            continue;
        }
        let format = choice.formats.last().expect("it was added");
        hardware.links.push(Link::new(format.name.clone(), (there, there), laws));
        let devices = hardware.server.devices;
        if by == Packer::Cpu && devices > 1 {
            hardware.server.links.push((link, devices));
        }
    }
    choice
}
