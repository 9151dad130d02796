//! A search in a sorted list that begins near what it looks for.

/// Returns the first index from `from` on whose element does not pass, when all elements that pass come first. As
/// [`partition_point`](slice::partition_point) of the rest of the list, but it costs the logarithm of how far the index is,
/// and looks at near elements first: for one who walks through a list by pixels.
///
/// ```
/// let offsets = [0, 10, 20, 30, 40];
/// assert_eq!(allotment_analyze::partition_point_from(&offsets, 1, |&offset| offset < 25), 3);
/// ```
pub fn partition_point_from<T>(list: &[T], from: usize, passes: impl Fn(&T) -> bool) -> usize {
    let mut step = 1;
    let mut low = from;
    while list.get(low.saturating_add(step - 1)).is_some_and(&passes) {
        low += step;
        step *= 2;
    }
    let high = low.saturating_add(step - 1).min(list.len());
    // `from` may be the end, and beyond it.
    low + list.get(low..high).map_or(0, |near| near.partition_point(passes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_finds_what_a_search_of_the_whole_rest_finds(
            mut list in prop::collection::vec(0..100u32, 0..200),
            from in 0..210usize,
            limit in 0..110u32,
        ) {
            list.sort_unstable();
            let rest = list.get(from..).unwrap_or_default();
            let expected = from + rest.partition_point(|&at| at < limit);
            prop_assert_eq!(partition_point_from(&list, from, |&at| at < limit), expected);
        }
    }
}
