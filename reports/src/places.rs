//! Tiers, channels and links of the machines of a record, by name.
//!
//! Cases may run on machines that differ in them, and a table has one column for each name. What a
//! machine does not have is nothing, and not 0.
//! Invariant: names come in the order of machines, each once.

use tiersim_models::results::{CaseRecord, Conditions, RunRecord};

/// Names, and what each stands for on each of a record's conditions.
pub(crate) struct Places<T> {
    pub(crate) names: Vec<String>,
    /// By conditions, then by name.
    at: Vec<Vec<Option<T>>>,
}

impl<T: Clone> Places<T> {
    /// What `own` says of the machine of each of a record's conditions.
    pub(crate) fn of(
        record: &RunRecord,
        own: impl Fn(&Conditions) -> Vec<(String, T)>,
    ) -> Places<T> {
        let mut names: Vec<String> = Vec::new();
        for on in record.used() {
            for (name, _) in own(on) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        let at = |on: &Conditions| {
            let own = own(on);
            let find = |name: &String| own.iter().find(|(known, _)| known == name);
            names.iter().map(|name| find(name).map(|(_, place)| place.clone())).collect()
        };
        let at = record.conditions.iter().map(at).collect();
        Places { names, at }
    }

    /// What the name with this number stands for on the machine of a case.
    pub(crate) fn at(&self, case: &CaseRecord, name: usize) -> Option<T> {
        self.at[case.conditions][name].clone()
    }
}

/// Every tier.
pub(crate) fn tiers(record: &RunRecord) -> Places<usize> {
    let numbered = |(index, (name, _)): (usize, &(String, _))| (name.clone(), index);
    Places::of(record, |on| on.tiers.iter().enumerate().map(numbered).collect())
}

/// Every channel.
pub(crate) fn channels(record: &RunRecord) -> Places<usize> {
    let numbered = |(index, name): (usize, String)| (name, index);
    Places::of(record, |on| on.channel_names().into_iter().enumerate().map(numbered).collect())
}

/// Every link, with its channels.
pub(crate) fn link_channels(record: &RunRecord) -> Places<Vec<usize>> {
    let own = |on: &Conditions| {
        let channels = |link: String| {
            let channels = on.channels_of(&link);
            (link, channels)
        };
        links(on).into_iter().map(channels).collect()
    };
    Places::of(record, own)
}

/// Each link of a machine once, in the order of its channels.
pub(crate) fn links(on: &Conditions) -> Vec<String> {
    let mut links: Vec<String> = Vec::new();
    for channel in &on.channels {
        if !links.contains(&channel.link) {
            links.push(channel.link.clone());
        }
    }
    links
}
