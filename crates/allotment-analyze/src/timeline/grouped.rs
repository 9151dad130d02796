//! Numbers by group, in one array: for rows that have few or no entries each.

/// Numbers by group. Costs 4 bytes for each group and each number.
#[derive(Debug, Default)]
pub(crate) struct Grouped {
    /// Group `g` has `items[starts[g]..starts[g + 1]]`.
    starts: Vec<u32>,
    items: Vec<u32>,
}

impl Grouped {
    /// Creates it from pairs of a group and a number. Each group keeps the order of the pairs.
    pub(crate) fn new(groups: usize, pairs: &[(u32, u32)]) -> Self {
        let mut starts = vec![0u32; groups + 1];
        for &(group, _) in pairs {
            starts[group as usize + 1] += 1;
        }
        for group in 0..groups {
            starts[group + 1] += starts[group];
        }
        let mut next = starts.clone();
        let mut items = vec![0; pairs.len()];
        for &(group, item) in pairs {
            let at = &mut next[group as usize];
            items[*at as usize] = item;
            *at += 1;
        }
        Self { starts, items }
    }

    /// Returns the numbers of a group.
    pub(crate) fn of(&self, group: u32) -> &[u32] {
        let group = group as usize;
        &self.items[self.starts[group] as usize..self.starts[group + 1] as usize]
    }
}
